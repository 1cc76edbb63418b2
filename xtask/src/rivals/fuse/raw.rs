//! The plaintext as one file: eight loads of fio.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scrim_bench::{Better, Machine, SeriesId, Study, turns};

use super::cipher::{self, Rates};
use super::mounted::Mounted;
use super::stage::{Contender, Stage};
use crate::error::{Doing, Error};
use crate::rivals::contender::Target;
use crate::rivals::fio::{Load, load};
use crate::rivals::options::announce;
use crate::rivals::room::Room;

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

/// Options of this part.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Measure only these loads of the part `raw`
    #[arg(long, value_delimiter = ',', value_name = "LOAD", value_parser = load_names())]
    loads: Vec<String>,
    /// Time for which each load of the part `raw` runs, in seconds
    #[arg(long, default_value_t = 1.0, value_parser = crate::rivals::options::seconds)]
    seconds: f64,
    /// Size of the payload of the part `raw`
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=65536))]
    size_mib: u64,
}

/// Bytes of each file that are compared before the first measurement.
const COMPARED: u64 = 64 << 20;
/// Time for which each contender runs each load before the first round.
const WARM_UP: Duration = Duration::from_millis(300);

/// A figure that is measured for each load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Rate,
    Cpu,
}

/// Comparisons of `scrim_luks`: the end of the ratio's name, the peer, the figure, and the least that the ratio should be
/// for 4 KiB and for 1 MiB.
const COMPARISONS: [(&str, Contender, Figure, [Option<f64>; 2]); 8] = [
    (
        "vs_qsd_luks",
        Contender::QsdLuks,
        Figure::Rate,
        [Some(1.5), Some(3.0)],
    ),
    (
        "vs_qsd_raw",
        Contender::QsdRaw,
        Figure::Rate,
        [Some(1.0), Some(1.0)],
    ),
    ("vs_nbdfuse", Contender::Nbdfuse, Figure::Rate, [None, None]),
    (
        "encrypted_vs_plain",
        Contender::ScrimPlain,
        Figure::Rate,
        [None, None],
    ),
    (
        "cpu_vs_qsd_luks",
        Contender::QsdLuks,
        Figure::Cpu,
        [None, None],
    ),
    (
        "cpu_vs_qsd_raw",
        Contender::QsdRaw,
        Figure::Cpu,
        [None, None],
    ),
    (
        "cpu_vs_nbdfuse",
        Contender::Nbdfuse,
        Figure::Cpu,
        [None, None],
    ),
    (
        "cpu_encrypted_vs_plain",
        Contender::ScrimPlain,
        Figure::Cpu,
        [None, None],
    ),
];

/// The end of the name of the ratio to the serial bound, and its target.
const SERIAL_BOUND: (&str, Option<f64>) = ("of_serial_bound", Some(0.9));

pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    LOADS.iter().flat_map(|load| {
        COMPARISONS
            .iter()
            .map(|(end, _, _, targets)| (*end, targets[usize::from(load.is_long())]))
            .chain([SERIAL_BOUND])
            .map(|(end, target)| (format!("fuse_{}_{end}", load.name), target))
    })
}

fn load_names() -> clap::builder::PossibleValuesParser {
    LOADS.map(|load| load.name).into()
}

/// The contenders whose programs this machine has.
pub(super) fn available(machine: &Machine) -> Vec<Contender> {
    let has = |contender: &Contender| {
        let program = contender.program();
        program.is_none_or(|program| machine.has(program))
    };
    Contender::ALL.into_iter().filter(has).collect()
}

