//! `rivals remote`: volumes on an export of nbdkit, near and far, beside that export as it is.
//!
//! Each contender has a store of its own: nbdkit on an image in memory, with a delay before each request or without.
//! `raw` is the store itself. `plain` and `encrypted` are Scrim's servers on theirs, so that a request passes two
//! sockets; `plain` shows what that costs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scrim_bench::{Better, Report, SeriesId, Study};

use super::contender::Target;
use super::fio::{Load, load, take_turns};
use super::image::{self, Originals};
use super::options::{Common, Ours};
use super::programs::{CRYPTSETUP, FIO, NBDKIT, machine};
use super::room::Room;
use super::scrim::{self, Contents, open_command};
use super::server::{Server, uri_of};
use super::store::{self, Distance, HEADER, LUKS2};
use crate::error::Error;

/// Options of `cargo xtask rivals remote`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Delay of each request of the far store, in milliseconds
    #[arg(long, default_value_t = 2, value_name = "MS", value_parser = clap::value_parser!(u16).range(1..=1000))]
    delay: u16,
    /// Time for which each load runs, in seconds
    #[arg(long, default_value_t = 1.0, value_parser = super::options::seconds)]
    seconds: f64,
    /// Size of the payload
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=65536))]
    size_mib: u64,
}

/// The loads, those that only read first.
const LOADS: [Load; 8] = [
    load("randread4k_qd1", "randread", "4k", 1),
    load("randread4k_qd32", "randread", "4k", 32),
    load("read1m_qd1", "read", "1m", 1),
    load("read1m_qd4", "read", "1m", 4),
    load("randwrite4k_qd1", "randwrite", "4k", 1),
    load("randwrite4k_qd32", "randwrite", "4k", 32),
    load("write1m_qd1", "write", "1m", 1),
    load("write1m_qd4", "write", "1m", 4),
];

/// Each server runs each load for this long before the first round.
const WARM_UP: Duration = Duration::from_millis(200);

/// Layer between fio and a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Raw,
    Plain,
    Encrypted,
}

impl Layer {
    const ALL: [Self; 3] = [Self::Raw, Self::Plain, Self::Encrypted];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Plain => "plain",
            Self::Encrypted => "encrypted",
        }
    }
}

/// The layers that are compared with [`Layer::Raw`], with the least of each ratio.
fn compared(distance: Distance, load: &Load) -> [(Layer, Option<f64>); 2] {
    let least = match distance {
        Distance::Near => 0.75,
        Distance::Far if load.is_long() => 0.9,
        Distance::Far => 0.95,
    };
    [(Layer::Encrypted, Some(least)), (Layer::Plain, None)]
}

fn ratio_name(distance: Distance, load: &Load, layer: Layer) -> String {
    let (distance, layer) = (distance.name(), layer.name());
    format!("remote_{distance}_{}_{layer}_vs_raw", load.name)
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    Distance::ALL.into_iter().flat_map(|distance| {
        LOADS.iter().flat_map(move |load| {
            compared(distance, load)
                .map(|(layer, target)| (ratio_name(distance, load, layer), target))
        })
    })
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let needed = [CRYPTSETUP, NBDKIT, FIO];
    let machine = machine(&needed, &needed)?;
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    let stage = Stage::set(&room, scrim, args)?;
    let mut running = Vec::new();
    for distance in Distance::ALL {
        for layer in Layer::ALL {
            eprintln!("starting {} {}", distance.name(), layer.name());
            running.push(stage.start(distance, layer, &mut study, args)?);
        }
    }
    measure(&room, &mut study, &running, args)?;
    compare(&mut study, &running);
    Ok(study.finish())
}

/// Images from which each store gets its copy.
struct Stage<'a> {
    room: &'a Room,
    scrim: PathBuf,
    plain: PathBuf,
    luks: PathBuf,
    key_file: PathBuf,
    payload: u64,
}

