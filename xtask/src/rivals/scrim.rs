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
    cargo::build_scrim(true)
}
