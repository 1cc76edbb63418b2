//! Every mode on the RustCrypto `aes` crate, in safe code.
//!
//! | | |
//! |---|---|
//! | for | every CPU; also the fallback when the others are disabled |
//! | width | 4 KiB at a time: as many blocks as the crate's widest backend takes in one call |
//! | state | tweaks, counters or ciphertext of those blocks, on the stack, wiped after each call |
//! | constant time | yes: the crate's software backend is bitsliced, all else is arithmetic |
//! | why | correct where nothing else runs, and the second opinion on every other kernel |
//!
//! The crate uses AES instructions where it finds them. `RUSTFLAGS='--cfg aes_backend="soft"'`
//! builds it without.

mod blocks;
mod cbc;
mod ctr;
mod ecb;
mod null;
#[cfg(test)]
mod tests;
mod xts;

pub(crate) use cbc::CBC;
pub(crate) use ctr::CTR;
pub(crate) use ecb::ECB;
pub(crate) use null::NULL;
pub(crate) use xts::XTS;
