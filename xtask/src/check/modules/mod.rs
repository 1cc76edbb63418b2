//! Rules: a module imports only from modules that are below it, and no files of a crate import each other in a circle.
//!
//! A table gives the order of each crate's modules. Within a module's folder there is no table: there the files must only
//! be free of circles.

mod graph;
mod items;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::repository::{Repository, Violation};
use graph::Imports;

/// The table: the name of a crate's folder in a line of its own, then its modules, base first, in indented lines. Modules of
/// one line do not import each other.
const TABLE: &str = "xtask/modules.txt";

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let table = Table::parse(repository.text(TABLE).unwrap_or_default());
    let mut violations = table.misplaced(repository);
    for (folder, root) in roots(repository) {
        let (imports, missing) = graph::imports(repository, root);
        violations.extend(missing.into_iter().map(|missing| {
            Violation::at(
                missing.file,
                missing.line,
                format!(
                    "module {} has no file of its name; it would escape this rule",
                    missing.name
                ),
            )
        }));
        let modules = modules(repository, folder);
        match table.crates.get(folder) {
            Some(layers) => {
                violations.extend(layers.misplaced(repository, folder, &modules));
                violations.extend(upward(&imports, folder, layers));
            }
            None if modules.is_empty() => {}
            None => violations.push(Violation::at(
                root,
                0,
                format!(
                    "the modules of {folder} have no order; give them one in {TABLE}, base first"
                ),
            )),
        }
        violations.extend(circles(&imports));
    }
    violations
}

/// Layers of the modules of each crate, by the crate's folder.
struct Table<'a> {
    crates: BTreeMap<&'a str, Layers<'a>>,
    /// Modules with two places: the line of the second, and the name.
    doubled: Vec<(usize, &'a str)>,
}

/// Layer of each module: its line in the table, which counts up from the base.
#[derive(Default)]
struct Layers<'a>(BTreeMap<&'a str, usize>);

impl<'a> Table<'a> {
    fn parse(text: &'a str) -> Self {
        let mut crates = BTreeMap::<_, Layers<'_>>::new();
        let mut doubled = Vec::new();
        let mut folder = "";
        for (line, text) in text.lines().enumerate() {
            if text.starts_with('#') || text.trim().is_empty() {
                continue;
            }
            if !text.starts_with(' ') {
                folder = text.trim();
            }
            let layers = crates.entry(folder).or_default();
            if text.starts_with(' ') {
                for module in text.split_whitespace() {
                    if layers.0.insert(module, line).is_some() {
                        doubled.push((line, module));
                    }
                }
            }
        }
        Self { crates, doubled }
    }

    /// Crates that are gone, and modules with two places.
    fn misplaced(&self, repository: &Repository) -> Vec<Violation> {
        let folders: BTreeSet<_> = roots(repository).map(|(folder, _)| folder).collect();
        let gone = self
            .crates
            .keys()
            .filter(|folder| !folders.contains(*folder));
        let gone = gone.map(|folder| {
            Violation::at(TABLE, 0, format!("there is no crate {folder}; remove it"))
        });
        let doubled = self.doubled.iter();
        let doubled = doubled.map(|(line, module)| {
            Violation::at(
                TABLE,
                *line,
                format!("module {module} has two places; remove one"),
            )
        });
        gone.chain(doubled).collect()
    }
}

impl Layers<'_> {
    fn misplaced(
        &self,
        repository: &Repository,
        folder: &str,
        modules: &BTreeSet<&str>,
    ) -> Vec<Violation> {
        let unplaced = modules
            .iter()
            .filter(|module| !self.0.contains_key(**module));
        let mut violations: Vec<_> = unplaced
            .map(|module| {
                let files = [format!("{folder}/src/{module}.rs"), format!("{folder}/src/{module}/mod.rs")];
                let file = files.iter().find_map(|file| repository.path(file));
                Violation::at(
                    file.unwrap_or(folder),
                    0,
                    format!("module {module} has no place among those of {folder}; give it one in {TABLE}"),
                )
            })
            .collect();
        let gone = self
            .0
            .iter()
            .filter(|(module, _)| !modules.contains(**module));
        violations.extend(gone.map(|(module, line)| {
            Violation::at(
                TABLE,
                *line,
                format!("{folder} has no module {module}; remove it"),
            )
        }));
        violations
    }
}

