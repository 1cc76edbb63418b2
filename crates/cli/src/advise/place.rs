//! The storage that a volume is to lie on, as the kernel describes it.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use scrim_figures::Size;
use scrim_sys::file_system::FileSystem;
use scrim_sys::mounts;
use serde::Serialize;

use crate::error::{CliError, Exit};

/// Block devices by their numbers.
const DEVICES: &str = "/sys/dev/block";

/// A directory for image files, or a block device. Values that the kernel does not tell are `null`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Place {
    pub(super) path: PathBuf,
    pub(super) is_device: bool,
    /// Type of the file system of a directory, such as `ext4`.
    pub(super) file_system: Option<String>,
    /// Bytes that can still be written to a directory, or the size of a device.
    pub(super) bytes: u64,
    pub(super) disk: Option<Disk>,
    /// True for files that the kernel keeps in memory.
    pub(super) is_in_memory: bool,
    /// True if this process is root's.
    pub(super) is_root: bool,
    /// True if this kernel has device mapper loaded, for dm-crypt.
    pub(super) has_device_mapper: bool,
}

/// The disk below a directory or partition.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Disk {
    /// The kernel's name of it, such as `nvme0n1`.
    pub(super) name: String,
    pub(super) model: Option<String>,
    /// True if the kernel says that it has moving parts. Virtual disks often say so wrongly.
    pub(super) is_rotational: Option<bool>,
    /// Smallest block that it takes, in bytes.
    pub(super) logical_block: Option<u32>,
    /// Smallest block that it writes without reading, in bytes.
    pub(super) physical_block: Option<u32>,
    pub(super) takes_discards: bool,
}

impl Place {
    /// Looks at a directory or a block device.
    pub(crate) fn examine(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let fail = |error| CliError::io(format_args!("look at {shown}"), &error);
        let found = fs::metadata(path).map_err(fail)?;
        let path = path.canonicalize().map_err(fail)?;
        let is_device = found.file_type().is_block_device();
        if !is_device && !found.is_dir() {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{shown} is neither a directory nor a block device; name the directory that the image is to lie in"
                ),
            ));
        }
        let number = if is_device { found.rdev() } else { found.dev() };
        let disk = Disk::find(Path::new(DEVICES), number);
        let mut place = Self {
            is_device,
            file_system: None,
            bytes: 0,
            disk,
            is_in_memory: false,
            is_root: rustix::process::geteuid().is_root(),
            has_device_mapper: Path::new("/sys/class/misc/device-mapper").exists(),
            path,
        };
        if is_device {
            place.bytes = size_of(Path::new(DEVICES), number).unwrap_or(0);
        } else {
            let about = FileSystem::at(&place.path).map_err(fail)?;
            (place.bytes, place.is_in_memory) = (about.free_bytes, about.is_tmpfs);
            let folder = File::open(&place.path).map_err(fail)?;
            let mount = mounts::find_of(folder).ok().flatten();
            place.file_system = mount.map(|mount| mount.kind);
        }
        Ok(place)
    }

    /// Describes it in a line.
    pub(super) fn describe(&self) -> String {
        let path = self.path.display();
        let mut text = match (&self.file_system, self.is_device) {
            (Some(kind), _) => format!("{path}: {kind}, {} free", Size::of_bytes(self.bytes)),
            (None, false) => format!("{path}: {} free", Size::of_bytes(self.bytes)),
            (None, true) => format!("{path}: a block device of {}", Size::of_bytes(self.bytes)),
        };
        match &self.disk {
            Some(disk) => text.push_str(&format!("; {}", disk.describe())),
            None if self.is_in_memory => text.push_str("; in memory"),
            None => text.push_str("; the kernel does not tell which disk is below"),
        }
        text
    }
}

impl Disk {
    /// Finds the disk that has the device with a number, in the kernel's folder of devices.
    fn find(devices: &Path, number: u64) -> Option<Self> {
        let mut folder = folder_of(devices, number)?;
        // A partition is in the folder of its disk.
        if folder.join("partition").exists() {
            folder.pop();
        }
        let read = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let number = |file: &str| read(file)?.parse::<u64>().ok();
        let block = |file: &str| u32::try_from(number(file)?).ok();
        Some(Self {
            name: folder.file_name()?.to_string_lossy().into_owned(),
            model: read("device/model"),
            is_rotational: number("queue/rotational").map(|rotational| rotational != 0),
            logical_block: block("queue/logical_block_size"),
            physical_block: block("queue/physical_block_size"),
            takes_discards: number("queue/discard_max_bytes").is_some_and(|bytes| bytes > 0),
        })
    }

    fn describe(&self) -> String {
        let model = self.model.as_ref();
        let model = model.map_or(String::new(), |model| format!(" ({model})"));
        let kind = match self.is_rotational {
            Some(true) => ", rotating by the kernel's word",
            Some(false) => ", without moving parts",
            None => "",
        };
        let blocks = match (self.logical_block, self.physical_block) {
            (Some(logical), Some(physical)) => {
                format!(", blocks of {logical} bytes, {physical} physical")
            }
            _ => String::new(),
        };
        format!("disk {}{model}{kind}{blocks}", self.name)
    }
}

fn folder_of(devices: &Path, number: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    devices.join(format!("{major}:{minor}")).canonicalize().ok()
}

/// Size of a block device in bytes. The kernel counts in units of 512 bytes, whatever its blocks are.
fn size_of(devices: &Path, number: u64) -> Option<u64> {
    let text = fs::read_to_string(folder_of(devices, number)?.join("size")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of devices like the kernel's: a disk 8:0 with the partition 8:1.
    fn devices(base: &Path) -> PathBuf {
        let disk = base.join("sda");
        let files = [
            ("size", "4000000\n"),
            ("device/model", "A DISK  \n"),
            ("queue/rotational", "1\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "4096\n"),
            ("queue/discard_max_bytes", "0\n"),
            ("sda1/partition", "1\n"),
            ("sda1/size", "2048\n"),
        ];
        for (file, text) in files {
            let file = disk.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let devices = base.join("block");
        fs::create_dir(&devices).unwrap();
        std::os::unix::fs::symlink(&disk, devices.join("8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), devices.join("8:1")).unwrap();
        devices
    }

    #[test]
    fn a_partition_has_the_properties_of_its_disk() {
        let base = tempfile::tempdir().unwrap();
        let devices = devices(base.path());
        let number = |minor| rustix::fs::makedev(8, minor);
        let disk = Disk::find(&devices, number(1)).unwrap();
        assert_eq!(
            disk.describe(),
            "disk sda (A DISK), rotating by the kernel's word, blocks of 512 bytes, 4096 physical"
        );
        assert!(!disk.takes_discards);
        assert_eq!(size_of(&devices, number(1)), Some(1 << 20));
        assert!(Disk::find(&devices, number(2)).is_none());
    }

    #[test]
    fn a_file_is_no_place() {
        let base = tempfile::tempdir().unwrap();
        let place = Place::examine(base.path()).unwrap();
        assert!(!place.is_device && place.bytes > 0);
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Place::examine(&file).unwrap_err().to_string();
        assert!(error.contains("neither a directory"), "{error}");
        assert!(Place::examine(&base.path().join("none")).is_err());
    }
}
