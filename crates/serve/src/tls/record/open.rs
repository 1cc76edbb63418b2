//! Opening of records.

use std::ops::Range;

use aws_lc_rs::aead::{Aad, Nonce};

use super::keys::{Direction, Form, Key, tls12_data};
use super::{EXPLICIT_NONCE, HEADER, Header, Kind, OpenFault, PAYLOAD_MAX, TAG, VERSION};

/// A record that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRecord {
    /// Kind of its content.
    pub kind: Kind,
    /// Place of its plaintext in the record.
    pub payload: Range<usize>,
}

/// Opens the records of one direction, in the order in which they come.
pub struct Opener {
    key: Key,
}

impl Opener {
    /// The one opener of a key; `None` if the suite is unknown.
    #[must_use]
    pub fn new(direction: Direction) -> Option<Self> {
        Key::new(direction).map(Self::of)
    }

    pub(super) fn of(key: Key) -> Self {
        Self { key }
    }

    /// Length in bytes of the record that `bytes` begin with, its header included; `None` if they are too few to tell.
    /// It is judged by its header alone, so that nobody waits for a record that would be refused.
    ///
    /// # Errors
    /// When it cannot be a record of this connection.
    pub fn record_len(&self, bytes: &[u8]) -> Result<Option<usize>, OpenFault> {
        let Some(header) = Header::of(bytes) else {
            return Ok(None);
        };
        if header.major != VERSION[0] {
            return Err(OpenFault::Version);
        }
        let hidden = self.key.form == Form::Tls13;
        match Kind::from_wire(header.kind) {
            Some(kind) if kind == Kind::Data || !hidden => {}
            _ => return Err(OpenFault::Kind),
        }
        let (least, most) = self.key.form.fragment();
        match header.len {
            len if len > most => Err(OpenFault::TooLong),
            len if len < least => Err(OpenFault::Mac),
            len => Ok(Some(HEADER + len)),
        }
    }

    /// Decrypts the single record in `record`, in place.
    ///
    /// # Errors
    /// When it is refused: the connection ends, and what `record` holds is not to be looked at.
    pub fn open(&mut self, record: &mut [u8]) -> Result<OpenRecord, OpenFault> {
        if self.record_len(record)? != Some(record.len()) {
            return Err(OpenFault::Cut);
        }
        let (number, nonce) = self.key.next().ok_or(OpenFault::Spent)?;
        match self.key.form {
            Form::Tls13 => self.open_tls13(nonce, record),
            Form::Tls12Gcm | Form::Tls12ChaCha => self.open_tls12(number, nonce, record),
        }
    }

    fn open_tls13(&self, nonce: Nonce, record: &mut [u8]) -> Result<OpenRecord, OpenFault> {
        let (header, rest) = record
            .split_first_chunk_mut::<HEADER>()
            .ok_or(OpenFault::Cut)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG>().ok_or(OpenFault::Mac)?;
        self.key
            .cipher
            .open_in_place_separate_tag(nonce, Aad::from(*header), tag, body)
            .map_err(|_| OpenFault::Mac)?;
        if body.len() > PAYLOAD_MAX + 1 {
            return Err(OpenFault::TooLong);
        }
        // Behind the kind there may be zeros, which hide the length.
        let at = body
            .iter()
            .rposition(|&byte| byte != 0)
            .ok_or(OpenFault::Empty)?;
        Ok(OpenRecord {
            kind: Kind::from_wire(body[at]).ok_or(OpenFault::Kind)?,
            payload: HEADER..HEADER + at,
        })
    }

    fn open_tls12(
        &self,
        number: u64,
        nonce: Nonce,
        record: &mut [u8],
    ) -> Result<OpenRecord, OpenFault> {
        let kind = Kind::from_wire(record[0]).ok_or(OpenFault::Kind)?;
        let (head, rest) = record.split_at_mut(self.key.form.before());
        let nonce = match head[HEADER..].first_chunk::<EXPLICIT_NONCE>() {
            None => nonce,
            // The sender has chosen these bytes, and the number is authenticated below.
            Some(sent) => {
                let mut whole = *nonce.as_ref();
                if let Some(place) = whole.last_chunk_mut::<EXPLICIT_NONCE>() {
                    *place = *sent;
                }
                Nonce::assume_unique_for_key(whole)
            }
        };
        let (body, tag) = rest.split_last_chunk_mut::<TAG>().ok_or(OpenFault::Mac)?;
        let data = Aad::from(tls12_data(number, kind.to_wire(), body.len()));
        self.key
            .cipher
            .open_in_place_separate_tag(nonce, data, tag, body)
            .map_err(|_| OpenFault::Mac)?;
        let start = head.len();
        Ok(OpenRecord {
            kind,
            payload: start..start + body.len(),
        })
    }
}