/// A layer on its store.
struct Running {
    distance: Distance,
    layer: Layer,
    /// Server that fio connects to.
    target: Target,
    /// The store below a server of Scrim's.
    _store: Option<Server>,
    /// Series of each load: MB/s.
    rates: Vec<SeriesId>,
}

impl<'a> Stage<'a> {
    fn set(room: &'a Room, scrim: PathBuf, args: &Args) -> Result<Self, Error> {
        let payload = args.size_mib << 20;
        let images = (Distance::ALL.len() * Layer::ALL.len()) as u64 + 2;
        room.reserve((payload + HEADER) * images)?;
        let Originals {
            plain,
            luks,
            key_file,
        } = image::originals(room, payload, HEADER, &LUKS2)?;
        Ok(Self {
            room,
            scrim,
            plain,
            luks,
            key_file,
            payload,
        })
    }

    fn start(
        &self,
        distance: Distance,
        layer: Layer,
        study: &mut Study,
        args: &Args,
    ) -> Result<Running, Error> {
        self.room.check()?;
        let name = format!("{}_{}", distance.name(), layer.name());
        let store = self.store(&name, layer, distance.delay(args.delay))?;
        let (target, store) = match layer {
            Layer::Raw => (Target::Server(store), None),
            _ => (
                Target::Server(self.serve(&name, layer, &store)?),
                Some(store),
            ),
        };
        let rates = LOADS.iter().map(|load| {
            let workload = format!(
                "{}, {} MiB, {}, {} s",
                load.workload(),
                args.size_mib,
                distance.workload(args.delay),
                args.seconds
            );
            let name = format!("remote_{}_{}_{}", distance.name(), load.name, layer.name());
            study.series(name, "MB/s", Better::Higher, workload)
        });
        Ok(Running {
            distance,
            layer,
            target,
            _store: store,
            rates: rates.collect(),
        })
    }

    /// nbdkit on a copy of the image.
    fn store(&self, name: &str, layer: Layer, delay: Option<u16>) -> Result<Server, Error> {
        let original = match layer {
            Layer::Encrypted => &self.luks,
            _ => &self.plain,
        };
        let image = image::copy(self.room, original, &format!("{name}.img"))?;
        store::start(self.room, name, &image, delay)
    }

    /// Scrim on a store.
    fn serve(&self, name: &str, layer: Layer, store: &Server) -> Result<Server, Error> {
        let socket = self.room.path(&format!("{name}.sock"));
        let uri = uri_of(store.socket());
        let contents = match layer {
            Layer::Encrypted => Contents::Luks(&self.key_file),
            _ => Contents::Plain(self.payload),
        };
        let image = Path::new(&uri);
        let mut command = open_command(self.room, &self.scrim, &socket, image, &contents)?;
        command.arg(name);
        Server::start(self.room, name, &socket, &mut command)
    }
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
    for distance in Distance::ALL {
        let find = |layer| {
            let mut sides = running.iter();
            sides.find(|side| side.distance == distance && side.layer == layer)
        };
        for (index, load) in LOADS.iter().enumerate() {
            let Some(raw) = find(Layer::Raw) else {
                continue;
            };
            for (layer, target) in compared(distance, load) {
                if let Some(side) = find(layer) {
                    let name = ratio_name(distance, load, layer);
                    study.ratio(&name, side.rates[index], raw.rates[index], target);
                }
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
        assert_eq!(promises.len(), 32);
        let wanted = [
            ("remote_far_write1m_qd4_encrypted_vs_raw", Some(0.9)),
            ("remote_far_randread4k_qd1_encrypted_vs_raw", Some(0.95)),
            ("remote_near_read1m_qd1_encrypted_vs_raw", Some(0.75)),
            ("remote_near_read1m_qd1_plain_vs_raw", None),
        ];
        for (name, target) in wanted {
            assert!(promises.contains(&(name.to_owned(), target)), "{name}");
        }
    }
}
