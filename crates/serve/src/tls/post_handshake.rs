//! Rules for the records that a client sends after the handshake: the same for records that the kernel decrypts and for
//! those that are decrypted here.

use rustls::AlertDescription;

use super::error::TlsError;
use super::record::Kind;

/// Limit on the records without data (empty ones, warnings, key updates) that a client may send in a row, as in rustls.
const DATALESS_MAX: u8 = 32;

/// The type of the handshake message KeyUpdate, and its two bodies (RFC 8446, section 4.6.3).
const KEY_UPDATE: u8 = 24;
const NOT_REQUESTED: u8 = 0;
const REQUESTED: u8 = 1;

/// The KeyUpdate that the server sends: it does not request one from the client.
pub(super) const OUR_KEY_UPDATE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, NOT_REQUESTED];

/// The type of the handshake message ClientHello: in TLS 1.2, a request for renegotiation.
const CLIENT_HELLO: u8 = 1;

pub(super) const WARNING: u8 = 1;
pub(super) const FATAL: u8 = 2;

/// State of a client with respect to these rules.
pub(super) struct PostHandshake {
    tls13: bool,
    /// Number of records without data since the last one with data.
    dataless: u8,
    /// True if a renegotiation was refused: a second request ends the connection.
    refused: bool,
}

/// Meaning of a record for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Data of the application.
    Data,
    /// No meaning for the application.
    Nothing,
    /// End of the client's data.
    Closed,
    /// KeyUpdate: the records that follow are encrypted with the client's next key.
    NextKey {
        /// True if the client requests a KeyUpdate from the server, too.
        is_requested: bool,
    },
    /// Request for renegotiation, which is answered with the warning no_renegotiation.
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

    /// Returns the meaning of a record, or the error that it is.
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

    /// Classifies a handshake message, which must be alone in its record: a KeyUpdate of TLS 1.3 has to be the last message
    /// before the key changes, and no client has a reason to split its five bytes.
    fn message(&mut self, content: &[u8]) -> Result<Meaning, TlsError> {
        match (content, self.tls13) {
            (&[KEY_UPDATE, 0, 0, 1, request @ (NOT_REQUESTED | REQUESTED)], true) => {
                Ok(Meaning::NextKey {
                    is_requested: request == REQUESTED,
                })
            }
            (&[KEY_UPDATE, 0, 0, 1, _], true) => {
                Err(TlsError::Message(AlertDescription::IllegalParameter))
            }
            // Refused once; a second request is an error.
            (&[CLIENT_HELLO, ..], false) if !self.refused => {
                self.refused = true;
                Ok(Meaning::Renegotiation)
            }
            _ => Err(TlsError::Message(AlertDescription::UnexpectedMessage)),
        }
    }
}
