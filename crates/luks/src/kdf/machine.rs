//! Memory and processors that this machine has for a key derivation.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::thread;

/// Memory and processors that a key derivation may use.
///
/// Reading them is the only input this crate does by itself: a few small files of `/proc` and
/// `/sys/fs/cgroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineLimits {
    /// All memory that this process could ever have, in KiB: the machine's, or less where a control
    /// group says so. [`u64::MAX`] where that is not known.
    pub memory_kib: u64,
    /// Part of that memory which can be had at the moment, in KiB: what is free, what caches would give back,
    /// and swap (but no swap inside a control group with a limit). [`u64::MAX`] where that is not
    /// known.
    pub available_kib: u64,
    /// Processors that this process may run on.
    pub cpus: usize,
}

impl MachineLimits {
    /// Reads the limits of this machine as they are at the moment.
    #[must_use]
    pub fn read() -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        Self::read_below(Path::new("/"), cpus)
    }

    /// Most memory that a new header should ask for, in KiB: cryptsetup's default of 1 GiB, but no
    /// more than half of what there is, and no more than can be had at the moment.
    #[must_use]
    pub fn argon2_memory_kib(&self) -> u32 {
        const DEFAULT: u32 = 1 << 20;
        let kib = (self.memory_kib / 2).min(self.available_kib);
        u32::try_from(kib).map_or(DEFAULT, |kib| kib.min(DEFAULT))
    }

    /// Lanes that a new header should ask for: one for each processor, and 4 at most, as cryptsetup
    /// does.
    #[must_use]
    pub fn argon2_lanes(&self) -> u32 {
        u32::try_from(self.cpus).map_or(4, |cpus| cpus.clamp(1, 4))
    }

    /// Reads `proc` and `sys` below `root`.
    fn read_below(root: &Path, cpus: usize) -> Self {
        let mut limits = Self {
            memory_kib: u64::MAX,
            available_kib: u64::MAX,
            cpus,
        };
        if let Some((total, available)) = machine_memory(root) {
            limits.memory_kib = total;
            limits.available_kib = available;
        }
        for group in control_groups(root) {
            if let Some((limit, free)) = group.memory() {
                limits.memory_kib = limits.memory_kib.min(limit);
                limits.available_kib = limits.available_kib.min(free);
            }
        }
        limits
    }
}

/// The machine's memory and what is available of it, with swap, in KiB.
fn machine_memory(root: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kib = |key: &str| number_after(&text, key);
    let available = kib("MemAvailable:")?;
    let swap = kib("SwapFree:").unwrap_or(0);
    Some((kib("MemTotal:")?, available.saturating_add(swap)))
}

/// A control group that may limit this process's memory.
struct ControlGroup {
    directory: PathBuf,
    files: &'static Files,
}

/// Names of the files of a control group, and of the keys in its `memory.stat`.
struct Files {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    caches: [&'static str; 2],
}

/// Version 2 (`Documentation/admin-guide/cgroup-v2.rst` of the kernel).
const UNIFIED: Files = Files {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    caches: ["active_file", "inactive_file"],
};

/// Version 1, by `Documentation/admin-guide/cgroup-v1/memory.rst` of Linux.
const LEGACY: Files = Files {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    caches: ["total_active_file", "total_inactive_file"],
};

/// The control groups of this process and all groups that contain them. A limit may be on any of them.
fn control_groups(root: &Path) -> Vec<ControlGroup> {
    let memberships = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in memberships.lines() {
        // hierarchy:controllers:path
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let files = match controllers {
            "" => &UNIFIED,
            some if some.split(',').any(|name| name == "memory") => &LEGACY,
            _ => continue,
        };
        let mount = root.join(files.mount);
        // A group outside this process's namespace shows as "/..": what is mounted is what counts.
        let below = Path::new(path).components();
        let below = below.filter(|part| matches!(part, Component::Normal(_)));
        let innermost = mount.join(below.collect::<PathBuf>());
        let directories = innermost
            .ancestors()
            .take_while(|dir| dir.starts_with(&mount));
        groups.extend(directories.map(|directory| ControlGroup {
            directory: directory.to_owned(),
            files,
        }));
    }
    groups
}

impl ControlGroup {
    /// Its limit, and what is left of that when caches are given back, in KiB; `None` where it has
    /// no limit, or does not exist.
    fn memory(&self) -> Option<(u64, u64)> {
        let number = |name| self.read(name)?.trim().parse::<u64>().ok();
        let limit = number(self.files.limit)?;
        let usage = number(self.files.usage)?;
        let stat = self.read("memory.stat")?;
        let caches = self.files.caches.map(|key| number_after(&stat, key));
        let caches = caches.into_iter().flatten().fold(0, u64::saturating_add);
        let free = limit.saturating_sub(usage.saturating_sub(caches));
        Some((limit / 1024, free / 1024))
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(name)).ok()
    }
}

