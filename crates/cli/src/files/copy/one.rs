//! The copy of one file or symbolic link.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use scrim_figures::Size;
use scrim_files::{Inode, ReadMode, Span};
use scrim_foreign::Foreign;
use scrim_sys::memory::DataBuffer;

use super::links::Links;
use super::place;
use super::report::{Kind, Report};
use super::target::{self, Attributes, Existing, NewFile};
use crate::args::CpArgs;
use crate::error::{CliError, Exit};
use crate::files::source::Source;
use crate::process::interruption::Interruption;
use crate::terminal::progress::Display;

/// Number of bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Reason why something was not copied.
pub(super) enum Stop {
    /// This entry cannot be copied; the others can.
    Entry(CliError),
    /// Nothing more can be copied.
    Fatal(CliError),
    Interrupted,
}

/// A copy in progress.
pub(super) struct Copier<'a> {
    pub(super) source: &'a Source,
    pub(super) args: &'a CpArgs,
    pub(super) interruption: &'a Interruption,
    pub(super) report: Report,
    pub(super) display: Display,
    /// Path of the folder that is copied into, for messages.
    pub(super) base: PathBuf,
    links: Links,
    buffer: DataBuffer,
}

impl<'a> Copier<'a> {
    pub(super) fn new(
        source: &'a Source,
        args: &'a CpArgs,
        interruption: &'a Interruption,
    ) -> Self {
        Self {
            source,
            args,
            interruption,
            report: Report::default(),
            display: Display::new("copying", "stops it; the same command goes on"),
            base: PathBuf::new(),
            links: Links::default(),
            buffer: DataBuffer::zeroed(PIECE),
        }
    }

    pub(super) fn check_interruption(&self) -> Result<(), Stop> {
        match self.interruption.came() {
            true => Err(Stop::Interrupted),
            false => Ok(()),
        }
    }

    /// Prints a note in place of the progress.
    pub(super) fn note(&mut self, kind: Kind, text: &str) {
        self.display.clear();
        self.report.tell(kind, text);
    }

    /// Notes an entry that was not copied.
    pub(super) fn fail(&mut self, error: &CliError) {
        self.display.clear();
        self.report.fail(error);
    }

    pub(super) fn note_attributes(&mut self, inode: &Inode, path: &[u8]) {
        if inode.has_attributes() {
            let place = self.source.location.shown(path);
            self.note(
                Kind::Attributes,
                &format!("{place}: its extended attributes are not copied"),
            );
        }
    }

    /// Path of an entry of the copy, for messages.
    pub(super) fn shown(&self, path: &[u8]) -> PathBuf {
        place::below(&self.base, path)
    }

