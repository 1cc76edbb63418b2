//! Common work on the files of a volume: a source tree is extracted and read back, one large file is written and read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scrim_bench::{Better, Machine, SeriesId, Study, turns};

use super::mounted::{Mounted, run};
use super::stage::make_directory;
use crate::cargo::workspace_root;
use crate::error::{Doing, Error};
use crate::rivals::image::{self, LUKS1, LUKS1_ROOM, PASSPHRASE};
use crate::rivals::options::announce;
use crate::rivals::programs::{FUSE2FS, GOCRYPTFS, MKE2FS, TAR};
use crate::rivals::room::Room;

/// Size of the file system, in bytes.
const SIZE: u64 = 768 << 20;
/// Size of the large file, in bytes.
const LARGE: u64 = 256 << 20;
/// Bytes of each call of the job that reads a file or writes one.
const CALL: usize = 1 << 20;
/// Copies of the source tree.
const COPIES: usize = 4;
/// Parts of this workspace that are the source tree.
const SOURCES: [&str; 2] = ["crates", "docs"];
/// Name of the large file.
const LARGE_NAME: &str = "large";

/// A way to have files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// `scrim mount --method program` on a LUKS image: fuse2fs on the plaintext as one file.
    Scrim,
    /// `fuse2fs` on a plain image.
    Fuse2fs,
    /// `gocryptfs` on a directory of the tmpfs.
    Gocryptfs,
    /// `scrim mount --readonly --method scrim` on a LUKS image.
    ScrimReader,
    /// The same with `--page-cache`, as fuse2fs uses it.
    ScrimCachedReader,
    /// `fuse2fs -o ro` on a plain image.
    Fuse2fsReader,
}

impl Contender {
    const ALL: [Self; 6] = [
        Self::Scrim,
        Self::Fuse2fs,
        Self::Gocryptfs,
        Self::ScrimReader,
        Self::ScrimCachedReader,
        Self::Fuse2fsReader,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Scrim => "scrim_program",
            Self::Fuse2fs => "fuse2fs_plain",
            Self::Gocryptfs => "gocryptfs",
            Self::ScrimReader => "scrim_reader",
            Self::ScrimCachedReader => "scrim_reader_cached",
            Self::Fuse2fsReader => "fuse2fs_ro",
        }
    }

    /// The program besides Scrim that has to be installed.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::ScrimReader | Self::ScrimCachedReader => None,
            Self::Scrim | Self::Fuse2fs | Self::Fuse2fsReader => Some(FUSE2FS.program),
            Self::Gocryptfs => Some(GOCRYPTFS.program),
        }
    }

    fn is_reader(self) -> bool {
        matches!(
            self,
            Self::ScrimReader | Self::ScrimCachedReader | Self::Fuse2fsReader
        )
    }

    fn is_encrypted(self) -> bool {
        matches!(
            self,
            Self::Scrim | Self::ScrimReader | Self::ScrimCachedReader
        )
    }

    fn jobs(self) -> &'static [Job] {
        match self.is_reader() {
            true => &[Job::ReadTree],
            false => &[Job::Extract, Job::ReadTree, Job::WriteLarge, Job::ReadLarge],
        }
    }
}

/// Work on a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Extract,
    ReadTree,
    WriteLarge,
    ReadLarge,
}

impl Job {
    fn name(self) -> &'static str {
        match self {
            Self::Extract => "extract",
            Self::ReadTree => "tree_read",
            Self::WriteLarge => "large_write",
            Self::ReadLarge => "large_read",
        }
    }

    fn workload(self) -> String {
        match self {
            Self::Extract => format!("tar -x of {COPIES} copies of this workspace's sources"),
            Self::ReadTree => {
                "every file of that tree read from a fresh mount, one after another".to_owned()
            }
            Self::WriteLarge => format!(
                "one file of {} MiB written in calls of 1 MiB, fsync",
                LARGE >> 20
            ),
            Self::ReadLarge => "that file read from a fresh mount in calls of 1 MiB".to_owned(),
        }
    }
}

