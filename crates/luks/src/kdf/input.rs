//! Input of a key derivation.

/// Passphrase and salt from which a key is derived.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) passphrase: &'a [u8],
    pub(super) salt: &'a [u8],
}
