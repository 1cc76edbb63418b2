//! The state of a comparison: its plan, and the result of every turn so far. It survives the end of the process.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use super::bystander::Latency;
use super::combination::{Cipher, Combination};
use super::error::FileserverError;
use super::identity::Identity;
use super::phase::{Load, Phase};
use super::place::Target;
use super::sampler::Usage;
use super::stack::Method;
use crate::turns;

/// Seconds below which a phase is too short for the kernel's count of busy processors.
const SHORT: f64 = 0.2;
/// Version of the state file's format.
const VERSION: u32 = 2;
/// First bytes of every state file.
const START: &[u8] = b"{\"version\":";
/// Most bytes of a state file that are read.
const STATE_MAX: u64 = 64 << 20;

/// A comparison: what is to be measured, and what has been.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Night {
    version: u32,
    pub plan: Plan,
    /// Turns that are complete, in the order in which they ran.
    pub turns: Vec<TurnResult>,
    /// Raw rates of the storage, one for each round that was begun.
    pub raw: Vec<Raw>,
}

/// Parameters of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub target: Target,
    /// Identity of the target when the comparison began.
    pub identity: Identity,
    pub combinations: Vec<Combination>,
    pub rounds: usize,
    pub load: Load,
    /// Program or kernel code that mounts Scrim's volumes.
    pub method: Method,
    /// Source of the load.
    pub source: Source,
    /// MB/s that a client's disk reads and writes, for the rule of need.
    pub client: Client,
}

/// Program that makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The generator of this program.
    Own,
    /// The real bonnie++, which must be installed.
    Bonnie,
}

/// Rates of the disk of the fastest client, in MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    pub read: f64,
    pub write: f64,
}

/// Rates of the storage without a volume and a file system, in MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raw {
    /// Index of the round.
    pub round: usize,
    pub write: f64,
    pub read: f64,
    /// True if caches could not be dropped before the storage was read.
    #[serde(default)]
    pub caches_kept: bool,
}

/// Result of one combination in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// Index of the round.
    pub round: usize,
    /// Index of the combination in the plan.
    pub combination: usize,
    /// Phases that were complete.
    pub phases: Vec<PhaseResult>,
    /// Reason why the other phases are missing.
    pub failure: Option<String>,
    /// True if caches could not be dropped before a phase that reads.
    #[serde(default)]
    pub caches_kept: bool,
}

/// Result of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    pub phase: Phase,
    /// MB/s, places or files a second.
    pub rate: f64,
    pub seconds: f64,
    /// Bytes, places or files.
    pub amount: u64,
    /// Processor time of each process, in seconds, by its name.
    pub cpu: Vec<(String, f64)>,
    /// Busy processors, and the most memory.
    pub usage: Usage,
    /// Parts of the phase, in order.
    pub over_time: Vec<Usage>,
    /// Latency of a bystander.
    pub bystander: Option<Latency>,
}

impl PhaseResult {
    /// Processors that were busy. `None` for a short phase: the kernel counts in ticks of up to 10 ms.
    pub(super) fn busy_cores(&self) -> Option<f64> {
        (self.seconds >= SHORT).then_some(self.usage.cores)
    }
}

impl Client {
    /// Checks that a client has rates as its options allow.
    fn check(self) -> Result<(), String> {
        let fits = |rate: f64| (0.001..=3600.0).contains(&rate);
        match fits(self.read) && fits(self.write) {
            true => Ok(()),
            false => {
                Err("a client's disk with a rate that is not within 0.001 and 3600".to_owned())
            }
        }
    }
}

impl PhaseResult {
    /// CPU seconds of a process per GB; `None` for phases that move no bytes.
    #[must_use]
    pub fn cpu_per_gb(&self, process: &str) -> Option<f64> {
        let (_, seconds) = self.cpu.iter().find(|(name, _)| name == process)?;
        let has_bytes = self.phase.moves_bytes() && self.amount > 0;
        has_bytes.then(|| seconds / (self.amount as f64 / 1e9))
    }
}

