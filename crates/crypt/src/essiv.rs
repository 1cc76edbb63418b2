//! ESSIV: IVs that cannot be predicted without the key. Each is the sector's number, encrypted as
//! one block with a digest of the volume key (kernel documentation, dm-crypt, "essiv").

use scrim_sys::memory::SecretBytes;
use sha2::Digest;

use crate::wipe;

/// One table for all hashes: the variant, its names (the first is the canonical one), what computes
/// it.
macro_rules! hashes {
    ($($variant:ident, $name:literal, $digest:ty;)*) => {
        /// A hash whose digest is a key of every block cipher. Those with digests of another length, as SHA-1 and
        /// SHA-512 have, cannot be used.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum EssivHash {
            $($variant,)*
        }

        impl EssivHash {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name of the hash, in the kernel's spelling.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The digest of a whole volume key: the key that encrypts the IVs.
            pub(crate) fn salt(self, key: &[u8]) -> SecretBytes {
                let salt = match self {
                    $(Self::$variant => digest::<$digest>(key),)*
                };
                wipe::stack();
                salt
            }
        }
    };
}

hashes! {
    Sha256, "sha256", sha2::Sha256;
    Sha3_256, "sha3-256", sha3::Sha3_256;
    Blake2b256, "blake2b-256", blake2::Blake2b256;
    Blake2s256, "blake2s-256", blake2::Blake2s256;
    Blake2s128, "blake2s-128", blake2::Blake2s128;
    Sm3, "sm3", sm3::Sm3;
    Streebog256, "streebog256", streebog::Streebog256;
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn digest<D: Digest>(key: &[u8]) -> SecretBytes {
    SecretBytes::copied_from(&D::digest(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests of "abc" by OpenSSL and Python's hashlib.
    #[test]
    fn each_hash_is_what_its_name_says() {
        for (name, digest) in [
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "sha3-256",
                "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
            ),
            (
                "blake2b-256",
                "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
            ),
            (
                "blake2s-256",
                "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982",
            ),
            ("blake2s-128", "aa4938119b1dc7b87cbad0ffd200d0ae"),
            (
                "sm3",
                "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
            ),
        ] {
            assert_eq!(hex(&salt(name, b"abc")), digest, "{name}");
        }
    }

    /// RFC 6986, section 10.1.2.
    #[test]
    fn streebog() {
        let message = b"012345678901234567890123456789012345678901234567890123456789012";
        assert_eq!(
            hex(&salt("streebog256", message)),
            "9d151eefd8590b89daa6ba6cb74af9275dd051026bb149a452fd84e5e57b5500"
        );
    }

    fn salt(name: &str, key: &[u8]) -> Vec<u8> {
        let mut hashes = EssivHash::ALL.iter();
        let hash = hashes.find(|hash| hash.name() == name).unwrap();
        hash.salt(key).expose().to_vec()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
