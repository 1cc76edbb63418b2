//! What cargo knows about the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::{Doing, Error};

/// The workspace that this tool belongs to.
pub(crate) fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that runs us, or the one on `PATH`.
pub(crate) fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// `cargo metadata` of the workspace at `root`: its members, not what they depend on in turn.
pub(crate) fn metadata(root: &Path) -> Result<Value, Error> {
    let output = command()
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .output()
        .doing(|| "run cargo metadata".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::program("cargo metadata", said));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::program("cargo metadata", error.to_string()))
}
