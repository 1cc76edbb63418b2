//! Measurements that advice rests on. They take some ten seconds.

use std::path::Path;
use std::time::Duration;

use scrim_backend::{Access, Backend, BackendError, FileBackend};
use scrim_bench::ciphers::{self, Load, Outcome, Plan, Subject};
use scrim_bench::disk::{self, DiskOutcome, DiskPlan};
use scrim_bench::fileserver::{Link, References};
use scrim_bench::kdf::{self, KdfPlan};
use scrim_bench::{Folder, Study};
use scrim_crypt::SectorSize;
use scrim_luks::kdf::{Argon2Kind, Hash, MachineLimits};
use serde::Serialize;

use super::place::Place;
use crate::error::CliError;
use crate::process::interruption::{Interruption, watched};

/// The ciphers that are compared, with their keys in bytes.
const AES_256: (&str, usize) = ("aes-xts-plain64", 64);
const AES_128: (&str, usize) = ("aes-xts-plain64", 32);
const ADIANTUM: (&str, usize) = ("xchacha12,aes-adiantum-plain64", 32);
/// Time for which one figure of a cipher is measured in one round.
const SLICE: Duration = Duration::from_millis(1);
/// Bytes of the buffer for figures from memory, on which no advice rests.
const COLD_BYTES: usize = 2 << 20;
/// Time for which a passphrase is tried, as in `format`.
const UNLOCK: Duration = Duration::from_secs(2);
/// Most bytes that are written to a directory, and read; at most a quarter of what is free.
const FILE_BYTES: u64 = 256 << 20;
/// Fewest bytes that say something about a disk.
const LEAST_BYTES: u64 = 16 << 20;
/// Prefix of the temporary folder in a directory.
const PREFIX: &str = "scrim-advise";

/// All figures. `null` is what was not measured.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    pub(super) aes_256: Option<Rates>,
    pub(super) aes_128: Option<Rates>,
    pub(super) adiantum: Option<Rates>,
    pub(super) disk: Disk,
    /// Reason for which the disk was not measured, or not all of it.
    pub(super) disk_left_out: Option<String>,
    pub(super) argon2id: Option<Argon2id>,
    /// Iterations of PBKDF2 with SHA-256 in the time of one passphrase.
    pub(super) pbkdf2_iterations: Option<f64>,
    /// Fastest network link, in MB/s without what protocols add.
    pub(super) network: Option<Network>,
}

/// Rates of a cipher on one core in MB/s, from the cache, of the slower direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(super) sectors_512: f64,
    pub(super) sectors_4096: f64,
}

/// Rates in MB/s of requests of 1 MiB, and times in µs of reads of 4096 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Disk {
    pub(super) write: Option<f64>,
    pub(super) read: Option<f64>,
    pub(super) read_4k: Option<f64>,
    pub(super) read_4k_p99: Option<f64>,
}

/// Cost of Argon2id that fits into the time of one passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Argon2id {
    pub(super) passes: u32,
    pub(super) memory_kib: u32,
    pub(super) lanes: u32,
}

/// The fastest network link of this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Network {
    pub(super) name: String,
    pub(super) rate: f64,
}

impl Disk {
    /// Rate of the slower direction of those that were measured.
    pub(super) fn rate(&self) -> Option<f64> {
        let rates = [self.read, self.write].into_iter().flatten();
        rates.min_by(f64::total_cmp)
    }
}

impl From<DiskOutcome> for Disk {
    fn from(outcome: DiskOutcome) -> Self {
        Self {
            write: outcome.write,
            read: outcome.read,
            read_4k: outcome.short_read,
            read_4k_p99: outcome.short_read_p99,
        }
    }
}

/// Measures what advice for a place rests on. What an interruption leaves out is `None`.
pub(crate) fn measure(
    place: &Place,
    study: &mut Study,
    interruption: &Interruption,
) -> Result<Figures, CliError> {
    let mut figures = Figures {
        network: References::links().first().map(network),
        ..Figures::default()
    };
    measure_disk(place, &mut figures, study, interruption);
    if !interruption.came() {
        measure_ciphers(&mut figures, study, interruption)?;
    }
    if !interruption.came() {
        measure_derivations(&mut figures, study, interruption)?;
    }
    Ok(figures)
}

fn network(link: &Link) -> Network {
    Network {
        name: link.name.clone(),
        rate: link.effective(),
    }
}

