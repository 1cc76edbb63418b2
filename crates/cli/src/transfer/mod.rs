//! Transfer of plaintext into a new volume or out of one: piece by piece from one side to the other, with a record from
//! which a later run goes on, and with a comparison at the end.

mod partial;
mod record;
mod side;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use scrim_backend::{Access, own_file};
use scrim_bench::Progress;
use scrim_sys::memory::DataBuffer;

use crate::error::{CliError, Exit};
use crate::process::interruption::Interruption;
use crate::terminal::note;
use crate::terminal::progress::Display;

pub(crate) use partial::{Partial, Resumed, refuse_unfinished};
pub(crate) use record::{Kind, Record, Stamp};
pub(crate) use side::Side;

/// Number of bytes that are moved at a time.
const PIECE: usize = 1 << 20;
/// Time between two records of the position: a crash costs at most the work of this time.
const CHECKPOINT: Duration = Duration::from_secs(1);

/// A transfer that is ready to run.
pub(crate) struct Transfer<'a> {
    pub(crate) from: Side,
    pub(crate) source: &'a Path,
    pub(crate) to: Side,
    pub(crate) target: &'a Path,
    pub(crate) partial: Partial,
    pub(crate) record: Record,
    pub(crate) verify: bool,
}

/// Outcome of a pass over all pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Interrupted,
}

impl Transfer<'_> {
    /// Moves the rest of the plaintext, compares, and gives the target its name. After a signal or an error the work
    /// that is done stays done.
    pub(crate) fn run(mut self, interruption: &Interruption) -> Result<ExitCode, CliError> {
        if self.record.position > self.size() || self.from.size_bytes() > self.size() {
            return Err(self.spoilt("its size is not that of its record and its source"));
        }
        let moved = self.copy(interruption).and_then(|end| match end {
            End::Done => self.check(interruption),
            End::Interrupted => Ok(end),
        });
        match moved {
            Ok(End::Done) => {
                self.partial.finish(self.record)?;
                Ok(ExitCode::SUCCESS)
            }
            Ok(End::Interrupted) => {
                note(format_args!("scrim: interrupted; {}", self.next_step()));
                Ok(interruption.exit_code())
            }
            Err(Failure::Fatal(error)) => Err(error),
            Err(Failure::Resumable(error)) => {
                self.check_source()?;
                let step = self.next_step();
                Err(CliError::new(error.exit, format!("{error}; {step}")))
            }
        }
    }

    /// Size in bytes. A raw image that ends within a sector is filled up with zeros.
    fn size(&self) -> u64 {
        self.to.size_bytes()
    }

    fn next_step(&self) -> String {
        format!(
            "{} keeps the part that is done: continue with `scrim {} {} {} --resume`",
            self.partial.path().display(),
            self.record.kind.verb(),
            self.source.display(),
            self.target.display()
        )
    }

    fn spoilt(&self, why: &str) -> CliError {
        let path = self.partial.path().display();
        CliError::new(
            Exit::WrongDevice,
            format!("{path} cannot become whole: {why}; remove it and begin without --resume"),
        )
    }

    fn copy(&mut self, interruption: &Interruption) -> Result<End, Failure> {
        let what = self.record.kind.activity();
        let mut pass = Pass::new(what, self.record.position, self.size());
        let mut buffer = DataBuffer::zeroed(PIECE);
        let mut saved = Instant::now();
        while let Some(len) = pass.next() {
            if interruption.came() {
                self.save(pass.position)?;
                return Ok(End::Interrupted);
            }
            let piece = &mut buffer[..len];
            self.from.read(pass.position, piece)?;
            self.to.write(pass.position, piece)?;
            pass.advance(len, self.source);
            if saved.elapsed() >= CHECKPOINT {
                self.save(pass.position)?;
                saved = Instant::now();
            }
        }
        self.save(pass.position)?;
        Ok(End::Done)
    }

    /// First the data, then the position.
    fn save(&mut self, position: u64) -> Result<(), CliError> {
        self.to.flush()?;
        self.record.position = position;
        self.partial.save(&self.record)
    }

    /// Reads both sides again, the target from the disk, and compares.
    fn check(&self, interruption: &Interruption) -> Result<End, Failure> {
        let end = if self.verify {
            self.compare(interruption)?
        } else {
            End::Done
        };
        self.check_source().map_err(Failure::Fatal)?;
        Ok(end)
    }

    /// Refuses a source that was written to since the beginning.
    fn check_source(&self) -> Result<(), CliError> {
        if Stamp::of(self.source)? == self.record.source {
            return Ok(());
        }
        let why = format!("{} was changed meanwhile", self.source.display());
        Err(self.spoilt(&why))
    }

    fn compare(&self, interruption: &Interruption) -> Result<End, Failure> {
        drop_cache(self.partial.path());
        let mut pass = Pass::new("verifying", 0, self.size());
        let mut expected = DataBuffer::zeroed(PIECE);
        let mut found = DataBuffer::zeroed(PIECE);
        while let Some(len) = pass.next() {
            if interruption.came() {
                return Ok(End::Interrupted);
            }
            let (expected, found) = (&mut expected[..len], &mut found[..len]);
            self.from.read(pass.position, expected)?;
            self.to.read(pass.position, found)?;
            if expected != found {
                let at = expected.iter().zip(&*found).position(|(a, b)| a != b);
                let at = pass.position + at.unwrap_or(0) as u64;
                let source = self.source.display();
                let why = format!(
                    "it differs from {source} from byte {at} of the data on, so that {source} was \
                     changed meanwhile, or the storage is failing"
                );
                return Err(Failure::Fatal(self.spoilt(&why)));
            }
            pass.advance(len, self.source);
        }
        Ok(End::Done)
    }
}

/// Reason why a transfer stopped.
enum Failure {
    /// It can be taken up again.
    Resumable(CliError),
    /// It has to be begun again.
    Fatal(CliError),
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        Self::Resumable(error)
    }
}

/// A walk over pieces, which are shown as they pass.
struct Pass {
    what: &'static str,
    start: u64,
    position: u64,
    end: u64,
    display: Display,
}

impl Pass {
    fn new(what: &'static str, position: u64, end: u64) -> Self {
        Self {
            what,
            start: position,
            position,
            end,
            display: Display::new(what),
        }
    }

    /// The length of the next piece.
    fn next(&self) -> Option<usize> {
        let left = self.end.saturating_sub(self.position);
        let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        (len > 0).then_some(len)
    }

    #[allow(clippy::cast_precision_loss, reason = "shown as a percentage")]
    fn advance(&mut self, len: usize, source: &Path) {
        self.position += len as u64;
        let done = (self.position - self.start) as f64;
        self.display.show(&Progress {
            what: format!("{} {}", self.what, source.display()),
            round: 0,
            rounds: 0,
            part: done / (self.end - self.start) as f64,
        });
    }
}

/// Drops a file, which is on the disk, from the kernel's page cache, so that the next read comes from the disk. If
/// that fails, the kernel's copy is read.
fn drop_cache(path: &Path) {
    if let Ok(file) = own_file::open(path, Access::ReadOnly) {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}
