//! A connection after its handshake, without I/O: records are opened and sealed where they lie.

use std::ops::Range;

use rustls::AlertDescription;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::error::TlsError;
use super::facts::Facts;
use super::handshake::Established;
use super::record::{Direction, Kind, Layout, Opener, SealFault, Sealer};

/// Records without data (empty ones, warnings, key updates) that a client may send in a row. rustls has
/// the same limit.
const DATALESS_MAX: u8 = 32;

/// The type of the handshake message KeyUpdate, and its two bodies (RFC 8446, section 4.6.3).
const KEY_UPDATE: u8 = 24;
const NOT_REQUESTED: u8 = 0;
const REQUESTED: u8 = 1;

/// The type of the handshake message ClientHello: in TLS 1.2, somebody wants to negotiate again.
const CLIENT_HELLO: u8 = 1;

const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// The keys of a connection, and where it stands.
pub struct Session {
    sealer: Sealer,
    opener: Opener,
    /// Makes the next keys. TLS 1.2 has none.
    kernel: Option<Box<KernelConnection<ServerConnectionData>>>,
    facts: Box<Facts>,
    /// Most records of data for each key.
    records_max: u64,
    /// Records without data since the last one with some.
    dataless: u8,
    /// A KeyUpdate is owed to the client, who asked for it.
    owes_key_update: bool,
    /// The client is owed the answer that nothing is negotiated again.
    owes_refusal: bool,
    /// Whether it may be negotiated again, once: no, it has been refused.
    refused: bool,
    receiving: Receiving,
    /// Whether something may still be sealed: neither close_notify nor a fatal alert has been.
    sending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    Open,
    Closed,
    Failed,
}

/// What the bytes that came begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// Part of a record. It is whole with so many bytes, as far as can be told.
    Incomplete(usize),
    /// Data of the client's, decrypted where it came.
    Data {
        /// Where it lies.
        at: Range<usize>,
        /// How many bytes the record had.
        taken: usize,
    },
    /// A record that says nothing to the application. [`Session::control_is_due`] may have changed.
    Nothing {
        /// How many bytes the record had.
        taken: usize,
    },
    /// The client sends no more. What comes behind is to be ignored.
    Closed,
}

impl Session {
    /// Takes over the keys of a handshake.
    ///
    /// # Errors
    /// When the suite is unknown to [`record`](super::record).
    pub fn new(established: Established) -> Result<Self, TlsError> {
        Self::with_records_max(established, u64::MAX)
    }

    /// As [`Session::new`]; each key seals at most so many records of data, and no more than its suite
    /// allows: then TLS 1.3 changes it, and TLS 1.2 ends the connection.
    ///
    /// # Errors
    /// As there.
    pub fn with_records_max(established: Established, records_max: u64) -> Result<Self, TlsError> {
        let Established {
            facts,
            sending,
            receiving,
            kernel,
        } = established;
        // A key that sealed nothing would be changed for ever.
        let records_max = records_max.max(1);
        Ok(Self {
            sealer: Sealer::new(sending, records_max).ok_or(TlsError::Library)?,
            opener: Opener::new(receiving).ok_or(TlsError::Library)?,
            kernel,
            facts: Box::new(facts),
            records_max,
            dataless: 0,
            owes_key_update: false,
            owes_refusal: false,
            refused: false,
            receiving: Receiving::Open,
            sending: true,
        })
    }

    /// What the handshake agreed on.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Opens the first record of `incoming`, all that was received and not yet taken, in place.
    ///
    /// # Errors
    /// When the client breaks the protocol or ends the connection by an alert. Nothing more is opened;
    /// [`Session::fail`] tells the client.
    pub fn open(&mut self, incoming: &mut [u8]) -> Result<Opened, TlsError> {
        match self.receiving {
            Receiving::Open => {}
            Receiving::Closed => return Ok(Opened::Closed),
            Receiving::Failed => return Err(TlsError::Ended),
        }
        let opened = self.open_record(incoming);
        match &opened {
            Err(_) => self.receiving = Receiving::Failed,
            Ok(Opened::Closed) => self.receiving = Receiving::Closed,
            Ok(_) => {}
        }
        opened
    }

