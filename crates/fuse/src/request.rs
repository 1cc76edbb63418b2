//! Requests: untrusted bytes become a typed request, or an error that names what is wrong.
//!
//! A request is a header, a structure of its kind and, for some, a name or a payload. Its length is that of the one
//! `read` that brought it. Nothing is allocated, and a list is as long as the bytes that are there.

use std::fmt;

use crate::attributes::Time;
use crate::wire::{IN_HEADER, WRITE_IN, fallocate, opcode, seek, set};

/// Longest name that is looked at, in bytes. File systems have shorter limits of their own.
pub const NAME_MAX: usize = 1024;

/// A request of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub header: Header,
    pub operation: Operation<'a>,
}

/// Fields that every request has (`fuse_in_header`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Kind of request, one of [`opcode`].
    pub opcode: u32,
    /// Number that the reply repeats.
    pub unique: u64,
    /// The file or directory that it is about.
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

/// Work that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    Init(Init),
    Destroy,
    Lookup {
        name: &'a [u8],
    },
    /// Number of lookups of the header's node to forget. It has no reply.
    Forget {
        lookups: u64,
    },
    /// Lookups of several nodes to forget. It has no reply.
    BatchForget(Forgets<'a>),
    GetAttributes,
    SetAttributes(SetAttributes),
    ReadLink,
    Open {
        /// Flags that `open(2)` was given.
        flags: u32,
    },
    Read(Read),
    Write(Write, &'a mut [u8]),
    Release {
        handle: u64,
    },
    /// A descriptor was closed.
    Flush {
        handle: u64,
    },
    Fsync {
        handle: u64,
        /// True if only data has to be made durable.
        data_only: bool,
    },
    OpenDirectory {
        flags: u32,
    },
    ReadDirectory(Read),
    /// A listing with the attributes of each entry.
    ReadDirectoryPlus(Read),
    ReleaseDirectory {
        handle: u64,
    },
    FsyncDirectory {
        handle: u64,
    },
    Statistics,
    Access,
    Allocate(Allocate),
    Seek(Seek),
    Ioctl,
    /// Asks to break off the request with this number.
    Interrupt {
        unique: u64,
    },
    GetXattr,
    ListXattr,
    /// Creation, removal or renaming of a file, or a change of its extended attributes.
    ChangeOfNames,
    /// A kind of request that is not known here.
    Unknown,
}

/// Offer of the kernel at the beginning (`fuse_init_in`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    pub major: u32,
    pub minor: u32,
    /// Bytes that the kernel reads ahead at most.
    pub max_readahead: u32,
    /// Both fields of flags; see [`crate::wire::init`].
    pub flags: u64,
}

/// Range of a file, or of a directory's listing, to read (`fuse_read_in`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub handle: u64,
    /// Offset in bytes; in a directory the cursor behind the last entry that was listed.
    pub offset: u64,
    /// Most bytes of the reply's data.
    pub size: u32,
}

/// Range of a file to write (`fuse_write_in`). The payload follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    pub handle: u64,
    pub offset: u64,
    /// Flags of the write, such as [`crate::wire::WRITE_CACHE`].
    pub write_flags: u32,
    /// Flags of `open(2)` with which the file is open, and those of the one call.
    pub flags: u32,
}

/// New attributes (`fuse_setattr_in`): those that are to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    pub permissions: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<NewTime>,
    pub modified: Option<NewTime>,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    Now,
    At(Time),
}

/// Range to allocate, to fill with zeros or to free (`fuse_fallocate_in`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocate {
    pub handle: u64,
    pub offset: u64,
    pub len: u64,
    pub mode: AllocateMode,
}

/// Modes of `fallocate(2)` that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocateMode {
    /// Reserve storage; `keep_size` is false if the file may become longer.
    Reserve { keep_size: bool },
    /// Free the storage of a range, which reads as zeros from then on.
    PunchHole,
    /// Make a range read as zeros.
    ZeroRange { keep_size: bool },
    /// Other bits were given.
    Other(u32),
}

/// Search for data or a hole (`fuse_lseek_in`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seek {
    pub handle: u64,
    pub offset: u64,
    pub whence: Whence,
}

/// Directions of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whence {
    Data,
    Hole,
    Other(u32),
}

/// The list of a `FUSE_BATCH_FORGET`: pairs of a node and a number of lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [u8]);

impl Forgets<'_> {
    /// Bytes of one pair (`fuse_forget_one`).
    const ONE: usize = 16;

    /// Pairs of a node and the number of lookups to forget.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.chunks_exact(Self::ONE).filter_map(|one| {
            let mut fields = Fields(one);
            Some((fields.u64()?, fields.u64()?))
        })
    }
}

