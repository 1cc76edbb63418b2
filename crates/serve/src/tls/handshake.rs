//! The handshake, without I/O: rustls processes one record at a time.

use std::sync::Arc;

use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{AlertDescription, ServerConfig};

use super::error::TlsError;
use super::facts::Facts;
use super::post_handshake::FATAL;
use super::record::{Direction, FRAGMENT_MAX, HEADER, Header, Kind};
use super::server_name::{self, ServerName};

/// Limit on the bytes of a client's handshake messages. A ClientHello with a hybrid key exchange has some 1.8 KB; there are
/// no client certificates.
pub const HANDSHAKE_MAX: usize = 64 << 10;

/// The type of the handshake message Finished.
const FINISHED: u8 = 20;

/// State of a server's handshake.
///
/// rustls gets one record at a time, since it would consume the request that a client sends right after its last
/// handshake message. That request stays with the caller.
pub struct Handshake {
    connection: Box<UnbufferedServerConnection>,
    /// Bytes at the front of the caller's buffer that rustls has processed and still needs: a message that continues in the
    /// next record.
    seen: usize,
    /// Number of bytes given to rustls so far.
    total: usize,
    name: Option<ServerName>,
    /// True if something was sent to the client: after that, alerts may have to be encrypted.
    answered: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InProgress,
    Done,
    /// After an error; rustls is not called any more.
    Failed,
}

/// Progress of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of bytes at the front of `incoming` that were consumed.
    pub taken: usize,
    /// True if the handshake is complete: call [`Handshake::finish`].
    pub done: bool,
}

/// Results of a handshake: keys for a [`Session`](super::Session) or for the kernel.
pub struct Established {
    /// Parameters that the handshake negotiated.
    pub facts: Facts,
    /// Key for records that the server sends.
    pub sending: Direction,
    /// Key for records that the client sends.
    pub receiving: Direction,
    /// Source of the next keys (KeyUpdate); `None` in TLS 1.2.
    pub kernel: Option<Box<KernelConnection<ServerConnectionData>>>,
    /// Server name that the client sent, with the certificate that was chosen for it.
    pub server_name: Option<ServerName>,
}

enum Step {
    Again,
    NeedMore,
    Done,
}

