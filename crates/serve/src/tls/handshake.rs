//! The handshake, without I/O: rustls makes it, one record at a time.

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

/// Most bytes that a client's side of a handshake may have. A ClientHello with a hybrid key exchange has
/// some 1.8 KB; there are no client certificates.
pub const HANDSHAKE_MAX: usize = 64 << 10;

/// The type of the handshake message Finished.
const FINISHED: u8 = 20;

/// A handshake.
///
/// rustls gets one record after the other, because it would swallow what a client sends right behind its
/// last message of the handshake: a request, which stays with the caller.
pub struct Handshake {
    connection: Box<UnbufferedServerConnection>,
    /// Bytes at the front of the caller's buffer that rustls has seen and still needs: a message that
    /// goes on in the next record.
    seen: usize,
    /// Bytes that rustls has got in all.
    total: usize,
    name: Option<ServerName>,
    /// True if the client has been sent anything: from then on alerts are encrypted, perhaps.
    answered: bool,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    GoingOn,
    Done,
    /// rustls may hold parts of messages, and is not asked for anything any more.
    Failed,
}

/// Progress of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of bytes at the front of `incoming` that are done with, and must not be shown again.
    pub taken: usize,
    /// True if it is over: [`Handshake::finish`] is next.
    pub done: bool,
}

/// Results of a handshake: keys to be used by a [`Session`](super::Session), or by a kernel.
pub struct Established {
    /// Terms that were agreed.
    pub facts: Facts,
    /// The key of what the server sends.
    pub sending: Direction,
    /// The key of what the client sends.
    pub receiving: Direction,
    /// Maker of the next keys; `None` in TLS 1.2.
    pub kernel: Option<Box<KernelConnection<ServerConnectionData>>>,
    /// Name that the client has asked for, with the certificate that it was shown.
    pub server_name: Option<ServerName>,
}

enum Turn {
    Again,
    NeedMore,
    Done,
}

impl Handshake {
    /// The server's side of a new connection. `config` must allow that keys are extracted, as
    /// [`Settings::build`](super::Settings::build) has it.
    ///
    /// # Errors
    /// When AWS-LC cannot start a connection.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, TlsError> {
        Ok(Self {
            connection: Box::new(UnbufferedServerConnection::new(config)?),
            seen: 0,
            total: 0,
            name: None,
            answered: false,
            standing: Standing::GoingOn,
        })
    }

    /// Goes on with the whole records at the front of `incoming`, all that was received and not yet
    /// taken, and appends to `outgoing` what is to be sent: after an error too, that the client learns
    /// why. What comes behind the handshake's last record is not touched.
    ///
    /// # Errors
    /// When the client breaks the protocol, or nothing is left in common. The connection ends.
    pub fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Progress, TlsError> {
        match self.standing {
            Standing::GoingOn => {}
            Standing::Done => {
                return Ok(Progress {
                    taken: 0,
                    done: true,
                });
            }
            Standing::Failed => return Err(TlsError::Ended),
        }
        let had = outgoing.len();
        let advanced = self.take_records(incoming, outgoing);
        if advanced.as_ref().is_ok_and(|progress| progress.done) {
            self.standing = Standing::Done;
        }
        if advanced.is_err() {
            self.standing = Standing::Failed;
            while self.connection.wants_write() {
                // The alert that says why. Another error would not be news.
                if self.turn(&mut [], outgoing).1.is_err() {
                    break;
                }
            }
            if !self.answered && outgoing.len() == had {
                let alert = advanced.as_ref().err().and_then(alert_of_ours);
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
                let (discard, turn) = self.turn(&mut incoming[taken..taken + self.seen], outgoing);
                let discard = discard.min(self.seen);
                taken += discard;
                self.seen -= discard;
                match turn? {
                    Turn::Again => {}
                    Turn::NeedMore => {
                        let left = &incoming[taken..taken + self.seen];
                        if is_alone && self.seen == end && is_passed_over(left) {
                            taken += end;
                            self.seen = 0;
                        }
                        break;
                    }
                    // It keeps a message's first part, and the code that goes on from here would not know of it.
                    Turn::Done if self.seen > 0 => return Err(TlsError::Library),
                    Turn::Done => return Ok(Progress { taken, done: true }),
                }
            }
        }
        Ok(Progress { taken, done: false })
    }

    /// End of the first record that rustls has not seen; `None` before all of the record is there.
    fn next_record(&self, incoming: &[u8]) -> Result<Option<usize>, TlsError> {
        let unseen = incoming.get(self.seen..).unwrap_or_default();
        let first = self.total == 0;
        if first && unseen.first().is_some_and(|&kind| !is_kind(kind)) {
            // Most methods of HTTP can be told from anything else by one letter.
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
        // What is not a record is shown to rustls as it is, which refuses it with the right alert.
        Ok(Some(end.min(incoming.len())))
    }

    /// Makes one step, and returns the number of bytes of `incoming` that are done with.
    fn turn(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> (usize, Result<Turn, TlsError>) {
        let (status, name) =
            server_name::noted(|| step(self.connection.process_tls_records(incoming), outgoing));
        if name.is_some() {
            self.name = name;
        }
        let (discard, turn) = status;
        let turn = turn.map(|turn| match turn {
            // Data may be sent before the client's last message, and nothing may be received.
            Turn::Done if self.connection.is_handshaking() => Turn::NeedMore,
            turn => turn,
        });
        (discard, turn)
    }

    /// The keys and the terms, once [`Progress::done`] has said that the handshake is over.
    ///
    /// # Errors
    /// When it is not over, or the configuration does not allow it.
    pub fn finish(self) -> Result<Established, TlsError> {
        if self.standing != Standing::Done {
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

/// The alert, in the open, for what rustls is not shown: nothing for a client that would not understand it.
fn alert_of_ours(error: &TlsError) -> Option<[u8; HEADER + 2]> {
    let alert = match error {
        TlsError::NotTls { http: false } => AlertDescription::ProtocolVersion,
        TlsError::HandshakeTooLong(_) => AlertDescription::DecodeError,
        _ => return None,
    };
    Some([Kind::Alert.to_wire(), 3, 3, 0, 2, FATAL, alert.into()])
}

/// Returns whether rustls is done with a record that it was shown alone and has left where it is. It says so of early
/// data, which it cannot open and passes over (RFC 8446, 4.2.10), only together with the record behind; shown it again,
/// it would count it again towards what it passes over at most. The first part of the client's Finished it still needs.
/// That one is decrypted in place and begins with its type; a record that could not be opened does not, since AWS-LC
/// fills what it fails to open with zeros.
fn is_passed_over(record: &[u8]) -> bool {
    record.first() == Some(&Kind::Data.to_wire()) && record.get(HEADER) != Some(&FINISHED)
}

/// The kinds of records: ChangeCipherSpec, alert, handshake, data.
fn is_kind(byte: u8) -> bool {
    (20..=23).contains(&byte)
}

/// Does what a state of rustls asks for.
fn step(
    status: UnbufferedStatus<'_, '_, ServerConnectionData>,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<Turn, TlsError>) {
    let UnbufferedStatus { discard, state, .. } = status;
    let turn = match state {
        Ok(ConnectionState::EncodeTlsData(data)) => encode(data, outgoing).map(|()| Turn::Again),
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // It is in `outgoing`, from which everything is sent in order.
            data.done();
            Ok(Turn::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Turn::NeedMore),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Turn::Done),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(TlsError::Ended),
        // Early data is not offered, and no record behind the handshake is shown to rustls.
        Ok(_) => Err(TlsError::Library),
        Err(error) => Err(error.into()),
    };
    (discard, turn)
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
