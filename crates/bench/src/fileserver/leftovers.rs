//! Users of a device: mounts, and devices on top of it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, minor, stat};
use scrim_foreign::Foreign;
use scrim_sys::mounts::{self, Mount};

/// Block devices by their numbers.
const DEVICES: &str = "/sys/dev/block";

/// Returns whether something is mounted on a folder.
pub(super) fn is_mounted(folder: &Path) -> bool {
    mounts::find(folder).is_ok_and(|mount| mount.is_some())
}

/// Says what uses a device, and how to end that.
pub(super) fn users_of(device: &Path) -> String {
    let Ok(status) = stat(device) else {
        return "its users cannot be found".to_owned();
    };
    let mounts = mounts::all().unwrap_or_default();
    let users = users(&mounts, Path::new(DEVICES), status.st_rdev);
    match users.is_empty() {
        true => "lsblk and fuser show by what".to_owned(),
        false => users.join("; "),
    }
}

/// Users of the device with a number: mounts in a table, and device mapper's devices with their mounts.
fn users(mounts: &[Mount], devices: &Path, number: Dev) -> Vec<String> {
    let number = format!("{}:{}", major(number), minor(number));
    let mut users = mounted(mounts, &number);
    let holders = fs::read_dir(devices.join(&number).join("holders"));
    for holder in holders.into_iter().flatten().flatten() {
        let folder: PathBuf = holder.path();
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        if let Some(number) = read("dev") {
            users.extend(mounted(mounts, number.trim()));
        }
        users.push(match read("dm/name") {
            Some(name) => {
                let name = Foreign::new(name.trim()).to_string();
                format!("/dev/mapper/{name} uses it (cryptsetup close {name})")
            }
            None => format!(
                "the device {} uses it",
                Foreign::new(holder.file_name().as_encoded_bytes())
            ),
        });
    }
    users
}

fn mounted(mounts: &[Mount], number: &str) -> Vec<String> {
    let of_device = mounts.iter().filter(|mount| mount.id.device == number);
    let folders = of_device.map(|mount| Foreign::new(mount.point.as_os_str().as_encoded_bytes()));
    folders
        .map(|folder| format!("it is mounted on {folder} (umount '{folder}')"))
        .collect()
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;
    use scrim_sys::mounts::MountId;

    use super::*;
    use crate::folder::Folder;

    #[test]
    fn users_of_a_device_are_named_with_what_ends_them() {
        let base = Folder::make(&std::env::temp_dir(), "scrim-users").unwrap();
        let holder = base.path().join("7:1/holders/dm-3");
        fs::create_dir_all(holder.join("dm")).unwrap();
        fs::write(holder.join("dm/name"), "scrim-fileserver-0\n").unwrap();
        fs::write(holder.join("dev"), "254:3\n").unwrap();
        let mount = |device: &str, point: &str| Mount {
            id: MountId {
                number: 30,
                device: device.to_owned(),
            },
            point: point.into(),
            kind: "ext4".to_owned(),
        };
        let mounts = [mount("254:3", "/srv/a mount"), mount("7:2", "/other")];
        let of = |minor| users(&mounts, base.path(), makedev(7, minor));
        assert_eq!(
            of(1),
            [
                "it is mounted on /srv/a mount (umount '/srv/a mount')",
                "/dev/mapper/scrim-fileserver-0 uses it (cryptsetup close scrim-fileserver-0)"
            ]
        );
        assert_eq!(of(2), ["it is mounted on /other (umount '/other')"]);
        assert_eq!(of(3), [""; 0]);
    }

    #[test]
    fn mounts_are_found_by_their_folder() {
        assert!(is_mounted(Path::new("/proc")));
        assert!(!is_mounted(Path::new("/proc/self")));
    }
}
