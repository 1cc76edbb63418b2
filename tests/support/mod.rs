//! Helpers of the tests against real programs: a folder for each test, `scrim` in it, and peers that may
//! be missing outside CI.

mod noise;

use std::ffi::OsStr;
use std::io::{BufRead, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use noise::noise;

/// The Python for which Debian's python3-cryptography is installed.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A temporary folder with a runtime folder in it; everything that is open there is closed at the
/// end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// As [`Place::new`], in memory where there is room for that: for work that waits for nothing
    /// but syncs.
    pub(crate) fn in_memory() -> Self {
        let in_memory = tempfile::tempdir_in("/dev/shm");
        in_memory.map_or_else(|_| Self::new(), Self::within)
    }

    fn within(folder: tempfile::TempDir) -> Self {
        std::fs::create_dir(folder.path().join("run")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Makes a sparse file of `size` bytes.
    pub(crate) fn sparse(&self, name: &str, size: u64) -> PathBuf {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        path
    }

    /// A command with this place as its working and runtime folder.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let old = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.dir())
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env(
                "PATH",
                format!("{}:{old}:/usr/sbin:/sbin", bin_dir().display()),
            )
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }

    /// A command without a terminal, as a service manager starts it, which ends with the test's thread. At a terminal
    /// SIGHUP would end a server.
    pub(crate) fn service(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "TERM", "setsid"]).arg(program);
        command
    }

    /// Runs a program and demands success; returns its standard output.
    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> String {
        let output = self.command(program).args(args).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        succeeded(program, &output)
    }

    /// Runs `cryptsetup` with these words and demands success; one that hangs fails.
    pub(crate) fn cryptsetup(&self, words: &str) -> String {
        let words = words.split_whitespace();
        let args = ["60", "cryptsetup", "--batch-mode"].into_iter();
        self.run("timeout", args.chain(words))
    }

    /// Runs a script of `tests/support` and demands success; returns its standard output.
    pub(crate) fn script<S: AsRef<OsStr>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Vec<u8> {
        let mut words = vec![script(name).into_os_string()];
        words.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        let output = self.run_with_input(PYTHON, words, input);
        must_succeed(name, &output);
        output.stdout
    }

    /// Runs `scrim` and demands success; returns its standard output.
    pub(crate) fn scrim<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.run(scrim(), args)
    }

    /// Runs a program, feeding it `input`, whatever its exit code.
    pub(crate) fn run_with_input<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Output {
        let mut command = self.command(program);
        command.args(args).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that fails early does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Opens a volume and returns the address of its plaintext.
    pub(crate) fn open(&self, image: &str, name: &str, more: &[&str]) -> String {
        let uri = self.scrim([&["open", image, name], more].concat());
        uri.trim().to_owned()
    }

    pub(crate) fn close(&self, name: &str) {
        self.scrim(["close", name]);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Ok(entries) = std::fs::read_dir(self.path("run/scrim")) else {
            return;
        };
        for entry in entries.flatten() {
            let file = entry.file_name();
            if let Some(name) = file.to_str().and_then(|n| n.strip_suffix(".control")) {
                let _ = self
                    .command(scrim())
                    .args(["close", "--force", name])
                    .output();
            }
        }
    }
}

/// A process that ends with the test at the latest.
pub(crate) struct Background(pub(crate) Child);

impl Background {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{command:?}: {error}")),
        )
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a condition that becomes true by itself, even if late: a busy disk may keep a process that was
/// killed in the middle of an fsync for a minute.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_until_or(is_so, || what.to_owned());
}

/// The same, with a message that is made when the time is over.
#[track_caller]
pub(crate) fn wait_until_or(mut is_so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let deadline = Instant::now() + Duration::from_secs(240);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {}", what());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A script of `tests/support`.
pub(crate) fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support");
    folder.join(name)
}

/// Returns whether the tests run as root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// The program under test.
pub(crate) fn scrim() -> &'static str {
    env!("CARGO_BIN_EXE_scrim")
}

fn bin_dir() -> &'static Path {
    Path::new(scrim()).parent().unwrap()
}

/// Demands success; returns standard output.
#[track_caller]
pub(crate) fn succeeded(what: &str, output: &Output) -> String {
    must_succeed(what, output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Demands success of a program whose output is not text.
#[track_caller]
fn must_succeed(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns whether all of these programs are here. Outside CI a missing one skips the test, with a line
/// that says so; in CI it fails it.
pub(crate) fn have(programs: &[&str]) -> bool {
    let missing = missing(programs);
    if missing.is_empty() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "missing in CI, where nothing is skipped: {missing:?}"
    );
    println!("skipped: {missing:?} not installed (`make test` installs them)");
    false
}

/// As [`have`], for programs that only the stage of CI for their tests installs: elsewhere these are skipped, in CI too.
pub(crate) fn have_rare(programs: &[&str], packages: &str) -> bool {
    let missing = missing(programs);
    if !missing.is_empty() {
        println!("skipped: {missing:?} not installed (Debian: {packages})");
    }
    missing.is_empty()
}

fn missing<'a>(programs: &[&'a str]) -> Vec<&'a str> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_here = |program: &&str| {
        path.split(':')
            .any(|dir| Path::new(dir).join(program).exists())
    };
    let missing = programs.iter().copied().filter(|program| !is_here(program));
    missing.collect()
}

/// Returns whether this process has a right, which it has if the command succeeds. Outside CI a missing one, as in many
/// containers and in a chroot, skips the test, with a line that says so; in CI it fails it.
pub(crate) fn may(what: &str, command: &mut Command) -> bool {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    if output.status.success() {
        return true;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    assert!(
        std::env::var_os("CI").is_none(),
        "not allowed in CI, where nothing is skipped: {what}: {said}"
    );
    println!("skipped: not allowed here: {what}: {said}");
    false
}

/// Demands that two long byte strings are the same, and says where they are not.
#[track_caller]
pub(crate) fn assert_same(actual: &[u8], expected: &[u8], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}: lengths");
    // Tests are not optimised: byte by byte, a file of many MiB takes a second.
    if actual != expected {
        let first = actual.iter().zip(expected).position(|(a, e)| a != e);
        panic!("{what}: differs from byte {} on", first.unwrap());
    }
}

/// Index of the first `needle` in `haystack`. Tests are not optimised, and a loop over a whole process takes long. So the
/// standard library, which is, finds each place of one byte of the needle; not of a zero, which is frequent in memory.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let before = needle.iter().position(|byte| *byte != 0).unwrap_or(0);
    let mut end = before.min(haystack.len());
    loop {
        let skipped = (&haystack[end..]).skip_until(needle[before]).unwrap();
        end += skipped;
        if skipped == 0 || haystack[end - 1] != needle[before] {
            return None;
        }
        let start = end - 1 - before;
        if haystack[start..].starts_with(needle) {
            return Some(start);
        }
    }
}
