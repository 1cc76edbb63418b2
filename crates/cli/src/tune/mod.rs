//! `scrim tune`: what settings of an open volume change on its own storage, measured while it is in use.
//!
//! A record beside the volume's control socket has the settings that it had before; `--undo` and the next start read it.

mod kernel;
mod record;
mod scrim;
mod target;

use scrim_bench::tune::{Advice, Direction, Load, Setting, Tunable, TuneOutcome, Use};

pub(crate) use kernel::KernelTuned;
pub(crate) use record::{Phase, Record, Settings, Turn};
pub(crate) use scrim::{ScrimTuned, opening};
pub(crate) use target::{Targets, WriteFile, device};

use crate::error::CliError;

/// An open volume with the settings that its engine has.
pub(crate) trait Tuned: Tunable<Error = CliError> {
    /// Settings to compare; the first is the usual one.
    fn settings(&self) -> Vec<Setting>;

    /// Puts settings to work together, for good; none stands for the usual one.
    fn choose(&mut self, settings: &[usize]) -> Result<(), CliError>;

    /// Goes back to the settings that the volume had.
    fn restore(&mut self) -> Result<(), CliError>;

    /// Lines that set these settings; none stands for the usual one.
    fn commands(&self, settings: &[usize]) -> Vec<String>;
}

/// Loads that are measured, in the directions that can be.
pub(crate) fn loads(writes: bool) -> Vec<Load> {
    let directions = match writes {
        true => &[Direction::Read, Direction::Write][..],
        false => &[Direction::Read],
    };
    let load = |direction, bytes, depth, sequential| Load {
        direction,
        bytes,
        depth,
        sequential,
    };
    let of = |&direction: &Direction| {
        [
            load(direction, 4 << 10, 1, false),
            load(direction, 4 << 10, 32, false),
            load(direction, 16 << 10, 8, false),
            load(direction, 1 << 20, 1, true),
            load(direction, 1 << 20, 4, true),
        ]
    };
    directions.iter().flat_map(of).collect()
}

/// The advice for each use in words, with the lines that set it.
pub(crate) fn advice_text(outcome: &TuneOutcome, tuned: &impl Tuned) -> String {
    let mut text = String::new();
    for r#use in Use::ALL {
        let advice = outcome.advice(r#use);
        text.push_str(&format!(
            "{:<10}{}\n",
            format!("{}:", r#use.name()),
            sentence(outcome, &advice)
        ));
        if !advice.settings.is_empty() {
            for line in tuned.commands(&advice.settings) {
                text.push_str(&format!("            {line}\n"));
            }
        }
    }
    text
}

/// Advice as a sentence.
pub(crate) fn sentence(outcome: &TuneOutcome, advice: &Advice) -> String {
    let names: Vec<&str> = advice
        .settings
        .iter()
        .map(|&index| outcome.settings[index].name.as_str())
        .collect();
    let mut parts = Vec::new();
    match (names.is_empty(), advice.cannot_tell.is_empty()) {
        (false, _) => parts.push(names.join(" and ")),
        (true, true) if advice.not_measured.len() < 2 => parts.push(format!(
            "no setting makes a difference; {} is as good",
            outcome.settings[0].name
        )),
        _ => {}
    }
    if !advice.cannot_tell.is_empty() {
        parts.push(format!(
            "cannot tell for {}: the intervals are too wide, so nothing is advised there",
            directions(&advice.cannot_tell)
        ));
    }
    if !advice.not_measured.is_empty() {
        parts.push(format!("{} not measured", directions(&advice.not_measured)));
    }
    parts.join("; ")
}

fn directions(directions: &[Direction]) -> String {
    let names = directions.iter().map(|direction| match direction {
        Direction::Read => "reads",
        Direction::Write => "writes",
    });
    names.collect::<Vec<_>>().join(" and ")
}
