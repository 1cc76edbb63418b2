//! Advice for errors of a cluster.

use std::io;

use rustix::io::Errno;
use scrim_rbd::ConnectError;

use crate::{BackendError, Operation};

/// Advice for an image that is named wrongly.
pub(super) const NO_IMAGE: &str =
    "see `rbd ls`, and make it with `rbd create --size SIZE POOL/IMAGE`";
/// Advice for a pool that is named wrongly.
pub(super) const NO_POOL: &str = "see `ceph osd lspools`, and the pool's spelling";
/// Advice for a snapshot that is named wrongly.
pub(super) const NO_SNAPSHOT: &str = "see `rbd snap ls POOL/IMAGE`";
/// Advice for a client that may not use an image.
const FORBIDDEN: &str = "see the user's rights with `ceph auth get client.ID`: it needs the profile rbd for the monitors \
                         and the pool, and another user is chosen by ?id=NAME";
/// Advice for a monitor that does not answer.
const UNREACHABLE: &str =
    "see that the monitors run and that this machine reaches them (`ceph -s`), then try again";
/// Advice for a cluster of which nothing is known.
const NO_MONITOR: &str = "no monitor is known: name the cluster's configuration with ?conf=PATH, or install it as \
                          /etc/ceph/ceph.conf";
/// Advice for a configuration that cannot be read.
const CONFIGURATION: &str = "see the file that ?conf= or CEPH_CONF names, and CEPH_ARGS";
/// Advice for a client that the cluster blocks.
const BLOCKED: &str = "EBLOCKLISTED: another client has taken the image over, and what was not flushed is lost; see \
                       that no other client uses it, then open it again";
/// Advice for a client that has lost the lock.
const NOT_OWNER: &str =
    "another client has its exclusive lock: close it there (`rbd status`, `rbd lock ls`)";
/// Advice for a cluster without free space.
const FULL: &str = "the cluster or the pool's quota is full: add space (`ceph df`), then try again";
/// Advice for a snapshot that should be written.
const SNAPSHOT: &str =
    "a snapshot can only be read: write to the image, or to a clone of the snapshot (`rbd clone`)";
/// Advice for other errors of the cluster.
const SEE_CLUSTER: &str = "the cluster says so: see `ceph -s` and the logs of its daemons";

/// Returns the error for a connection that could not be made.
pub(super) fn of_connecting(place: &str, error: ConnectError) -> BackendError {
    let of = |error: io::Error| BackendError::new(Operation::Open, place, error);
    match error {
        // This has its own advice.
        ConnectError::Library(missing) => of(io::Error::other(missing)),
        ConnectError::Configuration(error) => {
            let text = format!("Ceph's configuration cannot be used: {error}");
            of(io::Error::new(io::ErrorKind::InvalidInput, text)).with_hint(CONFIGURATION)
        }
        ConnectError::Cluster(error) => {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => NO_MONITOR,
                io::ErrorKind::PermissionDenied => FORBIDDEN,
                _ => UNREACHABLE,
            };
            let text = format!("its cluster cannot be reached: {error}");
            of(io::Error::new(error.kind(), text)).with_hint(advice)
        }
    }
}

/// Returns the error of an operation on an image.
pub(super) fn of_image(operation: Operation, place: &str, error: io::Error) -> BackendError {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    let advice = match number {
        Some(Errno::SHUTDOWN) => Some(BLOCKED),
        Some(Errno::ROFS) => Some(NOT_OWNER),
        Some(Errno::NOSPC | Errno::DQUOT) => Some(FULL),
        Some(Errno::PERM | Errno::ACCESS) => Some(FORBIDDEN),
        Some(Errno::TIMEDOUT) => Some(UNREACHABLE),
        // A flush has advice of its own.
        Some(_) if operation != Operation::Flush => Some(SEE_CLUSTER),
        _ => None,
    };
    let error = BackendError::new(operation, place, error);
    match advice {
        Some(advice) => error.with_hint(advice),
        None => error,
    }
}

/// Returns the error for a change of an image that is open for reading.
pub(super) fn of_read_only(operation: Operation, place: &str, is_snapshot: bool) -> BackendError {
    let error = BackendError::new(operation, place, Errno::ROFS);
    match is_snapshot {
        true => error.with_hint(SNAPSHOT),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do_next() {
        for (operation, number, advice) in [
            (Operation::Flush, 108, "EBLOCKLISTED"),
            (Operation::Flush, 5, "check the filesystem"),
            (Operation::Read { offset: 0, len: 1 }, 5, "ceph -s"),
            (Operation::Write { offset: 0, len: 1 }, 30, "close it there"),
            (Operation::Write { offset: 0, len: 1 }, 28, "ceph df"),
            (Operation::Open, 1, "ceph auth get"),
        ] {
            let error = io::Error::from_raw_os_error(number);
            let text = of_image(operation, "rbd:p/i", error).to_string();
            assert!(text.contains("rbd:p/i") && text.contains(advice), "{text}");
        }
        let unreachable = ConnectError::Cluster(io::Error::from_raw_os_error(110));
        let text = of_connecting("rbd:p/i", unreachable).to_string();
        assert!(
            text.contains("(os error 110)") && text.contains("monitors run"),
            "{text}"
        );
        let snapshot = of_read_only(Operation::Open, "rbd:p/i@s", true);
        assert!(snapshot.forbids_writing());
        assert!(snapshot.to_string().contains("rbd clone"), "{snapshot}");
    }
}
