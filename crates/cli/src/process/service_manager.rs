//! Messages to a service manager, as `sd_notify(3)` sends them: a datagram to the socket that `NOTIFY_SOCKET` names.
//! Without that variable nothing is sent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::terminal::note;

/// Timeout of a message: a manager that never reads its queue must not hold up a volume.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// The service manager that started this process and waits for its messages, if any.
pub(crate) struct Manager(Option<OsString>);

impl Manager {
    /// The manager of a process that stays in the foreground.
    pub(crate) fn of_this_process() -> Self {
        Self(std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()))
    }

    /// No manager: a process in the background is not the one that was started.
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    /// Says that the volume is served, with its size in 512-byte sectors and its address.
    pub(crate) fn serving(&self, sectors: u64, address: &str) {
        self.tell(&format!(
            "READY=1\nSTATUS=serving {sectors} sectors at {address}"
        ));
    }

    /// Says that files are served at these addresses.
    pub(crate) fn serving_files(&self, addresses: &[String]) {
        self.tell(&format!("READY=1\nSTATUS=serving {}", addresses.join(" ")));
    }

    /// Says that the volume, or the server of files, is being closed.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing what clients have asked for");
    }

    /// Sends a message. A failure causes only a warning, since the process can serve all the same.
    fn tell(&self, state: &str) {
        let Some(socket) = &self.0 else {
            return;
        };
        if let Err(error) = send(socket, state) {
            note(format_args!(
                "scrim: warning: cannot tell the service manager at {}: {error}; check NOTIFY_SOCKET",
                socket.display()
            ));
        }
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(SEND_TIMEOUT))?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}
