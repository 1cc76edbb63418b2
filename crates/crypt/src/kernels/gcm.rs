//! AES-GCM (NIST SP 800-38D) as kernels compute it: whole messages, with nonces of 12 bytes.

use super::run::Data;

/// Length of a nonce in bytes.
pub(crate) const NONCE: usize = 12;
/// Length of a tag in bytes.
pub(crate) const TAG: usize = 16;
/// Longest message in bytes: a counter of 32 bits numbers its blocks, and two numbers are used otherwise
/// (SP 800-38D, 5.2.1.1).
pub(crate) const MESSAGE_MAX: u64 = (1 << 36) - 32;

/// AES-GCM with an expanded key.
pub(crate) trait GcmKernel: Send + Sync {
    /// Encrypts a message of at most [`MESSAGE_MAX`] bytes, and returns its tag.
    fn seal(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG];

    /// Decrypts a message of at most [`MESSAGE_MAX`] bytes, and returns the tag that it should have: the caller compares,
    /// and gives nothing of a message with another tag away. A source must not be shared, since it is read twice.
    fn open(&self, nonce: &[u8; NONCE], additional: &[u8], message: Data<'_>) -> [u8; TAG];
}

/// Description of a kernel.
pub(crate) struct Gcm {
    pub(crate) driver: &'static str,
    /// Name that it shares with the sector kernels of its width, for `SCRIM_DISABLE`.
    pub(crate) family: &'static str,
    pub(crate) priority: u32,
    pub(crate) features: &'static [&'static str],
    /// Checks whether this CPU has all `features` and the operating system lets them be used.
    pub(crate) runs_here: fn() -> bool,
    /// Expands a key of 16 or 32 bytes; `None` where the CPU lacks one of `features`, or for a key of another length.
    pub(crate) set_up: fn(&[u8]) -> Option<Box<dyn GcmKernel>>,
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    use super::*;
    use crate::kernels::gcm;

    const IV: &[u8; NONCE] = b"twelve bytes";

    /// A key for each kernel that runs here, and the same key in AWS-LC.
    fn keys() -> Vec<(&'static str, Box<dyn GcmKernel>, LessSafeKey)> {
        let kernels = gcm().flat_map(|kernel| [(kernel, 16), (kernel, 32)]);
        let keys = kernels.filter_map(|(kernel, size)| {
            let key = noise(size, 5);
            let algorithm = if size == 16 {
                &AES_128_GCM
            } else {
                &AES_256_GCM
            };
            let theirs = LessSafeKey::new(UnboundKey::new(algorithm, &key).unwrap());
            Some((kernel.driver, (kernel.set_up)(&key)?, theirs))
        });
        keys.collect()
    }

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut random = scrim_seeded::Random::new(seed);
        (0..len).map(|_| random.next().to_le_bytes()[0]).collect()
    }

    /// Seals a message at an alignment, in place and into a buffer of another alignment, and opens it in the same ways.
    fn check(
        driver: &str,
        ours: &dyn GcmKernel,
        theirs: &LessSafeKey,
        plain: &[u8],
        additional: &[u8],
        alignment: usize,
    ) {
        let len = plain.len();
        let mut expected = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key(*IV);
        let tag = theirs
            .seal_in_place_separate_tag(nonce, Aad::from(additional), &mut expected)
            .unwrap();
        let (mut one, mut other) = (vec![0; len + 64], vec![0; len + 128]);
        let one = &mut one[alignment..][..len];
        let other = &mut other[64 - alignment..][..len];
        let what = format!("{driver}, {len} bytes");

        let copied = Data::Copy {
            source: plain,
            destination: one,
        };
        assert_eq!(ours.seal(IV, additional, copied), tag.as_ref(), "{what}");
        assert!(one == expected, "{what}");
        let copied = Data::Copy {
            source: one,
            destination: other,
        };
        assert_eq!(ours.open(IV, additional, copied), tag.as_ref(), "{what}");
        assert!(other == plain, "{what}");
        let sealed = ours.seal(IV, additional, Data::InPlace(other));
        assert_eq!(sealed, tag.as_ref(), "{what}");
        assert!(other == expected, "{what}");
        let opened = ours.open(IV, additional, Data::InPlace(other));
        assert_eq!(opened, tag.as_ref(), "{what}");
        assert!(other == plain, "{what}");
    }

    #[test]
    fn every_length_at_every_alignment_is_as_aws_lc_has_it() {
        let noise = noise(4096 + 100, 6);
        for (driver, ours, theirs) in keys() {
            for len in 0..=4096 {
                let additional = &noise[..len % 100];
                check(driver, &*ours, &theirs, &noise[..len], additional, len % 64);
            }
            // Around a group of each width, every alignment.
            for len in [1, 17, 128, 255, 256, 300, 511, 512, 513, 1055] {
                for alignment in 0..64 {
                    check(driver, &*ours, &theirs, &noise[..len], b"", alignment);
                }
            }
        }
    }

    #[test]
    fn long_messages_are_as_aws_lc_has_them() {
        let noise = noise(3 << 20, 7);
        for (driver, ours, theirs) in keys() {
            let (additional, plain) = noise.split_at(70_001);
            check(driver, &*ours, &theirs, plain, additional, 1);
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for kernel in gcm() {
            for size in [0, 15, 17, 24, 31, 33, 64] {
                assert!((kernel.set_up)(&vec![1; size]).is_none());
            }
        }
    }
}
