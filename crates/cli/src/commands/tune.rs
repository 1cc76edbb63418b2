//! `scrim tune NAME`: measures what flags, or data paths, change on an open volume's storage.

use std::io::stdout;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use scrim_bench::tune::{Requests, TuneOutcome, TunePlan, Use, measure};
use scrim_bench::{Report, Study};
use scrim_nbd::{Endpoint, Uri};
use scrim_volume::OpenFlags;
use serde_json::{Value, json};

use super::bench::{WIDEST, ink, machine};
use super::resume::refuse_key_options;
use crate::args::{TuneArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::kernel::{KernelVolume, KeyQuestion};
use crate::luks::header_change::HeaderChange;
use crate::nbd::control::Client;
use crate::nbd::runtime::RuntimeDir;
use crate::process::interruption::{Interruption, watched};
use crate::running_volume::RunningVolume;
use crate::storage::{Manner, Storage};
use crate::terminal::progress::columns;
use crate::terminal::{note, print, print_json_text};
use crate::tune::{
    self, KernelTuned, Phase, Record, ScrimTuned, Settings, Targets, Tuned, Turn, WriteFile,
    advice_text, device, loads, sentence,
};
use crate::volume::opening::persistent;

pub(crate) fn run(args: &TuneArgs) -> Result<ExitCode, CliError> {
    let name = name_of(&args.volume)?;
    RuntimeDir::locate().ensure()?;
    let turn = Turn::take(&name)?;
    let done = tune_named(args, &name);
    drop(turn);
    done
}

fn tune_named(args: &TuneArgs, name: &VolumeName) -> Result<ExitCode, CliError> {
    match RunningVolume::named(name)? {
        RunningVolume::Kernel(volume) => of_kernel(args, name, &volume),
        RunningVolume::Scrim(client) => of_scrim(args, name, client),
    }
}

/// The volume that is meant by its name, or by its device.
fn name_of(volume: &Path) -> Result<VolumeName, CliError> {
    let name = volume.strip_prefix("/dev/mapper").unwrap_or(volume);
    let name = name.to_str().unwrap_or_default();
    name.parse()
        .map_err(|reason| CliError::usage(format!("{}: {reason}", volume.display())))
}

fn of_kernel(
    args: &TuneArgs,
    name: &VolumeName,
    volume: &KernelVolume,
) -> Result<ExitCode, CliError> {
    let question = KeyQuestion {
        header: args.header.as_deref(),
        key_slot: args.again.key_slot,
        tries: args.again.attempts(),
        key: args.again.key.source(),
        others: args.again.others(),
    };
    let go_back = |settings: &Settings| match settings.flags() {
        Some(flags) => volume.restore_flags(flags, &question),
        None => Ok(()),
    };
    let opening = volume.opening();
    if args.undo {
        return undo(name, &opening, go_back);
    }
    if go_back_if_killed(name, &opening, go_back)? {
        // The state of the volume has changed.
        return tune_named(args, name);
    }
    let status = volume.status()?;
    if status.suspended {
        return Err(suspended(name));
    }
    let folder = args.write_to.clone().or_else(|| {
        let first = status.mounts.first();
        first.filter(|_| !status.read_only).map(Into::into)
    });
    let write = match args.overwrite {
        true => Some(WriteFile::device(&volume.node())?),
        false => write_file(args, folder.as_deref())?,
    };
    let mut requests = device(&volume.node(), write.as_ref())?;
    let before = Settings::of_kernel(volume.flags()?);
    let mut tuned = KernelTuned::new(volume, name, &question)?;
    let store = |tuned: &KernelTuned<'_>, settings: &[usize]| {
        let header = match &args.header {
            Some(header) => header.clone(),
            None => volume.header_device()?,
        };
        store(tuned.flags(settings), &status.r#type, &header)
    };
    let volume = Volume {
        name,
        opening,
        before,
        writes: write.is_some(),
    };
    tune(args, &volume, &mut tuned, &mut requests, store)
}

fn of_scrim(args: &TuneArgs, name: &VolumeName, client: Client) -> Result<ExitCode, CliError> {
    refuse_key_options(&args.again, name)?;
    if args.overwrite {
        return Err(CliError::usage(format!(
            "{}: --overwrite is for volumes that the kernel runs; --write-to names a folder on the volume's file system",
            name.as_str()
        )));
    }
    if args.persistent {
        return Err(CliError::usage(format!(
            "{}: a data path is no flag of the header; leave --persistent out, and give --data-path to `open`",
            name.as_str()
        )));
    }
    let status = client.status()?;
    let go_back = |settings: &Settings| match settings {
        Settings::Scrim { data_path } => {
            let path = data_path.parse().unwrap_or_default();
            ScrimTuned::new(name, &status).set(path)
        }
        Settings::Kernel { .. } => Ok(()),
    };
    let opening = tune::opening(name)?;
    if args.undo {
        return undo(name, &opening, go_back);
    }
    if go_back_if_killed(name, &opening, go_back)? {
        return tune_named(args, name);
    }
    if status.suspended {
        return Err(suspended(name));
    }
    let mounts = status.mounts.iter();
    let mount = mounts
        .filter(|mount| !mount.read_only && mount.file_system != "raw")
        .map(|mount| mount.directory.clone())
        .next();
    let folder = args.write_to.clone().or(mount);
    let write = write_file(args, folder.as_deref())?;
    let mut requests = Targets::new(plaintext(name)?, write.as_ref())?;
    let before = Settings::Scrim {
        data_path: status.data_path.clone(),
    };
    let mut tuned = ScrimTuned::new(name, &status);
    let volume = Volume {
        name,
        opening,
        before,
        writes: write.is_some(),
    };
    tune(args, &volume, &mut tuned, &mut requests, |_, _| Ok(()))
}

/// A volume that is to be measured.
struct Volume<'a> {
    name: &'a VolumeName,
    /// Identity of its opening.
    opening: String,
    /// Settings that it has.
    before: Settings,
    /// True if there is a file for loads that write.
    writes: bool,
}

