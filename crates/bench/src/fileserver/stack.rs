//! A mounted file system on a volume, from the storage up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{getgid, getuid};
use scrim_sys::program::find;

use super::combination::{Combination, MountPath};
use super::error::FileserverError;
use super::place::{MAPPER, Place};
use super::program::{Scrim, Server, children, finish, run};
use super::sampler::Watched;

/// Name of the open volume.
const VOLUME: &str = "bench";
/// Program that mounts ext4 without root.
const FUSE2FS: &str = "fuse2fs";

/// A mounted file system. It is unmounted, by force if need be, with this.
pub(super) struct Stack {
    place: Place,
    layers: Layers,
    /// Device of dm-crypt that is open, by its name.
    mapping: Option<String>,
    is_mounted: bool,
}

enum Layers {
    Scrim { scrim: Scrim, server: Server },
    Kernel,
}

/// Program or kernel code that mounts a volume of Scrim's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    Auto,
    Kernel,
    Program,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kernel => "kernel",
            Self::Program => "program",
        }
    }
}

/// Returns whether this user can measure a combination here: the kernel's own mounts need root, and its ciphers
/// [`has_dm_crypt`].
#[must_use]
pub fn can_measure(combination: &Combination) -> bool {
    match (combination.path, &combination.cipher) {
        (MountPath::Inline | MountPath::Queued, _) => true,
        (MountPath::Kernel, cipher) => getuid().is_root() && (cipher.is_none() || has_dm_crypt()),
    }
}

/// Returns whether the kernel's own encryption can be measured: device mapper in the kernel, and cryptsetup.
#[must_use]
pub fn has_dm_crypt() -> bool {
    // Its device node may exist without it.
    let devices = fs::read_to_string("/proc/misc").unwrap_or_default();
    devices.contains("device-mapper") && find("cryptsetup").is_some()
}

impl Stack {
    /// Makes a volume and a file system in it, and mounts that.
    pub(super) fn mount(
        place: &Place,
        combination: &Combination,
        method: Method,
        inodes: u64,
    ) -> Result<Self, FileserverError> {
        let folder = place.mount_point();
        fs::create_dir_all(&folder).map_err(FileserverError::system(format!(
            "create {}",
            folder.display()
        )))?;
        match combination.path {
            MountPath::Kernel => Self::by_kernel(place, combination, inodes),
            MountPath::Inline | MountPath::Queued => {
                Self::by_scrim(place, combination, method, inodes)
            }
        }
    }

    fn by_scrim(
        place: &Place,
        combination: &Combination,
        method: Method,
        inodes: u64,
    ) -> Result<Self, FileserverError> {
        let scrim = place.scrim();
        let sectors = place.volume_bytes / 512;
        let storage = place.storage.display();
        let table = match &combination.cipher {
            None => format!("0 {sectors} linear {storage} 0\n"),
            Some(cipher) => format!(
                "0 {sectors} crypt {} {} 0 {storage} 0 1 sector_size:4096\n",
                cipher.spec,
                cipher.key()
            ),
        };
        let data_path = match combination.path {
            MountPath::Queued => "queued",
            MountPath::Inline | MountPath::Kernel => "inline",
        };
        let server = scrim.open(VOLUME, &table, data_path)?;
        let mut stack = Self {
            place: place.clone(),
            layers: Layers::Scrim {
                scrim: scrim.clone(),
                server,
            },
            mapping: None,
            is_mounted: false,
        };
        let raw = place.mount_point();
        stack.is_mounted = true;
        scrim.run([
            "mount".as_ref(),
            "--raw".as_ref(),
            VOLUME.as_ref(),
            raw.as_os_str(),
        ])?;
        make_file_system(&raw.join(VOLUME), place.volume_bytes, inodes)?;
        scrim.run(["umount".as_ref(), raw.as_os_str()])?;
        let words = ["mount", "--method", method.name(), VOLUME];
        let words = words.iter().map(std::ffi::OsStr::new);
        scrim.run(words.chain([raw.as_os_str()]))?;
        Ok(stack)
    }

