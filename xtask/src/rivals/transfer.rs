//! `rivals transfer`: `scrim import` to an NBD server and `scrim export` from one, near and far, beside nbdcopy, which
//! moves the same bytes as they are.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use scrim_bench::{Better, Report, SeriesId, Study, process, turns};

use super::image::{self, Originals};
use super::options::{Common, Ours, announce};
use super::programs::{CRYPTSETUP, NBDCOPY, NBDKIT, machine};
use super::room::Room;
use super::scrim;
use super::server::{Server, uri_of};
use super::store::{self, Distance, HEADER, LUKS2};
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals transfer`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Delay of each request of the far store, in milliseconds
    #[arg(long, default_value_t = 2, value_name = "MS", value_parser = clap::value_parser!(u16).range(1..=1000))]
    delay: u16,
    /// Size of the data
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=65536))]
    size_mib: u64,
}

/// Least rate of Scrim in parts of that of nbdcopy.
const TARGET: f64 = 0.8;

/// A direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Import,
    Export,
}

impl Direction {
    const ALL: [Self; 2] = [Self::Import, Self::Export];

    fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Export => "export",
        }
    }
}

fn ratio_name(distance: Distance, direction: Direction) -> String {
    let (distance, direction) = (distance.name(), direction.name());
    format!("transfer_{distance}_{direction}_vs_nbdcopy")
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    Distance::ALL.into_iter().flat_map(|distance| {
        Direction::ALL.map(|direction| (ratio_name(distance, direction), Some(TARGET)))
    })
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let needed = [CRYPTSETUP, NBDKIT, NBDCOPY];
    let machine = machine(&needed, &needed)?;
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    let stage = Stage::set(&room, scrim, args)?;
    let mut trials = Vec::new();
    for distance in Distance::ALL {
        for direction in Direction::ALL {
            eprintln!("preparing {} {}", distance.name(), direction.name());
            trials.push(Trial::prepare(&stage, &mut study, distance, direction)?);
        }
    }
    for turn in turns(study.rounds(), trials.len(), Program::ALL.len()) {
        announce(turn, study.rounds());
        room.check()?;
        let (trial, program) = (&trials[turn.load], Program::ALL[turn.contender]);
        let rate = stage.transfer(trial, program)?;
        study.record(trial.rates[turn.contender], rate);
    }
    for trial in &trials {
        let [ours, peer] = trial.rates;
        let name = ratio_name(trial.distance, trial.direction);
        study.ratio(&name, ours, peer, Some(TARGET));
    }
    Ok(study.finish())
}

/// A program that moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Scrim,
    Nbdcopy,
}

impl Program {
    const ALL: [Self; 2] = [Self::Scrim, Self::Nbdcopy];

    fn name(self) -> &'static str {
        match self {
            Self::Scrim => "scrim",
            Self::Nbdcopy => "nbdcopy",
        }
    }
}

/// Images from which each store gets its copy, and the file that each transfer reads or makes.
struct Stage<'a> {
    room: &'a Room,
    scrim: PathBuf,
    plain: PathBuf,
    luks: PathBuf,
    key_file: PathBuf,
    delay: u16,
    size: u64,
}

/// A direction at a distance, with a store for each program.
struct Trial {
    distance: Distance,
    direction: Direction,
    stores: [Server; 2],
    /// Series of each program: MB/s.
    rates: [SeriesId; 2],
}

impl Trial {
    fn prepare(
        stage: &Stage<'_>,
        study: &mut Study,
        distance: Distance,
        direction: Direction,
    ) -> Result<Self, Error> {
        let name = |program: Program| {
            let (distance, direction) = (distance.name(), direction.name());
            format!("transfer_{distance}_{direction}_{}", program.name())
        };
        let store = |program| stage.store(&name(program), program, distance);
        let stores = [store(Program::Scrim)?, store(Program::Nbdcopy)?];
        let workload = format!(
            "{} MiB, {}",
            stage.size >> 20,
            distance.workload(stage.delay)
        );
        let rates = Program::ALL
            .map(|program| study.series(name(program), "MB/s", Better::Higher, &workload));
        Ok(Self {
            distance,
            direction,
            stores,
            rates,
        })
    }
}

impl<'a> Stage<'a> {
    fn set(room: &'a Room, scrim: PathBuf, args: &Args) -> Result<Self, Error> {
        let size = args.size_mib << 20;
        let stores = Distance::ALL.len() * Direction::ALL.len() * Program::ALL.len();
        room.reserve((size + HEADER) * (stores as u64 + 3))?;
        let Originals {
            plain,
            luks,
            key_file,
        } = image::originals(room, size, HEADER, &LUKS2)?;
        Ok(Self {
            room,
            scrim,
            plain,
            luks,
            key_file,
            delay: args.delay,
            size,
        })
    }

    fn store(&self, name: &str, program: Program, distance: Distance) -> Result<Server, Error> {
        let original = match program {
            Program::Scrim => &self.luks,
            Program::Nbdcopy => &self.plain,
        };
        let image = image::copy(self.room, original, &format!("{name}.img"))?;
        store::start(self.room, name, &image, distance.delay(self.delay))
    }

    /// Runs one program once. Returns its rate in MB/s.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    fn transfer(&self, trial: &Trial, program: Program) -> Result<f64, Error> {
        let store = &trial.stores[program as usize];
        let uri = uri_of(store.socket());
        let made = self.room.path("made");
        let plain = self.plain.as_os_str();
        let ends = match trial.direction {
            Direction::Import => [plain, uri.as_ref()],
            Direction::Export => [uri.as_ref(), made.as_os_str()],
        };
        let mut command = self.command(trial.direction, program);
        command.args(ends).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let ran = process::run(&mut command).doing(|| format!("run {}", program.name()))?;
        if !ran.status.success() {
            let why = format!("cannot {}", trial.direction.name());
            return Err(Error::program(program.name(), why));
        }
        let _ = std::fs::remove_file(&made);
        Ok(self.size as f64 / 1e6 / ran.wall.as_secs_f64())
    }

    /// The program with its options; source and target follow.
    fn command(&self, direction: Direction, program: Program) -> Command {
        if program == Program::Nbdcopy {
            let mut command = self.room.command(NBDCOPY.program);
            command.arg("--flush");
            return command;
        }
        let mut command = self.room.command(&self.scrim);
        command.args([direction.name(), "--batch-mode", "--no-verify"]);
        command.arg("--key-file").arg(&self.key_file);
        if direction == Direction::Import {
            command.args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]);
            command.args(["--sector-size", "4096"]);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 4);
        let wanted = ("transfer_far_export_vs_nbdcopy".to_owned(), Some(0.8));
        assert!(promises.contains(&wanted));
    }
}
