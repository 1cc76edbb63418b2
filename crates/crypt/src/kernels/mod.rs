//! The code that encrypts and decrypts data units, one module for each way of doing it.

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "core::arch")]
pub(crate) mod aarch64;
mod adiantum;
pub(crate) mod argon2;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "pointers")]
mod cursor;
pub(crate) mod descriptor;
pub(crate) mod gcm;
#[allow(unsafe_code, reason = "pointers")]
mod gcm_blocks;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod groups;
pub(crate) mod iv;
mod lrw;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "core::arch::asm")]
mod opaque;
pub(crate) mod portable;
pub(crate) mod run;
#[allow(unsafe_code, reason = "memory that no reference may point to")]
pub(crate) mod shared;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "core::arch")]
pub(crate) mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64 as native;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64 as native;

use self::descriptor::Kernel;
use self::gcm::Gcm;

/// Every kernel of this build.
pub(crate) fn kernels() -> impl Iterator<Item = &'static Kernel> {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    let wide = native::KERNELS;
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    let wide = &[];
    wide.iter().chain(portable::KERNELS)
}

/// Every kernel of AES-GCM of this build.
pub(crate) fn gcm() -> impl Iterator<Item = &'static Gcm> {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    let wide = native::GCM;
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    let wide = &[];
    wide.iter().chain(portable::GCM)
}
