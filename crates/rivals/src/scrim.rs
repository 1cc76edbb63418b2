//! Scrim itself, by its public interface.

use scrim_crypt::stream::{Aead, CONTENT_MAX, MessageSealer, Opener, Sealer, StreamError};
use scrim_crypt::{CipherError, CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};

use crate::rival::{Fault, Library, SetUp, Turns, tagged};
use crate::work::{BLOCK, Cipher, Direction, NONCE, Work};

/// Whole runs of sectors, as a volume gives them, and records, or longer messages, one after the other.
pub(crate) const RUNS: Library = Library {
    name: "scrim",
    version: || Ok(concat!("Scrim ", env!("CARGO_PKG_VERSION")).to_owned()),
    set_up: |work| {
        if work.is_tagged() {
            return Ok(Some(Box::new(Records::new(work)?)));
        }
        Ok(cipher(work)?.map(|cipher| Box::new(Runs(cipher)) as Box<dyn Turns>))
    },
};

/// The same sectors in the same order, one in each call.
pub(crate) const SINGLE: Library = Library {
    name: "scrim_single",
    version: RUNS.version,
    set_up: |work| {
        let cipher = cipher(work)?;
        Ok(cipher.map(|cipher| Box::new(Single { cipher, work }) as Box<dyn Turns>))
    },
};

/// The driver that [`RUNS`] gets for this work.
pub(crate) fn driver(work: Work) -> Option<&'static str> {
    let cipher = cipher(work).ok().flatten()?;
    Some(cipher.implementation().driver)
}

/// Sets up the cipher with the best driver.
pub(crate) fn cipher(work: Work) -> Result<Option<SectorCipher>, Fault> {
    set_up(work, SectorCipher::new)
}

/// Sets up the cipher with the driver of this name.
pub(crate) fn cipher_with_driver(work: Work, driver: &str) -> Result<Option<SectorCipher>, Fault> {
    set_up(work, |spec, key, geometry| {
        SectorCipher::new_with_driver(driver, spec, key, geometry)
    })
}

/// Scrim's portable driver of this name, around a block cipher of RustCrypto.
pub(crate) fn portable(work: Work, driver: &str) -> SetUp {
    let cipher = cipher_with_driver(work, driver)?;
    Ok(cipher.map(|cipher| Box::new(Runs(cipher)) as Box<dyn Turns>))
}

fn set_up(
    work: Work,
    new: impl Fn(&CipherSpec, &[u8], Geometry) -> Result<SectorCipher, CipherError>,
) -> Result<Option<SectorCipher>, Fault> {
    let size = u32::try_from(work.unit).ok().and_then(SectorSize::new);
    let (Some(specification), Some(size)) = (work.cipher.specification(), size) else {
        return Ok(None);
    };
    let cipher = specification
        .parse()
        .and_then(|spec: CipherSpec| new(&spec, work.cipher.key(), Geometry::new(size)));
    cipher
        .map(Some)
        .map_err(|error| Fault::Said(error.to_string()))
}

pub(crate) struct Runs(pub(crate) SectorCipher);

impl Turns for Runs {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        turn(&self.0, direction, first, run);
        Ok(())
    }
}

pub(crate) struct Single {
    pub(crate) cipher: SectorCipher,
    pub(crate) work: Work,
}

impl Turns for Single {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        for (number, sector) in self.work.units(first, run) {
            turn(&self.cipher, direction, number, sector);
        }
        Ok(())
    }
}

#[inline]
fn turn(cipher: &SectorCipher, direction: Direction, first: u64, run: &mut [u8]) {
    match direction {
        Direction::Encrypt => cipher.encrypt_in_place(IvSector(first), run),
        Direction::Decrypt => cipher.decrypt_in_place(IvSector(first), run),
    }
}

/// Records or longer messages, which both sides count by themselves.
struct Records {
    sealer: RecordSealer,
    opener: Opener,
    work: Work,
}

impl Records {
    fn new(work: Work) -> Result<Self, Fault> {
        let first = work.first();
        Ok(Self {
            sealer: sealer(work, first)?,
            opener: opener(work, first)?,
            work,
        })
    }
}

impl Turns for Records {
    /// A measurement that starts over with its numbers sets up the key anew, as there is no way back
    /// to a number: once in a slice, which is next to nothing.
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        let mut records = run.chunks_exact_mut(self.work.unit);
        match direction {
            Direction::Encrypt => {
                if self.sealer.number() != first {
                    self.sealer = sealer(self.work, first)?;
                }
                records.try_for_each(|record| {
                    let (payload, tag) = tagged(record)?;
                    let sealed = self.sealer.seal_in_place(payload, tag);
                    sealed.map_err(|error| said(&error))
                })
            }
            Direction::Decrypt => {
                if self.opener.number() != first {
                    self.opener = opener(self.work, first)?;
                }
                records.try_for_each(|record| {
                    let (payload, tag) = tagged(record)?;
                    let opened = self.opener.open_in_place(&[], payload, tag);
                    opened.map_err(|error| said(&error))
                })
            }
        }
    }
}

/// The IV that gives the nonces of [`crate::work::nonce`].
const IV: [u8; NONCE] = [0; NONCE];

fn aead(work: Work) -> Aead {
    match work.cipher {
        Cipher::Aes256Gcm => Aead::Aes256Gcm,
        _ => Aead::Aes128Gcm,
    }
}

/// Sealer of records, or of messages that are too long for one.
enum RecordSealer {
    Records(Sealer),
    Messages(MessageSealer),
}

impl RecordSealer {
    fn number(&self) -> u64 {
        match self {
            Self::Records(sealer) => sealer.number(),
            Self::Messages(sealer) => sealer.number(),
        }
    }

    fn seal_in_place(&mut self, data: &mut [u8], tag: &mut [u8; BLOCK]) -> Result<(), StreamError> {
        match self {
            Self::Records(sealer) => sealer.seal_in_place(&[], data, tag),
            Self::Messages(sealer) => sealer.seal_in_place(&[], data, tag),
        }
    }
}

/// Messages are numbered from 0 on, as those of a new key always are.
fn sealer(work: Work, first: u64) -> Result<RecordSealer, Fault> {
    let (aead, key) = (aead(work), work.cipher.key());
    let sealer = if work.payload() > CONTENT_MAX {
        MessageSealer::new(aead, key, &IV).map(RecordSealer::Messages)
    } else {
        Sealer::new(aead, key, &IV, first).map(RecordSealer::Records)
    };
    sealer.map_err(|error| said(&error))
}

fn opener(work: Work, first: u64) -> Result<Opener, Fault> {
    let opener = Opener::new(aead(work), work.cipher.key(), &IV, first);
    opener.map_err(|error| said(&error))
}

fn said(error: &StreamError) -> Fault {
    Fault::Said(error.to_string())
}
