//! Opening of a volume in the kernel. A device is made without a table first, so that its name is taken; what fails after
//! that removes it again.

use std::path::{Path, PathBuf};

use scrim_backend::{Backend, Medium};
use scrim_sys::device_mapper::Pending;
use scrim_sys::keyring::LogonKey;
use scrim_sys::loop_device::LoopDevice;
use scrim_volume::{CryptTable, Keys, TargetSpec};

use super::identity::Identity;
use super::key::key_description;
use super::mapper::{Mapper, failed};
use super::node;
use super::table::KernelTable;
use super::volume::{SEE_LOG, number_of};
use crate::args::{KernelKey, VolumeName};
use crate::error::{CliError, Exit};
use crate::luks::kernel_key::DueLink;
use crate::storage::Storage;
use crate::storage::device_names::{name_in_table, path_of};
use crate::volume::devices::Devices;
use crate::volume::opening::UnlockedVolume;

/// Version of the crypt target since which each of its flags exists.
const FLAGS_SINCE: [(&str, [u32; 3]); 6] = [
    ("allow_discards", [1, 11, 0]),
    ("same_cpu_crypt", [1, 13, 0]),
    ("submit_from_crypt_cpus", [1, 13, 0]),
    ("no_read_workqueue", [1, 22, 0]),
    ("no_write_workqueue", [1, 22, 0]),
    ("high_priority", [1, 26, 0]),
];

/// Place for the key of a volume that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    /// In this thread's keyring, until the kernel's target has taken it. Nobody can read it then.
    Keyring,
    /// In the table, from which root can read it back.
    Table,
}

/// Storage that becomes the kernel's.
struct Base {
    /// Name of its device in a table, `MAJOR:MINOR`.
    device: String,
    /// The device of a file, which is to be held open until the volume holds it.
    _held: Option<LoopDevice>,
}

/// Opens an unlocked LUKS volume. Returns the path of its device.
pub(crate) fn open_luks(
    mapper: &Mapper,
    name: &VolumeName,
    unlocked: UnlockedVolume,
    key_place: KeyPlace,
) -> Result<PathBuf, CliError> {
    let UnlockedVolume {
        table,
        data,
        origin,
        update,
        link,
    } = unlocked;
    let read_only = data.info().read_only;
    let identity = Identity {
        r#type: origin.r#type,
        uuid: origin.uuid,
    };
    let made = HalfMade::create(mapper, name, &identity)?;
    let base = Base::of(&data, read_only)?;
    let table = table.on_devices(|_| Ok::<_, CliError>(base.device.clone()))?;
    let linked = link.map(DueLink::put).transpose()?;
    // The kernel takes the device for itself, so the header is changed before.
    if let Some(update) = update {
        update.carry_out()?;
        drop(update);
    }
    drop(data);
    let (table, key) = to_be_loaded(&table, &identity, key_place)?;
    made.start(&table, read_only)?;
    drop(key);
    if let Some(linked) = linked {
        linked.keep();
    }
    Ok(node::path(name))
}

/// Opens the volume of a table, which names `key` in a keyring in place of its own key if one is given. Returns the path
/// of its device.
pub(crate) fn open_table(
    mapper: &Mapper,
    name: &VolumeName,
    table: CryptTable,
    devices: &Devices,
    read_only: bool,
    key: Option<&KernelKey>,
) -> Result<PathBuf, CliError> {
    let is_crypt = matches!(
        table.lines(),
        [line] if matches!(line.target, TargetSpec::Crypt(_))
    );
    let identity = Identity {
        r#type: if is_crypt { "PLAIN" } else { "TABLE" }.to_owned(),
        uuid: String::new(),
    };
    let made = HalfMade::create(mapper, name, &identity)?;
    let mut files = Vec::new();
    let table = table.on_devices(|device| -> Result<String, CliError> {
        let path = path_of(device);
        if is_block_device(&path) {
            return Ok(name_in_table(&path));
        }
        let base = Base::of(&*devices.open_image(&path)?, read_only)?;
        let device = base.device.clone();
        files.push(base);
        Ok(device)
    })?;
    let mut table = KernelTable::new(table.to_text(Keys::Shown))?;
    if let Some(key) = key {
        table = table
            .with_key_of_keyring(&key.kind, &key.description)
            .ok_or_else(|| CliError::usage("only the table of a crypt target has a key"))?;
    }
    made.start(&table, read_only)?;
    drop(files);
    Ok(node::path(name))
}

/// A device that has no table at work yet; it is removed when dropped.
struct HalfMade<'a> {
    mapper: &'a Mapper,
    name: &'a VolumeName,
    is_done: bool,
}