impl Handshake {
    /// Begins the server's side of a handshake. `config` must allow the extraction of keys, as that of
    /// [`Settings::build`](super::Settings::build) does.
    ///
    /// # Errors
    /// If AWS-LC cannot start a connection.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, TlsError> {
        Ok(Self {
            connection: Box::new(UnbufferedServerConnection::new(config)?),
            seen: 0,
            total: 0,
            name: None,
            answered: false,
            state: State::InProgress,
        })
    }

    /// Processes the complete records at the front of `incoming`, which has all bytes that were received and not yet taken,
    /// and appends what is to be sent to `outgoing`, after an error the alert. Bytes after the handshake's last record are
    /// not touched.
    ///
    /// # Errors
    /// If the client breaks the protocol, or the parties have no parameters in common. The connection ends.
    pub fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Progress, TlsError> {
        match self.state {
            State::InProgress => {}
            State::Done => {
                return Ok(Progress {
                    taken: 0,
                    done: true,
                });
            }
            State::Failed => return Err(TlsError::Ended),
        }
        let had = outgoing.len();
        let advanced = self.take_records(incoming, outgoing);
        if advanced.as_ref().is_ok_and(|progress| progress.done) {
            self.state = State::Done;
        }
        if advanced.is_err() {
            self.state = State::Failed;
            while self.connection.wants_write() {
                // The alert. A further error adds nothing.
                if self.advance_once(&mut [], outgoing).1.is_err() {
                    break;
                }
            }
            if !self.answered && outgoing.len() == had {
                let alert = advanced.as_ref().err().and_then(plaintext_alert);
                outgoing.extend(alert.into_iter().flatten());
            }
        }
        self.answered |= outgoing.len() > had;
        advanced
    }

    fn take_records(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Progress, TlsError> {
        let mut taken = 0;
        while let Some(end) = self.next_record(&incoming[taken..])? {
            let is_alone = self.seen == 0;
            self.total += end - self.seen;
            if self.total > HANDSHAKE_MAX {
                return Err(TlsError::HandshakeTooLong(HANDSHAKE_MAX));
            }
            self.seen = end;
            loop {
                let (discard, step) =
                    self.advance_once(&mut incoming[taken..taken + self.seen], outgoing);
                let discard = discard.min(self.seen);
                taken += discard;
                self.seen -= discard;
                match step? {
                    Step::Again => {}
                    Step::NeedMore => {
                        let left = &incoming[taken..taken + self.seen];
                        if is_alone && self.seen == end && is_skipped_early_data(left) {
                            taken += end;
                            self.seen = 0;
                        }
                        break;
                    }
                    // rustls keeps the first part of a message, which the session would not know.
                    Step::Done if self.seen > 0 => return Err(TlsError::Library),
                    Step::Done => return Ok(Progress { taken, done: true }),
                }
            }
        }
        Ok(Progress { taken, done: false })
    }

    /// End of the first record that rustls has not processed; `None` if that record is incomplete.
    fn next_record(&self, incoming: &[u8]) -> Result<Option<usize>, TlsError> {
        let unseen = incoming.get(self.seen..).unwrap_or_default();
        let first = self.total == 0;
        if first && unseen.first().is_some_and(|&kind| !is_kind(kind)) {
            // A capital letter is the start of an HTTP method, and no type of a TLS record.
            let http = unseen[0].is_ascii_uppercase();
            return Err(TlsError::NotTls { http });
        }
        let Some(header) = Header::of(unseen) else {
            return Ok(None);
        };
        let sound = is_kind(header.kind) && header.major == 3 && header.len <= FRAGMENT_MAX;
        if !sound && first {
            return Err(TlsError::NotTls { http: false });
        }
        let end = self.seen + HEADER + header.len;
        if sound && end > incoming.len() {
            return Ok(None);
        }
        // rustls refuses an invalid record with the right alert.
        Ok(Some(end.min(incoming.len())))
    }

    /// Makes one step; returns the number of bytes of `incoming` that were consumed.
    fn advance_once(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> (usize, Result<Step, TlsError>) {
        let (status, name) = server_name::noted(|| {
            process_state(self.connection.process_tls_records(incoming), outgoing)
        });
        if name.is_some() {
            self.name = name;
        }
        let (discard, step) = status;
        let step = step.map(|step| match step {
            // Data could be sent before the client's Finished, but none can be received.
            Step::Done if self.connection.is_handshaking() => Step::NeedMore,
            step => step,
        });
        (discard, step)
    }

    /// Returns the keys and parameters, once [`Progress::done`] is true.
    ///
    /// # Errors
    /// If the handshake is not complete, or the configuration does not allow the extraction of keys.
    pub fn finish(self) -> Result<Established, TlsError> {
        if self.state != State::Done {
            return Err(TlsError::Ended);
        }
        let facts = Facts::of(&self.connection).ok_or(TlsError::Library)?;
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection()?;
        let tls13 = facts.tls13();
        let direction = |(sequence, secrets)| Direction {
            sequence,
            secrets,
            tls13,
        };
        Ok(Established {
            facts,
            sending: direction(secrets.tx),
            receiving: direction(secrets.rx),
            kernel: tls13.then(|| Box::new(kernel)),
            server_name: self.name,
        })
    }
}

/// The unencrypted alert for an error that rustls does not see; `None` for a client that does not speak TLS.
fn plaintext_alert(error: &TlsError) -> Option<[u8; HEADER + 2]> {
    let alert = match error {
        TlsError::NotTls { http: false } => AlertDescription::ProtocolVersion,
        TlsError::HandshakeTooLong(_) => AlertDescription::DecodeError,
        _ => return None,
    };
    Some([Kind::Alert.to_wire(), 3, 3, 0, 2, FATAL, alert.into()])
}

/// Returns whether rustls has skipped a record that it did not report as consumed: early data, which it cannot decrypt
/// (RFC 8446, 4.2.10). It reports such a record only together with the next one, and would count it twice towards its
/// limit. The other record that it leaves in place is the first part of the client's Finished, which it still needs: that
/// one is decrypted in place and begins with its type. A record that is not genuine is filled with zeros.
fn is_skipped_early_data(record: &[u8]) -> bool {
    record.first() == Some(&Kind::Data.to_wire()) && record.get(HEADER) != Some(&FINISHED)
}

/// Returns whether a byte is the type of a record: ChangeCipherSpec, alert, handshake or data.
fn is_kind(byte: u8) -> bool {
    (20..=23).contains(&byte)
}

/// Does what the state of rustls requires.
fn process_state(
    status: UnbufferedStatus<'_, '_, ServerConnectionData>,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<Step, TlsError>) {
    let UnbufferedStatus { discard, state, .. } = status;
    let step = match state {
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, outgoing).map(|()| Step::Again),
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // The data are in `outgoing`, which the caller sends.
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::NeedMore),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Done),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(TlsError::Ended),
        // Early data is not offered, and rustls gets no record after the handshake.
        Ok(_) => Err(TlsError::Library),
        Err(error) => Err(error.into()),
    };
    (discard, step)
}

/// Appends a record that rustls has ready.
fn encode(
    mut data: EncodeTlsData<'_, ServerConnectionData>,
    outgoing: &mut Vec<u8>,
) -> Result<(), TlsError> {
    let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) else {
        return Err(TlsError::Library);
    };
    let start = outgoing.len();
    outgoing.resize(start + needed.required_size, 0);
    data.encode(&mut outgoing[start..])
        .map_err(|_| TlsError::Library)?;
    Ok(())
}
