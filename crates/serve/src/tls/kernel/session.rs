//! A connection whose records the kernel encrypts and decrypts. This module handles records that are not data, and counts
//! records until the next change of the key.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::AlertDescription;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use scrim_crypt::stream::Aead;
use scrim_sys::kernel_tls::{self, Cipher, RECORD};

use super::early::Early;
use super::keys;
use super::statistics::Statistics;
use crate::tls::post_handshake::{FATAL, Meaning, OUR_KEY_UPDATE, PostHandshake, WARNING};
use crate::tls::record::{Direction, Kind, OpenFault, SealFault, data_max};
use crate::tls::{Facts, TlsError};

/// State of a connection whose keys the kernel has. It cannot be moved back to user space.
pub struct KernelSession {
    pub(super) kernel: Option<Box<KernelConnection<ServerConnectionData>>>,
    pub(super) facts: Box<Facts>,
    pub(super) post_handshake: PostHandshake,
    /// True if the kernel can change keys.
    pub(super) rekeys: bool,
    /// Limit on the records that each key encrypts.
    pub(super) records_max: u64,
    /// Upper bound on the records that the current key has encrypted. The kernel does not report them, so each call that
    /// sends counts for one record more than its bytes need.
    pub(super) records: u64,
    /// True if the client requested a KeyUpdate that was not sent yet.
    pub(super) key_update_due: bool,
    /// True if the client requested a renegotiation whose refusal was not sent yet.
    pub(super) renegotiation_refusal_due: bool,
    /// Alert that ends the connection and was not sent yet.
    pub(super) closing_alert: Option<[u8; 2]>,
    pub(super) receiving: Receiving,
    /// True until the connection is being ended.
    pub(super) sending: bool,
}

pub(super) enum Receiving {
    /// Records that arrived with the handshake are decrypted here, before the kernel receives.
    Early(Box<Early>),
    /// The kernel decrypts the records.
    Open,
    Closed,
    /// A KeyUpdate arrived, and the kernel cannot change the key: the records that follow cannot be decrypted.
    KeyUnavailable,
    Failed(TlsError),
}

/// Result of one receive from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Data of the application.
    Data,
    /// A record without data for the application.
    Nothing,
    /// End of the client's data, or of what can be decrypted.
    Closed,
}

/// Error of a call that sends.
#[derive(Debug)]
pub enum SendError {
    /// Error of the socket; `WouldBlock` if its send queue is full.
    Socket(io::Error),
    /// Error of TLS that ends the connection.
    Tls(TlsError),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl From<TlsError> for SendError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

impl KernelSession {
    /// Parameters that the handshake negotiated.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Limit on the records of a key: `wanted`, but at most what is safe for the cipher.
    pub(super) fn max_records(cipher: Cipher, wanted: u64) -> u64 {
        let safe = data_max(match cipher {
            Cipher::Aes128Gcm => Aead::Aes128Gcm,
            Cipher::Aes256Gcm => Aead::Aes256Gcm,
            Cipher::ChaCha20Poly1305 => Aead::ChaCha20Poly1305,
        });
        // Each call counts for one record more than its bytes need, so a limit of 1 would allow no data.
        wanted.clamp(2, safe)
    }

    /// Appends received data to `inbox`; the kernel fills its spare capacity. Does not wait.
    ///
    /// # Errors
    /// The outer error is the socket's, `WouldBlock` if nothing has arrived. The inner error is the client's, which breaks
    /// the protocol or ends the connection by an alert: nothing more is received, and [`fail`](Self::fail) makes the alert
    /// for the client.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        inbox: &mut Vec<u8>,
    ) -> io::Result<Result<Received, TlsError>> {
        let had = inbox.len();
        let kind = match self.next_record(socket, inbox)? {
            Ok(Some(kind)) => kind,
            Ok(None) => return Ok(Ok(Received::Closed)),
            Err(error) => return Ok(self.failed(error)),
        };
        let meaning = self.post_handshake.classify(kind, &inbox[had..]);
        if meaning != Ok(Meaning::Data) {
            inbox.truncate(had);
        }
        let applied = meaning.and_then(|meaning| self.apply(meaning, socket));
        let done = applied.and_then(|got| self.start_kernel_receive(socket).map(|()| got));
        Ok(done.or_else(|error| self.failed(error)))
    }

