//! Possible content of one unit of a volume.

use std::sync::Arc;

/// The unit of the model, and of what a disk tears: 512 bytes.
pub(crate) const UNIT: usize = 512;

/// The content of a unit, of which a part may not be known.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value {
    bytes: Arc<[u8; UNIT]>,
    /// `None`: all of it.
    known: Option<Arc<[bool; UNIT]>>,
}

impl Value {
    /// Makes the value of a whole unit that is known.
    pub(crate) fn known(bytes: &[u8]) -> Self {
        let mut value = Self {
            bytes: Arc::new([0; UNIT]),
            known: None,
        };
        Arc::make_mut(&mut value.bytes).copy_from_slice(bytes);
        value
    }

    /// Makes a value that may be anything.
    pub(crate) fn unknown() -> Self {
        Self {
            bytes: Arc::new([0; UNIT]),
            known: Some(Arc::new([false; UNIT])),
        }
    }

    /// The same with `part` at `start`.
    pub(crate) fn with(&self, start: usize, part: &[u8]) -> Self {
        let mut value = self.clone();
        Arc::make_mut(&mut value.bytes)[start..start + part.len()].copy_from_slice(part);
        if let Some(known) = &mut value.known {
            Arc::make_mut(known)[start..start + part.len()].fill(true);
        }
        value
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.is_none()
    }

    /// Returns whether `part` can be what is at `start`.
    pub(crate) fn agrees(&self, start: usize, part: &[u8]) -> bool {
        let mine = &self.bytes[start..start + part.len()];
        match &self.known {
            None => mine == part,
            Some(known) => known[start..]
                .iter()
                .zip(mine.iter().zip(part))
                .all(|(known, (mine, theirs))| !known || mine == theirs),
        }
    }
}
