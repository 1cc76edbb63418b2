//! The work that is timed, and the contenders that do it.

use std::hint::black_box;
use std::ops::ControlFlow;

use scrim_crypt::{IvSector, SectorCipher, probe};

use super::choice::Subject;
use super::error::MeasureError;
use super::load::{Buffers, Direction, Load, Warmth};
use super::outcome::{Limit, Outcome, RecordRow, Row, Speed, Speeds};
use super::plan::Plan;
use super::records::{self, RecordLane, Records};
use crate::{Better, Progress, SeriesId, Slice, Stopwatch, Study, Turn, Watch};

/// Blocks that the limit's loop takes through one round in a turn: some microseconds of work, and
/// whole registers however many blocks are in flight.
const LIMIT_BLOCKS: usize = 3 << 14;

/// Series, contenders and buffers of the measurement, made ready.
pub(super) struct Bench {
    contenders: Vec<Contender>,
    buffers: Buffers,
    stopwatch: Stopwatch,
    limits: Vec<LimitSeries>,
}

/// A contender that runs on the loads.
struct Contender {
    kind: Kind,
    cells: Cells,
}

/// Cells of a contender, by [`Load::ALL`]; `None` where there is nothing to do.
type Cells = [Option<Cell>; Load::COUNT];

enum Kind {
    /// AES rounds and nothing else, once in a round.
    Limit,
    Memcpy,
    /// Boxed: it is much larger than the others.
    Cipher(Box<Lane>),
    Records(Box<RecordLane>),
}

/// A cipher going one way.
struct Lane {
    cipher: SectorCipher,
    subject: Subject,
    direction: Direction,
}

/// Turns of one timed slice, and the series of its figures.
#[derive(Clone, Copy)]
struct Cell {
    turns: u64,
    series: SpeedSeries,
}

/// The series of one cell. The limit has one set for each size of AES key instead.
#[derive(Clone, Copy)]
struct SpeedSeries {
    rate: SeriesId,
    cycles: SeriesId,
}

struct LimitSeries {
    bits: usize,
    series: SpeedSeries,
}

impl Bench {
    pub(super) fn prepare(plan: &Plan, study: &mut Study) -> Result<Self, MeasureError> {
        let buffers = Buffers::new(plan.cold_bytes)?;
        let cold = plan.cold_bytes;
        let mut contenders = Vec::new();
        for subject in &plan.subjects {
            for sector_size in &plan.sector_sizes {
                for direction in Direction::BOTH {
                    let lane = Lane {
                        cipher: subject.cipher(*sector_size)?,
                        subject: subject.clone(),
                        direction,
                    };
                    contenders.push(Contender {
                        cells: Load::ALL.map(|load| lane.cell(study, load, cold)),
                        kind: Kind::Cipher(Box::new(lane)),
                    });
                }
            }
        }
        contenders.extend(record_contenders(plan, study)?);
        contenders.push(memcpy(study, cold));
        let limits = limits(plan, study);
        if let Some(first) = limits.first() {
            let mut cells = [None; Load::COUNT];
            cells[Load::USUAL] = Some(Cell::new(first.series));
            contenders.push(Contender {
                kind: Kind::Limit,
                cells,
            });
        }
        Ok(Self {
            contenders,
            buffers,
            stopwatch: Stopwatch::new(plan.slice),
            limits,
        })
    }

    pub(super) fn contenders(&self) -> usize {
        self.contenders.len()
    }

    /// Number of slices in a round.
    pub(super) fn slices(&self) -> usize {
        self.cells().count()
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let cells = self.contenders.iter().map(|contender| &contender.cells);
        cells.flat_map(|cells| cells.iter().flatten())
    }

    /// Finds out how many turns of each work make a slice.
    pub(super) fn calibrate(&mut self, watch: &mut Watch<'_>) -> ControlFlow<()> {
        let progress = Progress {
            what: "getting ready".to_owned(),
            round: 0,
            rounds: 0,
            part: 0.0,
        };
        for Contender { kind, cells } in &mut self.contenders {
            for (load, cell) in Load::ALL.into_iter().zip(cells) {
                let Some(cell) = cell else { continue };
                watch(&progress)?;
                let buffers = &mut self.buffers;
                let work = |turns| kind.work(buffers, load, turns);
                cell.turns = self.stopwatch.turns(work);
            }
        }
        ControlFlow::Continue(())
    }

