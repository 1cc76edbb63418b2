//! Cost of another process: processor time, wall time, switches it did not ask for.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Processor time, user and system, that process `pid` has used so far with all its threads, also
/// those that have ended. The kernel counts exactly and tells in clock ticks, 10 ms each.
///
/// # Errors
/// When there is no such process, or its `proc_pid_stat(5)` does not have the known form.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = parse_cpu_ticks(&stat).ok_or_else(|| malformed(pid, "stat"))?;
    let nanoseconds = ticks.saturating_mul(1_000_000_000) / clock_ticks_per_second().max(1);
    Ok(Duration::from_nanos(nanoseconds))
}

/// As [`cpu_time`], of a process and those that it has started and not waited for yet: a server with
/// worker processes.
///
/// # Errors
/// As [`cpu_time`]. One that ends meanwhile is left out.
pub fn family_cpu_time(pid: u32) -> io::Result<Duration> {
    let mut sum = cpu_time(pid)?;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let children = children.split_ascii_whitespace();
        for child in children.filter_map(|child| child.parse().ok()) {
            sum += cpu_time(child).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// A command's cost from its start to its end.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Exit status of the command.
    pub status: ExitStatus,
    /// Wall time from before its start until after its end.
    pub wall: Duration,
    /// Processor time, as [`cpu_time`] counts it.
    pub cpu: Duration,
    /// Times that its first thread was taken off a processor although it wanted to go on. The
    /// kernel does not keep this for threads that have ended.
    pub involuntary_switches: u64,
}

impl Finished {
    /// Returns whether the first thread was interrupted so often that it was not alone on its processor:
    /// more than 50 times a second. An idle machine's own threads make a tenth of that.
    #[must_use]
    pub fn was_interrupted(&self) -> bool {
        self.involuntary_switches as f64 > 50.0 * self.wall.as_secs_f64().max(0.1)
    }
}

/// Runs `command` to its end, and looks at what it used before the kernel forgets it.
///
/// # Errors
/// When it cannot be started, waited for or looked at; it is not left running.
pub fn run(command: &mut Command) -> io::Result<Finished> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    let looked = wait_and_look(&child, start);
    if looked.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let (wall, cpu, involuntary_switches) = looked?;
    Ok(Finished {
        status,
        wall,
        cpu,
        involuntary_switches,
    })
}

/// Waits until `child` has ended but leaves it to be waited for: until then `/proc` still shows it.
fn wait_and_look(child: &Child, start: Instant) -> io::Result<(Duration, Duration, u64)> {
    let pid = child.id();
    let waited = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let waited = waited.ok_or(io::ErrorKind::InvalidInput)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(errno) = waitid(WaitId::Pid(waited), options) {
        if errno != rustix::io::Errno::INTR {
            return Err(errno.into());
        }
    }
    let wall = start.elapsed();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let switches = parse_involuntary(&status).ok_or_else(|| malformed(pid, "status"))?;
    Ok((wall, cpu_time(pid)?, switches))
}

/// Fields 14 and 15 of `proc_pid_stat(5)`. The second field, the name, may hold anything, so
/// counting starts after its last parenthesis.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn parse_involuntary(status: &str) -> Option<u64> {
    let key = "nonvoluntary_ctxt_switches:";
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().parse().ok()
}

fn malformed(pid: u32, file: &str) -> io::Error {
    let text = format!("/proc/{pid}/{file} has not the form that proc(5) describes");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "8865 (a) R 9 (x) S 8738 8738 3750 0 -1 4194560 699 0 0 0 133 98 0 0 20 0 7";
        assert_eq!(parse_cpu_ticks(stat), Some(231));
        assert_eq!(parse_cpu_ticks("8865 (a) S 1 2"), None);
        assert_eq!(parse_cpu_ticks(""), None);
    }

    #[test]
    fn switches_are_found_among_the_others() {
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t34\n";
        assert_eq!(parse_involuntary(status), Some(34));
        assert_eq!(parse_involuntary("Name:\tx\n"), None);
    }

    #[test]
    fn a_command_is_run_to_its_end() {
        let finished = run(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert!(run(&mut Command::new("scrim-no-such-program")).is_err());
    }

    /// The kernel's clock for this process, read in another way, says the same.
    #[test]
    fn a_process_knows_what_it_has_used() {
        let before = cpu_time(std::process::id()).unwrap();
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let clock = Duration::try_from(clock).unwrap();
        let after = cpu_time(std::process::id()).unwrap();
        let tick = Duration::from_millis(20);
        assert!(before <= clock + tick && clock <= after + tick);
        assert!(cpu_time(u32::MAX).is_err());
    }

    #[test]
    fn a_family_has_used_what_its_members_have() {
        let script = "while :; do :; done & wait";
        let mut parent = Command::new("sh");
        parent.args(["-c", script]).process_group(0);
        let mut parent = parent.spawn().unwrap();
        let pid = parent.id();
        while family_cpu_time(pid).unwrap() < Duration::from_millis(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(cpu_time(pid).unwrap() < Duration::from_millis(30));
        let group = Pid::from_child(&parent);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        parent.wait().unwrap();
    }

    #[test]
    fn interruptions_are_judged_by_the_second() {
        let finished = |involuntary_switches, seconds| Finished {
            status: ExitStatus::default(),
            wall: Duration::from_secs(seconds),
            cpu: Duration::ZERO,
            involuntary_switches,
        };
        assert!(!finished(500, 10).was_interrupted());
        assert!(finished(501, 10).was_interrupted());
    }
}
