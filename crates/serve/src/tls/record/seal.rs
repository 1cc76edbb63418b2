//! Sealing of records.

use aws_lc_rs::aead::{Aad, Nonce};

use super::keys::{Direction, Form, Key, tls12_data, wire_len};
use super::{EXPLICIT_NONCE, HEADER, Kind, PAYLOAD_MAX, SealFault, TAG, VERSION};

/// Records that a key keeps for alerts and key updates when data has used up the others.
pub(in crate::tls) const KEPT: u64 = 16;

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

/// Seals the records of one direction, in the order in which they are sent.
pub struct Sealer {
    key: Key,
    /// Records, from the key's first on, that data may have.
    data_max: u64,
}

impl Sealer {
    /// The one sealer of a key. None if the suite is unknown. Data gets at most `records` of the key,
    /// and no more than the suite allows, some being kept for alerts and key updates.
    #[must_use]
    pub fn new(direction: Direction, records: u64) -> Option<Self> {
        Some(Self::of(Key::new(direction)?, records))
    }

    pub(super) fn of(key: Key, records: u64) -> Self {
        let data_max = (key.records_max - KEPT).min(records);
        Self { key, data_max }
    }

    /// Layout of the records that it seals.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout {
            before: self.key.form.before(),
            after: self.key.form.after(),
        }
    }

    /// Number of records of data that the key may still seal.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        self.data_max.saturating_sub(self.key.count())
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
        let most = match kind {
            Kind::Data => self.data_max,
            Kind::Alert | Kind::Handshake => self.key.records_max,
        };
        if self.key.count() >= most {
            return Err(SealFault::Spent);
        }
        let (number, nonce) = self.key.next().ok_or(SealFault::Spent)?;
        match self.key.form {
            Form::Tls13 => self.seal_tls13(kind, nonce, record, payload),
            Form::Tls12Gcm | Form::Tls12ChaCha => {
                self.seal_tls12(kind, number, nonce, record, payload)
            }
        }
        .ok_or(SealFault::Cipher)?;
        Ok(record.len())
    }

    fn seal_tls13(
        &self,
        kind: Kind,
        nonce: Nonce,
        record: &mut [u8],
        payload: usize,
    ) -> Option<()> {
        let header = header(Kind::Data, record.len() - HEADER);
        let (head, rest) = record.split_first_chunk_mut::<HEADER>()?;
        *head = header;
        let (body, tag) = rest.split_at_mut(payload + 1);
        body[payload] = kind.to_wire();
        let sealed = self
            .key
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::from(header), body);
        tag.copy_from_slice(sealed.ok()?.as_ref());
        Some(())
    }

    fn seal_tls12(
        &self,
        kind: Kind,
        number: u64,
        nonce: Nonce,
        record: &mut [u8],
        payload: usize,
    ) -> Option<()> {
        let (head, rest) = record.split_at_mut(self.key.form.before());
        let len = head.len() - HEADER + payload + TAG;
        head[..HEADER].copy_from_slice(&header(kind, len));
        if self.key.form == Form::Tls12Gcm {
            // The first four bytes of the nonce are a secret of the connection; the others are sent.
            let (_, sent) = nonce.as_ref().split_last_chunk::<EXPLICIT_NONCE>()?;
            head[HEADER..].copy_from_slice(sent);
        }
        let data = Aad::from(tls12_data(number, kind.to_wire(), payload));
        let (body, tag) = rest.split_at_mut(payload);
        let sealed = self
            .key
            .cipher
            .seal_in_place_separate_tag(nonce, data, body);
        tag.copy_from_slice(sealed.ok()?.as_ref());
        Some(())
    }
}

fn header(kind: Kind, len: usize) -> [u8; HEADER] {
    let [high, low] = wire_len(len);
    [kind.to_wire(), VERSION[0], VERSION[1], high, low]
}
