//! Parsing of requests: 28 untrusted bytes become a [`Request`] that is safe to execute.

use super::error::ProtocolError;
use super::limits;
use crate::range::Range;
use scrim_nbd::wire::{REQUEST_HEADER, REQUEST_MAGIC, WireError, cmd, cmd_flag};

/// Negotiated features and properties of the export: all that decides whether a request is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Size of the export, bytes.
    pub(super) size: u64,
    /// True if writes are refused.
    pub(super) read_only: bool,
    /// True if `NBD_CMD_TRIM` was offered.
    pub(super) trim: bool,
    /// True if structured replies were negotiated.
    pub(super) structured: bool,
    /// True if the metadata context `base:allocation` was selected.
    pub(super) allocation: bool,
}

/// A valid request.
///
/// `NBD_CMD_FLAG_REQ_ONE` is checked and then forgotten: a reply here never has more than one extent.
/// `NBD_CMD_FLAG_NO_HOLE` likewise: zeros are always written, never holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read(Range),
    Write { range: Range, fua: bool },
    Disconnect,
    Flush,
    Trim { range: Range, fua: bool },
    Cache(Range),
    WriteZeroes { range: Range, fua: bool },
    BlockStatus(Range),
}

/// A request that is answered with an error without being executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Error number for the client's program.
    pub(super) error: WireError,
    /// Sentence for the client's user.
    pub(super) reason: &'static str,
}

/// One request of the transmission phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The client's name for the request, returned as it came.
    pub(super) cookie: u64,
    /// A read: with structured replies, even its errors must be structured.
    pub(super) is_read: bool,
    /// Bytes of data that follow the header, whether the command is valid or not.
    pub(super) payload: u32,
    /// The client asks for one content chunk (`NBD_CMD_FLAG_DF`).
    pub(super) one_chunk: bool,
    /// The command, or the reason for which it is refused.
    pub(super) command: Result<Command, Refusal>,
}

impl Request {
    /// Parses a request header.
    ///
    /// # Errors
    /// When the magic number is wrong: there is no way to find the next request then.
    pub(super) fn parse(
        bytes: &[u8; REQUEST_HEADER],
        terms: &Terms,
    ) -> Result<Self, ProtocolError> {
        let header = Header::parse(bytes)?;
        Ok(Self {
            cookie: header.cookie,
            is_read: header.kind == cmd::READ,
            payload: if header.kind == cmd::WRITE {
                header.len
            } else {
                0
            },
            one_chunk: header.flags & cmd_flag::DF != 0,
            command: header.command(terms),
        })
    }
}

