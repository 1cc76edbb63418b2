//! Sector ciphers, IV generators, CPU dispatch and authenticated streams. No I/O.
//!
//! A [`CipherSpec`] (`aes-xts-plain64`) and a volume key make a [`SectorCipher`], which encrypts
//! and decrypts *runs* of consecutive sectors, in place or from one buffer to another. The
//! implementation is chosen once, when the key is set up, from the [`implementations`] that this CPU
//! can run, and passes a self-test before its first use; [`SectorCipher::implementation`] tells which
//! was chosen.
//!
//! ```
//! use scrim_crypt::{CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};
//!
//! # fn main() -> Result<(), scrim_crypt::CipherError> {
//! let spec: CipherSpec = "aes-xts-plain64".parse()?;
//! let geometry = Geometry::new(SectorSize::S512);
//! let cipher = SectorCipher::new(&spec, &[7; 64], geometry)?;
//!
//! let mut run = vec![0; 4 * 512]; // sectors 10 to 13
//! cipher.encrypt_in_place(IvSector(10), &mut run);
//! cipher.decrypt_in_place(IvSector(12), &mut run[2 * 512..]); // any part of a run stands alone
//! assert_eq!(run[2 * 512..], [0; 2 * 512]);
//! # Ok(())
//! # }
//! ```
//!
//! A run may also be decrypted from memory that others can change meanwhile ([`SharedSource`]), or come
//! in pieces ([`vectored`]).
//!
//! # Choosing an implementation by hand
//!
//! `SCRIM_DISABLE`, read once per process, is a comma-separated list of what must not be used:
//! drivers (`xts-aes-aesni`), families (`vaes512`, `aesni`, `portable`) or CPU features (`aes`;
//! `avx512` stands for all of its parts). A name that matches nothing here disables nothing, so that
//! one list serves different machines and versions. `awslc` is AWS-LC's AES-GCM for [`stream`]s.
//! [`SectorCipher::new_with_driver`] asks for one driver by name, and so does a specification
//! `capi:xts-aes-aesni-plain64`. The IVs of ESSIV are encrypted by a driver of the same family.
//!
//! The portable drivers of AES are built on the RustCrypto `aes` crate, which looks for AES instructions
//! itself and is not reached by `SCRIM_DISABLE`. To test its constant-time software code on a CPU
//! that has such instructions: `RUSTFLAGS='--cfg aes_backend="soft"' cargo test -p scrim-crypt`.
//!
//! Besides sector ciphers there are authenticated [`stream`]s, and the part of [`argon2`] for which a
//! kernel pays.
//!
//! # Modules
//!
//! Every module is safe code except those of `kernels` that hold code for processors, `kernels::x86_64` and
//! `kernels::aarch64` (the only places with `core::arch`) with the pointers that both use, and `kernels::shared`, which
//! reads memory that no reference may point to. A kernel encrypts and decrypts *data units* (for a volume: sectors)
//! and knows nothing of specifications, drivers or sector sizes; adding one is a module and a row in
//! `kernels::KERNELS`.

#![deny(unsafe_code)]

pub mod argon2;
mod cipher;
mod error;
mod essiv;
mod kernels;
mod parse;
pub mod probe;
mod registry;
mod sector;
mod self_test;
mod spec;
mod state;
pub mod stream;
pub mod vectored;
mod wipe;

pub use cipher::SectorCipher;
pub use error::CipherError;
pub use kernels::shared::SharedSource;
pub use registry::{Implementation, chosen, implementations, implementations_of};
pub use sector::{Geometry, IvSector, SectorIndex, SectorSize};
pub use spec::CipherSpec;
pub use state::State;
