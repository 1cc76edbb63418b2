//! The process that takes a mount away when the serving process is killed.
//!
//! When the process that serves a mount ends, the kernel fails all requests, but the mount stays, and each look at it
//! fails, until somebody takes it away. `fusermount3` has an option for that (`auto_unmount`), which does not work for a
//! user's own mount: the program, as root, is not let in without `allow_other`, and so does not learn that the mount is
//! dead. So a process of our own waits for the end of a pipe. It is a shell, not a fork of this process, whose memory has
//! keys; and it has a process group of its own, so that Ctrl-C does not end it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::helper::wait_until;
use super::limits;
use super::mount::Place;

/// A line means that there is nothing to do any more. The end of the pipe without one means that the process has died:
/// then the mount goes, if it is still the same, and still in the working directory, whatever that is called now.
///
/// The kernel's table has a backslash and three octal digits for each byte that `read` would not pass on; `printf` wants a
/// zero before them.
const SCRIPT: &str = r#"trap '' HUP INT QUIT TERM
read -r word && exit 0
mount=$1 device=$2 name=$3
shift 3
above=$(cd -P . && pwd -P; echo .)
above=${above%??}
while read -r id parent number root point rest; do
    if [ "$id" = "$mount" ] && [ "$number" = "$device" ]; then
        text=
        while [ "${point#*\\}" != "$point" ]; do
            text="$text${point%%\\*}\\0"
            point=${point#*\\}
        done
        directory=$(printf '%b.' "$text$point")
        [ "$directory" = "${above%/}/$name." ] && exec "$@" "./$name"
    fi
done < /proc/self/mountinfo
"#;

/// The process that watches a mount.
pub(super) struct Guard(Child);

impl Guard {
    /// Starts it; `None` where there is no shell. Then nobody takes the mount away if this process is killed.
    pub(super) fn start(place: &Place) -> Option<Self> {
        let (program, arguments) = place.unmount_command();
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "scrim-guard"])
            .args([&place.id.number.to_string(), &place.id.device])
            .arg(place.directory.file_name()?)
            .arg(program)
            .args(arguments)
            .current_dir(place.above())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.ok().map(Self)
    }

    /// Ends it: there is no mount any more.
    pub(super) fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // It may have been ended by somebody else.
            let _ = pipe.write_all(b"\n");
        }
        let _ = wait_until(&mut self.0, Instant::now() + limits::END);
    }
}
