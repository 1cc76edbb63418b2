//! LUKS2 headers around fuzzed parts, and what must hold of every header that is accepted.

use std::convert::Infallible;

use scrim_luks::{Finding, Header, Parsed, Placement, Target, WriteError, dump};
use scrim_sys::memory::SecretBytes;
use sha2::{Digest, Sha256};

/// Bytes of one copy of a header, with the smallest metadata area.
pub const COPY: usize = 0x4000;
/// Bytes of the binary header at the start of a copy.
pub const BINARY: usize = 4096;
/// Range of the checksum field in the binary header.
const CHECKSUM: std::ops::Range<usize> = 448..512;
/// Length of the header device that the headers are for.
pub const DEVICE: u64 = 4 << 40;

/// The metadata of a volume that cryptsetup made with its defaults.
pub const JSON: &str = include_str!("cryptsetup.json");

/// A device with both copies, sound but for the JSON text, which is cut to what there is room for.
pub fn luks2(json: &[u8]) -> Vec<u8> {
    let mut area = vec![0; 2 * COPY];
    for (copy, whole) in area.chunks_exact_mut(COPY).enumerate() {
        let magic = [b"LUKS\xba\xbe", b"SKUL\xba\xbe"][copy];
        whole[..6].copy_from_slice(magic);
        whole[6..8].copy_from_slice(&2u16.to_be_bytes());
        whole[8..16].copy_from_slice(&(COPY as u64).to_be_bytes());
        whole[16..24].copy_from_slice(&3u64.to_be_bytes());
        whole[72..78].copy_from_slice(b"sha256");
        whole[104..168].fill(if copy == 0 { 0x11 } else { 0x22 });
        whole[168..204].copy_from_slice(b"9bbcbbf9-cf9b-48eb-95a2-34484ec7a33b");
        whole[256..264].copy_from_slice(&((copy * COPY) as u64).to_be_bytes());
        let len = json.len().min(COPY - BINARY - 1);
        whole[BINARY..BINARY + len].copy_from_slice(&json[..len]);
        seal(whole);
    }
    area
}

/// Makes the SHA-256 checksum of a whole copy right.
pub fn seal(whole: &mut [u8]) {
    whole[CHECKSUM].fill(0);
    let digest = Sha256::digest(&*whole);
    whole[CHECKSUM][..32].copy_from_slice(&digest);
}

/// Asks a header for everything that needs no passphrase. Nothing may panic, no text may move a terminal's
/// cursor, and no range may leave its device.
pub fn exercise(parsed: &Parsed) {
    let header = &parsed.header;
    assert_printable(&dump::text(header, "disk.img"));
    let json = dump::json(header).to_string();
    serde_json::from_str::<serde_json::Value>(&json).expect("what is printed as JSON is JSON");
    for finding in &parsed.findings {
        assert_printable(&finding.to_string());
    }
    match header.data_segment() {
        Ok(segment) => {
            for device in [0, 511, 512, DEVICE, u64::MAX] {
                for placement in [Placement::Attached, Placement::Detached] {
                    if let Ok(extent) = segment.extent(placement, device) {
                        assert!(extent.start <= extent.end && extent.end <= device);
                        assert!(extent.start.is_multiple_of(512));
                        assert!(
                            placement == Placement::Detached || extent.start >= header.header_end()
                        );
                    }
                }
            }
        }
        Err(refusal) => assert_printable(&refusal.to_string()),
    }
    let mut areas: Vec<_> = header
        .keyslots()
        .iter()
        .map(|slot| slot.material())
        .collect();
    areas.sort_by_key(|area| area.start);
    assert!(
        areas.windows(2).all(|pair| pair[0].end <= pair[1].start),
        "key slots overlap"
    );
    let passphrase = SecretBytes::copied_from(b"x");
    for slot in header.keyslots_to_try(None).unwrap_or_default() {
        // Without key material no key derivation starts, whatever it would cost.
        let refusal = header.unlock(slot, &[], &passphrase);
        assert_printable(&refusal.err().expect("there is no key material").to_string());
    }
}

/// A header that was refused says why in a text that a terminal can show.
pub fn assert_printable(text: &str) {
    let odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    assert!(!text.chars().any(odd), "control characters in {text:?}");
    assert!(!text.is_empty());
}

/// Asserts that a repaired header is read back as the same header, with nothing left to repair.
pub fn assert_repairs(area: &[u8], parsed: &Parsed) {
    let plan = match parsed.repair_plan() {
        Ok(Some(plan)) => plan,
        Ok(None) => return,
        // Printed again a number may be longer: `1e20` is `100000000000000000000.0`.
        Err(WriteError::JsonTooLarge { .. }) => return,
        Err(error) => panic!("a header that was read cannot be written: {error}"),
    };
    let mut disk = Disk(area.to_vec());
    plan.apply(&mut disk).expect("memory can be written");
    let again = Header::parse(&disk.0, DEVICE).expect("what was mended is accepted");
    assert!(
        again.repair.is_none(),
        "{:?} after a repair",
        again.findings
    );
    let of_copies = |finding: &&Finding| {
        matches!(
            finding,
            Finding::DamagedCopy { .. } | Finding::OlderCopy { .. } | Finding::CopiesDiffer { .. }
        )
    };
    assert_eq!(again.findings.iter().find(of_copies), None);
    assert_eq!(dump::json(&parsed.header), dump::json(&again.header));
    let documents = [&parsed.header, &again.header].map(|header| match header {
        Header::Luks2(header) => Some(header.document()),
        Header::Luks1(_) => None,
    });
    assert_eq!(documents[0], documents[1]);
}

struct Disk(Vec<u8>);

impl Target for Disk {
    type Error = Infallible;

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Infallible> {
        let start = usize::try_from(offset).expect("a header is small");
        let end = start + bytes.len();
        self.0.resize(self.0.len().max(end), 0);
        self.0[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
