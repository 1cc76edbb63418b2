//! Checks that keys, passphrases and plaintext are not in `/proc`, within reach of another process, or in
//! memory that may be swapped or dumped.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdout, ExitStatus, Stdio};

use crate::support::{
    Background, PYTHON, Place, find, have, is_root, noise, scrim, succeeded, wait_until,
};
use crate::volume::{Image, LUKS1, PASSPHRASE, PAYLOAD, USUAL};

/// A text that stands for what is in the volume.
const MARKER: &[u8] = b"a sentence that nobody else may read";

impl Image {
    /// The process that serves `secret`.
    fn server(&self) -> String {
        let status = self.place.scrim(["status", "secret", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["pid"].to_string()
    }

    /// Opened as `secret`, with the marker in it.
    fn opened_with_marker(&self) -> String {
        let uri = self.open_with("key", "secret", &[]);
        let mut bytes = noise(PAYLOAD, 1);
        bytes[5000..5000 + MARKER.len()].copy_from_slice(MARKER);
        self.place.copy_in(&bytes, &uri);
        uri
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    find(haystack, needle).is_some()
}

#[test]
fn a_secret_is_found_wherever_it_lies() {
    for needle in [&b"key"[..], b"\0key", b"\0\0", b"kkey", b"k"] {
        for before in [&b""[..], b"k", b"ke\0k", b"\0"] {
            for after in [&b""[..], b"k", b"\0\0"] {
                let whole = [before, needle, after].concat();
                let cut = &whole[..before.len() + needle.len() - 1];
                for haystack in [&whole, cut] {
                    let mut places = haystack.windows(needle.len());
                    let expected = places.position(|place| place == needle);
                    assert_eq!(find(haystack, needle), expected, "{haystack:?} {needle:?}");
                }
            }
        }
    }
    assert_eq!(find(b"", b"\0key"), None);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn proc_and_the_disk_show_no_secret() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let key = image.dump_volume_key();
    image.opened_with_marker();
    let pid = image.server();
    let mut shown = Vec::new();
    for name in ["cmdline", "environ", "comm", "status", "maps", "mountinfo"] {
        // Some are closed even to their owner.
        shown.extend(fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default());
    }
    for words in [&["status", "secret"][..], &["table", "secret"], &["list"]] {
        shown.extend(image.place.scrim(words).into_bytes());
    }
    let hex_key = hex(&key);
    for secret in [PASSPHRASE.as_bytes(), &key, hex_key.as_bytes(), MARKER] {
        assert!(!contains(&shown, secret));
    }
    let table = image.place.scrim(["table", "secret", "--showkeys"]);
    assert!(table.contains(&hex_key), "only where it is asked for");
    image.place.close("secret");
    let disk = fs::read(image.place.path("disk.img")).unwrap();
    for secret in [PASSPHRASE.as_bytes(), &key, MARKER] {
        assert!(!contains(&disk, secret));
    }
}

/// A mapping of a process.
struct Mapping {
    name: String,
    start: u64,
    len: usize,
    flags: Vec<String>,
}

impl Mapping {
    /// True if it is locked, and left out of core dumps.
    fn is_for_secrets(&self) -> bool {
        let has = |flag: &str| self.flags.iter().any(|f| f == flag);
        has("lo") && has("dd")
    }
}

/// `/proc/PID/smaps`, as far as it can be read and written.
fn mappings(pid: &str) -> Vec<Mapping> {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut found: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags: ") {
            let last = found.last_mut().unwrap();
            last.flags = flags.split_whitespace().map(str::to_owned).collect();
            continue;
        }
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let numbers = range.map(|(start, end)| {
            let number = |text| u64::from_str_radix(text, 16).ok();
            (number(start), number(end))
        });
        if let Some((Some(start), Some(end))) = numbers {
            found.push(Mapping {
                name: line.to_owned(),
                start,
                len: usize::try_from(end - start).unwrap(),
                flags: Vec::new(),
            });
        }
    }
    found.retain(|mapping| mapping.flags.iter().any(|flag| flag == "wr"));
    found
}

/// Where in a process's writable memory `needle` lies outside of what is locked and left out of
/// dumps; and whether it was found at all.
fn strays(pid: &str, needle: &[u8]) -> (Vec<String>, bool) {
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let (mut strays, mut found) = (Vec::new(), false);
    for mapping in mappings(pid) {
        let mut bytes = vec![0; mapping.len];
        memory.seek(SeekFrom::Start(mapping.start)).unwrap();
        if memory.read_exact(&mut bytes).is_err() || !contains(&bytes, needle) {
            continue;
        }
        found = true;
        if !mapping.is_for_secrets() {
            strays.push(mapping.name);
        }
    }
    (strays, found)
}

/// Root may read the memory: the volume key lies only in memory that is locked and never dumped, and the
/// passphrase nowhere at all once the volume is open.
#[test]
fn keys_lie_only_in_locked_memory() {
    if !is_root() || !have(&["cryptsetup", "nbdcopy"]) {
        println!("skipped: only root can look into the process");
        return;
    }
    for case in [LUKS1[1], USUAL] {
        let image = Image::made_by_cryptsetup(case);
        let key = image.dump_volume_key();
        image.opened_with_marker();
        let pid = image.server();
        assert!(mappings(&pid).iter().any(Mapping::is_for_secrets));
        image.place.scrim(["table", "secret"]);
        let table = image.place.scrim(["table", "secret", "--showkeys"]);
        // Twice, so that the first one is gone by then, and one that is refused.
        for options in ["", "", " 1 fast"] {
            let line = table.replace('\n', options);
            let args = ["reload", "secret"];
            let loaded = image.place.run_with_input(scrim(), args, line.as_bytes());
            assert_eq!(loaded.status.success(), options.is_empty(), "{loaded:?}");
            image.place.scrim(["resume", "secret"]);
        }
        image
            .place
            .scrim(["refresh", "secret", "--data-path", "queued"]);
        // XTS has two keys; each of them, and the start of each as an expanded key has it.
        let (first, second) = key.split_at(key.len() / 2);
        let hex_first = hex(first);
        for half in [first, second, hex_first.as_bytes()] {
            for part in [&half[..16], &half[16..32]] {
                let (strays, _) = strays(&pid, part);
                assert!(strays.is_empty(), "{case:?}: in {strays:?}");
            }
        }
        let (_, found) = strays(&pid, &first[..16]);
        assert!(
            found,
            "the key was looked for in vain, so the test proves nothing"
        );
        let (_, found) = strays(&pid, PASSPHRASE.as_bytes());
        assert!(!found, "{case:?}: the passphrase is still there");
        image.place.close("secret");
    }
}

/// A client of the socket in its argument: it asks for a durable write at 512 KiB, sends half of a write of 512 KiB at 1280 KiB,
/// and the rest once it is told to; it prints what the server says of both.
const HALF: &str = "\
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
def take(n):
    got = b''
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more: sys.exit('the server has gone')
        got += more
    return got
take(18)
s.sendall(struct.pack('>IQII', 3, 0x49484156454f5054, 1, 0))
take(10)
head = lambda flags, cookie, at, size: struct.pack('>IHHQQI', 0x25609513, flags, 1, cookie, at, size)
s.sendall(head(1, 1, 512 << 10, 4096) + b'\\x04' * 4096 + head(1, 2, 1280 << 10, 512 << 10) + b'\\x05' * (1 << 18))
print('sent', flush=True)
sys.stdin.readline()
s.sendall(b'\\x05' * (1 << 18))
print(sorted(struct.unpack('>IIQ', take(16))[1:] for _ in 'ab'), flush=True)
";

fn assert_key_is_forgotten(place: &Place) {
    let status = place.scrim(["status", "secret"]);
    assert!(status.contains("its key is forgotten"), "{status}");
    assert!(status.contains("LIVE\n"), "{status}");
    let status = place.scrim(["status", "secret", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["key"], "forgotten");
}

/// Checks that only the passphrase of `secret` resumes the volume, and that no command shows its key.
fn assert_no_way_around_the_passphrase(place: &Place) {
    for (words, expected) in [
        ("luksResume secret -d other", 2),
        ("resume secret -d key -S 7", 1),
        ("refresh secret --allow-discards", 5),
        ("resize secret --size 2048", 5),
        ("table secret --showkeys", 5),
        ("reload secret --force --table 0\u{a0}8\u{a0}zero", 5),
    ] {
        let words = words.split(' ').map(|word| word.replace('\u{a0}', " "));
        let refused = place.run_with_input(scrim(), words, b"");
        assert_eq!(refused.status.code(), Some(expected), "{refused:?}");
    }
    let masked = place.scrim(["table", "secret"]);
    let refused = place.run_with_input(scrim(), ["reload", "secret"], masked.as_bytes());
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
}

/// A client that is in the middle of a request.
struct HalfSent {
    child: Background,
    said: Lines<BufReader<ChildStdout>>,
}

impl HalfSent {
    fn start(place: &Place, uri: &str) -> Self {
        let socket = uri.split_once("socket=").unwrap().1;
        let mut command = place.command(PYTHON);
        let command = command.args(["-c", HALF, socket]);
        let mut child = Background::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut said = BufReader::new(child.0.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "sent");
        Self { child, said }
    }

    /// Sends the rest; both writes succeed.
    fn end(mut self) {
        let mut asks = self.child.0.stdin.take().unwrap();
        asks.write_all(b"\n").unwrap();
        assert_eq!(self.said.next().unwrap().unwrap(), "[(0, 1), (0, 2)]");
        assert!(self.child.0.wait().unwrap().success());
    }
}

/// `luksSuspend` leaves no key in the process, on any way to the storage, with an idle client, with one whose
/// requests wait, and with a table that was loaded; the passphrase brings it back, and nothing else does.
#[test]
fn a_suspended_volume_has_forgotten_its_key() {
    if !is_root() || !have(&["cryptsetup", "nbdcopy", "qemu-io", "kill", PYTHON]) {
        println!("skipped: only root can look into the process");
        return;
    }
    // Each waits for most of its time.
    std::thread::scope(|scope| {
        for options in [
            "--io-engine plain",
            "--io-engine threads",
            "--data-path queued",
            "--direct-io on --io-engine io_uring",
        ] {
            scope.spawn(move || forgets_its_key(options));
        }
    });
}

fn forgets_its_key(options: &str) {
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let key = image.dump_volume_key();
    let payload = image.fill_with_noise(5);
    let uri = image.open_with("key", "secret", &options.split(' ').collect::<Vec<_>>());
    let pid = image.server();
    let is_there = |key: &[u8]| strays(&pid, &key[..16]).1 || strays(&pid, &key[32..48]).1;
    assert!(
        is_there(&key),
        "{options}: looked for in vain, so the test proves nothing"
    );
    // A client that is connected and idle, and a table beside.
    let mut idle = place.command("qemu-io");
    let mut idle = idle.args(["-f", "raw", &uri]);
    idle = idle.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut idle = Background::start(idle);
    let mut asks = idle.0.stdin.take().unwrap();
    let mut said = BufReader::new(idle.0.stdout.take().unwrap()).lines();
    asks.write_all(b"read 0 64k\n").unwrap();
    said.find(|line| line.as_ref().unwrap().contains("bytes at offset"));
    let table = place.scrim(["table", "secret", "--showkeys"]);
    let loaded = place.run_with_input(scrim(), ["reload", "secret"], table.as_bytes());
    assert!(loaded.status.success(), "{loaded:?}");
    // And a client that is in the middle of a request.
    let half = HalfSent::start(place, &uri);

    place.scrim(["luksSuspend", "secret"]);
    assert!(!is_there(&key), "{options}: the key is still there");
    // As HMAC has a key on the stack.
    for pad in [0x36, 0x5c] {
        let padded: Vec<u8> = key.iter().map(|byte| byte ^ pad).collect();
        assert!(!is_there(&padded), "{options}: the key is there, padded");
    }
    asks.write_all(b"read 0 2M\n").unwrap();
    wait_until("it is held", || {
        let stats = place.scrim(["stats", "secret", "--json"]);
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats["read"]["in_flight"] != 0
    });
    place.scrim(["luksSuspend", "secret"]);
    assert_key_is_forgotten(place);

    assert_no_way_around_the_passphrase(place);
    assert!(!is_there(&key), "{options}: the key is there again");

    place.scrim(["luksResume", "secret", "--key-file", "key"]);
    // It takes the next line from its input once it has ended the one before.
    for (what, next) in [("read", &b"write -P 3 1M 64k\n"[..]), ("wrote", b"")] {
        let line = said.find(|line| line.as_ref().unwrap().contains("bytes at offset"));
        let line = line.unwrap().unwrap();
        assert!(line.contains(what), "{what}: {line}");
        asks.write_all(next).unwrap();
    }
    drop(asks);
    assert!(idle.0.wait().unwrap().success());
    half.end();
    let mut expected = payload;
    expected[512 << 10..(512 << 10) + 4096].fill(4);
    expected[1280 << 10..1792 << 10].fill(5);
    expected[1 << 20..(1 << 20) + (64 << 10)].fill(3);
    crate::support::assert_same(&place.copy_out(&uri), &expected, options);
    // With its key, options about one are refused, and a loaded table goes to work as ever.
    for words in [
        "resume secret -d key",
        "resume secret -T 5",
        "luksResume secret",
    ] {
        let refused = place.run_with_input(scrim(), words.split(' '), b"");
        assert_eq!(refused.status.code(), Some(1), "{words}: {refused:?}");
    }
    place.scrim(["suspend", "secret"]);
    assert!(is_there(&key), "{options}: `suspend` keeps the key");
    place.scrim(["resume", "secret"]);
    place.close("secret");
}

/// If a suspended volume is closed without its passphrase, the waiting requests fail and nothing is written.
#[test]
fn a_volume_without_its_key_can_be_closed() {
    if !have(&["cryptsetup", "nbdcopy", "qemu-io"]) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let payload = image.fill_with_noise(6);
    let uri = image.open_with("key", "secret", &[]);
    place.scrim(["luksSuspend", "secret"]);
    let mut writer = place.command("qemu-io");
    let writer = writer.args(["-f", "raw", "-c", "write -P 3 0 64k", &uri]);
    let mut writer = Background::start(writer.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("it is held", || {
        let stats = place.scrim(["stats", "secret", "--json"]);
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats["write"]["in_flight"] != 0
    });
    place.scrim(["close", "secret", "--force"]);
    assert!(!writer.0.wait().unwrap().success());
    crate::support::assert_same(&image.decrypt_independently(), &payload, "the payload");
    // Another header's key is not taken for the volume's.
    let uri = image.open_with("key", "secret", &[]);
    place.scrim(["luksSuspend", "secret"]);
    let uuid = place.scrim(["luksUUID", "disk.img"]);
    fs::copy(place.path("disk.img"), place.path("kept.img")).unwrap();
    place.cryptsetup(&format!(
        "luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --uuid {} disk.img key",
        uuid.trim()
    ));
    let refused = place.run_with_input(scrim(), ["luksResume", "secret", "-d", "key"], b"");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("another volume key"), "{said}");
    let kept = fs::read(place.path("kept.img")).unwrap();
    fs::write(place.path("disk.img"), kept).unwrap();
    place.scrim(["luksResume", "secret", "-d", "key"]);
    crate::support::assert_same(&place.copy_out(&uri), &payload, "the payload");
    place.close("secret");
}

/// No passphrase or key stays in memory, whichever way it comes in.
#[test]
fn what_was_read_from_standard_input_or_typed_is_forgotten() {
    if !is_root() || !have(&["cryptsetup", "nbdcopy", PYTHON]) {
        println!("skipped: only root can look into the process");
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let open = ["open", "disk.img", "secret"];
    let typed = format!("wait Enter passphrase\ntype {PASSPHRASE}\\r\n");
    for way in ["a line", "all of standard input", "typed"] {
        match way {
            "a line" => {
                let opened = place.run_with_input(scrim(), open, PASSPHRASE.as_bytes());
                succeeded(way, &opened);
            }
            "typed" => {
                place.script(
                    "terminal.py",
                    [scrim()].iter().chain(&open),
                    typed.as_bytes(),
                );
            }
            _ => {
                let args = [&open[..], &["--key-file", "-"]].concat();
                succeeded(
                    way,
                    &place.run_with_input(scrim(), args, PASSPHRASE.as_bytes()),
                );
            }
        }
        let (_, found) = strays(&image.server(), PASSPHRASE.as_bytes());
        assert!(!found, "{way}: the passphrase is still there");
        place.close("secret");
    }

    place.sparse("plain.img", 1 << 20);
    let key = hex(&noise(64, 5));
    let file = place.path("plain.img").display().to_string();
    let table = format!("0 2048 crypt aes-xts-plain64 {key} 0 {file} 0\n");
    let args = ["open", "--table", "-", "secret"];
    succeeded(
        "a table",
        &place.run_with_input(scrim(), args, table.as_bytes()),
    );
    let (strays, _) = strays(&image.server(), &key.as_bytes()[..32]);
    assert!(strays.is_empty(), "the table's key lies in {strays:?}");
    place.close("secret");
}

/// Attaches to a process as a debugger does, and prints what came of it.
const ATTACH: &str = "\
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
result = libc.ptrace(16, int(sys.argv[1]), None, None)
print(result, errno.errorcode.get(ctypes.get_errno()))
";

/// The process that holds the key belongs to its user, yet that user cannot read its memory or trace it,
/// and it leaves no core.
#[test]
fn the_process_is_closed_even_to_its_own_user() {
    if !have(&["setpriv", "chown", PYTHON]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let mut before = Vec::new();
    let mut program = "scrim";
    if is_root() {
        fs::copy(scrim(), place.path("scrim")).unwrap();
        place.run(
            "chown",
            ["-R", "65534:65534", place.dir().to_str().unwrap()],
        );
        let nobody = "--reuid=65534 --regid=65534 --clear-groups --bounding-set=-all";
        before = nobody.split(' ').collect();
        program = "./scrim";
    }
    let as_user = |words: &[&str]| {
        let mut command = place.command("setpriv");
        command.args(&before).args(words).output().unwrap()
    };
    let opened = as_user(&[program, "open", "disk.img", "secret", "-d", "key"]);
    assert!(opened.status.success(), "{opened:?}");
    let pid = image.server();
    for name in ["mem", "environ", "maps", "auxv", "syscall"] {
        let file = format!("/proc/{pid}/{name}");
        let output = as_user(&["head", "-c", "1", &file]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Permission denied"), "{name}: {said}");
    }
    // The kernel gives the files of what may not be dumped to root.
    let file = fs::metadata(format!("/proc/{pid}/environ"));
    assert_eq!(file.unwrap().uid(), 0);
    let attached = as_user(&[PYTHON, "-c", ATTACH, &pid]);
    let said = String::from_utf8_lossy(&attached.stdout);
    assert_eq!(said.trim(), "-1 EPERM", "{attached:?}");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let core: Vec<_> = core.unwrap().split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"]);
    place.close("secret");
}

impl Place {
    /// A command that would leave a core, however large, if it were killed.
    fn with_cores(&self, words: &str) -> Background {
        let mut command = self.command("sh");
        // What a shell starts in the background ignores SIGQUIT, and so does all that comes of it.
        let words = format!("ulimit -c unlimited; exec env --default-signal=QUIT {words}");
        command.args(["-c", &words]);
        Background::start(command.stdout(Stdio::piped()))
    }

    /// The files of the folder that cores come into, where the kernel writes them itself.
    fn files_beside_cores(&self) -> Vec<PathBuf> {
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
        let folder = self.path(pattern.trim());
        if pattern.starts_with('|') || !folder.parent().unwrap().is_dir() {
            return Vec::new();
        }
        let files = fs::read_dir(folder.parent().unwrap()).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn killed_by(signal: &str, mut process: Background) -> ExitStatus {
    let number = process.0.id().to_string();
    let mut ended = None;
    // Rust's runtime takes the first SIGSEGV for a fault, which would come again by itself.
    wait_until("it has ended", || {
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([signal, &number]).status().unwrap().success());
        ended = process.0.try_wait().unwrap();
        ended.is_some()
    });
    let status = ended.unwrap();
    assert!(status.signal().is_some(), "{status:?}");
    status
}

/// Where any other program leaves a core, or has it passed to what collects them, this one does not,
/// whatever limit it was started with.
#[test]
fn a_process_that_is_killed_leaves_no_core() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    let before = place.files_beside_cores();
    let other = place.with_cores("sleep 600");
    wait_until("the shell has become another program", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", other.0.id()));
        name.is_ok_and(|name| name.trim() == "sleep")
    });
    if !killed_by("-SEGV", other).core_dumped() {
        assert!(std::env::var_os("CI").is_none(), "no cores in CI");
        println!("skipped: no program leaves a core here");
        return;
    }
    for file in place.files_beside_cores() {
        if !before.contains(&file) {
            fs::remove_file(file).unwrap();
        }
    }
    for signal in ["-SEGV", "-ABRT", "-BUS", "-QUIT"] {
        let words = format!("{} open --foreground disk.img secret -d key", scrim());
        let mut server = place.with_cores(&words);
        let mut uri = String::new();
        let stdout = server.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut uri).unwrap();
        let mut bytes = noise(PAYLOAD, 1);
        bytes[5000..5000 + MARKER.len()].copy_from_slice(MARKER);
        place.copy_in(&bytes, uri.trim());
        let before = place.files_beside_cores();
        let status = killed_by(signal, server);
        assert!(!status.core_dumped(), "{signal}: {status:?}");
        assert_eq!(place.files_beside_cores(), before, "{signal}");
    }
}