impl Night {
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            version: VERSION,
            plan,
            turns: Vec::new(),
            raw: Vec::new(),
        }
    }

    /// Reads a state file.
    ///
    /// # Errors
    /// When there is no such file, or it is not a state file of this version.
    pub fn load(path: &Path) -> Result<Self, FileserverError> {
        let shown = path.display();
        let unusable = |why: String| FileserverError::State {
            said: format!("{shown}: {why}; remove the file to begin anew"),
        };
        let doing = format!("read the state file {shown}");
        let metadata = fs::metadata(path).map_err(FileserverError::system(&doing))?;
        if metadata.len() > STATE_MAX {
            return Err(unusable("too long for a state file".to_owned()));
        }
        let text = fs::read(path).map_err(FileserverError::system(&doing))?;
        let night: Self = serde_json::from_slice(&text)
            .map_err(|error| unusable(format!("not a state file: {error}")))?;
        night.check().map_err(unusable)?;
        Ok(night)
    }

    /// Checks what the type does not: a state file is text that anybody may have changed.
    fn check(&self) -> Result<(), String> {
        let plan = &self.plan;
        if self.version != VERSION {
            return Err("the state file of another version of Scrim".to_owned());
        }
        if !(1..=1000).contains(&plan.rounds) || !(1..=1000).contains(&plan.combinations.len()) {
            return Err("a number of rounds or combinations that no run has".to_owned());
        }
        plan.load.check()?;
        plan.client.check()?;
        let mut ciphers = plan
            .combinations
            .iter()
            .filter_map(|one| one.cipher.as_ref());
        ciphers.try_for_each(Cipher::check)?;
        let within = |round: usize| round < plan.rounds;
        let known = |turn: &TurnResult| turn.combination < plan.combinations.len();
        if !self
            .turns
            .iter()
            .all(|turn| within(turn.round) && known(turn))
            || !self.raw.iter().all(|raw| within(raw.round))
        {
            return Err("the result of a turn that the plan does not have".to_owned());
        }
        let place = |turn: &TurnResult| (turn.round, turn.combination);
        let mut places: Vec<_> = self.turns.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        match places.len() == self.turns.len() {
            true => Ok(()),
            false => Err("two results of one turn".to_owned()),
        }
    }

    /// Goes on at `target`. It may be another path of the same storage: of another working directory, or where a disk is
    /// mounted after a reboot.
    ///
    /// # Errors
    /// When it is another storage and there is something to measure: results of two storages do not compare.
    pub fn move_to(&mut self, target: Target) -> Result<(), FileserverError> {
        if !self.missing().is_empty()
            && let Some(difference) = self.plan.identity.difference(&target.identity()?)
        {
            return Err(FileserverError::State {
                said: format!(
                    "the state file is of another storage: {difference}; name the one that the run was begun on, or give \
                     another --state and begin anew"
                ),
            });
        }
        self.plan.target = target;
        Ok(())
    }

    /// Replaces the state file at once: after a power cut there is the old state or the new one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), FileserverError> {
        let beside = beside(path);
        remove_unfinished(&beside)?;
        let write = || -> io::Result<()> {
            let mut file = File::create_new(&beside)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            File::open(folder)?.sync_all()
        };
        let result = write();
        if result.is_err() {
            let _ = fs::remove_file(&beside);
        }
        let doing = format!("write the state file {}", path.display());
        result.map_err(FileserverError::system(doing))
    }

    /// Turns that are still to run, in order: of each round those that have no result, without combinations that
    /// have failed before.
    #[must_use]
    pub fn missing(&self) -> Vec<(usize, usize)> {
        let plan = &self.plan;
        let all = turns(plan.rounds, 1, plan.combinations.len());
        let all = all.map(|turn| (turn.round, turn.contender));
        all.filter(|&(_, combination)| self.failure_of(combination).is_none())
            .filter(|&(round, combination)| self.result(round, combination).is_none())
            .collect()
    }

    /// The result of a combination in a round.
    #[must_use]
    pub fn result(&self, round: usize, combination: usize) -> Option<&TurnResult> {
        let mut turns = self.turns.iter();
        turns.find(|turn| (turn.round, turn.combination) == (round, combination))
    }

    /// Reason why a combination is not measured any more.
    #[must_use]
    pub fn failure_of(&self, combination: usize) -> Option<&str> {
        let mut turns = self.turns.iter();
        turns.find_map(|turn| {
            let failure = turn.failure.as_deref()?;
            (turn.combination == combination).then_some(failure)
        })
    }

    /// Reason why the first turn failed, if every turn did.
    #[must_use]
    pub fn failure_of_all(&self) -> Option<&str> {
        let mut failures = self.turns.iter().map(|turn| turn.failure.as_deref());
        let first = failures.next()??;
        let all_failed = failures.all(|failure| failure.is_some());
        (all_failed && self.missing().is_empty()).then_some(first)
    }

    /// Returns whether caches could not be dropped in a turn or before a raw measurement.
    #[must_use]
    pub fn has_kept_caches(&self) -> bool {
        self.turns.iter().any(|turn| turn.caches_kept) || self.raw.iter().any(|raw| raw.caches_kept)
    }

    /// Number of rounds in which every combination that did not fail has a result.
    #[must_use]
    pub fn whole_rounds(&self) -> usize {
        let whole = |round: usize| !self.missing().iter().any(|(missing, _)| *missing == round);
        (0..self.plan.rounds)
            .take_while(|&round| whole(round))
            .count()
    }

    /// Results of a combination's phase in whole rounds, in order.
    pub(super) fn results(&self, combination: usize, phase: Phase) -> Vec<&PhaseResult> {
        let rounds = 0..self.whole_rounds();
        let results = rounds.filter_map(|round| self.result(round, combination));
        let phases = results.filter_map(|turn| turn.phases.iter().find(|one| one.phase == phase));
        phases.collect()
    }
}

