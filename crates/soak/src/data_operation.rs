//! Requests to a volume, each with a power cut and an error at every place where there can be one.

use std::sync::Arc;

use scrim_backend::sim::{Call, Failure, Fault, Faults, SimBackend};
use scrim_backend::{Backend, Durability};
use scrim_seeded::Random;
use scrim_volume::{Volume, VolumeError};

use crate::broken::Broken;
use crate::canary;
use crate::fixture::{Fixture, Front};
use crate::luks::refused;
use crate::operation::{Effort, Outcomes, survivor};
use crate::value::UNIT;

/// Something asked of a volume that holds other data. The seeds make it the same each time.
#[derive(Debug, Clone, Copy)]
pub struct DataOperation {
    /// Description of the request, for the table.
    pub name: &'static str,
    /// The encryption sector, in bytes.
    pub sector_size: usize,
    /// True if all of it is durable when it returns.
    pub durable: bool,
    /// Sends the request to the volume.
    pub run: fn(&Volume) -> Result<(), VolumeError>,
}

/// Every request of the table in `docs/crash-safety.md`.
pub const DATA_OPERATIONS: &[DataOperation] = &[
    DataOperation {
        name: "write 8 KiB",
        sector_size: 512,
        durable: false,
        run: |volume| write(volume, 8192, 8192, Durability::Cached),
    },
    DataOperation {
        name: "write 8 KiB durably (FUA)",
        sector_size: 4096,
        durable: true,
        run: |volume| write(volume, 8192, 8192, Durability::Durable),
    },
    DataOperation {
        name: "write 8 KiB, flush",
        sector_size: 4096,
        durable: true,
        run: |volume| {
            write(volume, 8192, 8192, Durability::Cached)?;
            volume.flush()
        },
    },
    DataOperation {
        name: "write 60 KiB durably, more than goes out at once",
        sector_size: 4096,
        durable: true,
        run: |volume| write(volume, 4096, 60 << 10, Durability::Durable),
    },
    DataOperation {
        name: "write 100 bytes durably, part of a sector",
        sector_size: 512,
        durable: true,
        run: |volume| write(volume, 1000, 100, Durability::Durable),
    },
    DataOperation {
        name: "write 10000 bytes durably, parts of sectors at both ends",
        sector_size: 4096,
        durable: true,
        run: |volume| write(volume, 5000, 10_000, Durability::Durable),
    },
    DataOperation {
        name: "write zeros, 40000 bytes, durably",
        sector_size: 4096,
        durable: true,
        run: |volume| volume.write_zeroes(700, 40_000, Durability::Durable),
    },
];

fn write(volume: &Volume, at: u64, len: usize, durability: Durability) -> Result<(), VolumeError> {
    let mut data = vec![0; len];
    Random::new(2).fill(&mut data);
    volume.write(at, &mut data, durability)
}

impl DataOperation {
    /// Cuts the power at every place, with several outcomes of each, and lets every call fail once.
    /// Afterwards each 512 bytes must be as before or as they were to be, and the latter when the
    /// request has returned and is durable. [`Outcomes::between`] counts those with some of each.
    ///
    /// # Errors
    /// The first volume that holds anything else.
    pub fn check(&self, effort: Effort) -> Result<Outcomes, Broken> {
        self.try_all(effort)
            .map_err(|what| effort.broken(self.name, &what))
    }

    fn try_all(&self, effort: Effort) -> Result<Outcomes, String> {
        let before = self.prepare()?;
        let old = self.read(&before)?;
        let (disk, done) = self.run(&before, Faults::default())?;
        done.map_err(refused)?;
        let cut_points = disk.changes() + 1;
        let calls = [Call::Read, Call::Write, Call::Flush].map(|call| (call, disk.calls(call)));
        let new = self.read(&disk.settled())?;
        let mut outcomes = Outcomes {
            cut_points,
            ..Outcomes::default()
        };
        for cut in 1..=cut_points {
            let faults = Faults {
                cut_at: Some(cut),
                ..Faults::default()
            };
            let (disk, done) = self.run(&before, faults)?;
            let certain = done.is_ok() && self.durable;
            if done.is_ok() != (cut == cut_points) {
                return Err(format!("power cut {cut}: the request said {done:?}"));
            }
            for seed in effort.seeds(cut) {
                let bytes = self.read(&disk.after_cut(seed))?;
                let place = count(&mut outcomes, &bytes, &old, &new, certain)
                    .map_err(|what| format!("power cut {cut}: {}", survivor(seed, &what)))?;
                *place += 1;
            }
        }
        for (call, count) in calls {
            for nth in 1..=count {
                outcomes.errors += self.fail(&before, call, nth, (&old, &new))?;
            }
        }
        Ok(outcomes)
    }

