//! `scrim open IMAGE NAME`: opens a volume and serves it.

use scrim_sys::activation::take_listen_fds;

use crate::args::{HeaderOnlyArgs, OpenArgs, TestArgs, VolumeName};
use crate::commands::test_passphrase;
use crate::error::{CliError, Exit};
use crate::nbd::control::find;
use crate::nbd::runtime::RuntimeDir;
use crate::nbd::service::Service;
use crate::nbd::serving::Serving;
use crate::process::daemon;
use crate::terminal::print;
use crate::volume::opening::{Wanted, check_engine, from_luks, from_table};

pub(crate) fn run(args: &OpenArgs) -> Result<(), CliError> {
    if args.test_passphrase {
        return test_passphrase::check(&as_test(args), args.unlock.luks.r#type);
    }
    if let Some(parent) = args.end_with_parent {
        daemon::end_with_parent(parent)?;
    }
    // This comes before the process opens any file of its own.
    let handed_on = take_listen_fds().map_err(|error| CliError::usage(error.to_string()))?;
    let unlock = &args.unlock;
    let wanted = Wanted::by(&args.image, unlock)?;
    check_engine(unlock.storage.io_engine)?;
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
    let (daemon, hangup, manager) = daemon::begin(args.foreground)?;
    let serving = Serving::by(&args.serving, handed_on, runtime.nbd_socket(&name))?;
    let opened = match &args.table {
        Some(given) => from_table(
            given,
            unlock.readonly,
            wanted.manner,
            unlock.data_path.into(),
        )?,
        None => from_luks(&wanted)?,
    };
    let control = runtime.control_socket(&name);
    let io_engine = unlock.storage.io_engine;
    let service = Service::open(name, opened, io_engine, control, serving, hangup)?;
    print((service.addresses().join("\n") + "\n").as_bytes())?;
    if let Some(daemon) = daemon {
        daemon.detach()?;
    }
    service.run(&manager)
}

/// `open --test-passphrase`, cryptsetup's way to say `test-passphrase`.
fn as_test(args: &OpenArgs) -> TestArgs {
    let luks = &args.unlock.luks;
    TestArgs {
        on: HeaderOnlyArgs {
            image: args.image.clone(),
            header: luks.header.clone(),
            window: luks.window,
        },
        key_slot: luks.key_slot,
        tries: luks.tries,
        key: luks.key.clone(),
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
