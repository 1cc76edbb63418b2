//! The load: the system calls of bonnie++'s phases, in the same order and sizes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use scrim_seeded::Random;

use super::error::FileserverError;
use super::phase::{Load, Phase};

/// Bytes of a block, as bonnie++ has by default.
const BLOCK: usize = 8192;
/// Threads that seek, likewise.
const SEEKERS: u64 = 5;
/// One in so many places is written back.
const WRITTEN_BACK: u64 = 10;
/// Blocks, or single bytes, between two reports of progress.
const STRIDE: u64 = 512;
/// Time between two looks at threads that seek.
const LOOK: Duration = Duration::from_millis(20);

/// Callback that hears of the part of a phase that is done, and can end it.
pub(super) type Pulse<'a> = dyn FnMut(f64) -> ControlFlow<()> + 'a;

/// Work of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Bytes, places or files.
    pub(super) amount: u64,
    pub(super) wall: Duration,
    /// Processor time of the threads that made the load.
    pub(super) cpu: Duration,
}

/// Runs phases in a folder, whose files it creates.
pub(super) struct Generator {
    folder: PathBuf,
    load: Load,
    block: Vec<u8>,
}

/// A clock of wall time and of this thread's processor time.
struct Clock {
    start: Instant,
    cpu: Duration,
}

impl Generator {
    pub(super) fn new(folder: &Path, load: Load) -> Self {
        let mut block = vec![0; BLOCK];
        Random::new(2).fill(&mut block);
        Self {
            folder: folder.to_owned(),
            load,
            block,
        }
    }

