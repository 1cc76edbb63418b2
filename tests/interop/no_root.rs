//! Nothing needs root, a capability, io_uring, or permission to lock memory.

use std::fs;
use std::process::Output;

use crate::support::{PYTHON, Place, assert_same, have, is_root, noise, scrim, script, succeeded};

const COST: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 64";

/// Command by which root becomes an ordinary user before it runs anything here.
const NOBODY: &str =
    "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all";

/// A place of an ordinary user, with its own copy of `scrim`, since that user may not be able to reach
/// the one that was built.
pub(crate) struct UserHome {
    place: Place,
    /// Words before every command.
    before: Vec<String>,
}

impl UserHome {
    /// Everything runs below `wrapper`, as an ordinary user.
    pub(crate) fn new(wrapper: &str) -> Self {
        let place = Place::new();
        fs::copy(scrim(), place.path("scrim")).unwrap();
        let filter = "without_io_uring.py";
        fs::copy(script(filter), place.path(filter)).unwrap();
        place.write("key", "open sesame");
        place.write("plain", noise(2 << 20, 1));
        let mut before: Vec<String> = Vec::new();
        if is_root() {
            place.run(
                "chown",
                ["-R", "65534:65534", place.dir().to_str().unwrap()],
            );
            before.extend(NOBODY.split(' ').map(str::to_owned));
        }
        before.extend(wrapper.split_whitespace().map(str::to_owned));
        Self { place, before }
    }

    fn output(&self, line: &str) -> Output {
        let before = self.before.iter().map(String::as_str);
        let mut words: Vec<&str> = before.chain(line.split_whitespace()).collect();
        let program = words.remove(0);
        self.place.command(program).args(words).output().unwrap()
    }

    /// Runs a command as that user; returns what it wrote to standard output and standard error.
    pub(crate) fn run(&self, line: &str) -> (String, String) {
        let output = self.output(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (succeeded(line, &output), said)
    }

    /// Formats, opens, copies in; looks at the process that serves; opens again, copies out.
    /// Returns the process's `/proc/PID/status` and what `scrim status` said.
    fn whole_cycle(&self) -> (String, String) {
        self.run(&format!("./scrim format disk.img --size 18M -d key {COST}"));
        self.run("cryptsetup open --test-passphrase -d key disk.img");
        let (uri, _) = self.run("./scrim open disk.img secret -d key");
        self.run(&format!("nbdcopy --flush plain {uri}"));
        let (json, _) = self.run("./scrim status secret --json");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let process = fs::read_to_string(format!("/proc/{}/status", json["pid"])).unwrap();
        let (status, _) = self.run("./scrim status secret");
        self.run("./scrim close secret");
        let (uri, _) = self.run("./scrim open disk.img secret -d key --readonly");
        self.run(&format!("nbdcopy {uri} back"));
        self.run("./scrim close secret");
        let [plain, back] = ["plain", "back"].map(|name| fs::read(self.place.path(name)).unwrap());
        assert_same(&back, &plain, "without root");
        (process, status)
    }
}

/// The value of a line of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim_start_matches(':').trim()
}

#[test]
fn a_user_without_any_capability_needs_nothing_more() {
    if !have(&["setpriv", "chown", "nbdcopy", "cryptsetup"]) {
        return;
    }
    let (process, status) = UserHome::new("").whole_cycle();
    if is_root() {
        assert_eq!(field(&process, "Uid"), "65534\t65534\t65534\t65534");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&process, set), "0000000000000000", "{set}");
        }
    }
    assert!(!status.contains("warning"), "{status}");
}

#[test]
fn io_uring_may_be_refused() {
    if !have(&["setpriv", "chown", "nbdcopy", "cryptsetup", PYTHON]) {
        return;
    }
    let (process, _) = UserHome::new(&format!("{PYTHON} without_io_uring.py")).whole_cycle();
    assert_eq!(field(&process, "Seccomp"), "2");
    assert_eq!(field(&process, "NoNewPrivs"), "1");
}

/// An explicit `--io-engine io_uring` is refused if the system forbids it; otherwise threads are used instead.
#[test]
fn without_io_uring_there_are_threads() {
    if !have(&["setpriv", "chown", "nbdcopy", PYTHON]) {
        return;
    }
    let home = UserHome::new(&format!("{PYTHON} without_io_uring.py"));
    home.run(&format!("./scrim format disk.img --size 18M -d key {COST}"));
    let output = home.output("./scrim open disk.img secret -d key --io-engine io_uring");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no io_uring, or forbids it"), "{said}");
    home.run("./scrim open disk.img secret -d key --direct-io on");
    let (status, _) = home.run("./scrim status secret");
    assert!(status.contains("threads"), "{status}");
    home.run("./scrim close secret");
}

/// Where no memory can be locked, all works, and it is said that keys may reach swap.
#[test]
fn memory_that_cannot_be_locked_is_worth_a_warning() {
    if !have(&["setpriv", "chown", "nbdcopy", "cryptsetup", "prlimit"]) {
        return;
    }
    let home = UserHome::new("prlimit --memlock=0:0");
    let (_, status) = home.whole_cycle();
    assert!(status.contains("not every key is locked"), "{status}");
    let (_, said) = home.run("./scrim open disk.img secret -d key --readonly");
    assert!(said.contains("not every key is locked"), "{said}");
}

#[test]
fn a_file_that_may_not_be_written_is_for_reading() {
    if !have(&["setpriv", "chown", "nbdcopy"]) {
        return;
    }
    let home = UserHome::new("");
    home.run(&format!("./scrim format disk.img --size 18M -d key {COST}"));
    home.run("chmod 0444 disk.img");
    for (line, reading_helps) in [
        ("./scrim open disk.img secret -d key", true),
        ("./scrim format -q disk.img -d key", false),
        ("./scrim add-key disk.img -d key", false),
    ] {
        let output = home.output(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("check its owner and mode"), "{said}");
        assert_eq!(said.contains("--readonly"), reading_helps, "{said}");
    }
    home.run("./scrim open disk.img secret -d key --readonly");
    home.run("./scrim close secret");
}

/// Another user can neither reach the plaintext nor ask about the volume.
#[test]
fn other_users_are_kept_out() {
    if !is_root() || !have(&["setpriv", "nbdinfo"]) {
        println!("skipped: only root can become somebody else");
        return;
    }
    let home = UserHome::new("");
    home.run(&format!("./scrim format disk.img --size 18M -d key {COST}"));
    let (uri, _) = home.run("./scrim open disk.img secret -d key");
    // Even where the folders above let them through.
    home.place.run("chmod", ["0711", ".", "run"]);
    let other = NOBODY.replace("65534", "65533");
    let as_other = |line: &str| {
        let words = other.split(' ').chain(line.split_whitespace());
        let words: Vec<_> = words.collect();
        let output = home.place.command(words[0]).args(&words[1..]).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    for line in [&format!("nbdinfo {uri}"), "./scrim table --showkeys secret"] {
        let (done, said) = as_other(line);
        assert!(
            !done && (said.contains("Permission denied") || said.contains("not a folder of yours")),
            "{line}: {said}"
        );
    }
    let modes = home
        .place
        .run("stat", ["-c", "%a", "run/scrim", "run/scrim/secret.nbd"]);
    assert_eq!(modes, "700\n600\n");
}
