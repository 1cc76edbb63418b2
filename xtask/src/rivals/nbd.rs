//! `rivals nbd`: six loads on volumes served over a Unix socket by Scrim, qemu-nbd and nbdkit, from
//! images in memory.
//!
//! All servers stay up, each on its own copy of the same image: two writers of one image would
//! refuse each other. In each round each server runs each load in turn.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use scrim_bench::{Better, Report, SeriesId, Study, turns};

use super::contender::{
    CONTENDERS, Contender, DISK, NBDKIT_LUKS, NBDKIT_RAW, QEMU_LUKS, QEMU_RAW, SCRIM_LUKS,
    SCRIM_PLAIN, Software, Stage, Target,
};
use super::fio::{LOADS, Load, ON_TWO_CONNECTIONS};
use super::options::{Common, Ours, announce};
use super::programs::{CRYPTSETUP, FIO, NBDCOPY, NBDKIT, QEMU_NBD, machine};
use super::room::Room;
use super::scrim;
use super::serial::CipherAlone;
use super::server::uri_of;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals nbd`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Measure only these loads
    #[arg(long, value_delimiter = ',', value_name = "LOAD", value_parser = load_names())]
    loads: Vec<String>,
    /// Time for which each load runs, in seconds
    #[arg(long, default_value_t = 3.0, value_parser = super::options::seconds)]
    seconds: f64,
    /// Size of the payload
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=65536))]
    size_mib: u64,
    /// Keep server and fio on processors of their own, or on one; by default the kernel chooses
    #[arg(long)]
    pin: Option<Pin>,
    /// Keep the images in DIR, on a disk, and go past the page cache
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Pin {
    /// The server on the first processor, fio on the last
    Apart,
    /// Both on the first processor
    Together,
}

/// Bytes of each volume that are compared before the first measurement.
const COMPARED: u64 = 64 << 20;
/// Each server runs each load for this long before the first round.
const WARM_UP: Duration = Duration::from_millis(300);

/// Comparisons of an encrypted volume of Scrim: the end of the ratio's name, the peer, and the figure.
const COMPARISONS: [(&str, Contender, Figure); 8] = [
    ("vs_qemu_luks", QEMU_LUKS, Figure::Rate),
    ("vs_nbdkit_luks", NBDKIT_LUKS, Figure::Rate),
    ("vs_qemu_raw", QEMU_RAW, Figure::Rate),
    ("vs_nbdkit_raw", NBDKIT_RAW, Figure::Rate),
    ("encrypted_vs_plain", SCRIM_PLAIN, Figure::Rate),
    ("cpu_encrypted_vs_plain", SCRIM_PLAIN, Figure::Cpu),
    ("p99_encrypted_vs_plain", SCRIM_PLAIN, Figure::P99),
    ("vs_disk", DISK, Figure::Rate),
];

/// End of the name of the ratio of processor time to that of the plain path and the cipher, one after the other, for
/// long requests; and its target.
const SERIAL: (&str, f64) = ("cpu_of_serial_bound", 0.95);

/// A figure that is measured for each load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Rate,
    Cpu,
    P99,
}

/// Minimum of a ratio; it depends on the load: one request at a time, many, or long ones.
fn target(load: &Load, end: &str) -> Option<f64> {
    if load.has_several_connections() {
        return (end == "vs_disk").then_some(0.65);
    }
    let (one, many, long) = match end {
        "vs_qemu_luks" => (Some(4.0), Some(4.0), Some(8.0)),
        "vs_nbdkit_luks" => (Some(1.0), Some(1.5), Some(1.5)),
        "vs_qemu_raw" | "vs_nbdkit_raw" => (Some(1.0), Some(1.0), Some(1.0)),
        "encrypted_vs_plain" => (None, Some(0.95), Some(0.9)),
        "cpu_encrypted_vs_plain" => (Some(0.85), Some(0.85), Some(0.85)),
        "p99_encrypted_vs_plain" if load.name == "randread4k_qd1" => (Some(0.9), None, None),
        _ => (None, None, None),
    };
    match load.name {
        name if name.ends_with("_qd1") => one,
        name if name.ends_with("_qd32") => many,
        _ => long,
    }
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    LOADS.iter().flat_map(|load| {
        let compared = COMPARISONS
            .iter()
            .map(|(end, ..)| (*end, target(load, end)));
        let serial = load.is_long().then_some((SERIAL.0, Some(SERIAL.1)));
        (compared.chain(serial)).map(|(end, target)| (format!("nbd_{}_{end}", load.name), target))
    })
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let peers = [CRYPTSETUP, QEMU_NBD, NBDKIT, FIO, NBDCOPY];
    let machine = machine(&peers, &[CRYPTSETUP, FIO])?;
    let room = match &args.disk {
        Some(directory) => Room::on_disk(directory)?,
        None => Room::new()?,
    };
    // Elsewhere than on a disk these say little, and are measured only where they are named.
    let takes_two = args.disk.is_some() || !args.loads.is_empty();
    let on_two = ON_TWO_CONNECTIONS.into_iter().filter(|_| takes_two);
    let loads: Vec<Load> = LOADS
        .into_iter()
        .chain(on_two)
        .filter(|load| args.loads.is_empty() || args.loads.iter().any(|name| name == load.name))
        .collect();
    let contenders: Vec<Contender> = CONTENDERS
        .into_iter()
        .filter(|contender| match contender.software {
            Software::Scrim => true,
            Software::Qemu => machine.has(QEMU_NBD.program),
            Software::Nbdkit => machine.has(NBDKIT.program),
            Software::Disk => args.disk.is_some(),
        })
        .collect();

    let mut study = Study::new(machine, args.common.rounds);
    eprintln!("making images in {}", room.path("").display());
    let payload = args.size_mib << 20;
    let direct = args.disk.is_some();
    let cipher = CipherAlone::new(&room, scrim.clone());
    let stage = Stage::set(&room, scrim, payload, contenders.len(), direct)?;
    if !room.in_memory && !direct {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    let mut running = Vec::new();
    for contender in contenders {
        room.check()?;
        eprintln!("starting {}", contender.name);
        let started = stage.start(contender);
        match started.and_then(|target| pinned(target, args.pin.map(Pin::server))) {
            Ok(target) => running.push(Running::new(&mut study, contender, target, &loads, args)),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => study.warn(format!("{error}; its ratios are left out")),
        }
    }
    compare_payloads(&room, &mut study, &running, payload)?;
    measure(&cipher, &room, &mut study, &mut running, &loads, args)?;

    compare(&mut study, &running, &loads, args);
    Ok(study.finish())
}

fn compare(study: &mut Study, running: &[Running], loads: &[Load], args: &Args) {
    let prefix = prefix(args);
    for (index, load) in loads.iter().enumerate() {
        for (end, peer, figure) in COMPARISONS {
            let series = |wanted: Contender| {
                let side = running.iter().find(|side| side.contender == wanted)?;
                Some(side.series[index].of(figure))
            };
            if let (Some(ours), Some(peer)) = (series(SCRIM_LUKS), series(peer)) {
                let name = format!("{prefix}nbd_{}_{end}", load.name);
                study.ratio(&name, ours, peer, target(load, end));
            }
        }
        let side = |wanted: Contender| running.iter().find(|side| side.contender == wanted);
        if let (Some(ours), Some(plain)) = (side(SCRIM_LUKS), side(SCRIM_PLAIN))
            && let Some(bound) = plain.series[index].serial
        {
            let (end, target) = SERIAL;
            let name = format!("{prefix}nbd_{}_{end}", load.name);
            study.ratio(&name, ours.series[index].cpu, bound, Some(target));
        }
    }
}

/// Prefix of names if the images are on a disk, or if server and client are pinned to processors.
fn prefix(args: &Args) -> String {
    let disk = if args.disk.is_some() { "disk_" } else { "" };
    let placed = match args.pin {
        None => "",
        Some(Pin::Apart) => "pinned_",
        Some(Pin::Together) => "onecore_",
    };
    format!("{disk}{placed}")
}

fn pinned(target: Target, processor: Option<usize>) -> Result<Target, Error> {
    match target {
        Target::Server(server) => server.pinned(processor).map(Target::Server),
        other @ (Target::Uri(_) | Target::File(_) | Target::Rbd { .. }) => Ok(other),
    }
}

/// Warms everything up, then runs the rounds. A contender that fails is left out from then on.
fn measure(
    cipher: &CipherAlone<'_>,
    room: &Room,
    study: &mut Study,
    running: &mut [Running],
    loads: &[Load],
    args: &Args,
) -> Result<(), Error> {
    let client = Client {
        size: args.size_mib << 20,
        processor: args.pin.map(Pin::client),
    };
    eprintln!("warming up");
    for turn in turns(1, loads.len(), running.len()) {
        let side = &mut running[turn.contender];
        side.take_turn(room, study, &client, &loads[turn.load], WARM_UP)?;
    }
    let time = Duration::from_secs_f64(args.seconds);
    for turn in turns(study.rounds(), loads.len(), running.len()) {
        announce(turn, study.rounds());
        let side = &mut running[turn.contender];
        let measured = side.take_turn(room, study, &client, &loads[turn.load], time)?;
        if let Some([rate, cpu, p99]) = measured {
            let series = side.series[turn.load];
            study.record(series.rate, rate);
            study.record(series.cpu, cpu);
            study.record(series.p99, p99);
            if let Some(serial) = series.serial {
                study.record(serial, cpu + cipher.cost(loads[turn.load].writes())?);
            }
        }
    }
    Ok(())
}

/// The size and the processor with which fio is run.
struct Client {
    size: u64,
    processor: Option<usize>,
}

/// A contender's server, and where its samples go.
struct Running {
    contender: Contender,
    /// `None` once it has failed.
    target: Option<Target>,
    /// Series of each load.
    series: Vec<LoadSeries>,
}

#[derive(Clone, Copy)]
struct LoadSeries {
    rate: SeriesId,
    cpu: SeriesId,
    p99: SeriesId,
    /// Processor time of this plain path and the cipher alone, one after the other.
    serial: Option<SeriesId>,
}

impl LoadSeries {
    fn of(self, figure: Figure) -> SeriesId {
        match figure {
            Figure::Rate => self.rate,
            Figure::Cpu => self.cpu,
            Figure::P99 => self.p99,
        }
    }
}

impl Running {
    fn new(
        study: &mut Study,
        contender: Contender,
        target: Target,
        loads: &[Load],
        args: &Args,
    ) -> Self {
        let placement = match args.pin {
            None => "unpinned",
            Some(pin) => pin.placement(),
        };
        let disk = if args.disk.is_some() {
            " on a disk, past the page cache"
        } else {
            ""
        };
        let series = loads.iter().map(|load| {
            let name = format!("{}nbd_{}_{}", prefix(args), load.name, contender.name);
            let workload = format!(
                "{}, {} MiB{disk}, Unix socket, {} s, {placement}",
                load.workload(),
                args.size_mib,
                args.seconds
            );
            let lower = |study: &mut Study, end: &str, unit| {
                study.series(
                    format!("{name}_{end}"),
                    unit,
                    Better::Lower,
                    workload.clone(),
                )
            };
            LoadSeries {
                rate: study.series(name.clone(), "MB/s", Better::Higher, workload.clone()),
                cpu: lower(study, "cpu", "CPU s/GB"),
                p99: lower(study, "p99", "µs"),
                serial: (contender == SCRIM_PLAIN && load.is_long())
                    .then(|| lower(study, "and_cipher_cpu", "CPU s/GB")),
            }
        });
        Self {
            contender,
            target: Some(target),
            series: series.collect(),
        }
    }

    /// Runs `load` once: MB/s, the server's processor seconds per GB, and the 99th percentile in µs. A
    /// server that fails is stopped, and there is a warning.
    fn take_turn(
        &mut self,
        room: &Room,
        study: &mut Study,
        client: &Client,
        load: &Load,
        time: Duration,
    ) -> Result<Option<[f64; 3]>, Error> {
        room.check()?;
        let Some(target) = &self.target else {
            return Ok(None);
        };
        let cpu_time = || match target {
            Target::Server(server) => server.cpu_time(),
            Target::Uri(_) | Target::File(_) | Target::Rbd { .. } => Ok(Duration::ZERO),
        };
        let attempt = || {
            let before = cpu_time()?;
            let moved = load.run(room, target, client.size, time, client.processor)?;
            let used = cpu_time()?.saturating_sub(before);
            let per_gb = used.as_secs_f64() / (moved.bytes / 1e9);
            Ok([moved.bytes_per_second / 1e6, per_gb, moved.p99])
        };
        match attempt() {
            Ok(measured) => Ok(Some(measured)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                let name = self.contender.name;
                study.warn(format!(
                    "{name} failed on {} ({error}) and was stopped",
                    load.name
                ));
                self.target = None;
                Ok(None)
            }
        }
    }
}

/// Makes sure that servers of the same kind of image serve the same bytes: else they do not do the
/// same work.
fn compare_payloads(
    room: &Room,
    study: &mut Study,
    running: &[Running],
    size: u64,
) -> Result<(), Error> {
    let length = size.min(COMPARED);
    for encrypted in [true, false] {
        let mut first: Option<(&str, Vec<u8>)> = None;
        for side in running
            .iter()
            .filter(|side| side.contender.encrypted == encrypted)
        {
            room.check()?;
            let Some(Target::Server(server)) = &side.target else {
                continue;
            };
            let name = side.contender.name;
            let payload = match read_payload(room, server.socket(), length) {
                Ok(payload) => payload,
                Err(error) => {
                    study.warn(format!("not checked what {name} serves: {error}"));
                    continue;
                }
            };
            let (first_name, first_payload) = first.get_or_insert((name, payload.clone()));
            if payload != *first_payload {
                let said = format!("does not serve the same bytes as {first_name}");
                return Err(Error::program(name, said));
            }
        }
    }
    Ok(())
}

/// The first `length` bytes that `socket` serves.
fn read_payload(room: &Room, socket: &Path, length: u64) -> Result<Vec<u8>, Error> {
    let mut copy = room
        .command(NBDCOPY.program)
        .arg(uri_of(socket))
        .arg("-")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .doing(|| "run nbdcopy".to_owned())?;
    let mut payload = Vec::new();
    let output = copy.stdout.take();
    let read = output.map(|output| output.take(length).read_to_end(&mut payload));
    let _ = copy.kill();
    let _ = copy.wait();
    read.transpose()
        .doing(|| "read what nbdcopy copies".to_owned())?;
    if (payload.len() as u64) < length {
        let said = format!("copied {} of {length} bytes", payload.len());
        return Err(Error::program(NBDCOPY.program, said));
    }
    Ok(payload)
}

impl Pin {
    /// Description for the report.
    pub(super) fn placement(self) -> &'static str {
        match self {
            Self::Apart => "server and client on processors of their own",
            Self::Together => "server and client on one processor",
        }
    }

    pub(super) fn server(self) -> usize {
        0
    }

    pub(super) fn client(self) -> usize {
        match self {
            Self::Apart => std::thread::available_parallelism().map_or(1, usize::from) - 1,
            Self::Together => 0,
        }
    }
}

fn load_names() -> clap::builder::PossibleValuesParser {
    let all = LOADS.iter().chain(&ON_TWO_CONNECTIONS);
    let names: Vec<&str> = all.map(|load| load.name).collect();
    names.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 50);
        for (name, expected) in [
            ("nbd_randread4k_qd1_vs_qemu_luks", Some(4.0)),
            ("nbd_write1m_qd4_vs_qemu_luks", Some(8.0)),
            ("nbd_randwrite4k_qd32_vs_nbdkit_luks", Some(1.5)),
            ("nbd_read1m_qd4_vs_nbdkit_raw", Some(1.0)),
            ("nbd_randread4k_qd1_encrypted_vs_plain", None),
            ("nbd_randread4k_qd32_encrypted_vs_plain", Some(0.95)),
            ("nbd_write1m_qd4_encrypted_vs_plain", Some(0.9)),
            ("nbd_write1m_qd4_cpu_encrypted_vs_plain", Some(0.85)),
            ("nbd_randread4k_qd1_p99_encrypted_vs_plain", Some(0.9)),
            ("nbd_read1m_qd4_p99_encrypted_vs_plain", None),
            ("nbd_write1m_qd4_cpu_of_serial_bound", Some(0.95)),
        ] {
            let found = promises.iter().find(|(ratio, _)| ratio == name).unwrap();
            assert_eq!(found.1, expected, "{name}");
        }
    }
}
