//! One connection's TLS, without I/O.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CipherSuite, CommonState, ProtocolVersion};

use super::error::TlsError;
use super::wire::{PLAINTEXT_MAX, Wire};

/// Most bytes of the handshake, and of alerts and key updates after it, that wait to be sent.
const PENDING_MAX: usize = 128 << 10;

/// Bytes of a record's header; the last two are the length of the rest.
const RECORD_HEADER: usize = 5;

/// Version and cipher suite of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// The version: `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite, by its registered name.
    pub suite: &'static str,
}

/// The TLS of one connection, on either side.
pub struct Session {
    pub(super) side: Side,
    /// Records of the handshake, alerts and key updates, in the order in which they were encrypted:
    /// they go before everything that is encrypted later.
    pending: Vec<u8>,
    peer_closed: bool,
    /// True after an error: rustls may hold parts of messages then, and is not called any more.
    failed: bool,
}

pub(super) enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// Result of one step.
enum Turn {
    /// Something was done, and there may be more to do.
    Again,
    /// This many bytes of plaintext came.
    Plain(usize),
    /// Nothing can be done before more bytes come; data may be sent.
    Ready,
    /// Nothing can be done before more bytes come, and the handshake goes on.
    Blocked,
    /// No more data comes from the other side.
    Closed,
}

impl Session {
    pub(super) fn server(connection: UnbufferedServerConnection) -> Self {
        Self::new(Side::Server(Box::new(connection)))
    }