    pub(super) fn progress(&self, turn: Turn, rounds: usize, part: f64) -> Progress {
        let contender = self.contenders.get(turn.contender);
        Progress {
            what: contender.map_or(String::new(), |contender| contender.kind.describe()),
            round: turn.round + 1,
            rounds,
            part,
        }
    }

    /// Times one slice; returns whether there was one to time.
    pub(super) fn run(&mut self, turn: Turn, study: &mut Study) -> bool {
        let (Some(contender), Some(load)) = (
            self.contenders.get_mut(turn.contender),
            Load::ALL.get(turn.load).copied(),
        ) else {
            return false;
        };
        let Some(cell) = contender.cells[turn.load] else {
            return false;
        };
        let (buffers, stopwatch) = (&mut self.buffers, &mut self.stopwatch);
        let slice = match &mut contender.kind {
            Kind::Records(lane) => lane.time(stopwatch, buffers, load, cell.turns),
            kind => stopwatch.time(cell.turns, |turns| kind.work(buffers, load, turns)),
        };
        if let Kind::Limit = contender.kind {
            for limit in &self.limits {
                let bytes = LIMIT_BLOCKS as f64 * 16.0 / aes_rounds(limit.bits);
                limit.series.record(study, &slice, bytes);
            }
        } else {
            cell.series.record(study, &slice, load.call as f64);
        }
        true
    }

    /// Every series that is measured in rounds.
    pub(super) fn series(&self) -> Vec<SeriesId> {
        let series = self.cells().map(|cell| cell.series);
        let limits = self.limits.iter().map(|limit| limit.series);
        series.chain(limits).flat_map(SpeedSeries::ids).collect()
    }

    /// The figures as they stand, and their ratios: hot data to the processor's limit, cold data to
    /// `memcpy`.
    pub(super) fn outcome(&self, study: &mut Study) -> Outcome {
        for warning in self.stopwatch.warnings() {
            study.warn(warning);
        }
        if self.limits.is_empty() {
            study.warn("no limit: this processor has no AES instructions to measure");
        }
        let mut rows = Vec::new();
        for (lane, cells) in self.lanes() {
            rows.push(Row {
                spec: lane.subject.spec.clone(),
                key_bits: lane.subject.key_bytes * 8,
                driver: lane.cipher.implementation().driver,
                driver_was_asked_for: lane.subject.driver.is_some(),
                sector_size: lane.sector(),
                direction: lane.direction,
                of_limit: self.compare(
                    |load| lane.name(load),
                    lane.subject.aes_bits(),
                    cells,
                    study,
                ),
                speeds: speeds(cells, study),
            });
        }
        let records = self.record_rows(study);
        self.warn_of_failures(study);
        if study.rounds() > 0 {
            self.choices(study);
        }
        let limits = self.limits.iter().map(|limit| Limit {
            bits: limit.bits,
            speed: limit.series.median(study),
        });
        let memcpy = self.memcpy();
        Outcome {
            rows,
            records,
            memcpy: memcpy.map_or([None; Load::COUNT], |cells| speeds(cells, study)),
            limits: limits.collect(),
            cold_bytes: self.buffers.cold_bytes(),
            cpu: None,
        }
    }

    /// Figures of records, each length both ways.
    fn record_rows(&self, study: &mut Study) -> Vec<RecordRow> {
        let lanes = self.contenders.iter().filter_map(|contender| {
            let Kind::Records(lane) = &contender.kind else {
                return None;
            };
            Some((lane, &contender.cells))
        });
        let rows = lanes.map(|(lane, cells)| {
            let bits = lane.records.aes_bits();
            RecordRow {
                key_bits: bits,
                code: lane.records.code(),
                bytes: lane.size,
                direction: lane.direction,
                of_limit: self.compare(|load| lane.name(load), Some(bits), cells, study),
                speeds: speeds(cells, study),
            }
        });
        rows.collect()
    }

