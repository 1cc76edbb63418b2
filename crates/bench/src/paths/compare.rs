//! Every set-up with every workload and cipher, in turn.

use std::hint::black_box;
use std::time::{Duration, Instant};

use scrim_crypt::{IvSector, SectorCipher};
use scrim_volume::Volume;

use super::error::PathsError;
use super::load::Workload;
use super::load::{Disk, Requester, Shape, Slice};
use super::mapped;
use super::outcome::{Outcome, Row, Venue};
use super::place::Place;
use super::plan::Plan;
use super::served::Servers;
use super::setup::{Cipher, Contender, SetUp};
use crate::{Better, Pinned, Progress, SeriesId, Study, Turn, Watch, turns};

/// Divisor of the slice for a figure in this process, where figures are steadier.
const IN_PROCESS: u32 = 2;

/// Measures volumes of this process.
pub(super) fn in_process(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    let place = Place::find(plan, plan.block)?;
    // The volumes' threads are not pinned with this one.
    let volumes = Contender::all().into_iter().map(|one| place.start(one));
    let volumes = volumes.collect::<Result<Vec<Volume>, _>>()?;
    let disks: Vec<&dyn Disk> = volumes.iter().map(|volume| volume as &dyn Disk).collect();
    let pinned = (plan.depth == 1).then(Pinned::here);
    if let Some(Err(_)) = pinned {
        study.warn(Pinned::MISSING);
    }
    let contenders = Contender::all();
    let comparison = Comparison::new(Venue::InProcess, contenders, plan, place.size, disks, study)?;
    comparison.run(study, outcome, watch)
}

/// Measures volumes of other processes. A single requester and the threads that answer it are kept on one
/// processor, as if the kernel had done the request on the requester's own thread; where the threads of queues
/// run is up to the kernel, as it is with dm-crypt's. Several requesters are left where they are.
pub(super) fn served(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    let contenders = Contender::all();
    let mut servers = Servers::prepare(plan, contenders.len() as u64, study)?;
    for contender in &contenders {
        let progress = Progress {
            what: "starting servers".to_owned(),
            round: 0,
            rounds: study.rounds(),
            part: 0.0,
        };
        if watch(&progress).is_break() {
            study.end_after(0, &[]);
            return Ok(());
        }
        servers.start(plan, *contender)?;
    }
    let pinned = (plan.depth == 1).then(Pinned::here);
    let answering = match &pinned {
        None => true,
        Some(Ok(pinned)) => servers.answer_on(pinned.cpu()),
        Some(Err(_)) => false,
    };
    if !answering {
        study.warn(Pinned::MISSING);
    }
    let size = servers.size;
    let disks = servers.disks();
    let comparison = Comparison::new(Venue::Served, contenders, plan, size, disks, study)?;
    comparison.run(study, outcome, watch)
}

/// Measures a block device of the user's: itself, below dm-crypt with each flag, and below volumes of this process. All
/// of them use the same sectors, which a plain or null request changes for the others; that is no matter, as nobody
/// looks at the data.
pub(super) fn on_device(
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    let place = Place::find(plan, plan.block)?;
    let contenders = Contender::on_device();
    let disks = mapped::disks(plan, &place, &contenders)?;
    let pinned = (plan.depth == 1).then(Pinned::here);
    if let Some(Err(_)) = pinned {
        study.warn(Pinned::MISSING);
    }
    let disks = disks.iter().map(|disk| &**disk).collect();
    let comparison = Comparison::new(Venue::Device, contenders, plan, place.size, disks, study)?;
    comparison.run(study, outcome, watch)
}

struct Comparison<'a> {
    venue: Venue,
    shapes: Vec<Shape>,
    length: Duration,
    depth: usize,
    disks: Vec<&'a dyn Disk>,
    contenders: Vec<Contender>,
    /// Cells by shape and contender.
    cells: Vec<Vec<Cell>>,
    /// Bounds by shape of requests.
    bounds: Vec<Bound>,
    cipher: CipherClock,
}

/// The series of one workload on one set-up.
struct Cell {
    rate: SeriesId,
    mean: SeriesId,
    p50: SeriesId,
    p99: SeriesId,
    /// Hand-overs a request, in this process only.
    handovers: Option<SeriesId>,
}

/// Rate that plain requests and the cipher allow together.
struct Bound {
    both: SeriesId,
    /// The report's arithmetic, which takes one direction of two: of the mixed workload.
    one: Option<SeriesId>,
    plain: Option<f64>,
    cipher: Option<f64>,
}

/// Measurement of the cipher by itself.
struct CipherClock {
    cipher: Option<SectorCipher>,
    memory: Vec<u8>,
    encrypt: SeriesId,
    decrypt: SeriesId,
}

