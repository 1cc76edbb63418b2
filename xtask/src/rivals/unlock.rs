//! `rivals unlock`: from starting the program to knowing that a passphrase is right, beside
//! cryptsetup, on images that cryptsetup made.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scrim_bench::process::{self, Finished};
use scrim_bench::{Better, Report, SeriesId, Study, turns};

use super::image::{self, PASSPHRASE};
use super::options::{Common, Ours, announce};
use super::programs::{CRYPTSETUP, machine};
use super::room::Room;
use super::scrim;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals unlock`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
}

/// A header to unlock.
struct Case {
    name: &'static str,
    kdf: Kdf,
    target: Option<f64>,
}

enum Kdf {
    /// LUKS2 with four passes of Argon2id.
    Argon2id { memory_kib: u64, lanes: u64 },
    /// LUKS1 with PBKDF2 and SHA-256.
    Pbkdf2 { iterations: u64 },
}

const CASES: [Case; 5] = [
    argon2id("argon2id_1g", 1 << 20, 4, Some(1.0)),
    argon2id("argon2id_1g_p1", 1 << 20, 1, None),
    argon2id("argon2id_64m", 1 << 16, 4, None),
    argon2id("argon2id_64m_p1", 1 << 16, 1, None),
    Case {
        name: "pbkdf2_luks1",
        kdf: Kdf::Pbkdf2 {
            iterations: 2_000_000,
        },
        target: None,
    },
];

/// Room for a LUKS2 header of the usual size and some data.
const IMAGE_SIZE: u64 = 20 << 20;

const fn argon2id(name: &'static str, memory_kib: u64, lanes: u64, target: Option<f64>) -> Case {
    Case {
        name,
        kdf: Kdf::Argon2id { memory_kib, lanes },
        target,
    }
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    CASES.iter().map(|case| (case.ratio(), case.target))
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let machine = machine(&[CRYPTSETUP], &[CRYPTSETUP])?;
    let room = Room::new()?;
    room.reserve(IMAGE_SIZE * CASES.len() as u64)?;
    let keys = Keys {
        right: room.write("right", PASSPHRASE)?,
        wrong: room.write("wrong", "another")?,
    };
    let programs = [
        Program::new("scrim", scrim, &["test-passphrase"]),
        Program::new(
            "cryptsetup",
            CRYPTSETUP.program.into(),
            &["open", "--test-passphrase"],
        ),
    ];

    let mut study = Study::new(machine, args.common.rounds);
    let mut trials = Vec::new();
    for case in &CASES {
        eprintln!("preparing {}", case.name);
        trials.push(Trial::prepare(&room, &mut study, case, &keys, &programs)?);
    }
    for turn in turns(study.rounds(), CASES.len(), programs.len()) {
        announce(turn, study.rounds());
        room.check()?;
        let trial = &trials[turn.load];
        let Some(series) = trial.series[turn.contender] else {
            continue;
        };
        let program = &programs[turn.contender];
        let finished = program.unlock(&room, &keys.right, &trial.image)?;
        room.check()?;
        if !finished.status.success() {
            return Err(Error::program(program.name, "refuses the right passphrase"));
        }
        series.record(&mut study, program.name, &finished);
    }
    for (case, trial) in CASES.iter().zip(&trials) {
        if let [Some(ours), Some(peer)] = trial.series {
            study.ratio(&case.ratio(), ours.wall, peer.wall, case.target);
        }
    }
    Ok(study.finish())
}

impl Case {
    fn ratio(&self) -> String {
        format!("unlock_{}_vs_cryptsetup", self.name)
    }

    /// Options of `cryptsetup luksFormat`.
    fn options(&self) -> Vec<String> {
        match self.kdf {
            Kdf::Argon2id { memory_kib, lanes } => vec![
                "--type=luks2".to_owned(),
                "--pbkdf=argon2id".to_owned(),
                format!("--pbkdf-memory={memory_kib}"),
                "--pbkdf-force-iterations=4".to_owned(),
                format!("--pbkdf-parallel={lanes}"),
            ],
            Kdf::Pbkdf2 { iterations } => vec![
                "--type=luks1".to_owned(),
                "--hash=sha256".to_owned(),
                format!("--pbkdf-force-iterations={iterations}"),
            ],
        }
    }

    /// Describes the key derivation that the image really has: cryptsetup lowers lanes and memory to the
    /// resources of the machine.
    fn workload(&self, room: &Room, study: &mut Study, image: &Path) -> Result<String, Error> {
        let (memory_kib, lanes) = match self.kdf {
            Kdf::Pbkdf2 { iterations } => {
                return Ok(format!(
                    "LUKS1, PBKDF2 with SHA-256, {iterations} iterations"
                ));
            }
            Kdf::Argon2id { memory_kib, lanes } => (memory_kib, lanes),
        };
        let kdf = image::luks2_kdf(room, image)?;
        let (made_kib, made_lanes) = (kdf["memory"].as_u64(), kdf["cpus"].as_u64());
        let (Some(made_kib), Some(made_lanes)) = (made_kib, made_lanes) else {
            let said = "shows no Argon2 parameters for key slot 0";
            return Err(Error::program("cryptsetup luksDump", said));
        };
        if (made_kib, made_lanes) != (memory_kib, lanes) {
            study.warn(format!(
                "{}: cryptsetup made a key slot of {made_kib} KiB and {made_lanes} lanes instead \
                 of {memory_kib} KiB and {lanes}, as this machine allows no more",
                self.name
            ));
        }
        let passes = &kdf["time"];
        Ok(format!(
            "LUKS2, Argon2id: memory {made_kib} KiB, passes {passes}, lanes {made_lanes}"
        ))
    }
}

struct Keys {
    right: PathBuf,
    wrong: PathBuf,
}

/// A program that unlocks the image.
struct Program {
    name: &'static str,
    path: PathBuf,
    verb: &'static [&'static str],
}

impl Program {
    fn new(name: &'static str, path: PathBuf, verb: &'static [&'static str]) -> Self {
        Self { name, path, verb }
    }

    fn unlock(&self, room: &Room, key_file: &Path, image: &Path) -> Result<Finished, Error> {
        let mut command: Command = room.command(&self.path);
        command
            .args(self.verb)
            .arg("--key-file")
            .arg(key_file)
            .arg(image);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        process::run(&mut command).doing(|| format!("run {}", self.path.display()))
    }

    /// Makes sure that it tells the right passphrase from a wrong one: else there is no work to
    /// time.
    fn verify(&self, room: &Room, keys: &Keys, image: &Path) -> Result<(), Error> {
        if !self.unlock(room, &keys.right, image)?.status.success() {
            return Err(Error::program(self.name, "refuses the right passphrase"));
        }
        if self.unlock(room, &keys.wrong, image)?.status.success() {
            return Err(Error::program(self.name, "accepts a wrong passphrase"));
        }
        room.check()
    }
}

/// A case with its image made.
struct Trial {
    image: PathBuf,
    /// By contender; `None` for one that cannot do it.
    series: [Option<Recorder>; 2],
}

impl Trial {
    fn prepare(
        room: &Room,
        study: &mut Study,
        case: &Case,
        keys: &Keys,
        programs: &[Program; 2],
    ) -> Result<Self, Error> {
        room.check()?;
        let image = image::noise(room, case.name, IMAGE_SIZE)?;
        image::luks_format(room, &image, &keys.right, &case.options())?;
        let workload = case.workload(room, study, &image)?;
        let mut series = [None; 2];
        for (program, series) in programs.iter().zip(&mut series) {
            match program.verify(room, keys, &image) {
                Ok(()) => *series = Some(Recorder::new(study, case, program.name, &workload)),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let name = case.name;
                    study.warn(format!(
                        "{error}; what is compared with it on {name} is left out"
                    ));
                }
            }
        }
        Ok(Self { image, series })
    }
}

/// Series for the samples of one program on one case.
#[derive(Clone, Copy)]
struct Recorder {
    wall: SeriesId,
    cpu: SeriesId,
}

impl Recorder {
    fn new(study: &mut Study, case: &Case, program: &str, workload: &str) -> Self {
        let name = format!("unlock_{}_{program}", case.name);
        Self {
            cpu: study.series(format!("{name}_cpu"), "CPU s", Better::Lower, workload),
            wall: study.series(name, "s", Better::Lower, workload),
        }
    }

    fn record(self, study: &mut Study, program: &str, finished: &Finished) {
        study.record(self.wall, finished.wall.as_secs_f64());
        study.record(self.cpu, finished.cpu.as_secs_f64());
        if finished.was_interrupted() {
            study.warn(format!(
                "involuntary switches: {program} was taken off its processor over and over; \
                 something else was running"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_that_is_promised_has_its_name() {
        let promised: Vec<_> = promises().filter(|(_, target)| target.is_some()).collect();
        assert_eq!(
            promised,
            [("unlock_argon2id_1g_vs_cryptsetup".to_owned(), Some(1.0))]
        );
    }

    #[test]
    fn a_format_forces_what_it_measures() {
        let options = CASES[0].options();
        assert!(options.contains(&"--pbkdf-memory=1048576".to_owned()));
        assert!(options.contains(&"--pbkdf-force-iterations=4".to_owned()));
        assert!(options.contains(&"--pbkdf-parallel=4".to_owned()));
    }
}