impl<'a> HalfMade<'a> {
    fn create(
        mapper: &'a Mapper,
        name: &'a VolumeName,
        identity: &Identity,
    ) -> Result<Self, CliError> {
        let uuid = identity.to_device_uuid(name);
        match mapper.control().create(name.as_str(), &uuid) {
            Ok(_) => Ok(Self {
                mapper,
                name,
                is_done: false,
            }),
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                Err(taken(mapper, name))
            }
            Err(error) => Err(failed(name, "make the device", &error)),
        }
    }

    /// Puts the table to work.
    fn start(mut self, table: &KernelTable, read_only: bool) -> Result<(), CliError> {
        let loaded = self
            .mapper
            .control()
            .load(self.name.as_str(), &table.targets(), read_only);
        loaded.map_err(|error| {
            let advice = self.advice(table).unwrap_or_else(|| SEE_LOG.to_owned());
            failed(self.name, "load the table", &error).followed_by(&advice)
        })?;
        self.mapper.resume(self.name, Pending::CarriedOut)?;
        self.is_done = true;
        Ok(())
    }

    /// Reason for a table that the kernel refuses, if the kernel's targets tell it.
    fn advice(&self, table: &KernelTable) -> Option<String> {
        let targets = self.mapper.control().targets().ok()?;
        let crypt = table.crypt()?;
        let Some(target) = targets.iter().find(|target| target.name == "crypt") else {
            return Some(
                "; this kernel has no dm-crypt, or does not load it: modprobe dm-crypt".to_owned(),
            );
        };
        let lacks = |flag: &&str| {
            let since = FLAGS_SINCE.iter().find(|(name, _)| name == flag);
            since.is_some_and(|(_, since)| target.version < *since)
        };
        let flags = crypt.flags();
        let lacking: Vec<_> = flags.into_iter().filter(lacks).collect();
        let [major, minor, patch] = target.version;
        (!lacking.is_empty()).then(|| {
            format!(
                "; this kernel's dm-crypt ({major}.{minor}.{patch}) does not know {}",
                lacking.join(", ")
            )
        })
    }
}

impl Drop for HalfMade<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // It has no table, so nobody uses it; the error that is on its way says what went wrong.
            let _ = self.mapper.remove(self.name, false);
        }
    }
}

/// The error for a name that a device has, or a volume that is open already.
fn taken(mapper: &Mapper, name: &VolumeName) -> CliError {
    let name = name.as_str();
    let message = match mapper.control().state(name) {
        Ok(Some(state)) if !state.active_table => format!(
            "a device named {name} exists without a table, as a command leaves it that was killed; remove it with \
             `scrim close {name}`"
        ),
        Ok(Some(_)) => {
            format!("a device named {name} exists already; close it, or choose another name")
        }
        _ => format!("{name}: this volume is open already under another name; see `scrim list`"),
    };
    CliError::new(Exit::Busy, message)
}

impl Base {
    /// The device that the kernel uses for an image: itself, or a loop device of a file or of a part.
    fn of(image: &Storage, read_only: bool) -> Result<Self, CliError> {
        let shown = image.path().display().to_string();
        let (
            Storage::Local(file),
            Medium::File {
                file: open, start, ..
            },
        ) = (image, image.medium())
        else {
            return Err(CliError::usage(format!(
                "{shown}: the kernel's engine takes files and block devices; attach the export with nbd-client, or \
                 leave --engine out"
            )));
        };
        if file.is_device() && is_block_device(file.path()) {
            return Ok(Self {
                device: name_in_table(file.path()),
                _held: None,
            });
        }
        let len = file.info().size;
        // A whole file grows with its device; a part does not.
        let limit = (start > 0 || !file.path().exists()).then_some(len);
        let made = LoopDevice::of(open, file.path(), start, limit, read_only)
            .and_then(|device| Ok((device.number()?, device)));
        let (number, device) = made.map_err(|error| {
            CliError::io(format_args!("make a loop device of {shown}"), &error)
                .followed_by("; see that the module `loop` is loaded")
        })?;
        Ok(Self {
            device: number_of(number),
            _held: Some(device),
        })
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The table as it is loaded, and the key that must be in the keyring until then.
fn to_be_loaded(
    table: &CryptTable,
    identity: &Identity,
    place: KeyPlace,
) -> Result<(KernelTable, Option<LogonKey>), CliError> {
    let text = KernelTable::new(table.to_text(Keys::Shown))?;
    let spec = match table.lines() {
        [line] => match &line.target {
            TargetSpec::Crypt(spec) => spec,
            _ => return Ok((text, None)),
        },
        _ => return Ok((text, None)),
    };
    // As in cryptsetup, LUKS1 has its key in the table.
    if place == KeyPlace::Table || identity.r#type != "LUKS2" || spec.key.expose().is_empty() {
        return Ok((text, None));
    }
    let description = key_description(&identity.uuid);
    let key = LogonKey::add(&description, spec.key.expose()).ok();
    let named = text.with_key_of_keyring("logon", &description);
    match named.zip(key) {
        Some((table, key)) => Ok((table, Some(key))),
        // A keyring that is full, or that this kernel lacks.
        None => Ok((text, None)),
    }
}