    fn by_kernel(
        place: &Place,
        combination: &Combination,
        inodes: u64,
    ) -> Result<Self, FileserverError> {
        let mut stack = Self {
            place: place.clone(),
            layers: Layers::Kernel,
            mapping: None,
            is_mounted: false,
        };
        let device = match &combination.cipher {
            None => place.storage.clone(),
            Some(cipher) => {
                let name = place.mapping();
                let options = [
                    "open",
                    "--type",
                    "plain",
                    "--key-file",
                    "-",
                    "--hash",
                    "plain",
                    "--batch-mode",
                    "--sector-size",
                    "4096",
                    "--cipher",
                    &cipher.spec,
                    "--key-size",
                ];
                let mut command = Command::new(find("cryptsetup").unwrap_or_default());
                command.args(options).arg(cipher.key_bits.to_string());
                command.args(["--size", &(place.volume_bytes / 512).to_string()]);
                command.arg(&place.storage).arg(&name);
                // Its key is text, so any byte will do: the data is a measurement's.
                let key = "k".repeat(cipher.key_bits / 8);
                stack.mapping = Some(name.clone());
                finish("cryptsetup open", command, &key)?;
                Path::new(MAPPER).join(name)
            }
        };
        make_file_system(&device, place.volume_bytes, inodes)?;
        let is_file = device.is_file();
        let options = if is_file { "loop" } else { "rw" };
        stack.is_mounted = true;
        let arguments = ["-t", "ext4", "-o", options].map(Into::into);
        let arguments = arguments.into_iter().chain([device, place.mount_point()]);
        run("mount", arguments.collect::<Vec<PathBuf>>(), "")?;
        Ok(stack)
    }

    /// Processes that serve the mount.
    pub(super) fn processes(&self) -> Vec<Watched> {
        let Layers::Scrim { server, .. } = &self.layers else {
            return Vec::new();
        };
        let scrim = Watched {
            name: "scrim".to_owned(),
            pid: server.pid(),
        };
        let programs = children(server.pid(), FUSE2FS).into_iter();
        let programs = programs.map(|pid| Watched {
            name: FUSE2FS.to_owned(),
            pid,
        });
        std::iter::once(scrim).chain(programs).collect()
    }

    /// Unmounts and closes in order, so that everything is written.
    pub(super) fn unmount(mut self) -> Result<(), FileserverError> {
        let folder = self.place.mount_point();
        match &mut self.layers {
            Layers::Scrim { scrim, server } => {
                scrim.run(["umount".as_ref(), folder.as_os_str()])?;
                self.is_mounted = false;
                scrim.run(["close", VOLUME])?;
                server.wait();
            }
            Layers::Kernel => {
                run("umount", [&folder], "")?;
                self.is_mounted = false;
            }
        }
        if let Some(name) = self.mapping.take() {
            run("cryptsetup", ["close", &name], "")?;
        }
        Ok(())
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.is_mounted {
            let folder = self.place.mount_point();
            if let Layers::Scrim { scrim, .. } = &self.layers {
                let _ = scrim.run(["umount".as_ref(), "--force".as_ref(), folder.as_os_str()]);
            } else {
                let _ = run("umount", ["-l".as_ref(), folder.as_os_str()], "");
            }
        }
        if let Some(name) = self.mapping.take() {
            let _ = run("cryptsetup", ["close", "--deferred", &name], "");
        }
    }
}

/// Makes an ext4 file system whose tables are written at once, so that no kernel thread writes them later.
fn make_file_system(device: &Path, bytes: u64, inodes: u64) -> Result<(), FileserverError> {
    let owner = format!(
        "nodiscard,lazy_itable_init=0,lazy_journal_init=0,root_owner={}:{}",
        getuid().as_raw(),
        getgid().as_raw()
    );
    let inodes = inodes.to_string();
    let blocks = (bytes / 4096).to_string();
    let options = [
        "-q", "-F", "-b", "4096", "-m", "0", "-N", &inodes, "-E", &owner,
    ];
    let arguments = options.map(PathBuf::from).into_iter();
    let arguments = arguments.chain([device.to_owned(), PathBuf::from(blocks)]);
    run("mkfs.ext4", arguments.collect::<Vec<_>>(), "").map(drop)
}
