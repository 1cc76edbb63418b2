//! Model of a volume's content: for each 512 bytes of plaintext, every value that a read may see
//! now, and every value that may be there after a power cut.
//!
//! Each write is a version of the units that it touches, with the moments at which it began and
//! returned. What may be read, and what may survive, follows from those alone:
//!
//! - a read may see a version unless another one, which began after that had ended, had itself
//!   returned before the read began;
//! - a power cut may leave a version unless another one, which began after that had ended, is
//!   durable: it was written durably, or returned before a flush began that succeeded.
//!
//! A write that failed, or was cut off, may have been done in part: it is a version that replaces
//! nothing. A flush that failed may have lost what was not durable.

use std::ops::Range;

use crate::value::{UNIT, Value};

/// A moment: no two things happen at the same one.
pub(crate) type Moment = u64;

/// A volume as it may be.
pub(crate) struct Model {
    units: Vec<Unit>,
    clock: Moment,
    /// Moment at which the last flush that failed ended.
    lossy: Option<Moment>,
    /// True if flushes may fail while others read: then what is not durable may be lost at any time.
    always_lossy: bool,
}

#[derive(Default)]
struct Unit {
    versions: Vec<Version>,
    /// Moment and value of a read that ran while nothing else was going on.
    seen: Option<(Moment, Value)>,
}

struct Version {
    /// Possible values: several where it changed a part of something that was not certain.
    values: Vec<Value>,
    begun: Moment,
    ended: Option<Moment>,
    /// True if it ended well: it has replaced what was before.
    done: bool,
    durable: bool,
}

/// Something that has begun.
#[derive(Clone)]
pub(crate) struct Begun {
    moment: Moment,
    units: Range<usize>,
}

impl Model {
    /// A volume that durably holds `bytes`, whole units. `always_lossy`: flushes may fail while
    /// other threads read.
    pub(crate) fn holding(bytes: &[u8], always_lossy: bool) -> Self {
        let units = bytes.chunks_exact(UNIT).map(|bytes| Unit {
            versions: vec![Version {
                values: vec![Value::known(bytes)],
                begun: 0,
                ended: Some(0),
                done: true,
                durable: true,
            }],
            seen: None,
        });
        Self {
            units: units.collect(),
            clock: 0,
            lossy: None,
            always_lossy,
        }
    }

    /// Records that a write of `data` at `offset` begins. Where it changes a part of a unit, no
    /// other request may be writing that unit.
    pub(crate) fn begin_write(&mut self, offset: usize, data: &[u8]) -> Begun {
        let moment = self.now();
        let units = offset / UNIT..(offset + data.len()).div_ceil(UNIT);
        for number in units.clone() {
            let start = number * UNIT;
            let from = offset.max(start);
            let to = (offset + data.len()).min(start + UNIT);
            let part = &data[from - offset..to - offset];
            let values = if part.len() == UNIT {
                vec![Value::known(part)]
            } else {
                let mut values = Vec::new();
                for value in self.values_now(number, moment) {
                    let merged = value.with(from - start, part);
                    if !values.contains(&merged) {
                        values.push(merged);
                    }
                }
                values
            };
            self.begin_version(number, moment, values);
        }
        Begun { moment, units }
    }

    /// Records that a discard of these units begins: afterwards they may hold anything.
    pub(crate) fn begin_discard(&mut self, units: Range<usize>) -> Begun {
        let moment = self.now();
        for number in units.clone() {
            self.begin_version(number, moment, vec![Value::unknown()]);
        }
        Begun { moment, units }
    }

    /// Records that a read or flush begins.
    pub(crate) fn begin(&mut self) -> Begun {
        let moment = self.now();
        Begun {
            moment,
            units: 0..0,
        }
    }

    /// Records the end of a request that changes the volume: well (`done`) or not, and, if well,
    /// durably or not.
    pub(crate) fn end(&mut self, begun: &Begun, done: bool, durable: bool) {
        let moment = self.now();
        for unit in &mut self.units[begun.units.clone()] {
            let versions = unit.versions.iter_mut();
            for version in versions.filter(|version| version.begun == begun.moment) {
                version.ended = Some(moment);
                version.done = done;
                version.durable = done && durable;
            }
        }
    }