    /// Path of the large file.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("file")
    }

    /// Path of the file of the character phases.
    pub(super) fn characters(&self) -> PathBuf {
        self.folder.join("characters")
    }

    /// Runs a phase to its end.
    pub(super) fn run(
        &mut self,
        phase: Phase,
        pulse: &mut Pulse<'_>,
    ) -> Result<Work, FileserverError> {
        match phase {
            Phase::CharWrite => self.write_bytes(pulse),
            Phase::BlockWrite => self.write_blocks(pulse),
            Phase::Rewrite => self.rewrite(pulse),
            Phase::CharRead => self.read_bytes(pulse),
            Phase::BlockRead => self.read_blocks(pulse),
            Phase::Seeks => self.seek(pulse),
            Phase::Create => self.each_file(pulse, |path| File::create_new(path).map(drop)),
            Phase::Stat => self.each_file(pulse, |path| fs::metadata(path).map(drop)),
            Phase::Delete => self.each_file(pulse, |path| fs::remove_file(path)),
        }
    }

    fn blocks(&self) -> u64 {
        (self.load.bytes / BLOCK as u64).max(1)
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs_f64(self.load.limit_seconds)
    }

    fn write_bytes(&self, pulse: &mut Pulse<'_>) -> Result<Work, FileserverError> {
        let path = self.characters();
        let clock = Clock::start();
        let mut file = File::create_new(&path).map_err(failed("create", &path))?;
        let (mut done, most) = (0, self.load.char_bytes);
        while done < most && clock.start.elapsed() < self.deadline() {
            report(pulse, done, most)?;
            let end = most.min(done + STRIDE);
            for _ in done..end {
                file.write_all(b"x").map_err(failed("write", &path))?;
            }
            done = end;
        }
        file.sync_all().map_err(failed("write", &path))?;
        drop(file);
        Ok(clock.stop(done))
    }

    fn read_bytes(&self, pulse: &mut Pulse<'_>) -> Result<Work, FileserverError> {
        let path = self.characters();
        let clock = Clock::start();
        let mut file = File::open(&path).map_err(failed("open", &path))?;
        let (mut done, most) = (0, self.load.char_bytes);
        let mut byte = [0];
        'reading: while done < most && clock.start.elapsed() < self.deadline() {
            report(pulse, done, most)?;
            for _ in 0..STRIDE {
                match file.read(&mut byte).map_err(failed("read", &path))? {
                    0 => break 'reading,
                    _ if byte != *b"x" => return Err(FileserverError::WrongData { offset: done }),
                    _ => done += 1,
                }
            }
        }
        Ok(clock.stop(done))
    }

    fn write_blocks(&mut self, pulse: &mut Pulse<'_>) -> Result<Work, FileserverError> {
        let path = self.file();
        let clock = Clock::start();
        let mut file = File::create_new(&path).map_err(failed("create", &path))?;
        let blocks = self.blocks();
        for number in 0..blocks {
            if number.is_multiple_of(STRIDE) {
                report(pulse, number, blocks)?;
            }
            stamp(&mut self.block, number);
            file.write_all(&self.block)
                .map_err(failed("write", &path))?;
        }
        file.sync_all().map_err(failed("write", &path))?;
        drop(file);
        Ok(clock.stop(blocks * BLOCK as u64))
    }

    fn rewrite(&mut self, pulse: &mut Pulse<'_>) -> Result<Work, FileserverError> {
        let path = self.file();
        let clock = Clock::start();
        let mut file = open_both(&path)?;
        let blocks = self.blocks();
        for number in 0..blocks {
            if number.is_multiple_of(STRIDE) {
                report(pulse, number, blocks)?;
            }
            let back = -(BLOCK as i64);
            let mut turn = || {
                file.read_exact(&mut self.block)?;
                let last = BLOCK - 1;
                self.block[last] = self.block[last].wrapping_add(1);
                file.seek(SeekFrom::Current(back))?;
                file.write_all(&self.block)
            };
            turn().map_err(failed("rewrite", &path))?;
            verify(&self.block, number)?;
        }
        file.sync_all().map_err(failed("write", &path))?;
        drop(file);
        Ok(clock.stop(blocks * BLOCK as u64))
    }

    fn read_blocks(&mut self, pulse: &mut Pulse<'_>) -> Result<Work, FileserverError> {
        let path = self.file();
        let clock = Clock::start();
        let mut file = open_both(&path)?;
        let blocks = self.blocks();
        for number in 0..blocks {
            if number.is_multiple_of(STRIDE) {
                report(pulse, number, blocks)?;
            }
            file.read_exact(&mut self.block)
                .map_err(failed("read", &path))?;
            verify(&self.block, number)?;
        }
        drop(file);
        Ok(clock.stop(blocks * BLOCK as u64))
    }

    fn seek(&self, pulse: &mut Pulse<'_>) -> Result<Work, FileserverError> {
        let path = self.file();
        let (ends, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let clock = Clock::start();
        let cpu = thread::scope(|scope| {
            let seekers: Vec<_> = (0..SEEKERS)
                .map(|number| {
                    let (path, ends, done) = (&path, &ends, &done);
                    scope.spawn(move || self.seek_alone(number, path, ends, done))
                })
                .collect();
            let mut outcome = Ok(());
            while !seekers.iter().all(thread::ScopedJoinHandle::is_finished) {
                let now = done.load(Ordering::Relaxed);
                outcome = outcome.and_then(|()| report(pulse, now, self.load.seeks));
                if outcome.is_err() || clock.start.elapsed() >= self.deadline() {
                    ends.store(true, Ordering::Relaxed);
                }
                thread::sleep(LOOK);
            }
            let mut cpu = Duration::ZERO;
            for seeker in seekers {
                // A panic of the thread is passed on.
                let took = seeker.join();
                cpu += took.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            outcome.map(|()| cpu)
        })?;
        let work = clock.stop(done.load(Ordering::Relaxed));
        Ok(Work {
            cpu: work.cpu + cpu,
            ..work
        })
    }

    /// Seeks on one thread, and returns its processor time.
    fn seek_alone(
        &self,
        number: u64,
        path: &Path,
        ends: &AtomicBool,
        done: &AtomicU64,
    ) -> Result<Duration, FileserverError> {
        let clock = Clock::start();
        let mut file = open_both(path)?;
        let mut random = Random::of(3, number);
        let mut block = vec![0; BLOCK];
        let share = self.load.seeks / SEEKERS + u64::from(number < self.load.seeks % SEEKERS);
        for _ in 0..share {
            if ends.load(Ordering::Relaxed) {
                break;
            }
            let place = random.below(self.blocks());
            let offset = SeekFrom::Start(place * BLOCK as u64);
            let mut turn = || {
                file.seek(offset)?;
                file.read_exact(&mut block)?;
                if random.one_in(WRITTEN_BACK) {
                    file.seek(offset)?;
                    file.write_all(&block)?;
                }
                Ok(())
            };
            turn().map_err(failed("seek in", path))?;
            verify(&block, place)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        file.sync_all().map_err(failed("write", path))?;
        Ok(clock.stop(0).cpu)
    }

    fn each_file(
        &self,
        pulse: &mut Pulse<'_>,
        each: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<Work, FileserverError> {
        let folder = self.folder.join("files");
        let deadline = self.deadline();
        let clock = Clock::start();
        let mut done = 0;
        if !folder.exists() {
            fs::create_dir(&folder).map_err(failed("create", &folder))?;
        }
        while done < self.load.files && clock.start.elapsed() < deadline {
            if done.is_multiple_of(STRIDE / 16) {
                report(pulse, done, self.load.files)?;
            }
            let path = folder.join(format!("{done:010}"));
            match each(&path) {
                // The phase that creates files reached its deadline before this one.
                Err(error) if error.kind() == io::ErrorKind::NotFound && done > 0 => break,
                result => result.map_err(failed("use", &path))?,
            }
            done += 1;
        }
        // Deleted or created names are not on the disk before that.
        let synced = File::open(&folder).and_then(|folder| folder.sync_all());
        synced.map_err(failed("write", &folder))?;
        Ok(clock.stop(done))
    }
}

impl Work {
    /// MB, places or files a second.
    pub(super) fn rate(&self, phase: Phase) -> f64 {
        let amount = match phase.moves_bytes() {
            true => self.amount as f64 / 1e6,
            false => self.amount as f64,
        };
        amount / self.wall.as_secs_f64().max(1e-9)
    }
}

impl Clock {
    fn start() -> Self {
        Self {
            start: Instant::now(),
            cpu: cpu_of_thread(),
        }
    }

    fn stop(&self, amount: u64) -> Work {
        Work {
            amount,
            wall: self.start.elapsed(),
            cpu: cpu_of_thread().saturating_sub(self.cpu),
        }
    }
}

fn cpu_of_thread() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Opens for reading and writing, as bonnie++ does also to read.
fn open_both(path: &Path) -> Result<File, FileserverError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(failed("open", path))
}

/// Makes an error only where there is one: it is called for each byte.
fn failed<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> FileserverError + 'a {
    move |error| FileserverError::System {
        doing: format!("{doing} {}", path.display()),
        error,
    }
}

fn report(pulse: &mut Pulse<'_>, done: u64, all: u64) -> Result<(), FileserverError> {
    match pulse(done as f64 / all.max(1) as f64) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(FileserverError::Interrupted),
    }
}

