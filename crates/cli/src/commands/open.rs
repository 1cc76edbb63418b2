//! `scrim open IMAGE NAME`: opens a volume, and serves it or hands it to the kernel.

use scrim_sys::activation::take_listen_fds;
use scrim_volume::CryptTable;

use crate::args::{
    DataPathArg, DirectIo, EngineArg, HeaderOnlyArgs, IoEngine, OpenArgs, ServingArgs, TestArgs,
    VolumeName,
};
use crate::commands::test_passphrase;
use crate::error::CliError;
use crate::kernel::{self, KeyPlace, Mapper};
use crate::nbd::runtime::RuntimeDir;
use crate::nbd::service::Service;
use crate::nbd::serving::Serving;
use crate::process::daemon;
use crate::running_volume::refuse_taken;
use crate::storage::Manner;
use crate::terminal::print;
use crate::volume::devices::Devices;
use crate::volume::opening::{
    Opened, Wanted, check_engine, from_luks, from_table, unlock_luks, warn_of_unlocked_keys,
};
use crate::volume::table_input::table_text;

pub(crate) fn run(args: &OpenArgs) -> Result<(), CliError> {
    if args.test_passphrase {
        return test_passphrase::check(&as_test(args), args.unlock.luks.r#type, true);
    }
    if args.engine == EngineArg::Kernel {
        return in_kernel(args);
    }
    if args.disable_keyring {
        return Err(CliError::usage(
            "--disable-keyring is for --engine kernel; Scrim's own engine puts no key into a keyring",
        ));
    }
    if let Some(parent) = args.end_with_parent {
        daemon::end_with_parent(parent)?;
    }
    let unlock = &args.unlock;
    let hosted = Hosted {
        name: volume_name(args)?,
        serving: &args.serving,
        io_engine: unlock.storage.io_engine,
        foreground: args.foreground,
    };
    hosted.serve(|| {
        let wanted = Wanted {
            link: args.link_vk_to_keyring.as_ref(),
            ..Wanted::by(&args.image, unlock)?
        };
        match &args.table {
            Some(given) => {
                let path = unlock.data_path.into();
                from_table(given, unlock.readonly, wanted.manner, path)
            }
            None => from_luks(&wanted),
        }
    })
}

/// A volume that a process of Scrim's serves.
pub(super) struct Hosted<'a> {
    pub(super) name: VolumeName,
    pub(super) serving: &'a ServingArgs,
    pub(super) io_engine: IoEngine,
    pub(super) foreground: bool,
}

impl Hosted<'_> {
    /// Serves what `open` opens, in the background if that is wanted, until it is closed.
    pub(super) fn serve(
        self,
        open: impl FnOnce() -> Result<Opened, CliError>,
    ) -> Result<(), CliError> {
        // This comes before the process opens any file of its own.
        let handed_on = take_listen_fds().map_err(|error| CliError::usage(error.to_string()))?;
        let Self {
            name, io_engine, ..
        } = self;
        check_engine(io_engine)?;
        let runtime = RuntimeDir::locate();
        runtime.ensure()?;
        refuse_taken(&name)?;
        let (daemon, hangup, manager) = daemon::begin(self.foreground)?;
        let serving = Serving::by(self.serving, handed_on, runtime.nbd_socket(&name))?;
        let opened = open()?;
        let control = runtime.control_socket(&name);
        let service = Service::open(name, opened, io_engine, control, serving, hangup)?;
        print((service.addresses().join("\n") + "\n").as_bytes())?;
        if let Some(daemon) = daemon {
            daemon.detach()?;
        }
        service.run(&manager)
    }
}

/// Opens a volume as a block device of the kernel.
fn in_kernel(args: &OpenArgs) -> Result<(), CliError> {
    refuse_served(args)?;
    // Before a passphrase is asked for.
    let mapper = Mapper::open()?;
    let name = volume_name(args)?;
    refuse_taken(&name)?;
    let unlock = &args.unlock;
    let node = match &args.table {
        Some(given) => {
            let text = table_text(given)?;
            let text = std::str::from_utf8(text.expose())
                .map_err(|_| CliError::usage("the table is not text"))?;
            let devices = Devices::new(unlock.readonly, Manner::default());
            let table = CryptTable::parse(text)?;
            kernel::open_table(&mapper, &name, table, &devices, unlock.readonly, None)?
        }
        None => {
            let wanted = Wanted {
                manner: Manner::default(),
                link: args.link_vk_to_keyring.as_ref(),
                ..Wanted::by(&args.image, unlock)?
            };
            let place = match args.disable_keyring {
                true => KeyPlace::Table,
                false => KeyPlace::Keyring,
            };
            kernel::open_luks(&mapper, &name, unlock_luks(&wanted)?, place)?
        }
    };
    warn_of_unlocked_keys();
    print(format!("{}\n", node.display()).as_bytes())
}

/// Refuses options for serving a volume, which the kernel's engine does not do.
fn refuse_served(args: &OpenArgs) -> Result<(), CliError> {
    let (serving, storage) = (&args.serving, &args.unlock.storage);
    let given = [
        ("--nbd", serving.nbd.is_some()),
        ("--tls-cert", serving.tls_cert.is_some()),
        ("--insecure-plaintext", serving.insecure_plaintext),
        ("--metrics", serving.metrics.is_some()),
        ("--foreground", args.foreground),
        ("--data-path", args.unlock.data_path != DataPathArg::Auto),
        ("--io-engine", storage.io_engine != IoEngine::Auto),
        ("--direct-io", storage.direct_io != DirectIo::Auto),
        ("--nbd-connections", storage.nbd_connections.is_some()),
        ("--nbd-timeout", storage.nbd_timeout.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(CliError::usage(format!(
            "{option} is for Scrim's own engine; leave it or --engine kernel out"
        ))),
        None => Ok(()),
    }
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
        unbound: args.unbound,
        tries: luks.tries,
        key: luks.key.clone(),
        volume_key: luks.volume_key.clone(),
        token: luks.token.clone(),
        link_vk_to_keyring: args.link_vk_to_keyring.clone(),
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
