//! Seals records in place, in front of which and behind which there is space.

use scrim_crypt::stream::{self, Aead, StreamError, TAG};

use super::fault::SealFault;
use super::form::Form;
use super::keys::{Direction, Parts};
use super::wire::{HEADER, Kind, PAYLOAD_MAX, header, tls12_data};

/// Records that a key keeps for alerts and key updates when data has used up the others.
const KEPT: u64 = 16;

/// Layout of a record: the same for all records of a connection, key updates included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the record before the payload: 5, or 13 for AES-GCM in TLS 1.2.
    pub before: usize,
    /// Bytes of the record after the payload: 17, or 16 in TLS 1.2.
    pub after: usize,
}

impl Layout {
    /// Bytes of a record with `payload` bytes of payload.
    #[must_use]
    pub fn record(self, payload: usize) -> usize {
        self.before + payload + self.after
    }
}

/// Most records of data that a key of `aead` may seal, some being kept for alerts and key updates.
pub(in crate::tls) const fn data_max(aead: Aead) -> u64 {
    aead.records_max() - KEPT
}

/// Seals the records of one direction, in the order in which they are sent.
pub struct Sealer {
    stream: stream::Sealer,
    form: Form,
    /// Records, from the key's first on, that data may have.
    data_max: u64,
}

impl Sealer {
    /// The one sealer of a key; `None` if the suite is unknown. Data gets at most `records` of the key,
    /// and no more than the suite allows.
    #[must_use]
    pub fn new(direction: Direction, records: u64) -> Option<Self> {
        let Direction {
            sequence,
            secrets,
            tls13,
        } = direction;
        Self::of(Parts::of(&secrets, tls13)?, sequence, records)
    }

    /// Consumes the parts, so that no second sealer is made of them.
    pub(super) fn of(
        Parts {
            aead,
            key,
            iv,
            form,
        }: Parts<'_>,
        first: u64,
        records: u64,
    ) -> Option<Self> {
        Some(Self {
            stream: stream::Sealer::new(aead, key, iv, first).ok()?,
            form,
            data_max: data_max(aead).min(records),
        })
    }

    /// Layout of the records that it seals.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout {
            before: self.form.before(),
            after: self.form.after(),
        }
    }

    /// Number of records of data that the key may still seal.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        self.data_max.saturating_sub(self.stream.number())
    }

    /// Turns the start of `record`, where `payload` bytes lie behind [`Layout::before`], into a record; returns its
    /// length. The bytes around the payload may have any value before.
    ///
    /// # Errors
    /// When the lengths do not fit, or the key may seal no more. `record` then is not to be sent.
    pub fn seal(
        &mut self,
        kind: Kind,
        record: &mut [u8],
        payload: usize,
    ) -> Result<usize, SealFault> {
        if payload > PAYLOAD_MAX {
            return Err(SealFault::TooLong);
        }
        let record = record
            .get_mut(..self.layout().record(payload))
            .ok_or(SealFault::NoRoom)?;
        if kind == Kind::Data && self.stream.number() >= self.data_max {
            return Err(SealFault::Spent);
        }
        let len = record.len();
        match self.form {
            Form::Tls13 => self.seal_tls13(kind, record),
            Form::Tls12Gcm | Form::Tls12ChaCha => self.seal_tls12(kind, record, payload),
        }?;
        Ok(len)
    }

    fn seal_tls13(&mut self, kind: Kind, record: &mut [u8]) -> Result<(), SealFault> {
        let header = header(Kind::Data, record.len() - HEADER);
        let (head, rest) = record
            .split_first_chunk_mut::<HEADER>()
            .ok_or(SealFault::NoRoom)?;
        *head = header;
        let (body, tag) = rest
            .split_last_chunk_mut::<TAG>()
            .ok_or(SealFault::NoRoom)?;
        *body.last_mut().ok_or(SealFault::NoRoom)? = kind.to_wire();
        self.stream.seal_in_place(&header, body, tag).map_err(fault)
    }

    fn seal_tls12(
        &mut self,
        kind: Kind,
        record: &mut [u8],
        payload: usize,
    ) -> Result<(), SealFault> {
        let (head, rest) = record.split_at_mut(self.form.before());
        let len = head.len() - HEADER + payload + TAG;
        head[..HEADER].copy_from_slice(&header(kind, len));
        if self.form == Form::Tls12Gcm {
            head[HEADER..].copy_from_slice(&self.stream.explicit_nonce());
        }
        let data = tls12_data(self.stream.number(), kind.to_wire(), payload);
        let (body, tag) = rest
            .split_last_chunk_mut::<TAG>()
            .ok_or(SealFault::NoRoom)?;
        self.stream.seal_in_place(&data, body, tag).map_err(fault)
    }
}

fn fault(error: StreamError) -> SealFault {
    match error {
        StreamError::KeyExhausted { .. } => SealFault::Spent,
        StreamError::TooLong { .. } => SealFault::TooLong,
        _ => SealFault::Cipher,
    }
}
