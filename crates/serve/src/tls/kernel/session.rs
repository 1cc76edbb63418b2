//! A connection whose records the kernel makes: the records that are not data, and the count towards the next key, are
//! left to us.

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
use crate::tls::conduct::{Conduct, FATAL, Meaning, OUR_KEY_UPDATE, WARNING};
use crate::tls::record::{Direction, Kind, OpenFault, SealFault, data_max};
use crate::tls::{Facts, TlsError};

/// State of a connection whose keys are the kernel's. There is no way back.
pub struct KernelSession {
    pub(super) kernel: Option<Box<KernelConnection<ServerConnectionData>>>,
    pub(super) facts: Box<Facts>,
    pub(super) conduct: Conduct,
    /// True if the kernel can change keys.
    pub(super) rekeys: bool,
    /// Most records by each key.
    pub(super) records_max: u64,
    /// Most records that the present key may have sealed: the kernel does not tell, so each call that sends counts for
    /// one more than its bytes need.
    pub(super) records: u64,
    /// True if the client asked for a KeyUpdate that has not been sent.
    pub(super) owes_key_update: bool,
    /// True if the client has asked to negotiate again, and the refusal has not been sent.
    pub(super) owes_refusal: bool,
    /// An alert that ends the connection, and has not been sent.
    pub(super) goodbye: Option<[u8; 2]>,
    pub(super) receiving: Receiving,
    /// True if something may still be sent.
    pub(super) sending: bool,
}

pub(super) enum Receiving {
    /// Records that came with the handshake are opened here, before the kernel goes on.
    Early(Box<Early>),
    /// The kernel receives.
    Open,
    Closed,
    /// The client's next key has come, and the kernel cannot change it: what follows cannot be opened.
    Deaf,
    Failed(TlsError),
}

/// Result of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// Data.
    Data,
    /// A record that says nothing to the application.
    Nothing,
    /// The client sends no more, or what it sends cannot be opened any more.
    Closed,
}

/// Reason for which something was not sent.
#[derive(Debug)]
pub enum Unsent {
    /// The socket says so: `WouldBlock` where it has no room now.
    Socket(io::Error),
    /// TLS does not go on.
    Tls(TlsError),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl From<TlsError> for Unsent {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

impl KernelSession {
    /// Terms that the handshake agreed on.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The most records that a key may make, of those that are asked for.
    pub(super) fn most(cipher: Cipher, wanted: u64) -> u64 {
        let safe = data_max(match cipher {
            Cipher::Aes128Gcm => Aead::Aes128Gcm,
            Cipher::Aes256Gcm => Aead::Aes256Gcm,
            Cipher::ChaCha20Poly1305 => Aead::ChaCha20Poly1305,
        });
        // Each call counts for one more than it may need: with one there would be no room for data at all.
        wanted.clamp(2, safe)
    }

    /// Adds what has come to `inbox`: of the kernel's, as much as it has room for. Does not wait.
    ///
    /// # Errors
    /// The outer one is the socket's, `WouldBlock` when nothing has come. The inner one is the client's, which breaks
    /// the protocol or ends the connection by an alert: nothing more is received, and [`fail`](Self::fail) tells the
    /// client.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        inbox: &mut Vec<u8>,
    ) -> io::Result<Result<Got, TlsError>> {
        let had = inbox.len();
        let kind = match self.next_record(socket, inbox)? {
            Ok(Some(kind)) => kind,
            Ok(None) => return Ok(Ok(Got::Closed)),
            Err(error) => return Ok(self.failed(error)),
        };
        let judged = self.conduct.judge(kind, &inbox[had..]);
        if judged != Ok(Meaning::Data) {
            inbox.truncate(had);
        }
        let obeyed = judged.and_then(|meaning| self.obey(meaning, socket));
        let done = obeyed.and_then(|got| self.hand_over(socket).map(|()| got));
        Ok(done.or_else(|error| self.failed(error)))
    }

    /// Returns whether there may be records that have been received and of which the socket does not tell.
    #[must_use]
    pub fn holds_records(&self) -> bool {
        matches!(self.receiving, Receiving::Early(_))
    }

    /// Returns whether a fault in the client's records was found, of which [`receive`](Self::receive) tells: the socket
    /// need not, any more.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self.receiving, Receiving::Failed(_))
    }

