//! A connection after its handshake, without I/O: records are encrypted and decrypted in place.

use std::ops::Range;

use rustls::AlertDescription;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::error::TlsError;
use super::facts::Facts;
use super::handshake::Established;
use super::post_handshake::{FATAL, Meaning, OUR_KEY_UPDATE, PostHandshake, WARNING};
use super::record::{Direction, Kind, Layout, Opener, SealFault, Sealer};

/// The keys and the state of a TLS connection.
pub struct Session {
    sealer: Sealer,
    opener: Opener,
    /// rustls's source of the next keys (KeyUpdate), named by it for the kernel; `None` in TLS 1.2.
    key_updates: Option<Box<KernelConnection<ServerConnectionData>>>,
    facts: Box<Facts>,
    /// Limit on the records of data for each key.
    records_max: u64,
    post_handshake: PostHandshake,
    /// True if the client requested a KeyUpdate that was not sent yet.
    key_update_due: bool,
    /// True if the client requested a renegotiation whose refusal was not sent yet.
    renegotiation_refusal_due: bool,
    receiving: Receiving,
    /// True until close_notify or a fatal alert is encrypted.
    sending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    Open,
    Closed,
    Failed,
}

/// Result of [`Session::open`]: the content of the first record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// Part of a record; the record has this number of bytes, or more if its header is incomplete.
    Incomplete(usize),
    /// Data, decrypted in place.
    Data {
        /// Range of the data in the buffer.
        at: Range<usize>,
        /// Length of the record in bytes.
        taken: usize,
    },
    /// A record without data for the application. [`Session::control_is_due`] may have changed.
    Nothing {
        /// Length of the record in bytes.
        taken: usize,
    },
    /// End of the client's data (close_notify). What follows is to be ignored.
    Closed,
}

impl Session {
    /// Makes a session from the results of a handshake.
    ///
    /// # Errors
    /// If [`record`](super::record) does not support the cipher suite.
    pub fn new(established: Established) -> Result<Self, TlsError> {
        Self::with_records_max(established, u64::MAX)
    }

    /// Like [`Session::new`], but each key encrypts at most `records_max` records of data, and no more than the cipher suite
    /// allows: then TLS 1.3 changes the key, and TLS 1.2 ends the connection.
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
        // With 0, keys would be changed for ever.
        let records_max = records_max.max(1);
        Ok(Self {
            sealer: Sealer::new(sending, records_max).ok_or(TlsError::Library)?,
            opener: Opener::new(receiving).ok_or(TlsError::Library)?,
            key_updates: kernel,
            post_handshake: PostHandshake::new(facts.tls13()),
            facts: Box::new(facts),
            records_max,
            key_update_due: false,
            renegotiation_refusal_due: false,
            receiving: Receiving::Open,
            sending: true,
        })
    }

    /// Parameters that the handshake negotiated.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Decrypts the first record of `incoming` in place. `incoming` has all bytes that were received and not yet taken.
    ///
    /// # Errors
    /// If the client breaks the protocol or ends the connection by an alert. Nothing more is decrypted; [`Session::fail`]
    /// makes the alert for the client.
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
                Meaning::NextKey { is_requested } => {
                    self.next_opener()?;
                    self.key_update_due |= is_requested;
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
        let kernel = self.key_updates.as_mut().ok_or(TlsError::Library)?;
        let (sequence, secrets) = kernel.update_rx_secret().map_err(|_| TlsError::Library)?;
        let direction = Direction {
            sequence,
            secrets,
            tls13: true,
        };
        self.opener = Opener::new(direction).ok_or(TlsError::Library)?;
        Ok(())
    }

    /// Layout of the records that [`Session::seal`] makes.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.sealer.layout()
    }

    /// Number of records of data that may be encrypted before [`Session::control`] has something to send.
    #[must_use]
    pub fn records_left(&self) -> u64 {
        match self.key_update_due || self.renegotiation_refusal_due || !self.sending {
            true => 0,
            false => self.sealer.records_left(),
        }
    }

    /// Returns whether [`Session::control`] has to be called before more data can be encrypted.
    #[must_use]
    pub fn control_is_due(&self) -> bool {
        self.sending && self.records_left() == 0
    }

    /// Appends the alerts and handshake messages that are due to `outgoing`, such as a KeyUpdate. They must be sent after
    /// all records made before and ahead of all records made later.
    ///
    /// # Errors
    /// [`SealFault::Spent`] if TLS 1.2 has used up its key. Then only [`Session::close`] is possible.
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
        if self.key_updates.is_none() {
            return Err(SealFault::Spent.into());
        }
        self.append(Kind::Handshake, &OUR_KEY_UPDATE, outgoing)?;
        // From here on the client expects the next key, so no other may be used even after an error.
        self.sending = false;
        let kernel = self.key_updates.as_mut().ok_or(TlsError::Library)?;
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

    /// Encrypts `payload` bytes of plaintext that are in `record` after [`Layout::before`] bytes; returns the length of the
    /// record. Records must be sent in the order of the calls.
    ///
    /// # Errors
    /// [`TlsError::ControlFirst`], with `record` unchanged, if [`Session::control_is_due`]; or if the lengths do not fit, or
    /// the connection has ended.
    pub fn seal(&mut self, record: &mut [u8], payload: usize) -> Result<usize, TlsError> {
        if !self.sending {
            return Err(TlsError::Ended);
        }
        if self.control_is_due() {
            return Err(TlsError::ControlFirst);
        }
        Ok(self.sealer.seal(Kind::Data, record, payload)?)
    }

    /// Appends close_notify, once. Nothing can be encrypted afterwards.
    pub fn close(&mut self, outgoing: &mut Vec<u8>) {
        self.end(WARNING, AlertDescription::CloseNotify, outgoing);
    }

    /// Appends the alert for `error`, unless the client has ended the connection itself. Nothing can be encrypted
    /// afterwards.
    pub fn fail(&mut self, error: &TlsError, outgoing: &mut Vec<u8>) {
        self.receiving = Receiving::Failed;
        match (error, error.alert()) {
            // Not an error of the client: it may connect again.
            (TlsError::Seal(SealFault::Spent), _) => self.close(outgoing),
            (_, Some(alert)) => self.end(FATAL, alert, outgoing),
            (_, None) => self.sending = false,
        }
    }

    fn end(&mut self, level: u8, alert: AlertDescription, outgoing: &mut Vec<u8>) {
        if std::mem::replace(&mut self.sending, false) {
            let start = outgoing.len();
            let sealed = self.append(Kind::Alert, &[level, alert.into()], outgoing);
            // If the key cannot encrypt the alert, the end of the stream has to suffice.
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
