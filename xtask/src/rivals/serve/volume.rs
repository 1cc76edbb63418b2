//! The same files out of an encrypted volume: ext4 in LUKS2, AES-256-XTS, sectors of 4096 bytes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scrim_bench::Study;

use super::super::image::PASSPHRASE;
use super::super::room::Room;
use super::contender::{NGINX, SCRIM};
use super::figure::Figure;
use super::site::{SIZES, Site};
use super::{Running, series};
use crate::error::{Doing, Error};

/// Scrim with data decrypted by the thread that serves.
pub(super) const INLINE: &str = "scrim_volume";
/// Scrim with data decrypted through the queues of dm-crypt.
pub(super) const QUEUED: &str = "scrim_volume_queued";

/// Bytes for a file system's metadata and a header.
const SPARE: u64 = 48 << 20;

/// Program that makes file systems, at Debian's path.
const MKE2FS: &str = "/usr/sbin/mke2fs";

/// Loads that the ratios come from.
pub(super) const LOADS: [&str; 3] = ["tls_100k", "tls_1m", "tls_half_load"];

/// A ratio: its name, load, figure, our contender, the peer, and the minimum.
type Ratio = (
    &'static str,
    &'static str,
    Figure,
    &'static str,
    &'static str,
    Option<f64>,
);

const RATIOS: [Ratio; 5] = [
    (
        "volume_tls_cpu_100k_vs_nginx_dir_tls",
        LOADS[0],
        Figure::Cpu,
        INLINE,
        NGINX,
        Some(1.25),
    ),
    (
        "volume_tls_cpu_1m_vs_nginx_dir_tls",
        LOADS[1],
        Figure::Cpu,
        INLINE,
        NGINX,
        Some(1.1),
    ),
    (
        "volume_vs_dir_cpu_1m",
        LOADS[1],
        Figure::Cpu,
        INLINE,
        SCRIM,
        Some(0.88),
    ),
    (
        "volume_inline_vs_dir_p99",
        LOADS[2],
        Figure::P99,
        INLINE,
        SCRIM,
        Some(0.9),
    ),
    (
        "volume_queued_vs_dir_p99",
        LOADS[2],
        Figure::P99,
        QUEUED,
        SCRIM,
        None,
    ),
];

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

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    RATIOS
        .into_iter()
        .map(|(name, .., target)| (name.to_owned(), target))
}

/// Adds the ratios of the volume to a folder that Scrim serves, and to one that nginx serves.
pub(super) fn compare(study: &mut Study, running: &[Running], loads: &[super::Load]) {
    for (name, load, figure, ours, peer, target) in RATIOS {
        let Some(index) = loads.iter().position(|one| one.name() == load) else {
            continue;
        };
        let find = |side| series(running, side, loads[index], index, figure);
        if let (Some(ours), Some(peer)) = (find(ours), find(peer)) {
            study.ratio(name, ours, peer, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::*;

    #[test]
    fn every_ratio_is_of_a_figure_that_is_measured() {
        for (name, load, figure, ..) in RATIOS {
            let found = Load::all().into_iter().find(|one| one.name() == load);
            assert!(Figure::of(found.unwrap()).contains(&figure), "{name}");
        }
    }
}
