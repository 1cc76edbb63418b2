//! Executes typed requests on a tree, and sends the replies.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use scrim_fuse::directory::Listing;
use scrim_fuse::request::{Allocate, AllocateMode, Header, Operation, Read, Write};
use scrim_fuse::wire::WRITE_CACHE;
use scrim_fuse::{Attributes, reply, reply::Entry};
use scrim_volume::Durability;

use super::buffer::{Buffer, Ended};
use super::error::FileError;
use super::session::Session;
use super::tree::{FileTree, OpenFile, SyncKind};
use crate::meter::{Kind, Meter};

/// One thread's way to the tree, and back to the kernel.
pub(super) struct Executor {
    pub(super) session: Arc<Session>,
    pub(super) device: Arc<OwnedFd>,
    pub(super) meter: Arc<Meter>,
}

impl Executor {
    /// Executes a request whose reply has no data, or the data of which was in the request. Returns `Some` for a request
    /// that needs the buffer for its reply.
    pub(super) fn execute(
        &self,
        header: &Header,
        operation: Operation<'_>,
    ) -> Result<Option<Filling>, Ended> {
        let (unique, node) = (header.unique, header.node);
        let tree = self.tree();
        match operation {
            Operation::Read(read) => return Ok(Some(Filling::File(read))),
            Operation::ReadDirectory(read) => return Ok(Some(Filling::Names(read))),
            Operation::ReadDirectoryPlus(read) => return Ok(Some(Filling::Entries(read))),
            Operation::ReadLink => return Ok(Some(Filling::Link)),
            Operation::Write(write, data) => self.write(header, &write, data),
            Operation::Lookup { name } => self.send_entry(unique, tree.lookup(node, name)),
            Operation::Forget { lookups } => {
                tree.forget(node, lookups);
                Ok(())
            }
            Operation::BatchForget(forgets) => {
                for (node, lookups) in forgets.iter() {
                    tree.forget(node, lookups);
                }
                Ok(())
            }
            Operation::GetAttributes => self.send_attributes(unique, tree.attributes(node)),
            Operation::SetAttributes(changes) => {
                self.send_attributes(unique, tree.set_attributes(node, &changes))
            }
            // The kernel does not ask again.
            Operation::Open { .. } | Operation::OpenDirectory { .. } | Operation::Flush { .. }
                if self.session.implies_open() =>
            {
                self.send(&reply::error(unique, Errno::NOSYS))
            }
            Operation::Open { flags } => {
                let opened = tree.open(node, writes(flags));
                self.send_opened(unique, opened, self.session.file_flags)
            }
            Operation::OpenDirectory { .. } => {
                let opened = tree.open_directory(node);
                self.send_opened(unique, opened, self.session.directory_flags)
            }
            other => self.execute_on_open(header, &other),
        }?;
        Ok(None)
    }

    /// Executes a request on an open file, or on none.
    fn execute_on_open(&self, header: &Header, operation: &Operation<'_>) -> Result<(), Ended> {
        let (unique, node) = (header.unique, header.node);
        let at = |handle| OpenFile { node, handle };
        let tree = self.tree();
        match *operation {
            Operation::Release { handle } => {
                tree.release(at(handle));
                self.send(&reply::done(unique))
            }
            Operation::ReleaseDirectory { handle } => {
                tree.release_directory(at(handle));
                self.send(&reply::done(unique))
            }
            Operation::Flush { handle } => self.send_done(unique, tree.flush(at(handle))),
            Operation::Fsync { handle, data_only } => {
                let how = if data_only {
                    SyncKind::Data
                } else {
                    SyncKind::All
                };
                self.meter.executed(Kind::Flush, 0);
                self.send_done(unique, tree.fsync(at(handle), how))
            }
            Operation::Allocate(ref range) => self.allocate(header, range),
            Operation::Seek(seek) => match tree.seek(at(seek.handle), seek.offset, seek.whence) {
                Ok(offset) => self.send(&reply::found(unique, offset)),
                Err(error) => self.fail(unique, &error),
            },
            Operation::Statistics => match tree.statistics() {
                Ok(statistics) => self.send(&reply::statistics(unique, &statistics)),
                Err(error) => self.fail(unique, &error),
            },
            Operation::FsyncDirectory { .. } | Operation::Destroy => {
                self.send(&reply::done(unique))
            }
            _ => self.refuse(unique, operation),
        }
    }

