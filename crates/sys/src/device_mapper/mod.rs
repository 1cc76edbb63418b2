//! The kernel's device mapper, by the ioctls of its control device (`linux/dm-ioctl.h`, interface 4).
//!
//! One call is one ioctl. Every call wipes the kernel's copy of its buffer (`DM_SECURE_DATA_FLAG`), as tables have keys.

mod message;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::memory::SecretBytes;
use message::{Buffer, Flag};
pub use message::{State, Target, TargetVersion, Udev};

/// Path of the control device.
pub const CONTROL: &str = "/dev/mapper/control";

/// Longest name of a device, in bytes.
pub const NAME_MAX: usize = 127;

/// First size of an answer's buffer, in bytes.
const ANSWER: usize = 16 << 10;

/// Largest answer that is accepted, in bytes.
const ANSWER_MAX: usize = 16 << 20;

/// Number of an ioctl of device mapper.
#[derive(Debug, Clone, Copy)]
enum Call {
    ListDevices = 2,
    Create = 3,
    Remove = 4,
    Suspend = 6,
    Status = 7,
    Load = 9,
    Clear = 10,
    Table = 12,
    ListVersions = 13,
    Message = 14,
}

/// The table of a device that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The table at work.
    Active,
    /// The table that is loaded and not at work yet.
    Inactive,
}

/// Treatment of requests when a device is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// The file system on the device is frozen, and all requests are carried out.
    CarriedOut,
    /// Requests wait in the device, and the file system is not touched.
    Held,
}

