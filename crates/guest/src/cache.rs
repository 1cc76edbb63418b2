//! Parts of guests, kept under the user's cache folder.
//!
//! ```text
//! ~/.cache/scrim/guest/
//!   kernels/6.12 → 6.12.107+deb13-amd64/    the packages, vmlinuz, initrd-RECIPE
//!   userland/trixie-RECIPE/                 root.erofs, busybox, packages
//!   programs/trixie-RECIPE/                 packages, unpacked
//!   apt/trixie/                             the archive's index
//! ```
//!
//! A recipe is a digest of what Scrim puts into it, so that another version of Scrim makes its own.
//! Everything is made beside its place and then moved there, so a file that is in its place is
//! whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::apt::Suite;
use crate::error::{Doing, Error};
use crate::kernel::{self, Kernel};
use crate::{host, programs, userland};

/// The folder in which guests' parts are kept.
pub struct Cache {
    root: PathBuf,
}

/// Parts that a guest boots from.
pub struct Parts {
    /// The kernel's whole version, as `uname -r` prints it.
    pub version: String,
    pub(crate) vmlinuz: PathBuf,
    pub(crate) initrd: PathBuf,
    pub(crate) userland: PathBuf,
}

/// Choice between the cached and the newest version of something in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The one that is cached, or else the newest.
    Cached,
    /// The newest, whatever is cached.
    Newest,
}

/// Something in the cache.
pub struct Cached {
    /// A kernel with its version, or the user land.
    pub name: String,
    /// Its file or folder.
    pub path: PathBuf,
    /// Space that it takes on the disk, in bytes.
    pub bytes: u64,
}

impl Cache {
    /// Opens the user's cache: `$XDG_CACHE_HOME/scrim/guest`, or `~/.cache/scrim/guest`. It is made if
    /// it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be made.
    pub fn open() -> Result<Self, Error> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let home = || absolute("HOME").unwrap_or_else(std::env::temp_dir);
        let cache = absolute("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
        let root = cache.join("scrim/guest");
        for inner in ["kernels", "userland", "programs", "apt"] {
            let inner = root.join(inner);
            std::fs::create_dir_all(&inner).doing("make", &inner)?;
        }
        Ok(Self { root })
    }

    /// Returns the parts that `kernel` boots from; fetches and makes those that are missing.
    /// `progress` is told of steps that take long.
    ///
    /// # Errors
    /// All but those of a running guest.
    pub fn parts(
        &self,
        kernel: Kernel,
        version: Version,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Parts, Error> {
        host::check_tools()?;
        let _alone = self.lock(progress)?;
        let userland = self.userland(version, progress)?;
        let folder = self.kernel(kernel, version, progress)?;
        let recipe = recipe(&[kernel::MODULES, kernel::INIT]);
        let initrd = folder.join(format!("initrd-{recipe}"));
        if !initrd.exists() {
            progress(&format!("unpacking the kernel {}", name(&folder)));
            kernel::assemble(&folder, &initrd, &userland.join(userland::BUSYBOX))?;
        }
        Ok(Parts {
            version: name(&folder),
            vmlinuz: folder.join("vmlinuz"),
            initrd,
            userland: userland.join(userland::IMAGE),
        })
    }

    /// A folder with the files of `packages` of one of Debian's suites, by its code name, unpacked and not set
    /// up: for programs that run beside the host's own, by that suite's dynamic linker and libraries. The
    /// packages are these alone, so what a program needs has to be among them.
    ///
    /// # Errors
    /// As [`parts`](Self::parts), but for the host's emulator.
    pub fn programs(
        &self,
        suite: &str,
        packages: &[&str],
        progress: &mut dyn FnMut(&str),
    ) -> Result<PathBuf, Error> {
        let _alone = self.lock(progress)?;
        let name = format!("{suite}-{}", recipe(packages));
        let folder = self.root.join("programs").join(name);
        if !folder.exists() {
            progress(&format!(
                "fetching {} of Debian's suite {suite}",
                packages.first().copied().unwrap_or_default(),
            ));
            programs::fetch(&self.suite(suite)?, packages, &folder)?;
        }
        Ok(folder)
    }

    /// Lists everything that the cache keeps.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self) -> Result<Vec<Cached>, Error> {
        let mut found = Vec::new();
        let kinds = [
            ("kernels", "kernel "),
            ("userland", "user land "),
            ("programs", "programs "),
        ];
        for (folder, what) in kinds {
            let folder = self.root.join(folder);
            let entries = std::fs::read_dir(&folder).doing("list", &folder)?;
            for path in entries.flatten().map(|entry| entry.path()) {
                if path.is_dir() && !path.is_symlink() {
                    let name = format!("{what}{}", name(&path));
                    let bytes = size(&path)?;
                    found.push(Cached { name, path, bytes });
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes the whole cache; returns the number of bytes that it took.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clean(self) -> Result<u64, Error> {
        let _alone = self.lock(&mut |_| {})?;
        let bytes = size(&self.root)?;
        std::fs::remove_dir_all(&self.root).doing("remove", &self.root)?;
        Ok(bytes)
    }

    /// Locks the cache against another process that makes or removes the same, until the value is
    /// dropped. The lock file is beside the folder, which may be removed.
    fn lock(&self, progress: &mut dyn FnMut(&str)) -> Result<File, Error> {
        let path = self.root.with_extension("lock");
        let file = File::create(&path).doing("make", &path)?;
        if file.try_lock().is_err() {
            progress("waiting for another process that uses the cache");
            file.lock().doing("lock", &path)?;
        }
        self.sweep();
        Ok(file)
    }

    /// Removes what a process was making when it was killed.
    fn sweep(&self) {
        for folder in ["kernels", "userland", "programs"].map(|inner| self.root.join(inner)) {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                if name(&path).starts_with("making-") {
                    let _ = std::fs::remove_dir_all(path);
                }
            }
        }
    }

    fn kernel(
        &self,
        kernel: Kernel,
        version: Version,
        progress: &mut dyn FnMut(&str),
    ) -> Result<PathBuf, Error> {
        let link = self.root.join("kernels").join(kernel.tag());
        if version == Version::Newest || !link.exists() {
            progress(&format!("fetching the kernel {kernel}"));
            let suite = self.suite(kernel.suite())?;
            let folder = kernel::fetch(kernel, &suite, &self.root.join("kernels"))?;
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(name(&folder), &link).doing("make", &link)?;
        }
        std::fs::canonicalize(&link).doing("find", &link)
    }

    fn userland(&self, version: Version, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
        let recipe = recipe(&[userland::PACKAGES]);
        let name = format!("{}-{recipe}", userland::SUITE);
        let folder = self.root.join("userland").join(name);
        if version == Version::Newest || !folder.exists() {
            progress("fetching the user land");
            userland::make(&self.suite(userland::SUITE)?, &folder)?;
        }
        Ok(folder)
    }

    fn suite(&self, name: &str) -> Result<Suite, Error> {
        Suite::update(self.root.join("apt").join(name), name)
    }
}

/// A short digest of what goes into something.
fn recipe(ingredients: &[&str]) -> String {
    let digest = Sha256::digest(ingredients.join("\0"));
    digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Disk space that a folder and everything in it takes, in bytes.
fn size(folder: &Path) -> Result<u64, Error> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).doing("list", folder)?.flatten() {
        let kind = entry.metadata().doing("look at", &entry.path())?;
        bytes += kind.blocks() * 512;
        if kind.is_dir() {
            bytes += size(&entry.path())?;
        }
    }
    Ok(bytes)
}
