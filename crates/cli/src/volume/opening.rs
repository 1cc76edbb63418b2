//! Opening of a volume: from a LUKS header, with its passphrase, or from a table.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use scrim_backend::{Access, Backend};
use scrim_luks::{Edit, Flag, Header, Placement};
use scrim_sys::memory::{Locking, locking};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTable, DataPath, LuksDevice, LuksError, OpenFlags, Volume};

use crate::args::{IoEngine, KeyLink, LuksArgs, UnlockArgs};
use crate::error::{CliError, Exit};
use crate::luks::backup_record;
use crate::luks::derivation::CostLimits;
use crate::luks::header::{check_type, read_luks};
use crate::luks::header_change::HeaderChange;
use crate::luks::kernel_key::{DueLink, KeyTaker};
use crate::luks::key_source::KeySource;
use crate::luks::reencryption;
use crate::luks::unlock::{Asking, OtherKeys};
use crate::storage::{Manner, Storage, VolumePlace, absolute, device_names, is_remote, place_of};
use crate::terminal::note;
use crate::transfer::refuse_unfinished;
use crate::volume::devices::Devices;
use crate::volume::table_input::table_text;

/// Warning of keys that may reach swap space.
pub(crate) const NOT_LOCKED: &str = "not every key is locked in memory and may reach swap; raise \
                                     the limit (ulimit -l), or encrypt the swap space";

/// Origin of a volume: its type, its header and its devices.
pub(crate) struct Origin {
    /// `LUKS1`, `LUKS2` or `TABLE`.
    pub(crate) r#type: String,
    pub(crate) uuid: String,
    /// The detached header, if any.
    pub(crate) header: Option<String>,
    pub(crate) devices: Devices,
}

/// A LUKS volume that is to be opened, by the options of `open`.
pub(crate) struct Wanted<'a> {
    pub(crate) image: &'a Path,
    pub(crate) luks: &'a LuksArgs,
    pub(crate) readonly: bool,
    pub(crate) flags: OpenFlags,
    /// True if the flags are to be stored in the header.
    pub(crate) persistent: bool,
    pub(crate) manner: Manner,
    pub(crate) data_path: DataPath,
    /// Keyring that is to get the volume key.
    pub(crate) link: Option<&'a KeyLink>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn by(image: &'a Path, unlock: &'a UnlockArgs) -> Result<Self, CliError> {
        Ok(Self {
            image,
            luks: &unlock.luks,
            readonly: unlock.readonly,
            flags: unlock.perf.flags(unlock.allow_discards),
            persistent: unlock.persistent,
            manner: unlock.storage.manner()?,
            data_path: unlock.data_path.into(),
            link: None,
        })
    }

    /// A volume that is only read.
    pub(crate) fn to_read(image: &'a Path, luks: &'a LuksArgs) -> Self {
        Self {
            image,
            luks,
            readonly: true,
            flags: OpenFlags::default(),
            persistent: false,
            manner: Manner::default(),
            data_path: DataPath::Auto,
            link: None,
        }
    }
}

/// Refuses an engine that this system does not have.
pub(crate) fn check_engine(asked: IoEngine) -> Result<(), CliError> {
    if asked == IoEngine::IoUring && !Engine::IoUring.is_allowed() {
        return Err(CliError::usage(
            "this system has no io_uring, or forbids it to this process; leave --io-engine out",
        ));
    }
    Ok(())
}

/// The engine that carries requests to the volume's storage.
pub(crate) fn engine(asked: IoEngine, volume: &Volume) -> Engine {
    match asked {
        IoEngine::Auto => Engine::for_volume(volume),
        IoEngine::Plain => Engine::Plain,
        IoEngine::Threads => Engine::Threads,
        IoEngine::IoUring => Engine::IoUring,
    }
}

/// Limits of a key derivation. For a header on a server the time limit of requests also limits the derivation.
fn cost_limits(wanted: &Wanted, header: &Path) -> CostLimits {
    let asked = wanted.luks.key.source().cost;
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
    pub(crate) update: Option<Update>,
    /// Volume key that is due in a keyring once the volume is open.
    pub(crate) link: Option<DueLink>,
}

/// A change of the header that is due once it is certain that the volume can be used.
pub(crate) struct Update {
    header: Arc<Storage>,
    repair: bool,
    /// Flags to be stored.
    flags: Option<OpenFlags>,
}

impl Update {
    pub(crate) fn carry_out(&self) -> Result<(), CliError> {
        if self.repair {
            repair(&self.header);
        }
        self.flags
            .map_or(Ok(()), |flags| make_persistent(flags, &self.header))
    }
}

