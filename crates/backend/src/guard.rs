//! The lock that keeps a second writer away for as long as an image is open.
//!
//! Image files take the byte-range locks of QEMU (`block/file-posix.c`, "raw_lock"), so that
//! QEMU's tools and Scrim exclude each other too. They are open-file-description locks: a `flock`
//! held this long would make `cryptsetup luksAddKey` wait for ever. Block devices are opened with
//! `O_EXCL` instead.
//!
//! A window of a file takes only those of QEMU's locks that keep users of the whole file away, and one on its own bytes,
//! moved to where no file has bytes. Every user of the whole file declares that it reads, and no window does, so windows
//! know such users from each other.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use scrim_sys::lock::{Kind, is_excluded, try_lock};

use crate::access::Access;

/// First of the bytes that say "I use permission n".
const USES: u64 = 100;
/// First of the bytes that say "nobody else may use permission n".
const DENIES: u64 = 200;

/// Place of the locks on the bytes of windows: this far behind the bytes themselves.
const WINDOWS: u64 = 1 << 62;

/// QEMU's permissions by number.
const CONSISTENT_READ: u64 = 0;
const WRITE: u64 = 1;
const RESIZE: u64 = 3;

/// Takes the locks for `access`; they last until the file is closed.
///
/// # Errors
/// `WouldBlock` when another program uses the file in a way that excludes this one.
pub(crate) fn take(file: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    let uses: &[u64] = match access {
        Access::ReadOnly => &[CONSISTENT_READ],
        Access::ReadWrite => &[CONSISTENT_READ, WRITE],
    };
    let denies = [WRITE, RESIZE];
    // Locks first, then the check of others: of two programs that open the file at once at least one sees
    // the other.
    for byte in bytes(USES, uses).chain(bytes(DENIES, &denies)) {
        try_lock(file, Kind::Shared, byte..byte + 1)?;
    }
    for byte in bytes(DENIES, uses).chain(bytes(USES, &denies)) {
        if is_excluded(file, Kind::Exclusive, byte..byte + 1)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
    }
    Ok(())
}

/// Takes the locks of a window of the file for `access`; they last until the file is closed.
///
/// # Errors
/// `WouldBlock` when another program uses the file, or an overlapping window of it, in a way that excludes this one.
pub(crate) fn take_window(
    file: BorrowedFd<'_>,
    access: Access,
    window: &Range<u64>,
) -> io::Result<()> {
    let busy = || Err(io::ErrorKind::WouldBlock.into());
    let moved = |at: u64| {
        at.checked_add(WINDOWS)
            .filter(|&at| i64::try_from(at).is_ok())
    };
    let (Some(start), Some(end)) = (moved(window.start), moved(window.end)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let kind = match access {
        Access::ReadOnly => Kind::Shared,
        Access::ReadWrite => Kind::Exclusive,
    };
    try_lock(file, kind, start..end)?;
    let writes = (access == Access::ReadWrite).then_some(USES + WRITE);
    for byte in writes.into_iter().chain([DENIES + WRITE]) {
        try_lock(file, Kind::Shared, byte..byte + 1)?;
    }
    let in_use = |byte: u64| is_excluded(file, Kind::Exclusive, byte..byte + 1);
    let whole = in_use(USES + CONSISTENT_READ)?;
    let excludes = match access {
        Access::ReadOnly => whole && in_use(USES + WRITE)?,
        Access::ReadWrite => whole,
    };
    if excludes || in_use(DENIES + CONSISTENT_READ)? {
        return busy();
    }
    Ok(())
}

fn bytes(base: u64, permissions: &[u64]) -> impl Iterator<Item = u64> {
    permissions.iter().map(move |permission| base + permission)
}
