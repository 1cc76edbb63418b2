//! Time that a command takes: on the clock, and of the processors by all of its descendants. What
//! `scrim_bench::process` counts is one program.

use std::fs;
use std::io;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::error::{Doing, Error};

/// Place of `cutime` in `/proc/self/stat`, counted from the field behind the name (proc(5)); `cstime` follows.
const CHILDREN: usize = 13;

/// Time that a command took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// Time of processors, by the command and all that it waited for.
    pub(crate) processors: Duration,
}

/// Runs a command to its end.
pub(crate) fn measure(command: &mut Command) -> Result<(ExitStatus, Usage), Error> {
    let (start, before) = (Instant::now(), of_children()?);
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().doing(|| format!("run {program}"))?;
    let usage = Usage {
        wall: start.elapsed(),
        processors: of_children()?.saturating_sub(before),
    };
    Ok((status, usage))
}

/// Time of processors that this process's children have taken which it has waited for.
fn of_children() -> Result<Duration, Error> {
    let stat = fs::read_to_string("/proc/self/stat");
    let ticks = stat.and_then(|stat| {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "unknown format");
        children_ticks(&stat).ok_or_else(unknown)
    });
    let ticks = ticks.doing(|| "read /proc/self/stat".to_owned())?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

fn children_ticks(stat: &str) -> Option<u64> {
    // The name may contain anything, a parenthesis too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(CHILDREN);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_children_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 8 7 6 11 12 250 50 20 0 1 0 5 6 7";
        assert_eq!(children_ticks(stat), Some(300));
        assert_eq!(children_ticks("7 (a"), None);
    }

    #[test]
    fn a_command_that_computes_takes_time_of_processors() {
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let (status, usage) = measure(Command::new("sh").args(["-c", script])).unwrap();
        assert!(status.success());
        assert!(usage.processors > Duration::ZERO && usage.wall > Duration::ZERO);
    }
}
