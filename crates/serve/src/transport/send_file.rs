//! `sendfile`, with checks that the file has not changed.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::error::TransportError;
use super::socket::when_writable;
use crate::files::{Change, OpenFile};
use crate::limits::Limits;

/// Limit on the bytes of one `sendfile`: the thread's other connections wait for it, also while it reads from a disk.
pub(super) const SENDFILE_MAX: u64 = 512 << 10;

/// Pauses before another check of a file that was written to and has the same length: the writer may be extending it.
const RECHECK_PAUSES: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(75),
];

/// Makes the kernel send at most `count` bytes of a file; returns the number of bytes, at least one.
pub(super) async fn send_file(
    socket: &TcpStream,
    file: &OpenFile,
    offset: u64,
    count: u64,
    limits: &Limits,
) -> Result<u64, TransportError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let descriptor = file
        .descriptor()
        .ok_or_else(|| TransportError::File(io::ErrorKind::Unsupported.into()))?;
    loop {
        let mut of_file = Ok(true);
        let send = || {
            // Checked before each attempt, since the attempts may be far apart.
            of_file = is_unmodified(file);
            if !matches!(of_file, Ok(true)) {
                return Ok(0);
            }
            let mut offset = offset;
            match rustix::fs::sendfile(socket, descriptor, Some(&mut offset), count) {
                Err(error @ (Errno::IO | Errno::NODATA | Errno::STALE)) => {
                    of_file = Err(TransportError::File(error.into()));
                    Ok(0)
                }
                sent => Ok(sent?),
            }
        };
        let sent = when_writable(socket, limits.stall, send).await?;
        match (of_file?, sent) {
            (true, 0) => return Err(TransportError::Changed),
            (true, sent) => return Ok(sent as u64),
            (false, _) => check_intact(file).await?,
        }
    }
}

/// Fails if the file no longer has the content that it had when it was opened; it may have been extended.
pub(crate) async fn check_intact(file: &OpenFile) -> Result<(), TransportError> {
    let mut pauses = RECHECK_PAUSES.into_iter();
    while !is_unmodified(file)? {
        sleep(pauses.next().ok_or(TransportError::Changed)?).await;
    }
    Ok(())
}

/// Fails if the file has become shorter; returns false if it was written to and has the same length.
fn is_unmodified(file: &OpenFile) -> Result<bool, TransportError> {
    match file.change().map_err(TransportError::File)? {
        Change::Unchanged | Change::Extended => Ok(true),
        Change::Touched => Ok(false),
        Change::Cut => Err(TransportError::Changed),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::io::Write;
    use std::time::SystemTime;

    use super::*;

    /// A file in the middle of a write: it has its new time, and is as long as before.
    fn being_written_to() -> (File, OpenFile) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"line\n").unwrap();
        let old = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        file.set_times(old).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let open = OpenFile::new(file.try_clone().unwrap().into(), stat);
        let now = FileTimes::new().set_modified(SystemTime::now());
        file.set_times(now).unwrap();
        (file, open)
    }

    #[tokio::test]
    async fn a_file_in_the_middle_of_a_write_that_makes_it_longer_is_intact() {
        let (mut file, open) = being_written_to();
        let write = async { file.write_all(b"another\n").unwrap() };
        // The file is looked at before it is written to.
        let (intact, ()) = tokio::join!(check_intact(&open), write);
        assert!(intact.is_ok(), "{intact:?}");
    }

    #[tokio::test]
    async fn a_file_that_was_written_to_and_does_not_grow_is_not_intact() {
        let (_file, open) = being_written_to();
        let intact = check_intact(&open).await;
        assert!(matches!(intact, Err(TransportError::Changed)), "{intact:?}");
    }
}
