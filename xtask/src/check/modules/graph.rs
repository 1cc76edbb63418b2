//! The modules of one crate and the imports between its files, read from the tokens of its sources.
//!
//! An import is a private `use`, a path in code, or a re-export of something that is not below the module. The
//! declaration of a child module is not an import, nor is the re-export of a child's item: that is what a façade is for.
//! Modules and items under `#[cfg(test)]` and `#[cfg(shuttle)]` are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::super::repository::Repository;
use super::items::{self, Item, Path};
use crate::rust::Token;

/// Number of re-exports that one name is followed through.
const DEPTH: usize = 16;

/// An import of one file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// Number of the line in the importing file, from 0.
    pub(super) line: usize,
    /// The path as it stands there.
    pub(super) path: String,
}

/// The first import of each file from each other file, by their paths from the root.
pub(super) type Imports<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Import>>;

/// A module: a file, or a part of one in braces.
#[derive(Default)]
struct Module<'a> {
    file: &'a str,
    items: BTreeSet<&'a str>,
    /// Paths of what is imported or re-exported, by the name it has here.
    names: BTreeMap<&'a str, Path<'a>>,
    globs: Vec<Path<'a>>,
    /// Paths that count as imports if they lead to another file.
    mentions: Vec<(Path<'a>, usize)>,
}

/// All modules of a crate, by their paths from its root.
#[derive(Default)]
struct Modules<'a> {
    by_path: BTreeMap<Path<'a>, Module<'a>>,
    missing: Vec<Missing<'a>>,
}

/// A declared module whose file is not where its name says.
pub(super) struct Missing<'a> {
    /// File and line, from 0, of the declaration.
    pub(super) file: &'a str,
    pub(super) line: usize,
    pub(super) name: &'a str,
}

/// Returns the imports between the files of the crate whose root module is `root` (`…/src/lib.rs`), and the modules whose
/// files were not found.
pub(super) fn imports<'a>(
    repository: &'a Repository,
    root: &'a str,
) -> (Imports<'a>, Vec<Missing<'a>>) {
    let mut modules = Modules::default();
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    modules.load(repository, &[], root, folder);
    (modules.imports(), modules.missing)
}

impl<'a> Modules<'a> {
    fn load(&mut self, repository: &'a Repository, at: &[&'a str], file: &'a str, folder: &str) {
        if let Some(source) = repository.source(file) {
            self.add(repository, at, file, folder, &source.tokens());
        }
    }

    fn add(
        &mut self,
        repository: &'a Repository,
        at: &[&'a str],
        file: &'a str,
        folder: &str,
        tokens: &[Token<'a>],
    ) {
        let mut module = Module {
            file,
            ..Module::default()
        };
        let mut children = Vec::new();
        for item in items::parse(tokens) {
            match item {
                Item::Named(name) => _ = module.items.insert(name),
                Item::Child { name, line, body } => {
                    module.items.insert(name);
                    children.push((name, line, body));
                }
                Item::Use {
                    path,
                    name: "*",
                    line,
                    public,
                } => {
                    if !public || items::leaves(&path) {
                        module.mentions.push((path.clone(), line));
                    }
                    module.globs.push(path);
                }
                Item::Use {
                    path,
                    name,
                    line,
                    public,
                } => {
                    if !public || items::leaves(&path) {
                        module.mentions.push((path.clone(), line));
                    }
                    module.names.insert(name, path);
                }
                Item::Path { path, line } => module.mentions.push((path, line)),
            }
        }
        self.by_path.insert(at.to_vec(), module);
        for (name, line, body) in children {
            let child = [at, &[name]].concat();
            let inner = format!("{folder}/{name}");
            match body {
                Some(tokens) => self.add(repository, &child, file, &inner, &tokens),
                None => {
                    let files = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
                    match files.iter().find_map(|file| repository.path(file)) {
                        Some(file) => self.load(repository, &child, file, &inner),
                        None => self.missing.push(Missing { file, line, name }),
                    }
                }
            }
        }
    }

    fn imports(&self) -> Imports<'a> {
        let mut imports = Imports::new();
        for (at, module) in &self.by_path {
            for (path, line) in &module.mentions {
                let Some(file) = self
                    .absolute(at, path, 0)
                    .and_then(|path| self.file(&path, 0))
                else {
                    continue;
                };
                if file != module.file {
                    let from = imports.entry(module.file).or_default();
                    from.entry(file).or_insert_with(|| Import {
                        line: *line,
                        path: path.join("::"),
                    });
                }
            }
        }
        imports
    }

    /// Converts a path that stands in module `at` into one from the crate's root; `None` if it leads out of the crate.
    fn absolute(&self, at: &[&'a str], path: &[&'a str], depth: usize) -> Option<Path<'a>> {
        let (first, rest) = path.split_first()?;
        match *first {
            "crate" => Some(rest.to_vec()),
            "self" | "super" => {
                let from = match *first {
                    "self" => at,
                    _ => at.split_last()?.1,
                };
                match rest.first() {
                    Some(&"super") => self.absolute(from, rest, depth),
                    _ => Some([from, rest].concat()),
                }
            }
            name => {
                let child = [at, &[name]].concat();
                if self.by_path.contains_key(&child) {
                    return Some([at, path].concat());
                }
                let imported = self.by_path.get(at)?.names.get(name)?;
                if depth == DEPTH || imported.first() == Some(&name) {
                    return None;
                }
                let imported = self.absolute(at, imported, depth + 1)?;
                Some([&imported[..], rest].concat())
            }
        }
    }

    /// Returns the file that defines what `path`, from the crate's root, names.
    fn file(&self, path: &[&'a str], depth: usize) -> Option<&'a str> {
        let inside = |len: &usize| self.by_path.contains_key(&path[..*len]);
        let len = (0..=path.len()).take_while(inside).last()?;
        let (at, rest) = path.split_at(len);
        let module = &self.by_path[at];
        let Some(name) = rest.first() else {
            return Some(module.file);
        };
        if depth == DEPTH || module.items.contains(name) {
            return Some(module.file);
        }
        if let Some(imported) = module.names.get(name) {
            let imported = self.absolute(at, imported, 0)?;
            return self.file(&imported, depth + 1);
        }
        let globs = module.globs.iter();
        let mut found = globs.filter_map(|glob| {
            let from = self.absolute(at, glob, 0)?;
            let defines = self.by_path.get(&from)?;
            let known = defines.items.contains(name) || defines.names.contains_key(name);
            known.then(|| self.file(&[&from[..], &[name]].concat(), depth + 1))?
        });
        Some(found.next().unwrap_or(module.file))
    }
}
