//! The `scrim` that is measured.

use std::path::{Path, PathBuf};

use crate::cargo;
use crate::error::{Doing, Error};

/// The binary that was asked for, or the workspace's own, built now as users build it.
pub(super) fn binary(chosen: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(path) = chosen {
        // Contenders run elsewhere, so the path must not depend on where we are.
        return std::path::absolute(path).doing(|| format!("find {}", path.display()));
    }
    let root = cargo::workspace_root();
    let status = cargo::command()
        .args(["build", "--release", "--quiet", "--package", "scrim-cli"])
        .current_dir(&root)
        .status()
        .doing(|| "run cargo build".to_owned())?;
    if !status.success() {
        return Err(Error::program(
            "cargo build --release --package scrim-cli",
            "failed; see above",
        ));
    }
    let metadata = cargo::metadata(&root)?;
    let target = metadata["target_directory"].as_str().unwrap_or("target");
    Ok(root.join(target).join("release/scrim"))
}
