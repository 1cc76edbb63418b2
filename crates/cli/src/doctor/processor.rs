//! Examination of the processor: the instructions that it has, and the implementations that they allow.

use scrim_crypt::argon2::Compressor;
use scrim_crypt::{CipherSpec, Implementation, State, chosen, implementations, implementations_of};

use super::finding::Finding;

/// One specification for each name.
const CIPHERS: [(&str, &str); 3] = [
    ("aes-xts", "aes-xts-plain64"),
    ("aes-cbc", "aes-cbc-essiv:sha256"),
    ("aes-ctr", "aes-ctr-plain64"),
];

const NEWER: &str =
    "a processor that has them; for a virtual machine the host's own (QEMU: `-cpu host`)";

pub(super) fn findings() -> Vec<Finding> {
    let mut found = vec![instructions(implementations())];
    for (name, text) in CIPHERS {
        if let Ok(spec) = text.parse::<CipherSpec>() {
            let rows: Vec<_> = implementations_of(&spec).collect();
            found.push(cipher(name, chosen(&spec).ok(), &rows));
        }
    }
    found.push(argon2(Compressor::best().driver()));
    found.extend(sha());
    found
}

/// Finding about the instructions that any of Scrim's own code uses.
fn instructions(rows: &[Implementation]) -> Finding {
    const NAME: &str = "instructions";
    let all = |of: fn(&Implementation) -> &[&'static str]| {
        let mut names: Vec<_> = rows.iter().flat_map(of).copied().collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let wanted = all(|row| row.features);
    let lacking = all(|row| &row.missing);
    let mut has = wanted.clone();
    has.retain(|name| !lacking.contains(name));
    if wanted.is_empty() {
        return Finding::missing(
            NAME,
            "Scrim has no code for those of this processor",
            "everything is computed by portable code, many times slower",
            "an x86-64 or 64-bit ARM processor, or the kernel's dm-crypt",
        );
    }
    if lacking.is_empty() {
        return Finding::found(NAME, has.join(" "));
    }
    let cost = if lacking.contains(&"aes") {
        "AES is computed by portable code, many times slower"
    } else {
        "ciphers take fewer blocks at a time than the fastest code there is"
    };
    let found = format!("{} (not {})", has.join(" "), lacking.join(" "));
    Finding::missing(NAME, found.trim_start(), cost, NEWER)
}

/// Finding about the implementation of a cipher. Instructions that the processor lacks are reported above; reported
/// here is code that was switched off, and code that failed its self-test. `rows` are in order of falling priority.
fn cipher(name: &'static str, taken: Option<&Implementation>, rows: &[&Implementation]) -> Finding {
    let driver = taken.map(|row| row.driver);
    let better = rows.iter().take_while(|row| Some(row.driver) != driver);
    let refused: Vec<_> = better
        .filter(|row| matches!(row.state(), State::Disabled | State::SelfTestFailed))
        .collect();
    let words = |row: &&Implementation| format!("{}: {}", row.driver, row.state());
    let reasons: Vec<_> = refused.iter().map(|row| words(row)).collect();
    let failed = refused.iter().any(|row| row.has_failed());
    let remedy = if failed {
        "report it: `scrim ciphers` shows which; the processor or its virtual machine may be at fault"
    } else {
        "`unset SCRIM_DISABLE`"
    };
    match driver {
        Some(driver) if refused.is_empty() => Finding::found(name, driver),
        Some(driver) => Finding::missing(
            name,
            format!("{driver} ({})", reasons.join("; ")),
            "it is slower than what could be",
            remedy,
        ),
        None => Finding::missing(
            name,
            format!("nothing that can be used ({})", reasons.join("; ")),
            "volumes with this cipher cannot be opened",
            remedy,
        ),
    }
}

fn argon2(driver: &'static str) -> Finding {
    const NAME: &str = "argon2";
    if driver != "argon2-portable" {
        return Finding::found(NAME, driver);
    }
    Finding::missing(
        NAME,
        driver,
        "opening a volume takes longer",
        "an x86-64 processor with AVX2; look whether SCRIM_DISABLE is set",
    )
}

/// Finding about the instructions for PBKDF2 with SHA-1 and SHA-256.
fn sha() -> Option<Finding> {
    #[cfg(target_arch = "x86_64")]
    return Some(if std::is_x86_feature_detected!("sha") {
        Finding::found("sha", "sha")
    } else {
        Finding::missing(
            "sha",
            "the processor has no instructions for SHA-256",
            "key slots with PBKDF2, such as all of LUKS1, take longer to open",
            "a key slot with Argon2: `scrim convert-key --pbkdf argon2id IMAGE` (LUKS2)",
        )
    });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::super::State as Seen;
    use super::*;

    #[test]
    fn every_name_has_a_cipher() {
        let found = findings();
        for (name, _) in CIPHERS {
            assert!(found.iter().any(|finding| finding.name == name), "{name}");
        }
    }

    #[test]
    fn nothing_to_compute_a_cipher_is_missing() {
        let spec: CipherSpec = "aes-xts-plain64".parse().unwrap();
        let rows: Vec<_> = implementations_of(&spec).collect();
        let finding = cipher("aes-xts", None, &rows);
        assert_eq!(finding.state, Seen::Missing);
        let finding = cipher("aes-xts", rows.last().copied(), &rows);
        assert!(finding.found.starts_with("xts-aes-portable"));
    }

    #[test]
    fn a_processor_of_another_kind_is_missing_everything() {
        assert_eq!(instructions(&[]).state, Seen::Missing);
    }

    #[test]
    fn portable_argon2_is_slow() {
        assert_eq!(argon2("argon2-avx2").state, Seen::Found);
        assert_eq!(argon2("argon2-portable").state, Seen::Missing);
    }
}