fn measure_ciphers(
    figures: &mut Figures,
    study: &mut Study,
    interruption: &Interruption,
) -> Result<(), CliError> {
    let subject = |(spec, key_bytes): (&str, usize)| {
        let spec = spec.parse().ok()?;
        Some(Subject {
            spec,
            key_bytes,
            driver: None,
        })
    };
    let plan = Plan {
        subjects: [AES_256, AES_128, ADIANTUM]
            .into_iter()
            .filter_map(subject)
            .collect(),
        sector_sizes: vec![SectorSize::S512, SectorSize::S4096],
        records: Vec::new(),
        slice: SLICE,
        cold_bytes: COLD_BYTES,
    };
    plan.check()?;
    let measured = watched("ciphers", interruption, |watch| {
        ciphers::measure(&plan, study, watch)
    })?;
    figures.aes_256 = rates(&measured, AES_256);
    figures.aes_128 = rates(&measured, AES_128);
    figures.adiantum = rates(&measured, ADIANTUM);
    Ok(())
}

fn rates(measured: &Outcome, (spec, key_bytes): (&str, usize)) -> Option<Rates> {
    let rate = |sector: usize| {
        let rows = measured.rows.iter().filter(|row| {
            row.spec.to_string() == spec
                && row.key_bits == key_bytes * 8
                && row.sector_size == sector
        });
        let rates = rows.filter_map(|row| Some(row.speeds[Load::USUAL]?.rate));
        rates.min_by(f64::total_cmp)
    };
    Some(Rates {
        sectors_512: rate(512)?,
        sectors_4096: rate(4096)?,
    })
}

fn measure_derivations(
    figures: &mut Figures,
    study: &mut Study,
    interruption: &Interruption,
) -> Result<(), CliError> {
    let limits = MachineLimits::read();
    let plan = KdfPlan {
        hashes: vec![Hash::Sha256],
        slice: Duration::from_millis(20),
        argon2: vec![Argon2Kind::Argon2id],
        key_bytes: AES_256.1,
        target: UNLOCK,
        memory_kib: limits.argon2_memory_kib(),
        lanes: limits.argon2_lanes(),
    };
    let measured = watched("key derivation", interruption, |watch| {
        kdf::measure(&plan, study, watch)
    })?;
    let rate = measured.pbkdf2_rate(Hash::Sha256);
    figures.pbkdf2_iterations = rate.map(|rate| rate * UNLOCK.as_secs_f64());
    let cost = measured.argon2_cost(Argon2Kind::Argon2id);
    figures.argon2id = cost.map(|cost| Argon2id {
        passes: cost.time,
        memory_kib: cost.memory_kib,
        lanes: cost.lanes,
    });
    Ok(())
}

/// Measures the disk, if the user may and it is not in use. Otherwise the reason is kept: advice about ciphers needs no
/// disk.
fn measure_disk(
    place: &Place,
    figures: &mut Figures,
    study: &mut Study,
    interruption: &Interruption,
) {
    let measured = match place.is_device {
        true => read_device(&place.path, study, interruption),
        false => use_file(place, study, interruption),
    };
    match measured {
        Ok(outcome) => figures.disk = outcome.into(),
        Err(reason) => figures.disk_left_out = Some(reason),
    }
    if place.is_device && figures.disk_left_out.is_none() {
        figures.disk_left_out = Some("writes would destroy its data".to_owned());
    }
}

/// Reads a device, past the page cache.
fn read_device(
    path: &Path,
    study: &mut Study,
    interruption: &Interruption,
) -> Result<DiskOutcome, String> {
    let fail = |error: BackendError| error.to_string();
    // Reading disturbs nobody who uses it.
    let storage = FileBackend::open_shared(path, Access::ReadOnly).map_err(fail)?;
    let storage = storage.past_the_cache().map_err(fail)?;
    run(&storage, FILE_BYTES, false, study, interruption)
}

/// Writes and reads a file in the directory, past the page cache, and removes it.
fn use_file(
    place: &Place,
    study: &mut Study,
    interruption: &Interruption,
) -> Result<DiskOutcome, String> {
    let unit = 1 << 20;
    let bytes = FILE_BYTES.min(place.bytes / 4) / unit * unit;
    if bytes < LEAST_BYTES {
        return Err("too little space is free for a file to measure with".to_owned());
    }
    Folder::sweep(&place.path, PREFIX);
    let folder = Folder::make(&place.path, PREFIX)
        .map_err(|error| format!("no file can be made there: {error}"))?;
    let fail = |error: BackendError| error.to_string();
    let storage = FileBackend::create(&folder.path().join("file"), bytes).map_err(fail)?;
    let storage = storage.past_the_cache().map_err(fail)?;
    run(&storage, bytes, true, study, interruption)
}

fn run(
    storage: &dyn Backend,
    bytes: u64,
    writes: bool,
    study: &mut Study,
    interruption: &Interruption,
) -> Result<DiskOutcome, String> {
    let plan = DiskPlan {
        bytes: bytes.min(storage.info().size),
        writes,
        short_reads: Duration::from_millis(500),
        limit: Duration::from_secs(3),
    };
    watched("disk", interruption, |watch| {
        disk::measure(storage, &plan, study, watch)
    })
    .map_err(|error| error.to_string())
}
