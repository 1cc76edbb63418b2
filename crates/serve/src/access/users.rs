//! The users of a site and the file that lists them.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use http::HeaderValue;
use scrim_luks::kdf::KdfError;

use super::password::PasswordHash;

/// Longest file of users, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Longest name of a user, in bytes.
const NAME_MAX: usize = 128;

/// The users of a site, as its file had them when it was read.
pub struct Users {
    /// Number that distinguishes these users from those of other sites and of earlier readings.
    id: u64,
    hashes: Vec<(Arc<str>, PasswordHash)>,
    /// Indexes of users by name.
    by_name: HashMap<Arc<str>, usize>,
    /// Key by which unknown names are given the cost of a user.
    key: hmac::Key,
    /// Value of `WWW-Authenticate` in answers.
    challenge: HeaderValue,
    is_public: bool,
}

/// A file of users that cannot be used.
#[derive(Debug)]
pub enum UsersError {
    /// The file cannot be read.
    File { path: PathBuf, source: io::Error },
    /// A line cannot be used.
    Line {
        path: PathBuf,
        /// Number of the line, from 1.
        number: usize,
        /// A sentence that repeats nothing of the line, which may be a password.
        reason: &'static str,
    },
    /// The system has no random numbers for a key.
    Random,
}

impl Users {
    /// Reads a file of lines `NAME:HASH`. Empty lines, and lines that begin with `#`, are ignored. Browsers show
    /// `realm` when they ask for a password.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(path: &Path, realm: &str) -> Result<Self, UsersError> {
        let failed = |source| UsersError::File {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        let mut text = String::new();
        file.take(FILE_MAX + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > FILE_MAX {
            let reason = "it is longer than 1 MiB; name a shorter file";
            return Err(failed(io::Error::other(reason)));
        }
        Self::parse(&text, path, realm, mode & 0o004 != 0)
    }

    fn parse(text: &str, path: &Path, realm: &str, is_public: bool) -> Result<Self, UsersError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut hashes: Vec<(Arc<str>, PasswordHash)> = Vec::new();
        let mut by_name = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |reason| UsersError::Line {
                path: path.to_owned(),
                number,
                reason,
            };
            let no_colon = "it is not NAME:HASH; make the line by scrim serve --hash-password NAME";
            let (name, hash) = line.split_once(':').ok_or_else(|| wrong(no_colon))?;
            check_name(name).map_err(wrong)?;
            let name: Arc<str> = name.into();
            let hash = PasswordHash::parse(hash).map_err(wrong)?;
            if by_name.insert(Arc::clone(&name), hashes.len()).is_some() {
                return Err(wrong(
                    "an earlier line has the same name; remove one of them",
                ));
            }
            hashes.push((name, hash));
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            hashes,
            by_name,
            key: key.map_err(|_| UsersError::Random)?,
            challenge: challenge(realm),
            is_public,
        })
    }

    /// Returns whether all users of this machine may read the file.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.is_public
    }

    /// Returns whether the file names no user, so that nobody can log in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The value of `WWW-Authenticate` for requests without a password.
    pub(super) fn challenge(&self) -> &HeaderValue {
        &self.challenge
    }

    /// Checks a password, and returns the user's name if it is right. An unknown name costs as much as that of a user:
    /// the password is compared with the hash of one that the name selects, always the same one.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn verify(
        &self,
        name: &[u8],
        password: &[u8],
    ) -> Result<Option<Arc<str>>, KdfError> {
        let selected = hmac::sign(&self.key, name);
        let selected = selected.as_ref().iter().take(8);
        let selected = selected.fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
        let Some(other) = selected.checked_rem(self.hashes.len() as u64) else {
            return Ok(None);
        };
        let name = std::str::from_utf8(name).unwrap_or_default();
        let known = self.by_name.get(name).copied();
        let index = known.unwrap_or(usize::try_from(other).unwrap_or(0));
        let Some((name, hash)) = self.hashes.get(index) else {
            return Ok(None);
        };
        let is_right = hash.verify(password)?;
        Ok((is_right && known.is_some()).then(|| Arc::clone(name)))
    }
}

