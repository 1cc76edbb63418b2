//! The buffer of an ioctl of device mapper: a `struct dm_ioctl` of 312 bytes, and what follows it. Numbers are in the
//! machine's byte order.

use std::io;
use std::ops::BitOr;

use crate::memory::SecretBytes;

/// Size of `struct dm_ioctl`, in bytes.
const HEAD: usize = 312;
/// Size of `struct dm_target_spec`, in bytes, which a target's arguments follow.
const SPEC: usize = 40;
/// Size of the sector number in a `struct dm_target_msg`, in bytes, which the words of a message follow.
const SECTOR: usize = 8;
/// Boundary of targets in a table, in bytes.
const ALIGNMENT: usize = 8;

/// Interface that is asked for. Every kernel with interface 4 accepts it.
const VERSION: [u32; 3] = [4, 0, 0];

/// Places in `struct dm_ioctl`.
mod at {
    pub(super) const DATA_SIZE: usize = 12;
    pub(super) const DATA_START: usize = 16;
    pub(super) const TARGET_COUNT: usize = 20;
    pub(super) const OPEN_COUNT: usize = 24;
    pub(super) const FLAGS: usize = 28;
    pub(super) const EVENT: usize = 32;
    pub(super) const DEVICE: usize = 40;
    pub(super) const NAME: usize = 48;
    pub(super) const UUID: usize = 176;
    pub(super) const UUID_END: usize = 305;
}

/// Flags of a call and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flag(u32);

impl Flag {
    pub(super) const NONE: Self = Self(0);
    pub(super) const READ_ONLY: Self = Self(1 << 0);
    pub(super) const SUSPEND: Self = Self(1 << 1);
    pub(super) const STATUS_TABLE: Self = Self(1 << 4);
    const ACTIVE_PRESENT: Self = Self(1 << 5);
    const INACTIVE_PRESENT: Self = Self(1 << 6);
    const BUFFER_FULL: Self = Self(1 << 8);
    pub(super) const SKIP_LOCKFS: Self = Self(1 << 10);
    pub(super) const NO_FLUSH: Self = Self(1 << 11);
    pub(super) const QUERY_INACTIVE: Self = Self(1 << 12);
    const EVENT_SENT: Self = Self(1 << 13);
    const SECURE_DATA: Self = Self(1 << 15);
    pub(super) const DEFERRED_REMOVE: Self = Self(1 << 17);

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flag {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The event number of a call, which the kernel hands to udev with the event: a cookie, and udev's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udev(u32);

impl Udev {
    /// No udev waits for the event, and none is waited for.
    pub const NONE: Self = Self(0);

    /// `DM_UDEV_PRIMARY_SOURCE_FLAG`: the event comes from a change of the device, not from a probe.
    const PRIMARY_SOURCE: u32 = 1 << (6 + 16);

    /// The event of a cookie, by the low half of its semaphore's key.
    #[must_use]
    pub(crate) fn with_cookie(low: u16) -> Self {
        Self(Self::PRIMARY_SOURCE | u32::from(low))
    }
}

/// A target of a table that is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// First sector, in 512-byte units.
    pub start: u64,
    /// Length in 512-byte units.
    pub len: u64,
    /// Type, such as `crypt`.
    pub kind: &'a str,
    /// Its arguments, which may have a key.
    pub arguments: &'a [u8],
}

impl Target<'_> {
    pub(super) fn encoded_len(&self) -> usize {
        // A NUL ends the arguments.
        (SPEC + self.arguments.len() + 1).next_multiple_of(ALIGNMENT)
    }
}

/// Length of a message with these words; a NUL ends them.
pub(super) fn message_len(words: &[u8]) -> usize {
    SECTOR + words.len() + 1
}

/// State of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the kernel's flags are independent of each other"
)]
pub struct State {
    pub name: String,
    pub uuid: String,
    /// Number of the block device, as in `st_rdev` of its node.
    pub device: u64,
    /// Number of times that the block device is open.
    pub open_count: u32,
    pub suspended: bool,
    pub read_only: bool,
    /// True if a table is at work.
    pub active_table: bool,
    /// True if a table is loaded beside the one at work.
    pub inactive_table: bool,
    /// True if the device goes once nobody has it open.
    pub deferred_remove: bool,
}

/// Type of targets that the kernel has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetVersion {
    pub name: String,
    pub version: [u32; 3],
}