/// The number after `key`, which is the first word of a line.
fn number_after(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some(key) {
            return None;
        }
        words.next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:        4000000 kB\nMemFree:          100000 kB\n\
        MemAvailable:    3000000 kB\nSwapFree:          50000 kB\n";

    /// Reads the limits below a root directory with these files.
    fn read(files: &[(&str, &str)]) -> MachineLimits {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        MachineLimits::read_below(root.path(), 8)
    }

    fn limits(memory_kib: u64, available_kib: u64) -> MachineLimits {
        MachineLimits {
            memory_kib,
            available_kib,
            cpus: 8,
        }
    }

    #[test]
    fn the_machine_itself() {
        assert_eq!(
            read(&[("proc/meminfo", MEMINFO)]),
            limits(4_000_000, 3_050_000)
        );
        assert_eq!(read(&[]), limits(u64::MAX, u64::MAX));
        let here = MachineLimits::read();
        assert!(here.memory_kib > 0 && here.cpus > 0);
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let files = [
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "1048576000\n"),
            ("sys/fs/cgroup/outer/memory.current", "548576000\n"),
            (
                "sys/fs/cgroup/outer/memory.stat",
                "anon 5\nactive_file 512000\ninactive_file 512000\n",
            ),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "548576000\n"),
            ("sys/fs/cgroup/outer/inner/memory.stat", ""),
        ];
        assert_eq!(read(&files), limits(1_024_000, 489_281));
    }

    #[test]
    fn version_1_of_control_groups() {
        let files = [
            ("proc/meminfo", MEMINFO),
            (
                "proc/self/cgroup",
                "5:cpu,memory:/../me\n0::/\n9:pids:/\nnonsense\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n"),
            ("sys/fs/cgroup/memory/memory.stat", "total_active_file 0\n"),
            (
                "sys/fs/cgroup/memory/me/memory.limit_in_bytes",
                "104857600\n",
            ),
            (
                "sys/fs/cgroup/memory/me/memory.usage_in_bytes",
                "104857601\n",
            ),
            (
                "sys/fs/cgroup/memory/me/memory.stat",
                "active_file 77\ntotal_inactive_file 1024\n",
            ),
        ];
        assert_eq!(read(&files), limits(102_400, 0));
    }

    #[test]
    fn defaults_for_a_new_header_leave_half_of_the_memory() {
        let memory = |memory, available| limits(memory, available).argon2_memory_kib();
        assert_eq!(memory(16 << 20, 8 << 20), 1 << 20);
        assert_eq!(memory(1 << 20, 900_000), 1 << 19);
        assert_eq!(memory(1 << 20, 100_000), 100_000);
        assert_eq!(memory(u64::MAX, u64::MAX), 1 << 20);
        let lanes = |cpus| {
            MachineLimits {
                cpus,
                ..limits(1, 1)
            }
            .argon2_lanes()
        };
        assert_eq!([0, 1, 3, 64, usize::MAX].map(lanes), [1, 1, 3, 4, 4]);
    }
}
