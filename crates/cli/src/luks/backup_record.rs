//! Records of the header backups that this user has made, so that `open` can warn of keys that no backup has.
//!
//! One small file for each volume, `$XDG_STATE_HOME/scrim/backups/UUID` (else below
//! `~/.local/state`), with a SHA-256 digest of the salts and digests that were in the header when it
//! was last backed up, or the word `none`. It is made when Scrim changes the keys of a header or backs
//! it up; volumes that Scrim only opens have no such file, and cause no warning. Neither the header nor the backup
//! refers to it, it holds nothing secret, and deleting it loses no more than the warning. A failure to write it is
//! not reported.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use scrim_backend::own_file;
use scrim_luks::{Header, KeyslotKind};
use sha2::{Digest, Sha256};

/// Text of a record while no backup is known.
const NONE: &str = "none";
/// Limit on the length of a record, in bytes; none is as long.
const RECORD_MAX: usize = 128;

/// Notes that the header has been backed up.
pub(crate) fn note_backup(header: &Header) {
    if let Some(path) = path(header) {
        let _ = write(&path, &fingerprint(header));
    }
}

/// Notes that a header has been changed. A backup that was known before stays known: it is still good
/// if the keys are the same.
pub(crate) fn note_change(before: &Header, after: &Header) {
    let (Some(before), Some(after)) = (path(before), path(after)) else {
        return;
    };
    if before != after {
        let _ = fs::rename(&before, &after);
    }
    if !after.exists() {
        let _ = write(&after, NONE);
    }
}

/// Removes the record of a header that cannot be used any more.
pub(crate) fn forget(header: &Header) {
    if let Some(path) = path(header) {
        let _ = fs::remove_file(path);
    }
}

/// Returns a warning if no backup of the header with its present keys is known.
pub(crate) fn warning(header: &Header) -> Option<&'static str> {
    let known = own_file::read(&path(header)?, RECORD_MAX).ok()??;
    let known = String::from_utf8(known).ok()?;
    warning_of(&known, &fingerprint(header))
}

fn warning_of(known: &str, now: &str) -> Option<&'static str> {
    match known.trim_end() {
        known if known == now => None,
        NONE => Some(
            "its header has been changed and no backup of it is known: save it with `scrim \
             header-backup`",
        ),
        _ => Some(
            "its keys have changed since the last backup of the header that is known: back it up again \
             with `scrim header-backup`",
        ),
    }
}

/// Digest of the parts of a header that a backup must have in common with it to open the volume. It changes with
/// every key, and with nothing else.
fn fingerprint(header: &Header) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(&header.version().to_le_bytes());
    for slot in header.keyslots() {
        add(&[slot.id]);
        match &slot.kind {
            KeyslotKind::Passphrase(sealed) => add(&sealed.salt),
            KeyslotKind::Other(kind) => add(kind.as_bytes()),
        }
    }
    for digest in header.digests() {
        add(&digest.salt);
        add(&digest.value);
    }
    hash.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Path of a volume's record; `None` where no folder is known for it, or where the header's UUID, which may be any
/// text, is not a UUID.
fn path(header: &Header) -> Option<PathBuf> {
    let uuid = header.uuid().raw();
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if is_uuid {
        Some(folder()?.join(uuid.to_ascii_lowercase()))
    } else {
        None
    }
}

fn folder() -> Option<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("scrim/backups"))
}

/// Writes a record as a whole.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let new = path.with_extension(std::process::id().to_string());
    let written = own_file::create(&new)
        .and_then(|mut file| io::Write::write_all(&mut file, format!("{text}\n").as_bytes()))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_is_about_keys_that_no_known_backup_has() {
        assert_eq!(warning_of("abc\n", "abc"), None);
        assert!(warning_of("none\n", "abc").unwrap().contains("no backup"));
        assert!(warning_of("def\n", "abc").unwrap().contains("again"));
    }

    #[test]
    fn a_record_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/record");
        write(&path, NONE).unwrap();
        write(&path, "abc").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "abc\n");
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no temporary file");
    }
}
