//! A volume from its opening to a power cut, and the judgement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scrim_backend::sim::{Call, Failure, Fault, Faults, SimBackend};
use scrim_backend::{Backend, Durability};
use scrim_luks::Consent;
use scrim_seeded::Random;
use scrim_volume::{Change, Errno, Volume, VolumeError};

use crate::canary::{self, Canary};
use crate::fixture::{Fixture, Front};
use crate::header_model::HeaderModel;
use crate::luks::{self, Refused};
use crate::model::{Begun, Model};
use crate::request::{Chooser, Request};
use crate::state::{Seen, observe};
use crate::tally::Tally;
use crate::value::UNIT;
use crate::way::Way;

/// Outcomes of one power cut that are looked at.
const SURVIVORS: u64 = 3;

/// Time within which requests must end when a table is exchanged.
const PATIENCE: Duration = Duration::from_secs(60);

/// A volume from its opening to a power cut.
pub(crate) struct Life {
    fixture: Fixture,
    disk: Arc<SimBackend>,
    backend: Arc<dyn Backend>,
    /// Way in which it was opened.
    way: Way,
    volume: Volume,
    model: Mutex<Model>,
    faults: Faults,
    threads: Vec<Vec<(Request, u64)>>,
    /// Model of its header, if it has one.
    header: Option<Mutex<HeaderModel>>,
    canary: Option<Canary>,
    done: Mutex<Vec<Done>>,
    broken: AtomicBool,
    survivors: u64,
}

struct Done {
    thread: usize,
    request: Request,
    error: Option<String>,
}

