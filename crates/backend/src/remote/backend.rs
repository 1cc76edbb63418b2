//! An export of an NBD server as a [`Backend`].

use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use rustix::io::Errno;
use scrim_nbd::Uri;
use scrim_nbd::client::{Command, HandshakeError, Request};
use scrim_nbd::wire::{WireError, flag};

use super::link::{Link, error_of};
use super::security::{Security, SecurityError};
use super::session::Dial;
use super::stream::Target;
use super::{RemoteOptions, RemoteStatus};
use crate::error::parse_name;
use crate::header_lock::HeaderGate;
use crate::range::{inner, pieces};
use crate::{
    Access, Backend, BackendError, Durability, HeaderLock, Info, LockKind, Medium, Operation,
};

/// Most data of one request, in bytes, even if the server would take more.
const PIECE: u32 = 1 << 20;
/// The same of a request that is cut because there is no other, in bytes: a part of it is encrypted while others are
/// received or sent.
const PIECE_ALONE: u32 = 128 << 10;
/// Most of a range that one request zeroes or discards, in bytes.
const RANGE_PIECE: u32 = 64 << 20;
/// Block size that every server accepts if it names none, by the specification, in bytes.
const USUAL_MINIMUM: u32 = 512;
/// Length of one write of zeros where the server has no request that zeroes a range, in bytes.
const ZERO_PIECE: usize = 64 << 10;
static ZEROS: [u8; ZERO_PIECE] = [0; ZERO_PIECE];

/// Advice about a server that cannot be reached.
const UNREACHABLE: &str = "see that the server runs and can be reached, then try again";
/// Advice about a server whose host has no address.
const NO_ADDRESS: &str =
    "check the spelling of the host's name, and that this machine can look names up";
/// Advice about a server that does not offer the export that it is asked for.
const UNWILLING: &str = "see what it exports with `nbdinfo --list`, and what its log says";
/// Advice about a server that could not carry out a request.
const REFUSED: &str = "the server says so: see its log and its storage";

/// An export of an NBD server as a backend.
pub struct RemoteBackend {
    pub(super) link: Link,
    /// Name of the export in messages.
    place: String,
    believes_anyone: bool,
    pub(super) info: Info,
    /// Unit of requests, in bytes.
    align: u32,
    /// Most data of one request, in bytes: a multiple of `align`.
    piece: u32,
    /// Held across each flush: of two at a time only one might be told of a failure.
    pub(super) flushing: Mutex<()>,
    header: HeaderGate,
}

impl RemoteBackend {
    /// Connects to an export. One that is read-only can be opened for writing too:
    /// [`Backend::info`] tells.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not have the export.
    pub fn open(uri: &Uri, access: Access, options: RemoteOptions) -> Result<Self, BackendError> {
        let place = uri.to_string();
        let fail = |error: io::Error| BackendError::new(Operation::Open, &place, error);
        let refused = |error| fail(io::Error::new(io::ErrorKind::InvalidInput, error));
        let security = Security::by(uri).map_err(refused)?;
        let unreachable = |error: io::Error| {
            let hint = what_next(&error);
            let error = fail(error);
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        };
        let link = Link::open(Dial {
            target: Target::resolve(&uri.endpoint)
                .map_err(|error| fail(error).with_hint(NO_ADDRESS))?,
            security,
            export: uri.export.clone(),
            connections: options.connections.max(1),
            limit: options.limit,
        });
        let link = link.map_err(unreachable)?;
        let believes_anyone = uri.tls.as_ref().is_some_and(|tls| !tls.verify_peer);
        Ok(Self {
            believes_anyone,
            ..Self::of(link, place, access)
        })
    }

    /// As [`RemoteBackend::open`], for text that may be a URI.
    ///
    /// # Errors
    /// As for [`RemoteBackend::open`], and when the text is not a URI.
    pub fn open_named(
        name: &str,
        access: Access,
        options: RemoteOptions,
    ) -> Result<Self, BackendError> {
        Self::open(&parse_name(name)?, access, options)
    }

    /// Refuses an operation that would have to write.
    ///
    /// # Errors
    /// When it was opened for reading only, or the server has it as read-only.
    pub fn check_writable(&self) -> Result<(), BackendError> {
        match self.info.read_only {
            true => Err(self.error(Operation::Open, Errno::ROFS.into())),
            false => Ok(()),
        }
    }