    fn warn_of_failures(&self, study: &mut Study) {
        for contender in &self.contenders {
            if let Kind::Records(lane) = &contender.kind
                && let Some(failure) = lane.failure()
            {
                let (records, code) = (contender.kind.describe(), lane.records.code());
                study.warn(format!("no figures of {records} by {code}: {failure}"));
            }
        }
    }

    /// The ratios of one cipher going one way, of which `name` gives the series and `aes_bits` the limit; returns the part
    /// of the limit that the usual load has.
    fn compare(
        &self,
        name: impl Fn(Load) -> String,
        aes_bits: Option<usize>,
        cells: &Cells,
        study: &mut Study,
    ) -> Option<f64> {
        if study.rounds() == 0 {
            return None;
        }
        let mut of_limit = None;
        for (index, load) in Load::ALL.into_iter().enumerate() {
            let Some(ours) = cells[index].map(|cell| cell.series) else {
                continue;
            };
            let name = name(load);
            match load.warmth {
                Warmth::Cold => {
                    let peer = self.memcpy()?[index]?.series;
                    study.ratio(&format!("{name}_vs_memcpy"), ours.rate, peer.rate, None);
                }
                // Without a clock there are no cycles.
                Warmth::Hot if study.median(ours.cycles).is_some() => {
                    let Some(limit) = self.limit_of(aes_bits) else {
                        continue;
                    };
                    let name = format!("{name}_of_bound");
                    let ratio = study.ratio(&name, ours.cycles, limit.series.cycles, None);
                    if index == Load::USUAL {
                        of_limit = ratio;
                    }
                }
                Warmth::Hot => {}
            }
        }
        of_limit
    }

    /// The ratios of sector sizes and of key sizes, of the load that stands for a cipher.
    fn choices(&self, study: &mut Study) {
        let largest = self.lanes().map(|(lane, _)| lane.sector()).max();
        for (lane, cells) in self.lanes() {
            let (sector, direction) = (lane.sector(), lane.direction);
            let peer = |subject: &Subject, sector: usize| {
                let mut lanes = self.lanes();
                let is_peer = |other: &Lane| {
                    (&other.subject, other.sector(), other.direction)
                        == (subject, sector, direction)
                };
                usual(lanes.find(|(other, _)| is_peer(other))?.1)
            };
            let Some(ours) = usual(cells) else { continue };
            if sector == 4096
                && let Some(peer) = peer(&lane.subject, 512)
            {
                study.ratio(&of_sectors(&lane.subject, direction), ours, peer, None);
            }
            let longer = Subject {
                key_bytes: 64,
                ..lane.subject.clone()
            };
            if lane.subject.key_bytes == 32
                && Some(sector) == largest
                && let Some(peer) = peer(&longer, sector)
            {
                study.ratio(&of_keys(&lane.subject, direction), ours, peer, None);
            }
        }
    }

    fn lanes(&self) -> impl Iterator<Item = (&Lane, &Cells)> {
        self.contenders.iter().filter_map(|contender| {
            let Kind::Cipher(lane) = &contender.kind else {
                return None;
            };
            Some((&**lane, &contender.cells))
        })
    }

    fn memcpy(&self) -> Option<&Cells> {
        let mut contenders = self.contenders.iter();
        let found = contenders.find(|contender| matches!(contender.kind, Kind::Memcpy));
        found.map(|contender| &contender.cells)
    }

    fn limit_of(&self, aes_bits: Option<usize>) -> Option<&LimitSeries> {
        let bits = aes_bits?;
        self.limits.iter().find(|limit| limit.bits == bits)
    }
}

/// The rate of the load that stands for a cipher.
fn usual(cells: &Cells) -> Option<SeriesId> {
    Some(cells[Load::USUAL]?.series.rate)
}

