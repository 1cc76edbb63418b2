//! LUKS1 and LUKS2 headers, key slots and key derivation. Bytes in, bytes out; no I/O.
//!
//! To open a volume:
//!
//! 1. Read the first [`HEADER_AREA_MAX`] bytes of the header device, or all of it if it is
//!    shorter, and give them to [`Header::parse`]. Nothing in a header is used before it has been
//!    checked; [`HeaderError`] names what is refused. Of LUKS2's two copies the better one is
//!    taken; [`Parsed::findings`] tells the faults, and [`Parsed::repair_plan`] repairs them.
//! 2. For each of [`Header::keyslots_to_try`], read [`Keyslot::material`] from the header device
//!    and give it to [`Header::unlock`] with the passphrase, until there is a [`VolumeKey`].
//! 3. [`Header::data_segment`] says which cipher takes that key, and where the data lies:
//!    [`DataSegment::extent`].
//!
//! To make one, [`luks2::format`] and [`luks1::format`] return the new header and a [`Plan`]: the
//! writes and syncs, in an order that a crash cannot turn into half a header.
//!
//! To change one, [`Header::add_keyslot`], [`Header::change_keyslot`], [`Header::remove_keyslots`],
//! [`Header::edit`], [`Header::convert_to_luks2`] and their kin change the header in memory and
//! return the plan for the disk. [`Header::backup`] and [`Backup::restore`] save it and put it back;
//! [`Diagnosis`] tells what is left of a damaged header. Each of them documents what a cut leaves: the
//! old keys or the new ones, never neither, except where a name says otherwise.
//!
//! ```
//! use scrim_crypt::SectorSize;
//! use scrim_luks::kdf::{Hash, Kdf};
//! use scrim_luks::{Header, Layout, NewKeyslot, Placement, Target, VolumeKey, luks2};
//! use scrim_sys::memory::SecretBytes;
//!
//! struct Disk(Vec<u8>);
//!
//! impl Target for Disk {
//!     type Error = std::convert::Infallible;
//!
//!     fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error> {
//!         let start = offset as usize;
//!         self.0[start..start + bytes.len()].copy_from_slice(bytes);
//!         Ok(())
//!     }
//!
//!     fn sync(&mut self) -> Result<(), Self::Error> {
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut disk = Disk(vec![0; 20 << 20]);
//! let passphrase = SecretBytes::copied_from(b"correct horse");
//! let key = VolumeKey::generate(64)?;
//! let spec = luks2::FormatSpec {
//!     cipher: "aes-xts-plain64".parse()?,
//!     sector_size: SectorSize::S4096,
//!     digest_hash: Hash::Sha256,
//!     digest_iterations: 1000, // `kdf::calibrate_pbkdf2` finds a better number
//!     keyslot: NewKeyslot {
//!         slot: None,
//!         kdf: Kdf::Pbkdf2 { hash: Hash::Sha256, iterations: 1000 },
//!         af_hash: Hash::Sha256,
//!         cipher: None,
//!     },
//!     uuid: None,
//!     label: "example".to_owned(),
//!     subsystem: String::new(),
//!     flags: Vec::new(),
//!     layout: Layout {
//!         placement: Placement::Attached,
//!         device_len: 20 << 20,
//!         grows: false,
//!         data_offset: None,
//!     },
//!     metadata_size: None,
//!     keyslots_size: None,
//! };
//! luks2::format(&spec, &key, &passphrase)?.plan.apply(&mut disk)?;
//!
//! let header = Header::parse(&disk.0, 20 << 20)?.header;
//! let slot = &header.keyslots()[0];
//! let range = slot.material();
//! let material = &disk.0[range.start as usize..range.end as usize];
//! let unlocked = header.unlock(slot.id, material, &passphrase)?;
//! assert_eq!(unlocked.expose(), key.expose());
//! let data = header.data_segment()?.extent(Placement::Attached, 20 << 20)?;
//! assert_eq!(data, 16 << 20..20 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! Specifications: *LUKS1 On-Disk Format Specification* 1.2.3 and *LUKS2 On-Disk Format
//! Specification* 1.1.3.

#![forbid(unsafe_code)]

mod af;
mod backup;
mod diagnosis;
mod digest;
mod document;
pub mod dump;
mod edit;
mod error;
mod finding;
mod flag;
mod header;
mod header_copy;
pub mod kdf;
mod key;
mod keys;
mod keyslot;
mod layout;
pub mod luks1;
pub mod luks2;
mod metadata;
mod on_disk;
mod plan;
mod random;
mod segment;
mod signature;
mod token;
mod underway;
mod uuid;

pub use backup::{Backup, BackupError, Restore, RestoreError, RestoreNote};
pub use diagnosis::{Condition, Diagnosis};
pub use digest::Digest;
pub use edit::Edit;
pub use error::{
    ConvertError, CopyFault, EditError, FormatError, HeaderError, KeyslotError, SealError,
    UnlockError, Unsupported, WriteError,
};
pub use finding::{Consent, Finding, Repair};
pub use flag::Flag;
pub use header::{Formatted, HEADER_AREA_MAX, Header, Parsed, probe};
pub use header_copy::HeaderCopy;
pub use key::VolumeKey;
pub use keys::{InPlace, KeyslotChange, KeyslotCipher, LastKey, NewDigest, NewKeyslot, Removal};
pub use keyslot::{KdfParameters, Keyslot, KeyslotKind, PassphraseSlot, Priority};
pub use layout::Layout;
pub use plan::{ApplyError, Plan, Step, Target};
pub use random::RandomError;
pub use scrim_foreign::Foreign;
pub use segment::{
    CryptSegment, DataError, DataSegment, Placement, Segment, SegmentKind, SegmentLength,
};
pub use signature::{Sample, Signature};
pub use token::Token;
pub use underway::Underway;
