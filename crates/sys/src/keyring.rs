//! Keys in the kernel's keyrings (`keyrings(7)`), by `add_key(2)`, `request_key(2)` and `keyctl(2)`.

use std::ffi::CString;
use std::fs;
use std::io;
use std::ptr;

use rustix::process::geteuid;

use crate::memory::SecretBytes;

/// Operations of `keyctl(2)`, from `linux/keyctl.h`.
const DESCRIBE: libc::c_int = 6;
const UNLINK: libc::c_int = 9;
const READ: libc::c_int = 11;
/// Most bytes of a description, with the type and the owner before it. A description has a page at most.
const DESCRIPTION_MAX: usize = 8 << 10;
/// Most bytes of a key that is read: the kernel's limit for the type `big_key`, the largest.
const KEY_MAX: usize = 1 << 20;

/// Serial number of a key or of a keyring, which is a key too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serial(i32);

impl Serial {
    /// The calling thread's keyring (`@t`).
    pub const THREAD: Self = Self(-1);
    /// The session's keyring (`@s`).
    pub const SESSION: Self = Self(-3);
    /// The user's keyring (`@u`).
    pub const USER: Self = Self(-4);
    /// The keyring of the user's default session (`@us`).
    pub const USER_SESSION: Self = Self(-5);

    /// Takes a number that a user has named; `None` for 0 and below, which are no keys.
    #[must_use]
    pub fn new(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Finds a key by its type and description in the keyrings of the thread, the process and the session. No program is
    /// started to make a key that is not there.
    ///
    /// # Errors
    /// As `request_key(2)`: `ENOKEY` without such a key, `EKEYREVOKED`, `EKEYEXPIRED`, `ENOSYS` where the kernel has no
    /// keyrings. A text with a NUL is invalid input.
    pub fn find(kind: &str, description: &str) -> io::Result<Self> {
        let (kind, description) = (CString::new(kind)?, CString::new(description)?);
        // SAFETY: two texts that end with a NUL, which the kernel only reads; without a third one no program is asked.
        let serial = unsafe {
            libc::syscall(
                libc::SYS_request_key,
                kind.as_ptr(),
                description.as_ptr(),
                ptr::null::<libc::c_char>(),
                0,
            )
        };
        Self::returned(serial)
    }

    /// Finds a keyring by its name: among those that the caller possesses, or else among those of its user. Another user
    /// may have made one of the same name.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn find_keyring(name: &str) -> io::Result<Self> {
        let own = geteuid().as_raw();
        Self::find("keyring", name).or_else(|error| {
            // Descriptions are printed as they are, so that a line may be anything: it only says where to look.
            let listed = fs::read("/proc/keys").unwrap_or_default();
            let mut lines = listed.split(|&byte| byte == b'\n');
            let found = lines.find_map(|line| {
                let found = keyring_of(str::from_utf8(line).ok()?, name)?;
                let told = found.describe().ok()?;
                (told.kind == "keyring" && told.owner == own && told.name == name).then_some(found)
            });
            found.ok_or(error)
        })
    }

    /// Adds a key to this keyring, or changes the one of the same type and description there. Returns the key.
    ///
    /// # Errors
    /// As `add_key(2)`: `EDQUOT` where the keyring is full, `EACCES`, `ENOSYS` where the kernel has no keyrings, `EINVAL`
    /// for a description that the type does not take: that of a `logon` key has a prefix and a colon.
    pub fn add(self, kind: &str, description: &str, key: &[u8]) -> io::Result<Self> {
        let (kind, description) = (CString::new(kind)?, CString::new(description)?);
        // SAFETY: two texts that end with a NUL, and a key with its length; the kernel only reads them.
        let serial = unsafe {
            libc::syscall(
                libc::SYS_add_key,
                kind.as_ptr(),
                description.as_ptr(),
                key.as_ptr(),
                key.len(),
                self.0,
            )
        };
        Self::returned(serial)
    }

    /// The type of this key, such as `user` or `keyring`.
    ///
    /// # Errors
    /// As `keyctl(2)`: `ENOKEY` without such a key, `EACCES` where the caller may not view it.
    pub fn kind(self) -> io::Result<String> {
        Ok(self.describe()?.kind)
    }

    fn describe(self) -> io::Result<Description> {
        let mut text = vec![0; DESCRIPTION_MAX];
        let len = self.fill(DESCRIBE, &mut text)?;
        // "type;uid;gid;permissions;description", with a NUL.
        text.truncate(len.saturating_sub(1));
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let text = String::from_utf8(text).map_err(|_| invalid())?;
        let mut fields = text.splitn(5, ';');
        let mut field = || fields.next().ok_or_else(invalid);
        let (kind, owner, _group, _permissions, name) =
            (field()?, field()?, field()?, field()?, field()?);
        Ok(Description {
            kind: kind.to_owned(),
            owner: owner.parse().map_err(|_| invalid())?,
            name: name.to_owned(),
        })
    }

