//! Crates that a change of the workspace's `Cargo.toml` and `Cargo.lock` can break.
//!
//! Every crate shares both files, but a dependency that one crate gains or updates cannot break the others. So a change
//! of these files stands for the sources of the crates that are built from something else than before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::git;
use crate::cargo::workspace_root;
use crate::error::{Doing, Error};

const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

/// Replaces the two files among `changed` by the sources of the crates that their change since `commit` concerns.
/// A file stays where that cannot be told.
pub(super) fn resolve(commit: &str, changed: Vec<String>) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    for path in changed {
        let concerned: fn(&str, &str) -> Option<BTreeSet<String>> = match &*path {
            LOCK => rebuilt,
            MANIFEST => users_of_changed_dependencies,
            _ => {
                paths.push(path);
                continue;
            }
        };
        let before = git::file(commit, &path)?;
        let now =
            fs::read_to_string(workspace_root().join(&path)).doing(|| format!("read {path}"))?;
        match before.and_then(|before| concerned(&before, &now)) {
            Some(crates) => paths.extend(crates.iter().map(|name| sources(name))),
            None => paths.push(path),
        }
    }
    Ok(paths)
}

/// The folder of a crate of this workspace.
fn folder(name: &str) -> String {
    match name.strip_prefix("scrim-") {
        Some(name) => format!("crates/{name}"),
        None => name.to_owned(),
    }
}

/// The folder with the sources of a crate of this workspace.
fn sources(name: &str) -> String {
    folder(name) + "/src"
}

/// A `[[package]]` of `Cargo.lock`.
#[derive(Default)]
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    /// Its registry and checksum; empty for a crate of this workspace.
    origin: Vec<&'a str>,
    /// Names, each followed by a version where the file has several.
    dependencies: Vec<&'a str>,
}

/// Names of the crates of this workspace that are built from other foreign crates than before; `None` where a file is
/// not one that Cargo writes.
fn rebuilt(before: &str, now: &str) -> Option<BTreeSet<String>> {
    let (before, now) = (packages(before)?, packages(now)?);
    let (before, now) = (foreign(&before)?, foreign(&now)?);
    let differs = |name: &&&str| before.get(**name) != now.get(**name);
    let rebuilt = now.keys().filter(differs);
    Some(rebuilt.map(|name| (*name).to_owned()).collect())
}

fn packages(lock: &str) -> Option<Vec<Package<'_>>> {
    let mut parts = lock.split("[[package]]\n");
    parts.next();
    let packages: Option<Vec<_>> = parts.map(package).collect();
    packages.filter(|packages| !packages.is_empty())
}

fn package(text: &str) -> Option<Package<'_>> {
    let mut package = Package::default();
    for line in text.lines().map(str::trim) {
        match line.split_once(" = ") {
            Some(("name", name)) => package.name = unquoted(name)?,
            Some(("version", version)) => package.version = unquoted(version)?,
            Some(("source" | "checksum", origin)) => package.origin.push(unquoted(origin)?),
            Some(("dependencies", "[")) => {}
            Some(_) => return None,
            None if matches!(line, "" | "]") => {}
            None => package
                .dependencies
                .push(unquoted(line.strip_suffix(',')?)?),
        }
    }
    Some(package)
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// For each crate of this workspace, versions and origins of the foreign crates that it is built from, without those
/// that only come with other crates of this workspace.
fn foreign<'a>(packages: &[Package<'a>]) -> Option<BTreeMap<&'a str, BTreeSet<Vec<&'a str>>>> {
    let own = packages.iter().filter(|package| package.origin.is_empty());
    own.map(|package| Some((package.name, built_from(package, packages)?)))
        .collect()
}

fn built_from<'a>(own: &Package<'a>, packages: &[Package<'a>]) -> Option<BTreeSet<Vec<&'a str>>> {
    let mut found = BTreeSet::new();
    let mut wanted = own.dependencies.clone();
    while let Some(dependency) = wanted.pop() {
        let package = find(dependency, packages)?;
        let identity = [&[package.name, package.version], &package.origin[..]].concat();
        if !package.origin.is_empty() && found.insert(identity) {
            wanted.extend(&package.dependencies);
        }
    }
    Some(found)
}

/// Finds a package by its name, and by a version and a registry where these follow.
fn find<'a, 'p>(dependency: &str, packages: &'p [Package<'a>]) -> Option<&'p Package<'a>> {
    let mut words = dependency.split(' ');
    let (name, version) = (words.next()?, words.next());
    let is_it = |package: &&Package<'_>| {
        package.name == name && version.is_none_or(|version| package.version == version)
    };
    packages.iter().find(is_it)
}

/// The lines of a `Cargo.toml`, sorted by what they concern.
#[derive(Default)]
struct Manifest<'a> {
    /// The lines of `[workspace.dependencies]` by their names.
    dependencies: BTreeMap<&'a str, &'a str>,
    /// Folders of crates that are built unless others are asked for.
    members: BTreeSet<&'a str>,
    /// All other ones but the version, which may concern everything.
    rest: Vec<&'a str>,
}

/// Names of the crates of this workspace that use a dependency whose line in `[workspace.dependencies]` has changed, and
/// of default members that have come; `None` where something else has changed than these and the workspace's version.
fn users_of_changed_dependencies(before: &str, now: &str) -> Option<BTreeSet<String>> {
    let (before, now) = (Manifest::of(before)?, Manifest::of(now)?);
    if before.rest != now.rest || !before.members.is_subset(&now.members) {
        return None;
    }
    let come = now.members.difference(&before.members);
    let mut users: BTreeSet<String> = come
        .map(|folder| folder.replace("crates/", "scrim-"))
        .collect();
    let (before, now) = (before.dependencies, now.dependencies);
    let names = before.keys().chain(now.keys());
    let changed: BTreeSet<_> = names
        .filter(|name| before.get(*name) != now.get(*name))
        .collect();
    for name in changed {
        users.extend(users_of(name).ok()?);
    }
    Some(users)
}

