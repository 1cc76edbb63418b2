//! Replies: a header with the request's number, and a structure or data behind it.
//!
//! A reply of fixed length is an array. Data follows a [`header`] that the caller puts before it, so it is not copied.

use std::time::Duration;

use rustix::io::Errno;

use crate::attributes::{Attributes, Statistics, Time};
use crate::request::Init;
use crate::wire::{ATTR, ENTRY_OUT, MAJOR, NEWEST_MINOR, OLDEST_MINOR, OUT_HEADER};

/// Bytes of a reply with `fuse_entry_out`.
pub const ENTRY: usize = OUT_HEADER + ENTRY_OUT;
/// Bytes of a reply with `fuse_attr_out`.
pub const ATTRIBUTES: usize = OUT_HEADER + 16 + ATTR;
/// Bytes of a reply with `fuse_open_out`.
pub const OPENED: usize = OUT_HEADER + 16;
/// Bytes of a reply with `fuse_write_out`.
pub const WRITTEN: usize = OUT_HEADER + 8;
/// Bytes of a reply with `fuse_lseek_out`.
pub const FOUND: usize = OUT_HEADER + 8;
/// Bytes of a reply with `fuse_statfs_out`.
pub const STATISTICS: usize = OUT_HEADER + 80;
/// Bytes of a reply with `fuse_init_out`.
pub const INIT: usize = OUT_HEADER + 64;

/// The header of a successful reply with `len` bytes of data.
#[must_use]
pub fn header(unique: u64, len: usize) -> [u8; OUT_HEADER] {
    let all = u32::try_from(OUT_HEADER + len).unwrap_or(u32::MAX);
    let mut reply = Writer::new();
    reply.u32(all);
    reply.u32(0);
    reply.u64(unique);
    reply.done()
}

/// A successful reply without data.
#[must_use]
pub fn done(unique: u64) -> [u8; OUT_HEADER] {
    header(unique, 0)
}

/// A reply that reports an error.
#[must_use]
pub fn error(unique: u64, errno: Errno) -> [u8; OUT_HEADER] {
    let mut reply = Writer::new();
    // Sixteen bytes.
    reply.u32(16);
    reply.i32(-errno.raw_os_error());
    reply.u64(unique);
    reply.done()
}

/// A name was found: the node that it leads to. The kernel may use name and attributes for `valid`.
#[must_use]
pub fn entry(unique: u64, found: &Entry, valid: Duration) -> [u8; ENTRY] {
    let mut reply = Writer::with_header(unique);
    found.put(&mut reply, valid);
    reply.done()
}

/// A name does not exist, and the kernel need not ask again for `valid`.
#[must_use]
pub fn no_entry(unique: u64, valid: Duration) -> [u8; ENTRY] {
    let mut reply = Writer::with_header(unique);
    // Node 0 and its generation, then the time for which that holds.
    reply.u64(0);
    reply.u64(0);
    reply.u64(valid.as_secs());
    reply.u64(0);
    reply.u32(valid.subsec_nanos());
    reply.done()
}

/// Attributes of a node, which the kernel may use for `valid`.
#[must_use]
pub fn attributes(unique: u64, attributes: &Attributes, valid: Duration) -> [u8; ATTRIBUTES] {
    let mut reply = Writer::with_header(unique);
    reply.u64(valid.as_secs());
    reply.u32(valid.subsec_nanos());
    reply.u32(0);
    reply.attributes(attributes);
    reply.done()
}

/// A file or directory is open. `flags` are those of [`crate::wire::open`].
#[must_use]
pub fn opened(unique: u64, handle: u64, flags: u32) -> [u8; OPENED] {
    let mut reply = Writer::with_header(unique);
    reply.u64(handle);
    reply.u32(flags);
    reply.done()
}

/// Number of bytes that were written.
#[must_use]
pub fn written(unique: u64, bytes: u32) -> [u8; WRITTEN] {
    let mut reply = Writer::with_header(unique);
    reply.u32(bytes);
    reply.done()
}

/// Offset that a search found.
#[must_use]
pub fn found(unique: u64, offset: u64) -> [u8; FOUND] {
    let mut reply = Writer::with_header(unique);
    reply.u64(offset);
    reply.done()
}

/// State of the file system.
#[must_use]
pub fn statistics(unique: u64, of: &Statistics) -> [u8; STATISTICS] {
    let mut reply = Writer::with_header(unique);
    for number in [
        of.blocks,
        of.free_blocks,
        of.available_blocks,
        of.files,
        of.free_files,
    ] {
        reply.u64(number);
    }
    reply.u32(of.block_size);
    reply.u32(of.name_max);
    reply.u32(of.block_size);
    reply.done()
}

