//! The kernel's table of mounts, as this process sees it: `/proc/self/mountinfo` (`proc(5)`).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount in the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Number of its file system, `MAJOR:MINOR`.
    pub(super) device: String,
    /// Type of its file system.
    pub(super) kind: String,
}

/// Finds the mount on top of `directory`, an absolute path without links.
///
/// # Errors
/// When the table cannot be read.
pub(super) fn find(directory: &Path) -> io::Result<Option<Mount>> {
    Ok(find_in(&std::fs::read("/proc/self/mountinfo")?, directory))
}

/// The last mount on a folder covers those before.
fn find_in(table: &[u8], directory: &Path) -> Option<Mount> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.rev().find_map(|line| parse(line, directory))
}

fn parse(line: &[u8], directory: &Path) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    if unescaped(point) != directory {
        return None;
    }
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Some(Mount {
        device: text(device),
        kind: text(kind),
    })
}

/// Space, tab, line end and backslash are written as `\` and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match (first, after.split_first_chunk::<3>()) {
            (b'\\', Some((digits, behind))) => octal(*digits).map(|byte| (byte, behind)),
            _ => None,
        };
        let (byte, behind) = escaped.unwrap_or((first, after));
        path.push(byte);
        rest = behind;
    }
    OsString::from_vec(path).into()
}

fn octal(digits: [u8; 3]) -> Option<u8> {
    let text = std::str::from_utf8(&digits).ok()?;
    u8::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 0:20 / / rw,relatime - overlay overlay rw\n\
        30 22 0:45 / /mnt/a\\040b rw master:3 shared:7 - fuse.scrim disk.img rw,user_id=0\n\
        31 22 0:46 / /mnt/a\\040b rw - tmpfs tmpfs rw\n\
        32 22 0:47 / /mnt/c\\134d rw - fuse.scrim x\\040- rw\n\
        broken\n";

    #[test]
    fn the_last_mount_on_a_folder_counts() {
        let find = |path: &str| {
            let mount = find_in(TABLE, Path::new(path))?;
            Some((mount.device, mount.kind))
        };
        let mount = |device: &str, kind: &str| Some((device.to_owned(), kind.to_owned()));
        assert_eq!(find("/mnt/a b"), mount("0:46", "tmpfs"));
        assert_eq!(find("/mnt/c\\d"), mount("0:47", "fuse.scrim"));
        assert_eq!(find("/"), mount("0:20", "overlay"));
        assert_eq!(find("/mnt"), None);
    }

    #[test]
    fn the_tables_of_this_machine_can_be_read() {
        assert!(find(Path::new("/proc")).unwrap().is_some());
    }
}