/// A LUKS volume whose key is known, and that no engine runs yet.
pub(crate) struct UnlockedVolume {
    pub(crate) table: CryptTable,
    pub(crate) data: Arc<Storage>,
    pub(crate) origin: Origin,
    /// Due change of the header, as in [`Opened::update`].
    pub(crate) update: Option<Update>,
    /// Volume key that is due in a keyring, as in [`Opened::link`].
    pub(crate) link: Option<DueLink>,
}

/// Opens a LUKS volume, asking for its passphrase.
pub(crate) fn from_luks(wanted: &Wanted) -> Result<Opened, CliError> {
    let UnlockedVolume {
        table,
        data,
        origin,
        update,
        link,
    } = unlock_luks(wanted)?;
    let volume = Volume::start(table, wanted.data_path, |_| {
        Ok(Arc::clone(&data) as Arc<dyn Backend>)
    })?;
    Ok(Opened {
        volume,
        origin,
        update,
        link,
    })
}

/// Unlocks a LUKS volume, asking for its passphrase.
pub(crate) fn unlock_luks(wanted: &Wanted) -> Result<UnlockedVolume, CliError> {
    let key_taker = KeyTaker::asked_for(wanted.link)?;
    let VolumePlace { name, is_sif } = place_of(wanted.image, wanted.luks.window)?;
    let image = absolute(&name)?;
    if !is_remote(&image) {
        refuse_unfinished(&image)?;
    }
    // The lock comes first, so that no passphrase is asked for if the image is refused.
    let devices = Devices::new(wanted.readonly || is_sif, wanted.manner);
    let data = devices.open_image(&image)?;
    let writable = !data.info().read_only;
    let detached = match &wanted.luks.header {
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
    check_type(luks.header(), wanted.luks.r#type, header.path())?;
    let shown = wanted.image.display().to_string();
    reencryption::refuse(luks.header(), Some(data.info().size), &shown)?;
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
            ..wanted.luks.key.source()
        },
        tries: wanted.luks.tries,
    };
    let others = OtherKeys {
        tries_keyrings: true,
        volume_key: &wanted.luks.volume_key,
        token: &wanted.luks.token,
    };
    let key = others.find_or_ask(&luks, &**header, &shown, wanted.luks.key_slot, &asking)?;
    let link = key_taker.map(|taker| taker.later(&key));
    if let Some(warning) = backup_record::warning(luks.header()) {
        let header = header.path().display();
        note(format_args!("scrim: warning: {header}: {warning}"));
    }
    let device = device_names::name_in_table(&image);
    let size = data.info().size;
    let table = luks
        .table(key, &device, size, placement, wanted.flags)
        .map_err(|error| CliError::from(error).within(&shown))?;
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
    Ok(UnlockedVolume {
        table,
        data,
        origin,
        update: is_due.then_some(update),
        link,
    })
}

/// Refuses a volume on a server whose header asks for no encryption, and warns of a local one. A header has no
/// signature: anyone who can write it can have data stored as plaintext.
fn judge_cipher(header: &Header, remote: bool, shown: &str) -> Result<(), CliError> {
    let segment = header
        .data_segment()
        .map_err(|error| CliError::from(LuksError::from(error)).within(shown))?;
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
        "scrim: warning: {shown}: the volume is not encrypted (cipher_null): anyone who has it can read it"
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
pub(crate) fn check_storable(flags: OpenFlags) -> Result<(), CliError> {
    if flags.high_priority {
        return Err(CliError::usage(
            "a LUKS2 header has no place for --perf-high_priority; leave it or --persistent out",
        ));
    }
    Ok(())
}

/// The change of a header that stores these flags, and no others.
pub(crate) fn persistent(flags: OpenFlags) -> Edit {
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

/// Opens the volume of a table, which is given as a line or in a file.
pub(crate) fn from_table(
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
    Ok(without_header(volume, "TABLE", devices))
}

/// A volume of this type, which no LUKS header describes.
pub(crate) fn without_header(volume: Volume, r#type: &str, devices: Devices) -> Opened {
    let origin = Origin {
        r#type: r#type.to_owned(),
        uuid: String::new(),
        header: None,
        devices,
    };
    Opened {
        volume,
        origin,
        update: None,
        link: None,
    }
}

/// Warns if a key may reach swap space.
pub(crate) fn warn_of_unlocked_keys() {
    if locking() == Locking::Incomplete {
        note(format_args!("scrim: warning: {NOT_LOCKED}"));
    }
}
