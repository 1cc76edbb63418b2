//! `scrim config IMAGE`: changes the settings of a LUKS2 header.

use scrim_luks::Edit;

use crate::args::ConfigArgs;
use crate::error::CliError;
use crate::luks::header_change::HeaderChange;
use crate::terminal::note;

pub(crate) fn run(args: &ConfigArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let mut edits = Vec::new();
    if let (Some(priority), Some(slot)) = (args.priority, args.key_slot) {
        edits.push(Edit::Priority {
            slot,
            priority: priority.into(),
        });
    }
    edits.extend(args.label.clone().map(Edit::Label));
    edits.extend(args.subsystem.clone().map(Edit::Subsystem));
    let flags = args.persistent_flags.clone();
    edits.extend(flags.map(|flags| Edit::Flags(flags.0)));
    change.edit(&edits)?;
    note(format_args!("{}: header changed", change.place));
    Ok(())
}