    /// The content of this key.
    ///
    /// # Errors
    /// As `keyctl(2)`: `EACCES` where the caller may not read it, `EOPNOTSUPP` for a type that nobody can read, such as
    /// `logon`. `EFBIG` for a key of more than a mebibyte, `EAGAIN` for one that grows while it is read.
    pub fn read(self) -> io::Result<SecretBytes> {
        let len = self.fill(READ, &mut [])?;
        if len > KEY_MAX {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let mut key = SecretBytes::zeroed(len);
        let now = self.fill(READ, key.expose_mut())?;
        if now > len {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        key.truncate(now);
        Ok(key)
    }

    /// Fills `buffer` by an operation; returns how many bytes there are, which may be more than it holds.
    fn fill(self, operation: libc::c_int, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes no more than the length of the buffer that it is told.
        let len = unsafe {
            libc::syscall(
                libc::SYS_keyctl,
                operation,
                self.0,
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    }

    /// Takes a key out of this keyring.
    pub fn unlink(self, key: Self) {
        // SAFETY: it takes numbers only. A key that the keyring does not have is refused.
        unsafe { libc::syscall(libc::SYS_keyctl, UNLINK, key.0, self.0) };
    }

    fn returned(serial: libc::c_long) -> io::Result<Self> {
        match i32::try_from(serial) {
            Ok(serial) if serial > 0 => Ok(Self(serial)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A key as the kernel describes it.
struct Description {
    kind: String,
    /// The user that owns it.
    owner: u32,
    name: String,
}

/// The keyring of a line of `/proc/keys`, if it seems to have this name. The line's fields are serial number, flags, uses, timeout,
/// permissions, user, group, type and `NAME: SUMMARY`.
fn keyring_of(line: &str, name: &str) -> Option<Serial> {
    let mut rest = line;
    let mut fields = [""; 8];
    for field in &mut fields {
        (*field, rest) = rest.trim_start().split_once(' ')?;
    }
    let (found, _summary) = rest.trim_start().rsplit_once(": ")?;
    if fields[7] != "keyring" || found != name {
        return None;
    }
    Serial::new(i32::from_str_radix(fields[0], 16).ok()?)
}

/// A key of type `logon` in the keyring of the thread that has added it, which the kernel can use and nobody can read; it
/// goes with this value, or with the thread.
pub struct LogonKey {
    serial: Serial,
}

impl LogonKey {
    /// Adds a key to this thread's keyring. `description` begins with the user's name and a colon.
    ///
    /// # Errors
    /// As [`Serial::add`].
    pub fn add(description: &str, key: &[u8]) -> io::Result<Self> {
        let serial = Serial::THREAD.add("logon", description, key)?;
        Ok(Self { serial })
    }
}

impl Drop for LogonKey {
    fn drop(&mut self) {
        Serial::THREAD.unlink(self.serial);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A description that no other test has.
    fn description(of: &str) -> String {
        format!("scrim-test:{of}-{}", std::process::id())
    }

    #[test]
    fn a_key_goes_with_its_value() {
        let keys = || std::fs::read_to_string("/proc/keys").unwrap_or_default();
        let description = description("goes");
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

    #[test]
    fn a_key_that_was_added_is_found_and_read() {
        let description = description("read");
        let Ok(added) = Serial::THREAD.add("user", &description, b"first") else {
            eprintln!("skipped: no keyrings here");
            return;
        };
        assert_eq!(Serial::find("user", &description).unwrap(), added);
        assert_eq!(added.read().unwrap().expose(), b"first");
        assert_eq!(added.kind().unwrap(), "user");
        assert_eq!(Serial::THREAD.kind().unwrap(), "keyring");
        let changed = Serial::THREAD.add("user", &description, b"the second, which is longer");
        assert_eq!(changed.unwrap(), added);
        assert_eq!(
            added.read().unwrap().expose(),
            b"the second, which is longer"
        );
        let named = Serial::find_keyring(&description).unwrap_err();
        assert_eq!(named.raw_os_error(), Some(libc::ENOKEY), "it is no keyring");
        Serial::THREAD.unlink(added);
        let gone = Serial::find("user", &description).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENOKEY));
    }

    #[test]
    fn nobody_reads_a_logon_key() {
        let description = description("secret");
        let Ok(key) = LogonKey::add(&description, &[7; 32]) else {
            eprintln!("skipped: no keyrings here");
            return;
        };
        let refused = key.serial.read().err().unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn a_keyring_is_known_by_its_whole_name() {
        let line = "0da7ca7f I--Q---     1 perm 3f030000     0     0 keyring   my ring: of two: 3";
        let found = keyring_of(line, "my ring: of two");
        assert_eq!(found, Serial::new(0x0da7_ca7f));
        assert_eq!(keyring_of(line, "my ring"), None);
        let line = "0da7ca7f I--Q---     1 perm 3f010000     0     0 user      ring: 3";
        assert_eq!(keyring_of(line, "ring"), None);
        assert_eq!(keyring_of("", ""), None);
    }
}
