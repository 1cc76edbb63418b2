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
mod input;
mod machine;
mod parallel;
mod parameters;
mod pbkdf2;

pub use calibrate::{DIGEST_TIME, KEYSLOT_TIME, calibrate_argon2, calibrate_pbkdf2};
pub use error::KdfError;
pub use guard::{KdfGuard, Unguarded};
pub use hash::{Hash, UnknownHash};
pub use machine::MachineLimits;
pub use parameters::{Argon2Cost, Argon2Kind, Kdf};

use guard::Watch;
use input::Input;

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
                return pbkdf2::derive(*hash, input, *iterations, out, limits.cpus, watch);
            }
            Self::Argon2i { cost } => (Argon2Kind::Argon2i, *cost),
            Self::Argon2id { cost } => (Argon2Kind::Argon2id, *cost),
        };
        argon2::derive(kind, cost, limits, watch, Input { passphrase, salt }, out)
    }
}

#[cfg(test)]
mod tests;