impl Life {
    /// Chooses a life. `saved` is a backup of the header that a life before this one has made.
    pub(crate) fn choose(
        fixture: Fixture,
        disk: SimBackend,
        canary: Option<Canary>,
        saved: Option<Vec<u8>>,
        random: &mut Random,
    ) -> Result<Self, Refused> {
        let disk = Arc::new(disk);
        let backend = canary::of_volume(&disk, canary);
        let way = Way::choose(random);
        let volume = fixture.open_in(way, &backend)?;
        let header = match fixture.front {
            Front::Nothing => None,
            Front::Luks1 | Front::Luks2 => Some(Mutex::new(HeaderModel::seen_on(&disk, saved)?)),
        };
        let mut bytes = vec![0; fixture.size];
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
                fixture,
                threads: count,
                me,
            };
            (0..each)
                .map(|_| (chooser.choose(random), random.next()))
                .collect()
        });
        let threads: Vec<Vec<(Request, u64)>> = threads.collect();
        let requests = threads.iter().flatten();
        let changes: u64 = requests.map(|(request, _)| request.changes()).sum();
        let mut faults = Faults {
            cut_at: Some(1 + random.below(changes + changes / 2)),
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
            fixture,
            backend,
            way,
            volume,
            model: Mutex::new(Model::holding(&bytes, flushes_fail && count > 1)),
            faults,
            threads,
            header,
            canary,
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
                let sector = self.fixture.sector_size;
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
            Request::Header => self.change_header(seed)?,
            Request::Exchange { way } => self.exchange(way).map(Ok)?,
            Request::Suspend => {
                if !volume.suspend(PATIENCE) {
                    return Err("requests do not end, so that none can be held".to_owned());
                }
                volume.resume(PATIENCE).map_err(luks::refused)?;
                Ok(())
            }
        })
    }

    /// Puts another table in the place of the one in use. Nothing of this needs the storage, so
    /// nothing of it may fail.
    fn exchange(&self, way: Way) -> Result<(), Refused> {
        let table = self.fixture.table(way)?;
        let open = |_: &str| Ok(Arc::clone(&self.backend));
        let loaded = self.volume.load(table, way.path, Change::OfService, open);
        loaded.map_err(luks::refused)?;
        self.volume.resume(PATIENCE).map_err(luks::refused)?;
        Ok(())
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

    /// Checks that an error has the right number.
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

    /// Changes the header, as a seed says. After a change that failed, first everything is made
    /// durable: no promise covers what two changes together have left in the cache.
    fn change_header(&self, seed: u64) -> Result<Result<(), String>, Refused> {
        let Some(header) = &self.header else {
            return Ok(Ok(()));
        };
        let mut header = lock(header);
        if header.is_unsettled() {
            let begun = lock(&self.model).begin();
            if let Err(error) = self.backend.flush() {
                lock(&self.model).flush_failed();
                return Ok(Err(error.to_string()));
            }
            lock(&self.model).flushed(&begun);
            header.settle(&self.disk)?;
        }
        let rehearsed = header.rehearse(&self.disk, seed)?;
        let begun = lock(&self.model).begin();
        let (failed, changes) = (self.disk.failed(), self.disk.changes());
        let backend = canary::of_header(&self.disk, self.canary, &self.backend);
        let done = header.make(&rehearsed.change, &*backend);
        let only_thread = self.threads.len() == 1;
        if rehearsed.is_refused() && only_thread && self.disk.changes() != changes {
            return Err(format!("{}: it was refused, and wrote", rehearsed.change));
        }
        if rehearsed.change.flushes() && !rehearsed.is_refused() {
            match done {
                Ok(()) => lock(&self.model).flushed(&begun),
                // One of its flushes may be what failed.
                Err(_) => lock(&self.model).flush_failed(),
            }
        }
        if !self.disk.is_cut() {
            let ended = header.ended(&rehearsed, done.is_ok(), &self.disk);
            ended.map_err(|what| format!("{}: {what}", rehearsed.change))?;
        }
        if rehearsed.is_refused() && self.disk.failed() == failed {
            return Ok(Ok(()));
        }
        Ok(done)
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
        let header = match &self.header {
            Some(header) => {
                let seen = observe(&**disk)?;
                lock(header).check(&seen)?;
                Some(seen)
            }
            None => None,
        };
        let volume = self.fixture.open(&backend)?;
        if let Some(Seen {
            state,
            repair: Some(Consent::NotNeeded),
        }) = header
        {
            let mended = observe(&**disk)?;
            if mended.state != state || mended.repair.is_some() {
                return Err(format!("opened, and so mended, the header is {mended:?}"));
            }
        }
        let mut bytes = vec![0; self.fixture.size];
        volume.read(0, &mut bytes).map_err(luks::refused)?;
        let survived = lock(&self.model).check_survivor(&bytes);
        survived.map_err(luks::refused)
    }

    /// The last backup of the header.
    pub(crate) fn saved(&self) -> Option<Vec<u8>> {
        lock(self.header.as_ref()?).saved()
    }

    pub(crate) fn tally(&self) -> Tally {
        let done = lock(&self.done);
        let failed = done.iter().filter(|one| one.error.is_some()).count() as u64;
        let cut = u64::from(
            self.faults
                .cut_at
                .is_some_and(|at| at <= self.disk.changes()),
        );
        let split = self.volume.statistics();
        Tally {
            queued: u64::from(self.way.is_queued()),
            split: split.read.split + split.write.split,
            exchanges: self.volume.generation() as u64,
            requests: done.len() as u64,
            threaded: u64::from(self.threads.len() > 1),
            cuts: cut,
            changes: self
                .header
                .as_ref()
                .map_or(0, |header| lock(header).asked().len() as u64),
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
            "{:?}, {} bytes in sectors of {}, {}, {} threads, {:?}",
            self.fixture.front,
            self.fixture.size,
            self.fixture.sector_size,
            self.way,
            self.threads.len(),
            self.faults
        )
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        let done = lock(&self.done);
        let asked = self
            .header
            .as_ref()
            .map(|header| lock(header).asked().to_vec());
        let mut asked = asked.unwrap_or_default().into_iter();
        let line = |one: &Done| {
            let result = one.error.as_deref().unwrap_or("done");
            let which = match one.request {
                Request::Header => asked.next().map(|change| format!(" ({change})")),
                _ => None,
            };
            let which = which.unwrap_or_default();
            format!("thread {}: {}{which}: {result}", one.thread, one.request)
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
