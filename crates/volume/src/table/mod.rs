//! A mapping in the words of device mapper: a list of targets.
//!
//! A line reads `start length target arguments`, in 512-byte sectors; the crypt target's arguments
//! are those of the kernel's `Documentation/admin-guide/device-mapper/dm-crypt.rst`. Lines printed
//! by `dmsetup table --showkeys` parse, and lines printed here load into device mapper.

mod flags;
mod meaning;
mod parse;
mod print;

use scrim_crypt::{CipherSpec, SectorSize};
use scrim_luks::VolumeKey;

pub use meaning::Difference;
pub use parse::TableError;
pub use print::Keys;

/// Unit of a table's numbers, in bytes.
pub(crate) const SECTOR: u64 = 512;

/// A whole mapping: lines that follow each other from sector 0 without a gap.
pub struct CryptTable {
    lines: Vec<Line>,
}

/// A target and its place in the mapping.
pub struct Line {
    /// First sector of the mapping, in 512-byte units.
    pub start: u64,
    /// Length in 512-byte units, at least 1.
    pub len: u64,
    /// Target that serves these sectors.
    pub target: TargetSpec,
}

/// Target that serves a range of sectors.
pub enum TargetSpec {
    /// An encrypted range of a device.
    Crypt(Box<CryptSpec>),
    /// A plain range of a device.
    Linear(LinearSpec),
    /// Zeros; writes are forgotten.
    Zero,
    /// Errors: every request fails.
    Error,
}

/// The crypt target: `cipher key iv_offset device offset [options]`.
pub struct CryptSpec {
    /// Cipher, mode and IV.
    pub cipher: CipherSpec,
    pub key: VolumeKey,
    /// Added to the sector number to make the IV, in 512-byte units.
    pub iv_offset: u64,
    /// The device: a path.
    pub device: String,
    /// Start of the ciphertext on the device, in 512-byte units.
    pub offset: u64,
    pub options: CryptOptions,
}

/// The linear target: `device offset`.
#[derive(Clone)]
pub struct LinearSpec {
    /// The device: a path.
    pub device: String,
    /// Start of the range on the device, in 512-byte units.
    pub offset: u64,
}

/// The crypt target's optional parameters, by dm-crypt's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "dm-crypt's flags are independent of each other"
)]
pub struct CryptOptions {
    /// Pass discards on to the device.
    pub allow_discards: bool,
    /// Encrypt on the CPU that asked.
    pub same_cpu_crypt: bool,
    /// Write from the threads that encrypt.
    pub submit_from_crypt_cpus: bool,
    /// Decrypt without the work queue.
    pub no_read_workqueue: bool,
    /// Encrypt without the work queue.
    pub no_write_workqueue: bool,
    /// Run the queues at high priority.
    pub high_priority: bool,
    /// Size of an encryption sector, in bytes.
    pub sector_size: SectorSize,
    /// Count the IV in encryption sectors instead of 512-byte units.
    pub iv_large_sectors: bool,
}

impl CryptOptions {
    /// Creates options of which none is set, with sectors of `sector_size`.
    #[must_use]
    pub fn new(sector_size: SectorSize) -> Self {
        Self {
            allow_discards: false,
            same_cpu_crypt: false,
            submit_from_crypt_cpus: false,
            no_read_workqueue: false,
            no_write_workqueue: false,
            high_priority: false,
            sector_size,
            iv_large_sectors: false,
        }
    }
}

impl CryptTable {
    /// Returns the lines, in order.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the length in 512-byte units.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.start + line.len)
    }

    /// Returns whether there is no line; never true of a table that was checked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl CryptTable {
    /// Names the devices of all targets anew.
    ///
    /// # Errors
    /// That of `name`, which gets the present name of each.
    pub fn on_devices<E>(
        mut self,
        mut name: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Self, E> {
        for line in &mut self.lines {
            match &mut line.target {
                TargetSpec::Crypt(crypt) => crypt.device = name(&crypt.device)?,
                TargetSpec::Linear(linear) => linear.device = name(&linear.device)?,
                TargetSpec::Zero | TargetSpec::Error => {}
            }
        }
        Ok(self)
    }
}

impl Line {
    /// Returns whether discards may pass this line.
    #[must_use]
    pub fn allows_discards(&self) -> bool {
        match &self.target {
            TargetSpec::Crypt(crypt) => crypt.options.allow_discards,
            TargetSpec::Linear(_) | TargetSpec::Zero | TargetSpec::Error => true,
        }
    }
}

impl TargetSpec {
    /// Returns the device it lies on, if any.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Crypt(crypt) => Some(&crypt.device),
            Self::Linear(linear) => Some(&linear.device),
            Self::Zero | Self::Error => None,
        }
    }
}
