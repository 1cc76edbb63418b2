//! The CPU at hand. Proof tokens: a value of one of these types can only be had where the CPU has the features that
//! it names. A kernel keeps the token beside its key and calls its `target_feature` functions on
//! the strength of it.

use std::arch::is_aarch64_feature_detected;

/// Name that all kernels here share, for `SCRIM_DISABLE`.
pub(super) const FAMILY: &str = "armv8";

/// One table for all tokens: the type, and its features.
macro_rules! proofs {
    ($($(#[$doc:meta])* $token:ident: [$($feature:tt)*];)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $token(());

        impl $token {
            /// The features, as [`Kernel::features`](crate::kernels::descriptor::Kernel::features) lists them.
            pub(super) const FEATURES: &[&str] = &[$($feature,)*];

            /// The proof, on a CPU that has all features.
            pub(super) fn detect() -> Option<Self> {
                ($(is_aarch64_feature_detected!($feature))&&*).then_some(Self(()))
            }
        }
    )*};
}

proofs! {
    /// AES on 128-bit registers.
    Aes: ["aes" "neon"];
    /// The same, and products of polynomials of 64 bits.
    AesPmull: ["aes" "neon" "pmull"];
}

/// Checks whether this CPU has a feature, by Rust's name for it; `None` for a name that is not known here.
pub(crate) fn cpu_has(feature: &str) -> Option<bool> {
    match feature {
        "aes" => Some(is_aarch64_feature_detected!("aes")),
        "neon" => Some(is_aarch64_feature_detected!("neon")),
        "pmull" => Some(is_aarch64_feature_detected!("pmull")),
        _ => None,
    }
}
