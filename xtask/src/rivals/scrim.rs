//! The `scrim` that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::room::Room;
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

/// Contents of an image that `scrim open` is to serve.
pub(super) enum Contents<'a> {
    /// A LUKS volume that this key file unlocks.
    Luks(&'a Path),
    /// This many bytes of plain data, served by a table with one linear target.
    Plain(u64),
}

/// `scrim open` of an image, a file or a URI, on a Unix socket; more options may follow, and the volume's name has to.
pub(super) fn open_command(
    room: &Room,
    scrim: &Path,
    socket: &Path,
    image: &Path,
    contents: &Contents<'_>,
) -> Result<Command, Error> {
    let mut command = room.command(scrim);
    command.args(["open", "--foreground", "--nbd"]);
    command.arg(format!("unix:{}", socket.display()));
    match contents {
        Contents::Luks(key_file) => command.arg("--key-file").arg(key_file).arg(image),
        Contents::Plain(size) => {
            // Read once, before the server answers, so that the next one may have the same file.
            let line = format!("0 {} linear {} 0\n", size / 512, image.display());
            let table = room.write("linear.table", &line)?;
            command.arg("--table").arg(table)
        }
    };
    Ok(command)
}
