//! The code that encrypts and decrypts data units, one module for each way of doing it.

pub(crate) mod argon2;
pub(crate) mod portable;
#[allow(unsafe_code, reason = "memory that no reference may point to")]
mod shared;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "core::arch")]
pub(crate) mod x86_64;

pub use shared::SharedSource;

use crate::iv::Ivs;
use crate::run::Run;
use crate::spec::Algorithm;

/// Every kernel of this build.
pub(crate) static KERNELS: &[Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    x86_64::XTS_VAES512,
    #[cfg(target_arch = "x86_64")]
    x86_64::XTS_VAES2,
    #[cfg(target_arch = "x86_64")]
    x86_64::XTS_AESNI,
    #[cfg(target_arch = "x86_64")]
    x86_64::CBC_VAES512,
    #[cfg(target_arch = "x86_64")]
    x86_64::CBC_VAES2,
    #[cfg(target_arch = "x86_64")]
    x86_64::CBC_AESNI,
    #[cfg(target_arch = "x86_64")]
    x86_64::CTR_VAES512,
    #[cfg(target_arch = "x86_64")]
    x86_64::CTR_VAES2,
    #[cfg(target_arch = "x86_64")]
    x86_64::CTR_AESNI,
    #[cfg(target_arch = "x86_64")]
    x86_64::ECB_VAES512,
    #[cfg(target_arch = "x86_64")]
    x86_64::ECB_VAES2,
    #[cfg(target_arch = "x86_64")]
    x86_64::ECB_AESNI,
    portable::XTS,
    portable::CBC,
    portable::CTR,
    portable::ECB,
    portable::NULL,
];

/// Description of a kernel.
pub(crate) struct Kernel {
    pub(crate) algorithm: Algorithm,
    pub(crate) driver: &'static str,
    /// Name that it shares with its siblings of other algorithms, for `SCRIM_DISABLE`.
    pub(crate) family: &'static str,
    pub(crate) priority: u32,
    pub(crate) constant_time: bool,
    pub(crate) features: &'static [&'static str],
    /// Checks whether this CPU has all `features` and the operating system lets them be used.
    pub(crate) runs_here: fn() -> bool,
    /// Expands a key; `None` where `runs_here` is false, or for a key of another algorithm.
    pub(crate) set_up: fn(&[u8]) -> Option<Box<dyn SectorKernel>>,
}

/// A key, expanded for one kernel. `ivs` gives the IV of each data unit of `run` in turn; kernels
/// of modes without IVs disregard it. All IVs that a key is ever given for units of one length follow
/// one rule with one step: where positions are equal, so are IVs.
///
/// `encrypt` reads each byte of a source that is not also the destination once, since others may be
/// changing it; `decrypt` never gets such a source.
pub(crate) trait SectorKernel: Send + Sync {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>);
    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>);
}
