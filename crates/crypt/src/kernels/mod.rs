//! The code that encrypts and decrypts data units, one module for each way of doing it.

pub(crate) mod argon2;
pub(crate) mod descriptor;
pub(crate) mod gcm;
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
use self::gcm::Gcm;

/// Every kernel of this build.
pub(crate) fn kernels() -> impl Iterator<Item = &'static Kernel> {
    #[cfg(target_arch = "x86_64")]
    let wide = x86_64::KERNELS;
    #[cfg(not(target_arch = "x86_64"))]
    let wide = &[];
    wide.iter().chain(portable::KERNELS)
}

/// Every kernel of AES-GCM of this build.
pub(crate) fn gcm() -> impl Iterator<Item = &'static Gcm> {
    #[cfg(target_arch = "x86_64")]
    return x86_64::GCM.iter();
    #[cfg(not(target_arch = "x86_64"))]
    return std::iter::empty();
}
