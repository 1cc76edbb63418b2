//! The contenders of the part `raw`: program, kind of image, and commands.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::mounted::Mounted;
use crate::error::{Doing, Error};
use crate::rivals::image::{self, LUKS1, LUKS1_ROOM, Originals};
use crate::rivals::programs::{NBDFUSE, QEMU_STORAGE_DAEMON};
use crate::rivals::room::Room;
use crate::rivals::scrim::{Contents, open_command};
use crate::rivals::server::{Process, greets, uri_of};

/// A program that shows an image as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// `scrim mount --raw` on a LUKS image.
    ScrimLuks,
    /// The same on a plain image, by a table with one linear target.
    ScrimPlain,
    QsdLuks,
    QsdRaw,
    /// `nbdfuse` on the NBD socket of `scrim open`, with a LUKS image.
    Nbdfuse,
}

impl Contender {
    pub(super) const ALL: [Self; 5] = [
        Self::ScrimLuks,
        Self::QsdLuks,
        Self::ScrimPlain,
        Self::Nbdfuse,
        Self::QsdRaw,
    ];

    /// Name of the contender in names of results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ScrimLuks => "scrim_luks",
            Self::ScrimPlain => "scrim_plain",
            Self::QsdLuks => "qsd_luks",
            Self::QsdRaw => "qsd_raw",
            Self::Nbdfuse => "nbdfuse",
        }
    }

    pub(super) fn is_encrypted(self) -> bool {
        matches!(self, Self::ScrimLuks | Self::QsdLuks | Self::Nbdfuse)
    }

    /// The rival's program that has to be installed.
    pub(super) fn program(self) -> Option<&'static str> {
        match self {
            Self::ScrimLuks | Self::ScrimPlain => None,
            Self::QsdLuks | Self::QsdRaw => Some(QEMU_STORAGE_DAEMON.program),
            Self::Nbdfuse => Some(NBDFUSE.program),
        }
    }
}

/// The images of which each contender gets a copy: two writers of one image would refuse each other.
pub(super) struct Stage<'a> {
    room: &'a Room,
    scrim: &'a Path,
    luks: PathBuf,
    plain: PathBuf,
    key_file: PathBuf,
    payload: u64,
}

impl<'a> Stage<'a> {
    /// Makes one image of each kind, and makes sure that `contenders` copies have room.
    pub(super) fn set(
        room: &'a Room,
        scrim: &'a Path,
        payload: u64,
        contenders: usize,
    ) -> Result<Self, Error> {
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
        })
    }

    /// Mounts a contender's own copy of the image. Returns the mount and the file in it.
    pub(super) fn start(&self, contender: Contender) -> Result<(Mounted, PathBuf), Error> {
        let name = contender.name();
        let original = match contender.is_encrypted() {
            true => &self.luks,
            false => &self.plain,
        };
        let image = image::copy(self.room, original, &format!("{name}.img"))?;
        let place = self.room.path(&format!("{name}.mount"));
        match contender {
            Contender::QsdLuks | Contender::QsdRaw => self.storage_daemon(contender, &image, place),
            Contender::ScrimLuks | Contender::ScrimPlain | Contender::Nbdfuse => {
                make_directory(&place)?;
                let (server, socket) = self.open(contender, &image)?;
                let mut mounted = Mounted::new(place.clone(), vec![server]);
                let file = place.join(name);
                if contender == Contender::Nbdfuse {
                    let mut command = self.room.command(NBDFUSE.program);
                    command.arg(&file).arg(uri_of(&socket));
                    mounted.start(self.room, "nbdfuse_program", &mut command)?;
                } else {
                    let mut command = self.room.command(self.scrim);
                    command.args(["mount", "--raw", name]).arg(&place);
                    mounted.ask("scrim mount", &mut command)?;
                }
                Ok((mounted, file))
            }
        }
    }

    /// Opens the volume, called as the contender, on a socket of its own.
    fn open(&self, contender: Contender, image: &Path) -> Result<(Process, PathBuf), Error> {
        let name = contender.name();
        let socket = self.room.path(&format!("{name}.sock"));
        let contents = match contender.is_encrypted() {
            true => Contents::Luks(&self.key_file),
            false => Contents::Plain(self.payload),
        };
        let mut command = open_command(self.room, self.scrim, &socket, image, &contents)?;
        command.arg(name);
        let ready = || greets(&socket).is_ok_and(|greets| greets);
        let server = Process::start(self.room, name, &mut command, ready)?;
        Ok((server, socket))
    }

    /// With its defaults. The file that it mounts on is the one that shows the disk.
    fn storage_daemon(
        &self,
        contender: Contender,
        image: &Path,
        place: PathBuf,
    ) -> Result<(Mounted, PathBuf), Error> {
        File::create(&place).doing(|| format!("create {}", place.display()))?;
        let mut command = self.room.command(QEMU_STORAGE_DAEMON.program);
        let file = format!("driver=file,node-name=file,filename={}", image.display());
        command.args(["--blockdev", &file]);
        if contender.is_encrypted() {
            let secret = format!("secret,id=key,file={}", self.key_file.display());
            let luks = "driver=luks,node-name=disk,file=file,key-secret=key";
            command.args(["--object", &secret, "--blockdev", luks]);
        } else {
            let raw = "driver=raw,node-name=disk,file=file";
            command.args(["--blockdev", raw]);
        }
        command.arg("--export").arg(format!(
            "type=fuse,id=export,node-name=disk,writable=on,mountpoint={}",
            place.display()
        ));
        let mut mounted = Mounted::new(place.clone(), Vec::new());
        mounted.start(self.room, contender.name(), &mut command)?;
        Ok((mounted, place))
    }
}

pub(super) fn make_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir(path).doing(|| format!("make {}", path.display()))
}