/// Name of the ratio of sectors of 4096 bytes to sectors of 512.
pub(super) fn of_sectors(subject: &Subject, direction: Direction) -> String {
    let (load, direction) = (Load::ALL[Load::USUAL].name(), direction.name());
    format!("{}_s4096_vs_s512_{load}_{direction}", subject.name())
}

/// Name of the ratio of a key of 256 bits to one of 512, by the subject of either.
pub(super) fn of_keys(subject: &Subject, direction: Direction) -> String {
    let (load, direction) = (Load::ALL[Load::USUAL].name(), direction.name());
    let driver = subject.driver.map(|driver| format!("_{driver}"));
    let (spec, driver) = (&subject.spec, driver.unwrap_or_default());
    format!("{spec}_256b_vs_512b{driver}_{load}_{direction}")
}

fn speeds(cells: &Cells, study: &Study) -> Speeds {
    cells.map(|cell| cell?.series.median(study))
}

/// The copy that the library does, from one buffer to another.
fn memcpy(study: &mut Study, cold: usize) -> Contender {
    let cells = Load::ALL.map(|load| {
        let name = format!("memcpy_{}", load.name());
        let workload = format!("memcpy, {}", load.describe(cold));
        Some(Cell::new(SpeedSeries::new(study, &name, &workload)))
    });
    Contender {
        kind: Kind::Memcpy,
        cells,
    }
}

/// Sets up each length of records both ways.
fn record_contenders(plan: &Plan, study: &mut Study) -> Result<Vec<Contender>, MeasureError> {
    let mut contenders = Vec::new();
    for records in &plan.records {
        for size in records::SIZES {
            for direction in Direction::BOTH {
                let lane = RecordLane::new(records.clone(), size, direction)?;
                let cells = Load::ALL.map(|load| {
                    let workload = lane.workload(load, plan.cold_bytes);
                    let series = SpeedSeries::new;
                    lane.has(load)
                        .then(|| Cell::new(series(study, &lane.name(load), &workload)))
                });
                let kind = Kind::Records(Box::new(lane));
                contenders.push(Contender { kind, cells });
            }
        }
    }
    Ok(contenders)
}

/// Sets up one limit for each size of AES key in the plan; no limit where there are no AES instructions.
fn limits(plan: &Plan, study: &mut Study) -> Vec<LimitSeries> {
    if !probe::aes_rounds(LIMIT_BLOCKS) {
        return Vec::new();
    }
    let records = plan.records.iter().map(Records::aes_bits);
    let subjects = plan.subjects.iter().filter_map(Subject::aes_bits);
    let mut bits: Vec<_> = subjects.chain(records).collect();
    bits.sort_unstable();
    bits.dedup();
    let series = bits.into_iter().map(|bits| {
        let rounds = aes_rounds(bits);
        let workload = format!("{rounds} AES rounds for each block, and nothing else");
        LimitSeries {
            bits,
            series: SpeedSeries::new(study, &format!("aes{bits}_limit"), &workload),
        }
    });
    series.collect()
}

/// FIPS 197, section 5.
fn aes_rounds(bits: usize) -> f64 {
    bits as f64 / 32.0 + 6.0
}

impl Lane {
    fn sector(&self) -> usize {
        self.cipher.geometry().sector_size.bytes()
    }

    fn name(&self, load: Load) -> String {
        let (subject, sector) = (self.subject.name(), self.sector());
        let (load, direction) = (load.name(), self.direction.name());
        format!("{subject}_s{sector}_{load}_{direction}")
    }

    /// Makes the series of one load; `None` where a call is less than a sector.
    fn cell(&self, study: &mut Study, load: Load, cold: usize) -> Option<Cell> {
        let workload = format!(
            "{} {}, {}-bit key, {}-byte sectors, in place, {}, by {}",
            self.direction.name(),
            self.subject.spec,
            self.subject.key_bytes * 8,
            self.sector(),
            load.describe(cold),
            self.cipher.implementation().driver,
        );
        (load.call >= self.sector())
            .then(|| Cell::new(SpeedSeries::new(study, &self.name(load), &workload)))
    }