    fn of(link: Link, place: String, access: Access) -> Self {
        let export = link.export;
        let (align, largest) = match export.blocks {
            Some(blocks) => (blocks.minimum, blocks.maximum),
            None if export.size.is_multiple_of(u64::from(USUAL_MINIMUM)) => (USUAL_MINIMUM, PIECE),
            None => (1, PIECE),
        };
        let read_only = access == Access::ReadOnly || export.flags & flag::READ_ONLY != 0;
        Self {
            info: Info {
                // No request can name bytes behind the last whole block.
                size: export.size / u64::from(align) * u64::from(align),
                read_only,
            },
            piece: largest.min(PIECE) / align * align,
            align,
            place,
            believes_anyone: false,
            link,
            flushing: Mutex::new(()),
            header: HeaderGate::default(),
        }
    }

    /// Returns the export's URI.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns whether the connection is encrypted, and the server's certificate not verified.
    #[must_use]
    pub fn believes_anyone(&self) -> bool {
        self.believes_anyone
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn status(&self) -> RemoteStatus {
        let (connections, protection) = self.link.connections();
        let state = self.link.state();
        RemoteStatus {
            connections,
            protection,
            round_trip: self.link.round_trip.estimate(),
            reconnects: state.history.reconnects,
            replayed_bytes: state.history.replayed_bytes,
            unflushed_bytes: state.journal.cost(),
        }
    }

    /// Returns whether the server has said so.
    pub(super) fn offers(&self, flag: u16) -> bool {
        self.link.export.flags & flag != 0
    }

    fn error(&self, operation: Operation, source: io::Error) -> BackendError {
        let is_of_server = source.raw_os_error().is_some();
        let kind = source.kind();
        let error = BackendError::new(operation, &self.place, source);
        match kind {
            // These say what to do themselves, as a flush does.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ReadOnlyFilesystem => error,
            _ if operation == Operation::Flush => error,
            _ if is_of_server => error.with_hint(REFUSED),
            _ => error.with_hint(UNREACHABLE),
        }
    }

    /// Checks that a range is there.
    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), BackendError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(self.error(operation, io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Checks that a range is there and may be changed.
    fn check_change(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
    ) -> Result<(), BackendError> {
        if self.info.read_only {
            return Err(self.error(operation, Errno::ROFS.into()));
        }
        self.check(operation, offset, len)
    }

    /// Reads a range, which has one deadline, however many pieces it is cut into: a server that replies
    /// slowly must not gain time by each piece.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let deadline = self.link.deadline_for(buffer.len() as u64);
        let mut rest = buffer;
        for piece in pieces(offset, rest.len() as u64, self.align, self.piece) {
            let (now, later) = rest.split_at_mut(piece.len);
            rest = later;
            if piece.is_aligned() {
                self.read_blocks(piece.offset, now, deadline)?;
            } else {
                let mut whole = vec![0; piece.whole_len()];
                self.read_blocks(piece.whole.start, &mut whole, deadline)?;
                now.copy_from_slice(&whole[piece.within()]);
            }
        }
        Ok(())
    }

    fn write(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
        deadline: Instant,
    ) -> io::Result<()> {
        let cut = || pieces(offset, data.len() as u64, self.align, self.piece);
        let durability = match self.is_durable_by_writes_alone() {
            true => Durability::Durable,
            false => durability,
        };
        // One piece is made durable by its request; several by one flush, if there is such a thing.
        let one_by_one = self.offers(flag::SEND_FUA)
            && (cut().nth(1).is_none() || !self.offers(flag::SEND_FLUSH));
        let each = if one_by_one {
            durability
        } else {
            Durability::Cached
        };
        let mut rest = data;
        for piece in cut() {
            let (now, later) = rest.split_at(piece.len);
            rest = later;
            self.write_piece(&piece, now, each, deadline)?;
        }
        if durability == Durability::Durable && !one_by_one {
            self.sync(deadline)?;
        }
        Ok(())
    }

    /// Returns whether the server has a cache that no flush empties: it offers durable writes and no flush. So every write
    /// to it is a durable one, and a later flush has nothing to do.
    fn is_durable_by_writes_alone(&self) -> bool {
        self.offers(flag::SEND_FUA) && !self.offers(flag::SEND_FLUSH)
    }

    fn zero(&self, range: Range<u64>, durability: Durability) -> io::Result<()> {
        let deadline = self
            .link
            .deadline_for(range.end.saturating_sub(range.start));
        let inner = inner(&range, self.align);
        let by_request = self.offers(flag::SEND_WRITE_ZEROES)
            && !self.is_durable_by_writes_alone()
            && !inner.is_empty();
        let left = if by_request {
            self.zero_by_hand(range.start..inner.start, deadline)?;
            let refused_from = self.zero_by_request(inner, deadline)?;
            refused_from..range.end
        } else {
            range
        };
        self.zero_by_hand(left, deadline)?;
        match durability {
            Durability::Durable => self.sync(deadline),
            Durability::Cached => Ok(()),
        }
    }

    /// Zeroes whole blocks. Returns the place from which the server did not do it; the end if it did all.
    fn zero_by_request(&self, blocks: Range<u64>, deadline: Instant) -> io::Result<u64> {
        for piece in self.range_pieces(&blocks) {
            match self.zero_piece(&piece, deadline)? {
                Ok(()) => {}
                Err(WireError::NotSup | WireError::Inval) => return Ok(piece.start),
                Err(error) => return Err(error_of(error)),
            }
        }
        Ok(blocks.end)
    }

    fn zero_by_hand(&self, range: Range<u64>, deadline: Instant) -> io::Result<()> {
        let mut offset = range.start;
        while offset < range.end {
            let len = usize::try_from(range.end - offset).map_or(ZERO_PIECE, |l| l.min(ZERO_PIECE));
            self.write(offset, &ZEROS[..len], Durability::Cached, deadline)?;
            offset += len as u64;
        }
        Ok(())
    }

    /// Discards the whole blocks of a range; the others are no longer needed either, but stay.
    fn trim(&self, range: &Range<u64>) -> io::Result<()> {
        if !self.offers(flag::SEND_TRIM) {
            return Ok(());
        }
        let deadline = self
            .link
            .deadline_for(range.end.saturating_sub(range.start));
        for piece in self.range_pieces(&inner(range, self.align)) {
            match self.trim_piece(&piece, deadline)? {
                // Advice that the server cannot take is not an error.
                Ok(()) | Err(WireError::NotSup) => {}
                Err(error) => return Err(error_of(error)),
            }
        }
        Ok(())
    }

    fn range_pieces(&self, blocks: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let len = blocks.end.saturating_sub(blocks.start);
        pieces(blocks.start, len, self.align, RANGE_PIECE).map(|piece| piece.whole)
    }
}

/// Returns the advice for a connection that could not be made, if the error does not give it.
fn what_next(error: &io::Error) -> Option<&'static str> {
    let Some(inner) = error.get_ref() else {
        return Some(UNREACHABLE);
    };
    // What the server itself has said comes as an error of its own.
    match inner.downcast_ref() {
        Some(
            HandshakeError::Io(_)
            | HandshakeError::NotNbd
            | HandshakeError::Oldstyle
            | HandshakeError::NoTls { .. }
            | HandshakeError::Injected,
        ) => None,
        _ if inner.is::<SecurityError>() => None,
        _ => Some(UNWILLING),
    }
}

