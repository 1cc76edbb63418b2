//! Files that the kernel sends by itself, over whatever carries the connection.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::error::TransportError;
use super::socket::when_writable;
use crate::files::{Change, OpenFile};
use crate::limits::Limits;

/// Most bytes of a file that the kernel is asked to send at a time: the thread's other connections wait for
/// it, and if the file has to come from a disk, for that too.
pub(super) const AT_ONCE: u64 = 512 << 10;

/// Pauses before a file is looked at again that was written to and is as long as it was: a writer may be about to make
/// it longer.
const AGAIN: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(75),
];

/// Has the kernel send at most `count` bytes of a file that it knows; returns how many, at least one.
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
            // Each time: it may have waited for long.
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

/// Refuses a file that no longer has what it had when it was opened; it may have more.
pub(crate) async fn check_intact(file: &OpenFile) -> Result<(), TransportError> {
    let mut pauses = AGAIN.into_iter();
    while !is_unmodified(file)? {
        sleep(pauses.next().ok_or(TransportError::Changed)?).await;
    }
    Ok(())
}

/// Refuses a file that has become shorter; returns false for one that may be growing or have lost its content.
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
    async fn a_file_in_the_middle_of_a_write_that_makes_it_longer_check_intact() {
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
