//! Arguments of `mount.scrim`, by which `mount(8)` and `/etc/fstab` mount volumes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Name by which `mount(8)` starts this program for the file system type `scrim`.
const HELPER: &str = "mount.scrim";

/// Options that `mount(8)` and systemd handle, or that every mount of Scrim's has.
const HANDLED: [&str; 16] = [
    "defaults", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev",
    "rw", "nosuid", "nodev", "async", "exec", "loud",
];

/// Arguments of this program for those of a program that was started.
///
/// `mount.scrim SPEC DIR [-sfnv] [-N NAMESPACE] [-o OPTION,…] [-t TYPE]` becomes `scrim mount SPEC DIR --OPTION…`.
/// `None` means that nothing is to be done: `mount --fake`.
pub(super) fn arguments(given: Vec<OsString>) -> Option<Vec<OsString>> {
    let started_as = given.first().and_then(|name| Path::new(name).file_name());
    if started_as != Some(OsStr::new(HELPER)) {
        return Some(given);
    }
    let mut arguments: Vec<OsString> = vec!["scrim".into(), "mount".into()];
    let mut rest = given.into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            b"-o" => arguments.extend(rest.next().iter().flat_map(|list| options(list))),
            b"-N" | b"-t" => drop(rest.next()),
            [b'-', flags @ ..]
                if !flags.is_empty() && flags.iter().all(|flag| b"sfnv".contains(flag)) =>
            {
                if flags.contains(&b'f') {
                    return None;
                }
            }
            _ => arguments.push(word),
        }
    }
    Some(arguments)
}

/// Options of `scrim mount` for a list of mount options.
fn options(list: &OsStr) -> Vec<OsString> {
    let words = list.as_bytes().split(|&byte| byte == b',');
    words.filter_map(option).collect()
}

fn option(word: &[u8]) -> Option<OsString> {
    let is_handled = HANDLED.iter().any(|handled| handled.as_bytes() == word);
    if word.is_empty() || is_handled || word.starts_with(b"x-") || word.starts_with(b"X-") {
        return None;
    }
    let option = match word {
        b"ro" => b"--readonly".to_vec(),
        b"allow_other" => b"--allow-other".to_vec(),
        _ => [b"--", word].concat(),
    };
    Some(OsString::from_vec(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(line: &str) -> Option<String> {
        let words = arguments(line.split(' ').map(OsString::from).collect())?;
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        Some(words.join(" "))
    }

    #[test]
    fn what_mount_passes_becomes_a_command() {
        let given = "/sbin/mount.scrim /srv/disk.img /mnt -n -o rw,noauto,x-systemd.automount,key-file=/k,ro,allow_other";
        let command = "scrim mount /srv/disk.img /mnt --key-file=/k --readonly --allow-other";
        assert_eq!(converted(given).as_deref(), Some(command));
        assert_eq!(converted("mount.scrim a b -f"), None);
        assert_eq!(
            converted("mount.scrim a b -sv -t scrim -N 3").as_deref(),
            Some("scrim mount a b")
        );
        assert_eq!(
            converted("mount.scrim a b -o").as_deref(),
            Some("scrim mount a b")
        );
    }

    #[test]
    fn other_names_have_their_own_arguments() {
        for line in ["scrim open -f", "/usr/bin/scrim mount a b -o x", ""] {
            assert_eq!(converted(line).as_deref(), Some(line));
        }
    }
}
