//! `scrim snapshot`: an open volume that holds its requests while another program takes a snapshot of its storage.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use scrim_foreign::Foreign;
use scrim_sys::program::find;

use crate::args::{SnapshotArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::kernel::KernelVolume;
use crate::nbd::control::{Client, Request};
use crate::nbd::runtime::RuntimeDir;
use crate::process::child::wait_unless;
use crate::process::interruption::Interruption;
use crate::running_volume::RunningVolume;
use crate::terminal::note;

/// Time for a program to end that was asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A volume whose requests are held.
enum Held<'a> {
    Scrim(&'a VolumeName),
    Kernel(KernelVolume),
}

/// End of the program that takes the snapshot.
enum Ending {
    Itself(ExitStatus),
    /// Ended by this process, because its time was over.
    TimeOver,
    /// Ended by this process, which was asked to end itself.
    Interrupted,
}

pub(crate) fn run(args: &SnapshotArgs) -> Result<ExitCode, CliError> {
    let interruption = Interruption::listen()?;
    let mut command = command(args)?;
    let limit = Duration::from_secs(args.hold_limit.into());
    let held = hold(args, &mut command)?;
    let began = Instant::now();
    let ending = carry_out(&mut command, began + limit, &interruption);
    // In any case, and before anything is reported.
    let released = held.release();
    let took = began.elapsed().as_secs_f64();
    let name = args.name.as_str();
    let ending = match ending {
        Ok(ending) => ending,
        // That requests are still held says more than that the command did not run.
        Err(error) => return released.and(Err(error)),
    };
    match ending {
        Ending::Interrupted => {
            released?;
            note(format_args!("scrim: {name}: interrupted; requests go on"));
            Ok(interruption.exit_code())
        }
        Ending::TimeOver => {
            // A process of Scrim's ends the hold by itself, maybe a moment before.
            if let Held::Kernel(_) = held {
                released?;
            }
            Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{name}: the command has not ended within {} s, so it was ended, and requests go on; delete what it \
                     made, or allow more time with --hold-limit",
                    args.hold_limit
                ),
            ))
        }
        Ending::Itself(status) if status.success() => {
            released.map_err(|error| {
                error.followed_by("; delete the snapshot, and take another one")
            })?;
            note(format_args!(
                "scrim: {name}: requests were held for {took:.2} s"
            ));
            Ok(ExitCode::SUCCESS)
        }
        Ending::Itself(status) => {
            released?;
            note(format_args!(
                "scrim: {name}: the command failed ({status}), and requests go on"
            ));
            Ok(code_of(status))
        }
    }
}

/// Checks that the program is there, before any request is held.
fn command(args: &SnapshotArgs) -> Result<Command, CliError> {
    let (program, arguments) = args
        .command
        .split_first()
        .ok_or_else(|| CliError::usage("no command is given"))?;
    let path = match Path::new(program).components().count() {
        1 => program.to_str().and_then(find),
        _ => Path::new(program).is_file().then(|| program.into()),
    };
    let path = path.ok_or_else(|| {
        CliError::usage(format!(
            "{}: no such program",
            Foreign::new(program.as_encoded_bytes())
        ))
    })?;
    let mut command = Command::new(path);
    command.arg0(program).args(arguments).stdin(Stdio::null());
    // So that all of it can be ended, and Ctrl-C reaches this process first.
    command.process_group(0);
    command.env("SCRIM_NAME", args.name.as_str());
    Ok(command)
}

/// Holds the requests, and tells the command where the storage is.
fn hold<'a>(args: &'a SnapshotArgs, command: &mut Command) -> Result<Held<'a>, CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => {
            command.env("SCRIM_DEVICE", client.status()?.device);
            let client = Client::connect(&RuntimeDir::locate(), &args.name)?;
            let remarks = client.ask(Request::Hold(args.hold_limit))?;
            for remark in String::from_utf8_lossy(remarks.expose()).lines() {
                note(format_args!("scrim: {remark}"));
            }
            Ok(Held::Scrim(&args.name))
        }
        RunningVolume::Kernel(volume) => {
            let status = volume.status()?;
            if status.suspended || status.inactive_table {
                return Err(is_changing(&args.name));
            }
            command.env("SCRIM_DEVICE", status.device);
            volume.suspend()?;
            Ok(Held::Kernel(volume))
        }
    }
}

/// The error for a volume whose requests are held, or would go on with another table.
fn is_changing(name: &VolumeName) -> CliError {
    let name = name.as_str();
    CliError::new(
        Exit::Busy,
        format!(
            "{name} is suspended, or has a loaded table; `scrim resume {name}` or `scrim clear {name}` first"
        ),
    )
}

impl Held<'_> {
    /// Lets requests go on.
    fn release(&self) -> Result<(), CliError> {
        match self {
            Self::Scrim(name) => {
                let client = Client::connect(&RuntimeDir::locate(), name)?;
                client.ask(Request::Release).map(drop)
            }
            Self::Kernel(volume) => volume.resume(),
        }
    }
}

/// Runs the program until it ends, its time is over or this process is asked to end.
fn carry_out(
    command: &mut Command,
    deadline: Instant,
    interruption: &Interruption,
) -> Result<Ending, CliError> {
    let fail = |error: std::io::Error| CliError::io("run the command", &error);
    let mut child = command.spawn().map_err(fail)?;
    let is_over = || interruption.came() || Instant::now() >= deadline;
    if let Some(status) = wait_unless(&mut child, is_over).map_err(fail)? {
        return Ok(Ending::Itself(status));
    }
    end(&mut child).map_err(fail)?;
    Ok(match interruption.came() {
        true => Ending::Interrupted,
        false => Ending::TimeOver,
    })
}

/// Ends a program and those that it has started.
fn end(child: &mut Child) -> std::io::Result<()> {
    let group = Pid::from_child(child);
    // A group that has gone needs no signal.
    let _ = kill_process_group(group, Signal::TERM);
    let killed = Instant::now() + GRACE;
    wait_unless(child, || Instant::now() >= killed)?;
    let _ = kill_process_group(group, Signal::KILL);
    let gone = Instant::now() + GRACE;
    wait_unless(child, || Instant::now() >= gone).map(drop)
}

/// Exit code as a shell shows it.
fn code_of(status: ExitStatus) -> ExitCode {
    let number = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(number).unwrap_or(u8::MAX))
}
