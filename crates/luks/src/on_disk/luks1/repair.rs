//! LUKS1 fields that are impossible but tell what they were.

use std::fmt;

use super::Header;
use super::format::FIRST_AREA;
use super::phdr::{Phdr, SECTOR, SECTOR_BYTES};
use crate::af::{self, STRIPES};
use crate::kdf::Hash;
use crate::layout::{BLOCK, align_up};
use crate::on_disk::magic::version_at_start;
use crate::uuid;

/// The slot across whose salt the last two bytes of the first sector lie, where a boot sector has
/// its signature.
const SPLIT_SLOT: u8 = 6;
const BOOT_SIGNATURE: [u8; 2] = [0x55, 0xaa];

/// A field that is put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// The magic and version, where everything behind them is a header.
    Magic,
    /// A mode `ecb-…`, as old programs wrote it: ECB has no IV.
    EcbMode(String),
    /// A key slot marked neither as in use nor as free.
    Marker {
        slot: u8,
        /// True if it is taken to be in use: it has iterations and a salt.
        in_use: bool,
    },
    /// A number of stripes other than 4000.
    Stripes {
        slot: u8,
        /// The number that was stored.
        stripes: u32,
    },
    /// An area elsewhere than all programs put it.
    Offset {
        slot: u8,
        /// The offset that was stored, in sectors.
        from: u32,
        /// The offset where it belongs, in sectors.
        to: u32,
    },
    /// The signature of a boot sector in the salt of a key slot, which is lost by it.
    BootSignature { slot: u8 },
    /// A key slot in use without iterations, which is lost.
    Iterations { slot: u8 },
}

impl Header {
    /// The header at the start of `area` with every field put right that tells what it was; `None`
    /// where that is not enough.
    pub(crate) fn repair(area: &[u8]) -> Option<(Self, Vec<Fix>)> {
        let (mut phdr, markers) = Phdr::read_unchecked(area).ok()?;
        let mut fixes = Vec::new();
        if version_at_start(area) != Some(1) {
            // Nothing but these fields says that it is a header.
            let known = phdr.hash_spec.parse::<Hash>().is_ok() && uuid::is_uuid(&phdr.uuid);
            let whole = phdr.check().is_ok() && markers.iter().all(Option::is_some);
            return (known && whole).then(|| (Self::from_phdr(Box::new(phdr)), vec![Fix::Magic]));
        }
        if phdr.cipher_mode.starts_with("ecb-") {
            let mode = std::mem::replace(&mut phdr.cipher_mode, "ecb".to_owned());
            fixes.push(Fix::EcbMode(mode));
        }
        let boot_sector = area.get(SECTOR_BYTES - 2..SECTOR_BYTES) == Some(&BOOT_SIGNATURE[..]);
        let key_bytes = usize::try_from(phdr.key_bytes).ok()?;
        let len = align_up(af::material_len(key_bytes.min(512)) as u64, BLOCK);
        for ((number, slot), marker) in (0..).zip(&mut phdr.slots).zip(markers) {
            if marker.is_none() {
                slot.active = slot.iterations > 0 && slot.salt.iter().any(|&byte| byte != 0);
                let in_use = slot.active;
                fixes.push(Fix::Marker {
                    slot: number,
                    in_use,
                });
            }
            if slot.stripes != STRIPES {
                let stripes = std::mem::replace(&mut slot.stripes, STRIPES);
                fixes.push(Fix::Stripes {
                    slot: number,
                    stripes,
                });
            }
            if slot.active && slot.iterations == 0 {
                slot.active = false;
                fixes.push(Fix::Iterations { slot: number });
            }
            if number == SPLIT_SLOT && boot_sector {
                slot.active = false;
                slot.salt = [0; 32];
                fixes.push(Fix::BootSignature { slot: number });
            }
        }
        if phdr.check().is_err() {
            for (number, slot) in (0..).zip(&mut phdr.slots) {
                let to = u32::try_from((FIRST_AREA + u64::from(number) * len) / SECTOR).ok()?;
                if slot.offset != to {
                    let from = std::mem::replace(&mut slot.offset, to);
                    fixes.push(Fix::Offset {
                        slot: number,
                        from,
                        to,
                    });
                }
            }
        }
        phdr.check().ok()?;
        Some((Self::from_phdr(Box::new(phdr)), fixes))
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => {
                f.write_str("the LUKS1 magic is lost, but the header behind it is whole")
            }
            Self::EcbMode(mode) => write!(f, "cipher mode {mode} becomes ecb"),
            Self::Marker { slot, in_use } => write!(
                f,
                "the marker of key slot {slot} is damaged: it becomes {}",
                if *in_use { "in use" } else { "free" }
            ),
            Self::Stripes { slot, stripes } => write!(
                f,
                "key slot {slot} has {stripes} stripes, which become 4000"
            ),
            Self::Offset { slot, from, to } => write!(
                f,
                "the area of key slot {slot} moves from sector {from} to {to}, where all programs \
                 put it"
            ),
            Self::BootSignature { slot } => write!(
                f,
                "the signature of a boot sector has destroyed the salt of key slot {slot}: it \
                 becomes free"
            ),
            Self::Iterations { slot } => write!(
                f,
                "key slot {slot} has lost its iterations: it becomes free"
            ),
        }
    }
}
