//! Effects of settings, and the settings that suit each use of the volume.

use std::fmt::Write as _;

use super::load::{Direction, Load};
use super::plan::{Setting, TunePlan};
use crate::chart::{Ink, chart};
use crate::stat::{Interval, sign_test};
use crate::{SeriesId, Study};

/// Part of a rate that matters: what changes less makes no difference to a user.
const MATTERS: f64 = 0.03;
/// Chance of one wrong effect among all comparisons of a run that is accepted. The intervals are each right in 95 of 100
/// cases, and a run has some twenty of them.
const DOUBT: f64 = 0.05;
/// Half of the widest interval around 1 that still says that nothing changed.
const NARROW: f64 = 0.05;

/// Effect of a setting on a load, beside the first setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Helps,
    Hurts,
    /// The rate is the same but for what does not matter.
    NoDifference,
    /// The interval is too wide, or too few rounds agree.
    CannotTell,
}

/// Rate of a load with a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Median rate in MB/s.
    pub rate: f64,
    /// Ratio to the first setting with its interval; 1 for that itself.
    pub ratio: f64,
    /// 95 % interval of the ratio, from the bootstrap.
    pub interval: Interval,
    /// Effect, compared with the first setting.
    pub effect: Effect,
}

/// Rates of all loads and settings, and their ratios: the results of [`measure`](super::measure).
#[derive(Debug, Clone, PartialEq)]
pub struct TuneOutcome {
    /// The settings that were compared.
    pub settings: Vec<Setting>,
    /// Each load, and its cell for each setting; `None` where the setting does not touch the load's direction, or no round
    /// was complete.
    pub rows: Vec<(Load, Vec<Option<Cell>>)>,
}

/// Named uses of a volume, by the loads that count for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Requests of at most 16 KiB at random places.
    Database,
    /// Requests of 1 MiB.
    Files,
    /// Every load that is measured.
    Mixed,
}

impl Use {
    /// All uses, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Database, Self::Files, Self::Mixed];

    /// Name, as users read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Files => "files",
            Self::Mixed => "mixed",
        }
    }

    fn counts(self, load: &Load) -> bool {
        match self {
            Self::Database => load.bytes <= 16 << 10,
            Self::Files => load.bytes >= 1 << 20,
            Self::Mixed => true,
        }
    }
}

/// Settings that suit a use of the volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Settings to put to work together, by index; none where the first one is as good.
    pub settings: Vec<usize>,
    /// Directions for which the intervals are too wide to tell.
    pub cannot_tell: Vec<Direction>,
    /// Directions of which no load was measured.
    pub not_measured: Vec<Direction>,
}

impl TuneOutcome {
    pub(super) fn of(plan: &TunePlan, series: &[Vec<Option<SeriesId>>], study: &mut Study) -> Self {
        let compared = series.iter().flat_map(|series| series.iter().skip(1));
        let comparisons = compared.flatten().count();
        let rows = plan.loads.iter().zip(series).map(|(load, series)| {
            let base = series.first().copied().flatten();
            let cells = series
                .iter()
                .zip(&plan.settings)
                .enumerate()
                .map(|(index, (id, setting))| {
                    let (id, base) = ((*id)?, base?);
                    let rate = study.median(id)?;
                    if index == 0 {
                        return Some(Cell::base(rate));
                    }
                    let name = format!(
                        "{}_{}_vs_{}",
                        load.name(),
                        setting.name,
                        plan.settings[0].name
                    );
                    study.ratio(&name, id, base, None)?;
                    let (agreeing, rounds) = study.agreeing(id, base);
                    let is_sure = sign_test(agreeing, rounds) * comparisons as f64 <= DOUBT;
                    let found = study.found(&name)?;
                    Some(Cell {
                        rate,
                        ratio: found.value,
                        interval: found.interval,
                        effect: effect(found.value, found.interval, is_sure),
                    })
                })
                .collect();
            (*load, cells)
        });
        Self {
            rows: rows.collect(),
            settings: plan.settings.clone(),
        }
    }

