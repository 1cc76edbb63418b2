//! Header operations, each with a power cut and an error at every place where there can be one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use scrim_backend::Backend;
use scrim_backend::sim::{Call, Failure, Fault, Faults, SimBackend};
use scrim_luks::Consent;
use scrim_seeded::Random;
use scrim_volume::LuksDevice;

use crate::broken::Broken;
use crate::canary::{self, Canary};
use crate::state::{State, observe};
use crate::transition::{Between, Class, Transition};

/// Bytes of data behind the header, which no operation may touch.
const DATA: u64 = 64 << 10;

/// An operation on a header.
///
/// The old and the new state are observed, not declared: they are what is on the device after
/// `prepare`, and after `run` when nothing goes wrong.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Description of the operation, for the table.
    pub name: &'static str,
    /// Offset, in bytes, of the data that it must leave alone.
    pub data: u64,
    /// Turns a device full of zeros into the one that the operation finds.
    pub prepare: fn(&dyn Backend) -> Result<(), String>,
    /// Runs the operation, as the program does.
    pub run: fn(&dyn Backend) -> Result<(), String>,
    /// States that a cut may leave besides the old and the new header.
    pub between: &'static [Between],
}

/// Counts of the states that power cuts have left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Places where the power was cut: during each write and sync, and after the last.
    pub cut_points: u64,
    /// Cases in which the device was as before.
    pub old: u64,
    /// Cases in which the device was as it was to be.
    pub new: u64,
    /// Cases in which the device was as one of [`Operation::between`].
    pub between: u64,
    /// Cases, of all these, in which the user would be asked before a copy of the header is
    /// repaired.
    pub asked: u64,
    /// Calls that failed with an error, one at a time.
    pub errors: u64,
}

#[derive(Debug, Clone, Copy)]
struct Judgement {
    class: Class,
    /// Consent that the repair of one of the header's copies needs; `None` if nothing is to be
    /// repaired.
    repair: Option<Consent>,
}

impl Operation {
    /// Cuts the power at every place, with several outcomes of each, and lets every call fail once.
    /// After each the device must be old, new, or allowed between; when the operation has said that
    /// it is done, new. What has to be repaired then is repaired, with a cut at every place of that
    /// too.
    ///
    /// # Errors
    /// The first device that is neither old, nor new, nor allowed between.
    pub fn check(&self, effort: Effort, canary: Option<Canary>) -> Result<Outcomes, Broken> {
        let broken = |what: String| effort.broken(self.name, &what);
        let mut trial = Trial::begin(self, canary).map_err(broken)?;
        let mut outcomes = Outcomes::default();
        let cut_points = trial.changes + 1;
        for cut in 1..=cut_points {
            outcomes.cut_points += 1;
            let faults = Faults {
                cut_at: Some(cut),
                ..Faults::default()
            };
            let (disk, done) = trial.run(faults);
            let at = |what| format!("power cut {cut} of {cut_points}: {what}");
            if done.is_ok() != (cut == cut_points) {
                return Err(broken(at(format!("the operation said {done:?}"))));
            }
            for seed in effort.seeds(cut) {
                let judged = trial.judge(&disk.after_cut(seed), done.is_ok());
                let judgement = judged.map_err(|what| broken(at(survivor(seed, &what))))?;
                outcomes.count(judgement);
            }
        }
        for fault in trial.faults() {
            outcomes.errors += 1;
            let (disk, done) = trial.run(Faults {
                failures: vec![fault],
                ..Faults::default()
            });
            let at = |what| format!("{fault:?}: {what}");
            if done.is_ok() {
                return Err(broken(at("nothing was said of it".to_owned())));
            }
            let now = disk.settled();
            let judged = trial.judge(&now, false);
            judged.map_err(|what| broken(at(what)))?;
            for seed in effort.seeds(fault.nth).take(3) {
                let judged = trial.judge(&disk.after_cut(seed), false);
                judged.map_err(|what| broken(at(survivor(seed, &what))))?;
            }
        }
        Ok(outcomes)
    }
}

impl Outcomes {
    fn count(&mut self, judgement: Judgement) {
        self.asked += u64::from(judgement.repair == Some(Consent::Ask));
        *match judgement.class {
            Class::Old => &mut self.old,
            Class::New => &mut self.new,
            Class::Between => &mut self.between,
        } += 1;
    }
}

/// Extent of a check, and its seed.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Seed that decides the outcomes.
    pub seed: u64,
    /// Outcomes of each power cut that are looked at.
    pub survivors: u64,
}

impl Effort {
    /// Seeds for the outcomes of the power cut of this number.
    pub(crate) fn seeds(self, cut: u64) -> impl Iterator<Item = u64> {
        let mut random = Random::of(self.seed, cut);
        (0..self.survivors).map(move |_| random.next())
    }

    pub(crate) fn broken(self, operation: &str, what: &str) -> Broken {
        let Self { seed, survivors } = self;
        Broken {
            seed,
            what: format!("{operation}: {what}"),
            trace: Vec::new(),
            replay: format!(
                "cargo xtask soak --operation '{operation}' --seed {seed} --survivors {survivors}"
            ),
        }
    }
}