/// A node under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Id by which the kernel asks for it from now on, not 0.
    pub node: u64,
    /// Generation of the id: another file under a used id has another one.
    pub generation: u64,
    pub attributes: Attributes,
}

impl Entry {
    pub(crate) fn put<const N: usize>(&self, reply: &mut Writer<N>, valid: Duration) {
        reply.u64(self.node);
        reply.u64(self.generation);
        reply.u64(valid.as_secs());
        reply.u64(valid.as_secs());
        reply.u32(valid.subsec_nanos());
        reply.u32(valid.subsec_nanos());
        reply.attributes(&self.attributes);
    }
}

/// Wishes for a connection, of which the kernel's offer allows some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// Wished flags, of those in [`crate::wire::init`].
    pub flags: u64,
    /// Most bytes of a write or a read.
    pub max_write: u32,
    /// Size of a page of this machine, in bytes.
    pub page_size: u32,
    /// Requests that may wait in the background: reads ahead, direct requests in parts, writes from the page cache.
    pub max_background: u16,
}

/// Terms that both sides have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub minor: u32,
    /// Flags of [`crate::wire::init`] that are in force.
    pub flags: u64,
}

/// Answer to the request `FUSE_INIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// The kernel is newer than this protocol: it is to begin again with this version.
    Older([u8; INIT]),
    /// The terms, and the reply that tells the kernel about them.
    Agreed(Terms, [u8; INIT]),
    /// The kernel is too old.
    TooOld,
}

/// Agrees on the terms of a connection.
#[must_use]
pub fn agree(unique: u64, offer: &Init, wishes: &Wishes) -> Agreement {
    if offer.major > MAJOR {
        let mut reply = Writer::with_header(unique);
        reply.u32(MAJOR);
        reply.u32(NEWEST_MINOR);
        return Agreement::Older(reply.done());
    }
    if offer.major < MAJOR || offer.minor < OLDEST_MINOR {
        return Agreement::TooOld;
    }
    let flags = wishes.flags & offer.flags;
    let minor = offer.minor.min(NEWEST_MINOR);
    let pages = wishes.max_write.div_ceil(wishes.page_size.max(1));
    let mut reply = Writer::with_header(unique);
    reply.u32(MAJOR);
    reply.u32(minor);
    reply.u32(offer.max_readahead);
    reply.u32(lower(flags));
    reply.u16(wishes.max_background);
    // From three quarters on the kernel counts as congested.
    reply.u16(wishes.max_background / 4 * 3);
    reply.u32(wishes.max_write);
    // Times are exact to a nanosecond.
    reply.u32(1);
    reply.u16(u16::try_from(pages).unwrap_or(u16::MAX));
    reply.u16(0);
    reply.u32(lower(flags >> 32));
    Agreement::Agreed(Terms { minor, flags }, reply.done())
}

fn lower(flags: u64) -> u32 {
    u32::try_from(flags & u64::from(u32::MAX)).unwrap_or(0)
}

/// A reply of `N` bytes, filled field by field. Fields that are not put are zero.
pub(crate) struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; N],
            at: 0,
        }
    }

    /// Begins with the header of a successful reply of `N` bytes.
    fn with_header(unique: u64) -> Self {
        let mut reply = Self::new();
        reply.put(&header(unique, N - OUT_HEADER));
        reply
    }

    fn put(&mut self, field: &[u8]) {
        let end = self.at + field.len();
        self.bytes[self.at..end].copy_from_slice(field);
        self.at = end;
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_ne_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.put(&value.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_ne_bytes());
    }

    /// Puts the attributes of a file (`fuse_attr`).
    fn attributes(&mut self, of: &Attributes) {
        let seconds = |time: Time| time.seconds.cast_unsigned();
        self.u64(of.inode);
        self.u64(of.size);
        self.u64(of.blocks);
        self.u64(seconds(of.accessed));
        self.u64(seconds(of.modified));
        self.u64(seconds(of.changed));
        self.u32(of.accessed.nanoseconds);
        self.u32(of.modified.nanoseconds);
        self.u32(of.changed.nanoseconds);
        self.u32(of.kind.mode_bits() | u32::from(of.permissions & 0o7777));
        self.u32(of.links);
        self.u32(of.uid);
        self.u32(of.gid);
        self.u32(of.device);
        self.u32(of.block_size);
        self.u32(0);
    }

    pub(crate) fn done(self) -> [u8; N] {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
