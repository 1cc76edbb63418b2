//! Records as they are on the wire.

/// Bytes before everything else in a record: its kind, a version, and the length of the rest.
pub const HEADER: usize = 5;

/// Most plaintext in a record, in bytes.
pub const PAYLOAD_MAX: usize = 16 << 10;

/// Most bytes behind the header of a record that a client may send, before its key is known and after:
/// what TLS 1.3 allows. The suites here need less in TLS 1.2, where the standard allows more.
pub const FRAGMENT_MAX: usize = PAYLOAD_MAX + 256;

/// Most bytes of a record, its header included.
pub const RECORD_MAX: usize = HEADER + FRAGMENT_MAX;

/// The version that stands in headers: TLS 1.2's, since TLS 1.3 hides itself.
pub(super) const VERSION: [u8; 2] = [3, 3];

/// Kind of what a record carries once the handshake is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An alert: the end, or a warning.
    Alert,
    /// A message of the handshake protocol, such as KeyUpdate.
    Handshake,
    /// Bytes of the application.
    Data,
}

impl Kind {
    /// Kind of a byte on the wire. ChangeCipherSpec (20) has none: after the handshake it may not be sent.
    pub(in crate::tls) fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::Data),
            _ => None,
        }
    }

    pub(in crate::tls) fn to_wire(self) -> u8 {
        match self {
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
        }
    }
}

/// Header of a record: content type and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: u8,
    /// The major version, which is 3 in all that is TLS.
    pub major: u8,
    /// Bytes that follow the header.
    pub len: usize,
}

impl Header {
    /// The header that `bytes` begin with; `None` if they are too few.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let &[kind, major, _, high, low] = bytes.first_chunk::<HEADER>()?;
        Some(Self {
            kind,
            major,
            len: usize::from(u16::from_be_bytes([high, low])),
        })
    }
}

/// Bytes of a header before `len` bytes.
pub(super) fn header(kind: Kind, len: usize) -> [u8; HEADER] {
    let [high, low] = wire_len(len);
    [kind.to_wire(), VERSION[0], VERSION[1], high, low]
}

/// The data that is authenticated beside the payload in TLS 1.2: number, kind, version, payload length.
pub(super) fn tls12_data(number: u64, kind: u8, len: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&number.to_be_bytes());
    data[8] = kind;
    data[9..11].copy_from_slice(&VERSION);
    data[11..].copy_from_slice(&wire_len(len));
    data
}

/// A length as records have it. Longer ones than a record's were refused before.
fn wire_len(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}
