//! `scrim header-restore IMAGE --header-backup-file FILE`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use scrim_backend::{Access, Backend};
use scrim_luks::{Backup, Diagnosis, Placement, Restore};
use scrim_volume::{HeaderSession, LuksDevice, LuksError};

use crate::args::HeaderRestoreArgs;
use crate::error::CliError;
use crate::luks::backup_record;
use crate::luks::header_change::write;
use crate::storage::new_file::write_new;
use crate::storage::{Storage, header_place};
use crate::terminal::confirm::Question;
use crate::terminal::note;

/// Limit on the size of a backup, in bytes, which none reaches: both copies of the largest header and the largest key
/// slots area.
const BACKUP_MAX: u64 = (8 + 128) << 20;

pub(crate) fn run(args: &HeaderRestoreArgs) -> Result<(), CliError> {
    let path = args.on.header_path();
    let place = path.display();
    let file = &args.header_backup_file;
    let backup = read_backup(file)?;
    for finding in backup.findings() {
        note(format_args!(
            "scrim: warning: {}: {finding}",
            file.display()
        ));
    }
    let backend = Storage::open_shared(&header_place(&args.on)?, Access::ReadWrite)?;
    let within = |error: CliError| error.within(&place);
    let before = LuksDevice::read_area(&backend, backup.restore_len())?;
    let size = backend.info().size;
    let placement = placement(args, &before, size);
    let restore = backup
        .restore(&before, size, placement)
        .map_err(|error| within(error.into()))?;
    if restore.notes.is_empty() && unchanged(&before, &backup) {
        note(format_args!(
            "{place}: the header is that of the backup already"
        ));
        return Ok(());
    }
    let there = before.get(..backup.bytes().len()).unwrap_or(&before);
    let blank = there.iter().all(|&byte| byte == 0);
    confirm(args, &backup, &restore, blank)?;
    let session = HeaderSession::start(&backend)?;
    if session.bytes(backup.restore_len())? != before {
        return Err(within(LuksError::Changed.into()));
    }
    keep_replaced(args, &session, &backup)?;
    write(restore.plan, &session, &backend)?;
    backup_record::note_backup(&restore.header);
    note(format_args!(
        "{place}: header of LUKS{} volume {} restored; the passphrases are those of the backup now",
        restore.header.version(),
        restore.header.uuid()
    ));
    Ok(())
}

fn read_backup(path: &Path) -> Result<Backup, CliError> {
    let shown = path.display();
    let fail = |error: io::Error| CliError::io(format_args!("read {shown}"), &error);
    // As in cryptsetup: this is a wrong parameter.
    let file = File::open(path)
        .map_err(|error| CliError::usage(format!("cannot open header backup {shown}: {error}")))?;
    let mut bytes = Vec::new();
    file.take(BACKUP_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    Backup::parse(bytes).map_err(|error| CliError::from(error).within(&shown))
}

/// Placement of the header: it is detached if `--header` is given, or if the header that is there says that its data
/// is elsewhere.
fn placement(args: &HeaderRestoreArgs, area: &[u8], size: u64) -> Placement {
    let found = Diagnosis::of(area, size);
    let detached = found.header().is_some_and(|found| {
        let end = found.header_end();
        let segments = found.segments().iter();
        let mut in_use = segments.filter(|segment| !segment.is_backup());
        in_use.any(|segment| segment.offset < end)
    });
    if detached || args.on.header.is_some() {
        Placement::Detached
    } else {
        Placement::Attached
    }
}

fn unchanged(area: &[u8], backup: &Backup) -> bool {
    area.starts_with(backup.bytes())
}

/// Asks before a header is overwritten. Without a terminal to ask at, only a blank place is overwritten.
fn confirm(
    args: &HeaderRestoreArgs,
    backup: &Backup,
    restore: &Restore,
    blank: bool,
) -> Result<(), CliError> {
    let place = args.on.header_path().display();
    let (version, uuid) = (backup.header().version(), backup.header().uuid());
    let slots: Vec<String> = backup
        .header()
        .keyslots()
        .iter()
        .map(|slot| slot.id.to_string())
        .collect();
    for found in &restore.notes {
        note(format_args!("scrim: warning: {place}: {found}"));
    }
    let slots = match &slots[..] {
        [] => "without a key slot".to_owned(),
        [one] => format!("with key slot {one}"),
        several => format!("with key slots {}", several.join(", ")),
    };
    let warning =
        format!("This will put the header of LUKS{version} volume {uuid}, {slots}, onto {place}.");
    let unanswered = format!(
        "{place}: its present content would be overwritten, and there is no terminal to confirm this"
    );
    let question = Question {
        warning: &warning,
        unanswered: (!blank).then_some(&unanswered),
    };
    question.ask(args.batch_mode)
}

/// Saves what will be overwritten, unless it is nothing: the header with its key slots, or, where none
/// can be read, the bytes as they are.
fn keep_replaced(
    args: &HeaderRestoreArgs,
    session: &HeaderSession<'_>,
    backup: &Backup,
) -> Result<(), CliError> {
    let there = match session.read_backup() {
        Ok(there) => Some(there),
        Err(LuksError::Header(_) | LuksError::Backup(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let area = session.bytes(backup.bytes().len())?;
    let (what, bytes, name) = match &there {
        Some(there) => (
            "the header that is replaced",
            there.bytes(),
            there.header().uuid().raw(),
        ),
        None if area.iter().all(|&byte| byte == 0) => return Ok(()),
        None => ("the content that is overwritten", &area[..], "unreadable"),
    };
    let file = match &args.replaced_file {
        Some(file) => file.clone(),
        None => beside(&args.header_backup_file, name),
    };
    write_new(&file, bytes).map_err(|error| {
        error.within(
            "cannot save the content that is replaced, name a file for it with --replaced-file",
        )
    })?;
    let place = args.on.header_path().display();
    note(format_args!(
        "{place}: {what} is kept in {}",
        file.display()
    ));
    Ok(())
}

/// The first of BACKUP.replaced-NAME, BACKUP.replaced-NAME.2, … that is free. A UUID may be any text.
fn beside(backup: &Path, name: &str) -> PathBuf {
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = name.chars().filter(|c| safe(*c)).collect();
    let mut file = OsString::from(backup);
    file.push(format!(".replaced-{name}"));
    let numbered = |number: u32| {
        let mut file = file.clone();
        if number > 1 {
            file.push(format!(".{number}"));
        }
        PathBuf::from(file)
    };
    let free = |file: &PathBuf| file.symlink_metadata().is_err();
    (1..10_000)
        .map(numbered)
        .find(free)
        .unwrap_or_else(|| numbered(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_gets_a_name_that_is_free_and_stays_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let backup = folder.path().join("b");
        let first = beside(&backup, "8c2f-1");
        assert_eq!(first, folder.path().join("b.replaced-8c2f-1"));
        std::fs::write(&first, "").unwrap();
        let second = folder.path().join("b.replaced-8c2f-1.2");
        assert_eq!(beside(&backup, "8c2f-1"), second);
        let outside = beside(&backup, "/../../etc/passwd");
        assert_eq!(outside, folder.path().join("b.replaced-etcpasswd"));
    }
}
