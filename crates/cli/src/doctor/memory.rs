//! Examination of memory: whether keys and plaintext stay in it, and whether there is enough of it.

use std::fs;

use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};
use scrim_figures::Size;
use scrim_sys::memory::{Locking, SecretBytes, locking};

use super::finding::{Finding, read};

/// Enough for keys, and for the buffers of one client of io_uring or many others
/// (docs/production.md#limits), in bytes.
const ENOUGH_LOCKED: u64 = 8 << 20;

/// Most memory that cryptsetup gives Argon2 by default, in bytes.
const ARGON2: u64 = 1 << 30;

/// Most layers to look through below a device-mapper device for the one that encrypts.
const LAYERS: u32 = 8;

pub(super) fn findings() -> Vec<Finding> {
    vec![
        locked(keys_can_be_locked(), getrlimit(Resource::Memlock).current),
        dumps(),
        swap(read("/proc/swaps").as_deref(), &is_encrypted),
        huge_pages(read("/sys/kernel/mm/transparent_hugepage/enabled").as_deref()),
        free(read("/proc/meminfo").as_deref()),
    ]
}

fn keys_can_be_locked() -> bool {
    drop(SecretBytes::zeroed(1));
    locking() == Locking::Complete
}

fn locked(keys: bool, limit: Option<u64>) -> Finding {
    const NAME: &str = "locked memory";
    const REMEDY: &str = "`ulimit -l 65536`; for a service `LimitMEMLOCK=64M`, for a container \
        `--ulimit memlock=67108864`; for a user `NAME - memlock 65536` in /etc/security/limits.conf";
    let may = match limit {
        None => "without limit".to_owned(),
        Some(limit) => format!("up to {}", Size::of_bytes(limit)),
    };
    if !keys {
        let cost = "keys may reach swap; `scrim open` warns, and works";
        return Finding::missing(NAME, format!("no room for a key, {may}"), cost, REMEDY);
    }
    if limit.is_some_and(|limit| limit < ENOUGH_LOCKED) {
        let cost = "keys are locked, but plaintext on its way may reach swap, and io_uring maps its \
            buffers anew for every request";
        return Finding::missing(NAME, may, cost, REMEDY);
    }
    Finding::found(NAME, may)
}

/// Examines core dumps, which every command of Scrim switches off for itself before it reads a key.
fn dumps() -> Finding {
    const NAME: &str = "core dumps";
    let undumpable = dumpable_behavior().is_ok_and(|is| is == DumpableBehavior::NotDumpable);
    if undumpable && getrlimit(Resource::Core).current == Some(0) {
        return Finding::found(NAME, "off for Scrim, and no other process can trace it");
    }
    Finding::missing(
        NAME,
        "the system does not let Scrim switch them off",
        "after a crash keys may be in a file",
        "`ulimit -c 0`",
    )
}

/// `swaps` is `/proc/swaps`; `is_encrypted` knows about block devices by their paths.
fn swap(swaps: Option<&str>, is_encrypted: &dyn Fn(&str) -> bool) -> Finding {
    const NAME: &str = "swap";
    let Some(swaps) = swaps else {
        return Finding::unknown(NAME, "/proc/swaps cannot be read");
    };
    let areas = areas(swaps);
    let plain = in_the_clear(&areas, is_encrypted);
    if areas.is_empty() {
        return Finding::found(NAME, "none, so that nothing can reach it");
    }
    if plain.is_empty() {
        let paths: Vec<_> = areas.iter().map(|(path, _)| *path).collect();
        return Finding::found(
            NAME,
            format!("{}: encrypted or in memory", paths.join(", ")),
        );
    }
    Finding::missing(
        NAME,
        plain.join(", "),
        "what is not locked can be written there: the memory of Argon2, plaintext beyond the limit, and \
         the memory of those who read it",
        "`sudo swapoff -a`, or swap that has a new key at each boot, in /etc/crypttab: \
         `swap DEVICE /dev/urandom swap,cipher=aes-xts-plain64,size=512`",
    )
}

/// Paths and types of the areas in `/proc/swaps`.
fn areas(swaps: &str) -> Vec<(&str, &str)> {
    // A line a file or device: path, type, size …, below a heading.
    let areas = swaps.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        Some((words.next()?, words.next()?))
    });
    areas.collect()
}

/// The areas that are neither in memory nor on a device that encrypts, each in words.
fn in_the_clear(areas: &[(&str, &str)], is_encrypted: &dyn Fn(&str) -> bool) -> Vec<String> {
    areas
        .iter()
        .filter(|(path, _)| !path.starts_with("/dev/zram") && !is_encrypted(path))
        .map(|(path, kind)| match *kind {
            "file" => format!("{path} (encrypted only if its file system is)"),
            _ => format!("{path} (not encrypted)"),
        })
        .collect()
}

/// The swap areas where plaintext in memory could be written to a disk, in words.
pub(crate) fn plain_swap() -> Vec<String> {
    let swaps = read("/proc/swaps").unwrap_or_default();
    in_the_clear(&areas(&swaps), &is_encrypted)
}

/// Returns whether a block device is dm-crypt's, or lies on one that is.
fn is_encrypted(path: &str) -> bool {
    let Ok(real) = fs::canonicalize(path) else {
        return false;
    };
    let name = real.file_name().unwrap_or_default();
    below_is_encrypted(&name.to_string_lossy(), LAYERS)
}

