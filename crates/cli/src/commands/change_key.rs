//! `scrim change-key IMAGE` and `scrim convert-key IMAGE`: the same key in the same slot, sealed anew.

use scrim_luks::{InPlace, KeyslotError, NewKeyslot};
use scrim_sys::memory::SecretBytes;
use scrim_volume::Unlocked;

use super::add_key::Sealing;
use crate::args::{ChangeKeyArgs, ChangeSlotArgs, ConvertKeyArgs};
use crate::error::CliError;
use crate::luks::header_change::HeaderChange;
use crate::luks::key_source::{check_apart, new_passphrase};
use crate::luks::unlock::{Asking, unlock};
use crate::terminal::confirm::Question;
use crate::terminal::note;

pub(crate) fn run(args: &ChangeKeyArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let sealing = Sealing::check(&args.change.seal, change.header())?;
    let new_source = args.new.source();
    check_apart(&args.change.key.source(), &new_source)?;
    let (unlocked, _) = open(&change, &args.change, "Enter passphrase to be changed: ")?;
    let passphrase = new_passphrase(&new_source, "Enter new passphrase: ")?.secret;
    let batch_mode = args.on.batch_mode;
    let old = unlocked.slot;
    let new = reseal(
        &change,
        &args.change,
        &sealing,
        &unlocked,
        &passphrase,
        batch_mode,
    )?;
    let place = &change.place;
    if new == old {
        note(format_args!("{place}: key slot {old} changed"));
    } else {
        note(format_args!(
            "{place}: key slot {old} changed; it is key slot {new} now"
        ));
    }
    Ok(())
}

pub(crate) fn convert(args: &ConvertKeyArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let sealing = Sealing::check(&args.change.seal, change.header())?;
    let question = "Enter passphrase for keyslot to be converted: ";
    let (unlocked, passphrase) = open(&change, &args.change, question)?;
    let batch_mode = args.on.batch_mode;
    let slot = reseal(
        &change,
        &args.change,
        &sealing,
        &unlocked,
        &passphrase,
        batch_mode,
    )?;
    note(format_args!("{}: key slot {slot} converted", change.place));
    Ok(())
}

/// Unlocks the key slot that is named, whatever key it holds, or else finds the one that opens.
fn open(
    change: &HeaderChange,
    args: &ChangeSlotArgs,
    question: &str,
) -> Result<(Unlocked, SecretBytes), CliError> {
    let HeaderChange {
        backend,
        luks,
        place,
    } = change;
    let asking = Asking {
        question,
        key: args.key.source(),
        tries: args.tries,
    };
    let Some(slot) = args.key_slot else {
        return unlock(luks, &**backend, place, None, &asking);
    };
    change.check_in_use(slot)?;
    asking.until_it_fits(&**backend, place, |passphrase, guard| {
        luks.unlock_keyslot_guarded(&**backend, slot, passphrase, guard)
    })
}

/// Seals the key of a slot anew; returns the slot's number.
fn reseal(
    change: &HeaderChange,
    args: &ChangeSlotArgs,
    sealing: &Sealing,
    unlocked: &Unlocked,
    passphrase: &SecretBytes,
    batch_mode: bool,
) -> Result<u8, CliError> {
    // As in cryptsetup, in LUKS1 the key moves to a free slot, unless its slot was named.
    let number = args.key_slot.filter(|_| change.header().version() == 1);
    let new = sealing.keyslot(&args.seal, number, unlocked.key.len())?;
    let mut only_in_place = false;
    match attempt(
        change,
        unlocked,
        passphrase,
        &new,
        InPlace::Refuse,
        &mut only_in_place,
    ) {
        Err(_) if only_in_place => {}
        other => return other,
    }
    let (slot, place) = (unlocked.slot, &change.place);
    let why = match number {
        Some(_) => "keeps its number only if it is overwritten where it lies",
        None => "has no room beside it and would be overwritten where it lies",
    };
    let warning = format!(
        "Key slot {slot} of {place} {why}. If that is cut short, its key is lost: save the header with \
         `scrim header-backup` first."
    );
    let question = Question {
        warning: &warning,
        unanswered: Some(&format!(
            "{place}: key slot {slot} {why}, and nobody is at a terminal to confirm that"
        )),
    };
    question.ask(batch_mode)?;
    attempt(
        change,
        unlocked,
        passphrase,
        &new,
        InPlace::Allow,
        &mut only_in_place,
    )
}

fn attempt(
    change: &HeaderChange,
    unlocked: &Unlocked,
    passphrase: &SecretBytes,
    new: &NewKeyslot,
    in_place: InPlace,
    only_in_place: &mut bool,
) -> Result<u8, CliError> {
    change.carry_out(|header, _| {
        let changed =
            header.change_keyslot(unlocked.slot, &unlocked.key, passphrase, new, in_place);
        *only_in_place = matches!(changed, Err(KeyslotError::InPlaceOnly { .. }));
        changed.map(|changed| (changed.slot, changed.plan))
    })
}
