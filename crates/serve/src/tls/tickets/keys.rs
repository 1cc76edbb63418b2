//! Keys of tickets that several servers share.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::OFlags;
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use super::error::{TicketKeysError, TicketKeysFault};
use super::key::{Key, SECRET_LEN, name_in};

/// Most keys of a file.
pub(super) const KEYS_MAX: usize = 16;
/// Characters of a key in base64.
pub(super) const ENCODED_LEN: usize = SECRET_LEN.div_ceil(3) * 4;
/// Bytes that base64 of this length can have. A key has one less.
const DECODED_MAX: usize = SECRET_LEN.div_ceil(3) * 3;

/// Longest file of keys, in bytes.
pub(super) const FILE_MAX: usize = 1 << 16;
/// Seconds for which a ticket is accepted, as by rustls' own tickets.
const LIFETIME: u32 = 12 * 60 * 60;
/// Seconds by which the clock of the server that made a ticket may be ahead.
const CLOCK_SKEW_MAX: u64 = 5 * 60;

/// Keys of tickets that several servers share, from a file. Each of them opens tickets.
///
/// With two keys or more, tickets are made by the last but one. The last is the next one: all servers have it before the
/// first of them makes tickets by it, although a new file reaches them one after the other.
///
/// rustls compares the age of a ticket with nothing unless there is early data, and a key can stay in the file for long,
/// so tickets have the time of their making, and one older than twelve hours is not accepted. Clocks of servers differ: a
/// ticket from up to five minutes ahead is accepted.
pub struct TicketKeys {
    /// Keys in the order of the file, oldest first; there is at least one.
    keys: Vec<Key>,
}

impl TicketKeys {
    /// Reads a file of keys: on each line the base64 of 32 random bytes, the oldest first. Empty lines, and lines that
    /// begin with `#`, are ignored.
    ///
    /// # Errors
    /// When it cannot be read, all users may read or change it, or a line is not a key.
    pub fn read(path: &Path) -> Result<Self, TicketKeysError> {
        let text = open(path, Access::Read).and_then(|file| read_text(&file));
        let keys = text.and_then(|text| Self::parse(&text));
        keys.map_err(|fault| TicketKeysError::new(path, fault))
    }

    pub(super) fn parse(text: &[u8]) -> Result<Self, TicketKeysFault> {
        let mut keys: Vec<Key> = Vec::new();
        let mut decoded = Zeroizing::new([0; DECODED_MAX]);
        for (number, line) in (1..).zip(lines(text)) {
            let Some(encoded) = key_in(line) else {
                continue;
            };
            let wrong = |reason| TicketKeysFault::Line { number, reason };
            if keys.len() == KEYS_MAX {
                return Err(wrong(
                    "there are more than 16 ticket keys; remove the oldest, which come first",
                ));
            }
            let not_a_key = "it is not a ticket key, which is the base64 of 32 random bytes (44 characters); make the \
                             file by scrim serve --rotate-ticket-keys";
            let secret = decode(encoded, &mut decoded).ok_or_else(|| wrong(not_a_key))?;
            let key = Key::derive(secret).map_err(|_| wrong("AWS-LC cannot use this key"))?;
            if keys.iter().any(|other| other.name() == key.name()) {
                return Err(wrong(
                    "an earlier line has the same ticket key; remove one of them",
                ));
            }
            keys.push(key);
        }
        match keys.is_empty() {
            true => Err(TicketKeysFault::Empty),
            false => Ok(Self { keys }),
        }
    }

    pub(super) fn seal(&self, now: u64, session: &[u8]) -> Option<Vec<u8>> {
        let making = self.keys.len().saturating_sub(2);
        self.keys.get(making)?.seal(now, session)
    }

    pub(super) fn open(&self, now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        // Names are public, so the comparison may take any time.
        let name = name_in(ticket)?;
        let key = self.keys.iter().find(|key| key.name() == name)?;
        let (made, session) = key.open(ticket)?;
        let age = now.saturating_sub(made);
        let ahead = made.saturating_sub(now);
        (age <= LIFETIME.into() && ahead <= CLOCK_SKEW_MAX).then_some(session)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKeys({})", self.keys.len())
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.seal(now()?, session)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(now()?, ticket)
    }
}

/// The time in seconds since 1970; `None` if the clock is before that.
fn now() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().map(|since| since.as_secs())
}

/// The use of a file of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    ReadWrite,
}

/// Opens a file of keys. The group may read it: credentials of service managers and secrets of clusters are often the
/// group's.
pub(super) fn open(path: &Path, access: Access) -> Result<File, TicketKeysFault> {
    let failed = TicketKeysFault::Read;
    // A pipe without a writer would otherwise keep the server waiting.
    let mut options = OpenOptions::new();
    let no_wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    options.read(true).write(access == Access::ReadWrite);
    let file = options.custom_flags(no_wait).open(path);
    let file = file.map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    if found.permissions().mode() & 0o006 != 0 {
        return Err(TicketKeysFault::Public);
    }
    Ok(file)
}

/// Reads the text of a file of keys.
pub(super) fn read_text(file: &File) -> Result<Zeroizing<Vec<u8>>, TicketKeysFault> {
    let failed = TicketKeysFault::Read;
    // All of it from the start, so that no copy of a key is left where it grew.
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_MAX + 1));
    let mut file = file.take(FILE_MAX as u64 + 1);
    file.read_to_end(&mut text).map_err(failed)?;
    match text.len() > FILE_MAX {
        true => Err(failed(io::Error::other("it is longer than 64 KiB"))),
        false => Ok(text),
    }
}

/// The lines of a file of keys, without their ends.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
}

/// Returns the key of a line; `None` if the line is empty or a comment.
pub(super) fn key_in(line: &[u8]) -> Option<&[u8]> {
    (!line.is_empty() && !line.starts_with(b"#")).then_some(line)
}

/// Decodes a key into a buffer that the caller wipes.
fn decode<'a>(encoded: &[u8], decoded: &'a mut [u8; DECODED_MAX]) -> Option<&'a [u8; SECRET_LEN]> {
    if encoded.len() != ENCODED_LEN {
        return None;
    }
    let length = STANDARD.decode_slice(encoded, &mut *decoded).ok()?;
    decoded.first_chunk().filter(|_| length == SECRET_LEN)
}