/// The crates of the workspace: the folder of each, and the file of its root module.
fn roots(repository: &Repository) -> impl Iterator<Item = (&str, &str)> {
    repository.rust().filter_map(|(path, _)| {
        let folder = path.strip_suffix("/src/lib.rs").or_else(|| {
            let folder = path.strip_suffix("/src/main.rs")?;
            // A program beside a library has its modules in the library.
            let library = format!("{folder}/src/lib.rs");
            repository.path(&library).is_none().then_some(folder)
        })?;
        (folder.starts_with("crates/") || folder == "xtask").then_some((folder, path))
    })
}

/// The modules directly below a crate's root.
fn modules<'a>(repository: &'a Repository, folder: &str) -> BTreeSet<&'a str> {
    let files = repository.rust();
    files
        .filter_map(|(path, _)| module_of(path, folder))
        .collect()
}

/// The module, directly below the crate's root, that a file belongs to; `None` for the root itself.
fn module_of<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let inside = path.strip_prefix(folder)?.strip_prefix("/src/")?;
    let module = match inside.split_once('/') {
        Some((module, _)) => module,
        None => inside.strip_suffix(".rs")?,
    };
    (!matches!(module, "lib" | "main" | "bin")).then_some(module)
}

/// Imports from a module that is not on a lower layer; the root is above all.
fn upward(imports: &Imports<'_>, folder: &str, layers: &Layers<'_>) -> Vec<Violation> {
    let layer = |module| layers.0.get(module);
    let mut violations = Vec::new();
    for (file, from) in imports {
        let Some(module) = module_of(file, folder) else {
            continue;
        };
        for (other, import) in from {
            let below = match module_of(other, folder) {
                Some(below) if below == module => continue,
                Some(below) => below,
                None => "the root",
            };
            let is_upward = match (layer(below), layer(module)) {
                (Some(below), Some(above)) => below >= above,
                (None, _) => below == "the root",
                (_, None) => false,
            };
            if is_upward {
                violations.push(Violation::at(
                    file,
                    import.line,
                    format!(
                        "{module} imports `{}` of {below}, which is not below it; move what both need into a module \
                         below both ({TABLE} has the layers)",
                        import.path
                    ),
                ));
            }
        }
    }
    violations
}

/// One violation for each shortest circle of imports, at its first file.
fn circles(imports: &Imports<'_>) -> Vec<Violation> {
    let mut seen = BTreeSet::new();
    let mut violations = Vec::new();
    for file in imports.keys() {
        let Some(circle) = circle(imports, file) else {
            continue;
        };
        let members: BTreeSet<_> = circle.iter().copied().collect();
        let first = members.first() == Some(file);
        if first && seen.insert(members) {
            let import = &imports[file][circle.get(1).unwrap_or(file)];
            let names = circle.join(" -> ");
            violations.push(Violation::at(
                file,
                import.line,
                format!("imports in a circle: {names} -> {file}; move what both need into a module below both"),
            ));
        }
    }
    violations
}

