//! Measures what settings of an open volume change on its own storage, while it is in use: dm-crypt's flags, or data paths.
//!
//! The settings take turns within each round, so that what else the storage does in the meantime meets all of them.

mod load;
mod outcome;
mod plan;

use std::ops::ControlFlow;

pub use load::{BackendTarget, Direction, FileTarget, Load, Requests, fill};
pub use outcome::{Advice, Cell, Effect, TuneOutcome, Use};
pub use plan::{Setting, Tunable, TunePlan};

use crate::{Better, Progress, SeriesId, Study, Watch, turns};

/// Measures each setting under each load that it can change. `watch` hears how far it is, and can end it; whole rounds that
/// are complete by then count. The last setting that was applied stays at work.
///
/// # Errors
/// When a setting cannot be applied, or the storage fails a request.
pub fn measure<T: Tunable>(
    volume: &mut T,
    requests: &mut dyn Requests,
    plan: &TunePlan,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<TuneOutcome, T::Error> {
    let cells = cells(plan, study);
    let series: Vec<SeriesId> = cells.iter().flatten().flatten().copied().collect();
    let rounds = study.rounds();
    let mut complete = 0;
    for turn in turns(rounds, plan.loads.len(), plan.settings.len()) {
        let Some(cell) = cells[turn.load][turn.contender] else {
            continue;
        };
        complete = turn.round;
        if is_ended(watch, plan, turn.round, turn.load, rounds) {
            study.end_after(complete, &series);
            return Ok(TuneOutcome::of(plan, &cells, study));
        }
        volume.apply(turn.contender)?;
        let load = &plan.loads[turn.load];
        let rate = requests.run(load, plan.slice);
        let rate = rate.map_err(|error| T::failed(load, error))?;
        study.record(cell, rate);
    }
    debug_assert!(complete < rounds);
    Ok(TuneOutcome::of(plan, &cells, study))
}

/// A series for each load and setting; none where the setting does not touch the load's direction.
fn cells(plan: &TunePlan, study: &mut Study) -> Vec<Vec<Option<SeriesId>>> {
    let mut of_load = |load: &Load| -> Vec<Option<SeriesId>> {
        plan.settings
            .iter()
            .enumerate()
            .map(|(index, setting)| {
                let is_base = index == 0;
                (is_base || setting.directions.contains(&load.direction)).then(|| {
                    let name = format!("{}_{}", load.name(), setting.name);
                    study.series(name, "MB/s", Better::Higher, load.describe())
                })
            })
            .collect()
    };
    plan.loads.iter().map(&mut of_load).collect()
}

fn is_ended(
    watch: &mut Watch<'_>,
    plan: &TunePlan,
    round: usize,
    load: usize,
    rounds: usize,
) -> bool {
    let progress = Progress {
        what: plan.loads[load].name(),
        round: round + 1,
        rounds,
        part: load as f64 / plan.loads.len() as f64,
    };
    watch(&progress) == ControlFlow::Break(())
}

#[cfg(test)]
mod tests;
