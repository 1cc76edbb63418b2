//! Requests in pieces, and out of memory that others may change: the general path.
//!
//! It is for future exports over memory that a client shares, such as rings of a guest: a request comes
//! as a list of pieces there, cut anywhere, and the client can write to them while they are encrypted. No
//! export calls it yet: today's receive each request into one buffer of their own. [`Vectored`] is the
//! only way in.
//!
//! `tests/vectored.rs` compares it with runs in one buffer, for every mode, sector size and driver.
//! `tests/shared_source.rs` changes a source after every single instruction. The example `gather` measures
//! it beside one buffer and beside copies; `cargo xtask rivals illumos` measures a framework whose general
//! path went block by block, beside runs.

mod gather;

use std::ops::{Deref, DerefMut};

pub use self::gather::Gathered;
use crate::cipher::SectorCipher;
use crate::kernels::shared::SharedSource;
use crate::sector::IvSector;

/// A cipher for runs that come in pieces, as with `readv` and `writev`: any number of pieces, of any
/// length, empty ones too, which may split a sector or a cipher block anywhere. The bytes are those
/// of one contiguous buffer. Sectors that lie whole in one piece are transformed where they lie;
/// only sectors that are split go through a buffer in between, and [`Gathered`] counts them.
///
/// # Panics
/// Every call panics when the pieces together are not a whole number of sectors, or when those of source
/// and destination differ in length.
#[derive(Clone, Copy)]
pub struct Vectored<'a>(&'a SectorCipher);

impl<'a> Vectored<'a> {
    /// The same cipher, for runs in pieces.
    #[must_use]
    pub const fn of(cipher: &'a SectorCipher) -> Self {
        Self(cipher)
    }

    /// Encrypts the sectors from `first` on, in place in several buffers.
    pub fn encrypt_in_place(
        self,
        first: IvSector,
        pieces: &mut [impl DerefMut<Target = [u8]>],
    ) -> Gathered {
        gather::in_place(self.0.unit(), pieces, self.0.encrypt_after(first))
    }

    /// Decrypts the sectors from `first` on, in place in several buffers.
    pub fn decrypt_in_place(
        self,
        first: IvSector,
        pieces: &mut [impl DerefMut<Target = [u8]>],
    ) -> Gathered {
        gather::in_place(self.0.unit(), pieces, self.0.decrypt_after(first))
    }

    /// Encrypts the sectors from `first` on, from several buffers to several others, which may be
    /// cut at other places.
    pub fn encrypt(
        self,
        first: IvSector,
        source: &[impl Deref<Target = [u8]>],
        destination: &mut [impl DerefMut<Target = [u8]>],
    ) -> Gathered {
        let encrypt = self.0.encrypt_after(first);
        gather::copy(self.0.unit(), source, destination, encrypt)
    }

    /// Decrypts the sectors from `first` on, from several buffers to several others, which may be
    /// cut at other places.
    pub fn decrypt(
        self,
        first: IvSector,
        source: &[impl Deref<Target = [u8]>],
        destination: &mut [impl DerefMut<Target = [u8]>],
    ) -> Gathered {
        let decrypt = self.0.decrypt_after(first);
        gather::copy(self.0.unit(), source, destination, decrypt)
    }

    /// Like [`Vectored::encrypt`], from memory that others may change meanwhile, and of which each byte
    /// is read once.
    pub fn encrypt_from_shared(
        self,
        first: IvSector,
        source: &[SharedSource<'_>],
        destination: &mut [impl DerefMut<Target = [u8]>],
    ) -> Gathered {
        let encrypt = self.0.encrypt_after(first);
        gather::copy(self.0.unit(), source, destination, encrypt)
    }
}
