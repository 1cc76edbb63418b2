//! Identity of a storage: what tells it from another one, also after a reboot.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use scrim_foreign::Foreign;
use serde::{Deserialize, Serialize};

use super::error::FileserverError;

/// Block devices by their numbers.
const DEVICES: &str = "/sys/dev/block";
/// Files of a block device in sysfs that name the same medium after a reboot, the best first.
const NAMES: [&str; 8] = [
    "wwid",
    "device/wwid",
    "device/serial",
    "serial",
    "device/cid",
    "dm/uuid",
    "md/uuid",
    "loop/backing_file",
];

/// Names and size of a storage, which tell it from another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Path of the storage, without links.
    pub path: PathBuf,
    /// Bytes of a device; `None` for a directory, whose file system may grow.
    pub bytes: Option<u64>,
    /// Name of the device, or of the one that a directory's file system is on, with its place there: from the device
    /// itself. `None` where it has no such name.
    pub device: Option<String>,
}

impl Identity {
    /// Reads the identity of a directory or of a block device.
    pub(super) fn of(given: &Path) -> Result<Self, FileserverError> {
        let doing = || format!("find {}", given.display());
        let path = given
            .canonicalize()
            .map_err(FileserverError::system(doing()))?;
        let metadata = fs::metadata(&path).map_err(FileserverError::system(doing()))?;
        let is_device = metadata.file_type().is_block_device();
        let number = match is_device {
            true => metadata.rdev(),
            false => metadata.dev(),
        };
        let bytes = is_device.then(|| size_of(&path)).transpose();
        Ok(Self {
            path,
            bytes: bytes.map_err(FileserverError::system(format!(
                "find the size of {}",
                given.display()
            )))?,
            device: name(Path::new(DEVICES), number),
        })
    }

    /// Returns the difference from `now` if that is another storage. A device without a name of its own is known by
    /// its path, and one with a name may have another path.
    #[must_use]
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.bytes != now.bytes {
            let shown = |bytes: Option<u64>| match bytes {
                Some(bytes) => format!("a device of {bytes} bytes"),
                None => "a directory".to_owned(),
            };
            return Some(format!("{}, not {}", shown(self.bytes), shown(now.bytes)));
        }
        match (&self.device, &now.device) {
            (Some(then), Some(now)) if then == now => None,
            (Some(then), Some(now)) => Some(format!(
                "the device {}, not {}",
                Foreign::new(then),
                Foreign::new(now)
            )),
            _ if self.path == now.path => None,
            _ => Some(format!(
                "{}, not {}",
                Foreign::new(self.path.as_os_str().as_encoded_bytes()),
                now.path.display()
            )),
        }
    }
}

/// Returns the size of a block device in bytes.
pub(super) fn size_of(device: &Path) -> io::Result<u64> {
    File::open(device)?.seek(io::SeekFrom::End(0))
}

/// Name of a block device, from its folder in sysfs. A partition has the name of its disk, with its own start.
fn name(devices: &Path, number: u64) -> Option<String> {
    let folder = devices.join(format!("{}:{}", major(number), minor(number)));
    let folder = folder.canonicalize().ok()?;
    let start = fs::read_to_string(folder.join("start")).ok();
    let disk = match &start {
        Some(_) => folder.parent()?,
        None => &folder,
    };
    let names = NAMES.iter();
    let mut names = names.filter_map(|name| fs::read_to_string(disk.join(name)).ok());
    let name = names.find(|name| !name.trim().is_empty())?;
    let name = name.trim();
    Some(match start {
        Some(start) => format!("{name} from sector {}", start.trim()),
        None => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::folder::Folder;

    fn device(path: &str, bytes: u64, name: Option<&str>) -> Identity {
        Identity {
            path: path.into(),
            bytes: Some(bytes),
            device: name.map(str::to_owned),
        }
    }

    #[test]
    fn a_device_is_known_by_its_name_and_size_and_else_by_its_path() {
        let disk = device("/dev/sda", 1000, Some("naa.1"));
        let same = |other| disk.difference(&other).is_none();
        assert!(same(disk.clone()) && same(device("/dev/sdb", 1000, Some("naa.1"))));
        assert!(!same(device("/dev/sda", 1000, Some("naa.2"))));
        assert!(!same(device("/dev/sda", 2000, Some("naa.1"))));
        assert!(same(device("/dev/sda", 1000, None)) && !same(device("/dev/sdb", 1000, None)));
        let directory = Identity {
            path: "/dev/sda".into(),
            bytes: None,
            device: Some("naa.1".to_owned()),
        };
        let said = disk.difference(&directory).unwrap();
        assert_eq!(said, "a device of 1000 bytes, not a directory");
    }

    #[test]
    fn a_directory_has_the_device_of_its_file_system() {
        let base = Folder::make(&std::env::temp_dir(), "scrim-identity").unwrap();
        let identity = Identity::of(&base.path().join(".")).unwrap();
        assert_eq!(identity.path, base.path().canonicalize().unwrap());
        assert_eq!(identity.bytes, None);
        assert_eq!(identity.difference(&identity), None);
        assert!(Identity::of(&base.path().join("none")).is_err());
    }

    #[test]
    fn a_partition_has_the_name_of_its_disk_and_its_place() {
        let base = Folder::make(&std::env::temp_dir(), "scrim-identity").unwrap();
        let disk = base.path().join("sda");
        fs::create_dir_all(disk.join("device")).unwrap();
        fs::create_dir(disk.join("sda2")).unwrap();
        fs::write(disk.join("serial"), "\n").unwrap();
        fs::write(disk.join("device/wwid"), "naa.5000\n").unwrap();
        fs::write(disk.join("sda2/start"), "2048\n").unwrap();
        symlink(&disk, base.path().join("8:0")).unwrap();
        symlink(disk.join("sda2"), base.path().join("8:2")).unwrap();
        let named = |number| name(base.path(), number);
        assert_eq!(named(0x800).unwrap(), "naa.5000");
        assert_eq!(named(0x802).unwrap(), "naa.5000 from sector 2048");
        assert_eq!(named(0x810), None);
    }
}