/// A request for a range that one request can have.
pub(super) fn request(command: Command, offset: u64, len: u64) -> Request {
    Request {
        command,
        offset,
        len: u32::try_from(len).unwrap_or(u32::MAX),
    }
}

impl Backend for RemoteBackend {
    fn info(&self) -> Info {
        self.info
    }

    fn medium(&self) -> Medium<'_> {
        Medium::Remote {
            longest: self.piece as usize,
            alone: PIECE_ALONE.min(self.piece) as usize,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        let len = buffer.len() as u64;
        let operation = Operation::Read { offset, len };
        self.check(operation, offset, len)?;
        self.read(offset, buffer)
            .map_err(|error| self.error(operation, error))
    }

    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError> {
        let len = data.len() as u64;
        let operation = Operation::Write { offset, len };
        self.check_change(operation, offset, len)?;
        let deadline = self.link.deadline_for(len);
        self.write(offset, data, durability, deadline)
            .map_err(|error| self.error(operation, error))
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.sync(self.link.deadline())
            .map_err(|error| self.error(Operation::Flush, error))
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Discard { offset, len };
        self.check_change(operation, offset, len)?;
        self.trim(&range)
            .map_err(|error| self.error(operation, error))
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let operation = Operation::Write { offset, len };
        self.check_change(operation, offset, len)?;
        self.zero(range, durability)
            .map_err(|error| self.error(operation, error))
    }

    /// Takes a lock between the threads of this process: there is no lock that other programs or machines would see.
    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.header.lock(kind, &self.place)
    }
}