fn below_is_encrypted(name: &str, layers: u32) -> bool {
    let folder = format!("/sys/class/block/{name}");
    let uuid = read(&format!("{folder}/dm/uuid")).unwrap_or_default();
    if uuid.starts_with("CRYPT-") {
        return true;
    }
    let Ok(below) = fs::read_dir(format!("{folder}/slaves")) else {
        return false;
    };
    let mut below = below.flatten().peekable();
    // All of them: one half of a stripe in the clear is enough to read.
    layers > 0
        && below.peek().is_some()
        && below.all(|entry| below_is_encrypted(&entry.file_name().to_string_lossy(), layers - 1))
}

/// `enabled` is the kernel's list of choices with the one that counts in brackets.
fn huge_pages(enabled: Option<&str>) -> Finding {
    const NAME: &str = "huge pages";
    const COST: &str =
        "opening a volume takes longer: Argon2 waits for page faults and address translation";
    let chosen = enabled.and_then(|text| text.split_once('[')?.1.split_once(']'));
    match chosen.map(|(chosen, _)| chosen) {
        Some("never") => Finding::missing(
            NAME,
            "never",
            COST,
            "`echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`",
        ),
        Some("madvise") => Finding::found(NAME, "madvise: for those who ask, as Scrim does"),
        Some(chosen) => Finding::found(NAME, chosen),
        None => Finding::missing(
            NAME,
            "the kernel has none, or does not show /sys/kernel/mm",
            COST,
            "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        ),
    }
}

/// Reads the available memory, in bytes, from `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Memory that this process may take, in bytes: what the machine has, within the limit of the control group, if any.
pub(crate) fn available_to_this_process() -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| available(&text));
    let number = |path: String| read(&path)?.trim().parse::<u64>().ok();
    // "0::/path", from the top of what this process sees. A group above may have a limit, too.
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let mut lines = groups.lines();
    let group = lines.find_map(|line| line.strip_prefix("0::"));
    let folders = std::path::Path::new(group.unwrap_or("/")).ancestors();
    let limits = folders.filter_map(|folder| {
        let folder = format!("/sys/fs/cgroup{}", folder.display());
        let limit = number(format!("{folder}/memory.max"))?;
        let used = number(format!("{folder}/memory.current"))?;
        let stat = read(&format!("{folder}/memory.stat")).unwrap_or_default();
        let mut lines = stat.lines();
        let cache = lines.find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
        Some(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0))))
    });
    machine.into_iter().chain(limits).min()
}

/// Checks whether the usual key slot can be opened. `meminfo` is `/proc/meminfo`.
fn free(meminfo: Option<&str>) -> Finding {
    const NAME: &str = "free memory";
    let Some(available) = meminfo.and_then(available) else {
        return Finding::unknown(NAME, "/proc/meminfo does not say");
    };
    if available >= ARGON2 {
        return Finding::found(NAME, Size::of_bytes(available).to_string());
    }
    Finding::missing(
        NAME,
        Size::of_bytes(available).to_string(),
        "a key slot whose Argon2 takes 1 GiB, cryptsetup's default, cannot be opened here",
        "where there is more, `scrim convert-key --pbkdf-memory 262144 IMAGE` makes do with 256 MiB",
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn little_locked_memory_is_missing() {
        assert_eq!(locked(true, None).state, State::Found);
        assert_eq!(locked(true, Some(8 << 20)).state, State::Found);
        let little = locked(true, Some(64 << 10));
        assert_eq!(little.state, State::Missing);
        assert_eq!(little.found, "up to 64 KiB");
        let nothing = locked(false, Some(0));
        assert!(nothing.cost.unwrap().starts_with("keys may reach swap"));
    }

    #[test]
    fn swap_in_the_clear_is_missing() {
        const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let state = |areas: &str| {
            let text = format!("{HEADING}{areas}");
            swap(Some(&text), &|path| path == "/dev/dm-1")
        };
        assert_eq!(state("").state, State::Found);
        assert_eq!(state("/dev/zram0 partition 4 0 100\n").state, State::Found);
        assert_eq!(state("/dev/dm-1 partition 4 0 -2\n").state, State::Found);
        let two =
            state("/dev/dm-1 partition 4 0 -2\n/dev/sda2 partition 4 0 -3\n/swap file 4 0 -4\n");
        assert_eq!(two.state, State::Missing);
        assert!(
            two.found.contains("/dev/sda2 (not encrypted), /swap ("),
            "{}",
            two.found
        );
        assert_eq!(swap(None, &|_| false).state, State::Unknown);
    }

    #[test]
    fn a_device_that_is_not_there_encrypts_nothing() {
        assert!(!is_encrypted("/dev/no-such-device"));
        assert!(!below_is_encrypted("no-such-device", LAYERS));
    }

    #[test]
    fn the_chosen_word_is_in_brackets() {
        assert_eq!(
            huge_pages(Some("always madvise [never]")).state,
            State::Missing
        );
        assert_eq!(huge_pages(Some("[always] madvise never")).found, "always");
        assert_eq!(
            huge_pages(Some("always [madvise] never")).state,
            State::Found
        );
        assert_eq!(huge_pages(Some("nonsense")).state, State::Missing);
        assert_eq!(huge_pages(None).state, State::Missing);
    }

    #[test]
    fn memory_for_argon2() {
        let text = |kib: u64| format!("MemTotal: 9 kB\nMemAvailable:   {kib} kB\n");
        assert_eq!(free(Some(&text(1 << 20))).state, State::Found);
        assert_eq!(free(Some(&text(1 << 19))).state, State::Missing);
        assert_eq!(free(Some("MemTotal: 9 kB\n")).state, State::Unknown);
        assert_eq!(free(Some("MemAvailable: x kB\n")).state, State::Unknown);
    }
}