impl<'a> Manifest<'a> {
    /// Sorts the lines; `None` where a dependency has more than a line.
    fn of(manifest: &'a str) -> Option<Self> {
        let mut sorted = Self::default();
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            sorted.add(section, line)?;
        }
        Some(sorted)
    }

    fn add(&mut self, section: &str, line: &'a str) -> Option<()> {
        let is_dependency = section == "[workspace.dependencies]"
            && line != section
            && !line.is_empty()
            && !line.starts_with('#');
        let member = line
            .strip_prefix("    \"")
            .filter(|_| section == "[workspace]");
        if is_dependency {
            let (name, version) = line.split_once(" = ")?;
            let whole = version.starts_with('"') || version.ends_with('}');
            self.dependencies.insert(name, whole.then_some(version)?);
        } else if let Some(folder) = member.and_then(|rest| rest.strip_suffix("\",")) {
            self.members.insert(folder);
        } else if section != "[workspace.package]" || !line.starts_with("version = ") {
            self.rest.push(line);
        }
        Some(())
    }
}
/// Names of the crates of this workspace whose manifests name a dependency.
fn users_of(dependency: &str) -> Result<Vec<String>, Error> {
    let root = workspace_root();
    let read = |path: &str| fs::read_to_string(root.join(path)).doing(|| format!("read {path}"));
    let names_it = |line: &str| {
        let rest = line.strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ']))
    };
    let lock = read(LOCK)?;
    let mut users = Vec::new();
    for package in packages(&lock).unwrap_or_default() {
        let is_own = package.origin.is_empty();
        if is_own
            && read(&format!("{}/{MANIFEST}", folder(package.name)))?
                .lines()
                .any(names_it)
        {
            users.push(package.name.to_owned());
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKED: &str = r#"# Generated.
version = 4

[[package]]
name = "http"
version = "1.4.0"
source = "a registry"
checksum = "12"
dependencies = [
 "bytes",
]

[[package]]
name = "bytes"
version = "1.11.0"
source = "a registry"
checksum = "34"

[[package]]
name = "scrim-serve"
version = "0.1.0"
dependencies = [
 "http",
 "scrim-sys",
]

[[package]]
name = "scrim-sys"
version = "0.1.0"

[[package]]
name = "scrim-cli"
version = "0.1.0"
dependencies = [
 "scrim-serve",
]
"#;

    fn names(names: &[&str]) -> Option<BTreeSet<String>> {
        Some(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn an_update_concerns_the_crates_that_are_built_from_it() {
        let updated = LOCKED.replace("1.11.0", "1.11.1");
        assert_eq!(rebuilt(LOCKED, &updated), names(&["scrim-serve"]));
        let replaced = LOCKED.replace("\"34\"", "\"56\"");
        assert_eq!(rebuilt(LOCKED, &replaced), names(&["scrim-serve"]));
        assert_eq!(rebuilt(LOCKED, LOCKED), names(&[]));
    }

    #[test]
    fn versions_of_this_workspace_concern_nothing() {
        let released = LOCKED.replace("0.1.0", "0.2.0");
        assert_eq!(rebuilt(LOCKED, &released), names(&[]));
    }

    #[test]
    fn a_crate_that_is_new_is_concerned() {
        let added = format!("{LOCKED}\n[[package]]\nname = \"xtask\"\nversion = \"0.1.0\"\n");
        assert_eq!(rebuilt(LOCKED, &added), names(&["xtask"]));
    }

    #[test]
    fn files_that_cargo_did_not_write_are_not_judged() {
        assert_eq!(rebuilt("", LOCKED), None);
        assert_eq!(rebuilt(&LOCKED.replace("checksum", "digest"), LOCKED), None);
        assert_eq!(
            rebuilt(LOCKED, &LOCKED.replace("\n \"bytes", "\n \"octets")),
            None
        );
    }

    #[test]
    fn this_workspace_is_read() {
        let read = |path| fs::read_to_string(workspace_root().join(path)).unwrap();
        let (manifest, lock) = (read(MANIFEST), read(LOCK));
        assert_eq!(rebuilt(&lock, &lock), names(&[]));
        assert_eq!(
            users_of_changed_dependencies(&manifest, &manifest),
            names(&[])
        );
        let changed = manifest.replace("\nsignal-hook = ", "\nsignal-hook = \"0\" # ");
        let users = users_of_changed_dependencies(&manifest, &changed).unwrap();
        assert!(
            users.contains("xtask") && !users.contains("scrim-crypt"),
            "{users:?}"
        );
        let fewer = manifest.replace("    \"crates/rbd\",\n", "");
        assert_eq!(
            users_of_changed_dependencies(&fewer, &manifest),
            names(&["scrim-rbd"])
        );
        assert_eq!(users_of_changed_dependencies(&manifest, &fewer), None);
        let profile = format!("{manifest}\n[profile.other]\n");
        assert_eq!(users_of_changed_dependencies(&manifest, &profile), None);
    }

    #[test]
    fn a_crate_stands_for_its_sources() {
        assert_eq!(sources("scrim-serve"), "crates/serve/src");
        assert!(workspace_root().join(sources("xtask")).is_dir());
    }
}
