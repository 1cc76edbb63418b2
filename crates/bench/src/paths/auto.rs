//! `auto` beside inline and queued: by size, depth and direction, in this process.

use scrim_volume::{DataPath, Volume};

use super::error::PathsError;
use super::load::Workload;
use super::load::{Requester, Shape, Slice};
use super::outcome::{AutoCell, Outcome};
use super::place::Place;
use super::plan::Plan;
use super::setup::{Cipher, Contender, SetUp};
use crate::{Better, Progress, SeriesId, Study, Watch, turns};

/// Bytes of a request, and their name.
const SIZES: [(usize, &str); 5] = [
    (512, "512"),
    (4 << 10, "4k"),
    (32 << 10, "32k"),
    (256 << 10, "256k"),
    (4 << 20, "4m"),
];
/// Requests in flight at a time, each of a thread of its own.
const DEPTHS: [usize; 3] = [1, 4, 16];
/// Divisor of the slice: a figure gets this part of it.
const PART: u32 = 3;
/// Data paths, in the order of [`AutoCell::rates`].
const PATHS: [DataPath; 3] = [DataPath::Inline, DataPath::Queued, DataPath::Auto];

/// A size, a depth and a direction.
struct Cell {
    shape: Shape,
    depth: usize,
    name: String,
    paths: [SeriesId; 3],
    /// The better of the two that were chosen by hand.
    best: SeriesId,
    /// Rates of the round that is being measured.
    rates: [f64; 3],
}

pub(super) fn measure(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    let place = Place::find(plan, SIZES[0].0)?;
    let contender = Contender::scrim(SetUp::Auto, Cipher::Aes);
    let volumes = PATHS.map(|path| place.start_by(contender, path));
    let volumes = volumes.into_iter().collect::<Result<Vec<Volume>, _>>()?;
    let mut cells = cells(plan, &place, study);
    let mut geomean = |name: &str| {
        let what = "geometric mean over sizes, depths and directions";
        study.series(name, "MB/s", Better::Higher, what)
    };
    let means = [geomean("auto_geomean"), geomean("best_geomean")];
    let (rounds, each) = (study.rounds(), PATHS.len());
    let steps = rounds * cells.len() * each;
    for (step, turn) in turns(rounds, cells.len(), each).enumerate() {
        let cell = &mut cells[turn.load];
        let progress = Progress {
            what: format!("{} {}", cell.name, PATHS[turn.contender]),
            round: turn.round + 1,
            rounds,
            part: step as f64 / steps.max(1) as f64,
        };
        if watch(&progress).is_break() {
            let all = cells.iter().flat_map(Cell::series).chain(means);
            study.end_after(turn.round, &all.collect::<Vec<_>>());
            break;
        }
        let mut requesters = Requester::several(&cell.shape, cell.depth);
        let length = plan.slice / PART;
        let slice = Slice::run(
            &volumes[turn.contender],
            &cell.shape,
            &mut requesters,
            length,
        )?;
        cell.rates[turn.contender] = slice.rate(cell.shape.block);
        study.record(cell.paths[turn.contender], cell.rates[turn.contender]);
        if (step + 1) % each == 0 {
            study.record(cell.best, cell.best());
        }
        if (step + 1) % (each * cells.len()) == 0 {
            let mean = |rate: fn(&Cell) -> f64| {
                let logarithms: f64 = cells.iter().map(|cell| rate(cell).ln()).sum();
                (logarithms / cells.len() as f64).exp()
            };
            study.record(means[0], mean(Cell::auto));
            study.record(means[1], mean(Cell::best));
        }
    }
    study.ratio("auto_vs_best_geomean", means[0], means[1], Some(0.98));
    for cell in &cells {
        let name = format!("{}_vs_best", cell.name);
        let ratio = study.ratio(&name, cell.paths[2], cell.best, Some(0.9));
        let rates = cell.paths.map(|id| study.median(id).unwrap_or(0.0));
        if let Some(ratio) = ratio {
            outcome.auto.push(AutoCell {
                block: cell.shape.block,
                depth: cell.depth,
                workload: cell.shape.workload,
                rates,
                ratio,
            });
        }
    }
    Ok(())
}

fn cells(plan: &Plan, place: &Place, study: &mut Study) -> Vec<Cell> {
    let workloads = plan.workloads().iter();
    let directions: Vec<_> = workloads
        .filter(|&&workload| workload != Workload::Mixed)
        .collect();
    let mut cells = Vec::new();
    let fitting = SIZES
        .into_iter()
        .filter(|(block, _)| *block as u64 <= place.size);
    for (block, size) in fitting {
        for depth in DEPTHS {
            for &&workload in &directions {
                let name = format!("auto_{size}_d{depth}_{}", workload.name());
                let what = format!(
                    "{}s of {block} bytes in sequence, {depth} at a time, AES in process",
                    workload.name()
                );
                let mut series = |way: &str| {
                    let name = format!("{name}_{way}");
                    study.series(name, "MB/s", Better::Higher, what.as_str())
                };
                cells.push(Cell {
                    shape: Shape {
                        workload,
                        block,
                        reads: plan.reads,
                        size: place.size,
                    },
                    depth,
                    paths: PATHS.map(|path| series(&path.to_string())),
                    best: series("best"),
                    name,
                    rates: [0.0; 3],
                });
            }
        }
    }
    cells
}

impl Cell {
    fn series(&self) -> impl Iterator<Item = SeriesId> + use<> {
        self.paths.into_iter().chain([self.best])
    }

    fn best(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    fn auto(&self) -> f64 {
        self.rates[2]
    }
}