    /// Records that a flush has ended well: what had returned before it began is durable.
    pub(crate) fn flushed(&mut self, begun: &Begun) {
        let versions = self.units.iter_mut().flat_map(|unit| &mut unit.versions);
        for version in versions.filter(|version| version.done) {
            version.durable |= version.ended.is_some_and(|ended| ended < begun.moment);
        }
    }

    /// Records that a flush, or a request that flushes, has failed.
    pub(crate) fn flush_failed(&mut self) {
        self.lossy = Some(self.now());
    }

    /// Judges what a read has seen.
    ///
    /// # Errors
    /// The first unit that cannot have held this when it was read.
    pub(crate) fn check_read(
        &mut self,
        begun: &Begun,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Stray> {
        for number in offset / UNIT..(offset + bytes.len()).div_ceil(UNIT) {
            let start = number * UNIT;
            let from = offset.max(start);
            let part = &bytes[from - offset..(offset + bytes.len()).min(start + UNIT) - offset];
            let values = self.values_now(number, begun.moment);
            if !values.iter().any(|value| value.agrees(from - start, part)) {
                return Err(Stray {
                    unit: number,
                    allowed: values.len(),
                    elsewhere: self.owner_of(from - start, part),
                });
            }
            let quiet = |version: &Version| version.ended.is_some_and(|end| end < begun.moment);
            let now = self.now();
            let unit = &mut self.units[number];
            let certain = values.iter().all(Value::is_known);
            if part.len() == UNIT && certain && unit.versions.iter().all(quiet) {
                unit.seen = Some((now, Value::known(part)));
            }
        }
        Ok(())
    }

    /// Judges what a power cut has left of the whole volume.
    ///
    /// # Errors
    /// The first unit that cannot hold this.
    pub(crate) fn check_survivor(&self, bytes: &[u8]) -> Result<(), Stray> {
        for (number, part) in bytes.chunks_exact(UNIT).enumerate() {
            let mut values = self.values_after_cut(number);
            if !values.any(|value| value.agrees(0, part)) {
                return Err(Stray {
                    unit: number,
                    allowed: self.values_after_cut(number).count(),
                    elsewhere: self.owner_of(0, part),
                });
            }
        }
        Ok(())
    }

    fn now(&mut self) -> Moment {
        self.clock += 1;
        self.clock
    }

    fn begin_version(&mut self, unit: usize, begun: Moment, values: Vec<Value>) {
        self.units[unit].versions.push(Version {
            values,
            begun,
            ended: None,
            done: false,
            durable: false,
        });
    }

    /// Values that may be seen by a read that begins at `moment` and has ended by now.
    fn values_now(&self, unit: usize, moment: Moment) -> Vec<Value> {
        let unit = &self.units[unit];
        if let Some((seen_at, value)) = &unit.seen
            && *seen_at < moment
            && unit.versions.iter().all(|one| one.begun < *seen_at)
            && self.lossy.is_none_or(|lossy| lossy < *seen_at)
        {
            return vec![value.clone()];
        }
        let holds = |version: &Version| {
            let lost = self.lossy.is_some_and(|lossy| version.begun < lossy);
            version.durable || !(lost || self.always_lossy)
        };
        let possible = unit.versions.iter().filter(|one| {
            !unit.versions.iter().any(|other| {
                other.replaces(one)
                    && other.ended.is_some_and(|ended| ended < moment)
                    && holds(other)
            })
        });
        possible
            .flat_map(|one| one.values.iter().cloned())
            .collect()
    }

    fn values_after_cut(&self, unit: usize) -> impl Iterator<Item = &Value> {
        let versions = &self.units[unit].versions;
        let possible = versions.iter().filter(|one| {
            let mut others = versions.iter();
            !others.any(|other| other.durable && other.replaces(one))
        });
        possible.flat_map(|one| &one.values)
    }

    /// The unit in which `part` would have been right.
    fn owner_of(&self, start: usize, part: &[u8]) -> Option<usize> {
        self.units.iter().position(|unit| {
            let mut values = unit.versions.iter().flat_map(|version| &version.values);
            values.any(|value| value.is_known() && value.agrees(start, part))
        })
    }
}

impl Version {
    fn replaces(&self, other: &Self) -> bool {
        self.done && other.ended.is_some_and(|ended| ended < self.begun)
    }
}

/// A unit that holds what it cannot hold.
#[derive(Debug)]
pub(crate) struct Stray {
    unit: usize,
    allowed: usize,
    elsewhere: Option<usize>,
}

impl std::fmt::Display for Stray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            unit,
            allowed,
            elsewhere,
        } = self;
        write!(
            f,
            "the 512 bytes at {} hold none of the {allowed} values that they may hold",
            unit * UNIT
        )?;
        match elsewhere {
            Some(other) if other == unit => f.write_str(", but an earlier one of theirs"),
            Some(other) => write!(f, ", but one of those at {}", other * UNIT),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; UNIT] = [1; UNIT];
    const NEW: [u8; UNIT] = [2; UNIT];

    fn readable(model: &mut Model, begun: &Begun) -> [bool; 2] {
        [OLD, NEW].map(|bytes| model.check_read(begun, 0, &bytes).is_ok())
    }

    fn survives(model: &Model) -> [bool; 2] {
        [OLD, NEW].map(|bytes| model.check_survivor(&bytes).is_ok())
    }

    #[test]
    fn a_read_sees_the_last_write_or_one_beside_it() {
        let mut model = Model::holding(&OLD, false);
        let early = model.begin();
        let write = model.begin_write(0, &NEW);
        let beside = model.begin();
        assert_eq!(readable(&mut model, &beside), [true, true]);
        model.end(&write, true, false);
        let late = model.begin();
        assert_eq!(readable(&mut model, &late), [false, true]);
        assert_eq!(readable(&mut model, &early), [true, true]);
    }

    #[test]
    fn a_write_is_durable_by_a_flush_that_began_behind_it() {
        let mut model = Model::holding(&OLD, false);
        let early = model.begin();
        let write = model.begin_write(0, &NEW);
        assert_eq!(survives(&model), [true, true]);
        model.end(&write, true, false);
        model.flushed(&early);
        assert_eq!(survives(&model), [true, true]);
        let late = model.begin();
        model.flushed(&late);
        assert_eq!(survives(&model), [false, true]);
    }

    #[test]
    fn what_failed_replaces_nothing() {
        let mut model = Model::holding(&OLD, false);
        let write = model.begin_write(0, &NEW);
        model.end(&write, false, true);
        let flush = model.begin();
        model.flushed(&flush);
        let read = model.begin();
        assert_eq!(survives(&model), [true, true]);
        assert!(model.check_read(&read, 0, &OLD[..9]).is_ok());
        assert!(model.check_read(&read, 0, &NEW[..9]).is_ok());
    }

    #[test]
    fn a_failed_flush_may_bring_back_what_was_before() {
        let mut model = Model::holding(&OLD, false);
        let write = model.begin_write(0, &NEW);
        model.end(&write, true, false);
        model.flush_failed();
        let read = model.begin();
        assert_eq!(readable(&mut model, &read), [true, true]);
    }

    #[test]
    fn parts_of_what_was_discarded_are_known_and_the_rest_is_not() {
        let mut model = Model::holding(&OLD, false);
        let discard = model.begin_discard(0..1);
        model.end(&discard, true, false);
        let write = model.begin_write(10, &NEW[..10]);
        model.end(&write, true, false);
        let read = model.begin();
        assert!(model.check_read(&read, 5, &[9, 9, 9, 9, 9, 2, 2]).is_ok());
        assert!(model.check_read(&read, 5, &[9, 9, 9, 9, 9, 2, 1]).is_err());
    }
}
