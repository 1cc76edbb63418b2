//! What a header says and which passphrases open it: by that a header is old, new, or neither.

use std::hash::{DefaultHasher, Hash, Hasher};

use scrim_backend::Backend;
use scrim_luks::{Consent, HeaderError, Parsed, Priority};
use scrim_volume::{LuksDevice, LuksError};

use crate::luks::{self, PASSPHRASES, Refused, refused};

/// A header device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no header.
    Bare,
    Header(Box<Summary>),
}

/// All that a header says which an operation may change.
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
    /// The passphrases that open it.
    opened_by: Vec<&'static str>,
    /// What distinguishes the volume keys that come out.
    keys: Vec<u64>,
}

/// A header device, and what is to be repaired of it.
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) repair: Option<Consent>,
}

/// Reads a header and tries every passphrase on every key slot.
///
/// # Errors
/// When there is a header that cannot be used.
pub(crate) fn observe(backend: &dyn Backend) -> Result<Seen, Refused> {
    let device = match LuksDevice::read(backend) {
        Ok(device) => device,
        Err(LuksError::Header(HeaderError::NotLuks)) => {
            return Ok(Seen {
                state: State::Bare,
                repair: None,
            });
        }
        Err(error) => return Err(refused(error)),
    };
    let header = device.header();
    let mut slots = Vec::new();
    for keyslot in header.keyslots() {
        let mut slot = Slot {
            id: keyslot.id,
            priority: keyslot.priority,
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
    let text = |text: Option<&str>| text.map(str::to_owned);
    let summary = Summary {
        version: header.version(),
        uuid: header.uuid().to_owned(),
        label: text(header.label()),
        subsystem: text(header.subsystem()),
        flags: header.flags().iter().map(|flag| flag.name()).collect(),
        requirements: header.requirements().to_vec(),
        tokens: header
            .tokens()
            .iter()
            .map(|token| token.json.to_string())
            .collect(),
        data: format!("{:?}", header.data_segment().map_err(refused)?),
        slots,
    };
    Ok(Seen {
        state: State::Header(Box::new(summary)),
        repair: consent(backend)?,
    })
}

/// Whether a copy is to be rewritten, and whether to ask first.
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
            Self::Bare => Vec::new(),
            Self::Header(summary) => {
                let slots = summary.slots.iter();
                slots
                    .flat_map(|slot| slot.opened_by.iter().copied())
                    .collect()
            }
        }
    }

    /// Whether it opens with all keys of one of the two, and with no key that neither has.
    pub(crate) fn has_keys_of_either(&self, old: &Self, new: &Self) -> bool {
        let (mine, old, new) = (self.opened_by(), old.opened_by(), new.opened_by());
        let has = |keys: &[&str]| !keys.is_empty() && keys.iter().all(|key| mine.contains(key));
        let known = |key: &&str| old.contains(key) || new.contains(key);
        (has(&old) || has(&new)) && mine.iter().all(known)
    }
}
