//! Kernels for 64-bit ARM with the AES instructions of ARMv8, on `core::arch`.
//!
//! | | |
//! |---|---|
//! | for | every ARMv8 processor with the AES extension; AES-GCM needs PMULL too |
//! | width | 8 blocks of 128 bits in flight; CBC encryption: 8 data units side by side |
//! | registers | 8 of data, 1 round key; XTS: 8 tweaks; CBC decryption: 8 of ciphertext |
//! | bound | unknown: the kernels were only run under emulation, which shows whether results are right |
//! | constant time | yes |
//! | why | the instructions compute AES without tables |
//!
//! AESE adds the round key *before* it substitutes bytes, and AESENC of x86-64 adds it after a round. So the last
//! round key is added by an exclusive or of its own, together with what a mode adds to the block. Many processors
//! execute AESE and the AESMC that follows it as one operation.
//!
//! SVE would compute the same on registers that are 128 bits wide on most processors, and is not used.

#[cfg(target_endian = "big")]
compile_error!("the kernels for 64-bit ARM are for little-endian processors");

mod block;
mod cbc;
mod cpu;
mod ctr;
mod ecb;
mod gcm;
mod key;
mod mode;
pub(crate) mod probe;
mod rounds;
mod xts;

pub(crate) use cpu::cpu_has;

use super::descriptor::Kernel;
use super::gcm::Gcm;

/// Every sector kernel for 64-bit ARM.
pub(crate) static KERNELS: &[Kernel] = &[
    xts::XTS_ARMV8,
    cbc::CBC_ARMV8,
    ctr::CTR_ARMV8,
    ecb::ECB_ARMV8,
];

/// Every kernel of AES-GCM for 64-bit ARM.
pub(crate) static GCM: &[Gcm] = &[gcm::GCM_ARMV8];
