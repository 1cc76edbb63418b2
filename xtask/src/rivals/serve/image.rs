//! The same files in an encrypted volume: ext4 in LUKS2, AES-256-XTS, sectors of 4096 bytes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::image::PASSPHRASE;
use super::super::room::Room;
use super::site::{SIZES, Site};
use crate::error::{Doing, Error};

/// Bytes for a file system's metadata and a header.
const SPARE: u64 = 48 << 20;

/// Program that makes file systems, at Debian's path.
const MKE2FS: &str = "/usr/sbin/mke2fs";

/// An encrypted image with the files, and its key.
pub(super) struct Image {
    path: PathBuf,
    key_file: PathBuf,
}

impl Image {
    /// Makes one with the files of `site`, by `scrim` itself.
    pub(super) fn make(room: &Room, site: &Site, scrim: &Path) -> Result<Self, Error> {
        let files: u64 = SIZES.map(|size| size.bytes as u64).iter().sum();
        let size = (files + SPARE).next_multiple_of(1 << 20);
        // The plain and the encrypted image exist together for a moment.
        room.reserve(2 * size + SPARE)?;
        let (raw, path) = (room.path("raw.img"), room.path("disk.img"));
        let key_file = room.write("volume.key", PASSPHRASE)?;
        let mut make = room.command(MKE2FS);
        // Blocks as in all but small file systems; this one is small to fit in memory.
        make.args(["-q", "-t", "ext4", "-b", "4096", "-d"])
            .arg(&site.root)
            .arg(&raw);
        done("mke2fs", make.arg(format!("{}k", size >> 10)))?;
        let mut import = room.command(scrim);
        import.arg("import").args([&raw, &path, &key_file]);
        import.args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]);
        import.args(["--sector-size", "4096"]);
        done("scrim import", &mut import)?;
        std::fs::remove_file(&raw).doing(|| format!("remove {}", raw.display()))?;
        Ok(Self { path, key_file })
    }

    /// Has `scrim serve` serve it, `inline` or `queued`.
    pub(super) fn serve(&self, command: &mut Command, data_path: &str) {
        let mut root = self.path.clone().into_os_string();
        root.push("#/");
        command.arg(root).arg("--key-file").arg(&self.key_file);
        command.args(["--data-path", data_path]);
    }
}

fn done(name: &'static str, command: &mut Command) -> Result<(), Error> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.doing(|| format!("run {name}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::program(name, said))
        }
    }
}
