//! A volume from its opening to a power cut, and the judgement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scrim_backend::sim::{Call, Failure, Fault, Faults, Random, SimBackend};
use scrim_backend::{Backend, Durability};
use scrim_volume::{Errno, Volume, VolumeError};

use crate::canary::{self, Canary};
use crate::ground::Ground;
use crate::history::Tally;
use crate::luks::{self, PASSPHRASES, Refused};
use crate::model::{Begun, Model};
use crate::request::{Chooser, Request};
use crate::value::UNIT;

/// Outcomes of one power cut that are looked at.
const SURVIVORS: u64 = 3;

/// A volume from its opening to a power cut.
pub(crate) struct Life {
    ground: Ground,
    disk: Arc<SimBackend>,
    backend: Arc<dyn Backend>,
    volume: Volume,
    model: Mutex<Model>,
    faults: Faults,
    threads: Vec<Vec<(Request, u64)>>,
    keys: Mutex<Keys>,
    done: Mutex<Vec<Done>>,
    broken: AtomicBool,
    survivors: u64,
}

struct Done {
    thread: usize,
    request: Request,
    error: Option<String>,
}

/// Which passphrases open the header.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keys {
    second: Key,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Absent,
    /// It was being added.
    Perhaps,
    Present,
}

impl Life {
    pub(crate) fn choose(
        ground: Ground,
        disk: SimBackend,
        canary: Option<Canary>,
        keys: Keys,
        random: &mut Random,
    ) -> Result<Self, Refused> {
        let disk = Arc::new(disk);
        let backend = canary::backend(&disk, canary);
        let volume = ground.open(&backend, PASSPHRASES[0])?;
        let mut bytes = vec![0; ground.size];
        volume.read(0, &mut bytes).map_err(luks::refused)?;

        let count = if random.one_in(32) {
            2 + random.below(2)
        } else {
            1
        };
        #[allow(clippy::cast_possible_truncation, reason = "below 4")]
        let count = count as usize;
        let each = 4 + random.below(40) / count as u64;
        let threads = (0..count).map(|me| {
            let chooser = Chooser {
                ground,
                threads: count,
                me,
            };
            (0..each)
                .map(|_| (chooser.choose(random), random.next()))
                .collect()
        });
        let threads: Vec<_> = threads.collect();
        let requests = each * count as u64;
        let mut faults = Faults {
            cut_at: Some(1 + random.below(requests + requests / 2)),
            failures: Vec::new(),
            latency: count > 1,
        };
        if random.one_in(3) {
            faults.failures.push(fault(random));
        }
        let flushes_fail = faults
            .failures
            .iter()
            .any(|fault| fault.call == Call::Flush);
        disk.arm(faults.clone());
        Ok(Self {
            ground,
            backend,
            volume,
            model: Mutex::new(Model::holding(&bytes, flushes_fail && count > 1)),
            faults,
            threads,
            keys: Mutex::new(keys),
            done: Mutex::default(),
            broken: AtomicBool::new(false),
            disk,
            survivors: 0,
        })
    }

