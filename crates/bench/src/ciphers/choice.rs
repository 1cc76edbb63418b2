//! Ciphers that can be measured.

use scrim_crypt::{
    CipherError, CipherSpec, Geometry, Implementation, SectorCipher, SectorSize, State,
    implementations_of,
};

/// A cipher with a size of key.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub spec: CipherSpec,
    /// Length of the whole volume key, in bytes.
    pub key_bytes: usize,
    /// The driver, where another than the best is wanted.
    pub driver: Option<&'static str>,
}

/// Cryptsetup's choice, with the IVs that volumes have.
const USUAL: [(&str, usize); 12] = [
    ("aes-cbc-essiv:sha256", 16),
    ("serpent-cbc-essiv:sha256", 16),
    ("twofish-cbc-essiv:sha256", 16),
    ("aes-cbc-essiv:sha256", 32),
    ("serpent-cbc-essiv:sha256", 32),
    ("twofish-cbc-essiv:sha256", 32),
    ("aes-xts-plain64", 32),
    ("serpent-xts-plain64", 32),
    ("twofish-xts-plain64", 32),
    ("aes-xts-plain64", 64),
    ("serpent-xts-plain64", 64),
    ("twofish-xts-plain64", 64),
];

/// One specification for each mode of AES, and for CBC also one without ESSIV. (The null cipher has nothing to
/// measure.)
pub const MODES: [&str; 6] = [
    "aes-xts-plain64",
    "aes-cbc-essiv:sha256",
    "aes-cbc-plain64",
    "aes-ctr-plain64",
    "aes-ecb",
    "aes-lrw-benbi",
];

/// One specification for each mode of the other ciphers.
pub const OTHER_CIPHERS: [&str; 17] = [
    "serpent-xts-plain64",
    "serpent-cbc-essiv:sha256",
    "serpent-ctr-plain64",
    "serpent-ecb",
    "serpent-lrw-benbi",
    "twofish-xts-plain64",
    "twofish-cbc-essiv:sha256",
    "twofish-ctr-plain64",
    "twofish-ecb",
    "twofish-lrw-benbi",
    "camellia-xts-plain64",
    "camellia-cbc-essiv:sha256",
    "camellia-ctr-plain64",
    "camellia-ecb",
    "camellia-lrw-benbi",
    "xchacha12,aes-adiantum-plain64",
    "xchacha20,aes-adiantum-plain64",
];

/// Ciphers that `cryptsetup benchmark` measures.
#[must_use]
pub fn usual() -> Vec<Subject> {
    let subjects = USUAL.iter().filter_map(|(spec, key_bytes)| {
        Some(Subject {
            spec: spec.parse().ok()?,
            key_bytes: *key_bytes,
            driver: None,
        })
    });
    subjects.collect()
}

/// Every cipher and mode with every size of key on every driver that can be used here.
#[must_use]
pub fn all() -> Vec<Subject> {
    let specs = MODES.iter().chain(&OTHER_CIPHERS);
    let specs = specs.filter_map(|text| text.parse().ok());
    specs.flat_map(|spec| every(&spec)).collect()
}

/// Every size of key of `spec` on every driver that can be used here, or on the one that it names.
fn every(spec: &CipherSpec) -> Vec<Subject> {
    let drivers = drivers_of(spec);
    let sizes = spec.key_sizes().iter();
    let pairs = sizes.flat_map(|bytes| drivers.iter().map(move |driver| (*bytes, *driver)));
    pairs
        .map(|(key_bytes, driver)| Subject {
            spec: spec.clone(),
            key_bytes,
            driver: Some(driver.driver),
        })
        .collect()
}

/// The drivers of `spec` that can be used here, the best first; only the one that it names where it
/// names one.
fn drivers_of(spec: &CipherSpec) -> Vec<&'static Implementation> {
    implementations_of(spec)
        .filter(|row| row.state() == State::Ready)
        .filter(|row| spec.driver().is_none_or(|driver| driver == row.driver))
        .collect()
}