/// Removes a state file that a run was killed over while it wrote it. It may have any length, since it was not synced.
fn remove_unfinished(path: &Path) -> Result<(), FileserverError> {
    let doing = || format!("remove the unfinished state file {}", path.display());
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(FileserverError::system(doing()))?,
    };
    let is_state = || -> io::Result<bool> {
        let mut start = Vec::new();
        File::open(path)?
            .take(START.len() as u64)
            .read_to_end(&mut start)?;
        let is_unwritten = start.iter().all(|byte| *byte == 0);
        Ok(is_unwritten || START.starts_with(&start))
    };
    let is_own = found.is_file() && found.uid() == getuid().as_raw();
    if !is_own || !is_state().map_err(FileserverError::system(doing()))? {
        return Err(FileserverError::Occupied {
            said: format!(
                "{} is in the way of the state file, and is not of an earlier run; move it elsewhere, or give another \
                 --state",
                path.display()
            ),
        });
    }
    fs::remove_file(path).map_err(FileserverError::system(doing()))
}

/// The file that is written before it takes the state file's place.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::combination::MountPath;
    use super::*;
    use crate::folder::Folder;

    /// A night of two rounds on plain data and one cipher, without results.
    pub(in crate::fileserver) fn empty() -> Night {
        let ciphers = [Cipher::parse("aes-xts-plain64:512").unwrap()];
        let paths = [MountPath::Inline, MountPath::Queued];
        Night::new(Plan {
            target: Target::Directory("/srv".into()),
            identity: Identity {
                path: "/srv".into(),
                bytes: None,
                device: None,
            },
            combinations: Combination::of(&ciphers, &paths, false),
            rounds: 2,
            load: Load::quick(1 << 28),
            method: Method::Auto,
            source: Source::Own,
            client: Client {
                read: 60.0,
                write: 40.0,
            },
        })
    }

    /// The result of a turn whose every phase has this rate.
    pub(in crate::fileserver) fn turn(round: usize, combination: usize, rate: f64) -> TurnResult {
        let phases = Phase::ALL.map(|phase| PhaseResult {
            phase,
            rate,
            seconds: 2.0,
            amount: 1 << 28,
            cpu: vec![("scrim".to_owned(), 0.5), ("generator".to_owned(), 0.25)],
            usage: Usage {
                cores: 1.25,
                memory_mib: 12.0,
            },
            over_time: vec![
                Usage {
                    cores: 1.0,
                    memory_mib: 11.0
                };
                3
            ],
            bystander: Some(Latency {
                p50: 90.0,
                p99: 900.0,
                reads: 100,
            }),
        });
        TurnResult {
            round,
            combination,
            phases: phases.to_vec(),
            failure: None,
            caches_kept: false,
        }
    }

    /// A night with all its results.
    pub(in crate::fileserver) fn full() -> Night {
        let mut night = empty();
        for (round, combination) in night.missing() {
            let rate = 200.0 / (combination + 1) as f64 + round as f64;
            night.turns.push(turn(round, combination, rate));
        }
        night.raw = (0..2)
            .map(|round| Raw {
                round,
                write: 300.0,
                read: 400.0,
                caches_kept: false,
            })
            .collect();
        night
    }

    #[test]
    fn what_has_a_result_is_not_measured_again() {
        let mut night = empty();
        assert_eq!(
            night.missing(),
            [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]
        );
        night.turns.push(turn(0, 0, 1.0));
        night.turns.push(turn(0, 1, 1.0));
        assert_eq!((night.missing()[0], night.whole_rounds()), ((0, 2), 0));
        assert!(night.results(0, Phase::Seeks).is_empty());
        night.turns.push(turn(0, 2, 1.0));
        assert_eq!(night.whole_rounds(), 1);
        assert_eq!(night.results(0, Phase::Seeks).len(), 1);
    }

    #[test]
    fn a_combination_that_failed_is_left_out_of_later_rounds() {
        let mut night = empty();
        let mut failed = turn(0, 1, 1.0);
        failed.failure = Some("no such cipher".to_owned());
        night.turns = vec![turn(0, 0, 1.0), failed, turn(0, 2, 1.0)];
        assert_eq!(night.missing(), [(1, 2), (1, 0)]);
        assert_eq!(night.failure_of(1), Some("no such cipher"));
        assert_eq!(night.failure_of_all(), None);
        let mut all_failed = night.clone();
        for turn in &mut all_failed.turns {
            turn.failure = Some("no mount".to_owned());
        }
        assert_eq!(all_failed.failure_of_all(), Some("no mount"));
        // A failure in the second round does not discard the first one.
        let mut later = empty();
        for combination in 0..3 {
            later.turns.push(turn(0, combination, 1.0));
            let mut failed = turn(1, combination, 1.0);
            failed.failure = Some("disk full".to_owned());
            later.turns.push(failed);
        }
        assert_eq!(later.failure_of_all(), None);
        assert_eq!(night.whole_rounds(), 1);
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-night").unwrap();
        let path = folder.path().join("state.json");
        for night in [empty(), full()] {
            night.save(&path).unwrap();
            assert_eq!(Night::load(&path).unwrap(), night);
        }
        assert!(!beside(&path).exists());
    }

    #[test]
    fn what_was_left_of_an_earlier_save_is_replaced_and_other_files_stay() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-night").unwrap();
        let path = folder.path().join("state.json");
        for left in [&b""[..], b"{\"ver", b"{\"version\":2,\"pl", &[0; 4096]] {
            fs::write(beside(&path), left).unwrap();
            empty().save(&path).unwrap();
            assert!(!beside(&path).exists());
        }
        fs::write(beside(&path), "a letter").unwrap();
        let refused = full().save(&path).unwrap_err().to_string();
        assert!(refused.contains("in the way"), "{refused}");
        assert_eq!(fs::read(beside(&path)).unwrap(), b"a letter");
        fs::remove_file(beside(&path)).unwrap();
        std::os::unix::fs::symlink(&path, beside(&path)).unwrap();
        assert!(full().save(&path).is_err());
        assert_eq!(Night::load(&path).unwrap(), empty());
    }

    #[test]
    fn another_storage_does_not_go_on() {
        let base = Folder::make(&std::env::temp_dir(), "scrim-night").unwrap();
        let [one, other] = ["one", "other"].map(|name| Target::Directory(base.path().join(name)));
        for target in [&one, &other] {
            fs::create_dir(target.folder().parent().unwrap()).unwrap();
        }
        let mut night = empty();
        night.plan.identity = Identity {
            device: Some("naa.1".to_owned()),
            ..one.identity().unwrap()
        };
        let is_named = other.identity().unwrap().device.is_some();
        let refused = night.move_to(other.clone()).unwrap_err().to_string();
        assert!(refused.contains("another storage"), "{refused}");
        assert_eq!(night.move_to(one.clone()).is_ok(), !is_named);
        night.plan.identity = one.identity().unwrap();
        night.move_to(one).unwrap();
        // Nothing is measured there any more.
        let mut night = full();
        night.move_to(other.clone()).unwrap();
        assert_eq!(night.plan.target, other);
    }

    #[test]
    fn a_state_that_is_no_state_is_refused() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-night").unwrap();
        let path = folder.path().join("state.json");
        let refused = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            Night::load(&path).unwrap_err().to_string()
        };
        let json = |night: &Night| serde_json::to_vec(night).unwrap();
        assert!(refused(b"{}").contains("not a state file"));
        assert!(refused(&json(&full())[..1000]).contains("not a state file"));
        let mut other = full();
        other.version = 1;
        assert!(refused(&json(&other)).contains("another version"));
        let mut twice = full();
        twice.turns.push(turn(0, 0, 5.0));
        assert!(refused(&json(&twice)).contains("two results of one turn"));
        let mut unknown = full();
        unknown.turns[0].combination = 9;
        assert!(refused(&json(&unknown)).contains("does not have"));
        let mut endless = empty();
        endless.plan.rounds = usize::MAX;
        assert!(refused(&json(&endless)).contains("rounds"));
        assert!(Night::load(&folder.path().join("none")).is_err());
        let changed = |change: &dyn Fn(&mut Plan)| {
            let mut night = empty();
            change(&mut night.plan);
            refused(&json(&night))
        };
        assert!(changed(&|plan| plan.load.limit_seconds = -1.0).contains("load"));
        assert!(changed(&|plan| plan.load.bytes = u64::MAX).contains("load"));
        assert!(changed(&|plan| plan.load.char_bytes = u64::MAX).contains("load"));
        assert!(changed(&|plan| plan.load.seeks = u64::MAX).contains("load"));
        assert!(changed(&|plan| plan.load.files = u64::MAX).contains("load"));
        assert!(changed(&|plan| plan.client.read = 0.0).contains("client"));
        let cipher = |spec: &str, key_bits| {
            let spec = spec.to_owned();
            let cipher = Some(Cipher { spec, key_bits });
            changed(&|plan| plan.combinations[1].cipher = cipher.clone())
        };
        assert!(cipher("aes-xts-plain64", 1 << 50).contains("does not fit"));
        assert!(cipher("aes-xts-plain64 00 0\n", 512).contains("cipher"));
    }
}