/// The fields of a header, each still anything a client may have put there.
struct Header {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Header {
    fn parse(bytes: &[u8; REQUEST_HEADER]) -> Result<Self, ProtocolError> {
        let [m0, m1, m2, m3, f0, f1, k0, k1, rest @ ..] = *bytes;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != REQUEST_MAGIC {
            return Err(ProtocolError::RequestMagic(magic));
        }
        let [c0, c1, c2, c3, c4, c5, c6, c7, rest @ ..] = rest;
        let [o0, o1, o2, o3, o4, o5, o6, o7, l0, l1, l2, l3] = rest;
        Ok(Self {
            flags: u16::from_be_bytes([f0, f1]),
            kind: u16::from_be_bytes([k0, k1]),
            cookie: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }

    fn command(&self, terms: &Terms) -> Result<Command, Refusal> {
        self.check_flags(terms)?;
        let fua = self.flags & cmd_flag::FUA != 0;
        match self.kind {
            cmd::READ => {
                self.check_payload()?;
                Ok(Command::Read(self.range(terms, WireError::Inval)?))
            }
            cmd::WRITE => {
                writable(terms)?;
                self.check_payload()?;
                let range = self.range(terms, WireError::NoSpc)?;
                Ok(Command::Write { range, fua })
            }
            cmd::DISC => Ok(Command::Disconnect),
            cmd::FLUSH => {
                if self.offset != 0 || self.len != 0 {
                    return refuse(WireError::Inval, "a flush covers the whole export");
                }
                Ok(Command::Flush)
            }
            cmd::TRIM => {
                writable(terms)?;
                if !terms.trim {
                    return refuse(WireError::Inval, "discards are not allowed on this export");
                }
                let range = self.range(terms, WireError::Inval)?;
                Ok(Command::Trim { range, fua })
            }
            cmd::CACHE => Ok(Command::Cache(self.range(terms, WireError::Inval)?)),
            cmd::WRITE_ZEROES => {
                writable(terms)?;
                let range = self.range(terms, WireError::NoSpc)?;
                if self.flags & cmd_flag::FAST_ZERO != 0 {
                    return refuse(
                        WireError::NotSup,
                        "zeros are written, encrypted, as data is",
                    );
                }
                Ok(Command::WriteZeroes { range, fua })
            }
            cmd::BLOCK_STATUS => {
                if !terms.allocation {
                    return refuse(WireError::Inval, "no metadata context was selected");
                }
                if self.len == 0 {
                    return refuse(WireError::Inval, "the status of no bytes was asked for");
                }
                Ok(Command::BlockStatus(self.range(terms, WireError::Inval)?))
            }
            _ => refuse(WireError::Inval, "unknown command"),
        }
    }

    /// `NBD_CMD_FLAG_FUA` is valid with every command, each other flag with one.
    fn check_flags(&self, terms: &Terms) -> Result<(), Refusal> {
        let valid = cmd_flag::FUA
            | match self.kind {
                cmd::READ if terms.structured => cmd_flag::DF,
                cmd::WRITE_ZEROES => cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
                cmd::BLOCK_STATUS => cmd_flag::REQ_ONE,
                _ => 0,
            };
        // A disconnect has no reply that could refuse it.
        if self.flags & !valid != 0 && self.kind != cmd::DISC {
            return refuse(WireError::Inval, "a command flag does not fit this command");
        }
        Ok(())
    }

    fn check_payload(&self) -> Result<(), Refusal> {
        if self.len > limits::PAYLOAD {
            return refuse(
                WireError::Inval,
                "the length is above the advertised maximum block size",
            );
        }
        Ok(())
    }

    fn range(&self, terms: &Terms, outside: WireError) -> Result<Range, Refusal> {
        match self.offset.checked_add(u64::from(self.len)) {
            Some(end) if end <= terms.size => Ok(Range {
                offset: self.offset,
                len: self.len,
            }),
            _ => refuse(outside, "the range passes the end of the export"),
        }
    }
}

fn writable(terms: &Terms) -> Result<(), Refusal> {
    if terms.read_only {
        return refuse(WireError::Perm, "the export is read-only");
    }
    Ok(())
}

fn refuse<T>(error: WireError, reason: &'static str) -> Result<T, Refusal> {
    Err(Refusal { error, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;
    const TERMS: Terms = Terms {
        size: SIZE,
        read_only: false,
        trim: true,
        structured: true,
        allocation: true,
    };

    fn bytes(flags: u16, kind: u16, offset: u64, len: u32) -> [u8; REQUEST_HEADER] {
        let mut bytes = Vec::new();
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(0x0123_4567_89ab_cdef_u64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.try_into().unwrap()
    }

    fn parse(terms: &Terms, flags: u16, kind: u16, offset: u64, len: u32) -> Request {
        Request::parse(&bytes(flags, kind, offset, len), terms).unwrap()
    }

    fn error(terms: &Terms, flags: u16, kind: u16, offset: u64, len: u32) -> WireError {
        parse(terms, flags, kind, offset, len)
            .command
            .unwrap_err()
            .error
    }

    #[test]
    fn each_command_parses() {
        let range = Range {
            offset: 512,
            len: 1024,
        };
        let fua = true;
        for (kind, flags, command) in [
            (cmd::READ, cmd_flag::DF, Command::Read(range)),
            (cmd::WRITE, cmd_flag::FUA, Command::Write { range, fua }),
            (cmd::DISC, u16::MAX, Command::Disconnect),
            (cmd::TRIM, cmd_flag::FUA, Command::Trim { range, fua }),
            (cmd::CACHE, 0, Command::Cache(range)),
            (
                cmd::WRITE_ZEROES,
                cmd_flag::FUA | cmd_flag::NO_HOLE,
                Command::WriteZeroes { range, fua },
            ),
            (
                cmd::BLOCK_STATUS,
                cmd_flag::REQ_ONE,
                Command::BlockStatus(range),
            ),
        ] {
            let request = parse(&TERMS, flags, kind, range.offset, range.len);
            assert_eq!(request.command, Ok(command));
            assert_eq!(request.cookie, 0x0123_4567_89ab_cdef);
            let payload = if kind == cmd::WRITE { range.len } else { 0 };
            assert_eq!(request.payload, payload);
        }
        let flush = parse(&TERMS, 0, cmd::FLUSH, 0, 0);
        assert_eq!(flush.command, Ok(Command::Flush));
    }

    #[test]
    fn another_magic_number_is_the_end() {
        let mut wrong = bytes(0, cmd::READ, 0, 512);
        wrong[3] ^= 1;
        assert_eq!(
            Request::parse(&wrong, &TERMS),
            Err(ProtocolError::RequestMagic(REQUEST_MAGIC ^ 1))
        );
    }

    #[test]
    fn ranges_end_at_the_end() {
        let reach = |kind, offset, len| parse(&TERMS, 0, kind, offset, len).command.is_ok();
        for kind in [
            cmd::READ,
            cmd::WRITE,
            cmd::TRIM,
            cmd::CACHE,
            cmd::WRITE_ZEROES,
            cmd::BLOCK_STATUS,
        ] {
            assert!(reach(kind, SIZE - 512, 512));
            assert!(!reach(kind, SIZE - 512, 513));
            assert!(!reach(kind, SIZE, 1));
            assert!(!reach(kind, u64::MAX, 1));
            assert!(!reach(kind, u64::MAX - 511, 512));
        }
        assert!(reach(cmd::READ, SIZE, 0));
        assert_eq!(error(&TERMS, 0, cmd::READ, SIZE, 1), WireError::Inval);
        assert_eq!(error(&TERMS, 0, cmd::WRITE, SIZE, 1), WireError::NoSpc);
        assert_eq!(
            error(&TERMS, 0, cmd::WRITE_ZEROES, SIZE, 1),
            WireError::NoSpc
        );
        assert_eq!(error(&TERMS, 0, cmd::TRIM, SIZE, 1), WireError::Inval);
        assert_eq!(error(&TERMS, 0, cmd::FLUSH, 512, 0), WireError::Inval);
    }

    #[test]
    fn data_is_limited_and_other_lengths_are_not() {
        let above = limits::PAYLOAD + 1;
        assert_eq!(error(&TERMS, 0, cmd::READ, 0, above), WireError::Inval);
        let write = parse(&TERMS, 0, cmd::WRITE, 0, above);
        assert_eq!(write.command.unwrap_err().error, WireError::Inval);
        assert_eq!(write.payload, above, "to be skipped");
        for kind in [cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES, cmd::BLOCK_STATUS] {
            assert!(parse(&TERMS, 0, kind, 0, 1 << 30).command.is_ok());
        }
    }

    #[test]
    fn a_read_only_export_is_not_written() {
        let terms = Terms {
            read_only: true,
            ..TERMS
        };
        for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
            assert_eq!(error(&terms, 0, kind, 0, 512), WireError::Perm);
        }
        assert_eq!(parse(&terms, 0, cmd::WRITE, 0, 512).payload, 512);
        assert!(parse(&terms, 0, cmd::READ, 0, 512).command.is_ok());
    }

    #[test]
    fn what_was_not_negotiated_is_refused() {
        let plain = Terms {
            trim: false,
            structured: false,
            allocation: false,
            ..TERMS
        };
        for (flags, kind) in [
            (0, cmd::TRIM),
            (0, cmd::BLOCK_STATUS),
            (cmd_flag::DF, cmd::READ),
            (0, 8),
            (0, u16::MAX),
        ] {
            assert_eq!(error(&plain, flags, kind, 0, 512), WireError::Inval);
        }
        assert_eq!(
            error(&TERMS, cmd_flag::FAST_ZERO, cmd::WRITE_ZEROES, 0, 512),
            WireError::NotSup
        );
        assert_eq!(error(&TERMS, 0, cmd::BLOCK_STATUS, 0, 0), WireError::Inval);
    }

    /// Every flag bit on every command: `NBD_CMD_FLAG_FUA` always, the others where documented.
    #[test]
    fn flags_fit_their_commands() {
        for kind in [
            cmd::READ,
            cmd::WRITE,
            cmd::FLUSH,
            cmd::TRIM,
            cmd::CACHE,
            cmd::WRITE_ZEROES,
            cmd::BLOCK_STATUS,
        ] {
            let len = if kind == cmd::FLUSH { 0 } else { 512 };
            for bit in 0..16 {
                let flag = 1u16 << bit;
                let fits = match flag {
                    cmd_flag::FUA => true,
                    cmd_flag::NO_HOLE => kind == cmd::WRITE_ZEROES,
                    cmd_flag::DF => kind == cmd::READ,
                    cmd_flag::REQ_ONE => kind == cmd::BLOCK_STATUS,
                    _ => false,
                };
                let command = parse(&TERMS, flag, kind, 0, len).command;
                assert_eq!(command.is_ok(), fits, "command {kind}, flag {flag:#x}");
            }
        }
    }
}
