//! The listing of a folder, or of all folders below it: names, lines, or JSON.

use scrim_files::{Inode, Kind, LastLink};
use scrim_foreign::{Foreign, json};

use super::entry::{Record, columns};
use super::source::Source;
use super::walk::{Name, Names, Step, Walk, below};
use crate::args::LsArgs;
use crate::error::{CliError, Exit};
use crate::terminal::{note, print};

/// Bytes of lines that are collected before they are printed.
const PRINTED_AT: usize = 64 << 10;

/// A listing that is being printed.
pub(crate) struct Listing<'a> {
    source: &'a Source,
    args: &'a LsArgs,
    /// Lines that are not printed yet.
    text: String,
    /// Number of files in JSON so far.
    records: u64,
    /// Number of files and folders that could not be read.
    failures: u64,
    is_first: bool,
}

/// A line of a listing: an inode, if it was read, and the name before it is shown.
struct Line<'n> {
    name: &'n [u8],
    inode: Option<Inode>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(source: &'a Source, args: &'a LsArgs) -> Self {
        Self {
            source,
            args,
            text: String::new(),
            records: 0,
            failures: 0,
            is_first: true,
        }
    }

    /// Lists the file or folder at the location.
    pub(crate) fn run(mut self) -> Result<(), CliError> {
        // As in ls: a line about a link is about the link, unless a slash follows it.
        let shows_link = self.args.is_long || self.args.directory || self.args.json;
        let last = match shows_link {
            true => LastLink::Keep,
            false => LastLink::Follow,
        };
        let found = self.source.find(last)?;
        let inode = Inode::clone(found.last());
        if inode.is_folder() && !self.args.directory {
            let parent = Inode::clone(found.parent());
            match self.args.recursive {
                true => self.all_below(inode, parent)?,
                false => self.folder(inode, parent, b"")?,
            }
        } else {
            let name = self.source.location.name().unwrap_or(b"/").to_vec();
            self.lines(
                vec![Line {
                    name: &name,
                    inode: Some(inode),
                }],
                None,
            )?;
        }
        self.finish()
    }

    fn finish(mut self) -> Result<(), CliError> {
        if self.args.json {
            self.text
                .push_str(if self.records == 0 { "[]\n" } else { "\n]\n" });
        }
        self.flush()?;
        self.source.check_unchanged()?;
        match self.failures {
            0 => Ok(()),
            failures => Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{}: {failures} {} could not be read; check the file system with e2fsck -f",
                    self.source.location,
                    if failures == 1 { "entry" } else { "entries" }
                ),
            )),
        }
    }

    fn all_below(&mut self, top: Inode, parent: Inode) -> Result<(), CliError> {
        let mut walk = Walk::new(&self.source.tree);
        // The first folder is met before any other.
        let _ = walk.meet(top.number());
        self.folder(top.clone(), parent, b"")?;
        walk.enter(top, Vec::new(), ());
        while let Some(step) = walk.step() {
            let Some(here) = walk.here() else { break };
            let name = match step {
                Ok(Step::Entry(name)) => name,
                Ok(Step::Left(_)) => continue,
                // That was noted when the folder was listed.
                Err(_) => continue,
            };
            let path = here.below(&name.name);
            let inode = match self.source.tree.inode(name.inode) {
                Ok(inode) if inode.is_folder() => inode,
                // Where lines show attributes, that was noted, too.
                Err(error) if !self.needs_inodes() => {
                    let error = self.source.failed(&path, error);
                    self.failed(&error);
                    continue;
                }
                _ => continue,
            };
            let parent = here.inode().clone();
            if let Err(refused) = walk.meet(inode.number()) {
                let place = self.source.location.shown(&path);
                self.failed(&CliError::new(Exit::WrongDevice, refused.reason()).within(place));
                continue;
            }
            self.folder(inode.clone(), parent, &path)?;
            walk.enter(inode, path, ());
        }
        Ok(())
    }

    /// Returns whether each line shows attributes.
    fn needs_inodes(&self) -> bool {
        self.args.is_long || self.args.json
    }

    /// Notes what cannot be read; the listing goes on.
    fn failed(&mut self, error: &CliError) {
        self.failures += 1;
        note(format_args!("scrim: {error}"));
    }

    /// Lists the names of one folder.
    fn folder(&mut self, folder: Inode, parent: Inode, path: &[u8]) -> Result<(), CliError> {
        if self.args.recursive && !self.args.json {
            let blank = if self.is_first { "" } else { "\n" };
            self.text.push_str(&format!(
                "{blank}{}:\n",
                Foreign::new(self.source.location.path_of(path))
            ));
        }
        self.is_first = false;
        if self.args.all {
            let own = Line {
                name: b".",
                inode: Some(folder.clone()),
            };
            let above = Line {
                name: b"..",
                inode: Some(parent),
            };
            self.lines(vec![own, above], Some(path))?;
        }
        let mut names = Names::of(folder);
        loop {
            let read = match names.read(&self.source.tree, 0) {
                Ok(read) if read.is_empty() => return Ok(()),
                Ok(read) => read,
                Err(error) => {
                    let error = self.source.failed(path, error);
                    self.failed(&error);
                    return Ok(());
                }
            };
            let lines = read.iter().filter_map(|name| self.line(name, path));
            let lines = lines.collect();
            self.lines(lines, Some(path))?;
        }
    }

    fn line<'n>(&mut self, name: &'n Name, path: &[u8]) -> Option<Line<'n>> {
        if !self.needs_inodes() {
            return Some(Line {
                name: &name.name,
                inode: None,
            });
        }
        match self.source.tree.inode(name.inode) {
            Ok(inode) => Some(Line {
                name: &name.name,
                inode: Some(inode),
            }),
            Err(error) => {
                let below = below(path, &name.name);
                let error = self.source.failed(&below, error);
                self.failed(&error);
                None
            }
        }
    }

    /// Prints lines of the folder at `path`; without one they are of the location itself.
    fn lines(&mut self, lines: Vec<Line<'_>>, path: Option<&[u8]>) -> Result<(), CliError> {
        let long = self.args.is_long;
        let columns: Vec<_> = lines
            .iter()
            .map(|line| line.inode.as_ref().filter(|_| long).map(columns))
            .collect();
        let mut widths = [0; 6];
        for column in columns.iter().flatten() {
            for (width, text) in widths.iter_mut().zip(column) {
                *width = text.len().max(*width);
            }
        }
        for (line, columns) in lines.into_iter().zip(columns) {
            let at = path.map(|path| below(path, line.name)).unwrap_or_default();
            let target = match (self.needs_inodes(), &line.inode) {
                (true, Some(inode)) if inode.kind() == Kind::Link => self.target(inode, &at),
                _ => None,
            };
            match (line.inode, columns) {
                (Some(inode), _) if self.args.json => {
                    self.record(&at, &inode, target.as_deref())?;
                }
                (_, Some(columns)) => self.long(&columns, widths, line.name, target.as_deref()),
                _ => self
                    .text
                    .push_str(&format!("{}\n", Foreign::new(line.name))),
            }
            if self.text.len() >= PRINTED_AT {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn target(&mut self, link: &Inode, path: &[u8]) -> Option<Vec<u8>> {
        match self.source.tree.target(link) {
            Ok(target) => Some(target),
            Err(error) => {
                let error = self.source.failed(path, error);
                self.failed(&error);
                None
            }
        }
    }

    fn long(
        &mut self,
        columns: &[String; 6],
        widths: [usize; 6],
        name: &[u8],
        target: Option<&[u8]>,
    ) {
        let [mode, links, user, group, size, time] = columns;
        let [w_mode, w_links, w_user, w_group, w_size, w_time] = widths;
        self.text.push_str(&format!(
            "{mode:<w_mode$} {links:>w_links$} {user:>w_user$} {group:>w_group$} {size:>w_size$} {time:>w_time$} {}",
            Foreign::new(name)
        ));
        if let Some(target) = target {
            self.text.push_str(&format!(" -> {}", Foreign::new(target)));
        }
        self.text.push('\n');
    }

    fn record(
        &mut self,
        below: &[u8],
        inode: &Inode,
        target: Option<&[u8]>,
    ) -> Result<(), CliError> {
        let path = self.source.location.path_of(below);
        let record = serde_json::to_string(&Record::of(&path, inode, target))
            .map_err(|error| CliError::io("write JSON", &error.into()))?;
        // Each object begins a line, so that the array can be printed before its end is known.
        self.text.push_str(match self.records {
            0 => "[",
            _ => "\n,",
        });
        self.text.push_str(&record);
        self.records += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CliError> {
        let text = std::mem::take(&mut self.text);
        match self.args.json {
            true => print(json(&text).as_bytes()),
            false => print(text.as_bytes()),
        }
    }
}