/// Comparisons: the name of the ratio, ours, the peer, and the target.
fn comparisons() -> Vec<(String, Contender, Contender, Job, Option<f64>)> {
    let mut all = Vec::new();
    for &job in Contender::Scrim.jobs() {
        let mut add = |end, peer, target| {
            let name = format!("mount_{}_{end}", job.name());
            all.push((name, Contender::Scrim, peer, job, target));
        };
        add("vs_fuse2fs_plain", Contender::Fuse2fs, Some(0.85));
        add("vs_gocryptfs", Contender::Gocryptfs, None);
    }
    for (name, ours, target) in [
        (
            "mount_tree_read_vs_fuse2fs_ro",
            Contender::ScrimReader,
            None,
        ),
        (
            "mount_tree_read_cached_vs_fuse2fs_ro",
            Contender::ScrimCachedReader,
            Some(2.0),
        ),
    ] {
        let peer = Contender::Fuse2fsReader;
        all.push((name.to_owned(), ours, peer, Job::ReadTree, target));
    }
    all
}

/// Each comparison, by time and by processor time.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    let all = comparisons().into_iter();
    all.flat_map(|(name, .., target)| {
        let cpu = cpu_name(&name);
        [(name, target), (cpu, None)]
    })
}

/// Name of the ratio of processor time beside that of time.
fn cpu_name(name: &str) -> String {
    name.replacen("_vs_", "_cpu_vs_", 1)
}

/// The contenders whose programs this machine has.
pub(super) fn available(machine: &Machine) -> Vec<Contender> {
    let has = |contender: &Contender| {
        let program = contender.program();
        program.is_none_or(|program| machine.has(program))
    };
    Contender::ALL.into_iter().filter(has).collect()
}

pub(super) fn measure(
    room: &Room,
    scrim: &Path,
    study: &mut Study,
    contenders: &[Contender],
) -> Result<(), Error> {
    eprintln!("making file systems in {}", room.path("").display());
    let originals = Originals::make(room, scrim)?;
    let mut running: Vec<Running> = contenders
        .iter()
        .map(|contender| Running::new(study, *contender))
        .collect();
    eprintln!("trying each once");
    for side in &mut running {
        side.take_turn(&originals, study)?;
    }
    for turn in turns(study.rounds(), 1, running.len()) {
        announce(turn, study.rounds());
        let side = &mut running[turn.contender];
        let figures = side.take_turn(&originals, study)?;
        for ((wall, cpu), figure) in side.series.iter().zip(figures) {
            study.record(*wall, figure.wall.as_secs_f64());
            study.record(*cpu, figure.cpu.as_secs_f64());
        }
    }
    for (name, ours, peer, job, target) in comparisons() {
        let series = |wanted: Contender| {
            let side = running.iter().find(|side| side.contender == wanted)?;
            let index = wanted.jobs().iter().position(|own| *own == job)?;
            (!side.has_failed).then_some(side.series[index])
        };
        if let (Some(ours), Some(peer)) = (series(ours), series(peer)) {
            study.ratio(&name, ours.0, peer.0, target);
            study.ratio(&cpu_name(&name), ours.1, peer.1, None);
        }
    }
    Ok(())
}

/// Cost of a job.
#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    /// Processor time of all processes that serve the mount.
    cpu: Duration,
}

/// A contender, and where its samples go.
struct Running {
    contender: Contender,
    /// True if it is left out from now on.
    has_failed: bool,
    /// Series of each of its jobs: time, and processor time.
    series: Vec<(SeriesId, SeriesId)>,
}

impl Running {
    fn new(study: &mut Study, contender: Contender) -> Self {
        let series = contender.jobs().iter().map(|job| {
            let name = format!("mount_{}_{}", job.name(), contender.name());
            let mut add = |name, unit| study.series(name, unit, Better::Lower, job.workload());
            (add(name.clone(), "s"), add(format!("{name}_cpu"), "CPU s"))
        });
        Self {
            contender,
            has_failed: false,
            series: series.collect(),
        }
    }

    /// Does all jobs once, on a file system of its own. A contender that fails is left out, and there is a warning.
    fn take_turn(&mut self, originals: &Originals, study: &mut Study) -> Result<Vec<Cost>, Error> {
        originals.room.check()?;
        if self.has_failed {
            return Ok(Vec::new());
        }
        match originals.turn(self.contender) {
            Ok(costs) => Ok(costs),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                let name = self.contender.name();
                study.warn(format!("{name}: {error}; its ratios are left out"));
                self.has_failed = true;
                Ok(Vec::new())
            }
        }
    }
}

/// The file systems that each turn begins with.
struct Originals<'a> {
    room: &'a Room,
    scrim: &'a Path,
    key_file: PathBuf,
    archive: PathBuf,
    /// Images of a file system without files, plain and encrypted.
    empty: [PathBuf; 2],
    /// The same with the source tree.
    filled: [PathBuf; 2],
}