impl<'a> Comparison<'a> {
    fn new(
        venue: Venue,
        contenders: Vec<Contender>,
        plan: &Plan,
        size: u64,
        disks: Vec<&'a dyn Disk>,
        study: &mut Study,
    ) -> Result<Self, PathsError> {
        let workloads = plan.workloads().iter();
        let shapes: Vec<Shape> = workloads
            .map(|&workload| Shape {
                workload,
                block: plan.block,
                reads: plan.reads,
                size,
            })
            .collect();
        let name = venue.name();
        let cells = shapes.iter().map(|shape| {
            let each = contenders.iter();
            each.map(|one| Cell::new(venue, one, shape, plan.depth, study))
                .collect()
        });
        let cells = cells.collect();
        let bounds = shapes.iter().map(|shape| {
            let workload = shape.workload.name();
            let mut series = |ending: &str, what: &str| {
                let name = format!("{name}_aes_bound_{workload}{ending}");
                study.series(name, "MB/s", Better::Higher, what)
            };
            Bound {
                both: series("", "plain × cipher / (plain + cipher), of the same round"),
                one: (shape.workload == Workload::Mixed).then(|| {
                    let what =
                        "the same of one direction's plain rate, as the report of 2020 counts";
                    series("_one_direction", what)
                }),
                plain: None,
                cipher: None,
            }
        });
        let bounds = bounds.collect();
        Ok(Self {
            venue,
            length: match venue {
                Venue::Served | Venue::Device => plan.slice,
                Venue::InProcess => plan.slice / IN_PROCESS,
            },
            depth: plan.depth,
            disks,
            contenders,
            cells,
            bounds,
            cipher: CipherClock::new(venue, plan.block, study)?,
            shapes,
        })
    }

    fn run(
        mut self,
        study: &mut Study,
        outcome: &mut Outcome,
        watch: &mut Watch<'_>,
    ) -> Result<(), PathsError> {
        let rounds = study.rounds();
        let mut requesters: Vec<Vec<Requester>> = (self.shapes.iter())
            .map(|shape| Requester::several(shape, self.depth))
            .collect();
        // The cipher by itself is one more contender.
        let each = self.contenders.len() + 1;
        let steps = rounds * self.shapes.len() * each;
        for (step, turn) in turns(rounds, self.shapes.len(), each).enumerate() {
            let progress = Progress {
                what: self.describe(turn),
                round: turn.round + 1,
                rounds,
                part: step as f64 / steps.max(1) as f64,
            };
            if watch(&progress).is_break() {
                study.end_after(turn.round, &self.series());
                break;
            }
            self.turn(turn, &mut requesters[turn.load], study)?;
        }
        self.ratios(study);
        self.report(study, outcome);
        Ok(())
    }

    fn describe(&self, turn: Turn) -> String {
        let workload = self.shapes[turn.load].workload.name();
        match self.contenders.get(turn.contender) {
            Some(contender) => format!("{} {workload}", contender.name()),
            None => "the cipher alone".to_owned(),
        }
    }

    fn turn(
        &mut self,
        turn: Turn,
        requesters: &mut [Requester],
        study: &mut Study,
    ) -> Result<(), PathsError> {
        let shape = &self.shapes[turn.load];
        let bound = &mut self.bounds[turn.load];
        if let Some(disk) = self.disks.get(turn.contender) {
            let before = disk.handovers();
            let slice = Slice::run(*disk, shape, requesters, self.length)?;
            let rate = slice.rate(shape.block);
            let cell = &self.cells[turn.load][turn.contender];
            study.record(cell.rate, rate);
            study.record(cell.mean, slice.mean());
            study.record(cell.p50, slice.quantile(0.5));
            study.record(cell.p99, slice.quantile(0.99));
            if let (Some(series), Some(before), Some(after)) =
                (cell.handovers, before, disk.handovers())
            {
                let requests = (after.1 - before.1).max(1);
                study.record(series, (after.0 - before.0) as f64 / requests as f64);
            }
            if self.contenders[turn.contender].set_up == SetUp::Plain {
                bound.plain = Some(rate);
            }
        } else {
            bound.cipher = self.cipher.rate(shape, self.length, study);
        }
        if let (Some(plain), Some(cipher)) = (bound.plain, bound.cipher) {
            (bound.plain, bound.cipher) = (None, None);
            study.record(bound.both, in_series(plain, cipher));
            if let Some(one) = bound.one {
                study.record(one, in_series(plain / 2.0, cipher));
            }
        }
        Ok(())
    }

