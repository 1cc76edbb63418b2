//! Programs that run on a guest's kernel: a few dozen packages of Debian 13, unpacked into a
//! read-only image. None of their scripts is run to make it, so that no root is needed.

use std::path::Path;

use crate::apt::{self, Suite};
use crate::error::{Doing, Error, temporary};
use crate::host;

/// The suite that it comes from.
pub(crate) const SUITE: &str = "trixie";

/// The packages that tests and users find in a guest, and with them all that they depend on.
pub(crate) const PACKAGES: &str = "
    base-files bash btrfs-progs busybox-static clevis clevis-luks coreutils cryptsetup-bin curl dash diffutils
    dmsetup e2fsprogs fio findutils fuse2fs fuse3 gawk grep kmod libnbd-bin libtss2-esys-3.0.2-0t64 libtss2-rc0t64
    libtss2-tcti-device0t64 mount nbd-client openssl procps python3 sed strace swtpm systemd-cryptsetup tang
    udev util-linux xfsprogs
";

/// The image's name in its folder.
pub(crate) const IMAGE: &str = "root.erofs";
/// A static busybox, for the initial RAM disk.
pub(crate) const BUSYBOX: &str = "busybox";
/// The packages with their versions, one a line.
pub(crate) const CONTENTS: &str = "packages";

/// Makes `folder` with the three files.
pub(crate) fn make(suite: &Suite, folder: &Path) -> Result<(), Error> {
    let parent = folder.parent().unwrap_or(folder);
    let making = temporary(parent)?;
    let root = making.path().join("root");
    std::fs::create_dir(&root).doing("make", &root)?;
    let packages = suite.download_with_dependencies(PACKAGES.split_whitespace())?;
    for package in &packages {
        apt::unpack(package, &root)?;
    }
    complete(&root)?;
    let image = making.path().join(IMAGE);
    let mut mkfs = host::program("mkfs.erofs")?;
    mkfs.arg("--quiet").arg("--all-root").arg(&image).arg(&root);
    host::finish(&mut mkfs)?;
    let busybox = making.path().join(BUSYBOX);
    std::fs::copy(root.join("usr/bin/busybox"), &busybox).doing("copy", &busybox)?;
    let names = packages.iter().filter_map(|path| path.file_stem());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let contents = making.path().join(CONTENTS);
    std::fs::write(&contents, names.join("\n") + "\n").doing("write", &contents)?;
    for package in &packages {
        std::fs::remove_file(package).doing("remove", package)?;
    }
    std::fs::remove_dir_all(&root).doing("remove", &root)?;
    if folder.exists() {
        std::fs::remove_dir_all(folder).doing("remove", folder)?;
    }
    std::fs::rename(making.keep(), folder).doing("make", folder)
}

/// Adds what the packages' own scripts would have made.
fn complete(root: &Path) -> Result<(), Error> {
    for (name, text) in [
        (
            "passwd",
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
        ),
        ("group", "root:x:0:\ndisk:x:6:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("hostname", "guest\n"),
    ] {
        let file = root.join("etc").join(name);
        std::fs::write(&file, text).doing("write", &file)?;
    }
    for folder in [
        "host",
        "share",
        "lib/modules",
        "usr/local/bin",
        "root",
        "tmp",
    ] {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).doing("make", &folder)?;
    }
    // The usual commands that no package above has.
    let busybox = root.join("usr/bin/busybox");
    let applets = host::finish(std::process::Command::new(&busybox).arg("--list"))?;
    for applet in String::from_utf8_lossy(&applets).lines() {
        let folders = ["usr/bin", "usr/sbin"].map(|folder| root.join(folder).join(applet));
        if !folders.iter().any(|path| path.symlink_metadata().is_ok()) {
            let [link, _] = folders;
            std::os::unix::fs::symlink("busybox", &link).doing("make", &link)?;
        }
    }
    Ok(())
}
