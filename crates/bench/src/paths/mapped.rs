//! Volumes on one block device: the kernel's dm-crypt devices, and Scrim's volumes beside them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use scrim_backend::{Access, FileBackend};
use scrim_sys::device_mapper::{Control, Pending, State, Target, Udev};

use super::error::PathsError;
use super::load::Disk;
use super::place::Place;
use super::plan::{Plan, Storage};
use super::setup::{Contender, Engine, SetUp};

/// A device that dm-crypt makes, and that the kernel removes as soon as it is closed, however this process ends.
struct Mapped<'a> {
    control: &'a Control,
    name: String,
}

/// Sets up all of `contenders` on the plan's block device, in their order.
pub(super) fn disks(
    plan: &Plan,
    place: &Place,
    contenders: &[Contender],
) -> Result<Vec<Box<dyn Disk>>, PathsError> {
    let (path, access) = device(plan)?;
    let number = path
        .metadata()
        .map_err(PathsError::system(format!("look at {}", path.display())))?
        .rdev();
    let device = format!("{}:{}", major(number), minor(number));
    let control = Control::open().map_err(PathsError::system("use device mapper"))?;
    let set_up = |one: &Contender| -> Result<Box<dyn Disk>, PathsError> {
        Ok(match (one.set_up, one.engine) {
            (SetUp::Plain, _) => Box::new(past_the_cache(path, access)?),
            (_, Engine::Scrim) => Box::new(place.start(*one)?) as Box<dyn Disk>,
            (_, Engine::Kernel) => {
                let mapped = Mapped::create(&control, &one.name())?;
                Box::new(mapped.start(&one.arguments(&device), place.size, access)?)
            }
        })
    };
    contenders.iter().map(set_up).collect()
}

/// Path of the plan's block device, and what is done with it.
fn device(plan: &Plan) -> Result<(&Path, Access), PathsError> {
    match &plan.storage {
        Storage::Users(users) => {
            let access = match users.writes {
                true => Access::ReadWrite,
                false => Access::ReadOnly,
            };
            let path = users.path.as_deref();
            path.map(|path| (path, access)).ok_or(PathsError::NoDevice)
        }
        Storage::Ram { .. } => Err(PathsError::NoDevice),
    }
}

fn past_the_cache(path: &Path, access: Access) -> Result<FileBackend, PathsError> {
    let opened = FileBackend::open_shared(path, access).and_then(FileBackend::past_the_cache);
    opened.map_err(PathsError::Connect)
}

impl<'a> Mapped<'a> {
    fn create(control: &'a Control, contender: &str) -> Result<Self, PathsError> {
        let name = format!("scrim-bench-{}-{contender}", std::process::id());
        let made = control.create(&name, "");
        made.map_err(PathsError::system(format!("make the device {name}")))?;
        Ok(Self { control, name })
    }

    /// Puts a `crypt` target to work on the first `bytes` of a device, and opens it.
    fn start(self, arguments: &str, bytes: u64, access: Access) -> Result<FileBackend, PathsError> {
        let target = Target {
            start: 0,
            len: bytes / 512,
            kind: "crypt",
            arguments: arguments.as_bytes(),
        };
        let read_only = access == Access::ReadOnly;
        let loaded = self.control.load(&self.name, &[target], read_only);
        loaded.map_err(PathsError::system(
            "load a table of dm-crypt (its reason is in the kernel's log; modprobe dm-crypt loads the module)",
        ))?;
        let started = self.control.resume(&self.name, Pending::Held, Udev::NONE);
        started.map_err(self.failed("start"))?;
        let state = self
            .control
            .state(&self.name)
            .map_err(self.failed("look at"))?;
        let node = state.as_ref().map(node_of).unwrap_or_default();
        past_the_cache(&node, access)
        // The device is open: what drops `self` takes effect when it is closed.
    }

    fn failed(&self, doing: &str) -> impl FnOnce(std::io::Error) -> PathsError {
        PathsError::system(format!("{doing} the device {}", self.name))
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        let _ = self.control.remove(&self.name, true, Udev::NONE);
    }
}

/// The kernel's own node of a device; that in `/dev/mapper` is udev's.
fn node_of(state: &State) -> PathBuf {
    PathBuf::from(format!("/dev/dm-{}", minor(state.device)))
}