/// Buffer of a call, and of its answer. It is secret, as tables have keys.
pub(super) struct Buffer(SecretBytes);

impl Buffer {
    /// Creates the buffer of a call with `len` bytes behind the head.
    pub(super) fn new(name: &str, flags: Flag, len: usize) -> io::Result<Self> {
        let mut buffer = Self(SecretBytes::zeroed(HEAD + len));
        for (index, number) in VERSION.into_iter().enumerate() {
            buffer.put_u32(index * 4, number);
        }
        let size = u32::try_from(HEAD + len).map_err(|_| invalid("the table is too long"))?;
        buffer.put_u32(at::DATA_SIZE, size);
        // HEAD is a small constant.
        buffer.put_u32(at::DATA_START, 312);
        buffer.put_u32(at::FLAGS, (flags | Flag::SECURE_DATA).0);
        buffer.put_text(at::NAME, at::UUID, name)?;
        Ok(buffer)
    }

    pub(super) fn set_uuid(&mut self, uuid: &str) -> io::Result<()> {
        self.put_text(at::UUID, at::UUID_END, uuid)
    }

    pub(super) fn set_udev(&mut self, udev: Udev) {
        self.put_u32(at::EVENT, udev.0);
    }

    /// Writes the targets of a table. Each says how far behind its start the next one is.
    pub(super) fn put_targets(&mut self, targets: &[Target<'_>]) -> io::Result<()> {
        let count = u32::try_from(targets.len()).map_err(|_| invalid("too many targets"))?;
        self.put_u32(at::TARGET_COUNT, count);
        let mut place = HEAD;
        for target in targets {
            let len = target.encoded_len();
            let next = u32::try_from(len).map_err(|_| invalid("a target is too long"))?;
            self.put(place, &target.start.to_ne_bytes());
            self.put(place + 8, &target.len.to_ne_bytes());
            self.put_u32(place + 20, next);
            self.put_text(place + 24, place + SPEC, target.kind)?;
            if target.arguments.contains(&0) {
                return Err(invalid("the arguments of a target contain a NUL"));
            }
            self.put(place + SPEC, target.arguments);
            place += len;
        }
        Ok(())
    }

    /// Writes a message for the target at sector 0.
    pub(super) fn put_message(&mut self, words: &[u8]) -> io::Result<()> {
        if words.contains(&0) {
            return Err(invalid("the message contains a NUL"));
        }
        self.put(HEAD + SECTOR, words);
        Ok(())
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.expose_mut()
    }

    pub(super) fn was_too_small(&self) -> bool {
        self.flags().contains(Flag::BUFFER_FULL)
    }

    pub(super) fn has_sent_event(&self) -> bool {
        self.flags().contains(Flag::EVENT_SENT)
    }

    pub(super) fn state(&self) -> io::Result<State> {
        let flags = self.flags();
        Ok(State {
            name: self.text(at::NAME, at::UUID)?,
            uuid: self.text(at::UUID, at::UUID_END)?,
            device: self.u64(at::DEVICE)?,
            open_count: self.u32(at::OPEN_COUNT)?,
            suspended: flags.contains(Flag::SUSPEND),
            read_only: flags.contains(Flag::READ_ONLY),
            active_table: flags.contains(Flag::ACTIVE_PRESENT),
            inactive_table: flags.contains(Flag::INACTIVE_PRESENT),
            deferred_remove: flags.contains(Flag::DEFERRED_REMOVE),
        })
    }

    /// Reads a list of `struct dm_name_list`: number of the device, distance to the next entry, name.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for place in self.entries(8)? {
            // An empty list is one entry without a device.
            if self.u64(place)? != 0 {
                names.push(self.text(place + 12, self.0.len())?);
            }
        }
        Ok(names)
    }

    /// Reads a list of `struct dm_target_versions`: distance to the next entry, three numbers, name.
    pub(super) fn versions(&self) -> io::Result<Vec<TargetVersion>> {
        let mut versions = Vec::new();
        for place in self.entries(0)? {
            let number = |index: usize| self.u32(place + 4 + index * 4);
            versions.push(TargetVersion {
                version: [number(0)?, number(1)?, number(2)?],
                name: self.text(place + 16, self.0.len())?,
            });
        }
        Ok(versions)
    }

    /// Places of the entries of a list, each of which says at `next` how far behind its start the following one is.
    fn entries(&self, next: usize) -> io::Result<Vec<usize>> {
        let start = self.start()?;
        let end = self.u32(at::DATA_SIZE)? as usize;
        let mut places = Vec::new();
        let mut place = start;
        while place < end.min(self.0.len()) {
            places.push(place);
            match self.u32(place + next)? as usize {
                0 => break,
                distance => place += distance,
            }
        }
        Ok(places)
    }

    /// Reads the targets of a table, each of which says how far behind the start of the data the next one is.
    pub(super) fn lines(&self) -> io::Result<SecretBytes> {
        let start = self.start()?;
        let count = self.u32(at::TARGET_COUNT)?;
        if count as usize > self.0.len() / SPEC {
            return Err(not_understood("it has fewer targets than it says"));
        }
        // A line is longer than its target by the decimal digits of two numbers at most.
        let most = self.0.len() + count as usize * 64;
        let mut text = SecretBytes::zeroed(most);
        let mut used = 0;
        let mut push = |bytes: &[u8]| -> io::Result<()> {
            let place = text.expose_mut().get_mut(used..used + bytes.len());
            place
                .ok_or_else(|| not_understood("targets overlap"))?
                .copy_from_slice(bytes);
            used += bytes.len();
            Ok(())
        };
        let mut place = start;
        for _ in 0..count {
            let kind = self.text(place + 24, place + SPEC)?;
            let head = format!("{} {} {kind}", self.u64(place)?, self.u64(place + 8)?);
            push(head.as_bytes())?;
            let arguments = self.until_nul(place + SPEC, self.0.len())?;
            if !arguments.is_empty() {
                push(b" ")?;
                push(arguments)?;
            }
            push(b"\n")?;
            place = start + self.u32(place + 20)? as usize;
        }
        text.truncate(used);
        Ok(text)
    }

    /// Place where the kernel has put the data of its answer.
    fn start(&self) -> io::Result<usize> {
        let start = self.u32(at::DATA_START)? as usize;
        match start >= HEAD {
            true => Ok(start),
            false => Err(not_understood("its data begins within its head")),
        }
    }

    fn flags(&self) -> Flag {
        // The head is always there.
        Flag(self.u32(at::FLAGS).unwrap_or_default())
    }

    fn u32(&self, place: usize) -> io::Result<u32> {
        self.array(place).map(u32::from_ne_bytes)
    }

    fn u64(&self, place: usize) -> io::Result<u64> {
        self.array(place).map(u64::from_ne_bytes)
    }

    fn array<const N: usize>(&self, place: usize) -> io::Result<[u8; N]> {
        let bytes = self.0.expose().get(place..);
        let found = bytes.and_then(|bytes| bytes.first_chunk());
        found
            .copied()
            .ok_or_else(|| not_understood("it is cut off"))
    }

    fn text(&self, start: usize, end: usize) -> io::Result<String> {
        let bytes = self.until_nul(start, end)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn until_nul(&self, start: usize, end: usize) -> io::Result<&[u8]> {
        let bytes = self.0.expose().get(start..end.min(self.0.len()));
        let bytes = bytes.ok_or_else(|| not_understood("it is cut off"))?;
        let len = bytes.iter().position(|byte| *byte == 0);
        let len = len.ok_or_else(|| not_understood("a text has no end"))?;
        Ok(&bytes[..len])
    }

    fn put_u32(&mut self, place: usize, number: u32) {
        self.put(place, &number.to_ne_bytes());
    }

    /// Writes bytes that have room; see [`Target::encoded_len`].
    fn put(&mut self, place: usize, bytes: &[u8]) {
        self.0.expose_mut()[place..place + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a text that ends with a NUL before `end`.
    fn put_text(&mut self, start: usize, end: usize, text: &str) -> io::Result<()> {
        if text.len() >= end - start || text.contains('\0') {
            return Err(invalid("a name is too long, or contains a NUL"));
        }
        self.put(start, text.as_bytes());
        Ok(())
    }
}

/// Opcode of a call: `_IOWR(0xfd, number, struct dm_ioctl)`.
pub(super) fn opcode(number: u8) -> libc::Ioctl {
    let opcode = rustix::ioctl::opcode::read_write::<[u8; HEAD]>(0xfd, number);
    opcode as libc::Ioctl
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

pub(super) fn not_understood(reason: &str) -> io::Error {
    let message = format!("the answer of device mapper is not understood: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests;
