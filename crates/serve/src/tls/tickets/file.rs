//! Rotation of ticket keys: a new file in the place of the old one, whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::error::{TicketKeysError, TicketKeysFault};
use super::key::SECRET_LEN;
use super::keys::{ENCODED_LEN, TicketKeys, key_in, lines, read_text};

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
    let folder = match place.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder).map_err(TicketKeysFault::Write)?;
    // Two rotations at a time would lose one of the keys. File systems without locks are used without.
    if flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(TicketKeysFault::Busy);
    }
    let (text, old) = match read_text(&place) {
        Ok((text, file)) => (text, Some(file)),
        Err(TicketKeysFault::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
            (Zeroizing::new(HEAD.to_vec()), None)
        }
        Err(fault) => return Err(fault),
    };
    let (text, count) = rotated(&text)?;
    let old = old.map(|old| old.metadata()).transpose();
    let replaced = old.and_then(|old| replace(&place, &folder, &text, old.as_ref()));
    replaced.map_err(TicketKeysFault::Write)?;
    Ok(count)
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
    Ok((rotated, count))
}

/// Puts a file with this text into the place of another one, with its owner and mode, or of none.
fn replace(place: &Path, folder: &File, text: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    let mut draft = OsString::from(".");
    draft.push(place.file_name().ok_or(Errno::ISDIR)?);
    draft.push(".scrim-new");
    let draft = place.with_file_name(draft);
    // A draft that a crash has left.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_draft(&draft, text, old).and_then(|()| fs::rename(&draft, place));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    folder.sync_all()
}

fn write_draft(draft: &Path, text: &[u8], old: Option<&Metadata>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(draft)?;
    if let Some(old) = old {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    }
    file.write_all(text)?;
    file.sync_all()
}
