//! The archive from which this system's own packages come.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// Environment variable that names another archive than the one in `/etc/apt`.
const OVERRIDE: &str = "SCRIM_GUEST_MIRROR";

/// The address of the Debian archive that this system uses.
pub(crate) fn of_this_system() -> Result<String, Error> {
    if let Ok(mirror) = std::env::var(OVERRIDE) {
        return Ok(mirror);
    }
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let deb822 = source_files("sources");
    let one_line = source_files("list");
    deb822
        .iter()
        .find_map(|path| in_deb822(&read(path)))
        .or_else(|| one_line.iter().find_map(|path| in_list(&read(path))))
        .ok_or(Error::NoMirror)
}

/// Files with this ending that apt reads, the main one first.
fn source_files(ending: &str) -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from(format!("/etc/apt/sources.{ending}"))];
    let entries = std::fs::read_dir("/etc/apt/sources.list.d");
    let entries = entries.into_iter().flatten().flatten();
    let mut more: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    more.sort();
    files.append(&mut more);
    files
}

/// The first archive with a plain suite in the stanzas of a `.sources` file (sources.list(5)).
fn in_deb822(text: &str) -> Option<String> {
    text.split("\n\n").find_map(|stanza| {
        let field = |name: &str| {
            let mut lines = stanza.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(field, _)| field.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        let enabled = field("Enabled").is_none_or(|value| value != "no");
        let suite = field("Suites")?.split_whitespace().next()?;
        let mirror = field("URIs")?.split_whitespace().next()?;
        (enabled && is_debian(mirror, suite)).then(|| mirror.to_owned())
    })
}

/// The first archive with a plain suite in the lines of a `.list` file (sources.list(5)).
fn in_list(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.strip_prefix("deb ")?.trim_start();
        let line = match line.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => line,
        };
        let mut words = line.split_whitespace();
        let (mirror, suite) = (words.next()?, words.next()?);
        is_debian(mirror, suite).then(|| mirror.to_owned())
    })
}

/// Returns whether this is the archive itself, rather than its security updates or another archive.
fn is_debian(mirror: &str, suite: &str) -> bool {
    let path = mirror.trim_end_matches('/');
    path.ends_with("/debian") && !suite.contains("-security")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_told_from_its_security_updates_and_from_others() {
        let text = "Types: deb\nURIs: http://other.example/tools\nSuites: stable\n\n\
                    Types: deb\n# a comment\nURIs: http://a.example/debian-security\nSuites: bookworm-security\n\n\
                    Types: deb\nEnabled: no\nURIs: http://off.example/debian\nSuites: bookworm\n\n\
                    Types: deb\nURIs: http://b.example/debian\nSuites: bookworm bookworm-updates\n";
        assert_eq!(in_deb822(text).as_deref(), Some("http://b.example/debian"));
        assert_eq!(in_deb822(""), None);
    }

    #[test]
    fn lines_of_the_old_form_are_read_too() {
        let text = "# deb http://no.example/debian bookworm main\n\
                    deb-src http://no.example/debian bookworm main\n\
                    deb http://a.example/debian-security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://b.example/debian/ bookworm main\n";
        assert_eq!(in_list(text).as_deref(), Some("http://b.example/debian/"));
    }
}