/// Says which outcome of a power cut was wrong.
pub(crate) fn survivor(seed: u64, what: &str) -> String {
    format!("survivor {seed}: {what}")
}

/// An operation that is being tried.
struct Trial<'a> {
    operation: &'a Operation,
    canary: Option<Canary>,
    before: SimBackend,
    transition: Transition,
    data: Vec<u8>,
    /// Calls of the whole operation: those that change something, and all by kind.
    changes: u64,
    calls: Vec<(Call, u64)>,
    /// Devices that have been judged before, by what they hold.
    judged: BTreeMap<u64, Judgement>,
}

impl<'a> Trial<'a> {
    fn begin(operation: &'a Operation, canary: Option<Canary>) -> Result<Self, String> {
        let mut data = vec![0; usize::try_from(DATA).unwrap_or(0)];
        Random::new(1).fill(&mut data);
        let before = SimBackend::new(operation.data + DATA, 0);
        (operation.prepare)(&before)?;
        before
            .write_at(operation.data, &data, scrim_backend::Durability::Cached)
            .and_then(|()| before.flush())
            .map_err(|error| error.to_string())?;
        let old = observe(&before)?.state;
        let mut trial = Self {
            operation,
            canary,
            transition: Transition {
                new: old.clone(),
                old,
                between: operation.between.to_vec(),
            },
            before,
            data,
            changes: 0,
            calls: Vec::new(),
            judged: BTreeMap::new(),
        };
        let (disk, done) = trial.run(Faults::default());
        done?;
        trial.changes = disk.changes();
        let kinds = [Call::Read, Call::Write, Call::Flush];
        trial.calls = kinds.map(|call| (call, disk.calls(call))).to_vec();
        trial.transition.new = observe(&*disk)?.state;
        Ok(trial)
    }

    /// Runs the operation on a device of its own.
    fn run(&self, faults: Faults) -> (Arc<SimBackend>, Result<(), String>) {
        let disk = Arc::new(self.before.after_cut(0));
        disk.arm(faults);
        let backend = canary::backend(&disk, self.canary);
        let done = (self.operation.run)(&*backend);
        (disk, done)
    }

    /// Every call, failing in every way that its kind has.
    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for &(call, count) in &self.calls {
            let failures: &[Failure] = match call {
                Call::Read => &[Failure::Io, Failure::Short],
                Call::Write => &[Failure::Io, Failure::NoSpace],
                Call::Flush | Call::Discard => &[Failure::Io],
            };
            for nth in 1..=count {
                let each = failures.iter();
                faults.extend(each.map(|&failure| Fault { call, nth, failure }));
            }
        }
        faults
    }

    /// Judges a device. `acknowledged`: the operation has said that it is done.
    fn judge(&mut self, disk: &SimBackend, acknowledged: bool) -> Result<Judgement, String> {
        let contents = disk.contents();
        let data = usize::try_from(self.operation.data).unwrap_or(0);
        if contents.get(data..) != Some(&self.data[..]) {
            return Err("data behind the header has changed".to_owned());
        }
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        let name = hasher.finish();
        let judged = match self.judged.get(&name) {
            Some(judged) => *judged,
            None => self.judge_new(disk)?,
        };
        self.judged.insert(name, judged);
        if acknowledged && (judged.class != Class::New || judged.repair.is_some()) {
            return Err(format!("it was done, and the device is {judged:?}"));
        }
        Ok(judged)
    }

    fn judge_new(&self, disk: &SimBackend) -> Result<Judgement, String> {
        let seen = observe(disk)?;
        let state = &seen.state;
        let class = self.transition.class(state)?;
        if seen.repair == Some(Consent::NotNeeded) {
            check_repair(disk, state)?;
        }
        let repair = seen.repair;
        Ok(Judgement { class, repair })
    }
}

/// Opening the volume repairs it. A second power cut, during that, changes nothing either.
fn check_repair(disk: &SimBackend, state: &State) -> Result<(), String> {
    let repaired = disk.after_cut(0);
    LuksDevice::repair(&repaired).map_err(|error| error.to_string())?;
    let seen = observe(&repaired)?;
    if seen.state != *state || seen.repair.is_some() {
        return Err(format!("repaired, it is {:?}", seen.state));
    }
    for cut in 1..=repaired.changes() {
        let again = disk.after_cut(0);
        again.arm(Faults {
            cut_at: Some(cut),
            ..Faults::default()
        });
        if LuksDevice::repair(&again).is_ok() {
            return Err("the repair did not say that the power was cut".to_owned());
        }
        for seed in 0..4 {
            let seen = observe(&again.after_cut(seed))
                .map_err(|what| format!("cut while it was repaired: {what}"))?;
            if seen.state != *state {
                return Err(format!("cut while it was repaired, it is {:?}", seen.state));
            }
        }
    }
    Ok(())
}
