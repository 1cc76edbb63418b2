//! Choice of the further stages that a change can break.

use std::fmt;

use super::comments;
use super::git;
use super::manifests;
use super::record::{self, Row};
use super::stages::{STAGES, Stage, When};
use crate::error::Error;

/// Reason why a stage belongs to a run, or does not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Always,
    /// This path has changed since this commit.
    Touched {
        path: String,
        since: String,
    },
    /// The last run of the stage failed.
    Failed {
        last: Row,
    },
    /// The last run of the stage was one of another script, or of one that is not known.
    Rewritten {
        last: Row,
    },
    /// Nothing that the stage depends on has changed since this commit.
    Untouched {
        since: String,
        last: Option<Row>,
    },
    /// No commit is known with which to compare.
    Unknown {
        last: Option<Row>,
    },
}

impl Choice {
    pub(crate) fn runs(&self) -> bool {
        matches!(
            self,
            Self::Always | Self::Touched { .. } | Self::Failed { .. } | Self::Rewritten { .. }
        )
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last_run = |last: &Option<Row>| match last {
            Some(row) => format!("last run at {} on {}", row.commit, row.date),
            None => "no run is recorded".to_owned(),
        };
        match self {
            Self::Always => write!(out, "runs always"),
            Self::Touched { path, since } => write!(out, "runs: {path} changed since {since}"),
            Self::Failed { last } => {
                write!(out, "runs: failed at {} on {}", last.commit, last.date)
            }
            Self::Rewritten { last } => {
                write!(out, "runs: its script changed since {}", last.commit)
            }
            Self::Untouched { since, last } => {
                write!(
                    out,
                    "not run: not touched since {since}; {}",
                    last_run(last)
                )
            }
            Self::Unknown { last } => write!(
                out,
                "not run: no commit to compare with; {}; `cargo xtask nightly` runs everything",
                last_run(last)
            ),
        }
    }
}

/// Chooses among all stages.
///
/// A change is compared with `base`, or else with the commit at which its branch left the main one. On the main
/// branch, each stage is compared with the commit of its own last run that [`record`] has. Its script is compared with
/// that of the last run on every branch.
pub(crate) fn choose(base: Option<&str>) -> Result<Vec<(&'static Stage, Choice)>, Error> {
    let base = match base {
        Some(name) => {
            let unknown = || Error::program("git", format!("no commit {name} in this clone"));
            Some(git::commit(name)?.ok_or_else(unknown)?)
        }
        None => git::branch_point()?,
    };
    let rows = record::load()?;
    let choice = |stage: &'static Stage| {
        let last = rows.iter().find(|row| row.stage == stage.name);
        Ok((stage, choose_one(stage, base.as_deref(), last)?))
    };
    STAGES.iter().map(choice).collect()
}

fn choose_one(stage: &Stage, base: Option<&str>, last: Option<&Row>) -> Result<Choice, Error> {
    let last_commit = match last {
        Some(row) => git::commit(&row.commit)?,
        None => None,
    };
    let since = base.map(str::to_owned).or(last_commit);
    let changed = match &since {
        Some(since) => within(stage, since)?.into_iter().collect(),
        None => Vec::new(),
    };
    let script = git::digest(stage.script)?;
    Ok(judge(stage, &script, since.as_deref(), &changed, last))
}

/// The first path with a change since a commit that the stage can notice.
fn within(stage: &Stage, since: &str) -> Result<Option<String>, Error> {
    let mut changed = manifests::resolve(since, git::changed_since(since)?)?;
    while let Some(path) = stage.touched_by(&changed).map(str::to_owned) {
        if !comments::alone_changed(since, &path)? {
            return Ok(Some(path));
        }
        changed.retain(|other| *other != path);
    }
    Ok(None)
}

/// Chooses by the digest of the stage's script and by the paths that have changed since a commit.
fn judge(
    stage: &Stage,
    script: &str,
    since: Option<&str>,
    changed: &[String],
    last: Option<&Row>,
) -> Choice {
    if matches!(stage.when, When::Always) {
        return Choice::Always;
    }
    if let Some(last) = last.filter(|row| !row.passed()) {
        return Choice::Failed { last: last.clone() };
    }
    if let Some(last) = last.filter(|row| row.script != script) {
        return Choice::Rewritten { last: last.clone() };
    }
    let last = last.cloned();
    let Some(since) = since else {
        return Choice::Unknown { last };
    };
    let since = since.to_owned();
    match stage.touched_by(changed) {
        Some(path) => Choice::Touched {
            path: path.to_owned(),
            since,
        },
        None => Choice::Untouched { since, last },
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{FAILED, PASSED};
    use super::*;

    /// Digest of the script of a stage.
    const SCRIPT: &str = "0123abcd";

    fn stage(name: &str) -> &'static Stage {
        STAGES.iter().find(|stage| stage.name == name).unwrap()
    }

    fn row(result: &str) -> Row {
        Row {
            stage: "soft AES".to_owned(),
            commit: "81ae0025b7c1".to_owned(),
            date: "2026-11-23".to_owned(),
            minutes: "1.5".to_owned(),
            result: result.to_owned(),
            script: SCRIPT.to_owned(),
        }
    }

    fn soft_aes(since: Option<&str>, changed: &[&str], last: Option<&Row>) -> Choice {
        let changed: Vec<_> = changed.iter().map(|&path| path.to_owned()).collect();
        judge(stage("soft AES"), SCRIPT, since, &changed, last)
    }

    #[test]
    fn a_stage_runs_when_it_is_touched() {
        let changed = ["README.md", "crates/crypt/src/lib.rs"];
        let choice = soft_aes(Some("8bd367a"), &changed, Some(&row(PASSED)));
        let said = "runs: crates/crypt/src/lib.rs changed since 8bd367a";
        assert!(choice.runs());
        assert_eq!(choice.to_string(), said);
    }

    #[test]
    fn a_stage_that_does_not_run_names_its_last_run() {
        let choice = soft_aes(Some("8bd367a"), &["README.md"], Some(&row(PASSED)));
        let said = "not run: not touched since 8bd367a; last run at 81ae0025b7c1 on 2026-11-23";
        assert!(!choice.runs());
        assert_eq!(choice.to_string(), said);
        let said = "not run: not touched since 8bd367a; no run is recorded";
        assert_eq!(soft_aes(Some("8bd367a"), &[], None).to_string(), said);
    }

    #[test]
    fn a_stage_that_failed_runs_again() {
        assert!(soft_aes(Some("8bd367a"), &[], Some(&row(FAILED))).runs());
    }

    #[test]
    fn a_stage_whose_script_changed_runs_wherever_it_is_compared() {
        for script in ["", "89abcdef"] {
            let mut last = row(PASSED);
            last.script = script.to_owned();
            for since in [None, Some("8bd367a")] {
                let choice = soft_aes(since, &[], Some(&last));
                assert!(choice.runs());
                let said = "runs: its script changed since 81ae0025b7c1";
                assert_eq!(choice.to_string(), said);
            }
        }
        assert!(!soft_aes(Some("8bd367a"), &[], Some(&row(PASSED))).runs());
    }

    #[test]
    fn without_a_commit_to_compare_with_only_the_usual_stages_run() {
        assert!(!soft_aes(None, &[], None).runs());
        assert!(judge(stage("tests"), SCRIPT, None, &[], None).runs());
    }

    #[test]
    fn an_unknown_base_is_an_error() {
        let error = choose(Some("no-such-commit")).err().unwrap();
        assert!(error.to_string().contains("no commit no-such-commit"));
    }
}