    fn work(&self, buffers: &mut Buffers, load: Load, turns: u64) {
        let sectors = load.call as u64 / 512;
        let mut first = 0_u64;
        buffers.calls(load, turns, |run| {
            match self.direction {
                Direction::Encrypt => self.cipher.encrypt_in_place(IvSector(first), run),
                Direction::Decrypt => self.cipher.decrypt_in_place(IvSector(first), run),
            }
            first = first.wrapping_add(sectors);
        });
    }
}

impl Kind {
    fn describe(&self) -> String {
        match self {
            Self::Limit => "AES limit".to_owned(),
            Self::Memcpy => "memcpy".to_owned(),
            Self::Cipher(lane) => format!(
                "{} {}b, {}-byte sectors",
                lane.subject.spec,
                lane.subject.key_bytes * 8,
                lane.sector()
            ),
            Self::Records(lane) => format!(
                "aes-gcm {}b, {}-byte records",
                lane.records.aes_bits(),
                lane.size
            ),
        }
    }

    fn work(&mut self, buffers: &mut Buffers, load: Load, turns: u64) {
        match self {
            Self::Limit => {
                for _ in 0..turns {
                    black_box(probe::aes_rounds(LIMIT_BLOCKS));
                }
            }
            Self::Memcpy => buffers.copies(load, turns),
            Self::Cipher(lane) => lane.work(buffers, load, turns),
            Self::Records(lane) => lane.work(buffers, load, turns),
        }
    }
}

impl Cell {
    fn new(series: SpeedSeries) -> Self {
        Self { turns: 1, series }
    }
}

impl SpeedSeries {
    fn new(study: &mut Study, name: &str, workload: &str) -> Self {
        let cycles = format!("{name}_cycles");
        Self {
            rate: study.series(name, "MB/s", Better::Higher, workload),
            cycles: study.series(cycles, "cycles/B", Better::Lower, workload),
        }
    }

    /// Records a slice; `bytes` are those of a turn.
    fn record(self, study: &mut Study, slice: &Slice, bytes: f64) {
        study.record(self.rate, slice.rate(bytes));
        if let Some(cycles) = slice.cycles_per_byte(bytes) {
            study.record(self.cycles, cycles);
        }
    }

    fn median(self, study: &Study) -> Option<Speed> {
        Some(Speed {
            rate: study.median(self.rate)?,
            cycles: study.median(self.cycles),
        })
    }

    fn ids(self) -> [SeriesId; 2] {
        [self.rate, self.cycles]
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::COLD_UNIT;
    use super::*;

    #[test]
    fn every_aes_has_its_rounds() {
        assert_eq!([128, 192, 256].map(aes_rounds), [10.0, 12.0, 14.0]);
    }

    /// Sectors in order, run by run and one by one, are the same ciphertext.
    #[test]
    fn what_is_timed_is_encryption() {
        let subject = Subject {
            spec: "aes-xts-plain64".parse().unwrap(),
            key_bytes: 64,
            driver: None,
        };
        let lane = |direction| Lane {
            cipher: subject.cipher(scrim_crypt::SectorSize::S512).unwrap(),
            subject: subject.clone(),
            direction,
        };
        let [encrypt, decrypt] = Direction::BOTH.map(lane);
        let usual = Load::ALL[Load::USUAL];
        let content = |buffers: &mut Buffers| {
            let mut content = Vec::new();
            buffers.calls(usual, 1, |run| content.extend_from_slice(run));
            content
        };
        let mut whole = Buffers::new(COLD_UNIT).unwrap();
        let before = content(&mut whole);
        encrypt.work(&mut whole, usual, 1);
        let mut single = Buffers::new(COLD_UNIT).unwrap();
        let sector = Load { call: 512, ..usual };
        encrypt.work(&mut single, sector, (usual.call / 512) as u64);
        assert!(content(&mut whole) == content(&mut single));
        assert!(content(&mut whole) != before);
        decrypt.work(&mut whole, usual, 1);
        assert!(content(&mut whole) == before);
    }
}