    /// Returns whether there may be received records for which the socket gives no event.
    #[must_use]
    pub fn holds_records(&self) -> bool {
        matches!(self.receiving, Receiving::Early(_))
    }

    /// Returns whether a fault in the client's records was found that [`receive`](Self::receive) reports, for which the
    /// socket may give no further event.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self.receiving, Receiving::Failed(_))
    }

    /// Appends the content of a record to `inbox`, or of several records of data; returns their kind, or `None` at the end
    /// of the input.
    fn next_record(
        &mut self,
        socket: BorrowedFd<'_>,
        inbox: &mut Vec<u8>,
    ) -> io::Result<Result<Option<Kind>, TlsError>> {
        if let Err(error) = self.start_kernel_receive(socket) {
            return Ok(Err(error));
        }
        match &mut self.receiving {
            Receiving::Early(early) => Ok(match early.front(socket)? {
                Ok(Some(len)) => early.open(len, inbox).map(Some).map_err(Into::into),
                Ok(None) => Ok(None),
                Err(fault) => Err(fault.into()),
            }),
            Receiving::Open => next_of_kernel(socket, inbox, self.facts.tls13()),
            Receiving::Closed | Receiving::KeyUnavailable => Ok(Ok(None)),
            Receiving::Failed(error) => Ok(Err(error.clone())),
        }
    }

    /// Lets the kernel receive, once all records that arrived before are decrypted.
    fn start_kernel_receive(&mut self, socket: BorrowedFd<'_>) -> Result<(), TlsError> {
        if let Receiving::Early(early) = &self.receiving
            && early.is_empty()
        {
            let way = kernel_tls::Direction::Receive;
            // The kernel has the other key already and cannot give it back.
            kernel_tls::install(socket, way, early.info()).map_err(|_| TlsError::Library)?;
            self.receiving = Receiving::Open;
        }
        Ok(())
    }

    /// Defers a fault that the kernel has found in the client's records until the next [`receive`](Self::receive); returns
    /// whether there was one. The kernel keeps the fault as the error of the socket, which prevents sending. It is taken
    /// from there, so that the answers to earlier requests can still be sent. A call that sends may have taken it
    /// already: then `unsent` is that call's error.
    pub fn defer_fault(&mut self, socket: BorrowedFd<'_>, unsent: Option<&io::Error>) -> bool {
        let is_open = matches!(self.receiving, Receiving::Open);
        let kept = take_error(socket).and_then(|error| fault(&error));
        let taken = unsent.filter(|_| is_open).and_then(fault);
        let Some(found) = kept.or(taken) else {
            return false;
        };
        if is_open {
            let found = classify_bad_record(socket, found, self.facts.tls13());
            self.receiving = Receiving::Failed(found.into());
        }
        true
    }

    fn failed(&mut self, error: TlsError) -> Result<Received, TlsError> {
        self.receiving = Receiving::Failed(error.clone());
        Err(error)
    }

    /// Applies the meaning of a record to the session.
    fn apply(&mut self, meaning: Meaning, socket: BorrowedFd<'_>) -> Result<Received, TlsError> {
        match meaning {
            Meaning::Data => return Ok(Received::Data),
            Meaning::Nothing => {}
            Meaning::Closed => {
                self.receiving = Receiving::Closed;
                return Ok(Received::Closed);
            }
            Meaning::Renegotiation => self.renegotiation_refusal_due = true,
            Meaning::NextKey { is_requested } => {
                self.key_update_due |= is_requested;
                return self.next_key_to_receive(socket);
            }
        }
        Ok(Received::Nothing)
    }

    fn next_key_to_receive(&mut self, socket: BorrowedFd<'_>) -> Result<Received, TlsError> {
        if let Receiving::Early(_) = self.receiving {
            let next = self.next_receiving()?;
            if let Receiving::Early(early) = &mut self.receiving {
                early.change_key(next)?;
            }
            return Ok(Received::Nothing);
        }
        if !self.rekeys {
            self.receiving = Receiving::KeyUnavailable;
            return Ok(Received::Closed);
        }
        let next = keys::info(&self.next_receiving()?).ok_or(TlsError::Library)?;
        // A network card may be unable to change keys, even if the kernel itself is able.
        Ok(
            match kernel_tls::install(socket, kernel_tls::Direction::Receive, &next) {
                Ok(()) => Received::Nothing,
                Err(_) => {
                    self.receiving = Receiving::KeyUnavailable;
                    Received::Closed
                }
            },
        )
    }

    fn next_receiving(&mut self) -> Result<Direction, TlsError> {
        let kernel = self.kernel.as_mut().ok_or(TlsError::Library)?;
        let (sequence, secrets) = kernel.update_rx_secret().map_err(|_| TlsError::Library)?;
        Ok(Direction {
            sequence,
            secrets,
            tls13: true,
        })
    }

    /// Returns whether [`control`](Self::control) has something to send before more data.
    #[must_use]
    pub fn control_is_due(&self) -> bool {
        self.closing_alert.is_some()
            || (self.sending
                && (self.key_update_due
                    || self.renegotiation_refusal_due
                    || self.send_capacity() == 0))
    }

    /// Fails if no data may be sent, since the connection is being ended or a change of the key has failed.
    ///
    /// # Errors
    /// [`TlsError::Ended`].
    pub fn check_open(&self) -> Result<(), TlsError> {
        match self.sending {
            true => Ok(()),
            false => Err(TlsError::Ended),
        }
    }

    /// Limit in bytes on the data that one call may send now.
    #[must_use]
    pub fn send_capacity(&self) -> u64 {
        let records = self.records_max.saturating_sub(self.records);
        records.saturating_sub(1).saturating_mul(RECORD as u64)
    }

    /// Returns whether the connection can continue after an answer of `bytes`.
    #[must_use]
    pub fn can_continue_after(&self, bytes: u64) -> bool {
        if !self.sending || matches!(self.receiving, Receiving::KeyUnavailable) {
            return false;
        }
        if self.key_update_due && !self.rekeys {
            return false;
        }
        if self.rekeys && self.kernel.is_some() {
            return true;
        }
        // An eighth more for files that are sent by many calls, and an eighth of the limit for later answers.
        let wanted = bytes / RECORD as u64 * 9 / 8 + self.records_max / 8;
        self.records.saturating_add(wanted) <= self.records_max
    }

    /// Counts the records for bytes of data that one call has sent.
    pub fn sent(&mut self, bytes: u64) {
        if bytes > 0 {
            let records = bytes.div_ceil(RECORD as u64).saturating_add(1);
            self.records = self.records.saturating_add(records);
        }
    }

    /// Sends the alerts and handshake messages that are due, such as a KeyUpdate. Does not wait: after `WouldBlock`, another
    /// call continues.
    ///
    /// # Errors
    /// [`SealFault::Spent`] if the key has to be changed, but TLS 1.2 or this kernel cannot do it.
    pub fn control(&mut self, socket: BorrowedFd<'_>) -> Result<(), SendError> {
        // A pending socket error would discard an open record of data.
        self.defer_fault(socket, None);
        if self.renegotiation_refusal_due && self.sending {
            let alert = [WARNING, AlertDescription::NoRenegotiation.into()];
            send(socket, Kind::Alert, &alert)?;
            self.records = self.records.saturating_add(1);
            self.renegotiation_refusal_due = false;
        }
        if let Some(alert) = self.closing_alert {
            send(socket, Kind::Alert, &alert)?;
            self.closing_alert = None;
        }
        if self.sending && (self.key_update_due || self.send_capacity() == 0) {
            self.change_key(socket)?;
            self.key_update_due = false;
        }
        Ok(())
    }

    fn change_key(&mut self, socket: BorrowedFd<'_>) -> Result<(), SendError> {
        let Some(kernel) = self.kernel.as_mut().filter(|_| self.rekeys) else {
            return Err(TlsError::from(SealFault::Spent).into());
        };
        send(socket, Kind::Handshake, &OUR_KEY_UPDATE)?;
        // From here on the client expects the next key, so no other may be used even after an error.
        self.sending = false;
        let (sequence, secrets) = kernel.update_tx_secret().map_err(|_| TlsError::Library)?;
        let direction = Direction {
            sequence,
            secrets,
            tls13: true,
        };
        let info = keys::info(&direction).ok_or(TlsError::Library)?;
        drop(direction);
        // Not returned as an error of the socket, which would cause another attempt with the old key.
        kernel_tls::install(socket, kernel_tls::Direction::Send, &info)
            .map_err(|_| TlsError::Library)?;
        self.records = 0;
        self.sending = true;
        Ok(())
    }

    /// Makes [`control`](Self::control) send close_notify. No data can be sent afterwards.
    pub fn close(&mut self) {
        self.end([WARNING, AlertDescription::CloseNotify.into()]);
    }

    /// Makes [`control`](Self::control) send the alert for `error`, unless the client has ended the connection itself.
    /// Nothing else can be sent afterwards.
    pub fn fail(&mut self, error: &TlsError) {
        self.receiving = Receiving::Failed(error.clone());
        match (error, error.alert()) {
            // Not an error of the client: it may connect again.
            (TlsError::Seal(SealFault::Spent), _) => self.close(),
            (_, Some(alert)) => self.end([FATAL, alert.into()]),
            (_, None) => self.sending = false,
        }
    }

    fn end(&mut self, alert: [u8; 2]) {
        if std::mem::replace(&mut self.sending, false) {
            self.closing_alert = Some(alert);
        }
    }
}

