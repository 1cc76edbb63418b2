//! A connection after its handshake, without I/O: records are opened and sealed where they lie.

use std::ops::Range;

use rustls::AlertDescription;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::error::TlsError;
use super::facts::Facts;
use super::handshake::Established;
use super::post_handshake::{FATAL, Meaning, OUR_KEY_UPDATE, PostHandshake, WARNING};
use super::record::{Direction, Kind, Layout, Opener, SealFault, Sealer};

/// The keys and the state of a connection.
pub struct Session {
    sealer: Sealer,
    opener: Opener,
    /// Maker of the next keys; `None` in TLS 1.2.
    kernel: Option<Box<KernelConnection<ServerConnectionData>>>,
    facts: Box<Facts>,
    /// Most records of data for each key.
    records_max: u64,
    post_handshake: PostHandshake,
    /// True if the client asked for a KeyUpdate that has not been sent.
    key_update_due: bool,
    /// True if the client has asked to negotiate again, and the refusal has not been sent.
    renegotiation_refusal_due: bool,
    receiving: Receiving,
    /// True if something may still be sealed: neither close_notify nor a fatal alert has been.
    sending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    Open,
    Closed,
    Failed,
}

/// Beginning of the bytes that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// A part of a record, which has this number of bytes when it is whole, as far as can be told.
    Incomplete(usize),
    /// Data of the client's, decrypted where it came.
    Data {
        /// Place of the data.
        at: Range<usize>,
        /// Length of the record in bytes.
        taken: usize,
    },
    /// A record that says nothing to the application. [`Session::control_is_due`] may have changed.
    Nothing {
        /// Length of the record in bytes.
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

    /// Like [`Session::new`]; each key seals at most `records_max` records of data, and no more than its suite allows:
    /// then TLS 1.3 changes it, and TLS 1.2 ends the connection.
    ///
    /// # Errors
    /// Those of [`Session::new`].
    pub fn with_records_max(established: Established, records_max: u64) -> Result<Self, TlsError> {
        let Established {
            facts,
            sending,
            receiving,
            kernel,
            server_name: _,
        } = established;
        // A key that sealed nothing would be changed for ever.
        let records_max = records_max.max(1);
        Ok(Self {
            sealer: Sealer::new(sending, records_max).ok_or(TlsError::Library)?,
            opener: Opener::new(receiving).ok_or(TlsError::Library)?,
            kernel,
            post_handshake: PostHandshake::new(facts.tls13()),
            facts: Box::new(facts),
            records_max,
            key_update_due: false,
            renegotiation_refusal_due: false,
            receiving: Receiving::Open,
            sending: true,
        })
    }

    /// Terms that the handshake agreed on.
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
        let at = opened.payload;
        Ok(
            match self
                .post_handshake
                .classify(opened.kind, &record[at.clone()])?
            {
                Meaning::Data => Opened::Data { at, taken },
                Meaning::Nothing => Opened::Nothing { taken },
                Meaning::Closed => Opened::Closed,
                Meaning::NextKey { ours_too } => {
                    self.next_opener()?;
                    self.key_update_due |= ours_too;
                    Opened::Nothing { taken }
                }
                Meaning::Renegotiation => {
                    self.renegotiation_refusal_due = true;
                    Opened::Nothing { taken }
                }
            },
        )
    }

    fn next_opener(&mut self) -> Result<(), TlsError> {
        let kernel = self.kernel.as_mut().ok_or(TlsError::Library)?;
        let (sequence, secrets) = kernel.update_rx_secret().map_err(|_| TlsError::Library)?;
        let direction = Direction {
            sequence,
            secrets,
            tls13: true,
        };
        self.opener = Opener::new(direction).ok_or(TlsError::Library)?;
        Ok(())
    }

    /// Layout of each record that is sealed.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.sealer.layout()
    }

    /// Number of records of data that may be sealed before [`Session::control`] has something to send.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        match self.key_update_due || self.renegotiation_refusal_due || !self.sending {
            true => 0,
            false => self.sealer.records_left(),
        }
    }

    /// Returns whether [`Session::control`] has to be called before more data can be sealed.
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
        if self.renegotiation_refusal_due {
            let alert = [WARNING, AlertDescription::NoRenegotiation.into()];
            self.append(Kind::Alert, &alert, outgoing)?;
            self.renegotiation_refusal_due = false;
        }
        if self.key_update_due || self.sealer.records_left() == 0 {
            self.change_key(outgoing)?;
            self.key_update_due = false;
        }
        Ok(())
    }

    fn change_key(&mut self, outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.kernel.is_none() {
            return Err(SealFault::Spent.into());
        }
        self.append(Kind::Handshake, &OUR_KEY_UPDATE, outgoing)?;
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
