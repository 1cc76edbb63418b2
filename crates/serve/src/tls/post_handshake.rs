//! Rules for the records that a client sends after the handshake, and their meaning: the same for records that the
//! kernel opens and for those that are opened here.

use rustls::AlertDescription;

use super::error::TlsError;
use super::record::Kind;

/// Records without data (empty ones, warnings, key updates) that a client may send in a row. rustls has
/// the same limit.
const DATALESS_MAX: u8 = 32;

/// The type of the handshake message KeyUpdate, and its two bodies (RFC 8446, section 4.6.3).
const KEY_UPDATE: u8 = 24;
const NOT_REQUESTED: u8 = 0;
const REQUESTED: u8 = 1;

/// The KeyUpdate that a server sends: it does not ask the client for another.
pub(super) const OUR_KEY_UPDATE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, NOT_REQUESTED];

/// The type of the handshake message ClientHello: in TLS 1.2, the client wants to negotiate again.
const CLIENT_HELLO: u8 = 1;

pub(super) const WARNING: u8 = 1;
pub(super) const FATAL: u8 = 2;

/// A client's post_handshake so far.
pub(super) struct PostHandshake {
    tls13: bool,
    /// Records without data since the last one with some.
    dataless: u8,
    /// True if it may be negotiated again, once: no, it has been refused.
    refused: bool,
}

/// Meaning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Data of the application.
    Data,
    /// No meaning for the application.
    Nothing,
    /// End of the client's data.
    Closed,
    /// The records that follow are sealed with the client's next key.
    NextKey {
        /// True if the client asks for our next key, too.
        ours_too: bool,
    },
    /// The client wants to negotiate again, and is to be told that the server does not.
    Renegotiation,
}

impl PostHandshake {
    pub(super) fn new(tls13: bool) -> Self {
        Self {
            tls13,
            dataless: 0,
            refused: false,
        }
    }

    /// Finds the meaning of a record of this kind, with this content.
    pub(super) fn classify(&mut self, kind: Kind, content: &[u8]) -> Result<Meaning, TlsError> {
        if kind == Kind::Data && !content.is_empty() {
            self.dataless = 0;
            return Ok(Meaning::Data);
        }
        self.dataless += 1;
        if self.dataless > DATALESS_MAX {
            return Err(TlsError::Flooded);
        }
        match kind {
            Kind::Data => Ok(Meaning::Nothing),
            Kind::Alert => self.alert(content),
            Kind::Handshake => self.message(content),
        }
    }

    fn alert(&self, content: &[u8]) -> Result<Meaning, TlsError> {
        let &[level, description] = content else {
            return Err(match content {
                [] => TlsError::Message(AlertDescription::UnexpectedMessage),
                _ => TlsError::Message(AlertDescription::DecodeError),
            });
        };
        let description = AlertDescription::from(description);
        match description {
            AlertDescription::CloseNotify => Ok(Meaning::Closed),
            // In TLS 1.3 no other alert is a warning, whatever it says.
            AlertDescription::UserCanceled if self.tls13 => Ok(Meaning::Nothing),
            _ if self.tls13 || level == FATAL => Err(TlsError::Alert(description)),
            _ if level == WARNING => Ok(Meaning::Nothing),
            _ => Err(TlsError::Message(AlertDescription::IllegalParameter)),
        }
    }

    /// Judges a message of the handshake protocol, which must be alone in its record: the one of TLS 1.3 has to be the
    /// last before the key changes, and has five bytes, which no client has reason to cut.
    fn message(&mut self, content: &[u8]) -> Result<Meaning, TlsError> {
        match (content, self.tls13) {
            (&[KEY_UPDATE, 0, 0, 1, request @ (NOT_REQUESTED | REQUESTED)], true) => {
                Ok(Meaning::NextKey {
                    ours_too: request == REQUESTED,
                })
            }
            (&[KEY_UPDATE, 0, 0, 1, _], true) => {
                Err(TlsError::Message(AlertDescription::IllegalParameter))
            }
            // Refused once; a client that asks again will not stop.
            (&[CLIENT_HELLO, ..], false) if !self.refused => {
                self.refused = true;
                Ok(Meaning::Renegotiation)
            }
            _ => Err(TlsError::Message(AlertDescription::UnexpectedMessage)),
        }
    }
}