    fn ratios(&self, study: &mut Study) {
        for (index, shape) in self.shapes.iter().enumerate() {
            match self.venue {
                Venue::Served => self.served_ratios(index, shape.workload, study),
                Venue::InProcess => self.in_process_ratios(index, shape.workload, study),
                Venue::Device => self.device_ratios(index, shape.workload, study),
            }
        }
    }

    fn in_process_ratios(&self, index: usize, workload: Workload, study: &mut Study) {
        let cell = |set_up, cipher| self.cell(index, Contender::scrim(set_up, cipher));
        let (Some(plain), Some(inline), Some(null)) = (
            cell(SetUp::Plain, Cipher::Aes),
            cell(SetUp::Inline, Cipher::Aes),
            cell(SetUp::Inline, Cipher::Null),
        ) else {
            return;
        };
        let (name, target) = (workload.name(), Some(0.9));
        let bound = self.bounds[index].both;
        let against = format!("inline_vs_plain_{name}");
        study.ratio(&against, inline.rate, bound, target);
        let against = format!("null_inline_vs_plain_{name}");
        study.ratio(&against, null.rate, plain.rate, target);
    }

    fn served_ratios(&self, index: usize, workload: Workload, study: &mut Study) {
        let cell = |set_up, cipher| self.cell(index, Contender::scrim(set_up, cipher));
        let (Some(plain), Some(queued), Some(inline), Some(null_queued)) = (
            cell(SetUp::Plain, Cipher::Aes),
            cell(SetUp::Queued, Cipher::Aes),
            cell(SetUp::Inline, Cipher::Aes),
            cell(SetUp::Queued, Cipher::Null),
        ) else {
            return;
        };
        let name = workload.name();
        let against = format!("served_inline_vs_queued_{name}");
        let goal = Some(1.5);
        study.ratio(&against, inline.rate, queued.rate, goal);
        study.ratio(&format!("{against}_p50"), inline.p50, queued.p50, goal);
        study.ratio(&format!("{against}_p99"), inline.p99, queued.p99, None);
        let against = format!("served_inline_vs_plain_{name}");
        study.ratio(&against, inline.rate, plain.rate, Some(0.95));
        if workload == Workload::Mixed {
            let tail = "served_inline_vs_plain_p99";
            study.ratio(tail, inline.p99, plain.p99, Some(0.9));
        }
        for set_up in [SetUp::NoRead, SetUp::NoWrite, SetUp::Inline] {
            if let Some(ours) = cell(set_up, Cipher::Null) {
                let against = format!("served_null_{}_vs_queued_{name}", set_up.name());
                study.ratio(&against, ours.rate, null_queued.rate, None);
            }
        }
    }

    fn device_ratios(&self, index: usize, workload: Workload, study: &mut Study) {
        let name = workload.name();
        let flags = [SetUp::NoRead, SetUp::NoWrite, SetUp::Inline];
        for (cipher, prefix) in [(Cipher::Aes, ""), (Cipher::Null, "null_")] {
            let kernels = |set_up| self.cell(index, Contender::kernel(set_up, cipher));
            let Some(queued) = kernels(SetUp::Queued) else {
                continue;
            };
            for set_up in flags {
                if let Some(one) = kernels(set_up) {
                    let set_up = set_up.name();
                    let against = format!("device_kernel_{prefix}{set_up}_vs_queued_{name}");
                    study.ratio(&against, one.rate, queued.rate, None);
                }
            }
        }
        let scrim = |set_up| self.cell(index, Contender::scrim(set_up, Cipher::Aes));
        let (Some(plain), Some(inline)) = (scrim(SetUp::Plain), scrim(SetUp::Inline)) else {
            return;
        };
        for set_up in [SetUp::Queued, SetUp::Inline] {
            if let Some(kernels) = self.cell(index, Contender::kernel(set_up, Cipher::Aes)) {
                let against = format!("device_inline_vs_kernel_{}_{name}", set_up.name());
                study.ratio(&against, inline.rate, kernels.rate, None);
            }
        }
        let against = format!("device_inline_vs_plain_{name}");
        study.ratio(&against, inline.rate, plain.rate, None);
    }

    fn cell(&self, shape: usize, wanted: Contender) -> Option<&Cell> {
        let place = self.contenders.iter().position(|one| *one == wanted)?;
        self.cells.get(shape)?.get(place)
    }

    fn series(&self) -> Vec<SeriesId> {
        let cells = self.cells.iter().flatten();
        let of_cells = cells.flat_map(|cell| {
            let always = [cell.rate, cell.mean, cell.p50, cell.p99];
            always.into_iter().chain(cell.handovers)
        });
        let bounds = self.bounds.iter();
        let of_bounds = bounds.flat_map(|bound| [bound.both].into_iter().chain(bound.one));
        let of_cipher = [self.cipher.encrypt, self.cipher.decrypt];
        of_cells.chain(of_bounds).chain(of_cipher).collect()
    }