    pub(super) fn client(connection: UnbufferedClientConnection) -> Self {
        Self::new(Side::Client(Box::new(connection)))
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            pending: Vec::new(),
            peer_closed: false,
            failed: false,
        }
    }

    /// Returns whether the handshake is still going on.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// Returns whether the other side has announced that it sends no more (`close_notify`).
    #[must_use]
    pub fn peer_has_closed(&self) -> bool {
        self.peer_closed
    }

    /// Version and cipher suite, once they are agreed.
    #[must_use]
    pub fn protection(&self) -> Option<Protection> {
        let version = match self.common().protocol_version()? {
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            _ => return None,
        };
        let suite = match self.common().negotiated_cipher_suite()?.suite() {
            // The registered names, which are rustls' own for all but those of TLS 1.3.
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
            suite => suite.as_str()?,
        };
        Some(Protection { version, suite })
    }

    /// Takes records from `incoming`: continues the handshake, and decrypts all data that is there into
    /// `into`. Returns the number of decrypted bytes. Records are taken only while `into` has space for
    /// [`PLAINTEXT_MAX`] bytes, so more may be left; once it returns 0, it needs more bytes.
    ///
    /// [`has_pending`](Self::has_pending) tells whether there is something to be sent afterwards; after an
    /// error too, so that the other side learns the reason.
    ///
    /// # Errors
    /// When the other side breaks the protocol, or its certificate is refused. The connection ends.
    pub fn open(&mut self, incoming: &mut Wire, into: &mut [u8]) -> Result<usize, TlsError> {
        if self.failed {
            return Err(unexpected());
        }
        let opened = self.take_records(incoming, into);
        if opened.is_err() {
            self.failed = true;
            while self.common().wants_write() {
                // The alert that gives the reason. A second error is of no use.
                if self.turn(&mut [], &mut []).1.is_err() {
                    break;
                }
            }
        }
        opened
    }

    fn take_records(&mut self, incoming: &mut Wire, into: &mut [u8]) -> Result<usize, TlsError> {
        let mut received = 0;
        while into.len() - received >= PLAINTEXT_MAX {
            let (discard, turn) = self.turn(incoming.filled_mut(), &mut into[received..]);
            incoming.consume(discard);
            match turn? {
                Turn::Again => {}
                Turn::Plain(len) => received += len,
                Turn::Closed => break,
                Turn::Blocked if incoming.spare().is_empty() => return Err(TlsError::Fragments),
                Turn::Blocked => break,
                Turn::Ready => {
                    if !self.is_handshaking() {
                        refuse_fragment(incoming.filled())?;
                    }
                    break;
                }
            }
        }
        Ok(received)
    }

    /// Returns whether records wait to be sent before any data: those of the handshake, or an alert.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Moves what waits to be sent into `outgoing`, as much as fits.
    pub fn take_pending(&mut self, outgoing: &mut Wire) {
        let spare = outgoing.spare();
        let len = spare.len().min(self.pending.len());
        spare[..len].copy_from_slice(&self.pending[..len]);
        self.pending.drain(..len);
        outgoing.advance(len);
    }

    /// Encrypts the start of `data` into `outgoing`, behind what waits to be sent, as much as fits;
    /// returns the number of bytes that it took. 0 means that `outgoing` must be sent first. The handshake must
    /// be over.
    ///
    /// # Errors
    /// When the key has encrypted as much as it may, which only TLS 1.2 cannot change, or the
    /// connection has ended by an error.
    pub fn seal(&mut self, data: &[u8], outgoing: &mut Wire) -> Result<usize, TlsError> {
        if self.failed || self.is_handshaking() {
            return Err(unexpected());
        }
        loop {
            self.take_pending(outgoing);
            let len = outgoing.plaintext_capacity().min(data.len());
            if self.has_pending() || len == 0 {
                return Ok(0);
            }
            let spare = outgoing.spare();
            // Without received records rustls has nothing to decrypt. It may not hold the pieces of a
            // handshake message either, which it would look for there: `open` leaves it none.
            let sealed = match &mut self.side {
                Side::Server(c) => encrypt(c.process_tls_records(&mut []), &data[..len], spare),
                Side::Client(c) => encrypt(c.process_tls_records(&mut []), &data[..len], spare),
            };
            match sealed? {
                Sealed::Bytes(written) => {
                    outgoing.advance(written);
                    return Ok(len);
                }
                Sealed::Records(records) => self.wait(&records)?,
                Sealed::PeerClosed => self.peer_closed = true,
            }
        }
    }

    /// Queues the alert that no more data comes (`close_notify`). After an error, and before the end of the
    /// handshake, there is no such alert.
    pub fn close(&mut self) {
        if self.failed || self.is_handshaking() {
            return;
        }
        let mut alert = [0; ALERT_ROOM];
        let written = match &mut self.side {
            Side::Server(c) => goodbye(c.process_tls_records(&mut []), &mut alert),
            Side::Client(c) => goodbye(c.process_tls_records(&mut []), &mut alert),
        };
        self.pending.extend_from_slice(&alert[..written]);
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    /// Does one step, and returns the number of bytes of `incoming` that are done with.
    fn turn(&mut self, incoming: &mut [u8], into: &mut [u8]) -> (usize, Result<Turn, TlsError>) {
        let (discard, step) = match &mut self.side {
            Side::Server(c) => step(c.process_tls_records(incoming), into),
            Side::Client(c) => step(c.process_tls_records(incoming), into),
        };
        let turn = step.and_then(|step| {
            Ok(match step {
                Step::Turn(turn) => turn,
                Step::Records(records) => {
                    self.wait(&records)?;
                    Turn::Again
                }
                Step::PeerClosed => {
                    self.peer_closed = true;
                    Turn::Closed
                }
            })
        });
        (discard, turn)
    }

    /// Queues records to be sent.
    fn wait(&mut self, records: &[u8]) -> Result<(), TlsError> {
        if self.pending.len() + records.len() > PENDING_MAX {
            return Err(TlsError::Flooded);
        }
        self.pending.extend_from_slice(records);
        Ok(())
    }
}

/// More than an alert takes as a record.
const ALERT_ROOM: usize = 256;

enum Step {
    Turn(Turn),
    /// Records that rustls wants sent.
    Records(Vec<u8>),
    PeerClosed,
}

