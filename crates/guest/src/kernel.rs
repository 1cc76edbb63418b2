//! Debian's stock kernels, and the initial RAM disk that each boots with.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::apt::{self, Suite};
use crate::error::{Doing, Error, temporary};
use crate::host;

/// The guest's first process.
pub(crate) const INIT: &str = include_str!("init.sh");

/// The modules that come with a guest, and with them all that they depend on. One that a kernel
/// does not have, or has built in, is left out.
pub(crate) const MODULES: &str = "
    virtio_pci virtio_blk virtio_console 9pnet_virtio 9p crc32c_generic crc32c erofs overlay
    brd loop nbd ublk_drv null_blk zram dm-mod dm-crypt dm-integrity dm-zero dm-delay dm-flakey
    dm-log-writes btrfs ext4 xfs fuse tls tun veth
    xts essiv ecb cbc ctr gcm ccm lrw adiantum aesni-intel aes_generic aes_ti cryptd crypto_null authenc
    serpent_generic serpent-avx2-x86_64 twofish_generic twofish-x86_64 camellia_generic camellia-x86_64
    chacha chacha_generic chacha-x86_64 chacha20poly1305 poly1305_generic nhpoly1305 ghash-generic
    ghash-clmulni-intel sha1_generic sha256_generic sha256-ssse3 sha512_generic sha512-ssse3
    blake2b_generic wp512 rmd160 md5 af_alg algif_skcipher algif_aead algif_hash encrypted-keys trusted
    tpm_vtpm_proxy
";

/// A kernel that guests can run, by the first two numbers of its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// 6.1, of Debian 12.
    V6_1,
    /// 6.12, of Debian 13.
    V6_12,
    /// 7.3, of Debian 13's backports.
    V7_3,
}

impl Kernel {
    /// All kernels, the oldest first.
    pub const ALL: [Self; 3] = [Self::V6_1, Self::V6_12, Self::V7_3];

    /// First two numbers of its version, as in `6.12`.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7_3 => "7.3",
        }
    }

    /// The suite of the archive that has it.
    pub(crate) fn suite(self) -> &'static str {
        match self {
            Self::V6_1 => "bookworm",
            Self::V6_12 => "trixie",
            Self::V7_3 => "trixie-backports",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.tag())
    }
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(tag: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::tag).join(", ");
        let found = Self::ALL.into_iter().find(|kernel| kernel.tag() == tag);
        found.ok_or_else(|| format!("there is no kernel {tag:?}; there are {known}"))
    }
}

/// Fetches the newest `kernel` of its suite into a folder of its own below `kernels`, named for its
/// whole version; returns the folder.
pub(crate) fn fetch(kernel: Kernel, suite: &Suite, kernels: &Path) -> Result<PathBuf, Error> {
    let image = "linux-image-";
    let newest = suite.dependencies("linux-image-amd64")?;
    let newest = newest.into_iter().find(|name| name.starts_with(image));
    let newest = newest.unwrap_or_default();
    let version = newest.strip_prefix(image).unwrap_or_default().to_owned();
    if !version.starts_with(&format!("{kernel}.")) {
        return Err(Error::KernelGone {
            wanted: kernel.tag(),
            suite: kernel.suite(),
            offered: version,
        });
    }
    // Newer kernels come in parts, on which the image package depends without being one of them.
    let parts = suite.dependencies(&newest)?.into_iter();
    let part_of_it = |name: &String| {
        ["linux-binary-", "linux-modules-"]
            .iter()
            .any(|part| name.strip_prefix(part) == Some(&version))
    };
    let mut packages: Vec<_> = parts.filter(part_of_it).collect();
    if packages.is_empty() {
        packages.push(newest);
    }
    let folder = kernels.join(&version);
    let making = temporary(kernels)?;
    suite.download(&packages, making.path())?;
    if folder.exists() {
        // A folder of the same name, but perhaps with an older revision of the package.
        std::fs::remove_dir_all(&folder).doing("remove", &folder)?;
    }
    std::fs::rename(making.keep(), &folder).doing("make", &folder)?;
    Ok(folder)
}

/// Makes `vmlinuz` and `initrd` in `folder` from the packages there.
pub(crate) fn assemble(folder: &Path, initrd: &Path, busybox: &Path) -> Result<(), Error> {
    let making = temporary(folder)?;
    let packages = making.path().join("packages");
    std::fs::create_dir(&packages).doing("make", &packages)?;
    for package in apt::archives(folder)? {
        apt::unpack(&package, &packages)?;
    }
    let version = folder.file_name().unwrap_or_default();
    // Newer packages have all below /usr.
    let base = [packages.join("usr"), packages.clone()]
        .into_iter()
        .find(|base| base.join("lib/modules").exists())
        .unwrap_or_default();
    let modules = base.join("lib/modules").join(version);
    let in_boot = packages.join(format!("boot/vmlinuz-{}", version.display()));
    let vmlinuz = if in_boot.exists() {
        in_boot
    } else {
        modules.join("vmlinuz")
    };
    let tree = making.path().join("tree");
    lay_out(&tree, busybox)?;
    host::finish(depmod(&base)?.arg(version))?;
    stage(&modules, &tree.join("lib/modules").join(version))?;
    host::finish(depmod(&tree)?.arg(version))?;
    let packed = making.path().join("initrd");
    std::fs::write(&packed, pack(&tree)?).doing("write", &packed)?;
    let copied = making.path().join("vmlinuz");
    copy(&vmlinuz, &copied)?;
    // The kernel is moved first: where the initial RAM disk is found, the kernel is, too.
    let place = folder.join("vmlinuz");
    std::fs::rename(&copied, &place).doing("make", &place)?;
    std::fs::rename(&packed, initrd).doing("make", initrd)
}

