//! Files that the kernel sends by itself, over whatever carries the connection.

use std::io;

use rustix::io::Errno;
use tokio::net::TcpStream;

use super::broken::Broken;
use super::socket::when_writable;
use crate::limits::Limits;
use crate::site::OpenFile;

/// Most bytes of a file that the kernel is asked to send at a time: the thread's other connections wait for
/// it, and if the file has to come from a disk, for that too.
pub(super) const AT_ONCE: u64 = 512 << 10;

/// Has the kernel send at most `count` bytes of a file that it knows; tells how many, at least one.
pub(super) async fn send_file(
    socket: &TcpStream,
    file: &OpenFile,
    offset: u64,
    count: u64,
    limits: &Limits,
) -> Result<u64, Broken> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let descriptor = file
        .descriptor()
        .ok_or_else(|| Broken::File(io::ErrorKind::Unsupported.into()))?;
    let mut of_file = Ok(());
    let send = || {
        // Each time: it may have waited for long.
        of_file = is_intact(file);
        if of_file.is_err() {
            return Ok(0);
        }
        let mut offset = offset;
        match rustix::fs::sendfile(socket, descriptor, Some(&mut offset), count) {
            Err(error @ (Errno::IO | Errno::NODATA | Errno::STALE)) => {
                of_file = Err(Broken::File(error.into()));
                Ok(0)
            }
            sent => Ok(sent?),
        }
    };
    let sent = when_writable(socket, limits.stall, send).await?;
    of_file?;
    match sent {
        0 => Err(Broken::Changed),
        sent => Ok(sent as u64),
    }
}

/// Refuses a file that no longer has what it had when it was opened; it may have more.
pub(super) fn is_intact(file: &OpenFile) -> Result<(), Broken> {
    match file.has_lost_content() {
        Ok(false) => Ok(()),
        Ok(true) => Err(Broken::Changed),
        Err(error) => Err(Broken::File(error)),
    }
}
