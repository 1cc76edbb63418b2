//! Proof tokens: a value of one of these types can only be had where the CPU has the features that
//! it names. A kernel keeps the token beside its key and calls its `target_feature` functions on
//! the strength of it.

/// This CPU has AES-NI, PCLMULQDQ and SSSE3 (SSE2 is in every x86-64).
#[derive(Clone, Copy)]
pub(super) struct AesNi(());

impl AesNi {
    /// The features, as [`Kernel::features`](crate::kernels::descriptor::Kernel::features) lists them.
    pub(super) const FEATURES: &[&str] = &["aes", "pclmulqdq", "ssse3"];

    /// The proof, on a CPU that has them.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("ssse3"))
        .then_some(Self(()))
    }
}

/// This CPU has VAES and VPCLMULQDQ on 512-bit registers.
#[derive(Clone, Copy)]
pub(super) struct Vaes512(());

impl Vaes512 {
    /// The features, as [`Kernel::features`](crate::kernels::descriptor::Kernel::features) lists them.
    pub(super) const FEATURES: &[&str] = &["aes", "vaes", "vpclmulqdq", "avx512f", "avx512bw"];

    /// The proof, on a CPU that has them.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw"))
        .then_some(Self(()))
    }
}

/// This CPU has VAES and VPCLMULQDQ on 256-bit registers.
#[derive(Clone, Copy)]
pub(super) struct Vaes2(());

impl Vaes2 {
    /// The features, as [`Kernel::features`](crate::kernels::descriptor::Kernel::features) lists them.
    pub(super) const FEATURES: &[&str] = &["aes", "vaes", "vpclmulqdq", "avx2"];

    /// The proof, on a CPU that has them.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("avx2"))
        .then_some(Self(()))
    }
}

/// This CPU has AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, on a CPU that has it.
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

/// This CPU has the foundation of AVX-512.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The proof, on a CPU that has it.
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }
}
