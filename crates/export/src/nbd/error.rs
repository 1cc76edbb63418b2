//! Breaches of the protocol, and the incidents that a server remembers of them.

use std::fmt;

use super::limits;
use crate::{protocol, registry, status};

/// Something that went wrong on an NBD server.
pub type Incident = status::Incident<ProtocolError>;

/// A client's place among those of an NBD server.
pub(super) type Entry = registry::Entry<ProtocolError>;

/// Reason for which an NBD client is not served any more.
pub(super) type ClientEnd = protocol::ClientEnd<ProtocolError>;

/// A client's breach of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// Client flags that this server did not offer.
    ClientFlags(u32),
    /// Another magic number than `IHAVEOPT` before an option.
    OptionMagic(u64),
    /// More option data announced than [`limits::OPTION_SKIPPED`].
    OptionLength(u32),
    /// More options sent than [`limits::OPTIONS`].
    TooManyOptions,
    /// `NBD_OPT_EXPORT_NAME` for an export that does not exist; this option has no error reply.
    UnknownExport,
    /// Another magic number than `NBD_REQUEST_MAGIC` before a request.
    RequestMagic(u32),
    /// `NBD_OPT_EXPORT_NAME` without TLS, where TLS is required; this option has no error reply.
    Plaintext,
    /// Bytes behind `NBD_OPT_STARTTLS`, sent before its answer: they would count as sent under TLS.
    BeforeTls,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientFlags(flags) => write!(f, "client flags {flags:#x} were not offered"),
            Self::OptionMagic(magic) => write!(f, "{magic:#018x} is not the magic of an option"),
            Self::OptionLength(len) => write!(f, "an option of {len} bytes is too long"),
            Self::TooManyOptions => write!(f, "more than {} options", limits::OPTIONS),
            Self::UnknownExport => write!(f, "the export it named does not exist"),
            Self::RequestMagic(magic) => write!(f, "{magic:#010x} is not the magic of a request"),
            Self::Plaintext => write!(f, "it asked for an export without TLS; connect by nbds://"),
            Self::BeforeTls => write!(
                f,
                "it sent more before TLS had begun; somebody may have put it there"
            ),
        }
    }
}

impl std::error::Error for ProtocolError {}

impl From<ProtocolError> for ClientEnd {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}