impl Subject {
    /// Returns the specification with every size of key and every driver.
    #[must_use]
    pub fn every(&self) -> Vec<Self> {
        every(&self.spec)
    }

    /// Sets the cipher up with a key that is no secret.
    pub(super) fn cipher(&self, sector_size: SectorSize) -> Result<SectorCipher, CipherError> {
        let key: Vec<u8> = (0..=u8::MAX).cycle().take(self.key_bytes).collect();
        let geometry = Geometry::new(sector_size);
        match self.driver {
            Some(driver) => SectorCipher::new_with_driver(driver, &self.spec, &key, geometry),
            None => SectorCipher::new(&self.spec, &key, geometry),
        }
    }

    /// Bits of one AES key; `None` for a cipher without AES.
    pub(super) fn aes_bits(&self) -> Option<usize> {
        if self.spec.cipher() != "aes" {
            return None;
        }
        Some(self.spec.cipher_key_size(self.key_bytes) * 8)
    }

    /// Name of the cipher as a part of series' names.
    pub(super) fn name(&self) -> String {
        let bits = self.key_bytes * 8;
        match self.driver {
            None => format!("{}_{bits}b", self.spec),
            Some(driver) => format!("{}_{bits}b_{driver}", self.spec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(subjects: &[Subject]) -> Vec<String> {
        subjects.iter().map(Subject::name).collect()
    }

    #[test]
    fn the_usual_ones_are_cryptsetups() {
        assert_eq!(
            names(&usual()),
            [
                "aes-cbc-essiv:sha256_128b",
                "serpent-cbc-essiv:sha256_128b",
                "twofish-cbc-essiv:sha256_128b",
                "aes-cbc-essiv:sha256_256b",
                "serpent-cbc-essiv:sha256_256b",
                "twofish-cbc-essiv:sha256_256b",
                "aes-xts-plain64_256b",
                "serpent-xts-plain64_256b",
                "twofish-xts-plain64_256b",
                "aes-xts-plain64_512b",
                "serpent-xts-plain64_512b",
                "twofish-xts-plain64_512b",
            ]
        );
        let usual = usual();
        let bits: Vec<_> = usual.iter().filter_map(Subject::aes_bits).collect();
        assert_eq!(bits, [128, 256, 128, 256]);
        let lrw = Subject {
            spec: "aes-lrw-benbi".parse().unwrap(),
            key_bytes: 48,
            driver: None,
        };
        assert_eq!(lrw.aes_bits(), Some(256));
    }

    #[test]
    fn all_are_every_key_on_every_driver() {
        let all = all();
        for spec in MODES.iter().chain(&OTHER_CIPHERS) {
            let portable = all.iter().filter(|subject| {
                subject.spec.to_string() == *spec
                    && subject
                        .driver
                        .is_some_and(|driver| driver.ends_with("portable"))
            });
            let key_sizes = if spec.contains("adiantum") { 1 } else { 3 };
            assert_eq!(portable.count(), key_sizes, "{spec}");
        }
        for subject in &all {
            assert!(
                subject.cipher(SectorSize::S512).is_ok(),
                "{}",
                subject.name()
            );
        }
    }

    #[test]
    fn one_driver_can_be_asked_for() {
        let subject = |spec: &str| Subject {
            spec: spec.parse().unwrap(),
            key_bytes: 64,
            driver: None,
        };
        let named = subject("capi:xts-aes-portable-plain64");
        let cipher = named.cipher(SectorSize::S512).unwrap();
        assert_eq!(cipher.implementation().driver, "xts-aes-portable");
        assert_eq!(named.every().len(), 3);
        let any = subject("aes-xts-plain64");
        assert_eq!(any.every().len(), 3 * drivers_of(&any.spec).len());
        assert_eq!(subject("cipher_null-ecb").aes_bits(), None);
    }
}
