//! Unsent and unacknowledged data of a TCP socket: `tcp(7)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Lets the kernel take no more for sending once it has `bytes` that it has not sent yet (`TCP_NOTSENT_LOWAT`).
/// Data on its way to the other side does not count, so that this costs no speed.
///
/// # Errors
/// As `setsockopt(2)`.
pub fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        &bytes.to_ne_bytes(),
    )
}

/// Sets an option of a socket.
pub(crate) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is open as long as it is borrowed, and the kernel reads `len` bytes, which the
    // value has.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns how many bytes the other side has not acknowledged. Those that the kernel has sealed for TLS and not yet
/// put into its queue do not count: it does that when the queue gets shorter.
///
/// # Errors
/// As `ioctl(2)`.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ of a socket) writes one int.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    match result {
        0 => Ok(usize::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}