/// Receives the next record from the kernel, as [`KernelSession::next_record`] does.
fn next_of_kernel(
    socket: BorrowedFd<'_>,
    inbox: &mut Vec<u8>,
    tls13: bool,
) -> io::Result<Result<Option<Kind>, TlsError>> {
    let received = match kernel_tls::receive(socket, inbox) {
        Ok(received) => received,
        Err(error) => {
            let fault = fault(&error).ok_or(error)?;
            // The kernel also keeps it as the error of the socket, which prevents sending. It is taken from there, so that
            // the alert can be sent.
            take_error(socket);
            return Ok(Err(classify_bad_record(socket, fault, tls13).into()));
        }
    };
    Ok(match received.kind.map(Kind::from_wire) {
        None => Ok(None),
        Some(None) => Err(TlsError::Record(OpenFault::Kind)),
        Some(kind) => Ok(kind),
    })
}

/// Takes the pending error of the socket (`SO_ERROR`).
fn take_error(socket: BorrowedFd<'_>) -> Option<io::Error> {
    match rustix::net::sockopt::socket_error(socket) {
        Ok(Err(kept)) => Some(kept.into()),
        _ => None,
    }
}

/// Classifies a record that the kernel could not decrypt. The kernel has one error for three faults, for which RFC 8446
/// has two alerts, and TLS 1.2 one. The record is still in the queue: a peek makes the kernel try once more.
fn classify_bad_record(socket: BorrowedFd<'_>, fault: OpenFault, tls13: bool) -> OpenFault {
    if fault != OpenFault::Mac || !tls13 {
        return fault;
    }
    // The kernel counts wrong tags of all connections; one of another connection at this moment hides the difference.
    let wrong_tags = || Statistics::read().map(|kernel| kernel.decrypt_errors);
    let before = wrong_tags();
    let again = rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    match again {
        Err(Errno::BADMSG) => {
            take_error(socket);
            match before.is_some() && before == wrong_tags() {
                true => OpenFault::Empty,
                false => OpenFault::Mac,
            }
        }
        // The header was refused, since the record is too short for a tag. An unencrypted alert or message looks like this
        // too, and cannot be distinguished from short data (for which `Session` returns `Mac`).
        Err(Errno::AGAIN) | Ok((_, 0)) => OpenFault::Kind,
        _ => OpenFault::Mac,
    }
}

