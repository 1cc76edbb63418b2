//! `scrim remove-key IMAGE`, `scrim kill-slot IMAGE SLOT` and `scrim erase IMAGE`.

use scrim_luks::{Header, LastKey, Removal};
use scrim_sys::memory::SecretBytes;
use scrim_volume::LuksError;

use crate::args::{EraseArgs, KillSlotArgs, RemoveKeyArgs};
use crate::error::CliError;
use crate::luks::backup_record;
use crate::luks::derivation::Guard;
use crate::luks::header_change::HeaderChange;
use crate::luks::unlock::{Asking, unlock};
use crate::terminal::confirm::Question;
use crate::terminal::note;

pub(crate) fn run(args: &RemoveKeyArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let HeaderChange {
        backend,
        luks,
        place,
    } = &change;
    let asking = Asking {
        question: "Enter passphrase to be deleted: ",
        key: args.key.source_or(args.positional_key.as_deref()),
        tries: args.tries,
    };
    let (unlocked, _) = unlock(luks, &**backend, place, None, &asking)?;
    remove(&change, unlocked.slot, args.on.batch_mode)
}

/// Removes a slot by its number. A remaining passphrase has to fit first, to show that the volume can still be opened;
/// with `--batch-mode` and no key file it is not asked for.
pub(crate) fn kill_slot(args: &KillSlotArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    change.check_in_use(args.slot)?;
    let removal = change.header().removal(&[args.slot]);
    let batch_mode = args.on.batch_mode;
    // The question comes before the passphrase, as in cryptsetup.
    confirm_last(&change, args.slot, &removal, batch_mode)?;
    let source = args.key.source();
    let asking = Asking {
        question: "Enter any remaining passphrase: ",
        key: source,
        tries: args.tries,
    };
    if batch_mode && source.file.is_none() {
        // The user is not asked, but a passphrase that standard input has all the same must fit.
        if let Some(passphrase) = asking.unasked()? {
            let guard = Guard::new(&change.place, &*change.backend, source.cost);
            try_any(&change, args.slot, &removal, &passphrase, &guard)
                .map_err(|error| CliError::from(error).within(&change.place))?;
        }
    } else {
        asking.until_it_fits(&*change.backend, &change.place, |passphrase, guard| {
            try_any(&change, args.slot, &removal, passphrase, guard)
        })?;
    }
    destroy(&change, args.slot)
}

pub(crate) fn erase(args: &EraseArgs) -> Result<(), CliError> {
    let change = HeaderChange::of(&args.on)?;
    let place = &change.place;
    let warning = format!(
        "This will erase all key slots of {place}: {}. Nobody will be able to open the volume any \
         more, and all its data will be lost.",
        described(change.header())
    );
    let question = Question {
        warning: &warning,
        unanswered: Some(&format!(
            "{place}: all data would be lost, and nobody is at a terminal to confirm it"
        )),
    };
    question.ask(args.batch_mode)?;
    change.carry_out(|header, _| header.erase().map(|plan| ((), plan)))?;
    backup_record::forget(change.header());
    note(format_args!("{place}: all key slots erased"));
    Ok(())
}

/// Opens a key slot that remains, of whatever priority; or the last one itself.
fn try_any(
    change: &HeaderChange,
    slot: u8,
    removal: &Removal,
    passphrase: &SecretBytes,
    guard: &Guard<'_>,
) -> Result<(), LuksError> {
    let only = [slot];
    let remaining = match &removal.left[..] {
        [] => &only[..],
        left => left,
    };
    let mut failure = LuksError::NoKey { slot: None };
    for &slot in remaining {
        match change
            .luks
            .unlock_keyslot_guarded(&*change.backend, slot, passphrase, guard)
        {
            Ok(_) => return Ok(()),
            Err(LuksError::NoKey { .. }) => {}
            Err(LuksError::Unlock(error)) if error.is_the_end() => return Err(error.into()),
            Err(other) => failure = other,
        }
    }
    Err(failure)
}

fn remove(change: &HeaderChange, slot: u8, batch_mode: bool) -> Result<(), CliError> {
    let removal = change.header().removal(&[slot]);
    confirm_last(change, slot, &removal, batch_mode)?;
    destroy(change, slot)
}

/// Asks before the last key slot goes that opens the volume.
fn confirm_last(
    change: &HeaderChange,
    slot: u8,
    removal: &Removal,
    batch_mode: bool,
) -> Result<(), CliError> {
    if !removal.loses_volume() {
        return Ok(());
    }
    let place = &change.place;
    let warning = format!(
        "Key slot {slot} is the last one that opens {place}: {}. Without it nobody will be able to \
         open the volume any more, and all its data will be lost.",
        described(change.header())
    );
    let question = Question {
        warning: &warning,
        unanswered: Some(&format!(
            "{place}: key slot {slot} is the last one that opens the volume, all data would be lost, \
             and nobody is at a terminal to confirm it"
        )),
    };
    question.ask(batch_mode)
}

/// Description of the volume that would be lost.
fn described(header: &Header) -> String {
    let (version, uuid) = (header.version(), header.uuid());
    let label = header.label().map(|label| format!(" \"{label}\""));
    format!("LUKS{version} volume{} {uuid}", label.unwrap_or_default())
}

/// Removes a key slot, even the last one: the user has confirmed it.
fn destroy(change: &HeaderChange, slot: u8) -> Result<(), CliError> {
    let removal = change.header().removal(&[slot]);
    change.carry_out(|header, _| {
        let plan = header.remove_keyslots(&[slot], LastKey::Lose)?;
        Ok::<_, scrim_luks::KeyslotError>(((), plan))
    })?;
    note(format_args!("{}: key slot {slot} removed", change.place));
    for token in removal.tokens {
        note(format_args!(
            "scrim: warning: {}: token {token} names no key slot any more; remove it with `scrim \
             token remove`",
            change.place
        ));
    }
    Ok(())
}
