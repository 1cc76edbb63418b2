//! Examination of the kernel features that Scrim uses: io_uring, `openat2` and the NBD client.

use std::io;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use scrim_sys::ring::Ring;

use super::finding::{Finding, read};

/// Advice where a filter of system calls refuses io_uring.
const FILTER: &str = "a filter that lets io_uring_setup, io_uring_enter and io_uring_register pass \
    (Docker, Podman: `--security-opt seccomp=FILE`)";

pub(super) fn findings() -> Vec<Finding> {
    vec![
        io_uring(
            Ring::new(1, 4096, &[]).map(drop),
            read("/proc/sys/kernel/io_uring_disabled").as_deref(),
            is_filtered(&read("/proc/self/status").unwrap_or_default()),
        ),
        folders(beneath()),
        nbd(["/sys/module/nbd", "/dev/nbd0"].into_iter().any(is_there)),
    ]
}

fn is_there(path: &str) -> bool {
    std::path::Path::new(path).exists()
}

/// Returns whether a filter decides about system calls. `status` is `/proc/self/status`.
fn is_filtered(status: &str) -> bool {
    let mut lines = status.lines();
    let mode = lines.find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// `switch` is the sysctl, which kernels before 6.6 do not have.
fn io_uring(ring: io::Result<()>, switch: Option<&str>, filtered: bool) -> Finding {
    const NAME: &str = "io_uring";
    let Err(error) = ring else {
        return Finding::found(NAME, "allowed");
    };
    let (found, remedy) = match (error.raw_os_error().map(Errno::from_raw_os_error), switch) {
        (Some(Errno::PERM), Some("2")) => (
            "forbidden to everybody, by kernel.io_uring_disabled = 2".to_owned(),
            "`sudo sysctl kernel.io_uring_disabled=0`",
        ),
        (Some(Errno::PERM), Some("1")) => (
            "forbidden to all but a group, by kernel.io_uring_disabled = 1".to_owned(),
            "join the group that `sysctl kernel.io_uring_group` tells, or \
             `sudo sysctl kernel.io_uring_disabled=0`",
        ),
        (Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS), _) if filtered => (
            "forbidden by a filter of system calls (seccomp), as in containers".to_owned(),
            FILTER,
        ),
        (Some(Errno::NOSYS), _) => (
            "this kernel has none".to_owned(),
            "a kernel of 5.6 or newer with CONFIG_IO_URING",
        ),
        (Some(Errno::NOMEM), _) => (
            "no memory may be locked for it".to_owned(),
            "`ulimit -l 65536`",
        ),
        _ => (format!("refused: {error}"), FILTER),
    };
    Finding::missing(
        NAME,
        found,
        "volumes on devices, or with --direct-io, are served by a thread for each request; image files \
         do without it",
        remedy,
    )
}

/// Tries the call by which a server stays within its folder.
fn beneath() -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::BENEATH).map(drop)
}

fn folders(opened: Result<(), Errno>) -> Finding {
    const NAME: &str = "openat2";
    match opened {
        Ok(()) => Finding::found(NAME, "there"),
        // A filter may say either.
        Err(Errno::NOSYS | Errno::PERM) => Finding::missing(
            NAME,
            "the kernel, or a filter of system calls, has none",
            "`scrim serve` does not start: nothing would keep it within its folders",
            "Linux 5.6 or newer, and a filter of system calls that lets openat2 pass",
        ),
        Err(error) => Finding::unknown(NAME, format!("the folder of this shell: {error}")),
    }
}

fn nbd(there: bool) -> Finding {
    const NAME: &str = "nbd devices";
    if there {
        return Finding::found(NAME, "there, for root: `nbd-client -unix SOCKET /dev/nbd0`");
    }
    Finding::missing(
        NAME,
        "the kernel's module nbd is not loaded",
        "no volume can become a block device and be mounted; QEMU, nbdcopy and all others that speak NBD \
         do without it",
        "`sudo modprobe nbd`",
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn refused(error: Errno, switch: Option<&str>, filtered: bool) -> String {
        let finding = io_uring(Err(error.into()), switch, filtered);
        assert_eq!(finding.state, State::Missing);
        finding.found
    }

    #[test]
    fn who_forbids_io_uring_is_named() {
        assert_eq!(io_uring(Ok(()), Some("1"), true).state, State::Found);
        assert!(refused(Errno::PERM, Some("2"), true).contains("everybody"));
        assert!(refused(Errno::PERM, Some("1"), false).contains("a group"));
        assert!(refused(Errno::PERM, Some("0"), true).contains("seccomp"));
        assert!(refused(Errno::NOSYS, None, true).contains("seccomp"));
        assert!(refused(Errno::NOSYS, None, false).contains("this kernel"));
        assert!(refused(Errno::NOMEM, Some("0"), false).contains("locked"));
        assert!(refused(Errno::INVAL, Some("0"), false).starts_with("refused: "));
    }

    #[test]
    fn a_filter_is_seen() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Name:\tx\nSeccomp:\t0\n"));
        assert!(!is_filtered(""));
    }

    #[test]
    fn without_openat2_nothing_is_served() {
        assert_eq!(folders(Ok(())).state, State::Found);
        assert_eq!(folders(Err(Errno::NOSYS)).state, State::Missing);
        assert_eq!(folders(Err(Errno::NOENT)).state, State::Unknown);
    }
}
