//! Queries to cargo about the workspace, and builds of its programs.

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

/// The workspace's `scrim`, built now: for development, or as users build it.
pub(crate) fn build_scrim(release: bool) -> Result<PathBuf, Error> {
    build("scrim-cli", "scrim", release)
}

/// A program of the workspace, built now: for development, or as users build it.
pub(crate) fn build(package: &str, program: &str, release: bool) -> Result<PathBuf, Error> {
    let root = workspace_root();
    let (profile, folder): (&[&str], _) = if release {
        (&["--release"], "release")
    } else {
        (&[], "debug")
    };
    let status = command()
        .args(["build", "--quiet", "--package", package])
        .args(profile)
        .current_dir(&root)
        .status()
        .doing(|| "run cargo build".to_owned())?;
    if !status.success() {
        let command = format!("cargo build --package {package}");
        return Err(Error::program(command, "failed; see above"));
    }
    let metadata = metadata(&root)?;
    let target = metadata["target_directory"].as_str().unwrap_or("target");
    Ok(root.join(target).join(folder).join(program))
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