/// Measures, reports, and leaves the volume as it is asked for.
fn tune<T: Tuned>(
    args: &TuneArgs,
    volume: &Volume<'_>,
    tuned: &mut T,
    requests: &mut dyn Requests,
    store: impl FnOnce(&T, &[usize]) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    let plan = TunePlan {
        settings: tuned.settings(),
        loads: loads(volume.writes),
        slice: Duration::from_secs_f64(args.seconds / args.rounds as f64),
    };
    let interruption = Interruption::listen()?;
    let mut record = Record {
        opening: volume.opening.clone(),
        phase: Phase::Measuring,
        before: volume.before.clone(),
    };
    record.write(volume.name)?;
    let mut study = Study::new(machine(), args.rounds);
    let measured = watched("tune", &interruption, |watch| {
        measure(tuned, requests, &plan, &mut study, watch)
    });
    tuned.restore()?;
    Record::remove(volume.name);
    let outcome = measured?;
    let report = study.finish();
    show(args, tuned, &outcome, &report)?;
    let Some(r#use) = args.apply.filter(|_| !interruption.came()) else {
        return Ok(interruption.exit_code());
    };
    let advice = outcome.advice(r#use.into());
    if advice.settings.is_empty() && !advice.cannot_tell.is_empty() {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{}: nothing is applied, because the measurement cannot tell; give more --rounds or --seconds, or let \
                 nothing else use the disk",
                volume.name.as_str()
            ),
        ));
    }
    record.phase = Phase::Applied;
    record.write(volume.name)?;
    tuned.choose(&advice.settings)?;
    if args.persistent {
        store(tuned, &advice.settings)?;
    }
    note(format_args!(
        "{0}: applied; `scrim tune {0} --undo` goes back",
        volume.name.as_str()
    ));
    Ok(ExitCode::SUCCESS)
}

fn show<T: Tuned>(
    args: &TuneArgs,
    tuned: &T,
    outcome: &TuneOutcome,
    report: &Report,
) -> Result<(), CliError> {
    if args.json {
        let mut value = report.to_json();
        value["advice"] = advice_json(outcome, tuned);
        return print_json_text(&value.to_string());
    }
    let width = columns(stdout()).min(WIDEST);
    let text = format!(
        "{}\n{}\n{}",
        outcome.table(),
        outcome.chart(width, ink()),
        advice_text(outcome, tuned)
    );
    print(text.as_bytes())?;
    for warning in &report.warnings {
        note(format_args!("scrim: warning: {warning}"));
    }
    Ok(())
}