    /// An error at an entry of the copy. It ends the copy if it would meet every other entry, too.
    pub(super) fn failed_to(&self, doing: &str, path: &[u8], error: &io::Error) -> Stop {
        let shown = self.shown(path);
        let shown = shown.display();
        let told = CliError::io(format_args!("{doing} {shown}"), error);
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Stop::Fatal(told.followed_by("; free some space"))
            }
            ErrorKind::ReadOnlyFilesystem => Stop::Fatal(told),
            ErrorKind::ResourceBusy => Stop::Fatal(CliError::new(
                Exit::Busy,
                format!(
                    "{shown}: another `scrim cp` is copying into this folder; wait for its end"
                ),
            )),
            _ => Stop::Entry(told),
        }
    }

    /// Makes the copy durable.
    pub(super) fn sync(&self, folder: impl AsFd) -> Result<(), Stop> {
        target::sync(folder).map_err(|error| self.failed_to("write to the disk", b"", &error))
    }

    /// Looks at what has the name of a copy. Returns whether it is to be replaced.
    fn may_replace(&self, path: &[u8], existing: &Existing) -> Result<bool, Stop> {
        let next = match existing {
            Existing::Nothing => return Ok(false),
            Existing::Folder => "remove it first",
            _ if self.args.force => return Ok(true),
            _ => "replace it with --force, or choose another DEST",
        };
        let (shown, what) = (self.shown(path), existing.what());
        let text = format!("{} exists already, and is {what}; {next}", shown.display());
        Err(Stop::Entry(CliError::new(Exit::Busy, text)))
    }

    /// Copies a file to `name` in a folder. `path` is that of the copy below `start`, the folder where the copy of a tree
    /// began: there the first name of a file with several is found.
    pub(super) fn file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        inode: &Inode,
        start: Option<BorrowedFd<'_>>,
    ) -> Result<(), Stop> {
        let below = if start.is_some() { path } else { b"" };
        let existing =
            target::look(folder, name).map_err(|error| self.failed_to("look at", path, &error))?;
        if is_whole(&existing, inode) {
            self.report.counts.unchanged += 1;
            self.links.keep(inode, path);
            return Ok(());
        }
        let replaces = self.may_replace(path, &existing)?;
        if let Some(start) = start
            && let Some(first) = self.links.take(inode)
            && link_to(start, &first, folder, name, replaces).is_ok()
        {
            self.report.counts.hard_links += 1;
            return Ok(());
        }
        let attributes = Attributes::of(inode, self.args.preserve_owner);
        let new = NewFile::create(folder).map_err(|error| self.failed_to("make", path, &error))?;
        self.content(&new.file, inode, path, below)?;
        attributes
            .give_to(&new.file)
            .map_err(|error| self.failed_to("set attributes of", path, &error))?;
        self.source.check_unchanged().map_err(Stop::Fatal)?;
        new.finish(name, replaces)
            .map_err(|error| self.failed_to("give the name to", path, &error))?;
        self.report.counts.files += 1;
        self.note_attributes(inode, below);
        if start.is_some() && !self.links.keep(inode, path) {
            let place = self.source.location.shown(below);
            let text = format!(
                "{place}: copied once more for each further name, as there are too many such files"
            );
            self.note(Kind::SecondCopy, &text);
        }
        Ok(())
    }

    /// Copies the bytes of a file; holes stay holes.
    fn content(&mut self, to: &File, inode: &Inode, path: &[u8], below: &[u8]) -> Result<(), Stop> {
        let from = self
            .source
            .file(inode.clone(), below)
            .map_err(Stop::Entry)?;
        let place = self.source.location.shown(below);
        let unreadable =
            |error: &io::Error| Stop::Entry(CliError::io(format_args!("read {place}"), error));
        to.set_len(inode.size())
            .map_err(|error| self.failed_to("make", path, &error))?;
        let mut offset = 0;
        while offset < inode.size() {
            self.check_interruption()?;
            let span = from.span(offset, ReadMode::Wait);
            let len = match span.map_err(|error| unreadable(&error))? {
                Span::Hole(len) => {
                    offset += len;
                    continue;
                }
                Span::Data(len) => usize::try_from(len).map_or(PIECE, |len| len.min(PIECE)),
            };
            let piece = &mut self.buffer[..len];
            let read = from.read_at(piece, offset, ReadMode::Wait);
            let read = read.map_err(|error| unreadable(&error))?;
            if read == 0 {
                return Err(unreadable(&ErrorKind::UnexpectedEof.into()));
            }
            let written = to.write_all_at(&self.buffer[..read], offset);
            written.map_err(|error| self.failed_to("write", path, &error))?;
            offset += read as u64;
            self.report.counts.bytes += read as u64;
            let counts = &self.report.counts;
            self.display.count(|| {
                let size = Size::of_bytes(counts.bytes);
                format!("{} files, {size}: {}", counts.files, Foreign::new(path))
            });
        }
        Ok(())
    }

    /// Copies a symbolic link, as a link.
    pub(super) fn link(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        inode: &Inode,
    ) -> Result<(), Stop> {
        let leads_to = self.source.tree.target(inode);
        let leads_to = leads_to.map_err(|error| Stop::Entry(self.source.failed(path, error)))?;
        let existing =
            target::look(folder, name).map_err(|error| self.failed_to("look at", path, &error))?;
        if matches!(&existing, Existing::Link(other) if *other == leads_to) {
            self.report.counts.unchanged += 1;
            return Ok(());
        }
        let replaces = self.may_replace(path, &existing)?;
        let attributes = Attributes::of(inode, self.args.preserve_owner);
        target::make_link(folder, name, &leads_to, attributes, replaces)
            .map_err(|error| self.failed_to("make the symbolic link", path, &error))?;
        self.report.counts.symbolic_links += 1;
        self.note_attributes(inode, path);
        Ok(())
    }
}

/// Returns whether a file was copied before: it has the size and the time of the last write. A copy has them when it is
/// whole.
fn is_whole(existing: &Existing, inode: &Inode) -> bool {
    let (seconds, nanos) = inode.modified();
    let wanted = (seconds, i64::from(nanos));
    matches!(existing, Existing::File { size, modified } if *size == inode.size() && *modified == wanted)
}

fn link_to(
    start: BorrowedFd<'_>,
    first: &[u8],
    folder: BorrowedFd<'_>,
    name: &[u8],
    replaces: bool,
) -> io::Result<()> {
    let (above, first_name) = target::open_above(start, first)?;
    target::make_hard_link((above.as_fd(), first_name), folder, name, replaces)
}
