//! The kernel's table of mounts, as this process sees it: `/proc/self/mountinfo` (`proc(5)`).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Numbers of a mount and of its file system. The kernel gives those of a mount that has gone to new ones, so they identify
/// a mount only together with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountId {
    /// Number of the mount in this mount namespace.
    pub number: u64,
    /// Number of its file system, `MAJOR:MINOR`.
    pub device: String,
}

/// A mount in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: MountId,
    /// The folder that it covers, a path without links.
    pub point: PathBuf,
    /// Type of its file system.
    pub kind: String,
}

/// Finds the mount on top of `directory`, an absolute path without links.
///
/// # Errors
/// When the table cannot be read.
pub fn find(directory: &Path) -> io::Result<Option<Mount>> {
    find_in(|mount| mount.point == directory)
}

/// Finds the mount with these numbers on `point`, an absolute path without links, also below another one.
///
/// # Errors
/// When the table cannot be read.
pub fn find_at(point: &Path, id: &MountId) -> io::Result<Option<Mount>> {
    find_in(|mount| mount.id == *id && mount.point == point)
}

/// Finds the mount that an open file or folder belongs to. The file system itself is asked for nothing.
///
/// # Errors
/// When the table cannot be read.
pub fn find_of(file: impl AsFd) -> io::Result<Option<Mount>> {
    let file = file.as_fd().as_raw_fd();
    let about = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{file}"))?;
    let number: Option<u64> = about
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    match number {
        Some(number) => find_in(|mount: &Mount| mount.id.number == number),
        None => Ok(None),
    }
}

/// Lists the mounts, each after those that it covers.
///
/// # Errors
/// When the table cannot be read.
pub fn all() -> io::Result<Vec<Mount>> {
    let table = std::fs::read("/proc/thread-self/mountinfo")?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .collect())
}

fn find_in(is_meant: impl Fn(&Mount) -> bool) -> io::Result<Option<Mount>> {
    let table = std::fs::read("/proc/thread-self/mountinfo")?;
    Ok(last(&table, is_meant))
}

/// Finds the last mount that is meant: on a folder it covers those before.
fn last(table: &[u8], is_meant: impl Fn(&Mount) -> bool) -> Option<Mount> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.rev().filter_map(parse).find(is_meant)
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let number = text(fields.next()?).parse().ok()?;
    let device = text(fields.nth(1)?);
    let point = unescaped(fields.nth(1)?);
    let kind = text(fields.skip_while(|field| *field != b"-").nth(1)?);
    Some(Mount {
        id: MountId { number, device },
        point,
        kind,
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
            let mount = last(TABLE, |mount| mount.point == Path::new(path))?;
            Some((mount.id.device, mount.kind))
        };
        let mount = |device: &str, kind: &str| Some((device.to_owned(), kind.to_owned()));
        assert_eq!(find("/mnt/a b"), mount("0:46", "tmpfs"));
        assert_eq!(find("/mnt/c\\d"), mount("0:47", "fuse.scrim"));
        assert_eq!(find("/"), mount("0:20", "overlay"));
        assert_eq!(find("/mnt"), None);
    }

    #[test]
    fn the_tables_of_this_machine_can_be_read() {
        let by_path = find(Path::new("/proc")).unwrap().unwrap();
        let by_id = find_at(&by_path.point, &by_path.id).unwrap();
        assert_eq!(by_id.as_ref(), Some(&by_path));
        let file = std::fs::File::open("/proc/version").unwrap();
        assert_eq!(find_of(file).unwrap(), by_id);
        assert!(all().unwrap().contains(&by_path));
    }
}
