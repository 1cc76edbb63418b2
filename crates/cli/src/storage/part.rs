//! Names of parts of an image: `disk.img#2` is partition 2, and `disk.img#1048576+20971520` is the 20971520 bytes from
//! byte 1048576 on. A file that really has such a name is that file.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use scrim_backend::{Access, BackendError, FileBackend, Operation};

use crate::storage::partition_table::PartitionTable;
use crate::storage::partitions::{holds_luks, kernel_node};
use crate::terminal::note;

/// Largest number of a partition, as of a GPT with all the entries that are read.
const NUMBER_MAX: u32 = 8192;

/// A part of a file or device, as its name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A partition, by its number.
    Partition(u32),
    /// A number of bytes from an offset on.
    Bytes { start: u64, len: u64 },
}

/// A file or device, or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) path: PathBuf,
    /// Place of the part, in bytes; `None` for the whole.
    pub(super) window: Option<Range<u64>>,
}

/// Returns the name of a range (bytes) of a file or device.
pub(crate) fn name_of(path: &Path, range: &Range<u64>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("#{}+{}", range.start, range.end - range.start));
    name.into()
}

/// Returns whether a local name means a part of a file or device.
pub(super) fn is_part(image: &Path) -> bool {
    split(image).is_some()
}

/// Finds what a local name means. Reads the partition table where it names a partition.
pub(super) fn locate(image: &Path) -> Result<Located, BackendError> {
    let Some((path, part)) = split(image) else {
        let (path, window) = (image.to_owned(), None);
        return Ok(Located { path, window });
    };
    let window = match part {
        Part::Bytes { start, len } => start..start.saturating_add(len),
        Part::Partition(number) => {
            // The kernel keeps users of its partitions from each other.
            if let Some(node) = kernel_node(&path, number) {
                let (path, window) = (node.into(), None);
                return Ok(Located { path, window });
            }
            partition(&path, number).map_err(|error| match error {
                Failure::Storage(error) => error,
                Failure::Table(error) => {
                    let error = io::Error::new(io::ErrorKind::InvalidInput, error);
                    BackendError::new(Operation::Open, &image.to_string_lossy(), error)
                }
            })?
        }
    };
    let window = Some(window);
    Ok(Located { path, window })
}

enum Failure {
    Storage(BackendError),
    Table(String),
}

fn partition(path: &Path, number: u32) -> Result<Range<u64>, Failure> {
    let disk = FileBackend::open_shared(path, Access::ReadOnly).map_err(Failure::Storage)?;
    let table = PartitionTable::read(&disk, |range| holds_luks(&disk, range));
    let table = table.map_err(|error| Failure::Table(error.to_string()))?;
    let found = table.find(number);
    let found = found.map_err(|error| Failure::Table(error.to_string()))?;
    if !table.is_gpt && table.sector != 512 {
        note(format_args!(
            "scrim: {}: its MBR counts in sectors of {} bytes, by the volume that is there",
            path.display(),
            table.sector
        ));
    }
    if let Some(damage) = table.copy_used {
        note(format_args!(
            "scrim: warning: {}: the GPT at its start is damaged ({damage}), and the copy at its end is used; repair \
             it with gdisk",
            path.display()
        ));
    }
    Ok(found)
}

/// Splits a name into that of a file and the part that follows it.
fn split(image: &Path) -> Option<(PathBuf, Part)> {
    let name = image.as_os_str().as_encoded_bytes();
    let at = name.iter().rposition(|&byte| byte == b'#')?;
    let part = part(std::str::from_utf8(&name[at + 1..]).ok()?)?;
    let path = path_of(&name[..at]);
    let is_meant = image.symlink_metadata().is_err() && path.exists();
    is_meant.then_some((path, part))
}

fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

fn part(text: &str) -> Option<Part> {
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    if let Some((start, len)) = text.split_once('+') {
        let (start, len) = (number(start)?, number(len)?);
        return Some(Part::Bytes { start, len });
    }
    let number = u32::try_from(number(text)?).ok()?;
    (1..=NUMBER_MAX)
        .contains(&number)
        .then_some(Part::Partition(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_number_or_an_offset_with_a_length() {
        assert_eq!(part("2"), Some(Part::Partition(2)));
        let bytes = Part::Bytes { start: 0, len: 512 };
        assert_eq!(part("0+512"), Some(bytes));
        for other in [
            "",
            "0",
            "8193",
            "-1",
            "+5",
            "2a",
            "1+",
            "1+2+3",
            "/",
            " 2",
            "99999999999999999999",
        ] {
            assert_eq!(part(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_with_such_a_name_is_that_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("disk"), vec![0; 4096]).unwrap();
        assert!(is_part(&path("disk#2")) && is_part(&path("disk#0+512")));
        assert!(!is_part(&path("disk#x")) && !is_part(&path("other#2")));
        let window = Some(512..1024);
        let located = locate(&path("disk#512+512")).unwrap();
        assert_eq!(
            located,
            Located {
                path: path("disk"),
                window
            }
        );
        let refused = locate(&path("disk#2")).unwrap_err().to_string();
        assert!(refused.contains("no partition table"), "{refused}");
        std::fs::write(path("disk#2"), "").unwrap();
        assert!(!is_part(&path("disk#2")));
        assert_eq!(name_of(&path("disk"), &(5..7)), path("disk#5+2"));
    }
}
