//! Keys of kind `logon` in this thread's keyring, which the kernel can use and nobody can read (`keyrings(7)`).

use std::ffi::CString;
use std::io;

/// The calling thread's keyring (`KEY_SPEC_THREAD_KEYRING`).
const THREAD_KEYRING: libc::c_int = -1;
/// Operation that takes a key out of a keyring (`KEYCTL_UNLINK`).
const UNLINK: libc::c_int = 9;

/// A key in the keyring of the thread that has added it; it goes with this value, or with the thread.
pub struct LogonKey {
    serial: libc::c_long,
}

impl LogonKey {
    /// Adds a key to this thread's keyring. `description` begins with the user's name and a colon.
    ///
    /// # Errors
    /// As `add_key(2)`: `EDQUOT` where the keyring is full, `ENOSYS` where the kernel has none.
    pub fn add(description: &str, key: &[u8]) -> io::Result<Self> {
        let description = CString::new(description)?;
        // SAFETY: two texts that end with a NUL, and a key with its length; the kernel only reads them.
        let serial = unsafe {
            libc::syscall(
                libc::SYS_add_key,
                c"logon".as_ptr(),
                description.as_ptr(),
                key.as_ptr(),
                key.len(),
                THREAD_KEYRING,
            )
        };
        match serial {
            -1 => Err(io::Error::last_os_error()),
            serial => Ok(Self { serial }),
        }
    }
}

impl Drop for LogonKey {
    fn drop(&mut self) {
        // SAFETY: it takes numbers only. A key that this thread does not have is refused.
        unsafe { libc::syscall(libc::SYS_keyctl, UNLINK, self.serial, THREAD_KEYRING) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_key_goes_with_its_value() {
        let keys = || std::fs::read_to_string("/proc/keys").unwrap_or_default();
        let description = format!("scrim-test:{}", std::process::id());
        let Ok(key) = LogonKey::add(&description, &[7; 64]) else {
            eprintln!("skipped: no keyrings here");
            return;
        };
        assert!(keys().contains(&description));
        drop(key);
        // The kernel collects it a moment later.
        let deadline = Instant::now() + Duration::from_secs(30);
        while keys().contains(&description) {
            assert!(Instant::now() < deadline, "it is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_description_with_a_nul_is_refused() {
        let refused = LogonKey::add("a\0b", &[0; 32]).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