    /// Answers a request that no tree is asked about.
    fn refuse(&self, unique: u64, operation: &Operation<'_>) -> Result<(), Ended> {
        let errno = match operation {
            Operation::Ioctl => Errno::NOTTY,
            // Nothing is ever created or removed here.
            Operation::ChangeOfNames => Errno::PERM,
            // It comes once, before all others.
            Operation::Init(_) => Errno::IO,
            // The kernel does not ask again: access is then a matter of modes, requests are not broken off, and there
            // are no extended attributes.
            _ => Errno::NOSYS,
        };
        self.send(&reply::error(unique, errno))
    }

    fn write(&self, header: &Header, write: &Write, data: &mut [u8]) -> Result<(), Ended> {
        let file = OpenFile {
            node: header.node,
            handle: write.handle,
        };
        // The kernel asks for fsync itself where it writes from the page cache.
        let is_durable = write.write_flags & WRITE_CACHE == 0
            && OFlags::from_bits_retain(write.flags).contains(OFlags::DSYNC);
        let durability = match is_durable {
            true => Durability::Durable,
            false => Durability::Cached,
        };
        let written = self.tree().write(file, write.offset, data, durability);
        match written {
            Ok(bytes) => {
                self.meter.executed(Kind::Write, bytes as u64);
                let bytes = u32::try_from(bytes).unwrap_or(0);
                self.send(&reply::written(header.unique, bytes))
            }
            Err(error) => {
                self.meter.executed(Kind::Write, 0);
                if std::error::Error::source(&error).is_some() {
                    self.session.note_failed_write();
                }
                self.fail(header.unique, &error)
            }
        }
    }

    fn allocate(&self, header: &Header, range: &Allocate) -> Result<(), Ended> {
        let is_stopping = || self.session.is_stopping();
        let result = self.tree().allocate(header.node, range, &is_stopping);
        let kind = match range.mode {
            AllocateMode::PunchHole => Some(Kind::Trim),
            AllocateMode::ZeroRange { .. } => Some(Kind::WriteZeroes),
            AllocateMode::Reserve { .. } | AllocateMode::Other(_) => None,
        };
        if let (Some(kind), Ok(())) = (kind, &result) {
            self.meter.executed(kind, range.len);
        }
        self.send_done(header.unique, result)
    }

    /// Executes a request whose reply's data is made in the buffer in which the request came.
    pub(super) fn fill(
        &self,
        header: &Header,
        filling: &Filling,
        buffer: &mut Buffer,
    ) -> Result<(), Ended> {
        let unique = header.unique;
        let result = match filling {
            Filling::File(read) => self.read(header, read, buffer),
            Filling::Names(read) => self.list(header, read, buffer, false),
            Filling::Entries(read) => self.list(header, read, buffer, true),
            Filling::Link => self.tree().read_link(header.node, buffer.data()),
        };
        match result {
            Ok(len) => {
                let message = buffer.reply(&reply::header(unique, len), len);
                self.send(message)
            }
            Err(error) => self.fail(unique, &error),
        }
    }

    fn read(&self, header: &Header, read: &Read, buffer: &mut Buffer) -> Result<usize, FileError> {
        let file = OpenFile {
            node: header.node,
            handle: read.handle,
        };
        let data = buffer.data_of(read.size).ok_or(Errno::INVAL)?;
        let result = self.tree().read(file, read.offset, data);
        let bytes = result.as_ref().map_or(0, |len| *len as u64);
        self.meter.executed(Kind::Read, bytes);
        result
    }

