//! Calls on a connection's socket, with and without waiting.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use scrim_volume::queue::Settled;

use super::end::End;

/// Receives what has come, without waiting; returns its length, or `None` if nothing has come.
pub(super) fn try_receive(socket: &OwnedFd, into: &mut [u8]) -> Result<Option<usize>, End> {
    loop {
        return match recv(socket, &mut *into, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(End::Gone),
            Ok((_, len)) => Ok(Some(len)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => continue,
            Err(_) => Err(End::Gone),
        };
    }
}

/// Time left until `deadline`; `None` without a deadline. Fails once the deadline has passed.
pub(crate) fn time_left(deadline: Option<Instant>) -> Result<Option<Timespec>, End> {
    let Some(deadline) = deadline else {
        return Ok(None);
    };
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(Some(timespec(left))),
        _ => Err(End::Deadline),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Behaviour of a send while the client accepts no bytes.
#[derive(Clone, Copy)]
pub(super) enum Sending<'q> {
    AtOnce,
    /// Waits until the deadline, if there is one. That holds up this client only.
    Waiting(Option<Instant>, Settled<'q>),
}

/// Sends the start of `data`, which is not empty; returns the number of bytes sent, or `None` if the socket takes none
/// now and `how` does not allow waiting.
pub(super) fn send_some(
    socket: &OwnedFd,
    data: &[u8],
    how: Sending<'_>,
) -> Result<Option<usize>, End> {
    let flags = match how {
        Sending::Waiting(None, settled) if settled.retired().is_none() => SendFlags::NOSIGNAL,
        _ => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    };
    loop {
        match (send(socket, data, flags), how) {
            (Ok(sent), _) => return Ok(Some(sent)),
            (Err(Errno::INTR), _) => {}
            (Err(Errno::AGAIN), Sending::AtOnce) => return Ok(None),
            (Err(Errno::AGAIN), Sending::Waiting(deadline, settled)) => {
                let timeout = time_left(deadline)?;
                let retired = settled.retired().map_or_else(
                    || PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty()),
                    |file| PollFd::from_borrowed_fd(file, PollFlags::IN),
                );
                let mut sources = [PollFd::new(socket, PollFlags::OUT), retired];
                let _ = poll(&mut sources, timeout.as_ref());
                let [writable, retired] = sources.map(|source| source.revents());
                if writable.is_empty() && retired.contains(PollFlags::IN) {
                    return Err(End::OtherTable);
                }
            }
            (Err(_), _) => return Err(End::Gone),
        }
    }
}
