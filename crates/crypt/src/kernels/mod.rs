//! The code that encrypts and decrypts data units, one module for each way of doing it.

pub(crate) mod argon2;
pub(crate) mod descriptor;
pub(crate) mod iv;
pub(crate) mod portable;
pub(crate) mod run;
#[allow(unsafe_code, reason = "memory that no reference may point to")]
pub(crate) mod shared;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "core::arch")]
pub(crate) mod x86_64;

use self::descriptor::Kernel;

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
