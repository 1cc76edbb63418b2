//! `scrim open IMAGE NAME`.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use scrim_backend::{Access, Backend};
use scrim_luks::{Edit, Flag, Header, Placement};
use scrim_sys::activation::take_listen_fds;
use scrim_sys::memory::{Locking, locking};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTable, DataPath, LuksDevice, LuksError, OpenFlags, Volume};

use super::{note, print, warn_of_failed_self_tests};
use crate::args::{HeaderOnlyArgs, IoEngine, KeyArgs, LuksType, OpenArgs, TestArgs};
use crate::backup_record;
use crate::control::find;
use crate::daemon::{self, Daemon};
use crate::derivation::CostLimits;
use crate::device;
use crate::devices::Devices;
use crate::error::{CliError, Exit};
use crate::header_change::HeaderChange;
use crate::notify::Manager;
use crate::runtime::{RuntimeDir, VolumeName};
use crate::secret_input::KeySource;
use crate::service::{Bound, Origin, Service};
use crate::serving::Serving;
use crate::signals::Hangup;
use crate::storage::{Manner, Storage, absolute, is_remote};
use crate::table_input::table_text;
use crate::transfer::refuse_unfinished;
use crate::unlock::{Asking, check_type, read_luks, unlock};

pub(crate) const NOT_LOCKED: &str = "not every key is locked in memory and may reach swap; raise \
                                     the limit (ulimit -l), or encrypt the swap space";

