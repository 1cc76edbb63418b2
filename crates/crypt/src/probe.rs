//! Peak throughput of this CPU's AES units, against which ciphers are measured.

/// Takes `blocks` blocks through one round of AES each, a few less where they do not go into the
/// registers evenly, and does nothing else. No AES with `n` rounds gets more than an n-th as many
/// blocks done in the same time. Returns `false`, and nothing was done, on a CPU without AES
/// instructions.
#[must_use]
pub fn aes_rounds(blocks: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::kernels::x86_64::probe::aes_rounds(blocks);
    #[cfg(not(target_arch = "x86_64"))]
    return blocks == 0;
}
