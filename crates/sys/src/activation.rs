//! Sockets that a service manager has opened and hands on: descriptors from 3 on, as
//! `sd_listen_fds(3)` counts them.

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::{fmt, io};

/// The first descriptor that is handed on.
const FIRST: RawFd = 3;
/// Most descriptors that are taken.
const MOST: RawFd = 16;

/// Takes the descriptors that `LISTEN_FDS` announces to this process, by `LISTEN_PID`; none where it
/// announces them to another one or not at all. From then on they are closed in programs that this one
/// starts. The variables stay as they are, so this is to be called once.
///
/// # Errors
/// [`ActivationError`]: the variables do not say what this process was started with.
pub fn take_listen_fds() -> Result<Vec<OwnedFd>, ActivationError> {
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let (Some(pid), Some(count)) = (
        std::env::var_os("LISTEN_PID"),
        std::env::var_os("LISTEN_FDS"),
    ) else {
        return Ok(Vec::new());
    };
    if number(&pid) != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number(&count)
        .and_then(|count| RawFd::try_from(count).ok())
        .filter(|count| *count <= MOST)
        .ok_or(ActivationError::Count(count))?;
    (FIRST..FIRST + count).map(take).collect()
}

/// Takes a descriptor that this process was started with, once. Such a descriptor stays open over an
/// `exec` and one that the process has opened itself does not, so the one is never taken for the other.
fn take(number: RawFd) -> Result<OwnedFd, ActivationError> {
    // SAFETY: F_GETFD only asks, and fails on a number that is not open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } != 0 {
        return Err(ActivationError::NotOpen(number));
    }
    // SAFETY: it only sets the flag of an open descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(ActivationError::System(io::Error::last_os_error()));
    }
    // SAFETY: it is open, and nothing here has opened it: it was without the flag until now.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Reason why no descriptors are taken.
#[derive(Debug)]
pub enum ActivationError {
    /// `LISTEN_FDS` is not a number, or more than are taken.
    Count(OsString),
    /// This descriptor was announced and is not there.
    NotOpen(RawFd),
    System(io::Error),
}

impl fmt::Display for ActivationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(text) => write!(
                f,
                "LISTEN_FDS={} is not a number of descriptors: give 1 to {MOST} sockets, or unset it",
                text.display()
            ),
            Self::NotOpen(number) => write!(
                f,
                "LISTEN_FDS announces descriptor {number}, and this process was started without it: \
                 hand it on, or unset LISTEN_FDS"
            ),
            Self::System(error) => write!(f, "cannot take a socket that was handed on: {error}"),
        }
    }
}

impl std::error::Error for ActivationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::Count(_) | Self::NotOpen(_) => None,
        }
    }
}
