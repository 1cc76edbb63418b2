//! Cost of trying a passphrase on a new key slot: as asked for, or measured on this machine.

use std::time::Duration;

use scrim_luks::kdf::{
    Argon2Cost, Argon2Kind, DIGEST_TIME, Hash, Kdf, MachineLimits, calibrate_argon2,
    calibrate_pbkdf2,
};

use crate::args::{PbkdfArgs, PbkdfType};
use crate::error::CliError;

/// Fewest iterations of a digest, as in cryptsetup.
const LEAST_ITERATIONS: u32 = 1000;
/// Least that a key derivation may cost, as in cryptsetup: iterations of PBKDF2 as of a digest, passes
/// and KiB of Argon2.
const LEAST_PASSES: u32 = 4;
const LEAST_MEMORY_KIB: u32 = 32;
/// Bytes of a key's digest.
const DIGEST_LEN: usize = 32;

/// The hash that `--hash` names.
pub(crate) fn hash(name: &str) -> Result<Hash, CliError> {
    name.parse()
        .map_err(|error| CliError::usage(format!("--hash: {error}")))
}

impl PbkdfArgs {
    /// The key derivation function, which LUKS1 prescribes.
    pub(crate) fn function(&self, luks1: bool) -> Result<PbkdfType, CliError> {
        let function = match self.pbkdf {
            None if luks1 => PbkdfType::Pbkdf2,
            None => PbkdfType::Argon2id,
            Some(other) if luks1 && other != PbkdfType::Pbkdf2 => {
                return Err(CliError::usage("LUKS1 has only --pbkdf pbkdf2"));
            }
            Some(function) => function,
        };
        let of_argon2 = self.pbkdf_memory.is_some() || self.pbkdf_parallel.is_some();
        if function == PbkdfType::Pbkdf2 && of_argon2 {
            return Err(CliError::usage(
                "PBKDF2 takes neither memory nor threads; leave --pbkdf-memory and --pbkdf-parallel out, \
                 or choose --pbkdf argon2id",
            ));
        }
        Ok(function)
    }

    /// The function with its cost, for a derived key of `key_bytes`.
    pub(crate) fn kdf(&self, luks1: bool, hash: Hash, key_bytes: usize) -> Result<Kdf, CliError> {
        let target = Duration::from_millis(u64::from(self.iter_time));
        let kind = match self.function(luks1)? {
            PbkdfType::Pbkdf2 => {
                let iterations = match self.pbkdf_force_iterations {
                    Some(iterations) => {
                        at_least(LEAST_ITERATIONS, iterations, "--pbkdf-force-iterations")?
                    }
                    None => calibrate_pbkdf2(hash, key_bytes, target)?,
                };
                return Ok(Kdf::Pbkdf2 { hash, iterations });
            }
            PbkdfType::Argon2i => Argon2Kind::Argon2i,
            PbkdfType::Argon2id => Argon2Kind::Argon2id,
        };
        let limits = MachineLimits::read();
        let memory_kib = self.pbkdf_memory.unwrap_or(limits.argon2_memory_kib());
        let lanes = self.pbkdf_parallel.unwrap_or(limits.argon2_lanes());
        at_least(LEAST_MEMORY_KIB, memory_kib, "--pbkdf-memory")?;
        let cost = match self.pbkdf_force_iterations {
            Some(time) => Argon2Cost {
                time: at_least(LEAST_PASSES, time, "--pbkdf-force-iterations")?,
                memory_kib,
                lanes,
            },
            None => calibrate_argon2(kind, lanes, memory_kib, target, &limits)?,
        };
        Ok(match kind {
            Argon2Kind::Argon2i => Kdf::Argon2i { cost },
            Argon2Kind::Argon2id => Kdf::Argon2id { cost },
        })
    }

    /// Iterations of a key's digest. As in cryptsetup, nothing is measured where the cost is forced.
    pub(crate) fn digest_iterations(&self, hash: Hash) -> Result<u32, CliError> {
        match self.pbkdf_force_iterations {
            Some(_) => Ok(LEAST_ITERATIONS),
            None => Ok(calibrate_pbkdf2(hash, DIGEST_LEN, DIGEST_TIME)?),
        }
    }
}

/// Refuses a cost that makes passphrases easy to guess.
fn at_least(least: u32, asked: u32, option: &str) -> Result<u32, CliError> {
    if asked >= least {
        return Ok(asked);
    }
    Err(CliError::usage(format!(
        "{option} {asked} is too little to protect a passphrase; give at least {least}"
    )))
}