impl Header {
    /// Reads the header of a request of `bytes`.
    ///
    /// # Errors
    /// When there are fewer bytes than a header has, or the header announces another length.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let parsed = (|| {
            let len = fields.u32()?;
            let header = Self {
                opcode: fields.u32()?,
                unique: fields.u64()?,
                node: fields.u64()?,
                uid: fields.u32()?,
                gid: fields.u32()?,
                pid: fields.u32()?,
            };
            // The length of extensions, and padding.
            fields.u32()?;
            Some((len, header))
        })();
        let (len, header) = parsed.ok_or(Malformed::Header { len: bytes.len() })?;
        if len as usize != bytes.len() {
            return Err(Malformed::Length {
                announced: len,
                len: bytes.len(),
            });
        }
        Ok(header)
    }
}

impl<'a> Request<'a> {
    /// Reads a request: all bytes that one `read` has brought. A write's payload can be changed in place.
    ///
    /// # Errors
    /// When a structure, a name or a payload is incomplete. The [`Header`] may be whole.
    pub fn parse(bytes: &'a mut [u8]) -> Result<Self, Malformed> {
        let header = Header::parse(bytes)?;
        let body = bytes.get_mut(IN_HEADER..).unwrap_or_default();
        let operation = if header.opcode == opcode::WRITE {
            Operation::parse_write(body)
        } else {
            Operation::parse(header.opcode, body)
        };
        let operation = operation.ok_or(Malformed::Body {
            opcode: header.opcode,
        })?;
        Ok(Self { header, operation })
    }
}

impl<'a> Operation<'a> {
    /// Reads the structure of a write, whose payload has the length that it announces.
    fn parse_write(body: &'a mut [u8]) -> Option<Self> {
        let (head, payload) = body.split_at_mut_checked(WRITE_IN)?;
        let mut fields = Fields(head);
        let (handle, offset) = (fields.u64()?, fields.u64()?);
        let (size, write_flags) = (fields.u32()?, fields.u32()?);
        fields.u64()?;
        let write = Write {
            handle,
            offset,
            write_flags,
            flags: fields.u32()?,
        };
        let payload = payload.get_mut(..size as usize)?;
        Some(Self::Write(write, payload))
    }

    /// Reads the structure of every other request.
    fn parse(kind: u32, body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let operation = match kind {
            opcode::INIT => Self::Init(Init::parse(fields)?),
            opcode::DESTROY => Self::Destroy,
            opcode::LOOKUP => Self::Lookup { name: name(body)? },
            opcode::FORGET => Self::Forget {
                lookups: fields.u64()?,
            },
            opcode::BATCH_FORGET => Self::BatchForget(Forgets::parse(fields)?),
            opcode::GETATTR => Self::GetAttributes,
            opcode::SETATTR => Self::SetAttributes(SetAttributes::parse(fields)?),
            opcode::READLINK => Self::ReadLink,
            opcode::OPEN => Self::Open {
                flags: fields.u32()?,
            },
            opcode::OPENDIR => Self::OpenDirectory {
                flags: fields.u32()?,
            },
            opcode::READ => Self::Read(Read::parse(fields)?),
            opcode::READDIR => Self::ReadDirectory(Read::parse(fields)?),
            opcode::READDIRPLUS => Self::ReadDirectoryPlus(Read::parse(fields)?),
            opcode::RELEASE => Self::Release {
                handle: fields.u64()?,
            },
            opcode::RELEASEDIR => Self::ReleaseDirectory {
                handle: fields.u64()?,
            },
            opcode::FLUSH => Self::Flush {
                handle: fields.u64()?,
            },
            opcode::FSYNC => Self::Fsync {
                handle: fields.u64()?,
                data_only: fields.u32()? & crate::wire::FSYNC_FDATASYNC != 0,
            },
            opcode::FSYNCDIR => Self::FsyncDirectory {
                handle: fields.u64()?,
            },
            opcode::STATFS => Self::Statistics,
            opcode::ACCESS => Self::Access,
            opcode::FALLOCATE => Self::Allocate(Allocate::parse(fields)?),
            opcode::LSEEK => Self::Seek(Seek::parse(fields)?),
            opcode::IOCTL => Self::Ioctl,
            opcode::INTERRUPT => Self::Interrupt {
                unique: fields.u64()?,
            },
            opcode::GETXATTR => Self::GetXattr,
            opcode::LISTXATTR => Self::ListXattr,
            opcode::SYMLINK
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::UNLINK
            | opcode::RMDIR
            | opcode::RENAME
            | opcode::RENAME2
            | opcode::LINK
            | opcode::CREATE
            | opcode::TMPFILE
            | opcode::SETXATTR
            | opcode::REMOVEXATTR => Self::ChangeOfNames,
            _ => Self::Unknown,
        };
        Some(operation)
    }
}

