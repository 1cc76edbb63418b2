//! State of a header: its contents and the passphrases that open it, by which it is old, new, or
//! neither.

use std::hash::{DefaultHasher, Hash, Hasher};

use scrim_backend::Backend;
use scrim_luks::{
    Consent, Foreign, HeaderError, Keyslot, KeyslotKind, Parsed, PassphraseSlot, Priority,
};
use scrim_volume::{LuksDevice, LuksError};

use crate::luks::{self, PASSPHRASES, Refused, refused};

/// State of a header device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no header.
    Bare,
    /// There is a header that cannot be used, for this reason.
    Unusable(String),
    Header(Box<Summary>),
}

/// The fields of a header that an operation may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    version: u16,
    uuid: String,
    label: Option<String>,
    subsystem: Option<String>,
    flags: Vec<&'static str>,
    requirements: Vec<String>,
    tokens: Vec<String>,
    /// Cipher, offset and the rest of the data segment.
    data: String,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    id: u8,
    priority: Priority,
    /// Cipher, key derivation and cost.
    sealing: String,
    /// The passphrases that open it.
    opened_by: Vec<&'static str>,
    /// Hashes of the volume keys that come out.
    keys: Vec<u64>,
}

impl Slot {
    fn close(&mut self) {
        self.opened_by.clear();
        self.keys.clear();
    }
}

/// A header device, and what is to be repaired of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) repair: Option<Consent>,
}

/// Reads a header and tries every passphrase on every key slot.
///
/// # Errors
/// When the device cannot be read, or a key slot is not one to be tried.
pub(crate) fn observe(backend: &dyn Backend) -> Result<Seen, Refused> {
    let without = |state| {
        let repair = None;
        Ok(Seen { state, repair })
    };
    let device = match LuksDevice::read(backend) {
        Ok(device) => device,
        Err(LuksError::Header(HeaderError::NotLuks)) => return without(State::Bare),
        Err(LuksError::Header(error)) => return without(State::Unusable(error.to_string())),
        Err(error) => return Err(refused(error)),
    };
    let header = device.header();
    let mut slots = Vec::new();
    for keyslot in header.keyslots() {
        let mut slot = Slot {
            id: keyslot.id,
            priority: keyslot.priority,
            sealing: sealing(keyslot),
            opened_by: Vec::new(),
            keys: Vec::new(),
        };
        for passphrase in PASSPHRASES {
            if let Some(key) = luks::unlock(&device, backend, Some(keyslot.id), passphrase)? {
                let mut hasher = DefaultHasher::new();
                key.expose().hash(&mut hasher);
                slot.opened_by.push(passphrase);
                slot.keys.push(hasher.finish());
            }
        }
        slots.push(slot);
    }
    let text = |text: Option<Foreign<&str>>| text.map(|text| text.raw().to_owned());
    let summary = Summary {
        version: header.version(),
        uuid: header.uuid().raw().to_owned(),
        label: text(header.label()),
        subsystem: text(header.subsystem()),
        flags: header.flags().iter().map(|flag| flag.name()).collect(),
        requirements: header.requirements().to_vec(),
        tokens: header
            .tokens()
            .iter()
            .map(|token| token.json.by_ref().raw().to_string())
            .collect(),
        data: format!("{:?}", header.data_segment().map_err(refused)?),
        slots,
    };
    Ok(Seen {
        state: State::Header(Box::new(summary)),
        repair: consent(backend)?,
    })
}

/// Describes how a key slot protects its key, without the random parts.
fn sealing(keyslot: &Keyslot) -> String {
    match &keyslot.kind {
        KeyslotKind::Passphrase(sealed) => {
            let PassphraseSlot {
                cipher,
                cipher_key_size,
                kdf,
                af_hash,
                ..
            } = sealed;
            format!("{cipher} {cipher_key_size} {kdf:?} {af_hash}")
        }
        KeyslotKind::Other(kind) => kind.clone(),
    }
}

/// Checks whether a copy is to be rewritten, and whether to ask first.
fn consent(backend: &dyn Backend) -> Result<Option<Consent>, Refused> {
    let size = backend.info().size;
    let mut area = vec![
        0;
        usize::try_from(size)
            .map_err(refused)?
            .min(scrim_luks::HEADER_AREA_MAX)
    ];
    backend.read_at(0, &mut area).map_err(refused)?;
    let Parsed { repair, .. } = scrim_luks::Header::parse(&area, size).map_err(refused)?;
    Ok(repair.map(|repair| repair.consent))
}

impl State {
    /// The passphrases that open it.
    fn opened_by(&self) -> Vec<&'static str> {
        match self {
            Self::Bare | Self::Unusable(_) => Vec::new(),
            Self::Header(summary) => {
                let slots = summary.slots.iter();
                slots
                    .flat_map(|slot| slot.opened_by.iter().copied())
                    .collect()
            }
        }
    }

    /// Returns whether it opens with all keys of one of the two, and with no key that neither has.
    pub(crate) fn has_keys_of_either(&self, old: &Self, new: &Self) -> bool {
        let (mine, old, new) = (self.opened_by(), old.opened_by(), new.opened_by());
        let has = |keys: &[&str]| !keys.is_empty() && keys.iter().all(|key| mine.contains(key));
        let known = |key: &&str| old.contains(key) || new.contains(key);
        (has(&old) || has(&new)) && mine.iter().all(known)
    }

    /// Returns whether it is `old` but that some key slots, which go, are no longer opened by anything. All
    /// keys of `new` are there.
    pub(crate) fn is_losing_keys(&self, old: &Self, new: &Self) -> bool {
        let mine = self.opened_by();
        let (Self::Header(now), Self::Header(before)) = (self, old) else {
            return false;
        };
        let mut lost = before.clone();
        for (lost, now) in lost.slots.iter_mut().zip(&now.slots) {
            if now.opened_by.is_empty() {
                lost.close();
            }
        }
        now == &lost && new.opened_by().iter().all(|key| mine.contains(key))
    }

    /// Returns whether it is `old` or `new` but that some of these key slots are not opened by anything.
    pub(crate) fn has_lost(&self, slots: &[u8], old: &Self, new: &Self) -> bool {
        let Self::Header(now) = self else {
            return false;
        };
        let closed = now.slots.iter().filter(|slot| slot.opened_by.is_empty());
        let closed: Vec<u8> = closed.map(|slot| slot.id).collect();
        [old, new].into_iter().any(|state| {
            let Self::Header(mut whole) = state.clone() else {
                return false;
            };
            let lost = |slot: &&mut Slot| slots.contains(&slot.id) && closed.contains(&slot.id);
            whole.slots.iter_mut().filter(lost).for_each(Slot::close);
            *now == whole
        })
    }

    /// Each key slot with the passphrases that open it.
    pub(crate) fn slots(&self) -> Vec<(u8, &[&'static str])> {
        match self {
            Self::Bare | Self::Unusable(_) => Vec::new(),
            Self::Header(summary) => {
                let slots = summary.slots.iter();
                slots.map(|slot| (slot.id, &slot.opened_by[..])).collect()
            }
        }
    }

    /// The version of LUKS, if there is a header.
    pub(crate) fn version(&self) -> Option<u16> {
        match self {
            Self::Bare | Self::Unusable(_) => None,
            Self::Header(summary) => Some(summary.version),
        }
    }
}
