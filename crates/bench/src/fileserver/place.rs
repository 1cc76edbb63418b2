//! The user's storage: a file in a directory, or a device; and the files beside it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::getuid;
use scrim_sys::file_system::FileSystem;
use serde::{Deserialize, Serialize};

use super::caches::drop_caches;
use super::error::FileserverError;
use super::identity::{Identity, size_of};
use super::leftovers::{is_mounted, users_of};
use super::program::{Scrim, run};
use crate::folder::Folder;

/// Name of the folder that holds the volume and the mount point.
pub const FOLDER: &str = "scrim-fileserver";
/// Folder of device mapper's devices.
pub(super) const MAPPER: &str = "/dev/mapper";
/// First part of the name of the runtime folder.
const RUNTIME: &str = "scrim-fileserver";
/// Time for processes of an earlier run to end, and for the kernel to close its devices.
const SETTLING: Duration = Duration::from_secs(30);
/// Pause between two looks at what an earlier run has left.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of one call of the raw measurement.
const RAW_BLOCK: usize = 1 << 20;

/// Storage to measure on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// A directory, in which a file is made.
    Directory(PathBuf),
    /// A block device, whose content is destroyed.
    Device(PathBuf),
}

/// Files of a run.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Folder of this run alone.
    folder: PathBuf,
    pub(super) storage: PathBuf,
    pub(super) volume_bytes: u64,
    runtime: PathBuf,
    program: PathBuf,
}

/// Rates of the storage itself, in MB/s.
pub(super) struct RawRates {
    pub(super) write: f64,
    pub(super) read: f64,
    /// True if the caches were dropped between both.
    pub(super) are_caches_dropped: bool,
}

/// A place while a run uses it; its files are removed with it.
pub(super) struct Claim {
    pub(super) place: Place,
    /// Locked while a run uses the folder.
    lock: Option<File>,
    _runtime: Folder,
}

impl Target {
    /// Finds the target at a path: a directory or a block device.
    ///
    /// # Errors
    /// When there is something else.
    pub fn find(path: &Path) -> Result<Self, FileserverError> {
        let shown = path.display();
        let kind = fs::metadata(path)
            .map_err(FileserverError::system(format!("look at {shown}")))?
            .file_type();
        if kind.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        if !kind.is_block_device() {
            return Err(FileserverError::Occupied {
                said: format!(
                    "{shown} is neither a directory nor a block device; name the directory to measure in"
                ),
            });
        }
        Ok(Self::Device(path.to_owned()))
    }

    /// Checks that nothing uses a device.
    ///
    /// # Errors
    /// When it is mounted or part of another device, or cannot be opened. The error names the users.
    pub fn demand_unused(&self) -> Result<(), FileserverError> {
        let Self::Device(path) = self else {
            return Ok(());
        };
        let shown = path.display();
        let device = File::options()
            .read(true)
            .custom_flags(flags(OFlags::EXCL))
            .open(path);
        match device {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                Err(FileserverError::Occupied {
                    said: format!(
                        "{shown} is in use, and a device in use is not measured: {}",
                        users_of(path)
                    ),
                })
            }
            device => device
                .map(drop)
                .map_err(FileserverError::system(format!("open {shown}"))),
        }
    }

    /// Reads the identity, by which another storage is recognised.
    ///
    /// # Errors
    /// When there is no such storage any more, or its size cannot be read.
    pub fn identity(&self) -> Result<Identity, FileserverError> {
        let (Self::Directory(path) | Self::Device(path)) = self;
        Identity::of(path)
    }

    /// Folder for the volume and the mount point.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(FOLDER),
            Self::Device(_) => PathBuf::from(FOLDER),
        }
    }

    /// Bytes that are free in the directory, or that the device has.
    ///
    /// # Errors
    /// When the storage does not tell.
    pub fn free_bytes(&self) -> Result<u64, FileserverError> {
        match self {
            Self::Directory(directory) => FileSystem::at(directory).map(|there| there.free_bytes),
            Self::Device(device) => size_of(device),
        }
        .map_err(FileserverError::system("find the free space"))
    }
}

impl Claim {
    /// Claims a folder for a run. What an earlier run has left there is removed only if `resumes`.
    pub(super) fn take(
        target: &Target,
        volume_bytes: u64,
        program: &Path,
        resumes: bool,
    ) -> Result<Self, FileserverError> {
        Self::take_with(
            target,
            volume_bytes,
            program,
            resumes,
            &std::env::temp_dir(),
        )
    }

