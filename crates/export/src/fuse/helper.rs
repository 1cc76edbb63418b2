//! The program `fusermount3`, which mounts for users without root: it has the right to it and checks what they may.

use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use scrim_foreign::Foreign;

use super::error::{MountError, UnmountError};
use super::limits;

pub(super) const PROGRAM: &str = "fusermount3";

/// Mounts with `options`, and returns the device's descriptor, which the program sends back over its standard input.
pub(super) fn mount(directory: &Path, options: &str) -> Result<OwnedFd, MountError> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| MountError::Session(error.into()))?;
    let mut command = Command::new(PROGRAM);
    command
        .args(["-o", options, "--"])
        .arg(directory)
        .env("_FUSE_COMMFD", "0")
        .stdin(theirs);
    let child = start(&mut command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper,
        _ => MountError::Session(error),
    })?;
    // Its end of the pair, so that the wait below ends with the program.
    drop(command);
    let device = receive_descriptor(&ours);
    let said = finish(child);
    match device {
        Ok(Some(device)) => Ok(device),
        Ok(None) if said.contains("user_allow_other") => Err(MountError::AllowOther),
        Ok(None) => Err(MountError::Helper {
            path: directory.to_owned(),
            said: Foreign::new(said),
        }),
        Err(error) => Err(MountError::Session(error.into())),
    }
}

/// Unmounts; `lazy` takes the mount away also where it is in use.
pub(super) fn unmount(directory: &Path, lazy: bool) -> Result<(), UnmountError> {
    let path = || directory.to_owned();
    let mut command = Command::new(PROGRAM);
    command.args(unmount_arguments(lazy)).arg(directory);
    command.stdin(Stdio::null());
    let mut child = start(&mut command).map_err(|source| UnmountError::System {
        path: path(),
        source,
    })?;
    // The kernel writes back before an unmount ends, which may take long, so only a lazy one has a limit.
    let status = match lazy {
        true => wait_until(&mut child, Instant::now() + limits::END),
        false => child.wait(),
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            let said = finish(child);
            let busy = io::Error::from(Errno::BUSY).to_string();
            let busy = busy.split(" (").next().unwrap_or_default();
            Err(match said.contains(busy) {
                true => UnmountError::Busy { path: path() },
                false => UnmountError::Helper {
                    path: path(),
                    said: Foreign::new(said),
                },
            })
        }
        Err(source) => Err(UnmountError::System {
            path: path(),
            source,
        }),
    }
}

/// Arguments of the program before the folder.
pub(super) fn unmount_arguments(lazy: bool) -> &'static [&'static str] {
    match lazy {
        true => &["-u", "-z", "--"],
        false => &["-u", "--"],
    }
}

fn start(command: &mut Command) -> io::Result<Child> {
    command
        .env("LC_ALL", "C")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits for the end of the program, and returns its message without its own name before it.
fn finish(mut child: Child) -> String {
    let mut said = Vec::new();
    if let Some(errors) = child.stderr.take() {
        // Without a message the caller still knows that it failed.
        let _ = errors.take(limits::MESSAGE).read_to_end(&mut said);
    }
    let _ = child.wait();
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    let prefix = format!("{PROGRAM}: ");
    let said = said.strip_prefix(&prefix).unwrap_or(said);
    match said {
        "" => "it gives no reason".to_owned(),
        _ => said.to_owned(),
    }
}

/// Waits for the end of a process until `deadline`; then it is killed.
pub(super) fn wait_until(
    child: &mut Child,
    deadline: Instant,
) -> io::Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(limits::PAUSE);
    }
}

/// Receives one descriptor (`SCM_RIGHTS`); `None` if the other side closes the socket without sending one.
fn receive_descriptor(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    loop {
        let mut data = [IoSliceMut::new(&mut byte)];
        match recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptors.last())
}