    fn list(
        &self,
        header: &Header,
        read: &Read,
        buffer: &mut Buffer,
        with_attributes: bool,
    ) -> Result<usize, FileError> {
        let directory = OpenFile {
            node: header.node,
            handle: read.handle,
        };
        let tree = self.tree();
        let valid = self.session.cache_time();
        let mut listing = Listing::new(buffer.data_of(read.size).ok_or(Errno::INVAL)?);
        let listed = tree.read_directory(directory, read.offset, &mut |entry| {
            if !with_attributes {
                return listing.push(entry.inode, entry.next, entry.kind, entry.name);
            }
            // A lookup counts, so it is made only for an entry that fits.
            if !listing.has_room_for_attributes(entry.name.len()) {
                return false;
            }
            let is_dot = matches!(entry.name, b"." | b"..");
            let found = match is_dot {
                true => None,
                false => tree.lookup_entry(header.node, entry).ok(),
            };
            let found = found.as_ref().map(|found| (found, valid));
            let numbers = (entry.inode, entry.next);
            listing.push_with_attributes(found, numbers, entry.kind, entry.name)
        });
        // Entries that were listed before an error are answered; the next request meets the error again.
        match listed {
            Err(error) if listing.is_empty() => Err(error),
            _ => Ok(listing.len()),
        }
    }

    fn send_entry(&self, unique: u64, found: Result<Entry, FileError>) -> Result<(), Ended> {
        let valid = self.session.cache_time();
        match found {
            Ok(entry) => self.send(&reply::entry(unique, &entry, valid)),
            Err(error) if error.errno() == Errno::NOENT && !valid.is_zero() => {
                self.send(&reply::no_entry(unique, valid))
            }
            Err(error) => self.fail(unique, &error),
        }
    }

    fn send_attributes(
        &self,
        unique: u64,
        attributes: Result<Attributes, FileError>,
    ) -> Result<(), Ended> {
        let valid = self.session.cache_time();
        match attributes {
            Ok(attributes) => self.send(&reply::attributes(unique, &attributes, valid)),
            Err(error) => self.fail(unique, &error),
        }
    }

    fn send_opened(
        &self,
        unique: u64,
        handle: Result<u64, FileError>,
        flags: u32,
    ) -> Result<(), Ended> {
        match handle {
            Ok(handle) => self.send(&reply::opened(unique, handle, flags)),
            Err(error) => self.fail(unique, &error),
        }
    }

    fn send_done(&self, unique: u64, result: Result<(), FileError>) -> Result<(), Ended> {
        match result {
            Ok(()) => self.send(&reply::done(unique)),
            Err(error) => self.fail(unique, &error),
        }
    }

    fn fail(&self, unique: u64, error: &FileError) -> Result<(), Ended> {
        if std::error::Error::source(error).is_some() {
            self.meter.failed();
            self.session.note(error.to_string());
        } else {
            self.meter.refused();
        }
        self.send(&reply::error(unique, error.errno()))
    }

    /// Sends a reply by one call.
    pub(super) fn send(&self, reply: &[u8]) -> Result<(), Ended> {
        loop {
            match rustix::io::write(&self.device, reply) {
                Err(Errno::INTR) => {}
                Ok(_) => break,
                // Nobody waits for it any more; or the kernel refuses it, and has ended the request with an error.
                Err(Errno::NOENT | Errno::INVAL) => break,
                Err(_) => return Err(Ended),
            }
        }
        self.meter.sent(1);
        Ok(())
    }

    fn tree(&self) -> &dyn FileTree {
        &*self.session.tree
    }
}

/// A request whose reply has data.
pub(super) enum Filling {
    /// Contents of a file.
    File(Read),
    /// Names in a folder.
    Names(Read),
    /// Names in a folder, with attributes.
    Entries(Read),
    /// Target of a symbolic link.
    Link,
}

/// Returns whether flags of `open(2)` allow writing.
fn writes(flags: u32) -> bool {
    let mode = OFlags::from_bits_retain(flags) & OFlags::RWMODE;
    mode == OFlags::WRONLY || mode == OFlags::RDWR
}