    fn open_record(&mut self, incoming: &mut [u8]) -> Result<Opened, TlsError> {
        let Some(taken) = self.opener.record_len(incoming)? else {
            return Ok(Opened::Incomplete(super::record::HEADER));
        };
        let Some(record) = incoming.get_mut(..taken) else {
            return Ok(Opened::Incomplete(taken));
        };
        let opened = self.opener.open(record)?;
        if opened.kind == Kind::Data && !opened.payload.is_empty() {
            self.dataless = 0;
            let at = opened.payload;
            return Ok(Opened::Data { at, taken });
        }
        self.dataless += 1;
        if self.dataless > DATALESS_MAX {
            return Err(TlsError::Flooded);
        }
        let content = &record[opened.payload];
        let closed = match opened.kind {
            Kind::Data => false,
            Kind::Alert => self.take_alert(content)?,
            Kind::Handshake => {
                self.take_message(content)?;
                false
            }
        };
        Ok(match closed {
            true => Opened::Closed,
            false => Opened::Nothing { taken },
        })
    }

    /// Whether the client has said that it sends no more.
    fn take_alert(&self, content: &[u8]) -> Result<bool, TlsError> {
        let &[level, description] = content else {
            return Err(match content {
                [] => TlsError::Message(AlertDescription::UnexpectedMessage),
                _ => TlsError::Message(AlertDescription::DecodeError),
            });
        };
        let description = AlertDescription::from(description);
        match description {
            AlertDescription::CloseNotify => Ok(true),
            // In TLS 1.3 no other alert is a warning, whatever it says.
            AlertDescription::UserCanceled if self.facts.tls13() => Ok(false),
            _ if self.facts.tls13() || level == FATAL => Err(TlsError::Alert(description)),
            _ if level == WARNING => Ok(false),
            _ => Err(TlsError::Message(AlertDescription::IllegalParameter)),
        }
    }

    /// A message of the handshake protocol, which must be alone in its record: the one of TLS 1.3 has to
    /// be the last before the key changes, and has five bytes, which nobody has reason to cut.
    fn take_message(&mut self, content: &[u8]) -> Result<(), TlsError> {
        match (content, &mut self.kernel) {
            (&[KEY_UPDATE, 0, 0, 1, request @ (NOT_REQUESTED | REQUESTED)], Some(kernel)) => {
                let (sequence, secrets) =
                    kernel.update_rx_secret().map_err(|_| TlsError::Library)?;
                self.opener = Opener::new(Direction {
                    sequence,
                    secrets,
                    tls13: true,
                })
                .ok_or(TlsError::Library)?;
                self.owes_key_update |= request == REQUESTED;
                Ok(())
            }
            (&[KEY_UPDATE, 0, 0, 1, _], Some(_)) => {
                Err(TlsError::Message(AlertDescription::IllegalParameter))
            }
            // Refused once; who asks again will not stop.
            (&[CLIENT_HELLO, ..], None) if !self.refused => {
                self.owes_refusal = true;
                self.refused = true;
                Ok(())
            }
            _ => Err(TlsError::Message(AlertDescription::UnexpectedMessage)),
        }
    }

