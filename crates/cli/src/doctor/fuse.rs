//! Examination of what `scrim mount` needs: the FUSE device, the rights of users, and the programs that mount.

use std::fs::{File, Metadata, OpenOptions, metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::geteuid;
use scrim_sys::program::find;

use super::finding::{Finding, read};
use crate::mount::{PROGRAMS, Program};

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
const CONFIGURATION: &str = "/etc/fuse.conf";

/// The bits of a mode that let a program run with its owner's rights.
const SET_USER_ID: u32 = 0o4000;

/// The capability to change mounts, in the kernel's number of capabilities.
const SYS_ADMIN: u32 = 21;

pub(super) fn findings() -> Vec<Finding> {
    let helper = find(HELPER).and_then(|path| metadata(path).ok());
    let may_mount = geteuid().is_root() && has_sys_admin(&status());
    let mut findings = vec![
        device(
            &OpenOptions::new().read(true).write(true).open(DEVICE),
            may_mount,
            helper.is_some(),
        ),
        mounting(may_mount, helper.as_ref()),
        other_users(geteuid().is_root(), read(CONFIGURATION).as_deref()),
        namespaces(
            read("/proc/sys/user/max_user_namespaces").as_deref(),
            read("/proc/sys/kernel/unprivileged_userns_clone").as_deref(),
            read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref(),
        ),
    ];
    findings.extend(PROGRAMS.map(|program| driver(program, find(program.command).is_some())));
    findings
}

fn status() -> String {
    read("/proc/self/status").unwrap_or_default()
}

/// Returns whether the process may mount. `status` is `/proc/self/status`.
fn has_sys_admin(status: &str) -> bool {
    let mut lines = status.lines();
    let effective = lines.find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> SYS_ADMIN & 1 == 1)
}

/// `may_mount` and `has_helper` say who opens the device: this process, or fusermount3 as root.
fn device(opened: &io::Result<File>, may_mount: bool, has_helper: bool) -> Finding {
    const NAME: &str = "fuse device";
    match opened {
        Ok(_) => Finding::found(NAME, format!("{DEVICE}, which this user may open")),
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && !may_mount && has_helper =>
        {
            Finding::found(
                NAME,
                format!("{DEVICE}, which {HELPER} opens for this user"),
            )
        }
        Err(error) => Finding::missing(
            NAME,
            format!("{DEVICE} cannot be opened: {error}"),
            "`scrim mount` does not work; `scrim ls`, `cat`, `cp` and `serve` read files of ext2, ext3 and ext4 \
             without it",
            "`sudo modprobe fuse`; for a container `--device /dev/fuse`",
        ),
    }
}

fn mounting(may_mount: bool, helper: Option<&Metadata>) -> Finding {
    const NAME: &str = "fuse mounts";
    const COST: &str =
        "users without root cannot mount, except within a user namespace of their own";
    match helper {
        _ if may_mount => Finding::found(NAME, "allowed: this process may mount"),
        Some(helper) if helper.uid() == 0 && helper.mode() & SET_USER_ID != 0 => {
            Finding::found(NAME, format!("by {HELPER}, which runs with root's rights"))
        }
        Some(_) => Finding::missing(
            NAME,
            format!("{HELPER} is there without root's rights (set-user-id bit)"),
            COST,
            format!("`sudo chmod u+s $(command -v {HELPER})`"),
        ),
        None => Finding::missing(
            NAME,
            format!("{HELPER} is not installed"),
            COST,
            "`sudo apt install fuse3`, or your system's package fuse3",
        ),
    }
}

/// `configuration` is `/etc/fuse.conf`, if it can be read.
fn other_users(is_root: bool, configuration: Option<&str>) -> Finding {
    const NAME: &str = "allow_other";
    let mut lines = configuration.unwrap_or_default().lines();
    if is_root || lines.any(|line| line.trim() == "user_allow_other") {
        return Finding::found(NAME, "allowed");
    }
    Finding::missing(
        NAME,
        format!("{CONFIGURATION} does not allow it to users"),
        "without root no `scrim mount --allow-other`, and no mounts of NTFS and exFAT, whose programs run as \
         another user",
        format!("`echo user_allow_other | sudo tee -a {CONFIGURATION}`"),
    )
}

/// The arguments are the sysctls of these names, of which the last two exist on some distributions only.
fn namespaces(max: Option<&str>, clone: Option<&str>, restricted: Option<&str>) -> Finding {
    const NAME: &str = "user namespaces";
    let (found, remedy) = match (max, clone, restricted) {
        (None, ..) => return Finding::unknown(NAME, "the kernel does not say"),
        (Some("0"), ..) => (
            "forbidden by user.max_user_namespaces = 0",
            "`sudo sysctl user.max_user_namespaces=10000`",
        ),
        (_, Some("0"), _) => (
            "forbidden to users by kernel.unprivileged_userns_clone = 0",
            "`sudo sysctl kernel.unprivileged_userns_clone=1`",
        ),
        (.., Some("1")) => (
            "without rights, by kernel.apparmor_restrict_unprivileged_userns = 1",
            "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
        ),
        _ => return Finding::found(NAME, "allowed"),
    };
    Finding::missing(
        NAME,
        found,
        format!(
            "users mount by {HELPER} only, not by `unshare -rm`, as where programs with root's rights are removed"
        ),
        remedy,
    )
}

fn driver(program: &'static Program, there: bool) -> Finding {
    if there {
        return Finding::found(program.package, "there");
    }
    Finding::missing(
        program.package,
        "not installed",
        program.cost,
        format!(
            "`sudo apt install {0}`, or your system's package {0}",
            program.package
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn who_opens_the_device_matters() {
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(device(&denied(), false, true).state, State::Found);
        assert_eq!(device(&denied(), false, false).state, State::Missing);
        assert_eq!(device(&denied(), true, true).state, State::Missing);
        let absent = Err(io::ErrorKind::NotFound.into());
        assert_eq!(device(&absent, false, true).state, State::Missing);
    }

    #[test]
    fn a_helper_needs_rights() {
        assert_eq!(mounting(true, None).state, State::Found);
        assert!(mounting(false, None).remedy.unwrap().contains("fuse3"));
        // A program without the bit.
        let program = metadata(std::env::current_exe().unwrap()).unwrap();
        assert!(
            mounting(false, Some(&program))
                .remedy
                .unwrap()
                .contains("u+s")
        );
    }

    #[test]
    fn rights_are_read() {
        assert!(has_sys_admin("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_sys_admin("CapEff:\t00000000a80425fb\n"));
        assert!(!has_sys_admin(""));
        assert_eq!(
            other_users(false, Some("#user_allow_other\n")).state,
            State::Missing
        );
        assert_eq!(
            other_users(false, Some("user_allow_other\n")).state,
            State::Found
        );
        assert_eq!(other_users(true, None).state, State::Found);
    }

    #[test]
    fn who_forbids_namespaces_is_named() {
        let state = |max, clone, restricted| namespaces(max, clone, restricted).state;
        assert_eq!(state(None, None, None), State::Unknown);
        assert_eq!(state(Some("63000"), Some("1"), Some("0")), State::Found);
        assert_eq!(state(Some("63000"), None, None), State::Found);
        assert_eq!(state(Some("0"), None, None), State::Missing);
        assert_eq!(state(Some("9"), Some("0"), None), State::Missing);
        assert_eq!(state(Some("9"), None, Some("1")), State::Missing);
    }
}
