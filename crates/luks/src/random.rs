//! Random bytes from the operating system.

use std::fmt;

/// Fills `out` from the operating system's generator.
pub(crate) fn fill(out: &mut [u8]) -> Result<(), RandomError> {
    getrandom::fill(out).map_err(RandomError)
}

/// `N` random bytes that are not secret: a salt.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut out = [0; N];
    fill(&mut out)?;
    Ok(out)
}

/// The operating system gave no random bytes.
#[derive(Debug)]
pub struct RandomError(getrandom::Error);

impl fmt::Display for RandomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the operating system gave no random bytes; nothing was derived from them: \
             try again when its generator is ready",
        )
    }
}

impl std::error::Error for RandomError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
