//! Interference: the load of the machine by others while a study measured.

use std::fs;
use std::path::{Path, PathBuf};

/// A part of the processor time above which another guest's share is a warning.
const STEAL: f64 = 0.01;
/// A load average per processor above which the machine was not idle at the start.
const BUSY: f64 = 0.25;

/// The counters at the start of a study.
pub(crate) struct Interference(Counters);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    ticks: Option<Ticks>,
    /// Times that a core slowed down because it was hot, over all cores.
    thermal: u64,
    /// Periods in which the control group had used up its quota.
    quota: u64,
}

/// Processor time in clock ticks, over all processors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Interference {
    /// Reads the counters, and warns when the machine is busy already.
    pub(crate) fn start(warnings: &mut Vec<String>) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        warnings.extend(busy_at_the_start(&load, processors));
        Self(Counters::read())
    }

    /// Reads the counters again and says what they counted.
    pub(crate) fn end(&self, warnings: &mut Vec<String>) {
        warnings.extend(self.0.compare(&Counters::read()));
    }
}

impl Counters {
    fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let quota = fs::read_to_string(control_group().join("cpu.stat")).unwrap_or_default();
        Self {
            ticks: parse_ticks(&stat),
            thermal: thermal_events(),
            quota: parse_throttled(&quota),
        }
    }

    fn compare(&self, later: &Self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let (Some(before), Some(after)) = (self.ticks, later.ticks) {
            let all = after.all.saturating_sub(before.all);
            let stolen = after.stolen.saturating_sub(before.stolen);
            let part = stolen as f64 / all.max(1) as f64;
            if part > STEAL {
                warnings.push(format!(
                    "steal: {:.1} % of the processor time went to other guests of this host",
                    part * 100.0
                ));
            }
        }
        let thermal = later.thermal.saturating_sub(self.thermal);
        if thermal > 0 {
            warnings.push(format!(
                "throttling: cores slowed down {thermal} times because they were hot"
            ));
        }
        let quota = later.quota.saturating_sub(self.quota);
        if quota > 0 {
            warnings.push(format!(
                "throttling: the control group's processor quota was used up in {quota} periods"
            ));
        }
        warnings
    }
}

/// `proc_loadavg(5)`: the first number is the average over one minute.
fn busy_at_the_start(loadavg: &str, processors: usize) -> Option<String> {
    let load: f64 = loadavg.split_ascii_whitespace().next()?.parse().ok()?;
    (load > BUSY * processors as f64).then(|| {
        format!("busy: the load average was {load} on {processors} processors at the start")
    })
}

/// The first line of `proc_stat(5)`: user, nice, system, idle, iowait, irq, softirq, steal, and guest
/// times that user and nice contain already.
fn parse_ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .take(8)
        .map_while(|field| field.parse().ok())
        .collect();
    Some(Ticks {
        all: fields.iter().sum(),
        stolen: *fields.get(7)?,
    })
}

/// `nr_throttled` of a version 2 control group's `cpu.stat`; zero where there is no quota.
fn parse_throttled(cpu_stat: &str) -> u64 {
    cpu_stat
        .lines()
        .find_map(|line| line.strip_prefix("nr_throttled ")?.parse().ok())
        .unwrap_or(0)
}

/// Our own version 2 control group.
fn control_group() -> PathBuf {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Path::new("/sys/fs/cgroup").join(path.unwrap_or_default())
}

fn thermal_events() -> u64 {
    let Ok(processors) = fs::read_dir("/sys/devices/system/cpu") else {
        return 0;
    };
    processors
        .flatten()
        .filter_map(|entry| {
            let count = entry.path().join("thermal_throttle/core_throttle_count");
            fs::read_to_string(count).ok()?.trim().parse::<u64>().ok()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(all: u64, stolen: u64, thermal: u64, quota: u64) -> Counters {
        Counters {
            ticks: Some(Ticks { all, stolen }),
            thermal,
            quota,
        }
    }

    #[test]
    fn steal_is_the_eighth_field() {
        let stat = "cpu  6327 0 1601 257036 600 0 76 239 5 6\ncpu0 1 2 3\n";
        let ticks = Ticks {
            all: 265_879,
            stolen: 239,
        };
        assert_eq!(parse_ticks(stat), Some(ticks));
        assert_eq!(parse_ticks("cpu  1 2 3\n"), None);
        assert_eq!(parse_ticks(""), None);
    }

    #[test]
    fn each_interference_is_named() {
        let before = counters(1000, 10, 3, 7);
        assert!(before.compare(&counters(2000, 20, 3, 7)).is_empty());
        let warnings = before.compare(&counters(2000, 60, 5, 11));
        assert_eq!(warnings.len(), 3);
        assert!(warnings[0].starts_with("steal: 5.0 %"), "{warnings:?}");
        assert!(warnings[1].contains("2 times"), "{warnings:?}");
        assert!(warnings[2].contains("4 periods"), "{warnings:?}");
    }

    #[test]
    fn counters_that_start_again_are_no_warning() {
        assert!(
            counters(9000, 900, 9, 9)
                .compare(&counters(5, 0, 0, 0))
                .is_empty()
        );
        assert!(
            Counters::default()
                .compare(&counters(9, 9, 0, 0))
                .is_empty()
        );
    }

    #[test]
    fn quota_and_load_are_read() {
        assert_eq!(
            parse_throttled("usage_usec 5\nnr_periods 4\nnr_throttled 3\n"),
            3
        );
        assert_eq!(parse_throttled("usage_usec 5\n"), 0);
        assert_eq!(busy_at_the_start("0.49 0.1 0.1 1/100 7\n", 2), None);
        assert!(busy_at_the_start("0.51 0.1 0.1 1/100 7\n", 2).is_some());
        assert_eq!(busy_at_the_start("", 2), None);
    }
}
