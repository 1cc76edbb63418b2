//! Transfer of plaintext into a new volume or out of one: pieces from one side to the other, several at a time, with a
//! record from which a later run goes on, and with a comparison at the end.

mod partial;
mod pass;
mod record;
mod side;
mod target;

use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use scrim_sys::memory::DataBuffer;

use crate::error::{CliError, Exit};
use crate::process::interruption::Interruption;
use crate::storage::is_remote;
use crate::terminal::{note, same_command};

use self::pass::{End, Failure, PIECE, Pass};

pub(crate) use partial::{Partial, Resumed, refuse_unfinished};
pub(crate) use record::{Kind, Record, Stamp};
pub(crate) use side::Side;
pub(crate) use target::{Existing, Target};

/// Number of pieces that are at a server together, since each waits for the way there and back.
const REMOTE: usize = 16;
/// Most pieces that are moved at the same time where all is local.
const LOCAL: usize = 4;

/// A transfer that is ready to run.
pub(crate) struct Transfer<'a> {
    pub(crate) from: Side,
    pub(crate) source: &'a Path,
    pub(crate) to: Side,
    pub(crate) target: Target,
    /// Number of bytes that are moved. A raw image that ends within a sector is filled up with zeros.
    pub(crate) size: u64,
    pub(crate) record: Record,
    pub(crate) verify: bool,
}

impl Transfer<'_> {
    /// Moves the rest of the plaintext, compares, and makes the target whole. After a signal or an error the work that is
    /// done stays done, where the target can keep it.
    pub(crate) fn run(mut self, interruption: &Interruption) -> Result<ExitCode, CliError> {
        if self.record.position > self.size || self.from.size_bytes() > self.size {
            return Err(self.spoilt("its size is not that of its record and its source"));
        }
        let moved = self.copy(interruption).and_then(|end| match end {
            End::Done => self.check(interruption),
            End::Interrupted => Ok(end),
        });
        match moved {
            Ok(End::Done) => {
                self.target.finish(self.record)?;
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

    fn when_interrupted(&self) -> &'static str {
        match self.target.is_resumable() {
            true => "stops it; --resume goes on",
            false => "stops it, and no volume remains",
        }
    }

    fn next_step(&self) -> String {
        let path = self.target.path().display();
        if self.target.is_resumable() {
            format!(
                "{path} keeps the part that is done: continue with `{}`",
                same_command(Some("--resume"))
            )
        } else {
            format!(
                "{path} holds no volume before it is complete: begin again with `{}`",
                same_command(None)
            )
        }
    }

    fn spoilt(&self, why: &str) -> CliError {
        let path = self.target.path().display();
        let step = if self.target.is_resumable() {
            "remove it and begin without --resume"
        } else {
            "begin again"
        };
        CliError::new(
            Exit::WrongDevice,
            format!("{path} cannot become whole: {why}; {step}"),
        )
    }

    fn copy(&mut self, interruption: &Interruption) -> Result<End, Failure> {
        let pass = Pass {
            what: self.record.kind.activity(),
            source: self.source,
            start: self.record.position,
            end: self.size,
            at_once: self.at_once(),
            interruption,
            interrupted: self.when_interrupted(),
        };
        let (from, to) = (&self.from, &self.to);
        let mover = || {
            let mut buffer = DataBuffer::zeroed(PIECE);
            move |at, len| {
                let piece = &mut buffer[..len];
                from.read(at, piece)?;
                Ok(to.write(at, piece)?)
            }
        };
        // First the data, then the position.
        pass.run(mover, |position| {
            to.flush()?;
            self.record.position = position;
            self.target.save(&self.record)
        })
    }

    /// Number of pieces that are moved at the same time.
    fn at_once(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, NonZero::get);
        match is_remote(self.source) || is_remote(self.target.path()) {
            true => REMOTE,
            false => processors().min(LOCAL),
        }
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
        self.target.drop_cache();
        let pass = Pass {
            what: "verifying",
            source: self.source,
            start: 0,
            end: self.size,
            at_once: self.at_once(),
            interruption,
            interrupted: self.when_interrupted(),
        };
        let mover = || {
            let mut expected = DataBuffer::zeroed(PIECE);
            let mut found = DataBuffer::zeroed(PIECE);
            move |at, len| {
                let (expected, found) = (&mut expected[..len], &mut found[..len]);
                self.from.read(at, expected)?;
                self.to.read(at, found)?;
                if expected == found {
                    return Ok(());
                }
                let within = expected.iter().zip(&*found).position(|(a, b)| a != b);
                Err(self.differs(at + within.unwrap_or(0) as u64))
            }
        };
        pass.run(mover, |_| Ok(()))
    }

    fn differs(&self, at: u64) -> Failure {
        let source = self.source.display();
        let why = format!(
            "it differs from {source} from byte {at} of the data on, so that {source} was changed meanwhile, or the \
             storage is failing"
        );
        Failure::Fatal(self.spoilt(&why))
    }
}
