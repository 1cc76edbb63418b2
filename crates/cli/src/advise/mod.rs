//! Advice for a volume that does not exist yet: what this machine and the storage are, what was measured on them, and the
//! options that follow.

mod measure;
mod page;
mod place;
mod rules;

use scrim_bench::Report;
use serde::Serialize;

pub(crate) use measure::{Figures, measure};
pub(crate) use place::Place;
use rules::{Command, Line};

/// All that was found and is advised; also the output of `--json` (docs/advise.schema.json).
#[derive(Serialize)]
pub(crate) struct Advice {
    scrim: &'static str,
    place: Place,
    figures: Figures,
    /// One line for each choice, in the order in which they are made.
    recommendations: Vec<Line>,
    commands: Vec<Command>,
    /// Figures that are missing, each with the command that measures it.
    not_measured: Vec<String>,
    /// The machine, as in docs/benchmark.schema.json.
    machine: serde_json::Value,
    /// Reasons for which a figure may be worth less than it looks.
    warnings: Vec<String>,
}

impl Advice {
    /// Draws the conclusions from what was found and measured.
    pub(crate) fn new(place: Place, figures: Figures, report: &Report) -> Self {
        let advised = rules::apply(&place, &figures);
        Self {
            scrim: env!("CARGO_PKG_VERSION"),
            recommendations: advised.lines,
            commands: advised.commands,
            not_measured: advised.not_measured,
            place,
            figures,
            machine: report.to_json()["machine"].take(),
            warnings: report.warnings.clone(),
        }
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
