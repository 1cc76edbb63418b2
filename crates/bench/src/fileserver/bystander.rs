//! A bystander: somebody who reads 4 KiB now and then beside the load.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise};
use scrim_seeded::Random;
use serde::{Deserialize, Serialize};

use super::error::FileserverError;

/// Bytes of the bystander's own file.
pub(super) const FILE_BYTES: u64 = 16 << 20;
/// Bytes of a read, and alignment of its buffer.
const BLOCK: usize = 4096;
/// Pause between two reads.
const PAUSE: Duration = Duration::from_millis(10);

/// Latencies of a phase, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    /// Number of reads that were timed.
    pub reads: usize,
}

/// A thread that reads, until this is dropped.
pub(super) struct Bystander {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// Latencies since they were last taken, in µs.
    latencies: Mutex<Vec<f64>>,
}

impl Shared {
    fn latencies(&self) -> MutexGuard<'_, Vec<f64>> {
        self.latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bystander {
    /// Writes a file in `folder`, and starts to read it.
    pub(super) fn start(folder: &Path) -> Result<Self, FileserverError> {
        let path = folder.join("bystander");
        let doing = format!("write {}", path.display());
        write(&path).map_err(FileserverError::system(doing))?;
        let doing = format!("open {}", path.display());
        let (file, is_direct) = open(&path).map_err(FileserverError::system(doing))?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("bystander".to_owned())
            .spawn(move || read(&file, is_direct, &theirs))
            .map_err(FileserverError::system("start a thread"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Takes the latencies since the last call.
    pub(super) fn take(&self) -> Latency {
        let mut latencies = self.shared.latencies();
        summary(std::mem::take(&mut *latencies))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(path: &Path) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 20];
    Random::new(0).fill(&mut bytes);
    let mut file = File::create_new(path)?;
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&bytes)?;
    }
    file.sync_all()
}

/// Opens the file for direct I/O, where the file system has it.
fn open(path: &Path) -> io::Result<(File, bool)> {
    #[expect(clippy::cast_possible_wrap, reason = "flags of open(2)")]
    let flags = OFlags::DIRECT.bits() as i32;
    let direct = OpenOptions::new().read(true).custom_flags(flags).open(path);
    match direct {
        Ok(file) => Ok((file, true)),
        Err(_) => Ok((File::open(path)?, false)),
    }
}

fn read(file: &File, is_direct: bool, shared: &Shared) {
    let mut memory = vec![0; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
    let buffer = &mut memory[start..start + BLOCK];
    let mut random = Random::new(1);
    while !shared.ends.load(Ordering::Relaxed) {
        let offset = random.below(FILE_BYTES / BLOCK as u64) * BLOCK as u64;
        if !is_direct {
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
        let start = Instant::now();
        // A failure shows itself in the load, which uses the same file system.
        if file.read_exact_at(buffer, offset).is_ok() {
            let took = start.elapsed().as_secs_f64() * 1e6;
            shared.latencies().push(took);
        }
        thread::sleep(PAUSE);
    }
}

fn summary(mut latencies: Vec<f64>) -> Latency {
    latencies.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| {
        let last = latencies.len().saturating_sub(1);
        let index = (last * percent).div_ceil(100);
        latencies.get(index).copied().unwrap_or(0.0)
    };
    Latency {
        p50: at(50),
        p99: at(99),
        reads: latencies.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn reads_are_summed_up() {
        let latency = summary((1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (latency.p50, latency.p99, latency.reads),
            (51.0, 100.0, 100)
        );
        assert_eq!(summary(Vec::new()), Latency::default());
    }

    #[test]
    fn a_bystander_reads_until_it_is_dropped() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-bystander").unwrap();
        let bystander = Bystander::start(folder.path()).unwrap();
        while bystander.shared.latencies.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(bystander.take().reads > 0);
    }
}
