//! Queries to git about commits and changed paths.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::cargo::workspace_root;
use crate::error::{Doing, Error};

/// Branches that changes start from, the first that exists counts.
const MAIN: [&str; 2] = ["origin/main", "main"];
/// Digits of an abbreviated commit.
const DIGITS: &str = "--short=12";
/// Digits of a text's digest.
const DIGEST_DIGITS: usize = 8;

/// Standard output of a git command, or `None` if it fails.
fn ask(args: &[&str]) -> Result<Option<String>, Error> {
    let output = Command::new("git")
        .args(args)
        .current_dir(workspace_root())
        .output()
        .doing(|| "run git".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success().then(|| text.trim_end().to_owned()))
}

/// The abbreviated id of a revision, or `None` if this clone does not have it.
pub(crate) fn commit(revision: &str) -> Result<Option<String>, Error> {
    let revision = format!("{revision}^{{commit}}");
    ask(&["rev-parse", "--verify", "--quiet", DIGITS, &revision])
}

/// The commit at which this branch left the main one; `None` on the main branch itself, and without one.
pub(crate) fn branch_point() -> Result<Option<String>, Error> {
    let head = commit("HEAD")?;
    for main in MAIN {
        let Some(base) = ask(&["merge-base", "HEAD", main])? else {
            continue;
        };
        let base = commit(&base)?;
        return Ok(if base == head { None } else { base });
    }
    Ok(None)
}

/// The text of a file at a commit, or `None` if the commit does not have it.
pub(crate) fn file(commit: &str, path: &str) -> Result<Option<String>, Error> {
    ask(&["show", &format!("{commit}:{path}")])
}

/// Paths that differ between a commit and the working tree; both names of a file that was renamed.
pub(crate) fn changed_since(commit: &str) -> Result<Vec<String>, Error> {
    let args = ["diff", "--name-only", "--no-renames", "-z", commit, "--"];
    let said =
        ask(&args)?.ok_or_else(|| Error::program("git diff", format!("no commit {commit}")))?;
    let names = said.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// The first digits of the id that git gives to a text.
pub(crate) fn digest(text: &str) -> Result<String, Error> {
    let run = || -> std::io::Result<_> {
        let mut command = Command::new("git");
        command.args(["hash-object", "--stdin"]);
        let mut git = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = git.stdin.take() {
            input.write_all(text.as_bytes())?;
        }
        git.wait_with_output()
    };
    let output = run().doing(|| "run git hash-object".to_owned())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let digest = said
        .get(..DIGEST_DIGITS)
        .filter(|_| output.status.success());
    let failed = || Error::program("git hash-object", "no id of a text");
    Ok(digest.ok_or_else(failed)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_every_git() {
        assert_eq!(digest("").unwrap(), "e69de29b");
        assert_eq!(digest("make demo").unwrap(), "df68c3b4");
    }
}