    /// Adds the content of a record to `inbox`, or of several of data; returns their kind, or `None` once no more
    /// comes.
    fn next_record(
        &mut self,
        socket: BorrowedFd<'_>,
        inbox: &mut Vec<u8>,
    ) -> io::Result<Result<Option<Kind>, TlsError>> {
        if let Err(error) = self.hand_over(socket) {
            return Ok(Err(error));
        }
        match &mut self.receiving {
            Receiving::Early(early) => Ok(match early.front(socket)? {
                Ok(Some(len)) => early.open(len, inbox).map(Some).map_err(Into::into),
                Ok(None) => Ok(None),
                Err(fault) => Err(fault.into()),
            }),
            Receiving::Open => next_of_kernel(socket, inbox, self.facts.tls13()),
            Receiving::Closed | Receiving::Deaf => Ok(Ok(None)),
            Receiving::Failed(error) => Ok(Err(error.clone())),
        }
    }

    /// Has the kernel receive, once all is opened that came before.
    fn hand_over(&mut self, socket: BorrowedFd<'_>) -> Result<(), TlsError> {
        if let Receiving::Early(early) = &self.receiving
            && early.is_empty()
        {
            let way = kernel_tls::Direction::Receive;
            // It has the other key, and gives none back.
            kernel_tls::install(socket, way, early.info()).map_err(|_| TlsError::Library)?;
            self.receiving = Receiving::Open;
        }
        Ok(())
    }

    /// Returns whether the kernel has found a fault in the client's records that was not heard of. It keeps that as the
    /// socket's own error, by which nothing can be sent, and which is taken from there: what the client asked for
    /// before it gets, and [`receive`](Self::receive) tells of the fault. A call that sends may have taken it
    /// already: then `unsent` is what that failed by.
    pub fn puts_off(&mut self, socket: BorrowedFd<'_>, unsent: Option<&io::Error>) -> bool {
        let is_open = matches!(self.receiving, Receiving::Open);
        let kept = take_error(socket).and_then(|error| fault(&error));
        let taken = unsent.filter(|_| is_open).and_then(fault);
        let Some(found) = kept.or(taken) else {
            return false;
        };
        if is_open {
            let found = told_apart(socket, found, self.facts.tls13());
            self.receiving = Receiving::Failed(found.into());
        }
        true
    }

    fn failed(&mut self, error: TlsError) -> Result<Got, TlsError> {
        self.receiving = Receiving::Failed(error.clone());
        Err(error)
    }

    /// Does what a record asks for.
    fn obey(&mut self, meaning: Meaning, socket: BorrowedFd<'_>) -> Result<Got, TlsError> {
        match meaning {
            Meaning::Data => return Ok(Got::Data),
            Meaning::Nothing => {}
            Meaning::Closed => {
                self.receiving = Receiving::Closed;
                return Ok(Got::Closed);
            }
            Meaning::Renegotiation => self.owes_refusal = true,
            Meaning::NextKey { ours_too } => {
                self.owes_key_update |= ours_too;
                return self.next_key_to_receive(socket);
            }
        }
        Ok(Got::Nothing)
    }

