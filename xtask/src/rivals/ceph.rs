//! `rivals ceph`: volumes on images of a Ceph cluster, beside the images as they are and beside librbd's own encryption.
//!
//! Each contender has an image of its own in one cluster of one OSD, on this machine and on a disk. `raw` is librbd
//! within fio. All others are servers between fio and an image: what the passage costs is in `raw_nbd` and `plain`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use scrim_bench::{Better, Peer, Report, SeriesId, Study};

use super::contender::Target;
use super::fio::{Load, load, take_turns};
use super::image::{self, PASSPHRASE};
use super::options::{Common, Ours};
use super::programs::{FIO, QEMU_NBD, machine};
use super::room::Room;
use super::scrim::{self, Contents, open_command};
use super::server::{Server, uri_of};
use super::store::HEADER;
use crate::cargo::workspace_root;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals ceph`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Time for which each load runs, in seconds
    #[arg(long, default_value_t = 1.0, value_parser = super::options::seconds)]
    seconds: f64,
    /// Size of the payload
    #[arg(long, default_value_t = 128, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=4096))]
    size_mib: u64,
}

const CEPH: Peer = Peer {
    program: "ceph",
    version_option: "--version",
    package: "ceph-common",
};
pub(super) const RBD: Peer = Peer {
    program: "rbd",
    version_option: "--version",
    package: "ceph-common",
};
const CEPH_MON: Peer = Peer {
    program: "ceph-mon",
    version_option: "--version",
    package: "ceph-mon",
};
const CEPH_MGR: Peer = Peer {
    program: "ceph-mgr",
    version_option: "--version",
    package: "ceph-mgr",
};
pub(super) const CEPH_OSD: Peer = Peer {
    program: "ceph-osd",
    version_option: "--version",
    package: "ceph-osd",
};

/// The script that makes the cluster, which tests use too.
const CLUSTER: &str = "tests/support/ceph.sh";
/// With librbd's cache a write would be measured in memory; without it, each request goes to the cluster.
const UNCACHED: &str = "[client]\nrbd_cache = false\n";
/// Bytes of the cluster that are no image: the OSD's log, its metadata and its journals.
const CLUSTER_ROOM: u64 = 2 << 30;
/// Each server runs each load for this long before the first round.
const WARM_UP: Duration = Duration::from_millis(300);

/// The loads, those that only read first.
const LOADS: [Load; 8] = [
    load("randread4k_qd1", "randread", "4k", 1),
    load("randread4k_qd16", "randread", "4k", 16),
    load("read1m_qd1", "read", "1m", 1),
    load("read1m_qd16", "read", "1m", 16),
    load("randwrite4k_qd1", "randwrite", "4k", 1),
    load("randwrite4k_qd16", "randwrite", "4k", 16),
    load("write1m_qd1", "write", "1m", 1),
    load("write1m_qd16", "write", "1m", 16),
];

/// Layer between fio and an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Nothing: fio's own rbd engine.
    Raw,
    /// `qemu-nbd` on the image as it is.
    RawNbd,
    /// Scrim with one linear target.
    Plain,
    /// Scrim on a LUKS volume.
    Encrypted,
    /// `qemu-nbd` on a LUKS volume that librbd decrypts.
    LibrbdLuks,
    /// Scrim on a LUKS volume that `qemu-nbd` exports.
    QemuNbdHop,
}

impl Layer {
    const ALL: [Self; 6] = [
        Self::Raw,
        Self::RawNbd,
        Self::Plain,
        Self::Encrypted,
        Self::LibrbdLuks,
        Self::QemuNbdHop,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::RawNbd => "raw_nbd",
            Self::Plain => "plain",
            Self::Encrypted => "encrypted",
            Self::LibrbdLuks => "librbd_luks",
            Self::QemuNbdHop => "qemu_nbd_hop",
        }
    }

    fn is_encrypted(self) -> bool {
        matches!(self, Self::Encrypted | Self::LibrbdLuks | Self::QemuNbdHop)
    }
}

/// The layers that [`Layer::Encrypted`] is compared with, with the least of each ratio.
fn compared(load: &Load) -> [(Layer, Option<f64>); 5] {
    let hop = match load.name {
        "randread4k_qd1" | "randwrite4k_qd1" => 1.2,
        _ => 1.0,
    };
    [
        (Layer::Raw, Some(0.9)),
        (Layer::LibrbdLuks, Some(1.0)),
        (Layer::QemuNbdHop, Some(hop)),
        (Layer::RawNbd, None),
        (Layer::Plain, None),
    ]
}

fn ratio_name(load: &Load, peer: Layer) -> String {
    format!("ceph_{}_encrypted_vs_{}", load.name, peer.name())
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    LOADS
        .iter()
        .flat_map(|load| compared(load).map(|(peer, target)| (ratio_name(load, peer), target)))
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let needed = [CEPH, RBD, CEPH_MON, CEPH_MGR, CEPH_OSD, FIO, QEMU_NBD];
    let machine = machine(&needed, &needed)?;
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::on_disk(&std::env::temp_dir())?;
    let stage = Stage::set(&room, scrim, args)?;
    let mut running = Vec::new();
    for layer in Layer::ALL {
        room.check()?;
        eprintln!("starting {}", layer.name());
        match stage.start(layer) {
            Ok(target) => running.push(Running::new(&mut study, layer, target, args)),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => study.warn(format!("{error}; its ratios are left out")),
        }
    }
    measure(&room, &mut study, &running, args)?;
    compare(&mut study, &running);
    Ok(study.finish())
}

/// A cluster, which ends when this is dropped.
struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    fn start(room: &Room) -> Result<Self, Error> {
        let cluster = Self {
            folder: room.path("cluster"),
        };
        let mut command = room.command(workspace_root().join(CLUSTER));
        command.arg("start").arg(&cluster.folder);
        command.arg(std::process::id().to_string());
        succeed("ceph.sh start", &mut command)?;
        let conf = cluster.conf();
        let text = std::fs::read_to_string(&conf).doing(|| format!("read {}", conf.display()))?;
        std::fs::write(&conf, text + UNCACHED).doing(|| format!("write {}", conf.display()))?;
        Ok(cluster)
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("ceph.conf")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut command = Command::new(workspace_root().join(CLUSTER));
        command.arg("stop").arg(&self.folder);
        // The script watches this process, and ends the daemons that remain.
        let _ = command.status();
    }
}

/// The cluster, and what servers need.
struct Stage<'a> {
    room: &'a Room,
    scrim: PathBuf,
    plain: PathBuf,
    luks: PathBuf,
    key_file: PathBuf,
    payload: u64,
    cluster: Cluster,
}

/// A layer on its image.
struct Running {
    layer: Layer,
    target: Target,
    /// The server between Scrim and the image.
    _store: Option<Server>,
    /// Series of each load: MB/s.
    rates: Vec<SeriesId>,
}

/// Target of fio, and the server below it.
type Served = (Target, Option<Server>);

impl<'a> Stage<'a> {
    fn set(room: &'a Room, scrim: PathBuf, args: &Args) -> Result<Self, Error> {
        let payload = args.size_mib << 20;
        room.reserve((payload + HEADER) * (Layer::ALL.len() as u64 + 2) + CLUSTER_ROOM)?;
        eprintln!("starting a cluster");
        Ok(Self {
            room,
            scrim,
            plain: image::noise(room, "plain", payload)?,
            luks: image::noise(room, "luks", payload + HEADER)?,
            key_file: room.write("key", PASSPHRASE)?,
            payload,
            cluster: Cluster::start(room)?,
        })
    }

    fn start(&self, layer: Layer) -> Result<Served, Error> {
        self.fill(layer)?;
        let image = layer.name();
        let conf = self.cluster.conf();
        let direct = format!("rbd:pool/{image}?conf={}", conf.display());
        let served = |server| (Target::Server(server), None);
        Ok(match layer {
            Layer::Raw => (
                Target::Rbd {
                    conf,
                    image: format!("pool/{image}"),
                },
                None,
            ),
            Layer::RawNbd => served(self.qemu_nbd(layer)?),
            Layer::LibrbdLuks => served(self.qemu_nbd(layer)?),
            Layer::Plain | Layer::Encrypted => served(self.scrim(layer, &direct)?),
            Layer::QemuNbdHop => {
                let store = self.qemu_nbd(layer)?;
                let server = self.scrim(layer, &uri_of(store.socket()))?;
                (Target::Server(server), Some(store))
            }
        })
    }

    /// Makes the image of a layer. Every object of it is there, and a LUKS header is librbd's, so that all that encrypt
    /// do the same work.
    fn fill(&self, layer: Layer) -> Result<(), Error> {
        let original = match layer.is_encrypted() {
            true => &self.luks,
            false => &self.plain,
        };
        let image = format!("pool/{}", layer.name());
        let mut import = self.rbd(&["import", "--no-progress"]);
        succeed("rbd import", import.arg(original).arg(&image))?;
        if !layer.is_encrypted() {
            return Ok(());
        }
        let mut format = self.rbd(&["encryption", "format", &image, "luks2"]);
        succeed("rbd encryption format", format.arg(&self.key_file))
    }

    fn rbd(&self, words: &[&str]) -> Command {
        let mut command = self.room.command(RBD.program);
        command.arg("--conf").arg(self.cluster.conf()).args(words);
        command
    }

    /// Scrim on an image, which it reaches itself or by another server.
    fn scrim(&self, layer: Layer, image: &str) -> Result<Server, Error> {
        let name = layer.name();
        let socket = self.room.path(&format!("{name}.sock"));
        let contents = match layer.is_encrypted() {
            true => Contents::Luks(&self.key_file),
            false => Contents::Plain(self.payload),
        };
        let image = Path::new(image);
        let mut command = open_command(self.room, &self.scrim, &socket, image, &contents)?;
        command.arg(name);
        Server::start(self.room, name, &socket, &mut command)
    }

    /// `qemu-nbd` on an image, which decrypts it for [`Layer::LibrbdLuks`] only.
    fn qemu_nbd(&self, layer: Layer) -> Result<Server, Error> {
        let name = layer.name();
        let socket = self.room.path(&format!("{name}.store"));
        let mut options = format!(
            "driver=rbd,pool=pool,image={name},conf={}",
            self.cluster.conf().display()
        );
        let mut command = self.room.command(QEMU_NBD.program);
        if layer == Layer::LibrbdLuks {
            let secret = format!("secret,id=sec0,file={}", self.key_file.display());
            command.args(["--object", &secret]);
            options += ",encrypt.format=luks2,encrypt.key-secret=sec0";
        }
        command.args(["--persistent", "--shared=8", "--cache=none", "--socket"]);
        command.arg(&socket).args(["--image-opts", &options]);
        Server::start(self.room, &format!("{name}_store"), &socket, &mut command)
    }
}

impl Running {
    fn new(study: &mut Study, layer: Layer, (target, store): Served, args: &Args) -> Self {
        let rates = LOADS.iter().map(|load| {
            let workload = match layer {
                Layer::Raw => load.rbd_workload(),
                _ => load.workload(),
            };
            let workload = format!("{workload}, {} MiB, {} s", args.size_mib, args.seconds);
            let name = format!("ceph_{}_{}", load.name, layer.name());
            study.series(name, "MB/s", Better::Higher, workload)
        });
        Self {
            layer,
            target,
            _store: store,
            rates: rates.collect(),
        }
    }
}

/// Runs a program that must succeed.
fn succeed(name: &str, command: &mut Command) -> Result<(), Error> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.doing(|| format!("run {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::program(name, said))
}

fn measure(room: &Room, study: &mut Study, running: &[Running], args: &Args) -> Result<(), Error> {
    let sides: Vec<_> = running
        .iter()
        .map(|side| (&side.target, side.rates.as_slice()))
        .collect();
    let size = args.size_mib << 20;
    let time = Duration::from_secs_f64(args.seconds);
    take_turns(room, study, &sides, &LOADS, size, [WARM_UP, time])
}

fn compare(study: &mut Study, running: &[Running]) {
    let find = |layer| running.iter().find(|side| side.layer == layer);
    let Some(ours) = find(Layer::Encrypted) else {
        return;
    };
    for (index, load) in LOADS.iter().enumerate() {
        for (peer, target) in compared(load) {
            if let Some(side) = find(peer) {
                let name = ratio_name(load, peer);
                study.ratio(&name, ours.rates[index], side.rates[index], target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 40);
        let wanted = [
            ("ceph_read1m_qd16_encrypted_vs_raw", Some(0.9)),
            ("ceph_randread4k_qd1_encrypted_vs_librbd_luks", Some(1.0)),
            ("ceph_randwrite4k_qd1_encrypted_vs_qemu_nbd_hop", Some(1.2)),
            ("ceph_write1m_qd1_encrypted_vs_qemu_nbd_hop", Some(1.0)),
            ("ceph_write1m_qd1_encrypted_vs_raw_nbd", None),
            ("ceph_write1m_qd1_encrypted_vs_plain", None),
        ];
        for (name, target) in wanted {
            assert!(promises.contains(&(name.to_owned(), target)), "{name}");
        }
    }
}