impl<'a> Originals<'a> {
    fn make(room: &'a Room, scrim: &'a Path) -> Result<Self, Error> {
        // Four originals, one copy, and the files of gocryptfs.
        room.reserve((SIZE + LUKS1_ROOM) * 6)?;
        let key_file = room.write("key", PASSPHRASE)?;
        let archive = room.path("sources.tar");
        let mut pack = room.command(TAR.program);
        pack.arg("-C")
            .arg(workspace_root())
            .arg("-cf")
            .arg(&archive);
        run(TAR.program, pack.args(SOURCES))?;
        let tree = room.path("tree");
        extract(room, &archive, &tree)?;

        let mut originals = Self {
            room,
            scrim,
            key_file,
            archive,
            empty: [PathBuf::new(), PathBuf::new()],
            filled: [PathBuf::new(), PathBuf::new()],
        };
        originals.empty = originals.images("empty", None)?;
        originals.filled = originals.images("filled", Some(&tree))?;
        Ok(originals)
    }

    /// Makes a file system with the files of `tree`, as a plain image and as a LUKS image with the same plaintext.
    fn images(&self, name: &str, tree: Option<&Path>) -> Result<[PathBuf; 2], Error> {
        let plain = self.room.path(&format!("{name}.plain"));
        let sized = File::create(&plain).and_then(|file| file.set_len(SIZE));
        sized.doing(|| format!("make {}", plain.display()))?;
        let mut format = self.room.command(MKE2FS.program);
        format.args(["-q", "-F", "-t", "ext4"]);
        if let Some(tree) = tree {
            format.arg("-d").arg(tree);
        }
        run(MKE2FS.program, format.arg(&plain))?;

        let luks = image::noise(self.room, &format!("{name}.luks"), SIZE + LUKS1_ROOM)?;
        image::luks_format(self.room, &luks, &self.key_file, &LUKS1.map(str::to_owned))?;
        let place = self.room.path("encrypt.mount");
        let options = ["--raw", "--name", "plaintext"];
        let mounted = self.mount_scrim(&luks, place.clone(), &options)?;
        let file = place.join("plaintext");
        let copied = File::open(&plain).and_then(|mut from| {
            let mut to = File::options().write(true).open(&file)?;
            copy_in_calls(&mut from, &mut to)
        });
        copied.doing(|| format!("copy {} to {}", plain.display(), file.display()))?;
        drop(mounted);
        Ok([plain, luks])
    }

    /// Does all jobs of a contender once.
    fn turn(&self, contender: Contender) -> Result<Vec<Cost>, Error> {
        let disk = self.disk(contender)?;
        let mut costs = Vec::new();
        for job in contender.jobs() {
            self.room.check()?;
            // A mount for each job: its caches are empty.
            let place = self.room.path(&format!("{}.mount", contender.name()));
            let mounted = self.mount(contender, &disk, place.clone())?;
            let before = mounted.cpu_time()?;
            let start = Instant::now();
            self.work(*job, &place)?;
            let wall = start.elapsed();
            let cpu = mounted.cpu_time()?.saturating_sub(before);
            costs.push(Cost { wall, cpu });
        }
        let removed = match contender {
            Contender::Gocryptfs => fs::remove_dir_all(&disk),
            _ => fs::remove_file(&disk),
        };
        removed.doing(|| format!("remove {}", disk.display()))?;
        Ok(costs)
    }

    /// A new file system for one turn.
    fn disk(&self, contender: Contender) -> Result<PathBuf, Error> {
        let disk = self.room.path(&format!("{}.disk", contender.name()));
        if contender == Contender::Gocryptfs {
            make_directory(&disk)?;
            let mut init = self.room.command(GOCRYPTFS.program);
            init.args(["-init", "-q", "-passfile"]).arg(&self.key_file);
            run(GOCRYPTFS.program, init.arg(&disk))?;
            return Ok(disk);
        }
        let originals = match contender.is_reader() {
            true => &self.filled,
            false => &self.empty,
        };
        let original = &originals[usize::from(contender.is_encrypted())];
        image::copy(self.room, original, &format!("{}.disk", contender.name()))
    }

