//! The input is the first 512 bytes of the primary binary header, then those of the secondary; each
//! gets a right checksum and sound JSON behind it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::header::{
    COPY, DEVICE, JSON, assert_printable, assert_repairs, exercise, luks2, seal,
};
use scrim_luks::{Consent, Finding, Header, HeaderCopy};

/// Bytes of a binary header that have a meaning.
const FIELDS: usize = 512;

fuzz_target!(|fields: &[u8]| {
    let mut area = luks2(JSON.as_bytes());
    for (fuzzed, whole) in fields.chunks(FIELDS).zip(area.chunks_exact_mut(COPY)) {
        whole[..fuzzed.len()].copy_from_slice(fuzzed);
        seal(whole);
    }
    match Header::parse(&area, DEVICE) {
        Ok(parsed) => {
            exercise(&parsed);
            assert_eq!(
                parsed.repair.is_some(),
                parsed.findings.iter().any(of_copies)
            );
            if let Some(repair) = parsed.repair {
                // No copy is torn here, so each difference between the copies is deliberate.
                let older = matches!(parsed.findings[..], [Finding::OlderCopy { .. }, ..]);
                let unasked = repair.consent == Consent::NotNeeded;
                assert!(!older || unasked);
                // If the primary is torn it may look like something else, for which a repair needs consent.
                assert!(!unasked || older || torn(&parsed.findings));
                let offset = if repair.copy == HeaderCopy::Primary {
                    COPY
                } else {
                    0
                };
                assert_label(&area[offset..], &parsed.header);
            }
            assert_repairs(&area, &parsed);
        }
        Err(error) => assert_printable(&error.to_string()),
    }
});

fn of_copies(finding: &Finding) -> bool {
    use Finding::{CopiesDiffer, DamagedCopy, OlderCopy};
    matches!(
        finding,
        DamagedCopy { .. } | OlderCopy { .. } | CopiesDiffer { .. }
    )
}

/// Returns whether a copy has a wrong checksum: the one made here is of another kind than the header names, or longer.
fn torn(findings: &[Finding]) -> bool {
    let checksum = scrim_luks::CopyFault::Checksum;
    findings
        .iter()
        .any(|finding| matches!(finding, Finding::DamagedCopy { fault, .. } if *fault == checksum))
}

/// Checks that the chosen header has the fields of the copy that needs no repair.
fn assert_label(whole: &[u8], header: &Header) {
    let text = |at: usize, len: usize| {
        let field = &whole[at..at + len];
        let end = field
            .iter()
            .position(|&byte| byte == 0)
            .expect("a NUL ends it");
        std::str::from_utf8(&field[..end]).expect("it is text")
    };
    assert_eq!(header.label().unwrap_or_default().raw(), text(24, 48));
    assert_eq!(header.uuid().raw(), text(168, 40));
    assert_eq!(header.subsystem().unwrap_or_default().raw(), text(208, 48));
}
