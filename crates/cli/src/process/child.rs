//! Waits for programs that this process has started.

use std::io;
use std::process::{Child, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Pause between two looks whether to give up.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Waits until a program ends; `None` if it still runs and `is_over` returns true.
///
/// # Errors
/// When the system does not let it wait.
pub(crate) fn wait_unless(
    child: &mut Child,
    mut is_over: impl FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if is_over() {
            return Ok(None);
        }
        match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_program_is_waited_for_until_its_time_is_over() {
        let mut short = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let status = wait_unless(&mut short, || false).unwrap().unwrap();
        assert_eq!(status.code(), Some(7));
        let mut long = Command::new("sleep").arg("60").spawn().unwrap();
        let end = Instant::now() + Duration::from_millis(50);
        assert!(
            wait_unless(&mut long, || Instant::now() > end)
                .unwrap()
                .is_none()
        );
        long.kill().unwrap();
        assert!(wait_unless(&mut long, || false).unwrap().is_some());
    }
}
