//! The hashes that a header may name.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use blake2::digest::consts::{U20, U28, U48};
use hmac::digest::{Digest, FixedOutput, Update};
use hmac::{Hmac, KeyInit, SimpleHmac};
use zeroize::Zeroize;

/// Code that is generic over HMAC with a hash.
pub(super) trait WithHmac {
    type Output;

    fn run<M>(self) -> Self::Output
    where
        M: KeyInit + Update + FixedOutput + Clone + Sync;
}

/// One table for all hashes: the variant, its names (the first is the canonical one), what computes
/// it, and which form of HMAC goes with that.
macro_rules! hashes {
    ($($variant:ident, $name:literal $(or $alias:literal)*, $digest:ty, $hmac:ident;)*) => {
        /// A hash that cryptsetup offers for LUKS, built with OpenSSL or with libgcrypt.
        ///
        /// Names are cryptsetup's. Parsing disregards case, and takes the other names that these
        /// libraries have for a hash. MD4 and MD5, which LUKS2 would allow, are not among them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "SHA-512/256 would read as SHA-512256")]
        pub enum Hash {
            $($variant,)*
        }

        impl Hash {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that headers and cryptsetup use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            fn from_lower_case(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $alias)* => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Length of the digest in bytes.
            #[must_use]
            pub fn digest_len(self) -> usize {
                match self {
                    $(Self::$variant => <$digest>::output_size(),)*
                }
            }

            /// Hashes `pieces` as if they were one, and fills `out` with as much of the digest as
            /// it has room for.
            pub fn digest(self, pieces: &[&[u8]], out: &mut [u8]) {
                match self {
                    $(Self::$variant => digest::<$digest>(pieces, out),)*
                }
            }

            /// Runs code that is generic over HMAC with this hash.
            pub(super) fn with_hmac<W: WithHmac>(self, code: W) -> W::Output {
                match self {
                    $(Self::$variant => code.run::<$hmac<$digest>>(),)*
                }
            }
        }
    };
}

// `SimpleHmac` is for the hashes that have no interface block by block.
hashes! {
    Sha1, "sha1", sha1::Sha1, Hmac;
    Sha224, "sha224" or "sha2-224", sha2::Sha224, Hmac;
    Sha256, "sha256" or "sha2-256", sha2::Sha256, Hmac;
    Sha384, "sha384" or "sha2-384", sha2::Sha384, Hmac;
    Sha512, "sha512" or "sha2-512", sha2::Sha512, Hmac;
    Sha512_224, "sha512-224" or "sha512_224", sha2::Sha512_224, Hmac;
    Sha512_256, "sha512-256" or "sha512_256", sha2::Sha512_256, Hmac;
    Sha3_224, "sha3-224", sha3::Sha3_224, SimpleHmac;
    Sha3_256, "sha3-256", sha3::Sha3_256, SimpleHmac;
    Sha3_384, "sha3-384", sha3::Sha3_384, SimpleHmac;
    Sha3_512, "sha3-512", sha3::Sha3_512, SimpleHmac;
    Ripemd160, "ripemd160" or "rmd160" or "ripemd" or "ripemd-160", ripemd::Ripemd160, Hmac;
    Whirlpool, "whirlpool", whirlpool::Whirlpool, Hmac;
    Blake2b160, "blake2b-160" or "blake2b_160", blake2::Blake2b<U20>, SimpleHmac;
    Blake2b256, "blake2b-256" or "blake2b_256", blake2::Blake2b256, SimpleHmac;
    Blake2b384, "blake2b-384" or "blake2b_384", blake2::Blake2b<U48>, SimpleHmac;
    Blake2b512, "blake2b-512" or "blake2b512" or "blake2b_512", blake2::Blake2b512, SimpleHmac;
    Blake2s128, "blake2s-128" or "blake2s_128", blake2::Blake2s128, SimpleHmac;
    Blake2s160, "blake2s-160" or "blake2s_160", blake2::Blake2s<U20>, SimpleHmac;
    Blake2s224, "blake2s-224" or "blake2s_224", blake2::Blake2s<U28>, SimpleHmac;
    Blake2s256, "blake2s-256" or "blake2s256" or "blake2s_256", blake2::Blake2s256, SimpleHmac;
    Sm3, "sm3", sm3::Sm3, Hmac;
    Streebog256, "stribog256" or "streebog256", streebog::Streebog256, Hmac;
    Streebog512, "stribog512" or "streebog512", streebog::Streebog512, Hmac;
}

fn digest<D: Digest>(pieces: &[&[u8]], out: &mut [u8]) {
    let mut hasher = D::new();
    for piece in pieces {
        hasher.update(piece);
    }
    let mut digest = hasher.finalize();
    for (out, byte) in out.iter_mut().zip(&digest) {
        *out = *byte;
    }
    digest.zeroize();
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Hash {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, UnknownHash> {
        Self::from_lower_case(&name.to_ascii_lowercase()).ok_or(UnknownHash)
    }
}

/// There is no [`enum@Hash`] of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownHash;

impl fmt::Display for UnknownHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no hash of this name is known: choose one of")?;
        for (i, hash) in Hash::ALL.iter().enumerate() {
            write!(f, "{} {hash}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Error for UnknownHash {}