    /// Makes all requests, until the power is cut.
    pub(crate) fn live(&self) -> Result<(), Refused> {
        if let [requests] = &self.threads[..] {
            return self.run_thread(0, requests);
        }
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads = self.threads.iter().enumerate();
            let threads: Vec<_> = threads
                .map(|(me, requests)| scope.spawn(move || self.run_thread(me, requests)))
                .collect();
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect()
        });
        results.into_iter().collect()
    }

    fn run_thread(&self, me: usize, requests: &[(Request, u64)]) -> Result<(), Refused> {
        for &(request, seed) in requests {
            if self.disk.is_cut() || self.broken.load(Ordering::Relaxed) {
                break;
            }
            let failed_before = self.disk.failed();
            let result = self.perform(request, seed);
            let failed = self.disk.failed() > failed_before;
            let error = match &result {
                Ok(Err(error)) | Err(error) => Some(error.clone()),
                Ok(Ok(())) => None,
            };
            lock(&self.done).push(Done {
                thread: me,
                request,
                error,
            });
            let wrong = match result {
                Err(what) => Some(what),
                Ok(Err(_)) if !failed => Some("it failed without a reason".to_owned()),
                Ok(Ok(())) if failed && self.threads.len() == 1 => {
                    Some("the disk failed and the volume did not say so".to_owned())
                }
                Ok(_) => None,
            };
            if let Some(what) = wrong {
                self.broken.store(true, Ordering::Relaxed);
                return Err(what);
            }
        }
        Ok(())
    }

    /// Makes one request. The outer error is a promise broken, the inner one a request refused.
    fn perform(&self, request: Request, seed: u64) -> Result<Result<(), String>, Refused> {
        let volume = &self.volume;
        Ok(match request {
            Request::Read { offset, len } => {
                let mut bytes = vec![0; len];
                let begun = lock(&self.model).begin();
                let result = volume.read(offset as u64, &mut bytes);
                if result.is_ok() {
                    let checked = lock(&self.model).check_read(&begun, offset, &bytes);
                    checked.map_err(|stray| format!("after a read: {stray}"))?;
                }
                self.said(result)?
            }
            Request::Write {
                offset,
                len,
                durable,
            } => {
                let mut data = vec![0; len];
                Random::new(seed).fill(&mut data);
                let begun = lock(&self.model).begin_write(offset, &data);
                let result = volume.write(offset as u64, &mut data, durability(durable));
                self.changed(&begun, durable, result)?
            }
            Request::Zeroes {
                offset,
                len,
                durable,
            } => {
                let begun = lock(&self.model).begin_write(offset, &vec![0; len]);
                let (at, bytes) = (offset as u64, len as u64);
                let result = volume.write_zeroes(at, bytes, durability(durable));
                self.changed(&begun, durable, result)?
            }
            Request::Discard { offset, len } => {
                let sector = self.ground.sector_size;
                let first = offset.next_multiple_of(sector);
                let end = ((offset + len) / sector * sector).max(first);
                let begun = lock(&self.model).begin_discard(first / UNIT..end / UNIT);
                let result = volume.discard(offset as u64, len as u64);
                self.changed(&begun, false, result)?
            }
            Request::Flush => {
                let begun = lock(&self.model).begin();
                let result = volume.flush();
                match &result {
                    Ok(()) => lock(&self.model).flushed(&begun),
                    Err(_) => lock(&self.model).flush_failed(),
                }
                self.said(result)?
            }
            Request::AddKey => self.add_key(),
        })
    }

    fn changed(
        &self,
        begun: &Begun,
        durable: bool,
        result: Result<(), VolumeError>,
    ) -> Result<Result<(), String>, Refused> {
        let mut model = lock(&self.model);
        model.end(begun, result.is_ok(), durable);
        if result.is_err() && durable {
            model.flush_failed();
        }
        drop(model);
        self.said(result)
    }

    /// An error must have the right number.
    fn said(&self, result: Result<(), VolumeError>) -> Result<Result<(), String>, Refused> {
        let Err(error) = result else {
            return Ok(Ok(()));
        };
        let errno = error.errno();
        let mut failures = self.faults.failures.iter();
        let full = failures.any(|fault| fault.failure == Failure::NoSpace);
        if !(errno == Errno::Io || errno == Errno::NoSpc && full) {
            return Err(format!("the error says {errno:?}: {error}"));
        }
        Ok(Err(error.to_string()))
    }

    fn add_key(&self) -> Result<(), String> {
        let before = lock(&self.keys).second;
        if before != Key::Absent {
            return Ok(());
        }
        let begun = lock(&self.model).begin();
        lock(&self.keys).second = Key::Perhaps;
        luks::add_key(&*self.backend, 0, PASSPHRASES[1], None).inspect_err(|_| {
            // One of its flushes may be what failed.
            lock(&self.model).flush_failed();
        })?;
        lock(&self.model).flushed(&begun);
        lock(&self.keys).second = Key::Present;
        Ok(())
    }

    /// Judges what the power cut may have left; returns one of the outcomes.
    pub(crate) fn judge(&mut self, random: &mut Random) -> Result<SimBackend, Refused> {
        self.disk.cut();
        let mut left = None;
        for _ in 0..SURVIVORS {
            let seed = random.next();
            let disk = Arc::new(self.disk.after_cut(seed));
            self.survivors += 1;
            self.judge_survivor(&disk)
                .map_err(|what| format!("after a power cut (survivor {seed}): {what}"))?;
            left = Some(disk.after_cut(seed));
        }
        left.ok_or_else(|| "no survivor was looked at".to_owned())
    }

    fn judge_survivor(&self, disk: &Arc<SimBackend>) -> Result<(), Refused> {
        let backend = canary::backend(disk, None);
        let volume = self.ground.open(&backend, PASSPHRASES[0])?;
        let mut bytes = vec![0; self.ground.size];
        volume.read(0, &mut bytes).map_err(luks::refused)?;
        lock(&self.model)
            .check_survivor(&bytes)
            .map_err(luks::refused)?;
        if lock(&self.keys).second == Key::Present {
            self.ground.open(&backend, PASSPHRASES[1])?;
        }
        Ok(())
    }

    /// What has become of the keys on a disk that is left: of one that was being added, that is seen.
    pub(crate) fn keys_on(&self, disk: &SimBackend) -> Keys {
        let mut keys = *lock(&self.keys);
        if keys.second == Key::Perhaps {
            let backend: Arc<dyn Backend> = Arc::new(disk.after_cut(0));
            keys.second = match self.ground.open(&backend, PASSPHRASES[1]) {
                Ok(_) => Key::Present,
                Err(_) => Key::Absent,
            };
        }
        keys
    }

    pub(crate) fn tally(&self) -> Tally {
        let done = lock(&self.done);
        let failed = done.iter().filter(|one| one.error.is_some()).count() as u64;
        let cut = u64::from(
            self.faults
                .cut_at
                .is_some_and(|at| at <= self.disk.changes()),
        );
        Tally {
            requests: done.len() as u64,
            threaded: u64::from(self.threads.len() > 1),
            cuts: cut,
            failures: failed.saturating_sub(cut),
            survivors: self.survivors,
            ..Tally::default()
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{:?}, {} bytes in sectors of {}, {} threads, {:?}",
            self.ground.front,
            self.ground.size,
            self.ground.sector_size,
            self.threads.len(),
            self.faults
        )
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        let done = lock(&self.done);
        let line = |one: &Done| {
            let result = one.error.as_deref().unwrap_or("done");
            format!("thread {}: {}: {result}", one.thread, one.request)
        };
        done.iter().map(line).collect()
    }
}

fn durability(durable: bool) -> Durability {
    if durable {
        Durability::Durable
    } else {
        Durability::Cached
    }
}

fn fault(random: &mut Random) -> Fault {
    let call = match random.below(8) {
        0 => Call::Read,
        1 => Call::Discard,
        2 | 3 => Call::Flush,
        _ => Call::Write,
    };
    let failure = match random.below(3) {
        0 => Failure::Io,
        1 => Failure::NoSpace,
        _ => Failure::Short,
    };
    Fault {
        call,
        nth: 1 + random.below(16),
        failure,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
