//! Inodes ("Index Nodes"): all of a file but its names.

use crate::Error;
use crate::checksum::crc32c;
use crate::fields::{join, u16_at, u32_at};
use crate::inline;
use crate::layout::{EXTRA, ROOT, ROOT_LEN, extra_len};

/// Offsets of the checksum's first half, and of the second.
const CHECKSUM: [usize; 2] = [0x7c, 0x82];
/// Offsets of a time's seconds, and of the rest of it.
const ACCESSED: [usize; 2] = [0x8, 0x8c];
const CHANGED: [usize; 2] = [0xc, 0x84];
const MODIFIED: [usize; 2] = [0x10, 0x88];
const GENERATION: usize = 0x64;
/// Offsets of the halves of a user's number, and of a group's.
const USER: [usize; 2] = [0x2, 0x78];
const GROUP: [usize; 2] = [0x18, 0x7a];
const LINKS: usize = 0x1a;
/// Offsets of the lower and the upper part of the number of sectors or blocks.
const STORED: usize = 0x1c;
const STORED_HIGH: usize = 0x74;
/// Offsets of the lower and the upper part of the number of the block with extended attributes.
const ATTRIBUTES: usize = 0x68;
const ATTRIBUTES_HIGH: usize = 0x76;

/// Flags of inodes (`i_flags`), by their names in the documentation.
mod flag {
    pub(super) const COMPRESSED: u32 = 0x4;
    pub(super) const ENCRYPTED: u32 = 0x800;
    pub(super) const INDEXED: u32 = 0x1000;
    pub(super) const HUGE_FILE: u32 = 0x4_0000;
    pub(super) const EXTENTS: u32 = 0x8_0000;
    pub(super) const INLINE_DATA: u32 = 0x1000_0000;
    pub(super) const CASEFOLDED: u32 = 0x4000_0000;
}

/// Type of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symbolic link, which has its target as content.
    Link,
    CharacterDevice,
    BlockDevice,
    /// A named pipe (FIFO).
    Pipe,
    Socket,
    /// A number that stands for no type.
    Unknown,
}

impl Kind {
    fn of_mode(mode: u16) -> Self {
        match mode & 0xf000 {
            0x8000 => Self::File,
            0x4000 => Self::Folder,
            0xa000 => Self::Link,
            0x2000 => Self::CharacterDevice,
            0x6000 => Self::BlockDevice,
            0x1000 => Self::Pipe,
            0xc000 => Self::Socket,
            _ => Self::Unknown,
        }
    }

    /// The type that an entry of a folder has; `None` if it has none.
    pub(crate) fn of_entry(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::File,
            2 => Self::Folder,
            3 => Self::CharacterDevice,
            4 => Self::BlockDevice,
            5 => Self::Pipe,
            6 => Self::Socket,
            7 => Self::Link,
            _ => return None,
        })
    }
}

/// A file, as its inode has it.
#[derive(Debug, Clone)]
pub struct Inode {
    number: u32,
    kind: Kind,
    permissions: u16,
    owner: (u32, u32),
    links: u16,
    size: u64,
    /// Sectors of 512 bytes that it takes, or blocks if it has the flag `HUGE_FILE`.
    stored: u64,
    accessed: (i64, u32),
    modified: (i64, u32),
    changed: (i64, u32),
    generation: u32,
    flags: u32,
    has_attributes: bool,
    /// Seed of the checksums of its blocks.
    pub(crate) seed: Option<u32>,
    pub(crate) root: [u8; ROOT_LEN],
    /// All content of a file that has no blocks.
    inline: Option<Box<[u8]>>,
}

impl Inode {
    pub(crate) fn parse(number: u32, bytes: &[u8], seed: Option<u32>) -> Result<Self, Error> {
        let seed = seed.map(|seed| {
            let crc = crc32c(seed, &number.to_le_bytes());
            crc32c(crc, &u32_at(bytes, GENERATION).to_le_bytes())
        });
        if seed.is_some_and(|seed| !is_sound(bytes, seed)) {
            return Err(Error::corrupt("an inode's checksum is wrong", number));
        }
        let mode = u16_at(bytes, 0);
        let links = u16_at(bytes, LINKS);
        // Unlinked files have no links left, and unused inodes never had one.
        if links == 0 {
            return Err(Error::corrupt("a name leads to an unused inode", number));
        }
        let flags = u32_at(bytes, 0x20);
        let mut root = [0; ROOT_LEN];
        root.copy_from_slice(&bytes[ROOT..ROOT + ROOT_LEN]);
        let size = join(u32_at(bytes, 0x6c), u32_at(bytes, 0x4));
        if i64::try_from(size).is_err() {
            return Err(Error::corrupt("a file's size", number));
        }
        let mut inode = Self {
            number,
            kind: Kind::of_mode(mode),
            permissions: mode & 0o7777,
            owner: (wide(bytes, USER), wide(bytes, GROUP)),
            links,
            size,
            stored: join(u16_at(bytes, STORED_HIGH).into(), u32_at(bytes, STORED)),
            accessed: time(bytes, ACCESSED),
            modified: time(bytes, MODIFIED),
            changed: time(bytes, CHANGED),
            generation: u32_at(bytes, GENERATION),
            flags,
            has_attributes: u32_at(bytes, ATTRIBUTES) != 0
                || u16_at(bytes, ATTRIBUTES_HIGH) != 0
                || inline::has_attributes(bytes),
            seed,
            root,
            inline: None,
        };
        if flags & flag::INLINE_DATA != 0 {
            inode.inline = Some(inline::data(
                inode.number,
                inode.size,
                inode.is_folder(),
                bytes,
            )?);
        }
        Ok(inode)
    }