    /// The same with the runtime folder in `temporary`.
    fn take_with(
        target: &Target,
        volume_bytes: u64,
        program: &Path,
        resumes: bool,
        temporary: &Path,
    ) -> Result<Self, FileserverError> {
        let folder = target.folder();
        let is_new = make_folder(&folder, resumes)?;
        let claim = Self::lock(target, &folder, volume_bytes, program, temporary);
        if is_new && claim.is_err() {
            let _ = fs::remove_dir(&folder);
        }
        let claim = claim?;
        if resumes {
            claim.place.clear();
            claim.place.settle(target)?;
        }
        demand_space(target, volume_bytes)?;
        in_table(&claim.place.storage)?;
        Ok(claim)
    }

    /// Claims a folder that exists.
    fn lock(
        target: &Target,
        folder: &Path,
        volume_bytes: u64,
        program: &Path,
        temporary: &Path,
    ) -> Result<Self, FileserverError> {
        let shown = folder.display();
        let folder = folder
            .canonicalize()
            .map_err(FileserverError::system(format!("find {shown}")))?;
        let lock = File::options()
            .read(true)
            .custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW))
            .open(&folder)
            .map_err(FileserverError::system(format!("open {shown}")))?;
        if lock.try_lock().is_err() {
            return Err(FileserverError::Occupied {
                said: format!("{shown} is used by a run that is in progress; wait for its end"),
            });
        }
        Folder::sweep(temporary, RUNTIME);
        let runtime = Folder::make(temporary, RUNTIME)
            .map_err(FileserverError::system("create a temporary folder"))?;
        let storage = match target {
            Target::Directory(_) => folder.join("volume"),
            Target::Device(device) => device.clone(),
        };
        Ok(Self {
            place: Place {
                folder,
                storage,
                volume_bytes,
                runtime: runtime.path().to_owned(),
                program: program.to_owned(),
            },
            lock: Some(lock),
            _runtime: runtime,
        })
    }
}

/// Makes the folder of a run, and returns true; one that an earlier run has left is taken if `resumes`.
fn make_folder(folder: &Path, resumes: bool) -> Result<bool, FileserverError> {
    let shown = folder.display();
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && resumes => {
            demand_own(folder)?;
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(FileserverError::Occupied {
                said: format!(
                    "{shown} exists already: another run uses it or was killed; give --resume to go on with that run, or \
                     remove the folder"
                ),
            })
        }
        result => result
            .map(|()| true)
            .map_err(FileserverError::system(format!("create {shown}"))),
    }
}

/// Refuses a folder in which another user could place files or links.
fn demand_own(folder: &Path) -> Result<(), FileserverError> {
    let shown = folder.display();
    let found = fs::symlink_metadata(folder)
        .map_err(FileserverError::system(format!("look at {shown}")))?;
    let is_own = found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & 0o022 == 0;
    match is_own {
        true => Ok(()),
        false => Err(FileserverError::Occupied {
            said: format!(
                "{shown} is not the folder of an earlier run: it is not a directory of this user that nobody else may \
                 write to; remove it, or choose another directory"
            ),
        }),
    }
}

fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or(0)
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.place.clear();
        let _ = fs::remove_dir(&self.place.folder);
        self.lock.take();
    }
}

pub(super) fn demand_space(target: &Target, needed: u64) -> Result<(), FileserverError> {
    let free = target.free_bytes()?;
    let needed = match target {
        // A disk that is filled to the last block is slow, and others need some of it.
        Target::Directory(_) => needed + needed / 20,
        Target::Device(_) => needed,
    };
    match free < needed {
        true => Err(FileserverError::Space { needed, free }),
        false => Ok(()),
    }
}

/// Refuses a path that a table cannot name.
fn in_table(path: &Path) -> Result<(), FileserverError> {
    let special = |c: char| c.is_whitespace() || c == '\\';
    match path.to_str() {
        Some(text) if !text.contains(special) => Ok(()),
        _ => Err(FileserverError::Occupied {
            said: format!(
                "{}: the path has a blank, a backslash or bytes that are not UTF-8, which a table cannot name; choose \
                 another directory",
                path.display()
            ),
        }),
    }
}