/// Does what a state of rustls asks for.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    into: &mut [u8],
) -> (usize, Result<Step, TlsError>) {
    let UnbufferedStatus { mut discard, state } = status;
    let state = match state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error.into())),
    };
    let step = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            let mut len = 0;
            while traffic
                .peek_len()
                .is_some_and(|next| next.get() <= into.len() - len)
            {
                match traffic.next_record() {
                    Some(Ok(record)) => {
                        into[len..len + record.payload.len()].copy_from_slice(record.payload);
                        len += record.payload.len();
                        discard += record.discard;
                    }
                    Some(Err(error)) => return (discard, Err(error.into())),
                    None => break,
                }
            }
            // A record always fits the buffer that rustls asks for; otherwise this would go on for ever.
            match len {
                0 => Err(unexpected()),
                len => Ok(Step::Turn(Turn::Plain(len))),
            }
        }
        ConnectionState::EncodeTlsData(data) => encoded(data).map(Step::Records),
        ConnectionState::TransmitTlsData(data) => {
            // The data is in `pending`, from which everything is sent in order.
            data.done();
            Ok(Step::Turn(Turn::Again))
        }
        ConnectionState::BlockedHandshake => Ok(Step::Turn(Turn::Blocked)),
        ConnectionState::WriteTraffic(_) => Ok(Step::Turn(Turn::Ready)),
        ConnectionState::PeerClosed => Ok(Step::PeerClosed),
        ConnectionState::Closed => Ok(Step::Turn(Turn::Closed)),
        // Early data is not offered, and there are no other states.
        _ => Err(unexpected()),
    };
    (discard, step)
}

/// A record that rustls has ready.
fn encoded<Data>(
    mut data: rustls::unbuffered::EncodeTlsData<'_, Data>,
) -> Result<Vec<u8>, TlsError> {
    let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) else {
        return Err(unexpected());
    };
    let mut records = vec![0; needed.required_size];
    data.encode(&mut records).map_err(|_| unexpected())?;
    Ok(records)
}

/// Result of an attempt to encrypt.
enum Sealed {
    /// This many bytes of records were written.
    Bytes(usize),
    /// These records come first.
    Records(Vec<u8>),
    PeerClosed,
}

fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    data: &[u8],
    spare: &mut [u8],
) -> Result<Sealed, TlsError> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => traffic
            .encrypt(data, spare)
            .map(Sealed::Bytes)
            .map_err(|error| match error {
                EncryptError::EncryptExhausted => TlsError::Exhausted,
                EncryptError::InsufficientSize(_) => unexpected(),
            }),
        ConnectionState::EncodeTlsData(data) => encoded(data).map(Sealed::Records),
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Sealed::Records(Vec::new()))
        }
        ConnectionState::PeerClosed => Ok(Sealed::PeerClosed),
        _ => Err(unexpected()),
    }
}

/// Writes a close_notify, if the connection is in a state to send one; returns its length.
fn goodbye<Data>(status: UnbufferedStatus<'_, '_, Data>, spare: &mut [u8]) -> usize {
    match status.state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            traffic.queue_close_notify(spare).unwrap_or(0)
        }
        // An alert has been sent, or nothing can be.
        _ => 0,
    }
}

/// Refuses a whole record that rustls keeps in the buffer. It does so only with part of a handshake message,
/// and would look for it there at the next call, whatever the buffer is then. After the handshake such messages
/// are short: a well-behaved peer has no reason to cut one.
fn refuse_fragment(left: &[u8]) -> Result<(), TlsError> {
    let Some(&[.., high, low]) = left.first_chunk::<RECORD_HEADER>() else {
        return Ok(());
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if left.len() >= RECORD_HEADER + len {
        return Err(TlsError::Fragments);
    }
    Ok(())
}

/// A state of rustls that its documentation excludes here.
fn unexpected() -> TlsError {
    TlsError::Protocol(rustls::Error::General(
        "the TLS library is in an unexpected state".to_owned(),
    ))
}
