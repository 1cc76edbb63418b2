//! Remote storage: nbdkit on an image in memory, near or far.

use std::path::Path;

use super::programs::NBDKIT;
use super::room::Room;
use super::server::Server;
use crate::error::Error;

/// Options of `cryptsetup luksFormat` for a volume that is quick to unlock.
pub(super) const LUKS2: [&str; 7] = [
    "--type=luks2",
    "--cipher=aes-xts-plain64",
    "--key-size=512",
    "--sector-size=4096",
    "--pbkdf=pbkdf2",
    "--pbkdf-force-iterations=1000",
    "--offset=32768",
];
/// Room for the header, in bytes, by the offset in [`LUKS2`].
pub(super) const HEADER: u64 = 16 << 20;

/// Distance of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distance {
    Near,
    Far,
}

impl Distance {
    pub(super) const ALL: [Self; 2] = [Self::Near, Self::Far];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }

    /// Delay of each request in milliseconds, of which the far store has `delay`.
    pub(super) fn delay(self, delay: u16) -> Option<u16> {
        (self == Self::Far).then_some(delay)
    }

    /// Its part of the description of a load.
    pub(super) fn workload(self, delay: u16) -> String {
        let delay = self
            .delay(delay)
            .map_or_else(String::new, |ms| format!(", {ms} ms a request"));
        format!("nbdkit on a Unix socket{delay}")
    }
}

/// Starts nbdkit on an image, with a delay of each request in milliseconds.
pub(super) fn start(
    room: &Room,
    name: &str,
    image: &Path,
    delay: Option<u16>,
) -> Result<Server, Error> {
    let socket = room.path(&format!("{name}.store"));
    let mut command = room.command(NBDKIT.program);
    command.args(["--foreground", "--exit-with-parent", "--unix"]);
    command.arg(&socket);
    if delay.is_some() {
        command.arg("--filter=delay");
    }
    command.arg("file").arg(image);
    if let Some(delay) = delay {
        command.args([format!("rdelay={delay}ms"), format!("wdelay={delay}ms")]);
    }
    Server::start(room, &format!("{name}_store"), &socket, &mut command)
}
