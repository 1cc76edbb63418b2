//! Key derivation: from a passphrase to a key, at a cost that an attacker pays for every guess.
//!
//! [`Kdf::derive`] runs a function with the parameters that a header names, after checking them
//! against what is sensible and what this machine has; [`calibrate_argon2`] and
//! [`calibrate_pbkdf2`] measure the parameters for a new header.
//!
//! Argon2 is implemented in this crate, for speed; PBKDF2 and the hashes use the RustCrypto crates.

mod argon2;
mod calibrate;
mod error;
mod guard;
mod hash;
mod machine;
mod parallel;
mod pbkdf2;

pub use argon2::{Argon2Cost, Argon2Kind};
pub use calibrate::{DIGEST_TIME, KEYSLOT_TIME, calibrate_argon2, calibrate_pbkdf2};
pub use error::KdfError;
pub use guard::{KdfGuard, Unguarded};
pub use hash::{Hash, UnknownHash};
pub use machine::MachineLimits;

use guard::Watch;

/// Passphrase and salt from which a key is derived.
#[derive(Clone, Copy)]
struct Input<'a> {
    passphrase: &'a [u8],
    salt: &'a [u8],
}

/// A key derivation function with its cost. The salt is stored beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 (RFC 8018, section 5.2) with HMAC.
    Pbkdf2 {
        /// The hash of HMAC.
        hash: Hash,
        /// Iterations: 1 to 2³⁰, which takes minutes to half an hour.
        iterations: u32,
    },
    /// Argon2i (RFC 9106), version 1.3: reads its memory in an order that tells nothing about the
    /// passphrase.
    Argon2i {
        /// Passes, memory and lanes.
        cost: Argon2Cost,
    },
    /// Argon2id (RFC 9106), version 1.3: as Argon2i for half a pass, then in an order that depends
    /// on the passphrase, which costs an attacker more.
    Argon2id {
        /// Passes, memory and lanes.
        cost: Argon2Cost,
    },
}

impl Kdf {
    /// Fills `out` with the key for `passphrase` and `salt`, within what this machine has at the
    /// moment.
    ///
    /// # Errors
    /// [`KdfError`]: a parameter is out of range, or there is not enough memory. Both are found
    /// before any memory is taken.
    pub fn derive(&self, passphrase: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), KdfError> {
        self.derive_within(&MachineLimits::read(), passphrase, salt, out)
    }

    /// Like [`derive`](Self::derive), within the given limits. The result does not depend on them.
    ///
    /// # Errors
    /// As for [`derive`](Self::derive).
    pub fn derive_within(
        &self,
        limits: &MachineLimits,
        passphrase: &[u8],
        salt: &[u8],
        out: &mut [u8],
    ) -> Result<(), KdfError> {
        self.run(limits, &Watch::new(&Unguarded), passphrase, salt, out)
    }

    /// Like [`derive`](Self::derive), until `guard` stops it.
    ///
    /// # Errors
    /// As for [`derive`](Self::derive), and what the guard says.
    pub(crate) fn derive_guarded(
        &self,
        guard: &dyn KdfGuard,
        passphrase: &[u8],
        salt: &[u8],
        out: &mut [u8],
    ) -> Result<(), KdfError> {
        let watch = Watch::new(guard);
        self.run(&MachineLimits::read(), &watch, passphrase, salt, out)
    }

    fn run(
        &self,
        limits: &MachineLimits,
        watch: &Watch<'_>,
        passphrase: &[u8],
        salt: &[u8],
        out: &mut [u8],
    ) -> Result<(), KdfError> {
        let (kind, cost) = match self {
            Self::Pbkdf2 { hash, iterations } => {
                pbkdf2::check(*iterations)?;
                let input = Input { passphrase, salt };
                return hash.pbkdf2(input, *iterations, out, limits.cpus, watch);
            }
            Self::Argon2i { cost } => (Argon2Kind::Argon2i, *cost),
            Self::Argon2id { cost } => (Argon2Kind::Argon2id, *cost),
        };
        argon2::derive(kind, cost, limits, watch, Input { passphrase, salt }, out)
    }
}

#[cfg(test)]
mod tests;
