//! Requests as they are sent, and simple replies as they come.

use super::ReplyError;
use crate::wire::{
    REQUEST_HEADER, REQUEST_MAGIC, SIMPLE_HEADER, SIMPLE_REPLY_MAGIC, WireError, cmd, cmd_flag,
};

/// Kind of a request: `NBD_CMD_…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Read,
    /// Followed by `len` bytes of data.
    Write {
        /// Durable when it is answered.
        fua: bool,
    },
    Flush,
    Trim,
    /// `NBD_CMD_WRITE_ZEROES`, which may leave a hole.
    WriteZeroes,
    /// `NBD_CMD_DISC`, which has no reply.
    Disconnect,
}

/// A request without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Kind of the request.
    pub command: Command,
    /// Offset of the range in bytes.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u32,
}

impl Request {
    /// The request as it is sent; its reply will carry `cookie`.
    #[must_use]
    pub fn to_bytes(self, cookie: u64) -> [u8; REQUEST_HEADER] {
        let (kind, fua) = match self.command {
            Command::Read => (cmd::READ, false),
            Command::Write { fua } => (cmd::WRITE, fua),
            Command::Flush => (cmd::FLUSH, false),
            Command::Trim => (cmd::TRIM, false),
            Command::WriteZeroes => (cmd::WRITE_ZEROES, false),
            Command::Disconnect => (cmd::DISC, false),
        };
        let flags = if fua { cmd_flag::FUA } else { 0 };
        let mut bytes = [0; REQUEST_HEADER];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

/// A simple reply without its data, which follows a read that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The request's cookie, unless the server breaks the protocol: the caller knows which requests it has sent.
    pub cookie: u64,
    /// Error of the request; `None` for success.
    pub error: Option<WireError>,
}

impl Reply {
    /// Parses a simple reply.
    ///
    /// # Errors
    /// When it does not begin as one: the start of the next reply cannot be found then.
    pub fn parse(bytes: &[u8; SIMPLE_HEADER]) -> Result<Self, ReplyError> {
        let [m0, m1, m2, m3, e0, e1, e2, e3, cookie @ ..] = *bytes;
        match u32::from_be_bytes([m0, m1, m2, m3]) {
            SIMPLE_REPLY_MAGIC => Ok(Self {
                cookie: u64::from_be_bytes(cookie),
                error: WireError::from_wire(u32::from_be_bytes([e0, e1, e2, e3])),
            }),
            magic => Err(ReplyError::Magic(magic)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_the_specification_has_it() {
        let request = Request {
            command: Command::Write { fua: true },
            offset: 0x0102_0304_0506_0708,
            len: 0x1000,
        };
        let mut expected = vec![0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1];
        expected.extend([0, 0, 0, 0, 0, 0, 0, 9]);
        expected.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        expected.extend([0, 0, 0x10, 0]);
        assert_eq!(request.to_bytes(9)[..], expected);
        let kinds = [
            (Command::Read, 0),
            (Command::Disconnect, 2),
            (Command::Flush, 3),
            (Command::Trim, 4),
            (Command::WriteZeroes, 6),
        ];
        for (command, kind) in kinds {
            let request = Request {
                command,
                offset: 0,
                len: 0,
            };
            assert_eq!(request.to_bytes(0)[4..8], [0, 0, 0, kind]);
        }
    }

    #[test]
    fn a_reply_is_parsed_or_refused() {
        let bytes = |magic: u32, error: u32| {
            let mut bytes = [7; SIMPLE_HEADER];
            bytes[..4].copy_from_slice(&magic.to_be_bytes());
            bytes[4..8].copy_from_slice(&error.to_be_bytes());
            bytes
        };
        let good = Reply::parse(&bytes(SIMPLE_REPLY_MAGIC, 0)).unwrap();
        assert_eq!((good.cookie, good.error), (0x0707_0707_0707_0707, None));
        for (value, error) in [
            (5, WireError::Io),
            (28, WireError::NoSpc),
            (77, WireError::Io),
        ] {
            let bad = Reply::parse(&bytes(SIMPLE_REPLY_MAGIC, value)).unwrap();
            assert_eq!(bad.error, Some(error));
        }
        let wrong = Reply::parse(&bytes(1, 0)).unwrap_err();
        assert_eq!(wrong, ReplyError::Magic(1));
    }
}