impl Place {
    pub(super) fn mount_point(&self) -> PathBuf {
        self.folder.join("mount")
    }

    pub(super) fn scrim(&self) -> Scrim {
        Scrim {
            program: self.program.clone(),
            runtime: self.runtime.clone(),
        }
    }

    /// Name of dm-crypt's device, which a run that goes on finds again.
    pub(super) fn mapping(&self) -> String {
        let path = self.folder.as_os_str().as_encoded_bytes();
        let hash = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        format!("scrim-fileserver-{hash:016x}")
    }

    /// Removes everything that a run makes: mounts, devices and files.
    fn clear(&self) {
        let mount_point = self.mount_point();
        let shown = mount_point.to_str().unwrap_or_default().to_owned();
        // One may lie upon another, where a run was killed.
        for _ in 0..4 {
            if !is_mounted(&mount_point) {
                break;
            }
            let by_root = run("umount", ["-l", &shown], "");
            if by_root.is_err() {
                let _ = run("fusermount3", ["-u", "-z", &shown], "");
            }
        }
        if Path::new(MAPPER).join(self.mapping()).exists() {
            let _ = run("cryptsetup", ["close", "--deferred", &self.mapping()], "");
        }
        let _ = fs::remove_dir(&mount_point);
        if self.storage.starts_with(&self.folder) {
            let _ = fs::remove_file(&self.storage);
        }
    }

    /// Waits until what an earlier run or turn has used is free: its processes end after it, and the kernel closes a
    /// device when the last of them has, and the last mount namespace that was copied from this one meanwhile. An error
    /// names what stays.
    pub(super) fn settle(&self, target: &Target) -> Result<(), FileserverError> {
        let deadline = Instant::now() + SETTLING;
        loop {
            let result = self.demand_free(target);
            let is_busy = matches!(result, Err(FileserverError::Occupied { .. }));
            if !is_busy || Instant::now() > deadline {
                return result;
            }
            thread::sleep(PAUSE);
        }
    }

    fn demand_free(&self, target: &Target) -> Result<(), FileserverError> {
        let occupied = |said: String| FileserverError::Occupied {
            said: format!("{said}, and try again"),
        };
        let mount_point = self.mount_point();
        if is_mounted(&mount_point) {
            return Err(occupied(format!(
                "an earlier run has left the mount {0}, which could not be removed: umount '{0}'",
                mount_point.display()
            )));
        }
        let name = self.mapping();
        if Path::new(MAPPER).join(&name).exists() {
            return Err(occupied(format!(
                "an earlier run has left the device {MAPPER}/{name}, which could not be closed: end what uses it, give \
                 cryptsetup close {name}"
            )));
        }
        target.demand_unused()
    }

    /// Writes the whole storage and reads it again, and returns both rates. `pulse` hears of the part that is
    /// done, and returns true to end it.
    pub(super) fn measure_raw(
        &self,
        pulse: &mut dyn FnMut(f64) -> bool,
    ) -> Result<RawRates, FileserverError> {
        let mut file = self.open_storage()?;
        let mut block = vec![0; RAW_BLOCK];
        scrim_seeded::Random::new(4).fill(&mut block);
        let blocks = self.volume_bytes / RAW_BLOCK as u64;
        let start = Instant::now();
        for number in 0..blocks {
            if pulse(number as f64 / blocks as f64 / 2.0) {
                return Err(FileserverError::Interrupted);
            }
            file.write_all(&block).map_err(self.failed("write"))?;
        }
        file.sync_all().map_err(self.failed("write"))?;
        let written = start.elapsed().as_secs_f64();
        let are_dropped = drop_caches(&[&self.storage]);
        file.rewind().map_err(self.failed("read"))?;
        let start = Instant::now();
        for number in 0..blocks {
            if pulse(0.5 + number as f64 / blocks as f64 / 2.0) {
                return Err(FileserverError::Interrupted);
            }
            file.read_exact(&mut block).map_err(self.failed("read"))?;
        }
        let read = start.elapsed().as_secs_f64();
        let rate = |seconds: f64| self.volume_bytes as f64 / 1e6 / seconds.max(1e-9);
        Ok(RawRates {
            write: rate(written),
            read: rate(read),
            are_caches_dropped: are_dropped,
        })
    }

