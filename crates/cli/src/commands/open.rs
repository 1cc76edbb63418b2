//! `scrim open IMAGE NAME`: opens a volume and serves it.

use scrim_sys::activation::take_listen_fds;
use scrim_volume::queue::Engine;
use scrim_volume::{OpenFlags, Volume};

use crate::args::{HeaderOnlyArgs, IoEngine, OpenArgs, TestArgs, VolumeName};
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::commands::test_passphrase;
use crate::error::{CliError, Exit};
use crate::nbd::control::find;
use crate::nbd::runtime::RuntimeDir;
use crate::nbd::service::{Bound, Service};
use crate::nbd::serving::Serving;
use crate::process::daemon::{self, Daemon};
use crate::process::service_manager::Manager;
use crate::process::signals::Hangup;
use crate::storage::Manner;
use crate::terminal::print;
use crate::volume::opening::{Opened, Wanted, from_luks, from_table, warn_of_unlocked_keys};

pub(crate) fn run(args: &OpenArgs) -> Result<(), CliError> {
    if args.test_passphrase {
        return test_passphrase::check(&as_test(args), args.r#type);
    }
    if let Some(parent) = args.end_with_parent {
        daemon::end_with_parent(parent)?;
    }
    // This comes before the process opens any file of its own.
    let handed_on = take_listen_fds().map_err(|error| CliError::usage(error.to_string()))?;
    let manner = args.storage.manner()?;
    check_engine(args.storage.io_engine)?;
    let runtime = RuntimeDir::locate();
    runtime.ensure()?;
    let name = volume_name(args)?;
    if find(&runtime, &name)?.is_some() {
        let name = name.as_str();
        return Err(CliError::new(
            Exit::Busy,
            format!("a volume named {name} is open already; close it, or choose another name"),
        ));
    }
    // This comes before any secret is read.
    let (daemon, hangup, manager) = if args.foreground {
        (None, Hangup::here(), Manager::of_this_process())
    } else {
        (Some(Daemon::start()?), Hangup::Reloads, Manager::nobody())
    };
    let serving = Serving::by(&args.serving, handed_on, runtime.nbd_socket(&name))?;
    let Opened {
        volume,
        origin,
        update,
    } = match &args.table {
        Some(given) => from_table(given, args.readonly, manner, args.data_path.into())?,
        None => from_luks(&wanted(args, manner))?,
    };
    warn_of_unlocked_keys();
    warn_of_failed_self_tests();
    let control = runtime.control_socket(&name);
    let engine = engine(args.storage.io_engine, &volume);
    let bound = Bound::bind(control, serving, hangup)?;
    // If the volume cannot be served, its header is not changed.
    if let Some(update) = update {
        update.carry_out()?;
    }
    let service = Service::start(name, volume, engine, origin, bound)?;
    print((service.addresses().join("\n") + "\n").as_bytes())?;
    if let Some(daemon) = daemon {
        daemon.detach()?;
    }
    service.run(&manager)
}

/// `open --test-passphrase`, cryptsetup's way to say `test-passphrase`.
fn as_test(args: &OpenArgs) -> TestArgs {
    TestArgs {
        on: HeaderOnlyArgs {
            image: args.image.clone(),
            header: args.header.clone(),
        },
        key_slot: args.key_slot,
        tries: args.tries,
        key: args.key.clone(),
    }
}

/// The volume's name. With `--table` no image is named, so that the name stands in the image's place.
fn volume_name(args: &OpenArgs) -> Result<VolumeName, CliError> {
    match &args.name {
        Some(name) => Ok(name.clone()),
        None => args
            .image
            .to_str()
            .unwrap_or_default()
            .parse()
            .map_err(CliError::usage),
    }
}

fn check_engine(asked: IoEngine) -> Result<(), CliError> {
    if asked == IoEngine::IoUring && !Engine::IoUring.is_allowed() {
        return Err(CliError::usage(
            "this system has no io_uring, or forbids it to this process; leave --io-engine out",
        ));
    }
    Ok(())
}

fn engine(asked: IoEngine, volume: &Volume) -> Engine {
    match asked {
        IoEngine::Auto => Engine::for_volume(volume),
        IoEngine::Plain => Engine::Plain,
        IoEngine::Threads => Engine::Threads,
        IoEngine::IoUring => Engine::IoUring,
    }
}

fn wanted(args: &OpenArgs, manner: Manner) -> Wanted<'_> {
    Wanted {
        image: &args.image,
        r#type: args.r#type,
        readonly: args.readonly,
        header: args.header.as_deref(),
        key_slot: args.key_slot,
        flags: flags(args),
        persistent: args.persistent,
        tries: args.tries,
        key: &args.key,
        manner,
        data_path: args.data_path.into(),
    }
}

fn flags(args: &OpenArgs) -> OpenFlags {
    args.perf.flags(args.allow_discards)
}
