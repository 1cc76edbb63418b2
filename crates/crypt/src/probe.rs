//! Peak throughput of this CPU's AES units, against which ciphers are measured.

/// Computes one AES round for each of `blocks` blocks, rounded down to whole groups of registers, and
/// nothing else. In the same time an AES of `n` rounds processes at most 1/`n` as many blocks. On a CPU
/// without AES instructions, does nothing and returns `false`.
#[must_use]
pub fn aes_rounds(blocks: usize) -> bool {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    return crate::kernels::native::probe::aes_rounds(blocks);
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    {
        let _ = blocks;
        false
    }
}

/// Like [`aes_rounds`], with the registers of the drivers of one family: `vaes512`, `vaes2`, `aesni` or `armv8`. For a
/// family that has none, or that this CPU cannot run, does nothing and returns `false`.
#[must_use]
pub fn aes_rounds_by(family: &str, blocks: usize) -> bool {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    return crate::kernels::native::probe::aes_rounds_by(family, blocks);
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    {
        let _ = (family, blocks);
        false
    }
}