impl Init {
    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        let (major, minor) = (fields.u32()?, fields.u32()?);
        let (max_readahead, flags) = (fields.u32()?, u64::from(fields.u32()?));
        // Kernels before 7.36 have no second field.
        let flags2 = match flags & crate::wire::init::INIT_EXT {
            0 => 0,
            _ => fields.u32()?,
        };
        Some(Self {
            major,
            minor,
            max_readahead,
            flags: flags | u64::from(flags2) << 32,
        })
    }
}

impl Read {
    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        Some(Self {
            handle: fields.u64()?,
            offset: fields.u64()?,
            size: fields.u32()?,
        })
    }
}

impl SetAttributes {
    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        let valid = fields.u32()?;
        fields.u32()?;
        fields.u64()?;
        let size = fields.u64()?;
        fields.u64()?;
        let (atime, mtime, _) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (atime_nanoseconds, mtime_nanoseconds, _) =
            (fields.u32()?, fields.u32()?, fields.u32()?);
        let (mode, _, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let has = |bit: u32| valid & bit != 0;
        let time = |at: u32, now: u32, seconds: u64, nanoseconds: u32| {
            has(at).then_some(match has(now) {
                true => NewTime::Now,
                false => NewTime::At(Time {
                    seconds: seconds.cast_signed(),
                    nanoseconds: nanoseconds.min(999_999_999),
                }),
            })
        };
        Some(Self {
            // Twelve bits.
            permissions: has(set::MODE).then(|| u16::try_from(mode & 0o7777).unwrap_or(0)),
            uid: has(set::UID).then_some(uid),
            gid: has(set::GID).then_some(gid),
            size: has(set::SIZE).then_some(size),
            accessed: time(set::ATIME, set::ATIME_NOW, atime, atime_nanoseconds),
            modified: time(set::MTIME, set::MTIME_NOW, mtime, mtime_nanoseconds),
        })
    }
}

impl Allocate {
    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        let (handle, offset, len) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mode = fields.u32()?;
        const PUNCH: u32 = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
        const ZERO: u32 = fallocate::ZERO_RANGE | fallocate::KEEP_SIZE;
        let mode = match mode {
            0 => AllocateMode::Reserve { keep_size: false },
            fallocate::KEEP_SIZE => AllocateMode::Reserve { keep_size: true },
            PUNCH => AllocateMode::PunchHole,
            fallocate::ZERO_RANGE => AllocateMode::ZeroRange { keep_size: false },
            ZERO => AllocateMode::ZeroRange { keep_size: true },
            other => AllocateMode::Other(other),
        };
        Some(Self {
            handle,
            offset,
            len,
            mode,
        })
    }
}

impl Seek {
    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        let (handle, offset) = (fields.u64()?, fields.u64()?);
        let whence = match fields.u32()? {
            seek::DATA => Whence::Data,
            seek::HOLE => Whence::Hole,
            other => Whence::Other(other),
        };
        Some(Self {
            handle,
            offset,
            whence,
        })
    }
}

impl<'a> Forgets<'a> {
    fn parse(mut fields: Fields<'a>) -> Option<Self> {
        let count = fields.u32()? as usize;
        fields.u32()?;
        let list = fields.0.get(..count.checked_mul(Self::ONE)?)?;
        Some(Self(list))
    }
}

/// Reads the name that ends a body: some bytes, none of them NUL or `/`, and a NUL.
fn name(body: &[u8]) -> Option<&[u8]> {
    let (last, name) = body.split_last()?;
    let is_sound = *last == 0 && (1..=NAME_MAX).contains(&name.len());
    let is_plain = !name.iter().any(|byte| matches!(byte, 0 | b'/'));
    (is_sound && is_plain).then_some(name)
}

/// Bytes from which fields are taken, one after the other.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }
}

/// Reason why bytes are not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// There are fewer bytes than a header has.
    Header { len: usize },
    /// The header announces another length than the request has.
    Length { announced: u32, len: usize },
    /// The structure, the name or the payload behind the header is incomplete.
    Body { opcode: u32 },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { len } => write!(f, "{len} bytes are not the header of a FUSE request"),
            Self::Length { announced, len } => write!(
                f,
                "a FUSE request of {len} bytes announces a length of {announced}"
            ),
            Self::Body { opcode } => {
                write!(f, "a FUSE request of kind {opcode} is incomplete")
            }
        }
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests;
