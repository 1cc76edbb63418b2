//! Open-file-description byte-range locks (`fcntl(2)`, `F_OFD_SETLK`): owned by the open file, so
//! that two opens in one process exclude each other as well, and released when it closes.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Kind of a lock: the other locks that it excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Excludes exclusive locks only.
    Shared,
    /// Excludes every other lock.
    Exclusive,
}

impl Kind {
    fn code(self) -> libc::c_short {
        // The constants are 0, 1 and 2 on every Linux architecture.
        #[allow(clippy::cast_possible_truncation, reason = "constants 0 to 2")]
        match self {
            Self::Shared => libc::F_RDLCK as libc::c_short,
            Self::Exclusive => libc::F_WRLCK as libc::c_short,
        }
    }
}

/// Takes a lock on `range` (bytes) without waiting.
///
/// # Errors
/// `WouldBlock` when another open file holds a lock that excludes this one; else as `fcntl(2)`.
pub fn try_lock(file: BorrowedFd<'_>, kind: Kind, range: Range<u64>) -> io::Result<()> {
    let mut record = record(kind.code(), range)?;
    fcntl(file, libc::F_OFD_SETLK, &mut record)
}

/// Checks whether a lock of `kind` on `range` (bytes) would be refused now, without taking it.
///
/// # Errors
/// As `fcntl(2)`.
pub fn is_excluded(file: BorrowedFd<'_>, kind: Kind, range: Range<u64>) -> io::Result<bool> {
    let mut record = record(kind.code(), range)?;
    fcntl(file, libc::F_OFD_GETLK, &mut record)?;
    Ok(i32::from(record.l_type) != libc::F_UNLCK)
}

fn record(code: libc::c_short, range: Range<u64>) -> io::Result<libc::flock> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let start = libc::off_t::try_from(range.start).map_err(invalid)?;
    let end = libc::off_t::try_from(range.end).map_err(invalid)?;
    #[allow(clippy::cast_possible_truncation, reason = "SEEK_SET is 0")]
    let whence = libc::SEEK_SET as libc::c_short;
    Ok(libc::flock {
        l_type: code,
        l_whence: whence,
        l_start: start,
        l_len: end - start,
        l_pid: 0,
    })
}

fn fcntl(file: BorrowedFd<'_>, command: libc::c_int, record: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed; the commands used here take a
    // pointer to a `flock`, which they read and write and do not keep.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(record)) };
    if result == 0 {
        Ok(())
    } else {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn two_open_files_exclude_each_other_within_one_process() {
        let path = std::env::temp_dir().join(format!("scrim-lock-{}", std::process::id()));
        let open = || {
            std::fs::File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let (a, b) = (open(), open());
        try_lock(a.as_fd(), Kind::Shared, 100..101).unwrap();
        try_lock(b.as_fd(), Kind::Shared, 100..101).unwrap();
        assert!(is_excluded(b.as_fd(), Kind::Exclusive, 100..101).unwrap());
        assert!(!is_excluded(b.as_fd(), Kind::Exclusive, 101..102).unwrap());
        let refused = try_lock(b.as_fd(), Kind::Exclusive, 100..101).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(a);
        try_lock(b.as_fd(), Kind::Exclusive, 100..101).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
