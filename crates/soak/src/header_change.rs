//! Changes of a header, from a seed: what the operations of the table do, to any slot of any header.

use std::fmt;

use scrim_backend::Backend;
use scrim_luks::kdf::Kdf;
use scrim_luks::{Backup, Edit, Flag, InPlace, NewKeyslot, Priority, Token};
use scrim_seeded::Random;
use scrim_volume::LuksDevice;

use crate::changes::{
    ARGON2ID, MORE_ITERATIONS, add_unbound_key, convert, edit, erase, remove_key, repair, reseal,
    restore_backup, write,
};
use crate::luks::{COPY, PASSPHRASES, Refused, add_key, new_keyslot, refused};
use crate::state::State;
use crate::transition::Between;

/// Key slots have numbers below this.
const SLOTS: u64 = 8;

/// A change of a header.
#[derive(Debug, Clone)]
pub(crate) enum HeaderChange {
    AddKey {
        slot: Option<u8>,
        passphrase: &'static str,
    },
    AddUnboundKey {
        passphrase: &'static str,
    },
    /// Seals a key slot by another passphrase, or by another key derivation for the same one.
    Reseal {
        slot: u8,
        to: Option<u8>,
        passphrase: &'static str,
        kdf: Kdf,
        in_place: InPlace,
    },
    RemoveKey {
        slot: u8,
    },
    Erase,
    Edit(Edit),
    /// Converts the header to the other version of LUKS.
    Convert,
    /// Keeps what [`HeaderChange::Restore`] puts back.
    Backup,
    Restore,
    /// No change of the program's: one copy of a LUKS2 header is torn, for others to meet.
    Tear {
        copy: u64,
    },
    Repair,
}

impl HeaderChange {
    /// Chooses a change for a header: slots that are in use, if there are any, more often than
    /// others.
    pub(crate) fn choose(random: &mut Random, state: &State) -> Self {
        let passphrase = random.pick(&PASSPHRASES).copied().unwrap_or_default();
        let free = random.one_in(2).then(|| number(random, SLOTS));
        let slots = state.slots();
        let used = random.pick(&slots).map(|(slot, opened_by)| {
            let opened_by = opened_by.first().copied();
            (*slot, opened_by.unwrap_or(passphrase))
        });
        let (slot, its_own) = used.unwrap_or((0, passphrase));
        match random.below(20) {
            0..=2 => Self::AddKey {
                slot: free,
                passphrase,
            },
            3 => Self::AddUnboundKey { passphrase },
            kind @ 4..=7 => Self::Reseal {
                slot,
                to: free,
                passphrase: if kind == 7 { its_own } else { passphrase },
                kdf: match random.below(4) {
                    0 => MORE_ITERATIONS,
                    1 => ARGON2ID,
                    _ => new_keyslot(None).kdf,
                },
                in_place: if random.one_in(2) {
                    InPlace::Allow
                } else {
                    InPlace::Refuse
                },
            },
            8 | 9 => Self::RemoveKey { slot },
            10 if random.one_in(3) => Self::Erase,
            10..=13 => Self::Edit(any_edit(random, slot)),
            14 => Self::Convert,
            15 => Self::Backup,
            16 | 17 => Self::Restore,
            18 => Self::Tear {
                copy: random.below(2) * COPY,
            },
            _ => Self::Repair,
        }
    }

    /// Makes the change; `saved` is the last backup, if there is one. Returns the key slots that the
    /// user would have been told a power cut may take.
    pub(crate) fn make(
        &self,
        disk: &dyn Backend,
        saved: &mut Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Refused> {
        let done = match self {
            Self::AddKey { slot, passphrase } => add_key(disk, 0, passphrase, *slot),
            Self::AddUnboundKey { passphrase } => add_unbound_key(disk, passphrase),
            Self::Reseal {
                slot,
                to,
                passphrase,
                kdf,
                in_place,
            } => {
                let new = NewKeyslot {
                    kdf: *kdf,
                    ..new_keyslot(*to)
                };
                return reseal(disk, *slot, passphrase, &new, *in_place);
            }
            Self::RemoveKey { slot } => remove_key(disk, *slot),
            Self::Erase => erase(disk),
            Self::Edit(one) => edit(disk, std::slice::from_ref(one)),
            Self::Convert => convert(disk),
            Self::Backup => {
                let backup = LuksDevice::read_backup(disk).map_err(refused)?;
                *saved = Some(backup.bytes().to_vec());
                Ok(())
            }
            Self::Restore => {
                let saved = saved.clone().ok_or("there is no backup")?;
                return restore_backup(disk, &Backup::parse(saved).map_err(refused)?);
            }
            Self::Tear { copy } => {
                let device = LuksDevice::read(disk).map_err(refused)?;
                let whole = device.header().version() == 2 && device.findings().is_empty();
                if !whole {
                    return Err("there are no two copies".to_owned());
                }
                write(disk, copy + 4096, &[0; 512])
            }
            Self::Repair => repair(disk),
        };
        done.map(|()| Vec::new())
    }

    /// States that a cut may leave besides the old and the new header.
    pub(crate) fn between(&self, old: &State, new: &State, at_risk: &[u8]) -> Vec<Between> {
        let mut between: Vec<Between> = at_risk.iter().copied().map(Between::Lost).collect();
        match self {
            // LUKS1 has no one write that replaces a key slot.
            Self::Reseal { .. } if old.version() == Some(1) => between.push(Between::OtherKeys),
            Self::RemoveKey { .. } | Self::Erase => between.push(Between::KeysGoing),
            Self::Restore if old.version() != new.version() => between.push(Between::NoHeader),
            _ => {}
        }
        between
    }

    /// Returns whether all that was written before it is durable when it is done.
    pub(crate) fn flushes(&self) -> bool {
        !matches!(self, Self::Backup)
    }
}

fn any_edit(random: &mut Random, slot: u8) -> Edit {
    let id = number(random, 3);
    let token = Token::keyring("a key", &[slot]);
    match random.below(10) {
        0 | 1 => Edit::Uuid(Some(format!(
            "5d6f14e6-0d2c-4d6b-9c0a-5f1d1f6f3a{:02x}",
            number(random, 256)
        ))),
        2 => Edit::Label(format!("label {id}")),
        3 => Edit::Subsystem(format!("subsystem {id}")),
        4 => Edit::Flags(Flag::ALL[..usize::from(id).min(Flag::ALL.len())].to_vec()),
        5 => Edit::Priority {
            slot,
            priority: match id {
                0 => Priority::Ignore,
                1 => Priority::Normal,
                _ => Priority::Prefer,
            },
        },
        6 => Edit::AddToken { id, token },
        7 => Edit::RemoveToken { id },
        8 => Edit::AssignToken { id, slot },
        _ => Edit::UnassignToken { id, slot },
    }
}

fn number(random: &mut Random, limit: u64) -> u8 {
    u8::try_from(random.below(limit)).unwrap_or(0)
}

impl fmt::Display for HeaderChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
