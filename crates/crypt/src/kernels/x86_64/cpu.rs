//! The CPU at hand. Proof tokens: a value of one of these types can only be had where the CPU has the features that
//! it names. A kernel keeps the token beside its key and calls its `target_feature` functions on
//! the strength of it.

use core::arch::x86_64::__cpuid;

/// Features of a CPU, and the proof that this one has them.
pub(crate) trait Proof: Copy + Send + Sync + 'static {
    /// The features, as [`Kernel::features`](crate::kernels::descriptor::Kernel::features) lists them.
    const FEATURES: &[&str];

    /// The proof, on a CPU that has all features.
    fn detect() -> Option<Self>;
}

/// One table for all tokens: the type, and its features.
macro_rules! proofs {
    ($($(#[$doc:meta])* $token:ident: [$($feature:tt)*];)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $token(());

        impl Proof for $token {
            const FEATURES: &[&str] = &[$($feature,)*];

            fn detect() -> Option<Self> {
                ($(is_x86_feature_detected!($feature))&&*).then_some(Self(()))
            }
        }
    )*};
}

proofs! {
    /// AES on 128-bit registers. SSE2 is in every x86-64.
    AesNi: ["aes" "pclmulqdq" "ssse3"];
    /// The same with three operands for each instruction.
    AesAvx: ["aes" "pclmulqdq" "avx"];
    /// VAES and VPCLMULQDQ on 256-bit registers.
    Vaes2: ["aes" "vaes" "vpclmulqdq" "avx2"];
    /// VAES and VPCLMULQDQ on 512-bit registers.
    Vaes512: ["aes" "vaes" "vpclmulqdq" "avx512f" "avx512bw"];
    /// Arithmetic in the field of AES on 256-bit registers.
    Gfni2: ["gfni" "avx2"];
    /// The same on 512-bit registers.
    Gfni512: ["gfni" "avx2" "avx512f" "avx512bw"];
    /// Integer arithmetic on 256-bit registers.
    Avx2: ["avx2"];
    /// The same, and the foundation of AVX-512.
    Avx2Avx512: ["avx2" "avx512f"];
    /// The foundation of AVX-512.
    Avx512: ["avx512f"];
}

/// Returns whether this CPU computes instructions on 512-bit registers in two turns of vector units of 256 bits, as Zen 4
/// does: family 19h, whose other member, Zen 3, has no such instructions.
pub(crate) fn has_vector_units_of_256_bits() -> bool {
    /// "AuthenticAMD" in EBX, EDX and ECX.
    const AMD: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];
    let maker = __cpuid(0);
    [maker.ebx, maker.edx, maker.ecx] == AMD && family(__cpuid(1).eax) == 0x19
}

/// Family of a CPU, by its signature.
fn family(signature: u32) -> u32 {
    let (base, extended) = (signature >> 8 & 0xf, signature >> 20 & 0xff);
    if base == 0xf { base + extended } else { base }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signatures of processors as their makers and Linux's `/proc/cpuinfo` give them.
    #[test]
    fn the_family_is_read_from_the_signature() {
        for (processor, signature, expected) in [
            ("Zen 2", 0x0083_0f10, 0x17),
            ("Zen 3", 0x00a0_0f11, 0x19),
            ("Zen 4", 0x00a1_0f11, 0x19),
            ("Zen 5", 0x00b0_0f21, 0x1a),
            ("Ice Lake", 0x0006_06a6, 6),
            ("Alder Lake", 0x0009_0672, 6),
        ] {
            assert_eq!(family(signature), expected, "{processor}");
        }
    }
}