    /// Settings for a use: in each direction the one that helps most and hurts no load of the use.
    #[must_use]
    pub fn advice(&self, r#use: Use) -> Advice {
        let mut advice = Advice::default();
        for direction in [Direction::Read, Direction::Write] {
            let rows: Vec<_> = self
                .rows
                .iter()
                .filter(|(load, cells)| {
                    r#use.counts(load)
                        && load.direction == direction
                        && cells.iter().any(Option::is_some)
                })
                .collect();
            if rows.is_empty() {
                advice.not_measured.push(direction);
                continue;
            }
            let best = (1..self.settings.len())
                .filter(|&setting| !self.hurts(r#use, setting))
                .filter(|&setting| has(&rows, setting, Effect::Helps))
                .max_by(|&a, &b| gain(&rows, a).total_cmp(&gain(&rows, b)));
            match best {
                Some(best) if !advice.settings.contains(&best) => advice.settings.push(best),
                Some(_) => {}
                None => {
                    let settings = 1..self.settings.len();
                    let unclear = settings
                        .filter(|&setting| has(&rows, setting, Effect::CannotTell))
                        .count();
                    if unclear > 0 {
                        advice.cannot_tell.push(direction);
                    }
                }
            }
        }
        advice
    }

    /// Returns whether a setting makes a load of the use slower, in either direction.
    fn hurts(&self, r#use: Use, setting: usize) -> bool {
        let rows: Vec<_> = self
            .rows
            .iter()
            .filter(|(load, _)| r#use.counts(load))
            .collect();
        has(&rows, setting, Effect::Hurts)
    }

    /// The table of all cells: rate, ratio, interval and effect.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<16}{:<26}{:>10}{:>8}   {:<16}\n",
            "load", "setting", "MB/s", "ratio", "95 % interval"
        );
        for (load, cells) in &self.rows {
            for (setting, cell) in self.settings.iter().zip(cells) {
                let Some(cell) = cell else { continue };
                let Cell {
                    rate,
                    ratio,
                    interval: Interval { low, high },
                    effect,
                } = cell;
                let rest = match setting == &self.settings[0] {
                    true => String::new(),
                    false => format!(
                        "{ratio:>8.3}   {:<16}{}",
                        format!("{low:.3} to {high:.3}"),
                        effect.describe()
                    ),
                };
                let line = format!("{:<16}{:<26}{rate:>10.1}{rest}", load.name(), setting.name);
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        text
    }

    /// A bar for each cell: its rate.
    #[must_use]
    pub fn chart(&self, width: usize, ink: Ink) -> String {
        let mut text = String::new();
        for (load, cells) in &self.rows {
            let bars: Vec<(String, f64)> = self
                .settings
                .iter()
                .zip(cells)
                .filter_map(|(setting, cell)| Some((setting.name.clone(), cell.as_ref()?.rate)))
                .collect();
            if !bars.is_empty() {
                let _ = write!(text, "{}, MB/s\n{}", load.name(), chart(&bars, width, ink));
            }
        }
        text
    }
}

impl Cell {
    fn base(rate: f64) -> Self {
        Self {
            rate,
            ratio: 1.0,
            interval: Interval {
                low: 1.0,
                high: 1.0,
            },
            effect: Effect::NoDifference,
        }
    }
}

impl Effect {
    /// Returns the effect in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Helps => "helps",
            Self::Hurts => "hurts",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// Judges a comparison; `is_sure` where enough rounds agree on its direction.
fn effect(ratio: f64, Interval { low, high }: Interval, is_sure: bool) -> Effect {
    if is_sure && low > 1.0 && ratio >= 1.0 + MATTERS {
        Effect::Helps
    } else if is_sure && high < 1.0 && ratio <= 1.0 - MATTERS {
        Effect::Hurts
    } else if low >= 1.0 - NARROW && high <= 1.0 + NARROW {
        Effect::NoDifference
    } else {
        Effect::CannotTell
    }
}

type Row = (Load, Vec<Option<Cell>>);

fn has(rows: &[&Row], setting: usize, effect: Effect) -> bool {
    rows.iter()
        .filter_map(|(_, cells)| cells[setting].as_ref())
        .any(|cell| cell.effect == effect)
}

/// Sum of the logarithms of a setting's ratios.
fn gain(rows: &[&Row], setting: usize) -> f64 {
    let cells = rows.iter().filter_map(|(_, cells)| cells[setting].as_ref());
    cells.map(|cell| cell.ratio.ln()).sum()
}
