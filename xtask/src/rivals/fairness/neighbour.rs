//! A client with one short request at a time, on a volume that another client reads or writes in long ones as fast as it
//! can. The rivals are other servers with the same two clients, and Scrim itself with plain data.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use scrim_bench::{Better, Report, SeriesId, Study, turns};

use super::super::contender::{
    Contender, NBDKIT_RAW, QEMU_LUKS, SCRIM_LUKS, SCRIM_PLAIN, Stage, Target,
};
use super::super::fio::{Load, Moved, load};
use super::super::options::{Common, Ours, announce, seconds};
use super::super::programs::{CRYPTSETUP, FIO, NBDKIT, QEMU_NBD, machine};
use super::super::room::Room;
use super::super::scrim;
use crate::error::Error;

/// Options of `cargo xtask rivals fairness neighbour`.
#[derive(clap::Args)]
pub(in super::super) struct Args {
    #[command(flatten)]
    pub(in super::super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Time for which the client with short requests is measured, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
}

/// The client that is measured.
const SHORT: Load = load("randread4k_qd1", "randread", "4k", 1);

/// The client beside it.
const NEIGHBOURS: [Load; 2] = [
    load("read1m_qd16", "read", "1m", 16),
    load("write1m_qd16", "write", "1m", 16),
];

const CONTENDERS: [Contender; 4] = [SCRIM_LUKS, SCRIM_PLAIN, QEMU_LUKS, NBDKIT_RAW];

/// End of a ratio's name, the peer, and the least value.
const COMPARISONS: [(&str, Contender, Option<f64>); 3] = [
    ("vs_qemu_luks", QEMU_LUKS, Some(1.0)),
    ("vs_nbdkit_raw", NBDKIT_RAW, None),
    ("encrypted_vs_plain", SCRIM_PLAIN, None),
];

/// Size of the payload, in bytes.
const PAYLOAD: u64 = 256 << 20;
/// The neighbour begins this long before the client that is measured, and ends as long after it.
const LEAD: Duration = Duration::from_millis(300);

/// A figure of the client with short requests, or the rate of its neighbour.
#[derive(Clone, Copy)]
enum Figure {
    Rate,
    P99,
    NeighbourRate,
}

const FIGURES: [Figure; 3] = [Figure::Rate, Figure::P99, Figure::NeighbourRate];

/// The data of both clients, moved at the same time.
struct Both {
    short: Moved,
    neighbour: Moved,
}

impl Figure {
    /// As in the names of results.
    fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::P99 => "p99",
            Self::NeighbourRate => "neighbour_rate",
        }
    }

    fn of(self, moved: &Both) -> f64 {
        match self {
            Self::Rate => moved.short.bytes_per_second / 1e6,
            Self::P99 => moved.short.p99,
            Self::NeighbourRate => moved.neighbour.bytes_per_second / 1e6,
        }
    }
}

fn stem(neighbour: &Load, figure: Figure) -> String {
    let (short, long) = (SHORT.name, neighbour.name);
    format!("fairness_nbd_{short}_beside_{long}_{}", figure.name())
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    NEIGHBOURS.iter().flat_map(|neighbour| {
        FIGURES.into_iter().flat_map(|figure| {
            let stem = stem(neighbour, figure);
            COMPARISONS.map(|(end, _, target)| (format!("{stem}_{end}"), target))
        })
    })
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let needed = [CRYPTSETUP, FIO, QEMU_NBD, NBDKIT];
    let machine = machine(&needed, &needed)?;
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    let stage = Stage::set(&room, scrim, PAYLOAD, CONTENDERS.len(), false)?;
    let mut targets = Vec::new();
    for contender in CONTENDERS {
        eprintln!("starting {}", contender.name);
        targets.push(stage.start(contender)?);
    }
    let series: Vec<[[SeriesId; FIGURES.len()]; NEIGHBOURS.len()]> = CONTENDERS
        .iter()
        .map(|contender| {
            NEIGHBOURS.map(|neighbour| {
                FIGURES.map(|figure| add_series(&mut study, *contender, &neighbour, figure, args))
            })
        })
        .collect();
    eprintln!("warming up");
    for turn in turns(1, NEIGHBOURS.len(), CONTENDERS.len()) {
        let (target, neighbour) = (&targets[turn.contender], &NEIGHBOURS[turn.load]);
        beside(&room, target, neighbour, LEAD)?;
    }
    let time = Duration::from_secs_f64(args.seconds);
    for turn in turns(study.rounds(), NEIGHBOURS.len(), CONTENDERS.len()) {
        announce(turn, study.rounds());
        let (target, neighbour) = (&targets[turn.contender], &NEIGHBOURS[turn.load]);
        let moved = beside(&room, target, neighbour, time)?;
        for (figure, id) in FIGURES.iter().zip(series[turn.contender][turn.load]) {
            study.record(id, figure.of(&moved));
        }
    }
    compare(&mut study, &series);
    Ok(study.finish())
}

fn add_series(
    study: &mut Study,
    contender: Contender,
    neighbour: &Load,
    figure: Figure,
    args: &Args,
) -> SeriesId {
    let workload = format!(
        "{}, {} MiB, Unix socket, {} s, beside {}",
        SHORT.workload(),
        PAYLOAD >> 20,
        args.seconds,
        neighbour.workload()
    );
    let name = format!("{}_{}", stem(neighbour, figure), contender.name);
    match figure {
        Figure::Rate | Figure::NeighbourRate => {
            study.series(name, "MB/s", Better::Higher, workload)
        }
        Figure::P99 => study.series(name, "µs", Better::Lower, workload),
    }
}

fn compare(study: &mut Study, series: &[[[SeriesId; FIGURES.len()]; NEIGHBOURS.len()]]) {
    let place = |wanted| CONTENDERS.iter().position(|contender| *contender == wanted);
    for (load, neighbour) in NEIGHBOURS.iter().enumerate() {
        for (at, figure) in FIGURES.into_iter().enumerate() {
            for (end, peer, target) in COMPARISONS {
                if let (Some(ours), Some(peer)) = (place(SCRIM_LUKS), place(peer)) {
                    let name = format!("{}_{end}", stem(neighbour, figure));
                    study.ratio(
                        &name,
                        series[ours][load][at],
                        series[peer][load][at],
                        target,
                    );
                }
            }
        }
    }
}

/// Measures both clients: the one with short requests for `time`, with the neighbour there from before until after.
fn beside(room: &Room, target: &Target, neighbour: &Load, time: Duration) -> Result<Both, Error> {
    room.check()?;
    thread::scope(|scope| {
        let beside = scope.spawn(|| neighbour.run(room, target, PAYLOAD, time + 2 * LEAD, None));
        thread::sleep(LEAD);
        let short = SHORT.run(room, target, PAYLOAD, time, None);
        let neighbour = beside.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(Both {
            short: short?,
            neighbour,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_latency_have_their_ratios_beside_each_neighbour() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 18);
        let name = "fairness_nbd_randread4k_qd1_beside_write1m_qd16_p99_vs_qemu_luks";
        assert!(promises.contains(&(name.to_owned(), Some(1.0))));
    }
}