    fn next_key_to_receive(&mut self, socket: BorrowedFd<'_>) -> Result<Got, TlsError> {
        if let Receiving::Early(_) = self.receiving {
            let next = self.next_receiving()?;
            if let Receiving::Early(early) = &mut self.receiving {
                early.change_key(next)?;
            }
            return Ok(Got::Nothing);
        }
        if !self.rekeys {
            self.receiving = Receiving::Deaf;
            return Ok(Got::Closed);
        }
        let next = keys::info(&self.next_receiving()?).ok_or(TlsError::Library)?;
        // A network card that took the connection may not, where the kernel itself can.
        Ok(
            match kernel_tls::install(socket, kernel_tls::Direction::Receive, &next) {
                Ok(()) => Got::Nothing,
                Err(_) => {
                    self.receiving = Receiving::Deaf;
                    Got::Closed
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
        self.goodbye.is_some()
            || (self.sending && (self.owes_key_update || self.owes_refusal || self.room() == 0))
    }

    /// Fails if no data may be sent: the connection is being ended, or the client knows the key to be the last one.
    ///
    /// # Errors
    /// [`TlsError::Ended`].
    pub fn check_open(&self) -> Result<(), TlsError> {
        match self.sending {
            true => Ok(()),
            false => Err(TlsError::Ended),
        }
    }

    /// Most bytes of data that may be sent with one call now.
    #[must_use]
    pub fn room(&self) -> u64 {
        let records = self.records_max.saturating_sub(self.records);
        records.saturating_sub(1).saturating_mul(RECORD as u64)
    }

    /// Returns whether `bytes` can be sent, and something after them, before the connection has to end.
    #[must_use]
    pub fn lasts(&self, bytes: u64) -> bool {
        if !self.sending || matches!(self.receiving, Receiving::Deaf) {
            return false;
        }
        if self.owes_key_update && !self.rekeys {
            return false;
        }
        if self.rekeys && self.kernel.is_some() {
            return true;
        }
        // For files that are sent in many calls; and an eighth of all for what comes then.
        let wanted = bytes / RECORD as u64 * 9 / 8 + self.records_max / 8;
        self.records.saturating_add(wanted) <= self.records_max
    }

    /// Counts bytes of data that one call has sent.
    pub fn sent(&mut self, bytes: u64) {
        if bytes > 0 {
            let records = bytes.div_ceil(RECORD as u64).saturating_add(1);
            self.records = self.records.saturating_add(records);
        }
    }

    /// Sends what goes before the next data, behind all that was sent before. That may be a change of the
    /// key. Does not wait: after `WouldBlock` it goes on where it was.
    ///
    /// # Errors
    /// [`SealFault::Spent`] when the key has to be changed and cannot be: by TLS 1.2, or by this kernel.
    pub fn control(&mut self, socket: BorrowedFd<'_>) -> Result<(), Unsent> {
        // A record of data that waits for more would be lost by it.
        self.puts_off(socket, None);
        if self.owes_refusal && self.sending {
            let alert = [WARNING, AlertDescription::NoRenegotiation.into()];
            send(socket, Kind::Alert, &alert)?;
            self.records = self.records.saturating_add(1);
            self.owes_refusal = false;
        }
        if let Some(alert) = self.goodbye {
            send(socket, Kind::Alert, &alert)?;
            self.goodbye = None;
        }
        if self.sending && (self.owes_key_update || self.room() == 0) {
            self.change_key(socket)?;
            self.owes_key_update = false;
        }
        Ok(())
    }

    fn change_key(&mut self, socket: BorrowedFd<'_>) -> Result<(), Unsent> {
        let Some(kernel) = self.kernel.as_mut().filter(|_| self.rekeys) else {
            return Err(TlsError::from(SealFault::Spent).into());
        };
        send(socket, Kind::Handshake, &OUR_KEY_UPDATE)?;
        // From here on the client expects the next key, and no other may be used.
        self.sending = false;
        let (sequence, secrets) = kernel.update_tx_secret().map_err(|_| TlsError::Library)?;
        let direction = Direction {
            sequence,
            secrets,
            tls13: true,
        };
        let info = keys::info(&direction).ok_or(TlsError::Library)?;
        drop(direction);
        // Not as a socket's error, after which it would be tried again: there is no way back to the key before.
        kernel_tls::install(socket, kernel_tls::Direction::Send, &info)
            .map_err(|_| TlsError::Library)?;
        self.records = 0;
        self.sending = true;
        Ok(())
    }

    /// Has [`control`](Self::control) say that nothing more comes. No data can be sent any more.
    pub fn close(&mut self) {
        self.end([WARNING, AlertDescription::CloseNotify.into()]);
    }

    /// Has [`control`](Self::control) tell the client why the connection ends, if it does not know. Nothing
    /// else can be sent any more.
    pub fn fail(&mut self, error: &TlsError) {
        self.receiving = Receiving::Failed(error.clone());
        match (error, error.alert()) {
            // Nobody did anything wrong: the client connects again.
            (TlsError::Seal(SealFault::Spent), _) => self.close(),
            (_, Some(alert)) => self.end([FATAL, alert.into()]),
            (_, None) => self.sending = false,
        }
    }

    fn end(&mut self, alert: [u8; 2]) {
        if std::mem::replace(&mut self.sending, false) {
            self.goodbye = Some(alert);
        }
    }
}

/// Like [`KernelSession::next_record`], where the kernel receives.
fn next_of_kernel(
    socket: BorrowedFd<'_>,
    inbox: &mut Vec<u8>,
    tls13: bool,
) -> io::Result<Result<Option<Kind>, TlsError>> {
    let received = match kernel_tls::receive(socket, inbox) {
        Ok(received) => received,
        Err(error) => {
            let fault = fault(&error).ok_or(error)?;
            // The kernel keeps it as the socket's own error, by which nothing could be sent any more: it
            // is taken from there, so that the client can be told.
            take_error(socket);
            return Ok(Err(told_apart(socket, fault, tls13).into()));
        }
    };
    Ok(match received.kind.map(Kind::from_wire) {
        None => Ok(None),
        Some(None) => Err(TlsError::Record(OpenFault::Kind)),
        Some(kind) => Ok(kind),
    })
}

/// Takes the socket's own error, which the socket no longer has then.
fn take_error(socket: BorrowedFd<'_>) -> Option<io::Error> {
    match rustix::net::sockopt::socket_error(socket) {
        Ok(Err(kept)) => Some(kept.into()),
        _ => None,
    }
}

/// Finds the fault of a record that the kernel could not open. It gives one reason for three faults, which RFC 8446
/// answers by two alerts; TLS 1.2 has one for them. The record is still there, and is opened once more in vain, with
/// nothing taken from the socket.
fn told_apart(socket: BorrowedFd<'_>, fault: OpenFault, tls13: bool) -> OpenFault {
    if fault != OpenFault::Mac || !tls13 {
        return fault;
    }
    // Wrong tags are counted, of all connections together: another one's at this moment hides the difference.
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
        // It was refused by its header, since it has no room for a tag: it is not sealed. An alert or a message in the
        // open looks like that too, and cannot be told from data that is too short (there `Session` says `Mac`).
        Err(Errno::AGAIN) | Ok((_, 0)) => OpenFault::Kind,
        _ => OpenFault::Mac,
    }
}

/// Sends a short record whole. A record of data that waits for more is closed first, by a message without
/// content: where closing it has to wait, kernels before 6.18 forget of what kind the next one was to be.
fn send(socket: BorrowedFd<'_>, kind: Kind, content: &[u8]) -> Result<(), Unsent> {
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

/// The fault of a client's record that an error of the kernel means, if it means one.
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
            conduct: Conduct::new(false),
            rekeys: false,
            records_max: KernelSession::most(Cipher::Aes128Gcm, records_max),
            records: 1,
            owes_key_update: false,
            owes_refusal: false,
            goodbye: None,
            receiving: Receiving::Open,
            sending: true,
        }
    }

