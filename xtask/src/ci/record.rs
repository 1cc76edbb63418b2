//! The stored table of each stage's last complete run: docs/nightly.md.

use std::fmt;
use std::fs;

use crate::cargo::workspace_root;
use crate::error::{Doing, Error};

/// The file that has the table.
pub(crate) const STORED: &str = "docs/nightly.md";

const HEAD: &str =
    "| stage | commit | date | minutes | result | script |\n|---|---|---|---|---|---|\n";

/// A row: how a stage ended when it last ran as part of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) stage: String,
    pub(crate) commit: String,
    pub(crate) date: String,
    pub(crate) minutes: String,
    pub(crate) result: String,
    /// Digest of the script that ran; empty if it is not known.
    pub(crate) script: String,
}

impl Row {
    pub(crate) fn passed(&self) -> bool {
        self.result == PASSED
    }
}

pub(crate) const PASSED: &str = "passed";
pub(crate) const FAILED: &str = "failed";

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage,
            commit,
            date,
            minutes,
            result,
            script,
        } = self;
        writeln!(
            out,
            "| {stage} | `{commit}` | {date} | {minutes} | {result} | `{script}` |"
        )
    }
}

/// The rows that the file has now.
pub(crate) fn load() -> Result<Vec<Row>, Error> {
    Ok(parse(&text()?))
}

/// Replaces the rows of the stages that have run, and puts all in the order of `stages`; those of stages that are no
/// longer there go.
pub(crate) fn store(new: &[Row], stages: &[&str]) -> Result<(), Error> {
    let text = text()?;
    let rows = merge(&parse(&text), new, stages);
    let before = text
        .split_once(HEAD)
        .map_or(text.as_str(), |(before, _)| before);
    let table: String = rows.iter().map(Row::to_string).collect();
    let path = workspace_root().join(STORED);
    fs::write(path, format!("{before}{HEAD}{table}")).doing(|| format!("write {STORED}"))
}

fn text() -> Result<String, Error> {
    let path = workspace_root().join(STORED);
    fs::read_to_string(path).doing(|| format!("read {STORED}"))
}

fn parse(text: &str) -> Vec<Row> {
    let table = text.split_once(HEAD).map_or("", |(_, table)| table);
    table.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|');
    let cells: Vec<_> = cells.map(|cell| cell.trim().to_owned()).collect();
    let [stage, commit, date, minutes, result, script] = cells.try_into().ok()?;
    Some(Row {
        stage,
        commit: commit.trim_matches('`').to_owned(),
        date,
        minutes,
        result,
        script: script.trim_matches('`').to_owned(),
    })
}

fn merge(old: &[Row], new: &[Row], stages: &[&str]) -> Vec<Row> {
    let find = |stage: &str| {
        let mut both = new.iter().chain(old);
        both.find(|row| row.stage == stage).cloned()
    };
    stages.iter().filter_map(|stage| find(stage)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(stage: &str, commit: &str, result: &str) -> Row {
        Row {
            stage: stage.to_owned(),
            commit: commit.to_owned(),
            date: "2026-11-23".to_owned(),
            minutes: "1.5".to_owned(),
            result: result.to_owned(),
            script: "0123abcd".to_owned(),
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let rows = [
            made("soft AES", "81ae0025b7c1", PASSED),
            made("Miri", "8bd367a0aa00", FAILED),
        ];
        let table: String = rows.iter().map(Row::to_string).collect();
        assert_eq!(parse(&format!("# Title\n\ntext\n\n{HEAD}{table}")), rows);
        assert!(rows[0].passed() && !rows[1].passed());
    }

    #[test]
    fn a_row_may_lack_its_script() {
        let line = "| Miri | `8bd367a0aa00` | 2026-11-23 | 1.5 | passed | |\n";
        let rows = parse(&format!("{HEAD}{line}"));
        assert_eq!(rows[0].script, "");
        assert!(rows[0].passed());
    }

    #[test]
    fn a_new_row_replaces_that_of_its_stage() {
        let old = [
            made("a", "1", PASSED),
            made("b", "1", PASSED),
            made("gone", "1", PASSED),
        ];
        let new = [made("b", "2", FAILED), made("c", "2", PASSED)];
        let merged = merge(&old, &new, &["c", "b", "a"]);
        assert_eq!(merged, [new[1].clone(), new[0].clone(), old[0].clone()]);
    }

    #[test]
    fn the_stored_table_is_understood() {
        let text = text().unwrap();
        let (_, table) = text.split_once(HEAD).unwrap();
        assert_eq!(parse(&text).len(), table.lines().count(), "{table}");
    }
}