pub(super) fn measure(
    room: &Room,
    scrim: &Path,
    study: &mut Study,
    args: &Options,
    contenders: &[Contender],
) -> Result<(), Error> {
    let loads: Vec<Load> = LOADS
        .into_iter()
        .filter(|load| args.loads.is_empty() || args.loads.iter().any(|name| name == load.name))
        .collect();
    let payload = args.size_mib << 20;
    eprintln!("making images in {}", room.path("").display());
    let stage = Stage::set(room, scrim, payload, contenders.len())?;
    let mut running = Vec::new();
    for &contender in contenders {
        room.check()?;
        eprintln!("starting {}", contender.name());
        match stage.start(contender) {
            Ok(started) => running.push(Running::new(study, contender, started, &loads, args)),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => study.warn(format!("{error}; its ratios are left out")),
        }
    }
    compare_payloads(&running, payload)?;
    eprintln!("warming up");
    for turn in turns(1, loads.len(), running.len()) {
        running[turn.contender].take_turn(room, study, &loads[turn.load], payload, WARM_UP)?;
    }
    let time = Duration::from_secs_f64(args.seconds);
    let mut ciphers: Vec<Rates> = Vec::new();
    for turn in turns(study.rounds(), loads.len(), running.len()) {
        announce(turn, study.rounds());
        if ciphers.len() == turn.round {
            ciphers.push(cipher::measure(room, scrim)?);
        }
        let side = &mut running[turn.contender];
        let measured = side.take_turn(room, study, &loads[turn.load], payload, time)?;
        if let Some([rate, cpu]) = measured {
            study.record(side.series[turn.load].rate, rate);
            study.record(side.series[turn.load].cpu, cpu);
            side.rates[turn.load].push(rate);
        }
    }
    compare(study, &running, &loads, &ciphers);
    Ok(())
}

fn compare(study: &mut Study, running: &[Running], loads: &[Load], ciphers: &[Rates]) {
    let side = |wanted| running.iter().find(|side| side.contender == wanted);
    let Some(ours) = side(Contender::ScrimLuks) else {
        return;
    };
    for (index, load) in loads.iter().enumerate() {
        for (end, peer, figure, targets) in COMPARISONS {
            if let Some(peer) = side(peer) {
                let name = format!("fuse_{}_{end}", load.name);
                let target = targets[usize::from(load.is_long())];
                let (ours, peer) = (ours.series[index], peer.series[index]);
                study.ratio(&name, ours.of(figure), peer.of(figure), target);
            }
        }
        if let Some(plain) = side(Contender::ScrimPlain) {
            let name = format!("fuse_{}_serial_bound", load.name);
            let workload = "plain x cipher / (plain + cipher), of scrim_plain and scrim bench ciphers in each round";
            let bound = study.series(name, "MB/s", Better::Higher, workload);
            for (plain, cipher) in plain.rates[index].iter().zip(ciphers) {
                study.record(bound, cipher::serial(*plain, cipher_rate(cipher, load)));
            }
            let (end, target) = SERIAL_BOUND;
            let name = format!("fuse_{}_{end}", load.name);
            study.ratio(&name, ours.series[index].rate, bound, target);
        }
    }
}

/// Rate of the cipher on the load's requests.
fn cipher_rate(rates: &Rates, load: &Load) -> f64 {
    let directions = match load.is_long() {
        true => rates.long,
        false => rates.short,
    };
    directions[usize::from(load.writes())]
}

/// A contender's mount, and where its samples go.
struct Running {
    contender: Contender,
    /// `None` once it has failed.
    mounted: Option<Mounted>,
    /// The file that fio reads and writes.
    target: Target,
    /// Path of that file.
    file: PathBuf,
    /// Series of each load.
    series: Vec<LoadSeries>,
    /// Rates of each load, one for each round.
    rates: Vec<Vec<f64>>,
}

#[derive(Clone, Copy)]
struct LoadSeries {
    rate: SeriesId,
    cpu: SeriesId,
}

impl LoadSeries {
    fn of(self, figure: Figure) -> SeriesId {
        match figure {
            Figure::Rate => self.rate,
            Figure::Cpu => self.cpu,
        }
    }
}

