//! Memory for secrets, for plaintext in flight, and for memory-hard key derivation.
//!
//! | type | holds | locked against swap | in core dumps | wiped on drop |
//! |---|---|---|---|---|
//! | [`SecretBytes`] | keys, passphrases | yes, reported by [`locking`] when it failed | no | yes |
//! | [`Locked`] | one value, such as an expanded key | likewise | no | yes |
//! | [`DataBuffer`] | plaintext and ciphertext in flight | while the limit allows it | no | no (pages return to the kernel, which clears them) |
//! | [`HugeSlice`] | Argon2's blocks | no (up to 1 GiB) | no | no (likewise) |
//! | [`MappedFile`] | what is stored in a file, as the page cache has it | no (it is on disk as it is) | no | no |

mod huge;
mod locked;
mod mapped;
mod pages;

pub use huge::{HugeSlice, Zeroable};
pub use locked::{DataBuffer, Locked, SecretBytes};
pub use mapped::{MappedBytes, MappedFile};
pub use pages::{Locking, locking};
pub(crate) use pages::{PAGE, Pages};
