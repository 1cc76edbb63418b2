//! Rotation of ticket keys: a new file in the place of the old one, whole or not at all.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::error::{TicketKeysError, TicketKeysFault};
use super::key::SECRET_LEN;
use super::keys::{Access, ENCODED_LEN, FILE_MAX, TicketKeys, key_in, lines, open, read_text};
use crate::whole_file::{self, Former};

/// Keys that a rotation leaves: one that only opens tickets, the one that makes them, and the next.
const KEPT: usize = 3;
/// First line of a new file.
const HEAD: &[u8] =
    b"# Keys of session tickets, oldest first, by scrim serve --rotate-ticket-keys. Keep them secret.\n";

/// Adds a new key to a file and keeps the newest three; makes the file, with two keys and for its owner only, if it is not
/// there. Comments stay. Returns the number of keys in the file.
///
/// # Errors
/// When the file cannot be used as it is, or a new one cannot be written in its place.
pub fn rotate_ticket_keys(path: &Path) -> Result<usize, TicketKeysError> {
    rotate(path).map_err(|fault| TicketKeysError::new(path, fault))
}

fn rotate(path: &Path) -> Result<usize, TicketKeysFault> {
    let place = place_of(path).map_err(TicketKeysFault::Write)?;
    let old = open_locked(&place, Access::Read)?;
    let text = match &old {
        Some(file) => read_text(file)?,
        None => Zeroizing::new(HEAD.to_vec()),
    };
    let (text, count) = rotated(&text)?;
    replace(&place, &text, old.as_ref())?;
    Ok(count)
}

/// Opens a file of keys and locks it until it is closed; `None` if it is not there. Two rotations at a time would lose one
/// of the keys. Only users who may read the keys can open the file, so no one else can keep a rotation waiting.
fn open_locked(place: &Path, access: Access) -> Result<Option<File>, TicketKeysFault> {
    let file = match open(place, access) {
        Ok(file) => file,
        Err(TicketKeysFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(TicketKeysFault::Read(error)) if access == Access::ReadWrite => {
            return Err(TicketKeysFault::Write(error));
        }
        Err(fault) => return Err(fault),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // File systems without locks are used without.
        Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {}
        Err(Errno::WOULDBLOCK) => return Err(TicketKeysFault::Busy),
        // NFS locks only files that are open for writing.
        Err(Errno::BADF) if access == Access::Read => {
            return open_locked(place, Access::ReadWrite);
        }
        Err(error) => return Err(TicketKeysFault::Write(error.into())),
    }
    // Another rotation may have replaced the file before it was locked.
    let locked = file.metadata().map_err(TicketKeysFault::Read)?;
    match fs::metadata(place) {
        Ok(found) if (found.dev(), found.ino()) == (locked.dev(), locked.ino()) => Ok(Some(file)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TicketKeysFault::Read(error)),
        _ => Err(TicketKeysFault::Busy),
    }
}

/// Resolves links, so that a link stays one and the file that it leads to is replaced.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        _ => path.canonicalize(),
    }
}

/// The text of a file with a new key, or with two where there was none, and the number of its keys.
pub(super) fn rotated(text: &[u8]) -> Result<(Zeroizing<Vec<u8>>, usize), TicketKeysFault> {
    match TicketKeys::parse(text) {
        Ok(_) | Err(TicketKeysFault::Empty) => {}
        Err(fault) => return Err(fault),
    }
    let old = lines(text).filter_map(key_in).count();
    let new = if old == 0 { 2 } else { 1 };
    let mut dropped = (old + new).saturating_sub(KEPT);
    let count = old + new - dropped;
    // All of it from the start, so that no copy of a key is left where it grew.
    let mut rotated = Zeroizing::new(Vec::with_capacity(text.len() + 1 + new * (ENCODED_LEN + 1)));
    for line in lines(text) {
        if dropped > 0 && key_in(line).is_some() {
            dropped -= 1;
            continue;
        }
        rotated.extend_from_slice(line);
        rotated.push(b'\n');
    }
    for _ in 0..new {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        rand::fill(&mut *secret).map_err(|_| TicketKeysFault::Random)?;
        let mut encoded = Zeroizing::new([0; ENCODED_LEN]);
        let filled = STANDARD.encode_slice(*secret, &mut *encoded);
        filled.map_err(|error| TicketKeysFault::Write(io::Error::other(error)))?;
        rotated.extend_from_slice(&*encoded);
        rotated.push(b'\n');
    }
    // Servers that refuse the file would refuse it on every reload from now on.
    if rotated.len() > FILE_MAX {
        return Err(TicketKeysFault::TooLong);
    }
    TicketKeys::parse(&rotated)?;
    Ok((rotated, count))
}

/// Puts a file with this text into the place of another one, with its owner, mode and ACL, or of none.
fn replace(place: &Path, text: &[u8], old: Option<&File>) -> Result<(), TicketKeysFault> {
    let former = old.map_or(Former::Nothing, Former::Like);
    whole_file::write(place, text, former).map_err(|error| match (old, error.kind()) {
        (None, io::ErrorKind::AlreadyExists) => TicketKeysFault::Busy,
        _ => TicketKeysFault::Write(error),
    })?;
    // The keys are replaced, so this is no failure any more, for which a job would rotate again. Some file systems cannot
    // sync a folder. A crash may bring the old keys back; the next rotation and its copies make all servers alike again.
    let _ = whole_file::sync_folder_of(place);
    Ok(())
}