    #[test]
    fn a_key_makes_no_more_records_than_are_safe_whatever_is_sent_by_each_call() {
        assert_eq!(session(u64::MAX).records_max, (1 << 24) - 16);
        assert_eq!(KernelSession::most(Cipher::ChaCha20Poly1305, 7), 7);
        for call in [1, 100, RECORD as u64, RECORD as u64 + 1, 1 << 20] {
            let mut session = session(100);
            // At worst, the call's first bytes end a record, and its last ones begin another.
            let mut records = 1;
            while session.room() > 0 {
                let sent = call.min(session.room());
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
        assert!(session.lasts(0) && session.lasts(10 << 20));
        assert!(!session.lasts(16 << 20));
        session.sent(15 << 20);
        assert!(!session.lasts(0));
        session.kernel = None;
        session.rekeys = true;
        assert!(!session.lasts(0), "TLS 1.2 has no other key");
    }

    #[test]
    fn a_key_that_cannot_be_changed_ends_the_connection_with_a_farewell() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut session = session(2);
        session.sent(1);
        assert!(session.control_is_due());
        let Err(Unsent::Tls(error)) = session.control(ours.as_fd()) else {
            panic!("there is no other key");
        };
        assert_eq!(error, TlsError::Seal(SealFault::Spent));
        session.fail(&error);
        assert_eq!(session.goodbye, Some([WARNING, 0]));
        assert!(!session.lasts(0));
    }

    #[test]
    fn nothing_is_received_behind_a_key_that_the_kernel_cannot_change() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut session = session(100);
        session.conduct = Conduct::new(true);
        let judged = session.conduct.judge(Kind::Handshake, &[24, 0, 0, 1, 1]);
        let got = session.obey(judged.unwrap(), ours.as_fd());
        assert_eq!(got, Ok(Got::Closed));
        assert!(session.owes_key_update && session.control_is_due());
        let mut inbox = Vec::with_capacity(16);
        assert_eq!(
            session.receive(ours.as_fd(), &mut inbox).unwrap(),
            Ok(Got::Closed)
        );
    }

    #[test]
    fn a_fault_that_a_call_to_send_was_told_of_is_put_off_once() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut session = session(100);
        let of = |errno: Errno| Some(io::Error::from(errno));
        assert!(!session.puts_off(ours.as_fd(), of(Errno::CONNRESET).as_ref()));
        assert!(!session.has_failed());
        assert!(session.puts_off(ours.as_fd(), of(Errno::MSGSIZE).as_ref()));
        assert!(session.has_failed());
        // The second time it is the call's own.
        assert!(!session.puts_off(ours.as_fd(), of(Errno::MSGSIZE).as_ref()));
        let told = session.receive(ours.as_fd(), &mut Vec::new()).unwrap();
        assert_eq!(told, Err(TlsError::Record(OpenFault::TooLong)));
    }

    #[test]
    fn an_alert_of_the_kernels_is_told_apart_from_a_socket_that_broke() {
        let of = |errno: Errno| fault(&errno.into());
        assert_eq!(of(Errno::BADMSG), Some(OpenFault::Mac));
        assert_eq!(of(Errno::MSGSIZE), Some(OpenFault::TooLong));
        assert_eq!(of(Errno::CONNRESET), None);
        assert_eq!(of(Errno::AGAIN), None);
    }
}