/// Advice for each use: names of settings, the sentence, and the lines that set them.
fn advice_json<T: Tuned>(outcome: &TuneOutcome, tuned: &T) -> Value {
    let uses = Use::ALL.into_iter().map(|r#use| {
        let advice = outcome.advice(r#use);
        let names: Vec<&str> = advice
            .settings
            .iter()
            .map(|&index| outcome.settings[index].name.as_str())
            .collect();
        let value = json!({
            "settings": names,
            "cannot_tell": !advice.cannot_tell.is_empty(),
            "text": sentence(outcome, &advice),
            "commands": tuned.commands(&advice.settings),
        });
        (r#use.name().to_owned(), value)
    });
    Value::Object(uses.collect())
}

/// Stores flags in the header.
fn store(flags: OpenFlags, r#type: &str, header: &Path) -> Result<(), CliError> {
    if r#type != "LUKS2" {
        return Err(CliError::usage(format!(
            "the flags are active, but {type} has no place for them; leave --persistent out"
        )));
    }
    // A LUKS2 header has no place for it.
    let storable = OpenFlags {
        high_priority: false,
        ..flags
    };
    HeaderChange::read(header)?
        .edit(&[persistent(storable)])
        .map_err(|error| error.within("the flags are active, but not stored in the header"))
}

/// Makes the file for loads that write; none where no folder is known, or writes are left out.
fn write_file(args: &TuneArgs, folder: Option<&Path>) -> Result<Option<WriteFile>, CliError> {
    match folder.filter(|_| !args.no_writes) {
        Some(folder) => WriteFile::create(folder).map(Some),
        None => {
            if !args.no_writes {
                note(format_args!(
                    "scrim: writes are not measured, because the volume is not mounted for writing here; --write-to \
                     names a folder on its file system"
                ));
            }
            Ok(None)
        }
    }
}

/// Goes back to the settings in the record.
fn undo(
    name: &VolumeName,
    opening: &str,
    go_back: impl FnOnce(&Settings) -> Result<(), CliError>,
) -> Result<ExitCode, CliError> {
    let Some(record) = Record::read(name, opening)? else {
        return Err(CliError::usage(format!(
            "{}: tune has changed nothing, so there is nothing to undo",
            name.as_str()
        )));
    };
    go_back(&record.before)?;
    Record::remove(name);
    Ok(ExitCode::SUCCESS)
}

/// Goes back to the settings before a tune that was killed. Returns whether there was one.
fn go_back_if_killed(
    name: &VolumeName,
    opening: &str,
    go_back: impl FnOnce(&Settings) -> Result<(), CliError>,
) -> Result<bool, CliError> {
    match Record::read(name, opening)? {
        Some(Record {
            phase: Phase::Measuring,
            before,
            ..
        }) => {
            note(format_args!(
                "scrim: {}: an earlier tune did not end; the volume gets its old settings back first",
                name.as_str()
            ));
            go_back(&before)?;
            Record::remove(name);
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn suspended(name: &VolumeName) -> CliError {
    CliError::new(
        Exit::Busy,
        format!(
            "{0} is suspended; resume it first (scrim resume {0})",
            name.as_str()
        ),
    )
}

/// The plaintext of a volume that Scrim's own engine runs.
fn plaintext(name: &VolumeName) -> Result<Storage, CliError> {
    let socket = RuntimeDir::locate().nbd_socket(name);
    if !socket.exists() {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{}: the volume is not served on a socket of its own here, so that its data path cannot be measured",
                name.as_str()
            ),
        ));
    }
    let uri = Uri {
        endpoint: Endpoint::Unix(socket),
        tls: None,
        export: String::new(),
    };
    let address = std::path::PathBuf::from(uri.to_string());
    Ok(Storage::open_for_volume(
        &address,
        scrim_backend::Access::ReadOnly,
        Manner::default(),
    )?)
}
