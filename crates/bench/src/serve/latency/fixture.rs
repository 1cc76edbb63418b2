//! The same file in a folder and in an encrypted volume, and servers of either.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::plan::{Plan, Way, target};
use crate::Study;
use crate::folder::{Folder, free_memory};
use crate::machine::Peer;
use crate::serve::error::ServeError;
use crate::serve::plan::NAME;
use crate::serve::server::{
    self, Process, arguments, base, folder, last_words, make, prepared, write_identity,
};
use crate::web::{Identity, Trust, Url};

/// Bytes of a small file system beside its files: a generous number, since they are not written.
const BESIDE: u64 = 48 << 20;
/// Makes file systems of folders.
const MKE2FS: Peer = Peer {
    program: "mke2fs",
    version_option: "-V",
    package: "e2fsprogs",
};
/// Folders of `mke2fs`, also for users whose search path lacks them.
const FOLDERS: [&str; 4] = ["", "/usr/sbin/", "/sbin/", "/usr/local/sbin/"];

/// The files and volumes that are served; removed when this is dropped.
pub(super) struct Fixture {
    own: Folder,
    identity: Identity,
}

/// A running server with its address.
pub(super) struct Server {
    pub(super) url: Url,
    pub(super) trust: Trust,
    _process: Process,
}

impl Fixture {
    /// Makes what the ways of a plan need.
    pub(super) fn make(plan: &Plan, study: &mut Study) -> Result<Self, ServeError> {
        let base = base();
        let own = folder(&base)?;
        let with_volume = plan.ways.iter().any(|way| *way != Way::Folder);
        let wanted = match with_volume {
            // The file, the file system with it, and the volume with that.
            true => with_file_system(plan.bytes).saturating_mul(3),
            false => plan.bytes,
        };
        match free_memory(own.path()) {
            Some(free) if free < wanted => return Err(ServeError::Room { wanted, free }),
            Some(_) => {}
            None => study.warn(format!(
                "no RAM disk: files lie in {}, and how quick that is counts as well",
                base.display()
            )),
        }
        let site = own.path().join("site");
        fs::create_dir(&site).map_err(ServeError::system("make a folder to serve"))?;
        make(&site.join(NAME), plan.bytes)?;
        let identity = write_identity(own.path())?;
        let ground = Self { own, identity };
        if with_volume {
            ground.make_volume(plan, &site)?;
        }
        Ok(ground)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.own.path().join(name)
    }

    /// A file system with the site's files, and a volume with that.
    fn make_volume(&self, plan: &Plan, site: &Path) -> Result<(), ServeError> {
        let plain = self.path("plain");
        let length = with_file_system(plan.bytes);
        let file = File::create_new(&plain).and_then(|file| file.set_len(length));
        file.map_err(ServeError::system("make room for a file system"))?;
        self.run(
            mke2fs()?
                // Blocks as in all but small file systems.
                .args(["-q", "-t", "ext4", "-b", "4096", "-d"])
                .args([site, &plain]),
        )?;
        // A key as good as any for a volume that lasts a minute, and quick to open.
        let key = self.path("key");
        fs::write(&key, "a volume for a measurement").map_err(ServeError::system("write a key"))?;
        let mut import = Command::new(&plan.program);
        import.arg("import").args([&plain, &self.volume()]);
        import.arg("--key-file").arg(&key);
        import.args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]);
        import.args(["--no-verify", "--batch-mode"]);
        self.run(&mut import)?;
        fs::remove_file(&plain).map_err(ServeError::system("remove what was encrypted"))
    }

    fn volume(&self) -> PathBuf {
        self.path("volume.img")
    }

    /// Runs a program that has to succeed.
    fn run(&self, command: &mut Command) -> Result<(), ServeError> {
        let log = self.path("log");
        let name = command.get_program().to_string_lossy().into_owned();
        let doing = || format!("run {name}");
        let errors = File::create(&log).map_err(ServeError::system(doing()))?;
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.stderr(errors).status();
        match status.map_err(ServeError::system(doing()))?.success() {
            true => Ok(()),
            false => Err(ServeError::System {
                doing: doing(),
                error: io::Error::other(last_words(&log)),
            }),
        }
    }

    /// Starts a server of a way, and waits until it serves.
    pub(super) fn serve(&self, plan: &Plan, way: Way) -> Result<Server, ServeError> {
        let mut command = Command::new(&plan.program);
        let root = match way {
            Way::Folder => self.path("site").into_os_string(),
            Way::Volume(_) => within(&self.volume()),
        };
        arguments(&mut command, &root, self.own.path(), plan.suite);
        if let Way::Volume(path) = way {
            command.arg("--key-file").arg(self.path("key"));
            command.args(["--data-path", path.word()]);
        }
        prepared(&mut command);
        let log = self.path(&way.name());
        let (process, urls) = Process::start(&mut command, &log)?;
        Ok(Server {
            url: server::at(&urls, true, &target())?,
            trust: self.identity.trust(Some(plan.suite))?,
            _process: process,
        })
    }
}

/// Bytes of a file system that holds a file of `bytes` bytes.
fn with_file_system(bytes: u64) -> u64 {
    let tables = bytes / 16;
    let all = bytes.saturating_add(tables).saturating_add(BESIDE);
    all & !((1 << 20) - 1)
}

/// The root folder of a volume's file system, as `scrim serve` takes it.
fn within(volume: &Path) -> OsString {
    let mut root = volume.as_os_str().to_owned();
    root.push(OsStr::new("#/"));
    root
}

/// A command for it, wherever it is.
fn mke2fs() -> Result<Command, ServeError> {
    let paths = FOLDERS.map(|folder| format!("{folder}{}", MKE2FS.program));
    let found = paths.into_iter().find(|path| {
        let mut command = Command::new(path);
        let command = command.arg(MKE2FS.version_option).stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    found.map(Command::new).ok_or(ServeError::Missing {
        program: MKE2FS.program,
        package: MKE2FS.package,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_volume_is_named_behind_its_image() {
        assert_eq!(within(Path::new("/a b/volume.img")), "/a b/volume.img#/");
    }
}