/// Lays out the contents of the initial RAM disk other than modules.
fn lay_out(tree: &Path, busybox: &Path) -> Result<(), Error> {
    let mounts = ["proc", "sys", "dev", "host", "new", "ro", "rw"];
    for inner in ["bin", "sbin"].into_iter().chain(mounts) {
        let inner = tree.join(inner);
        std::fs::create_dir_all(&inner).doing("make", &inner)?;
    }
    copy(busybox, &tree.join("bin/busybox"))?;
    for applet in ["bin/sh", "sbin/modprobe"] {
        let link = tree.join(applet);
        std::os::unix::fs::symlink("/bin/busybox", &link).doing("make", &link)?;
    }
    let init = tree.join("init");
    std::fs::write(&init, INIT).doing("write", &init)?;
    make_executable(&init)
}

fn depmod(base: &Path) -> Result<Command, Error> {
    let mut command = host::program("depmod")?;
    command.arg("--basedir").arg(base);
    Ok(command)
}

/// Copies the [`MODULES`] to a folder without subfolders, unpacked.
fn stage(modules: &Path, to: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(to).doing("make", to)?;
    for index in [
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ] {
        if modules.join(index).exists() {
            copy(&modules.join(index), &to.join(index))?;
        }
    }
    let index = modules.join("modules.dep");
    let index = std::fs::read_to_string(&index).doing("read", &index)?;
    for file in closure(&index, MODULES.split_whitespace()) {
        let path = modules.join(file);
        let bytes = match path.extension().and_then(|ending| ending.to_str()) {
            Some("xz") => host::finish(host::program("xz")?.arg("-dc").arg(&path))?,
            _ => std::fs::read(&path).doing("read", &path)?,
        };
        let unpacked = to.join(format!("{}.ko", module_name(file)));
        std::fs::write(&unpacked, bytes).doing("write", &unpacked)?;
    }
    Ok(())
}

/// The files of the `wanted` modules and of all that they depend on, by an index as depmod(8) writes
/// it: `file: files that it depends on, all of them`.
fn closure<'a>(index: &'a str, wanted: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let wanted: BTreeSet<_> = wanted.map(|name| name.replace('-', "_")).collect();
    let lines = index.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(file, _)| wanted.contains(&module_name(file)))
        .flat_map(|(file, below)| std::iter::once(file).chain(below.split_whitespace()))
        .collect()
}

/// Name of a module, such as `dm_crypt` for `kernel/drivers/md/dm-crypt.ko.xz`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.split(".ko").next().unwrap_or(name);
    name.replace('-', "_")
}

/// An archive of the folder as the kernel unpacks it: uncompressed, since unpacking is emulated.
fn pack(tree: &Path) -> Result<Vec<u8>, Error> {
    let mut names = Vec::new();
    list(tree, Path::new("."), &mut names)?;
    let mut command = host::program("cpio")?;
    command.args([
        "--quiet",
        "--null",
        "--create",
        "--format=newc",
        "--owner=0:0",
    ]);
    host::feed(command.current_dir(tree), &names)
}

/// The names of all that is in a folder below `tree`, folders first, each with a zero byte after it.
fn list(tree: &Path, folder: &Path, names: &mut Vec<u8>) -> Result<(), Error> {
    names.extend_from_slice(folder.as_os_str().as_encoded_bytes());
    names.push(0);
    let here = tree.join(folder);
    let mut entries: Vec<_> = std::fs::read_dir(&here)
        .doing("list", &here)?
        .flatten()
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = folder.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(tree, &name, names)?;
        } else {
            names.extend_from_slice(name.as_os_str().as_encoded_bytes());
            names.push(0);
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::copy(from, to).doing("copy", from).map(drop)
}

fn make_executable(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).doing("make executable", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_what_they_depend_on() {
        let index = "kernel/a/dm-crypt.ko.xz: kernel/a/dm-mod.ko.xz kernel/b/cbc.ko.xz\n\
                     kernel/a/dm-mod.ko.xz:\n\
                     kernel/b/cbc.ko.xz:\n\
                     kernel/c/other.ko.xz: kernel/b/cbc.ko.xz\n";
        let files = closure(index, ["dm_crypt", "absent"].into_iter());
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            [
                "kernel/a/dm-crypt.ko.xz",
                "kernel/a/dm-mod.ko.xz",
                "kernel/b/cbc.ko.xz"
            ]
        );
    }

    #[test]
    fn kernels_are_named_by_their_versions() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.tag().parse(), Ok(kernel));
        }
        let error = "5.10".parse::<Kernel>().unwrap_err();
        assert_eq!(
            error,
            "there is no kernel \"5.10\"; there are 6.1, 6.12, 7.3"
        );
    }
}
