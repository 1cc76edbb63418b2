//! `rivals growth`: what a byte costs when the volume grows, and when more requests are under way. The
//! rival is Scrim itself, where both are smallest.
//!
//! The images are sparse and in memory, and are only read: a hole is the same work for the kernel wherever
//! it lies, so that what grows is Scrim's. It decrypts holes like all else. Server and client are kept
//! on processors, so that the scheduler's choices are not taken for growth.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use scrim_bench::svg::{Line, LineChart, Point};
use scrim_bench::{Better, Report, SeriesId, Study, turns};

use super::contender::Target;
use super::fio::{Load, load};
use super::image::{self, LUKS1, PASSPHRASE};
use super::nbd::Pin;
use super::options::{Common, Ours, announce};
use super::programs::{CRYPTSETUP, FIO, machine};
use super::room::Room;
use super::scrim::{self, Contents, open_command};
use super::server::Server;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals growth`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Only what grows with the size of the volume, or with the requests under way
    #[arg(long)]
    only: Option<Axis>,
    /// Time for which each load runs, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = super::options::seconds)]
    seconds: f64,
    /// Keep server and fio on one processor, or on processors of their own
    #[arg(long, default_value = "apart")]
    pin: Pin,
    /// Draw growth-size.svg and growth-depth.svg in DIR
    #[arg(long, value_name = "DIR")]
    picture: Option<PathBuf>,
}

/// The quantity that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Axis {
    Size,
    Depth,
}

/// A size of the volume, and a number of requests in flight.
#[derive(Clone, Copy)]
struct Place {
    /// Name of the place in names of ratios.
    name: &'static str,
    /// Label of the place in the picture.
    label: &'static str,
    /// Size of the image, in bytes.
    size: u64,
    load: Load,
}

const fn sized(name: &'static str, label: &'static str, mib: u64) -> Place {
    Place {
        name,
        label,
        size: mib << 20,
        load: load("randread4k_qd32", "randread", "4k", 32),
    }
}

const fn deep(name: &'static str, label: &'static str, depth: u32) -> Place {
    Place {
        name,
        label,
        size: 1 << 30,
        load: load("randread4k", "randread", "4k", depth),
    }
}

const SIZES: [Place; 6] = [
    sized("size_64m", "64 MiB", 64),
    sized("size_512m", "512 MiB", 512),
    sized("size_4g", "4 GiB", 4 << 10),
    sized("size_32g", "32 GiB", 32 << 10),
    sized("size_256g", "256 GiB", 256 << 10),
    sized("size_1t", "1 TiB", 1 << 20),
];

const DEPTHS: [Place; 8] = [
    deep("depth_1", "1", 1),
    deep("depth_2", "2", 2),
    deep("depth_4", "4", 4),
    deep("depth_8", "8", 8),
    deep("depth_16", "16", 16),
    deep("depth_32", "32", 32),
    deep("depth_64", "64", 64),
    deep("depth_128", "128", 128),
];

/// Most of each size that a LUKS1 header takes.
const HEADER: u64 = 4 << 20;
/// Each server runs each load for this long before the first round.
const WARM_UP: Duration = Duration::from_millis(300);
/// A byte that costs no more than a tenth more: the smallest place's cost over the larger one's.
const FLAT: f64 = 0.909;

impl Axis {
    fn places(self) -> &'static [Place] {
        match self {
            Self::Size => &SIZES,
            Self::Depth => &DEPTHS,
        }
    }
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    [Axis::Size, Axis::Depth].into_iter().flat_map(|axis| {
        let (first, others) = axis.places().split_first().unwrap_or((&SIZES[0], &[]));
        others.iter().flat_map(move |place| {
            ["", "_cpu"].map(|figure| (ratio_name(place, figure, first), Some(FLAT)))
        })
    })
}

/// Name of a ratio, such as `growth_size_1t_cpu_vs_64m`.
fn ratio_name(place: &Place, figure: &str, first: &Place) -> String {
    let smallest = first.name.rsplit('_').next().unwrap_or_default();
    format!("growth_{}{figure}_vs_{smallest}", place.name)
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let machine = machine(&[CRYPTSETUP, FIO], &[CRYPTSETUP, FIO])?;
    let mut study = Study::new(machine, args.common.rounds);
    let axes: Vec<Axis> = [Axis::Size, Axis::Depth]
        .into_iter()
        .filter(|axis| args.only.is_none_or(|only| only == *axis))
        .collect();
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    for axis in &axes {
        measure(&room, &mut study, &scrim, *axis, args)?;
    }
    let report = study.finish();
    if let Some(directory) = &args.picture {
        for axis in axes {
            draw(axis, &report, directory)?;
        }
    }
    Ok(report)
}

/// A place's server, and where its samples go.
struct Measured {
    place: Place,
    target: Target,
    rate: SeriesId,
    cpu: SeriesId,
}

fn measure(
    room: &Room,
    study: &mut Study,
    scrim: &Path,
    axis: Axis,
    args: &Args,
) -> Result<(), Error> {
    let mut measured = Vec::new();
    for place in axis.places() {
        room.check()?;
        eprintln!("starting {}", place.name);
        let series = |study: &mut Study, end: &str, unit, better| {
            let workload = format!(
                "{}, a sparse image of {} MiB, Unix socket, {} s, {}",
                place.load.workload(),
                place.size >> 20,
                args.seconds,
                args.pin.placement()
            );
            study.series(
                format!("growth_{}{end}", place.name),
                unit,
                better,
                workload,
            )
        };
        measured.push(Measured {
            target: Target::Server(serve(room, scrim, place)?.pinned(Some(args.pin.server()))?),
            rate: series(study, "", "MB/s", Better::Higher),
            cpu: series(study, "_cpu", "CPU s/GB", Better::Lower),
            place: *place,
        });
    }
    for each in &measured {
        each.take_turn(room, WARM_UP, args.pin)?;
    }
    let time = Duration::from_secs_f64(args.seconds);
    for turn in turns(study.rounds(), 1, measured.len()) {
        announce(turn, study.rounds());
        let each = &measured[turn.contender];
        let [rate, cpu] = each.take_turn(room, time, args.pin)?;
        study.record(each.rate, rate);
        study.record(each.cpu, cpu);
    }
    if let Some((first, others)) = measured.split_first() {
        for each in others {
            let name = |figure| ratio_name(&each.place, figure, &first.place);
            study.ratio(&name(""), each.rate, first.rate, Some(FLAT));
            study.ratio(&name("_cpu"), each.cpu, first.cpu, Some(FLAT));
        }
    }
    Ok(())
}

impl Measured {
    /// MB/s, and the server's processor seconds per GB.
    fn take_turn(&self, room: &Room, time: Duration, pin: Pin) -> Result<[f64; 2], Error> {
        room.check()?;
        let used = || match &self.target {
            Target::Server(server) => server.cpu_time(),
            Target::Uri(_) | Target::File(_) | Target::Rbd { .. } => Ok(Duration::ZERO),
        };
        let before = used()?;
        let size = self.place.size - HEADER;
        let client = Some(pin.client());
        let moved = (self.place.load).run(room, &self.target, size, time, client)?;
        let used = used()?.saturating_sub(before);
        let per_gb = used.as_secs_f64() / (moved.bytes / 1e9);
        Ok([moved.bytes_per_second / 1e6, per_gb])
    }
}

/// Scrim on a new volume in a sparse image.
fn serve(room: &Room, scrim: &Path, place: &Place) -> Result<Server, Error> {
    let image = room.path(&format!("{}.img", place.name));
    let made = File::create(&image).and_then(|file| file.set_len(place.size));
    made.doing(|| format!("make {}", image.display()))?;
    let key_file = room.write("key", PASSPHRASE)?;
    image::luks_format(room, &image, &key_file, &LUKS1.map(str::to_owned))?;
    let socket = room.path(&format!("{}.sock", place.name));
    let mut command = open_command(room, scrim, &socket, &image, &Contents::Luks(&key_file))?;
    command.arg(place.name);
    Server::start(room, place.name, &socket, &mut command)
}

/// The costs of a byte beside those where it is smallest, as a picture.
fn draw(axis: Axis, report: &Report, directory: &Path) -> Result<(), Error> {
    let Some(first) = axis.places().first() else {
        return Ok(());
    };
    let point = |place: &Place, figure: &str| {
        if place.name == first.name {
            let (value, low, high) = (1.0, 1.0, 1.0);
            return Some(Point { value, low, high });
        }
        let name = ratio_name(place, figure, first);
        let ratio = report.ratios.iter().find(|ratio| ratio.name == name)?;
        // The ratio has the smallest on top, the picture below.
        Some(Point {
            value: 1.0 / ratio.value,
            low: 1.0 / ratio.interval.high,
            high: 1.0 / ratio.interval.low,
        })
    };
    let line = |name: &str, figure| Line {
        name: name.to_owned(),
        points: axis
            .places()
            .iter()
            .map(|place| point(place, figure))
            .collect(),
    };
    let (file, title, x_label) = match axis {
        Axis::Size => (
            "growth-size.svg",
            "What a byte costs as the volume grows",
            "size of the volume; 4 KiB random reads, 32 under way",
        ),
        Axis::Depth => (
            "growth-depth.svg",
            "What a byte costs as more requests are under way",
            "requests under way; 4 KiB random reads, 1 GiB",
        ),
    };
    let chart = LineChart {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: format!("beside {}", first.label),
        places: axis
            .places()
            .iter()
            .map(|place| place.label.to_owned())
            .collect(),
        lines: vec![line("processor time", "_cpu"), line("time", "")],
        band: Some((0.9, 1.1)),
    };
    let path = directory.join(file);
    fs::write(&path, chart.to_svg()).doing(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 24);
        for name in ["growth_size_1t_cpu_vs_64m", "growth_depth_128_vs_1"] {
            assert!(promises.contains(&(name.to_owned(), Some(FLAT))), "{name}");
        }
    }
}
