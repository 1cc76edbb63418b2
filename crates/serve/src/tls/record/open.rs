//! Opens the records that a client sends.

use std::ops::Range;

use scrim_crypt::stream::{self, EXPLICIT_NONCE, StreamError, TAG};

use super::fault::OpenFault;
use super::form::Form;
use super::keys::{Direction, Parts};
use super::wire::{HEADER, Header, Kind, PAYLOAD_MAX, VERSION, tls12_data};

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
    stream: stream::Opener,
    form: Form,
    /// True after a complete record was refused: no other record is opened then.
    failed: bool,
}

impl Opener {
    /// The one opener of a key; `None` if the suite is unknown.
    #[must_use]
    pub fn new(direction: Direction) -> Option<Self> {
        let Direction {
            sequence,
            secrets,
            tls13,
        } = direction;
        Self::of(Parts::of(&secrets, tls13)?, sequence)
    }

    /// Consumes the parts, so that no second opener is made of them.
    pub(super) fn of(
        Parts {
            aead,
            key,
            iv,
            form,
        }: Parts<'_>,
        first: u64,
    ) -> Option<Self> {
        Some(Self {
            stream: stream::Opener::new(aead, key, iv, first).ok()?,
            form,
            failed: false,
        })
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
        let hidden = self.form == Form::Tls13;
        match Kind::from_wire(header.kind) {
            Some(kind) if kind == Kind::Data || !hidden => {}
            _ => return Err(OpenFault::Kind),
        }
        let (least, most) = self.form.fragment();
        match header.len {
            len if len > most => Err(OpenFault::TooLong),
            len if len < least => Err(OpenFault::Mac),
            len => Ok(Some(HEADER + len)),
        }
    }

    /// Decrypts the single record in `record`, in place.
    ///
    /// # Errors
    /// When it is refused: the connection ends, and what `record` holds is not to be looked at. After a complete record
    /// was refused, all others are refused with [`OpenFault::Mac`].
    pub fn open(&mut self, record: &mut [u8]) -> Result<OpenRecord, OpenFault> {
        if self.failed {
            return Err(OpenFault::Mac);
        }
        if self.record_len(record)? != Some(record.len()) {
            return Err(OpenFault::Cut);
        }
        let opened = match self.form {
            Form::Tls13 => self.open_tls13(record),
            Form::Tls12Gcm | Form::Tls12ChaCha => self.open_tls12(record),
        };
        self.failed = opened.is_err();
        opened
    }

    fn open_tls13(&mut self, record: &mut [u8]) -> Result<OpenRecord, OpenFault> {
        let (header, rest) = record
            .split_first_chunk_mut::<HEADER>()
            .ok_or(OpenFault::Cut)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG>().ok_or(OpenFault::Mac)?;
        self.stream
            .open_in_place(header, body, tag)
            .map_err(fault)?;
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

    fn open_tls12(&mut self, record: &mut [u8]) -> Result<OpenRecord, OpenFault> {
        let kind = Kind::from_wire(record[0]).ok_or(OpenFault::Kind)?;
        let (head, rest) = record.split_at_mut(self.form.before());
        let (body, tag) = rest.split_last_chunk_mut::<TAG>().ok_or(OpenFault::Mac)?;
        let data = tls12_data(self.stream.number(), kind.to_wire(), body.len());
        match head[HEADER..].first_chunk::<EXPLICIT_NONCE>() {
            None => self.stream.open_in_place(&data, body, tag),
            Some(sent) => self.stream.open_in_place_with(*sent, &data, body, tag),
        }
        .map_err(fault)?;
        let start = head.len();
        Ok(OpenRecord {
            kind,
            payload: start..start + body.len(),
        })
    }
}

fn fault(error: StreamError) -> OpenFault {
    match error {
        StreamError::KeyExhausted { .. } => OpenFault::Spent,
        _ => OpenFault::Mac,
    }
}
