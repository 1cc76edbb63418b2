//! The wait for udev to make a device's nodes, as libdevmapper does it: an event carries a cookie, half the key of a
//! System V semaphore, and udev's rule (`dmsetup udevcomplete`) counts that down once its work is done.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use crate::device_mapper::Udev;

/// Upper half of the key of each cookie's semaphore (`DM_COOKIE_MAGIC`).
const MAGIC: u32 = 0x0D4D << 16;

/// Number of keys that are tried.
const TRIES: usize = 16;

/// A cookie, whose semaphore counts the events that udev has not completed.
pub struct Cookie {
    low: u16,
    semaphore: libc::c_int,
}

/// Returns whether udev is running.
#[must_use]
pub fn is_udev_running() -> bool {
    Path::new("/run/udev/control").exists()
}

impl Cookie {
    /// Makes a cookie for one event.
    ///
    /// # Errors
    /// As `semget(2)`.
    pub fn new() -> io::Result<Self> {
        let mut random = File::open("/dev/urandom")?;
        for _ in 0..TRIES {
            let mut low = [0; 2];
            random.read_exact(&mut low)?;
            let low = u16::from_ne_bytes(low);
            // Zero stands for no cookie.
            if low == 0 {
                continue;
            }
            match create(MAGIC | u32::from(low)) {
                Ok(semaphore) => {
                    let cookie = Self { low, semaphore };
                    cookie.add(1, None)?;
                    return Ok(cookie);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The event of a call that carries this cookie.
    #[must_use]
    pub fn event(&self) -> Udev {
        Udev::with_cookie(self.low)
    }

    /// Waits until udev has completed the event, at most `limit`. Returns whether it has.
    ///
    /// # Errors
    /// As `semtimedop(2)`.
    pub fn wait(self, limit: Duration) -> io::Result<bool> {
        match self.add(0, Some(limit)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds to the semaphore, or with 0 waits until it is 0.
    fn add(&self, number: libc::c_short, limit: Option<Duration>) -> io::Result<()> {
        let mut operation = libc::sembuf {
            sem_num: 0,
            sem_op: number,
            sem_flg: 0,
        };
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        loop {
            // SAFETY: one operation is at the first pointer, and the second is null or a time that lives until the end.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_semtimedop,
                    self.semaphore,
                    &raw mut operation,
                    1_usize,
                    limit,
                )
            };
            match result {
                -1 => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
                _ => return Ok(()),
            }
        }
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        // SAFETY: the number is of a semaphore that this value has made; nothing in this process's memory is touched.
        unsafe { libc::semctl(self.semaphore, 0, libc::IPC_RMID) };
    }
}

/// Creates a semaphore, whose first number is 0.
fn create(key: u32) -> io::Result<libc::c_int> {
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    // SAFETY: it takes numbers only.
    match unsafe { libc::semget(key.cast_signed(), 1, flags) } {
        -1 => Err(io::Error::last_os_error()),
        semaphore => Ok(semaphore),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_wait_ends_with_the_event_or_its_limit() {
        let Ok(cookie) = Cookie::new() else {
            eprintln!("skipped: no System V semaphores here");
            return;
        };
        let began = Instant::now();
        let limit = Duration::from_millis(20);
        assert!(!cookie.wait(limit).unwrap());
        assert!(began.elapsed() >= limit);

        let cookie = Cookie::new().unwrap();
        // As udev's rule does.
        cookie.add(-1, None).unwrap();
        assert!(cookie.wait(Duration::from_secs(60)).unwrap());
    }
}