/// Writes the number of a block into it.
fn stamp(block: &mut [u8], number: u64) {
    if let Some(head) = block.first_chunk_mut() {
        *head = number.to_le_bytes();
    }
}

fn verify(block: &[u8], number: u64) -> Result<(), FileserverError> {
    match block.first_chunk() == Some(&number.to_le_bytes()) {
        true => Ok(()),
        false => Err(FileserverError::WrongData {
            offset: number * BLOCK as u64,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    fn load() -> Load {
        Load {
            bytes: 1 << 20,
            char_bytes: 1000,
            seeks: 33,
            files: 20,
            limit_seconds: 60.0,
        }
    }

    #[test]
    fn phases_do_all_their_work_and_leave_no_small_file() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-generator").unwrap();
        let mut generator = Generator::new(folder.path(), load());
        let mut pulse = |part: f64| {
            assert!((0.0..=1.0).contains(&part));
            ControlFlow::Continue(())
        };
        let amounts = Phase::ALL.map(|phase| generator.run(phase, &mut pulse).unwrap().amount);
        let bytes = 1 << 20;
        assert_eq!(amounts, [1000, bytes, bytes, 1000, bytes, 33, 20, 20, 20]);
        assert_eq!(fs::metadata(generator.file()).unwrap().len(), bytes);
        assert_eq!(
            fs::read_dir(folder.path().join("files")).unwrap().count(),
            0
        );
    }

    #[test]
    fn a_phase_ends_when_it_is_told_to_or_its_time_is_over() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-generator").unwrap();
        let mut generator = Generator::new(folder.path(), load());
        let error = generator.run(Phase::BlockWrite, &mut |_| ControlFlow::Break(()));
        assert!(matches!(error, Err(FileserverError::Interrupted)));
        let mut short = load();
        short.limit_seconds = 0.0;
        let mut generator = Generator::new(folder.path(), short);
        let work = generator.run(Phase::CharWrite, &mut |_| ControlFlow::Continue(()));
        assert_eq!(work.unwrap().amount, 0);
    }

    #[test]
    fn other_data_than_was_written_is_an_error() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-generator").unwrap();
        let mut generator = Generator::new(folder.path(), load());
        let mut pulse = |_| ControlFlow::Continue(());
        generator.run(Phase::BlockWrite, &mut pulse).unwrap();
        let mut file = open_both(&generator.file()).unwrap();
        file.seek(SeekFrom::Start(3 * BLOCK as u64)).unwrap();
        file.write_all(&[0xff; 8]).unwrap();
        for phase in [Phase::Rewrite, Phase::BlockRead] {
            let error = generator.run(phase, &mut pulse).unwrap_err();
            assert!(error.to_string().contains("offset 24576"), "{error}");
        }
    }

    #[test]
    fn rates_are_a_second() {
        let work = Work {
            amount: 5_000_000,
            wall: Duration::from_secs(2),
            cpu: Duration::ZERO,
        };
        assert_eq!(work.rate(Phase::BlockRead), 2.5);
        assert_eq!(work.rate(Phase::Seeks), 2_500_000.0);
    }
}