impl Running {
    fn new(
        study: &mut Study,
        contender: Contender,
        (mounted, file): (Mounted, PathBuf),
        loads: &[Load],
        args: &Options,
    ) -> Self {
        let series = loads.iter().map(|load| {
            let name = format!("fuse_{}_{}", load.name, contender.name());
            let (mib, seconds) = (args.size_mib, args.seconds);
            let workload = format!("{}, {mib} MiB, {seconds} s", load.file_workload());
            let cpu = format!("{name}_cpu");
            LoadSeries {
                rate: study.series(name, "MB/s", Better::Higher, workload.clone()),
                cpu: study.series(cpu, "CPU s/GB", Better::Lower, workload),
            }
        });
        Self {
            contender,
            mounted: Some(mounted),
            target: Target::File(file.clone()),
            file,
            series: series.collect(),
            rates: vec![Vec::new(); loads.len()],
        }
    }

    /// Runs `load` once: MB/s, and the processor seconds per GB of all processes that serve. A contender that fails is
    /// stopped, and there is a warning.
    fn take_turn(
        &mut self,
        room: &Room,
        study: &mut Study,
        load: &Load,
        payload: u64,
        time: Duration,
    ) -> Result<Option<[f64; 2]>, Error> {
        room.check()?;
        let Some(mounted) = &self.mounted else {
            return Ok(None);
        };
        let attempt = || {
            let before = mounted.cpu_time()?;
            let moved = load.run(room, &self.target, payload, time, None)?;
            let used = mounted.cpu_time()?.saturating_sub(before);
            let per_gb = used.as_secs_f64() / (moved.bytes / 1e9);
            Ok([moved.bytes_per_second / 1e6, per_gb])
        };
        match attempt() {
            Ok(measured) => Ok(Some(measured)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                let name = self.contender.name();
                study.warn(format!(
                    "{name} failed on {} ({error}) and was stopped",
                    load.name
                ));
                self.mounted = None;
                Ok(None)
            }
        }
    }
}

/// Makes sure that contenders with the same kind of image show the same bytes: else they do not do the same work.
fn compare_payloads(running: &[Running], size: u64) -> Result<(), Error> {
    let length = size.min(COMPARED);
    for is_encrypted in [true, false] {
        let mut first: Option<(&str, Vec<u8>)> = None;
        for side in running
            .iter()
            .filter(|side| side.contender.is_encrypted() == is_encrypted)
        {
            let name = side.contender.name();
            let mut payload = Vec::new();
            File::open(&side.file)
                .and_then(|file| file.take(length).read_to_end(&mut payload))
                .doing(|| format!("read {}", side.file.display()))?;
            if (payload.len() as u64) < length {
                let said = format!("shows {} of {length} bytes", payload.len());
                return Err(Error::program(name, said));
            }
            let (first_name, first_payload) = first.get_or_insert_with(|| (name, payload.clone()));
            if payload != *first_payload {
                let said = format!("does not show the same bytes as {first_name}");
                return Err(Error::program(name, said));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 72);
        for (name, expected) in [
            ("fuse_randread4k_qd1_vs_qsd_luks", Some(1.5)),
            ("fuse_write1m_qd16_vs_qsd_luks", Some(3.0)),
            ("fuse_randwrite4k_qd16_vs_qsd_raw", Some(1.0)),
            ("fuse_read1m_qd1_vs_nbdfuse", None),
            ("fuse_read1m_qd16_of_serial_bound", Some(0.9)),
            ("fuse_read1m_qd16_cpu_encrypted_vs_plain", None),
        ] {
            let found = promises.iter().find(|(ratio, _)| ratio == name).unwrap();
            assert_eq!(found.1, expected, "{name}");
        }
    }

    #[test]
    fn the_cipher_is_that_of_the_request_and_its_direction() {
        let rates = Rates {
            short: [1.0, 2.0],
            long: [3.0, 4.0],
        };
        let found = LOADS.map(|load| cipher_rate(&rates, &load));
        assert_eq!(found, [1.0, 1.0, 3.0, 3.0, 2.0, 2.0, 4.0, 4.0]);
    }
}
