//! `scrim open IMAGE NAME`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use scrim_backend::{Access, Backend, BackendError, FileBackend};
use scrim_export::nbd::Address;
use scrim_luks::{Edit, Flag, Placement};
use scrim_sys::memory::{Locking, SecretBytes, locking};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTable, LuksDevice, LuksError, OpenFlags, Volume};

use super::{note, print, warn_of_failed_self_tests};
use crate::args::{
    DirectIo, HeaderOnlyArgs, IoEngine, KeyArgs, LuksType, OpenArgs, PerfArgs, TestArgs,
};
use crate::backup_record;
use crate::control::find;
use crate::daemon::Daemon;
use crate::device;
use crate::error::{CliError, Exit};
use crate::header_change::HeaderChange;
use crate::runtime::{RuntimeDir, VolumeName};
use crate::secret_input::{read_up_to, standard_input};
use crate::service::{Origin, Service};
use crate::transfer::refuse_unfinished;
use crate::unlock::{Asking, check_type, read_luks, unlock};

pub(crate) const NOT_LOCKED: &str = "not every key is locked in memory and may reach swap; raise \
                                     the limit (ulimit -l), or encrypt the swap space";

pub(crate) fn run(args: &OpenArgs) -> Result<(), CliError> {
    if args.test_passphrase {
        return super::test_passphrase::check(&as_test(args), args.r#type);
    }
    let direct_io = direct_io(args)?;
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
    // Before any secret is read.
    let daemon = if args.foreground {
        None
    } else {
        Some(Daemon::start()?)
    };
    let (volume, origin) = match &args.table {
        Some(file) => from_table(file, args.readonly, direct_io)?,
        None => from_luks(&Wanted::by(args, direct_io))?,
    };
    if locking() == Locking::Incomplete {
        note(format_args!("scrim: warning: {NOT_LOCKED}"));
    }
    warn_of_failed_self_tests();
    let address = match &args.nbd {
        None => Address::Unix(runtime.nbd_socket(&name)),
        Some(Address::Unix(path)) => Address::Unix(absolute(path)?),
        Some(tcp) => tcp.clone(),
    };
    let control = runtime.control_socket(&name);
    let engine = engine(args.io_engine, &volume)?;
    let service = Service::start(name, volume, engine, origin, &address, control)?;
    print(format!("{}\n", service.address()).as_bytes())?;
    if let Some(daemon) = daemon {
        daemon.detach()?;
    }
    service.run()
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

/// The volume's name; with `--table`, where no image is named, it stands in the image's place.
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

/// A LUKS volume that is to be opened, by the options of `open`.
pub(super) struct Wanted<'a> {
    pub(super) image: &'a Path,
    pub(super) r#type: LuksType,
    pub(super) readonly: bool,
    pub(super) direct_io: DirectIo,
    pub(super) header: Option<&'a Path>,
    pub(super) key_slot: Option<u8>,
    pub(super) flags: OpenFlags,
    /// Whether the flags are to be stored in the header.
    pub(super) persistent: bool,
    pub(super) tries: u32,
    pub(super) key: &'a KeyArgs,
}

impl<'a> Wanted<'a> {
    fn by(args: &'a OpenArgs, direct_io: DirectIo) -> Self {
        Self {
            image: &args.image,
            r#type: args.r#type,
            readonly: args.readonly,
            direct_io,
            header: args.header.as_deref(),
            key_slot: args.key_slot,
            flags: flags(args),
            persistent: args.persistent,
            tries: args.tries,
            key: &args.key,
        }
    }
}

/// Opens a LUKS volume, asking for its passphrase.
pub(super) fn from_luks(wanted: &Wanted) -> Result<(Volume, Origin), CliError> {
    let access = access(wanted.readonly);
    let image = absolute(wanted.image)?;
    refuse_unfinished(&image)?;
    // The lock comes first: who will be refused is not asked for a passphrase.
    let data = Arc::new(storage(&image, access, wanted.direct_io)?);
    let detached = match wanted.header {
        Some(path) => {
            let path = absolute(path)?;
            Some(FileBackend::open_shared(&path, Access::ReadOnly)?)
        }
        None => None,
    };
    let placement = match detached {
        Some(_) => Placement::Detached,
        None => Placement::Attached,
    };
    let header = detached.as_ref().unwrap_or(&data);
    let luks = read_luks(header)?;
    check_type(luks.header(), wanted.r#type, header.path())?;
    let shown = wanted.image.display().to_string();
    if wanted.persistent && luks.header().version() == 1 {
        return Err(CliError::usage(format!(
            "{shown}: LUKS1 has no persistent flags; leave --persistent out, or convert the header \
             to LUKS2"
        )));
    }
    let asking = Asking {
        question: &format!("Enter passphrase for {shown}: "),
        key: wanted.key.source(),
        tries: wanted.tries,
    };
    let (unlocked, _) = unlock(&luks, header, &shown, wanted.key_slot, &asking)?;
    if access == Access::ReadWrite && luks.needs_repair() {
        repair(header);
    }
    if wanted.persistent {
        make_persistent(wanted.flags, header.path())?;
    }
    if let Some(warning) = backup_record::warning(luks.header()) {
        let header = header.path().display();
        note(format_args!("scrim: warning: {header}: {warning}"));
    }
    let device = device::name_in_table(&image);
    let size = data.info().size;
    let table = luks
        .table(unlocked.key, &device, size, placement, wanted.flags)
        .map_err(|error| CliError::from(error).within(&shown))?;
    let data: Arc<dyn Backend> = data;
    let volume = Volume::start(table, |_| Ok(Arc::clone(&data)))?;
    let origin = Origin {
        r#type: format!("LUKS{}", luks.header().version()),
        uuid: luks.header().uuid().to_owned(),
        header: detached.map(|header| header.path().display().to_string()),
    };
    Ok((volume, origin))
}

/// Rewrites the worse copy of the header, as cryptsetup does. The volume opens without it, so that
/// a failure is only worth a warning.
fn repair(header: &FileBackend) {
    let place = header.path().display();
    let repaired = if header.info().read_only {
        FileBackend::open_shared(header.path(), Access::ReadWrite)
            .map_err(LuksError::from)
            .and_then(|writable| LuksDevice::repair(&writable))
    } else {
        LuksDevice::repair(header)
    };
    match repaired {
        Ok(true) => note(format_args!(
            "scrim: {place}: the worse copy of the header was rewritten from the better one"
        )),
        Ok(false) => {}
        Err(error) => note(format_args!(
            "scrim: warning: {place}: the worse copy of the header stays as it is: {error}"
        )),
    }
}

/// Stores the flags that were asked for in the header, in place of those that are there; as in
/// cryptsetup, those still count this time.
fn make_persistent(asked: OpenFlags, header: &Path) -> Result<(), CliError> {
    let set = [
        (asked.allow_discards, Flag::AllowDiscards),
        (asked.same_cpu_crypt, Flag::SameCpuCrypt),
        (asked.submit_from_crypt_cpus, Flag::SubmitFromCryptCpus),
        (asked.no_read_workqueue, Flag::NoReadWorkqueue),
        (asked.no_write_workqueue, Flag::NoWriteWorkqueue),
    ];
    let set = set.into_iter().filter(|(set, _)| *set);
    let edit = Edit::Flags(set.map(|(_, flag)| flag).collect());
    HeaderChange::read(header)?.edit(&[edit])
}

/// Opens what holds the ciphertext.
fn storage(path: &Path, access: Access, direct_io: DirectIo) -> Result<FileBackend, BackendError> {
    let backend = FileBackend::open(path, access)?;
    match direct_io {
        DirectIo::On => backend.past_the_cache(),
        DirectIo::Auto if backend.is_device() => backend.past_the_cache(),
        DirectIo::Auto | DirectIo::Off => Ok(backend),
    }
}

/// Plain calls read and write where the client's bytes lie, which the way past the page cache does not
/// allow.
fn direct_io(args: &OpenArgs) -> Result<DirectIo, CliError> {
    match (args.io_engine, args.direct_io) {
        (IoEngine::Plain, DirectIo::On) => Err(CliError::usage(
            "--io-engine plain goes through the page cache; leave out either that or --direct-io",
        )),
        (IoEngine::Plain, _) => Ok(DirectIo::Off),
        (_, direct_io) => Ok(direct_io),
    }
}

fn engine(asked: IoEngine, volume: &Volume) -> Result<Engine, CliError> {
    match asked {
        IoEngine::Auto => Ok(Engine::for_volume(volume)),
        IoEngine::Plain => Ok(Engine::Plain),
        IoEngine::Threads => Ok(Engine::Threads),
        IoEngine::IoUring if Engine::IoUring.is_allowed() => Ok(Engine::IoUring),
        IoEngine::IoUring => Err(CliError::usage(
            "this system has no io_uring, or forbids it to this process; leave --io-engine out",
        )),
    }
}

fn from_table(
    file: &Path,
    readonly: bool,
    direct_io: DirectIo,
) -> Result<(Volume, Origin), CliError> {
    let text = read_table(file)?;
    let text = std::str::from_utf8(text.expose())
        .map_err(|_| CliError::usage(format!("{} is not text", file.display())))?;
    let volume = Volume::start(CryptTable::parse(text)?, |device| {
        let path = device::path_of(device);
        let backend = storage(&path, access(readonly), direct_io)?;
        Ok::<Arc<dyn Backend>, BackendError>(Arc::new(backend))
    })?;
    let origin = Origin {
        r#type: "TABLE".to_owned(),
        uuid: String::new(),
        header: None,
    };
    Ok((volume, origin))
}

fn read_table(file: &Path) -> Result<SecretBytes, CliError> {
    let fail = |error: io::Error| {
        CliError::io(
            format_args!("read the table from {}", file.display()),
            &error,
        )
    };
    let mut from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(standard_input()?)
    } else {
        Box::new(File::open(file).map_err(fail)?)
    };
    // One byte more, so that a longer one is refused and not cut.
    read_up_to(&mut from, CryptTable::TEXT_MAX + 1).map_err(fail)
}

fn access(readonly: bool) -> Access {
    if readonly {
        Access::ReadOnly
    } else {
        Access::ReadWrite
    }
}

fn flags(args: &OpenArgs) -> OpenFlags {
    let PerfArgs {
        same_cpu_crypt,
        submit_from_crypt_cpus,
        no_read_workqueue,
        no_write_workqueue,
        high_priority,
    } = args.perf;
    OpenFlags {
        allow_discards: args.allow_discards,
        same_cpu_crypt,
        submit_from_crypt_cpus,
        no_read_workqueue,
        no_write_workqueue,
        high_priority,
    }
}

/// The path that the table shows, and that holds when the process has left its folder.
fn absolute(path: &Path) -> Result<std::path::PathBuf, CliError> {
    std::path::absolute(path)
        .map_err(|error| CliError::io(format_args!("find {}", path.display()), &error))
}
