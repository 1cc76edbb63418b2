//! Names of devices in tables, as in device mapper: `major:minor` for a block device. Scrim's tables can also name
//! files, by their paths.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Returns the name of the device or file at `path` in a table.
pub(crate) fn name_in_table(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_block_device() => {
            let device = found.rdev();
            format!("{}:{}", major(device), minor(device))
        }
        _ => path.display().to_string(),
    }
}

/// Returns the path of the device or file that a table calls `name`.
pub(crate) fn path_of(name: &str) -> PathBuf {
    node(name).unwrap_or_else(|| PathBuf::from(name))
}

/// The node of a block device in `/dev`, by the kernel's own name for it.
fn node(name: &str) -> Option<PathBuf> {
    let (major, minor) = name.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A '!' stands for the '/' in names such as cciss/c0d0.
    let name = device.file_name()?.to_str()?.replace('!', "/");
    let node = Path::new("/dev").join(name);
    // In a container /dev may have another device by that name.
    (name_in_table(&node) == format!("{major}:{minor}")).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_by_their_paths() {
        for path in ["/tmp", "/no/such/file", "/tmp/7:0"] {
            assert_eq!(name_in_table(Path::new(path)), path);
            assert_eq!(path_of(path), Path::new(path));
        }
    }

    #[test]
    fn what_is_no_device_stays_a_path() {
        for name in ["a:b", "7:", ":0", "4294967295:0", "1:2:3"] {
            assert_eq!(path_of(name), Path::new(name));
        }
    }

    #[test]
    fn block_devices_are_called_by_their_numbers() {
        let devices = std::fs::read_dir("/sys/dev/block").into_iter().flatten();
        for device in devices.flatten() {
            let name = device.file_name().into_string().unwrap();
            let path = path_of(&name);
            if path.exists() {
                assert_eq!(name_in_table(&path), name);
            }
        }
    }
}
