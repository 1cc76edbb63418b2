//! The generator beside the real bonnie++ on one file system, in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bonnie::{Bonnie, Listener, drop_its_caches, parse, too_quick};
use super::caches::{CACHES_KEPT, drop_caches};
use super::error::FileserverError;
use super::generator::Generator;
use super::phase::{Load, Phase};
use super::place::{FOLDER, Target, demand_space};
use crate::{Better, Progress, SeriesId, Study, Watch, turns};

/// Phases whose figures should be the same.
const COMPARED: [Phase; 5] = [
    Phase::CharWrite,
    Phase::BlockWrite,
    Phase::Rewrite,
    Phase::CharRead,
    Phase::BlockRead,
];
/// Names of the contenders: the generator first.
const CONTENDERS: [&str; 2] = ["generator", "bonnie"];

/// A folder of this run, which is removed with this.
struct Work(PathBuf);

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures the generator and bonnie++ in a directory in the rounds of `study`, both with caches dropped before each
/// phase that reads. Ratios are named `generator_vs_bonnie_PHASE`.
///
/// # Errors
/// When a file cannot be written, or bonnie++ does not run.
pub(super) fn measure(
    directory: &Path,
    load: Load,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<(), FileserverError> {
    demand_space(
        &Target::Directory(directory.to_owned()),
        load.volume_bytes(),
    )?;
    let base = directory.join(FOLDER);
    let shown = base.display();
    fs::create_dir(&base).map_err(FileserverError::system(format!("create {shown}")))?;
    let work = Work(base);
    let mut are_dropped = true;
    let series = COMPARED.map(|phase| {
        CONTENDERS.map(|contender| {
            let name = format!("{contender}_{}", phase.name());
            study.series(name, "MB/s", Better::Higher, phase.describe())
        })
    });
    let rounds = study.rounds();
    let all = rounds * CONTENDERS.len();
    for (done, turn) in turns(rounds, 1, CONTENDERS.len()).enumerate() {
        let progress = Progress {
            what: CONTENDERS[turn.contender].to_owned(),
            round: turn.round + 1,
            rounds,
            part: done as f64 / all as f64,
        };
        let mut stopped = || watch(&progress).is_break();
        let folder = work.0.join("turn");
        fs::create_dir(&folder).map_err(FileserverError::system(format!(
            "create {}",
            folder.display()
        )))?;
        let rates = match turn.contender {
            0 => by_generator(&folder, load, &mut are_dropped, &mut stopped),
            _ => by_bonnie(&folder, &load, &mut are_dropped, &mut stopped),
        };
        let _ = fs::remove_dir_all(&folder);
        let rates = match rates {
            Err(FileserverError::Interrupted) => {
                let series: Vec<SeriesId> = series.iter().flatten().copied().collect();
                study.end_after(turn.round, &series);
                break;
            }
            rates => rates?,
        };
        for (phase, series) in COMPARED.iter().zip(&series) {
            if let Some((_, rate)) = rates.iter().find(|(one, _)| one == phase) {
                study.record(series[turn.contender], *rate);
            } else {
                study.warn(too_quick(*phase));
            }
        }
    }
    if !are_dropped {
        study.warn(CACHES_KEPT.to_owned());
    }
    for (phase, [ours, theirs]) in COMPARED.iter().zip(series) {
        let name = format!("generator_vs_bonnie_{}", phase.name());
        study.ratio(&name, ours, theirs, None);
    }
    Ok(())
}

fn by_generator(
    folder: &Path,
    load: Load,
    are_dropped: &mut bool,
    stopped: &mut dyn FnMut() -> bool,
) -> Result<Vec<(Phase, f64)>, FileserverError> {
    let mut generator = Generator::new(folder, load);
    let mut rates = Vec::new();
    for phase in COMPARED {
        if phase.starts_cold() {
            *are_dropped &= drop_caches(&[&generator.file(), &generator.characters()]);
        }
        let work = generator.run(phase, &mut |_| match stopped() {
            true => std::ops::ControlFlow::Break(()),
            false => std::ops::ControlFlow::Continue(()),
        })?;
        rates.push((phase, work.rate(phase)));
    }
    Ok(rates)
}

fn by_bonnie(
    folder: &Path,
    load: &Load,
    are_dropped: &mut bool,
    stopped: &mut dyn FnMut() -> bool,
) -> Result<Vec<(Phase, f64)>, FileserverError> {
    struct Cold<'a>(PathBuf, &'a mut bool);
    impl Listener for Cold<'_> {
        fn begin(&mut self, phase: Phase) {
            if phase.starts_cold() {
                *self.1 &= drop_its_caches(&self.0, &[]);
            }
        }
        fn end(&mut self, _: Phase, _: Duration, _: Duration) {}
    }
    let mut bonnie = Bonnie::start(folder, load)?;
    let mut cold = Cold(folder.to_owned(), are_dropped);
    let line = bonnie.run(&mut cold, &mut |_, _| stopped())?;
    Ok(parse(&line))
}