/// The shortest way from `file` back to itself, without the return.
fn circle<'a>(imports: &Imports<'a>, file: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from = BTreeMap::new();
    let mut next = VecDeque::from([file]);
    while let Some(here) = next.pop_front() {
        for other in imports.get(here).into_iter().flat_map(BTreeMap::keys) {
            if *other == file {
                let mut way = vec![here];
                while let Some(before) = came_from.get(way[way.len() - 1]) {
                    way.push(*before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(other) {
                came_from.insert(*other, here);
                next.push_back(other);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        printed(&check(&tree(files)))
    }

    const ORDER: (&str, &str) = (
        TABLE,
        "# Base first.\ncrates/a\n    base\n    middle other\n    top\n",
    );

    /// A crate whose modules obey [`ORDER`], with `changed` in place of one of its files.
    fn crate_with(changed: (&'static str, &'static str)) -> Vec<String> {
        let mut files = BTreeMap::from([
            (
                "crates/a/src/lib.rs",
                "mod base; mod middle; mod other; mod top; pub use top::T;",
            ),
            ("crates/a/src/base.rs", "pub struct B;"),
            (
                "crates/a/src/middle/mod.rs",
                "mod part; pub use part::M; use crate::base::B;",
            ),
            (
                "crates/a/src/middle/part.rs",
                "use crate::base; pub struct M(base::B);",
            ),
            ("crates/a/src/other.rs", "pub struct O;"),
            (
                "crates/a/src/top.rs",
                "use crate::middle::M; pub struct T(M);",
            ),
            ORDER,
        ]);
        files.insert(changed.0, changed.1);
        said(&files.into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn imports_of_lower_layers_are_allowed() {
        assert_eq!(crate_with(ORDER), [""; 0]);
    }

    #[test]
    fn an_upward_import_is_refused_wherever_it_hides() {
        for (text, place) in [
            (
                "\nuse crate::middle::M;",
                "crates/a/src/base.rs:2: base imports `crate::middle::M` of middle",
            ),
            (
                "use crate::T;",
                "crates/a/src/base.rs:1: base imports `crate::T` of top",
            ),
            (
                "fn f() { super::top::g() }",
                "crates/a/src/base.rs:1: base imports `super::top::g` of top",
            ),
            (
                "pub use crate::top::T;",
                "crates/a/src/base.rs:1: base imports `crate::top::T` of top",
            ),
        ] {
            let found = crate_with(("crates/a/src/base.rs", text));
            assert!(
                found.iter().any(|line| line.starts_with(place)),
                "{text}: {found:?}"
            );
        }
        let sideways = crate_with(("crates/a/src/other.rs", "use super::middle::M;"));
        assert_eq!(sideways.len(), 1, "{sideways:?}");
        let root = ("crates/a/src/lib.rs", "mod base; pub struct R;");
        let found = said(&[
            root,
            ("crates/a/src/base.rs", "use crate::R;"),
            (TABLE, "crates/a\n base\n"),
        ]);
        assert!(found[0].contains("of the root"), "{found:?}");
        let test = "#[cfg(test)] mod tests { use crate::top::T; }";
        assert_eq!(crate_with(("crates/a/src/base.rs", test)), [""; 0]);
    }

    #[test]
    fn a_circle_within_a_folder_is_refused() {
        let found = crate_with(("crates/a/src/middle/part.rs", "use super::N; pub struct M;"));
        assert_eq!(found, [""; 0], "nothing of the parent comes from it");
        let parent = "mod part; use part::M; pub struct N(M);";
        let found = said(&[
            ("crates/a/src/lib.rs", "mod middle;"),
            ("crates/a/src/middle/mod.rs", parent),
            ("crates/a/src/middle/part.rs", "use super::N; pub struct M;"),
            (TABLE, "crates/a\n middle\n"),
        ]);
        assert_eq!(
            found,
            [
                "crates/a/src/middle/mod.rs:1: imports in a circle: crates/a/src/middle/mod.rs -> \
                 crates/a/src/middle/part.rs -> crates/a/src/middle/mod.rs; move what both need into a module below \
                 both"
            ]
        );
    }

    #[test]
    fn the_table_names_all_modules_and_no_others() {
        let found = crate_with((TABLE, "crates/a\n base\n middle gone\n top\n"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("crates/a/src/other.rs:1: module other has no place"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("xtask/modules.txt:3: crates/a has no module gone"),
            "{found:?}"
        );
        let found = crate_with((
            TABLE,
            "crates/a\n base\n middle other base\n top\ncrates/b\n c\n",
        ));
        assert!(found[0].contains("there is no crate crates/b"), "{found:?}");
        assert!(found[1].contains("module base has two places"), "{found:?}");
        let path = (
            "crates/a/src/top.rs",
            "#[path = \"elsewhere.rs\"] mod hidden;",
        );
        assert!(crate_with(path)[0].contains("module hidden has no file"));
        let found = crate_with((TABLE, ""));
        assert!(
            found[0].contains("the modules of crates/a have no order"),
            "{found:?}"
        );
    }
}
