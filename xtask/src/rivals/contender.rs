//! The contenders of `rivals nbd`: server, kind of image, and command.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::image::{self, LUKS1, LUKS1_ROOM, Originals};
use super::programs::{NBDKIT, QEMU_NBD};
use super::room::Room;
use super::scrim::{Contents, open_command};
use super::server::Server;
use crate::error::Error;

/// A server on a kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    /// Name of the contender in names of results.
    pub(super) name: &'static str,
    pub(super) software: Software,
    /// True if it serves a LUKS image, false if a plain one.
    pub(super) encrypted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Software {
    Scrim,
    Qemu,
    Nbdkit,
    /// No server: the file itself.
    Disk,
}

const fn contender(name: &'static str, software: Software, encrypted: bool) -> Contender {
    Contender {
        name,
        software,
        encrypted,
    }
}

pub(super) const SCRIM_LUKS: Contender = contender("scrim_luks", Software::Scrim, true);
pub(super) const SCRIM_PLAIN: Contender = contender("scrim_plain", Software::Scrim, false);
pub(super) const QEMU_LUKS: Contender = contender("qemu_luks", Software::Qemu, true);
pub(super) const QEMU_RAW: Contender = contender("qemu_raw", Software::Qemu, false);
pub(super) const NBDKIT_LUKS: Contender = contender("nbdkit_luks", Software::Nbdkit, true);
pub(super) const NBDKIT_RAW: Contender = contender("nbdkit_raw", Software::Nbdkit, false);

pub(super) const DISK: Contender = contender("disk", Software::Disk, false);

pub(super) const CONTENDERS: [Contender; 7] = [
    SCRIM_LUKS,
    QEMU_LUKS,
    NBDKIT_LUKS,
    SCRIM_PLAIN,
    QEMU_RAW,
    NBDKIT_RAW,
    DISK,
];

/// Programs of the servers, and the images from which each server gets its copy.
pub(super) struct Stage<'a> {
    room: &'a Room,
    scrim: PathBuf,
    luks: PathBuf,
    plain: PathBuf,
    key_file: PathBuf,
    payload: u64,
    /// True if the servers bypass the page cache.
    direct: bool,
}

/// Target that fio reads and writes.
pub(super) enum Target {
    Server(Server),
    /// A server that does not listen on a unix socket.
    Uri(String),
    File(PathBuf),
    /// An image of a Ceph cluster, as `POOL/IMAGE`, by the cluster's configuration.
    Rbd {
        conf: PathBuf,
        image: String,
    },
}

impl<'a> Stage<'a> {
    /// Makes one image of each kind with `payload` bytes, and makes sure that `contenders` copies
    /// have room.
    pub(super) fn set(
        room: &'a Room,
        scrim: PathBuf,
        payload: u64,
        contenders: usize,
        direct: bool,
    ) -> Result<Self, Error> {
        // The two original images stay until the end.
        room.reserve((payload + LUKS1_ROOM) * (contenders as u64 + 2))?;
        let Originals {
            plain,
            luks,
            key_file,
        } = image::originals(room, payload, LUKS1_ROOM, &LUKS1)?;
        Ok(Self {
            room,
            scrim,
            luks,
            plain,
            key_file,
            payload,
            direct,
        })
    }

    /// Starts a contender's server on its own copy of the image.
    pub(super) fn start(&self, contender: Contender) -> Result<Target, Error> {
        let name = contender.name;
        let original = if contender.encrypted {
            &self.luks
        } else {
            &self.plain
        };
        let image = image::copy(self.room, original, &format!("{name}.img"))?;
        let socket = self.room.path(&format!("{name}.sock"));
        let mut command = match contender.software {
            Software::Scrim => self.scrim(contender, &image, &socket)?,
            Software::Qemu => self.qemu_nbd(contender, &image, &socket),
            Software::Nbdkit => self.nbdkit(contender, &image, &socket),
            Software::Disk => return Ok(Target::File(image)),
        };
        Server::start(self.room, name, &socket, &mut command).map(Target::Server)
    }

    fn scrim(&self, contender: Contender, image: &Path, socket: &Path) -> Result<Command, Error> {
        let contents = match contender.encrypted {
            true => Contents::Luks(&self.key_file),
            false => Contents::Plain(self.payload),
        };
        let mut command = open_command(self.room, &self.scrim, socket, image, &contents)?;
        if self.direct {
            command.args(["--direct-io", "on"]);
        }
        command.arg(contender.name);
        Ok(command)
    }

    /// With its defaults for cache mode and asynchronous I/O, or with what its manual names for disks.
    fn qemu_nbd(&self, contender: Contender, image: &Path, socket: &Path) -> Command {
        let mut command = self.room.command(QEMU_NBD.program);
        command.args(["--persistent", "--shared=8", "--socket"]);
        command.arg(socket);
        if contender.encrypted {
            let secret = format!("secret,id=sec0,file={}", self.key_file.display());
            let direct = if self.direct {
                ",file.aio=io_uring,cache.direct=on"
            } else {
                ""
            };
            let options = format!(
                "driver=luks,key-secret=sec0,file.driver=file,file.filename={}{direct}",
                image.display()
            );
            command.args(["--object", &secret, "--image-opts", &options]);
        } else {
            if self.direct {
                command.args(["--cache=none", "--aio=io_uring"]);
            }
            command.arg("--format=raw").arg(image);
        }
        command
    }

    fn nbdkit(&self, contender: Contender, image: &Path, socket: &Path) -> Command {
        let mut command = self.room.command(NBDKIT.program);
        command.args(["--foreground", "--exit-with-parent", "--unix"]);
        command.arg(socket);
        if contender.encrypted {
            command.args(["--filter=luks", "file"]).arg(image);
            command.arg(format!("passphrase=+{}", self.key_file.display()));
        } else {
            command.arg("file").arg(image);
        }
        if self.direct {
            // It knows no more than to ask the kernel to forget what it has read or written.
            command.arg("cache=none");
        }
        command
    }
}
