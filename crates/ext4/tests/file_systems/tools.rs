//! Programs that make file systems, change them and check them: the system's, or another Debian's.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scrim_guest::Cache;

/// Folders of the libraries of unpacked packages, and of the dynamic linker: with a merged `/usr` and before.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
const LINKER: &str = "ld-linux-x86-64.so.2";
/// Folders of the programs.
const PROGRAMS: [&str; 4] = ["usr/sbin", "sbin", "usr/bin", "bin"];

/// The suite whose support has ended: some day the archive has it no more, and nothing here can be done about it.
const LEAVING: &str = "bullseye";

/// The programs of one e2fsprogs, and what else is unpacked beside them.
pub(crate) struct Tools {
    /// The root of unpacked packages; none for the system's.
    root: Option<PathBuf>,
}

impl Tools {
    /// This system's, if they are there; in CI they have to be.
    pub(crate) fn of_this_system() -> Option<Self> {
        let there = ["mke2fs", "debugfs", "e2fsck"].iter().all(|name| {
            let path = search_path();
            path.split(':')
                .any(|folder| Path::new(folder).join(name).exists())
        });
        assert!(
            there || std::env::var_os("CI").is_none(),
            "mke2fs is missing in CI"
        );
        if !there {
            println!("skipped: e2fsprogs is missing (scripts/setup.sh test installs it)");
        }
        there.then_some(Self { root: None })
    }

    /// Those of a suite of Debian, fetched once; in CI they have to come, but from a suite that is leaving.
    pub(crate) fn of_suite(suite: &str, packages: &[&str]) -> Option<Self> {
        let mut tell = |step: &str| eprintln!("{step}");
        let fetched = Cache::open().and_then(|cache| cache.programs(suite, packages, &mut tell));
        match fetched {
            Ok(root) => Some(Self { root: Some(root) }),
            Err(error) => {
                let must_come = std::env::var_os("CI").is_some() && suite != LEAVING;
                assert!(!must_come, "{suite}: {error}");
                println!("skipped: the programs of Debian's suite {suite}: {error}");
                None
            }
        }
    }

    /// A program, which says nothing.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = match &self.root {
            None => Command::new(name),
            Some(root) => unpacked(root, name),
        };
        command
            .env("PATH", search_path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Output of a program, with its complaints.
    pub(crate) fn says(&self, name: &str, args: &[&str], image: &Path) -> String {
        let mut command = self.command(name);
        command.args(args).arg(image);
        let output = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output();
        let output = output.unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Makes an image of a tree; nothing where this version of mke2fs cannot.
    pub(crate) fn image(
        &self,
        place: &Path,
        options: &str,
        tree: &Path,
        mib: u64,
    ) -> Option<PathBuf> {
        let path = place.join("image");
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        let mut mke2fs = self.command("mke2fs");
        mke2fs.args(["-q", "-F"]).args(options.split_whitespace());
        let made = mke2fs.arg("-d").arg(tree).arg(&path).status().unwrap();
        made.success().then_some(path)
    }

    /// Runs commands of debugfs on an image.
    pub(crate) fn debugfs(&self, image: &Path, commands: &str) {
        let mut child = self.command("debugfs");
        let mut child = child
            .args(["-w", "-f", "-"])
            .arg(image)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(commands.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Has e2fsck make an index for every folder that is long enough for one.
    pub(crate) fn index_folders(&self, image: &Path) {
        let mut e2fsck = self.command("e2fsck");
        let code = e2fsck.args(["-fyD"]).arg(image).status().unwrap().code();
        assert!(matches!(code, Some(0 | 1)), "e2fsck -D: {code:?}");
    }

    /// Returns whether a file system is sound, by e2fsck.
    #[track_caller]
    pub(crate) fn check(&self, image: &Path) {
        let mut e2fsck = self.command("e2fsck");
        let status = e2fsck.args(["-fn"]).arg(image).status().unwrap();
        assert!(status.success(), "e2fsck -fn: {status}");
    }
}

fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/sbin:/usr/sbin"
}

/// A program of unpacked packages, by their own dynamic linker and libraries, unless it needs none, and with their
/// own defaults.
fn unpacked(root: &Path, name: &str) -> Command {
    let libraries = LIBRARIES.map(|folder| root.join(folder));
    let first = |mut places: Vec<PathBuf>| {
        places.retain(|place| place.exists());
        places.into_iter().next()
    };
    let linker = first(libraries.iter().map(|folder| folder.join(LINKER)).collect());
    let program = PROGRAMS.iter().map(|folder| root.join(folder).join(name));
    let program = first(program.collect()).unwrap_or_else(|| panic!("there is no {name}"));
    let mut command = match linker {
        None => Command::new(program),
        Some(linker) => {
            let mut command = Command::new(linker);
            let libraries = std::env::join_paths(&libraries).unwrap();
            command.arg("--library-path").arg(libraries).arg(program);
            command
        }
    };
    command.env("MKE2FS_CONFIG", root.join("etc/mke2fs.conf"));
    command
}