    /// Lets one call fail, in each way; returns the number of ways.
    fn fail(
        &self,
        before: &SimBackend,
        call: Call,
        nth: u64,
        (old, new): (&[u8], &[u8]),
    ) -> Result<u64, String> {
        let failures = [Failure::Io, Failure::NoSpace, Failure::Short];
        for failure in failures {
            let fault = Fault { call, nth, failure };
            let at = |what: String| format!("{fault:?}: {what}");
            let (disk, done) = self.run(
                before,
                Faults {
                    failures: vec![fault],
                    ..Faults::default()
                },
            )?;
            if done.is_ok() {
                return Err(at("nothing was said of it".to_owned()));
            }
            let now = disk.settled();
            for disk in [now, disk.after_cut(0), disk.after_cut(1), disk.after_cut(2)] {
                let bytes = self.read(&disk)?;
                count(&mut Outcomes::default(), &bytes, old, new, false).map_err(at)?;
            }
        }
        Ok(failures.len() as u64)
    }

    fn fixture(&self) -> Fixture {
        Fixture {
            front: Front::Nothing,
            sector_size: self.sector_size,
            size: 64 << 10,
        }
    }

    fn prepare(&self) -> Result<SimBackend, String> {
        let disk = Arc::new(self.fixture().disk(0)?);
        let volume = self.fixture().open(&canary::backend(&disk, None))?;
        let mut data = vec![0; self.fixture().size];
        Random::new(1).fill(&mut data);
        volume
            .write(0, &mut data, Durability::Durable)
            .map_err(refused)?;
        Ok(disk.after_cut(0))
    }

    /// Runs it on a disk of its own.
    fn run(
        &self,
        before: &SimBackend,
        faults: Faults,
    ) -> Result<(Arc<SimBackend>, Result<(), VolumeError>), String> {
        let disk = Arc::new(before.after_cut(0));
        let backend: Arc<dyn Backend> = canary::backend(&disk, None);
        let volume = self.fixture().open(&backend)?;
        disk.arm(faults);
        let done = (self.run)(&volume);
        Ok((disk, done))
    }

    fn read(&self, disk: &SimBackend) -> Result<Vec<u8>, String> {
        let disk = Arc::new(disk.after_cut(0));
        let volume = self.fixture().open(&canary::backend(&disk, None))?;
        let mut bytes = vec![0; self.fixture().size];
        volume.read(0, &mut bytes).map_err(refused)?;
        Ok(bytes)
    }
}

/// Returns the counter for a volume in this state. `certain`: it must be new.
fn count<'a>(
    outcomes: &'a mut Outcomes,
    bytes: &[u8],
    old: &[u8],
    new: &[u8],
    certain: bool,
) -> Result<&'a mut u64, String> {
    if bytes == new {
        return Ok(&mut outcomes.new);
    }
    if certain {
        return Err("it was done durably, and is not there".to_owned());
    }
    if bytes == old {
        return Ok(&mut outcomes.old);
    }
    let units = bytes
        .chunks(UNIT)
        .zip(old.chunks(UNIT).zip(new.chunks(UNIT)));
    for (number, (unit, (old, new))) in units.enumerate() {
        if unit != old && unit != new {
            let at = number * UNIT;
            return Err(format!("the 512 bytes at {at} are neither old nor new"));
        }
    }
    Ok(&mut outcomes.between)
}