/// Sends a short record completely. An open record of data is closed first, by a message without content: if closing it has
/// to wait, kernels before 6.18 lose the type of the next record.
fn send(socket: BorrowedFd<'_>, kind: Kind, content: &[u8]) -> Result<(), SendError> {
    match kernel_tls::send_control(socket, kind.to_wire(), &[]) {
        Ok(_) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    match kernel_tls::send_control(socket, kind.to_wire(), content)? {
        sent if sent == content.len() => Ok(()),
        _ => Err(TlsError::Library.into()),
    }
}

/// The fault in a client's record that an error of the kernel stands for; `None` for other errors.
fn fault(error: &io::Error) -> Option<OpenFault> {
    Some(match Errno::from_io_error(error)? {
        Errno::BADMSG => OpenFault::Mac,
        Errno::MSGSIZE => OpenFault::TooLong,
        Errno::INVAL => OpenFault::Version,
        Errno::IO => OpenFault::Kind,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Protocol, TlsError};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// A session whose kernel cannot change keys.
    fn session(records_max: u64) -> KernelSession {
        KernelSession {
            kernel: None,
            facts: Box::new(Facts {
                version: "TLSv1.2",
                suite: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                protocol: Protocol::Http11,
                resumed: false,
                group: None,
            }),
            post_handshake: PostHandshake::new(false),
            rekeys: false,
            records_max: KernelSession::max_records(Cipher::Aes128Gcm, records_max),
            records: 1,
            key_update_due: false,
            renegotiation_refusal_due: false,
            closing_alert: None,
            receiving: Receiving::Open,
            sending: true,
        }
    }

    #[test]
    fn a_key_makes_no_more_records_than_are_safe_whatever_is_sent_by_each_call() {
        assert_eq!(session(u64::MAX).records_max, (1 << 24) - 16);
        assert_eq!(KernelSession::max_records(Cipher::ChaCha20Poly1305, 7), 7);
        for call in [1, 100, RECORD as u64, RECORD as u64 + 1, 1 << 20] {
            let mut session = session(100);
            // At worst, the first bytes of a call end a record, and its last bytes begin another.
            let mut records = 1;
            while session.send_capacity() > 0 {
                let sent = call.min(session.send_capacity());
                session.sent(sent);
                records += sent.div_ceil(RECORD as u64) + 1;
            }
            assert!((90..=100).contains(&records), "{call}: {records}");
            assert!(session.control_is_due());
        }
    }

    #[test]
    fn an_answer_after_which_the_key_would_be_used_up_is_the_last() {
        let mut session = session(1000);
        assert!(session.can_continue_after(0) && session.can_continue_after(10 << 20));
        assert!(!session.can_continue_after(16 << 20));
        session.sent(15 << 20);
        assert!(!session.can_continue_after(0));
        session.kernel = None;
        session.rekeys = true;
        assert!(!session.can_continue_after(0), "TLS 1.2 has no other key");
    }

    #[test]
    fn a_key_that_cannot_be_changed_ends_the_connection_with_close_notify() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut session = session(2);
        session.sent(1);
        assert!(session.control_is_due());
        let Err(SendError::Tls(error)) = session.control(ours.as_fd()) else {
            panic!("there is no other key");
        };
        assert_eq!(error, TlsError::Seal(SealFault::Spent));
        session.fail(&error);
        assert_eq!(session.closing_alert, Some([WARNING, 0]));
        assert!(!session.can_continue_after(0));
    }

    #[test]
    fn nothing_is_received_after_a_key_update_that_the_kernel_cannot_apply() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut session = session(100);
        session.post_handshake = PostHandshake::new(true);
        let meaning = session
            .post_handshake
            .classify(Kind::Handshake, &[24, 0, 0, 1, 1]);
        let got = session.apply(meaning.unwrap(), ours.as_fd());
        assert_eq!(got, Ok(Received::Closed));
        assert!(session.key_update_due && session.control_is_due());
        let mut inbox = Vec::with_capacity(16);
        assert_eq!(
            session.receive(ours.as_fd(), &mut inbox).unwrap(),
            Ok(Received::Closed)
        );
    }

    #[test]
    fn a_fault_that_a_send_returned_is_deferred_once() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut session = session(100);
        let of = |errno: Errno| Some(io::Error::from(errno));
        assert!(!session.defer_fault(ours.as_fd(), of(Errno::CONNRESET).as_ref()));
        assert!(!session.has_failed());
        assert!(session.defer_fault(ours.as_fd(), of(Errno::MSGSIZE).as_ref()));
        assert!(session.has_failed());
        // The second time it is the call's own.
        assert!(!session.defer_fault(ours.as_fd(), of(Errno::MSGSIZE).as_ref()));
        let told = session.receive(ours.as_fd(), &mut Vec::new()).unwrap();
        assert_eq!(told, Err(TlsError::Record(OpenFault::TooLong)));
    }

    #[test]
    fn a_fault_in_a_record_is_distinguished_from_an_error_of_the_socket() {
        let of = |errno: Errno| fault(&errno.into());
        assert_eq!(of(Errno::BADMSG), Some(OpenFault::Mac));
        assert_eq!(of(Errno::MSGSIZE), Some(OpenFault::TooLong));
        assert_eq!(of(Errno::CONNRESET), None);
        assert_eq!(of(Errno::AGAIN), None);
    }
}