    /// Number of the inode.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Type of the file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns whether it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.kind == Kind::Folder
    }

    /// Permissions, with the set-user-ID, set-group-ID and sticky bits: the lower twelve bits of a mode.
    #[must_use]
    pub fn permissions(&self) -> u16 {
        self.permissions
    }

    /// Numbers of its user and of its group.
    #[must_use]
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }

    /// Number of names that lead to it. A folder with more subfolders than the field can count has 1.
    #[must_use]
    pub fn links(&self) -> u16 {
        self.links
    }

    /// Returns whether it has extended attributes, such as access control lists.
    #[must_use]
    pub fn has_attributes(&self) -> bool {
        self.has_attributes
    }

    /// Major and minor number of a device; `None` for a file of another type.
    #[must_use]
    pub fn device(&self) -> Option<(u32, u32)> {
        if !matches!(self.kind, Kind::CharacterDevice | Kind::BlockDevice) {
            return None;
        }
        // Numbers of 16 bits stand first; a longer one stands behind a zero.
        let (short, long) = (u32_at(&self.root, 0), u32_at(&self.root, 4));
        Some(match short {
            0 => (
                (long >> 8) & 0xfff,
                (long & 0xff) | ((long >> 12) & 0xf_ff00),
            ),
            _ => ((short >> 8) & 0xff, short & 0xff),
        })
    }

    /// Bytes of its content.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sectors of 512 bytes that its content and its map take, on a file system with blocks of `block_size` bytes.
    #[must_use]
    pub fn sectors(&self, block_size: u32) -> u64 {
        match self.flags & flag::HUGE_FILE {
            0 => self.stored,
            // Fits: the number has 48 bits.
            _ => self.stored * u64::from(block_size / 512),
        }
    }

    /// Time of the last read of it, as far as it was recorded: seconds and nanoseconds since 1970.
    #[must_use]
    pub fn accessed(&self) -> (i64, u32) {
        self.accessed
    }

    /// Time of the last write to it: seconds and nanoseconds since 1970.
    #[must_use]
    pub fn modified(&self) -> (i64, u32) {
        self.modified
    }

    /// Time of its last change of any kind, its times and owner included: seconds and nanoseconds since 1970.
    /// Programs cannot set this time.
    #[must_use]
    pub fn changed(&self) -> (i64, u32) {
        self.changed
    }

    /// Generation that tells files apart which have had this inode one after the other (`i_generation`).
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The whole content of a file that is so short that it lies in its inode.
    #[must_use]
    pub fn inline(&self) -> Option<&[u8]> {
        self.inline.as_deref()
    }

    /// Refuses content that is not what it seems to be.
    ///
    /// # Errors
    /// [`Error::Encrypted`], or an error for a compression which was never implemented.
    pub fn check_readable(&self) -> Result<(), Error> {
        if self.flags & flag::ENCRYPTED != 0 {
            return Err(Error::Encrypted { inode: self.number });
        }
        if self.flags & flag::COMPRESSED != 0 && self.kind == Kind::File {
            return Err(Error::Features { unknown: 1 });
        }
        Ok(())
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.flags & flag::INDEXED != 0
    }

    pub(crate) fn is_casefolded(&self) -> bool {
        self.flags & flag::CASEFOLDED != 0
    }

    pub(crate) fn has_extents(&self) -> bool {
        self.flags & flag::EXTENTS != 0
    }
}

fn is_sound(bytes: &[u8], seed: u32) -> bool {
    let [low, high] = CHECKSUM;
    let has_high = extra_len(bytes) >= high + 2 - EXTRA;
    let crc = crc32c(crc32c(seed, &bytes[..low]), &[0; 2]);
    let crc = match has_high {
        true => {
            let crc = crc32c(crc32c(crc, &bytes[low + 2..high]), &[0; 2]);
            crc32c(crc, &bytes[high + 2..])
        }
        false => crc32c(crc, &bytes[low + 2..]),
    };
    let stored = u32::from(u16_at(bytes, low));
    match has_high {
        true => crc == u32::from(u16_at(bytes, high)) << 16 | stored,
        false => crc & 0xffff == stored,
    }
}

/// A number whose halves of 16 bits stand apart.
fn wide(bytes: &[u8], [low, high]: [usize; 2]) -> u32 {
    u32::from(u16_at(bytes, high)) << 16 | u32::from(u16_at(bytes, low))
}

fn time(bytes: &[u8], [seconds, more]: [usize; 2]) -> (i64, u32) {
    // Signed, and with two bits more where there is room for them.
    let seconds = i64::from(u32_at(bytes, seconds).cast_signed());
    if extra_len(bytes) < more + 4 - EXTRA {
        return (seconds, 0);
    }
    let more = u32_at(bytes, more);
    (
        seconds + (i64::from(more & 3) << 32),
        (more >> 2).min(999_999_999),
    )
}