/// The control device of device mapper, open.
pub struct Control(OwnedFd);

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// As `open(2)`: `NotFound` and `ENODEV` without device mapper, `PermissionDenied` without root.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(CONTROL, flags, Mode::empty())?))
    }

    /// Lists the names of all devices.
    ///
    /// # Errors
    /// As `ioctl(2)`; `InvalidData` for an answer that is not understood.
    pub fn devices(&self) -> io::Result<Vec<String>> {
        let answer = self.ask(Call::ListDevices, "", Flag::NONE)?;
        answer.names()
    }

    /// Lists the types of targets that are loaded, with their versions.
    ///
    /// # Errors
    /// As [`devices`](Self::devices).
    pub fn targets(&self) -> io::Result<Vec<TargetVersion>> {
        let answer = self.ask(Call::ListVersions, "", Flag::NONE)?;
        answer.versions()
    }

    /// Creates a device without a table.
    ///
    /// # Errors
    /// As `ioctl(2)`: `ResourceBusy` where the name or the UUID is taken, `InvalidInput` for one that is too long.
    pub fn create(&self, name: &str, uuid: &str) -> io::Result<State> {
        let mut buffer = Buffer::new(name, Flag::NONE, 0)?;
        buffer.set_uuid(uuid)?;
        self.call(Call::Create, buffer)?.state()
    }

    /// Returns the state of a device; `None` where no device has this name.
    ///
    /// # Errors
    /// As [`devices`](Self::devices).
    pub fn state(&self, name: &str) -> io::Result<Option<State>> {
        let buffer = Buffer::new(name, Flag::NONE, 0)?;
        match self.call(Call::Status, buffer) {
            Ok(answer) => answer.state().map(Some),
            Err(error) if is_no_device(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Loads a table beside the one at work; [`resume`](Self::resume) exchanges them.
    ///
    /// # Errors
    /// As `ioctl(2)`; the reason for a table that is refused is in the kernel's log.
    pub fn load(&self, name: &str, targets: &[Target<'_>], read_only: bool) -> io::Result<()> {
        let flags = match read_only {
            true => Flag::READ_ONLY,
            false => Flag::NONE,
        };
        let len = targets.iter().map(Target::encoded_len).sum();
        let mut buffer = Buffer::new(name, flags, len)?;
        buffer.put_targets(targets)?;
        self.call(Call::Load, buffer).map(drop)
    }

    /// Holds the requests of a device.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn suspend(&self, name: &str, pending: Pending) -> io::Result<()> {
        let flags = match pending {
            Pending::CarriedOut => Flag::SUSPEND,
            Pending::Held => Flag::SUSPEND | Flag::SKIP_LOCKFS | Flag::NO_FLUSH,
        };
        self.call(Call::Suspend, Buffer::new(name, flags, 0)?)
            .map(drop)
    }

    /// Puts the loaded table to work, if there is one, and lets requests go on. A device that is not suspended is
    /// suspended for the exchange by the kernel itself, with its requests treated as `pending` says.
    ///
    /// Returns whether the kernel has sent an event, which udev completes.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn resume(&self, name: &str, pending: Pending, udev: Udev) -> io::Result<bool> {
        let flags = match pending {
            Pending::CarriedOut => Flag::NONE,
            Pending::Held => Flag::SKIP_LOCKFS | Flag::NO_FLUSH,
        };
        let mut buffer = Buffer::new(name, flags, 0)?;
        buffer.set_udev(udev);
        Ok(self.call(Call::Suspend, buffer)?.has_sent_event())
    }

    /// Drops the loaded table.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn clear(&self, name: &str) -> io::Result<()> {
        self.call(Call::Clear, Buffer::new(name, Flag::NONE, 0)?)
            .map(drop)
    }

    /// Removes a device, `deferred` until nobody has it open. Returns whether the kernel has sent an event.
    ///
    /// # Errors
    /// As `ioctl(2)`: `ResourceBusy` for a device that is open.
    pub fn remove(&self, name: &str, deferred: bool, udev: Udev) -> io::Result<bool> {
        let flags = match deferred {
            true => Flag::DEFERRED_REMOVE,
            false => Flag::NONE,
        };
        let mut buffer = Buffer::new(name, flags, 0)?;
        buffer.set_udev(udev);
        Ok(self.call(Call::Remove, buffer)?.has_sent_event())
    }

    /// Sends a message to the target at the beginning of the device, or, if it begins with `@`, to the device itself. It may
    /// have a key.
    ///
    /// # Errors
    /// As `ioctl(2)`: `InvalidInput` for a message that is not understood.
    pub fn message(&self, name: &str, words: &[u8]) -> io::Result<()> {
        let mut buffer = Buffer::new(name, Flag::NONE, message::message_len(words))?;
        buffer.put_message(words)?;
        self.call(Call::Message, buffer).map(drop)
    }

    /// Reads a table as lines `start length type arguments`, keys included.
    ///
    /// # Errors
    /// As [`devices`](Self::devices).
    pub fn table(&self, name: &str, which: Which) -> io::Result<SecretBytes> {
        let flags = match which {
            Which::Active => Flag::STATUS_TABLE,
            Which::Inactive => Flag::STATUS_TABLE | Flag::QUERY_INACTIVE,
        };
        self.ask(Call::Table, name, flags)?.lines()
    }

    /// Asks for an answer of any length.
    fn ask(&self, call: Call, name: &str, flags: Flag) -> io::Result<Buffer> {
        let mut len = ANSWER;
        loop {
            let answer = self.call(call, Buffer::new(name, flags, len)?)?;
            if !answer.was_too_small() {
                return Ok(answer);
            }
            if len >= ANSWER_MAX {
                return Err(message::not_understood("it is longer than 16 MiB"));
            }
            len *= 4;
        }
    }

    fn call(&self, call: Call, mut buffer: Buffer) -> io::Result<Buffer> {
        let request = message::opcode(call as u8);
        // SAFETY: the kernel reads and writes at most `data_size` bytes of the buffer, which `Buffer` sets to its length.
        let result =
            unsafe { libc::ioctl(self.0.as_raw_fd(), request, buffer.bytes_mut().as_mut_ptr()) };
        match result {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(buffer),
        }
    }
}

fn is_no_device(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}