/// Makes the line of a user for a file of users.
///
/// # Errors
/// If there is no memory for the hash, or no random numbers for its salt.
pub fn user_line(name: &str, password: &[u8]) -> io::Result<String> {
    Ok(format!("{name}:{}", PasswordHash::new(password)?))
}

/// Checks the name of a user.
///
/// # Errors
/// A sentence about the characters that names cannot have.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_allowed = |sign: char| !(sign.is_control() || sign.is_whitespace() || sign == ':');
    let is_name = !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('#');
    match is_name && name.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(
            "a user's name has 1 to 128 bytes, without spaces, colons and control characters, and no # at its \
             beginning",
        ),
    }
}

fn challenge(realm: &str) -> HeaderValue {
    const BARE: HeaderValue = HeaderValue::from_static("Basic realm=\"scrim\", charset=\"UTF-8\"");
    let is_plain = |sign: char| sign.is_ascii_graphic() && !matches!(sign, '"' | '\\');
    if realm.is_empty() || !realm.chars().all(is_plain) {
        return BARE;
    }
    HeaderValue::try_from(format!("Basic realm=\"{realm}\", charset=\"UTF-8\"")).unwrap_or(BARE)
}

impl fmt::Debug for Users {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Users({})", self.hashes.len())
    }
}

impl fmt::Display for UsersError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(
                out,
                "{}: the users cannot be read; name a file that this user may read",
                path.display()
            ),
            Self::Line {
                path,
                number,
                reason,
            } => write!(out, "{}, line {number}: {reason}", path.display()),
            Self::Random => out.write_str("the system has no random numbers; try again later"),
        }
    }
}

impl std::error::Error for UsersError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Line { .. } | Self::Random => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Hash of `password` at a low cost.
    const CHEAP: &str =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    pub(in crate::access) fn parse(text: &str) -> Result<Users, UsersError> {
        let text = text.replace("HASH", CHEAP);
        Users::parse(&text, Path::new("users.txt"), "files.example.org", false)
    }

    #[test]
    fn users_have_their_own_passwords() {
        let users = parse("# the team\nann:HASH\r\n\nbjörn:HASH\n").expect("users");
        let verify = |name: &str, password: &[u8]| {
            let name = users.verify(name.as_bytes(), password).expect("memory");
            name.map(|name| name.to_string())
        };
        assert_eq!(verify("ann", b"password"), Some("ann".into()));
        assert_eq!(verify("björn", b"password"), Some("björn".into()));
        // A user's password does not fit an unknown name, whichever hash that is compared with.
        for (name, password) in [
            ("ann", "wrong"),
            ("eve", "password"),
            ("", "password"),
            ("Ann", "password"),
        ] {
            assert_eq!(verify(name, password.as_bytes()), None, "{name}");
        }
        assert_eq!(users.verify(b"\xff", b"password").expect("memory"), None);
        let wanted = "Basic realm=\"files.example.org\", charset=\"UTF-8\"";
        assert_eq!(users.challenge(), wanted);
        assert_eq!(
            challenge("a\" b"),
            "Basic realm=\"scrim\", charset=\"UTF-8\""
        );
        assert_ne!(parse("ann:HASH").expect("users").id(), users.id());
    }

    #[test]
    fn a_file_without_users_lets_nobody_in() {
        for text in ["", "# nobody\n\n"] {
            let users = parse(text).expect("users");
            assert!(users.is_empty());
            assert_eq!(users.verify(b"ann", b"password").expect("memory"), None);
        }
        assert!(!parse("ann:HASH").expect("users").is_empty());
    }

    #[test]
    fn a_fault_is_named_by_its_line_without_what_may_be_a_password() {
        for (text, words) in [
            (
                "ann:HASH\nhunter2\n",
                "users.txt, line 2: it is not NAME:HASH",
            ),
            ("ann:hunter2", "line 1: the text after the name"),
            ("ann:HASH\nann:HASH", "line 2: an earlier line"),
            ("a b:HASH", "line 1: a user's name"),
            (":HASH", "line 1: a user's name"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = Users::read(Path::new("/none"), "").expect_err("no file");
        assert!(error.to_string().contains("/none"), "{error}");
    }
}