    /// Checks that the storage still takes and keeps data.
    pub(super) fn verify_storage(&self) -> Result<(), FileserverError> {
        let mut file = self.open_storage()?;
        let written = file.write_all(&[0; 4096]).and_then(|()| file.sync_all());
        written.map_err(self.failed("write"))
    }

    fn open_storage(&self) -> Result<File, FileserverError> {
        let mut options = File::options();
        options.read(true).write(true);
        if self.storage.starts_with(&self.folder) {
            options
                .create(true)
                .mode(0o600)
                .custom_flags(flags(OFlags::NOFOLLOW));
        } else {
            // The kernel refuses a device that was mounted since it was found.
            options.custom_flags(flags(OFlags::EXCL));
        }
        options.open(&self.storage).map_err(self.failed("open"))
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> FileserverError {
        FileserverError::system(format!("{doing} {}", self.storage.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn target(base: &Folder) -> Target {
        Target::Directory(base.path().to_owned())
    }

    fn base() -> Folder {
        Folder::make(&std::env::temp_dir(), "scrim-place").unwrap()
    }

    #[test]
    fn a_place_is_claimed_once_and_cleared_at_its_end() {
        let base = base();
        let make = |resumes| Claim::take(&target(&base), 1 << 20, Path::new("scrim"), resumes);
        let claim = make(false).unwrap();
        for resumes in [false, true] {
            assert!(matches!(
                make(resumes),
                Err(FileserverError::Occupied { .. })
            ));
        }
        let raw = claim.place.measure_raw(&mut |_| false).unwrap();
        assert!(raw.write > 0.0 && raw.read > 0.0);
        assert_eq!(fs::metadata(&claim.place.storage).unwrap().len(), 1 << 20);
        let ended = claim.place.measure_raw(&mut |_| true);
        assert!(matches!(ended, Err(FileserverError::Interrupted)));
        assert!(claim.place.verify_storage().is_ok());
        fs::remove_dir_all(&claim.place.folder).unwrap();
        assert!(claim.place.verify_storage().is_err());
        drop(claim);
        assert!(!base.path().join(FOLDER).exists());
    }

    #[test]
    fn what_a_killed_run_has_left_is_removed_by_the_one_that_goes_on() {
        let base = base();
        let folder = base.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("volume"), "old").unwrap();
        let make = |resumes| Claim::take(&target(&base), 1 << 20, Path::new("scrim"), resumes);
        let refused = make(false).err().unwrap().to_string();
        assert!(refused.contains("--resume"), "{refused}");
        let claim = make(true).unwrap();
        assert!(!folder.join("volume").exists());
        drop(claim);
        assert!(!folder.exists());
    }

    #[test]
    fn a_claim_that_fails_leaves_no_folder() {
        let base = base();
        let nowhere = base.path().join("nowhere");
        let take = |resumes| {
            let program = Path::new("scrim");
            Claim::take_with(&target(&base), 1 << 20, program, resumes, &nowhere)
        };
        for resumes in [false, true] {
            let error = take(resumes).err().unwrap().to_string();
            assert!(error.contains("temporary folder"), "{error}");
            assert!(!base.path().join(FOLDER).exists());
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let base = base();
        let folder = base.path().join(FOLDER);
        let make = || Claim::take(&target(&base), 1 << 20, Path::new("scrim"), true);
        let refused = || make().err().unwrap().to_string();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refused().contains("not the folder"));
        fs::remove_dir(&folder).unwrap();
        let elsewhere = base.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        assert!(refused().contains("not the folder"));
        fs::remove_file(&folder).unwrap();
        let claim = make().unwrap();
        symlink(elsewhere.join("file"), &claim.place.storage).unwrap();
        assert!(claim.place.verify_storage().is_err());
        assert!(!elsewhere.join("file").exists());
    }

    #[test]
    fn files_of_others_stay() {
        let base = base();
        let folder = base.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("letter"), "mine").unwrap();
        drop(Claim::take(
            &target(&base),
            1 << 20,
            Path::new("scrim"),
            true,
        ));
        assert_eq!(fs::read(folder.join("letter")).unwrap(), b"mine");
    }

    #[test]
    fn space_is_demanded_before_anything_is_written() {
        let base = base();
        let error = Claim::take(&target(&base), 1 << 60, Path::new("scrim"), false);
        assert!(matches!(error, Err(FileserverError::Space { .. })));
        assert!(!base.path().join(FOLDER).exists());
    }
}