pub(crate) fn run(args: &OpenArgs) -> Result<(), CliError> {
    if args.test_passphrase {
        return super::test_passphrase::check(&as_test(args), args.r#type);
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
        None => from_luks(&Wanted::by(args, manner))?,
    };
    if locking() == Locking::Incomplete {
        note(format_args!("scrim: warning: {NOT_LOCKED}"));
    }
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

/// A LUKS volume that is to be opened, by the options of `open`.
pub(crate) struct Wanted<'a> {
    pub(crate) image: &'a Path,
    pub(crate) r#type: LuksType,
    pub(crate) readonly: bool,
    pub(crate) header: Option<&'a Path>,
    pub(crate) key_slot: Option<u8>,
    pub(crate) flags: OpenFlags,
    /// True if the flags are to be stored in the header.
    pub(crate) persistent: bool,
    pub(crate) tries: u32,
    pub(crate) key: &'a KeyArgs,
    pub(crate) manner: Manner,
    pub(crate) data_path: DataPath,
}

impl<'a> Wanted<'a> {
    fn by(args: &'a OpenArgs, manner: Manner) -> Self {
        Self {
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
}

/// Limits of a key derivation. For a header on a server the time limit of requests also limits the derivation.
fn cost_limits(wanted: &Wanted, header: &Path) -> CostLimits {
    let asked = wanted.key.source().cost;
    let timeout = wanted.manner.timeout.filter(|_| is_remote(header));
    CostLimits {
        time: asked.time.or(timeout),
        ..asked
    }
}

/// A volume that is open but not served yet.
pub(crate) struct Opened {
    pub(crate) volume: Volume,
    pub(crate) origin: Origin,
    /// Due change of the header; `None` if nothing is to be changed, as when the volume is only read.
    update: Option<Update>,
}

/// A change of the header that is due once it is certain that the volume can be used.
struct Update {
    header: Arc<Storage>,
    repair: bool,
    /// Flags to be stored.
    flags: Option<OpenFlags>,
}

impl Update {
    fn carry_out(&self) -> Result<(), CliError> {
        if self.repair {
            repair(&self.header);
        }
        self.flags
            .map_or(Ok(()), |flags| make_persistent(flags, &self.header))
    }
}

/// Opens a LUKS volume, asking for its passphrase.
pub(crate) fn from_luks(wanted: &Wanted) -> Result<Opened, CliError> {
    let image = absolute(wanted.image)?;
    if !is_remote(&image) {
        refuse_unfinished(&image)?;
    }
    // The lock comes first, so that no passphrase is asked for if the image is refused.
    let devices = Devices::new(wanted.readonly, wanted.manner);
    let data = devices.open_image(&image)?;
    let writable = !data.info().read_only;
    let detached = match wanted.header {
        Some(path) => {
            let path = absolute(path)?;
            Some(Arc::new(Storage::open_shared(&path, Access::ReadOnly)?))
        }
        None => None,
    };
    let placement = match detached {
        Some(_) => Placement::Detached,
        None => Placement::Attached,
    };
    let header = detached.as_ref().unwrap_or(&data);
    let luks = read_luks(&**header, header.path())?;
    check_type(luks.header(), wanted.r#type, header.path())?;
    let shown = wanted.image.display().to_string();
    judge_cipher(luks.header(), is_remote(&image), &shown)?;
    if wanted.persistent && luks.header().version() == 1 {
        return Err(CliError::usage(format!(
            "{shown}: LUKS1 has no persistent flags; leave --persistent out, or convert the header \
             to LUKS2"
        )));
    }
    if wanted.persistent {
        check_storable(wanted.flags)?;
    }
    let asking = Asking {
        question: &format!("Enter passphrase for {shown}: "),
        key: KeySource {
            cost: cost_limits(wanted, header.path()),
            ..wanted.key.source()
        },
        tries: wanted.tries,
    };
    let (unlocked, _) = unlock(&luks, &**header, &shown, wanted.key_slot, &asking)?;
    if let Some(warning) = backup_record::warning(luks.header()) {
        let header = header.path().display();
        note(format_args!("scrim: warning: {header}: {warning}"));
    }
    let device = device::name_in_table(&image);
    let size = data.info().size;
    let table = luks
        .table(unlocked.key, &device, size, placement, wanted.flags)
        .map_err(|error| CliError::from(error).within(&shown))?;
    let volume = Volume::start(table, wanted.data_path, |_| {
        Ok(Arc::clone(&data) as Arc<dyn Backend>)
    })?;
    let update = Update {
        header: Arc::clone(header),
        repair: writable && luks.needs_repair(),
        flags: wanted.persistent.then_some(wanted.flags),
    };
    let is_due = update.repair || update.flags.is_some();
    let origin = Origin {
        r#type: format!("LUKS{}", luks.header().version()),
        uuid: luks.header().uuid().raw().to_owned(),
        header: detached.map(|header| header.path().display().to_string()),
        devices,
    };
    Ok(Opened {
        volume,
        origin,
        update: is_due.then_some(update),
    })
}

/// Refuses a volume on a server whose header asks for no encryption, and warns of a local one. A header has no
/// signature: anyone who can write it can have data stored as plaintext.
fn judge_cipher(header: &Header, remote: bool, shown: &str) -> Result<(), CliError> {
    let segment = header.data_segment().map_err(LuksError::from)?;
    if !segment.cipher.is_null() {
        return Ok(());
    }
    if remote {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{shown}: by its header the volume is not encrypted (cipher_null), and its server would \
                 see all that is written: restore the header from a backup"
            ),
        ));
    }
    note(format_args!(
        "scrim: warning: {shown}: the volume is not encrypted (cipher_null): whoever has it can read it"
    ));
    Ok(())
}

/// Rewrites the worse copy of the header, as cryptsetup does. The volume opens without it, so that
/// a failure is only worth a warning.
fn repair(header: &Storage) {
    let place = header.path().display();
    let repaired = if header.info().read_only {
        Storage::open_shared(header.path(), Access::ReadWrite)
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
fn make_persistent(asked: OpenFlags, header: &Arc<Storage>) -> Result<(), CliError> {
    // A server may have one connection for each client.
    let change = match header.info().read_only {
        true => HeaderChange::read(header.path())?,
        false => HeaderChange::on(Arc::clone(header))?,
    };
    change.edit(&[persistent(asked)])
}

/// Refuses what would be at work now and forgotten when the volume is opened next.
pub(super) fn check_storable(flags: OpenFlags) -> Result<(), CliError> {
    if flags.high_priority {
        return Err(CliError::usage(
            "a LUKS2 header has no place for --perf-high_priority; leave it or --persistent out",
        ));
    }
    Ok(())
}

/// The change of a header that stores these flags, and no others.
pub(super) fn persistent(flags: OpenFlags) -> Edit {
    let set = [
        (flags.allow_discards, Flag::AllowDiscards),
        (flags.same_cpu_crypt, Flag::SameCpuCrypt),
        (flags.submit_from_crypt_cpus, Flag::SubmitFromCryptCpus),
        (flags.no_read_workqueue, Flag::NoReadWorkqueue),
        (flags.no_write_workqueue, Flag::NoWriteWorkqueue),
    ];
    let set = set.into_iter().filter(|(set, _)| *set);
    Edit::Flags(set.map(|(_, flag)| flag).collect())
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

fn from_table(
    given: &OsStr,
    readonly: bool,
    manner: Manner,
    path: DataPath,
) -> Result<Opened, CliError> {
    let text = table_text(given)?;
    let text =
        std::str::from_utf8(text.expose()).map_err(|_| CliError::usage("the table is not text"))?;
    let devices = Devices::new(readonly, manner);
    let volume = Volume::start(CryptTable::parse(text)?, path, |name| devices.open(name))?;
    let origin = Origin {
        r#type: "TABLE".to_owned(),
        uuid: String::new(),
        header: None,
        devices,
    };
    Ok(Opened {
        volume,
        origin,
        update: None,
    })
}

fn flags(args: &OpenArgs) -> OpenFlags {
    args.perf.flags(args.allow_discards)
}