    /// Where the payload lies in each record that is sealed.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.sealer.layout()
    }

    /// How many records of data may be sealed before [`Session::control`] has something to send.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        match self.owes_key_update || self.owes_refusal || !self.sending {
            true => 0,
            false => self.sealer.records_left(),
        }
    }

    /// Whether [`Session::control`] has to be called before more data can be sealed.
    #[must_use]
    pub fn control_is_due(&self) -> bool {
        self.sending && self.records_left() == 0
    }

    /// Appends to `outgoing` the records that go before the next data: behind all that was sealed before,
    /// ahead of all that is sealed later. That may be a change of the key.
    ///
    /// # Errors
    /// [`SealFault::Spent`] when TLS 1.2 has used up its key. Then [`Session::close`] is what is left.
    pub fn control(&mut self, outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
        if !self.sending {
            return Err(TlsError::Ended);
        }
        if self.owes_refusal {
            let alert = [WARNING, AlertDescription::NoRenegotiation.into()];
            self.append(Kind::Alert, &alert, outgoing)?;
            self.owes_refusal = false;
        }
        if self.owes_key_update || self.sealer.records_left() == 0 {
            self.change_key(outgoing)?;
            self.owes_key_update = false;
        }
        Ok(())
    }

    fn change_key(&mut self, outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.kernel.is_none() {
            return Err(SealFault::Spent.into());
        }
        let message = [KEY_UPDATE, 0, 0, 1, NOT_REQUESTED];
        self.append(Kind::Handshake, &message, outgoing)?;
        // From here on the client expects the next key, and no other may be used.
        self.sending = false;
        let kernel = self.kernel.as_mut().ok_or(TlsError::Library)?;
        let (sequence, secrets) = kernel.update_tx_secret().map_err(|_| TlsError::Library)?;
        let direction = Direction {
            sequence,
            secrets,
            tls13: true,
        };
        self.sealer = Sealer::new(direction, self.records_max).ok_or(TlsError::Library)?;
        self.sending = true;
        Ok(())
    }

    /// Makes a record of data of the start of `record`, where `payload` bytes of plaintext lie behind
    /// [`Layout::before`]; its length. It must be sent in the order of the calls.
    ///
    /// # Errors
    /// [`TlsError::ControlFirst`], and `record` is as it was, when [`Session::control_is_due`]; or when the
    /// lengths do not fit, or the connection has ended.
    pub fn seal(&mut self, record: &mut [u8], payload: usize) -> Result<usize, TlsError> {
        if !self.sending {
            return Err(TlsError::Ended);
        }
        if self.control_is_due() {
            return Err(TlsError::ControlFirst);
        }
        Ok(self.sealer.seal(Kind::Data, record, payload)?)
    }

    /// Appends the notice that nothing more comes, once. Nothing can be sealed afterwards.
    pub fn close(&mut self, outgoing: &mut Vec<u8>) {
        self.end(WARNING, AlertDescription::CloseNotify, outgoing);
    }

    /// Appends the alert that tells the client why the connection ends by `error`, if it does not know.
    /// Nothing can be sealed afterwards.
    pub fn fail(&mut self, error: &TlsError, outgoing: &mut Vec<u8>) {
        self.receiving = Receiving::Failed;
        match (error, error.alert()) {
            // Nobody did anything wrong: the client connects again.
            (TlsError::Seal(SealFault::Spent), _) => self.close(outgoing),
            (_, Some(alert)) => self.end(FATAL, alert, outgoing),
            (_, None) => self.sending = false,
        }
    }

    fn end(&mut self, level: u8, alert: AlertDescription, outgoing: &mut Vec<u8>) {
        if std::mem::replace(&mut self.sending, false) {
            let start = outgoing.len();
            let sealed = self.append(Kind::Alert, &[level, alert.into()], outgoing);
            // A key that seals no alert any more leaves the end of the stream to tell.
            if sealed.is_err() {
                outgoing.truncate(start);
            }
        }
    }

    fn append(
        &mut self,
        kind: Kind,
        content: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let layout = self.layout();
        let start = outgoing.len();
        outgoing.resize(start + layout.record(content.len()), 0);
        let record = &mut outgoing[start..];
        record[layout.before..layout.before + content.len()].copy_from_slice(content);
        self.sealer.seal(kind, record, content.len())?;
        Ok(())
    }
}
