//! The turns of a comparison, one after the other, each on a volume of its own.

use std::ops::ControlFlow;
use std::path::Path;

use super::bonnie;
use super::bystander::Bystander;
use super::caches::drop_caches;
use super::error::FileserverError;
use super::generator::Generator;
use super::meter::Meter;
use super::night::{Night, Plan, Raw, Source, TurnResult};
use super::phase::Phase;
use super::place::{Claim, Place};
use super::sampler::Sampler;
use super::stack::{Stack, can_measure};
use crate::{Progress, Watch};

/// Inodes of a file system beside those of small files.
const INODES: u64 = 1024;
/// Part of a turn after which its volume is mounted.
const MOUNTED: f64 = 0.05;

/// Progress of a whole run, as its parts report it.
struct Teller<'a, 'b> {
    watch: &'a mut Watch<'b>,
    round: usize,
    rounds: usize,
    /// Turns that this process has ended, and those that it is to run.
    done: usize,
    all: usize,
}

/// Measures every turn that `night` has no result of, and saves it in `state` after each.
///
/// # Errors
/// When the storage cannot be used, or the state cannot be saved. A combination that fails is noted in the night.
pub(super) fn measure(
    night: &mut Night,
    state: &Path,
    program: &Path,
    resumes: bool,
    watch: &mut Watch<'_>,
) -> Result<(), FileserverError> {
    let plan = night.plan.clone();
    let claim = Claim::take(&plan.target, plan.load.volume_bytes(), program, resumes)?;
    night.save(state)?;
    let mut missing = night.missing();
    missing.retain(|&(_, combination)| can_measure(&plan.combinations[combination]));
    let mut teller = Teller {
        watch,
        round: 0,
        rounds: plan.rounds,
        done: 0,
        all: missing.len(),
    };
    let mut prepared = None;
    for (round, combination) in missing {
        // It failed in this run.
        if night.failure_of(combination).is_some() {
            continue;
        }
        teller.round = round + 1;
        if prepared != Some(round) {
            let raw = raw(&claim.place, round, &mut teller);
            let Some(raw) = unless_interrupted(raw)? else {
                break;
            };
            if !night.raw.iter().any(|one| one.round == round) {
                night.raw.push(raw);
            }
            prepared = Some(round);
        }
        let mut turn = TurnResult {
            round,
            combination,
            phases: Vec::new(),
            failure: None,
            caches_kept: false,
        };
        claim.place.settle(&plan.target)?;
        match run_turn(&claim.place, &plan, &mut turn, &mut teller) {
            Ok(()) => {}
            Err(FileserverError::Interrupted) => break,
            Err(error) => {
                // A storage that is gone is not the combination's fault: the run ends, and can go on later.
                claim.place.verify_storage()?;
                turn.failure = Some(error.to_string());
            }
        }
        teller.done += 1;
        night.turns.push(turn);
        night.save(state)?;
    }
    Ok(())
}

fn unless_interrupted<T>(result: Result<T, FileserverError>) -> Result<Option<T>, FileserverError> {
    match result {
        Err(FileserverError::Interrupted) => Ok(None),
        result => result.map(Some),
    }
}

impl Teller<'_, '_> {
    /// Reports the part of a turn that is done.
    fn tell(&mut self, what: &str, part: f64) -> ControlFlow<()> {
        let done = self.done as f64 + part.min(0.999);
        (self.watch)(&Progress {
            what: what.to_owned(),
            round: self.round,
            rounds: self.rounds,
            part: done / self.all.max(1) as f64,
        })
    }
}

/// Writes the whole storage, so that each turn finds it allocated, and measures it meanwhile.
fn raw(place: &Place, round: usize, teller: &mut Teller<'_, '_>) -> Result<Raw, FileserverError> {
    let mut pulse = |_: f64| teller.tell("the storage itself", 0.0).is_break();
    let rates = place.measure_raw(&mut pulse)?;
    Ok(Raw {
        round,
        write: rates.write,
        read: rates.read,
        caches_kept: !rates.are_caches_dropped,
    })
}

fn run_turn(
    place: &Place,
    plan: &Plan,
    turn: &mut TurnResult,
    teller: &mut Teller<'_, '_>,
) -> Result<(), FileserverError> {
    let combination = &plan.combinations[turn.combination];
    let label = combination.label();
    if teller.tell(&label, 0.0).is_break() {
        return Err(FileserverError::Interrupted);
    }
    let stack = Stack::mount(place, combination, plan.method, plan.load.files + INODES)?;
    let folder = place.mount_point();
    let sampler = Sampler::start(stack.processes())?;
    let bystander = Bystander::start(&folder)?;
    let mut meter = Meter::new(sampler, bystander, turn);
    let mut tell = |phase: Phase, part: f64| {
        let index = Phase::ALL.iter().position(|one| *one == phase);
        let done = (index.unwrap_or(0) as f64 + part) / Phase::ALL.len() as f64;
        let what = format!("{label}: {}", phase.name());
        teller.tell(&what, MOUNTED + done * (1.0 - MOUNTED))
    };
    match plan.source {
        Source::Own => {
            let mut generator = Generator::new(&folder, plan.load);
            for phase in Phase::ALL {
                if phase.starts_cold() {
                    let dropped =
                        drop_caches(&[&generator.file(), &generator.characters(), &place.storage]);
                    meter.note_caches(dropped);
                }
                meter.begin();
                let work = generator.run(phase, &mut |part| tell(phase, part))?;
                meter.end(phase, work);
            }
        }
        Source::Bonnie => bonnie::run(
            &folder,
            &plan.load,
            &[&place.storage],
            &mut |phase, part| tell(phase, part),
            &mut meter,
        )?,
    }
    drop(meter);
    stack.unmount()
}