    fn mount(&self, contender: Contender, disk: &Path, place: PathBuf) -> Result<Mounted, Error> {
        let mut command = match contender {
            Contender::Scrim => return self.mount_scrim(disk, place, &["--method", "program"]),
            Contender::ScrimReader => {
                return self.mount_scrim(disk, place, &["--readonly", "--method", "scrim"]);
            }
            Contender::ScrimCachedReader => {
                let options = ["--readonly", "--method", "scrim", "--page-cache"];
                return self.mount_scrim(disk, place, &options);
            }
            Contender::Fuse2fs | Contender::Fuse2fsReader => {
                let mut command = self.room.command(FUSE2FS.program);
                let options = match contender.is_reader() {
                    true => "fakeroot,ro",
                    // As Scrim calls it.
                    false => "fakeroot",
                };
                command.args(["-f", "-o", options]);
                command
            }
            Contender::Gocryptfs => {
                let mut command = self.room.command(GOCRYPTFS.program);
                command.args(["-fg", "-q", "-passfile"]).arg(&self.key_file);
                command
            }
        };
        command.arg(disk).arg(&place);
        ensure_directory(&place)?;
        let mut mounted = Mounted::new(place, Vec::new());
        mounted.start(self.room, contender.name(), &mut command)?;
        Ok(mounted)
    }

    fn mount_scrim(&self, disk: &Path, place: PathBuf, options: &[&str]) -> Result<Mounted, Error> {
        let mut command = self.room.command(self.scrim);
        command.args(["mount", "--foreground", "--key-file"]);
        command.arg(&self.key_file).args(options);
        command.arg(disk).arg(&place);
        ensure_directory(&place)?;
        let mut mounted = Mounted::new(place, Vec::new());
        mounted.start(self.room, "scrim_mount", &mut command)?;
        Ok(mounted)
    }

    fn work(&self, job: Job, place: &Path) -> Result<(), Error> {
        let tree = place.join("tree");
        let large = place.join(LARGE_NAME);
        let done = match job {
            Job::Extract => return extract(self.room, &self.archive, &tree),
            // A file system that was made with the tree has it at the top.
            Job::ReadTree if tree.exists() => read_tree(&tree, &mut vec![0; CALL]),
            Job::ReadTree => read_tree(place, &mut vec![0; CALL]),
            Job::WriteLarge => write_large(&large),
            Job::ReadLarge => read_file(&large, &mut vec![0; CALL]),
        };
        done.doing(|| format!("do the job {} in {}", job.name(), place.display()))
    }
}

fn ensure_directory(path: &Path) -> Result<(), Error> {
    match path.is_dir() {
        true => Ok(()),
        false => make_directory(path),
    }
}

/// Extracts the archive into `tree`, several times.
fn extract(room: &Room, archive: &Path, tree: &Path) -> Result<(), Error> {
    make_directory(tree)?;
    for copy in 0..COPIES {
        let place = tree.join(copy.to_string());
        make_directory(&place)?;
        let mut command = room.command(TAR.program);
        command.args(["--no-same-owner", "-xf"]).arg(archive);
        run(TAR.program, command.arg("-C").arg(place))?;
    }
    Ok(())
}

/// Reads every file below `directory`.
fn read_tree(directory: &Path, buffer: &mut [u8]) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() {
            read_file(&entry.path(), buffer)?;
        } else if kind.is_dir() && entry.file_name() != "lost+found" {
            read_tree(&entry.path(), buffer)?;
        }
    }
    Ok(())
}

fn read_file(path: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let mut file = File::open(path)?;
    while file.read(buffer)? > 0 {}
    Ok(())
}

fn write_large(path: &Path) -> io::Result<()> {
    let data = vec![0x5a; CALL];
    let mut file = File::create(path)?;
    for _ in 0..LARGE / CALL as u64 {
        file.write_all(&data)?;
    }
    file.sync_all()
}

/// Copies all of `from` in long calls, and makes it durable.
fn copy_in_calls(from: &mut File, to: &mut File) -> io::Result<()> {
    let mut buffer = vec![0; CALL];
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return to.sync_all();
        }
        to.write_all(&buffer[..len])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 20);
        for (name, expected) in [
            ("mount_extract_vs_fuse2fs_plain", Some(0.85)),
            ("mount_large_write_vs_gocryptfs", None),
            ("mount_large_read_cpu_vs_fuse2fs_plain", None),
            ("mount_tree_read_vs_fuse2fs_ro", None),
            ("mount_tree_read_cached_vs_fuse2fs_ro", Some(2.0)),
        ] {
            let found = promises.iter().find(|(ratio, _)| ratio == name).unwrap();
            assert_eq!(found.1, expected, "{name}");
        }
    }

    #[test]
    fn a_tree_is_read_to_its_last_file() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), "content").unwrap();
        let mut buffer = [0; 4];
        read_tree(place.path(), &mut buffer).unwrap();
        assert_eq!(&buffer, b"entt");
        assert!(read_tree(&place.path().join("absent"), &mut buffer).is_err());
    }
}