    fn report(&self, study: &Study, outcome: &mut Outcome) {
        for (index, shape) in self.shapes.iter().enumerate() {
            for (contender, cell) in self.contenders.iter().zip(&self.cells[index]) {
                let medians = [cell.rate, cell.mean, cell.p50, cell.p99].map(|id| study.median(id));
                let [Some(rate), Some(mean), Some(p50), Some(p99)] = medians else {
                    continue;
                };
                outcome.rows.push(Row {
                    venue: self.venue,
                    contender: *contender,
                    workload: shape.workload,
                    rate,
                    mean,
                    p50,
                    p99,
                    handovers: cell.handovers.and_then(|id| study.median(id)),
                });
            }
            let bound = &self.bounds[index];
            if let Some(both) = study.median(bound.both) {
                let one = bound.one.and_then(|id| study.median(id));
                outcome.bounds.push((self.venue, shape.workload, both, one));
            }
        }
        let speeds = [self.cipher.encrypt, self.cipher.decrypt].map(|id| study.median(id));
        if let [Some(encrypt), Some(decrypt)] = speeds {
            outcome.cipher = Some((encrypt, decrypt));
        }
    }
}

impl Cell {
    fn new(
        venue: Venue,
        contender: &Contender,
        shape: &Shape,
        depth: usize,
        study: &mut Study,
    ) -> Self {
        let workload = shape.workload.name();
        let name = format!("{}_{}_{workload}", venue.name(), contender.name());
        let what = format!(
            "{} of {} bytes in sequence, {depth} at a time, {}",
            match shape.workload {
                Workload::Read => "reads".to_owned(),
                Workload::Write => "writes".to_owned(),
                Workload::Mixed => format!("reads ({} %) and writes", shape.reads),
            },
            shape.block,
            venue.words()
        );
        let mut latency = |ending: &str| {
            let name = format!("{name}_{ending}");
            study.series(name, "µs", Better::Lower, what.as_str())
        };
        let (mean, p50, p99) = (latency("mean"), latency("p50"), latency("p99"));
        let handovers = (venue == Venue::InProcess).then(|| {
            let name = format!("{name}_handovers_per_request");
            study.series(name, "hand-overs", Better::Lower, what.as_str())
        });
        Self {
            rate: study.series(name, "MB/s", Better::Higher, what.as_str()),
            mean,
            p50,
            p99,
            handovers,
        }
    }
}

impl CipherClock {
    fn new(venue: Venue, block: usize, study: &mut Study) -> Result<Self, PathsError> {
        let mut series = |way: &str| {
            let what = format!("{block} bytes a call in sectors of 512, from the cache");
            let name = format!("{}_cipher_{way}", venue.name());
            study.series(name, "MB/s", Better::Higher, what)
        };
        Ok(Self {
            encrypt: series("encrypt"),
            decrypt: series("decrypt"),
            cipher: Cipher::Aes.set_up()?,
            memory: vec![0x5a; block],
        })
    }

    /// Clocks both directions, in MB/s, for half of `length` each, and returns their rate for this workload.
    fn rate(&mut self, shape: &Shape, length: Duration, study: &mut Study) -> Option<f64> {
        let cipher = self.cipher.as_ref()?;
        let memory = &mut self.memory;
        let encrypt = rate_of(memory, length / 2, |sector, memory| {
            cipher.encrypt_in_place(sector, memory);
        });
        let decrypt = rate_of(memory, length / 2, |sector, memory| {
            cipher.decrypt_in_place(sector, memory);
        });
        let reads = match shape.workload {
            Workload::Read => 1.0,
            Workload::Write => 0.0,
            Workload::Mixed => f64::from(shape.reads) / 100.0,
        };
        // Once a round.
        if shape.workload == Workload::Read {
            study.record(self.encrypt, encrypt);
            study.record(self.decrypt, decrypt);
        }
        Some(1.0 / (reads / decrypt + (1.0 - reads) / encrypt))
    }
}

fn rate_of(memory: &mut [u8], length: Duration, mut turn: impl FnMut(IvSector, &mut [u8])) -> f64 {
    const CALLS: u64 = 16;
    let sectors = memory.len() as u64 / 512;
    let (mut calls, start) = (0, Instant::now());
    while start.elapsed() < length {
        for _ in 0..CALLS {
            turn(IvSector(calls * sectors), memory);
            calls += 1;
        }
        black_box(&memory);
    }
    calls as f64 * memory.len() as f64 / 1e6 / start.elapsed().as_secs_f64()
}

/// The rate of two things that are done one after the other.
fn in_series(one: f64, other: f64) -> f64 {
    one * other / (one + other)
}
