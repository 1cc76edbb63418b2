//! Volumes on images of a real Ceph cluster: its programs `rbd`, `ceph` and qemu's driver beside Scrim; two writers, of
//! which one is alive, dead or cut off (`writers`); daemons that are killed under load, and a pool that is full
//! (`faults`); and servers of a snapshot (`servers`).
//!
//! All tests share one cluster, which ends with their process. Debian's ceph-mon, ceph-osd, ceph-mgr and ceph-common are
//! not among the packages that every test run installs: without them the tests are skipped, in CI too. The stage `ceph`
//! installs them.

mod faults;
mod servers;
mod writers;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::support::{
    Background, Place, assert_same, have, have_rare, noise, scrim, script, succeeded, wait_until,
};
use crate::volume::CHEAP;

/// Programs of the cluster and its clients.
const PROGRAMS: [&str; 7] = [
    "ceph-mon",
    "ceph-osd",
    "ceph-mgr",
    "ceph-authtool",
    "monmaptool",
    "ceph",
    "rbd",
];

/// Bytes of an image before its data, by default.
const OFFSET: u64 = 16 << 20;
/// Bytes of a volume's data.
const PAYLOAD: usize = 8 << 20;

/// Folder of the cluster, which the first call starts; `None` where its programs are missing.
fn cluster() -> Option<&'static Path> {
    static STARTED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        if !have_rare(&PROGRAMS, "ceph-mon ceph-osd ceph-mgr ceph-common") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap().keep();
        let place = Place::new();
        let output = place
            .command(script("ceph.sh"))
            .arg("start")
            .arg(&folder)
            .arg(std::process::id().to_string())
            .output();
        succeeded("ceph.sh start", &output.unwrap());
        Some(folder)
    });
    started.as_deref()
}

/// A place for a test, and its cluster.
struct Ceph {
    place: Place,
    folder: &'static Path,
}

impl Ceph {
    fn find() -> Option<Self> {
        let folder = cluster()?;
        let place = Place::new();
        place.write("key", "open sesame");
        place.write("other", "another key");
        Some(Self { place, folder })
    }

    /// An image as Scrim names it.
    fn name(&self, image: &str) -> String {
        format!("rbd:pool/{image}?conf={}/ceph.conf", self.folder.display())
    }

    fn rbd(&self, words: &str) -> String {
        let conf = self.folder.join("ceph.conf");
        let words = words.split_whitespace();
        let options = ["120", "rbd", "--conf", conf.to_str().unwrap()].into_iter();
        self.place.run("timeout", options.chain(words))
    }

    fn ceph(&self, words: &str) -> String {
        let conf = self.folder.join("ceph.conf");
        let options = ["120", "ceph", "--conf", conf.to_str().unwrap()].into_iter();
        self.place
            .run("timeout", options.chain(words.split_whitespace()))
    }

    /// Kills a daemon of the cluster until the result is dropped, also by a test that fails: all share the cluster, of
    /// which one daemon at a time is missing.
    fn without(&self, daemon: &'static str) -> Killed<'_> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let turn = ONE_AT_A_TIME.lock();
        let turn = turn.unwrap_or_else(PoisonError::into_inner);
        let file = self.folder.join(format!("{daemon}.pid"));
        let pid = std::fs::read_to_string(file).unwrap();
        self.place.run("kill", ["-KILL", pid.trim()]);
        let gone = Path::new("/proc").join(pid.trim());
        wait_until("the daemon is gone", || !gone.exists());
        Killed {
            ceph: self,
            daemon,
            _turn: turn,
        }
    }

    /// Makes an image that is no volume yet, with room for `payload` bytes.
    fn create(&self, image: &str, payload: usize) -> String {
        let size = OFFSET + payload as u64;
        self.rbd(&format!("create --size {size}B pool/{image}"));
        self.name(image)
    }

    /// Runs `scrim`, whatever its exit code.
    fn try_scrim(&self, words: &str) -> Output {
        let words = format!("240 {} {words}", scrim());
        self.place
            .run_with_input("timeout", words.split_whitespace(), b"")
    }

    fn scrim(&self, words: &str) -> String {
        succeeded(words, &self.try_scrim(words))
    }

    /// Runs `scrim`, which must fail with this code and say this.
    #[track_caller]
    fn refuses(&self, words: &str, code: i32, parts: &[&str]) {
        let output = self.try_scrim(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        for part in parts {
            assert!(said.contains(part), "{words}: {part:?} is not in {said}");
        }
    }

    /// Makes a volume on a new image.
    fn format(&self, image: &str) -> String {
        let name = self.create(image, PAYLOAD);
        self.scrim(&format!("format {CHEAP} -q --key-file key {name}"));
        name
    }

    fn status(&self, volume: &str) -> serde_json::Value {
        let status = self.scrim(&format!("status {volume} --json"));
        serde_json::from_str(&status).unwrap()
    }

    fn lock(&self, volume: &str) -> String {
        let status = self.status(volume);
        status["cluster_images"][0]["exclusive_lock"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Address of the plaintext of an open volume.
    fn uri(&self, volume: &str) -> String {
        let socket = self.place.path(&format!("run/scrim/{volume}.nbd"));
        format!("nbd+unix:///?socket={}", socket.display())
    }

    /// Sends a signal to the process that serves a volume.
    fn signal(&self, volume: &str, signal: &str) {
        let pid = self.status(volume)["pid"].to_string();
        self.place.run("kill", [signal, &pid]);
    }
}

/// A daemon that was killed.
struct Killed<'a> {
    ceph: &'a Ceph,
    daemon: &'static str,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        let mut command = self.ceph.place.command(script("ceph.sh"));
        let command = command.arg(format!("start-{}", self.daemon));
        let output = command.arg(self.ceph.folder).output().unwrap();
        if !std::thread::panicking() {
            succeeded(self.daemon, &output);
            // An OSD needs a monitor until it is up.
            self.ceph.rbd("ls pool");
        }
    }
}

#[test]
fn a_volume_lives_on_an_image_of_a_cluster() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy", "cryptsetup"]) {
        return;
    }
    let name = ceph.format("cycle");
    for words in [
        format!("isLuks {name}"),
        format!("luksUUID {name}"),
        format!("add-key {CHEAP} --key-file key {name} other"),
        format!("test-passphrase --key-file other {name}"),
        format!("config --label remote {name}"),
        format!("header-backup --header-backup-file backup {name}"),
    ] {
        ceph.scrim(&words);
    }
    let dump = ceph.try_scrim(&format!("dump {name}"));
    assert!(succeeded("dump", &dump).contains("remote"));
    assert!(
        dump.stderr.is_empty(),
        "librados has written to the terminal: {dump:?}"
    );
    let uri = ceph.scrim(&format!(
        "open --persistent --perf-no_read_workqueue --key-file key {name} cycle"
    ));
    let status = ceph.scrim("status cycle");
    assert!(
        status.contains("exclusive lock held, objects of 4194304 bytes"),
        "{status}"
    );
    assert!(ceph.scrim("table cycle").contains(" rbd:pool/cycle?conf="));
    assert!(ceph.scrim("list").contains("rbd:pool/cycle?conf="));
    let bytes = noise(PAYLOAD, 7);
    ceph.place.copy_in(&bytes, uri.trim());
    assert_same(
        &ceph.place.copy_out(uri.trim()),
        &bytes,
        "through the cluster",
    );
    ceph.scrim("close cycle");

    ceph.rbd(&format!(
        "export pool/cycle {}",
        ceph.place.path("disk.img").display()
    ));
    ceph.place
        .cryptsetup("luksOpen --test-passphrase --key-file other disk.img");
    let dump = ceph.place.cryptsetup("luksDump disk.img");
    assert!(
        dump.contains("Label:         \tremote") && dump.contains("no-read-workqueue"),
        "{dump}"
    );
    ceph.scrim("export -q disk.img from-file --key-file key");
    ceph.scrim(&format!("export -q {name} from-image --key-file other"));
    for file in ["from-file", "from-image"] {
        assert_same(&std::fs::read(ceph.place.path(file)).unwrap(), &bytes, file);
    }

    let copy = ceph.create("copy", PAYLOAD);
    ceph.scrim(&format!(
        "import -q from-file {copy} --key-file key {CHEAP}"
    ));
    ceph.scrim(&format!("export -q {copy} again --key-file key"));
    assert_same(
        &std::fs::read(ceph.place.path("again")).unwrap(),
        &bytes,
        "imported",
    );
}

#[test]
fn qemu_and_librbd_have_the_same_volumes() {
    let Some(ceph) = Ceph::find() else { return };
    let name = ceph.format("shared");
    if have(&["qemu-nbd"]) && Path::new("/usr/lib/x86_64-linux-gnu/qemu/block-rbd.so").exists() {
        let image = format!("rbd:pool/shared:conf={}/ceph.conf", ceph.folder.display());
        let mut qemu = ceph.place.command("qemu-nbd");
        qemu.args(["--persistent", "--read-only", "--format=raw", "--socket"]);
        qemu.arg(ceph.place.path("socket")).arg(image);
        let _qemu = Background::start(&mut qemu);
        wait_until("qemu-nbd serves", || ceph.place.path("socket").exists());
        let socket = "nbd+unix:///?socket=socket";
        let dumps = [&*name, socket].map(|image| ceph.scrim(&format!("dump {image}")));
        assert_eq!(dumps[0], dumps[1]);
    }
    // librbd's own encryption makes LUKS headers.
    let name = ceph.create("librbd", 32 << 20);
    let key = ceph.place.path("key");
    ceph.rbd(&format!(
        "encryption format pool/librbd luks2 {}",
        key.display()
    ));
    ceph.scrim(&format!("add-key {CHEAP} --key-file key {name} other"));
    ceph.scrim(&format!("open --key-file other {name} librbd"));
    ceph.scrim("close librbd");
}

#[test]
fn a_snapshot_has_one_moment_and_is_only_read() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    let name = ceph.format("snapped");
    let uri = ceph.scrim(&format!("open --key-file key {name} snapped"));
    let [before, after] = [1, 2].map(|seed| noise(PAYLOAD, seed));
    ceph.place.copy_in(&before, uri.trim());
    let conf = ceph.folder.display();
    ceph.scrim(&format!(
        "snapshot snapped -- rbd --conf {conf}/ceph.conf snap create pool/snapped@first"
    ));
    ceph.place.copy_in(&after, uri.trim());
    let snapshot = name.replace('?', "@first?");
    let old = ceph.scrim(&format!("open --key-file key {snapshot} first"));
    assert_same(&ceph.place.copy_out(old.trim()), &before, "the snapshot");
    assert_same(&ceph.place.copy_out(uri.trim()), &after, "the image");
    let status = ceph.scrim("status first");
    assert!(
        status.contains("readonly") && status.contains("no lock"),
        "{status}"
    );
    ceph.refuses(
        &format!("add-key {CHEAP} --key-file key {snapshot} other"),
        4,
        &["a snapshot can only be read", "rbd clone"],
    );
}

#[test]
fn a_resized_image_makes_a_resized_volume() {
    let Some(ceph) = Ceph::find() else { return };
    let name = ceph.format("grown");
    ceph.scrim(&format!("open --key-file key {name} grown"));
    ceph.scrim(&format!("open --readonly --key-file key {name} reader"));
    let sectors = |volume| ceph.status(volume)["size_sectors"].as_u64().unwrap();
    assert_eq!(sectors("grown"), PAYLOAD as u64 / 512);
    let size = OFFSET + 2 * PAYLOAD as u64;
    ceph.rbd(&format!("resize --size {size}B pool/grown"));
    for volume in ["grown", "reader"] {
        ceph.scrim(&format!("resize {volume}"));
        assert_eq!(sectors(volume), 2 * PAYLOAD as u64 / 512, "{volume}");
    }
    let end = format!(
        "nbd+unix:///?socket={}",
        ceph.place.path("run/scrim/grown.nbd").display()
    );
    if have(&["nbdcopy"]) {
        ceph.place.copy_in(&noise(2 * PAYLOAD, 3), &end);
    }
}

/// Interrupted in the midst, and killed: the cluster forgets a killed client, and its lock, after some time.
#[test]
fn an_image_is_encrypted_where_it_lies() {
    let Some(ceph) = Ceph::find() else {
        return;
    };
    let bytes = noise(64 << 20, 5);
    let mut raw = bytes.clone();
    raw.resize((64 + 33) << 20, 0);
    ceph.place.write("raw", raw);
    ceph.rbd("import raw pool/inplace");
    let name = ceph.name("inplace");
    let line = format!("encrypt --in-place {name} -q -d key {CHEAP}");
    ceph.refuses(&line, 1, &["--reduce-device-size"]);
    let line = format!("{line} --reduce-device-size 33M");
    for signal in ["-INT", "-KILL"] {
        let mut command = ceph.place.command(scrim());
        let mut run = Background::start(command.args(line.split_whitespace()));
        wait_until("there is a header", || {
            let dumped = ceph.try_scrim(&format!("dump {name}"));
            dumped.status.success() || run.0.try_wait().unwrap().is_some()
        });
        let pid = run.0.id().to_string();
        let _ = ceph.place.command("kill").args([signal, &pid]).status();
        run.0.wait().unwrap();
    }
    wait_until("the last run comes to its end", || {
        let output = ceph.try_scrim(&line);
        let said = String::from_utf8_lossy(&output.stderr);
        output.status.success() || said.contains("is a LUKS2 volume already")
    });
    ceph.scrim(&format!("export {name} back -d key"));
    let back = std::fs::read(ceph.place.path("back")).unwrap();
    assert_same(&back[..bytes.len()], &bytes, "the data");
    ceph.rbd("rm --no-progress pool/inplace");
}

#[test]
fn a_second_writer_is_refused_by_name_and_readers_are_not() {
    let Some(ceph) = Ceph::find() else { return };
    let name = ceph.format("single");
    ceph.scrim(&format!("open --key-file key {name} single"));
    let client = ceph.status("single")["cluster_images"][0]["client"].to_string();
    let owner = format!("client.{client} at 127.0.0.1:0/");
    ceph.refuses(
        &format!("open --key-file key {name} second"),
        5,
        &[
            &owner,
            "exclusive lock",
            "close it there",
            "it is open as single",
        ],
    );
    ceph.refuses(
        &format!("add-key {CHEAP} --key-file key {name} other"),
        5,
        &[&owner],
    );
    ceph.refuses(
        &format!("format {CHEAP} -q --key-file key {name}"),
        5,
        &[&owner],
    );
    ceph.scrim(&format!("dump {name}"));
    ceph.scrim(&format!("open --readonly --key-file key {name} reader"));
    assert_eq!(
        [ceph.lock("single"), ceph.lock("reader")],
        ["held", "unneeded"]
    );
    // Once it is closed the lock is free at once.
    ceph.scrim("close single");
    ceph.scrim(&format!("open --key-file key {name} second"));
}

#[test]
fn a_clone_has_one_header_with_its_parent() {
    let Some(ceph) = Ceph::find() else { return };
    let parent = ceph.format("parent");
    ceph.rbd("snap create pool/parent@base");
    ceph.rbd("snap protect pool/parent@base");
    ceph.rbd("clone pool/parent@base pool/child");
    let child = ceph.name("child");
    ceph.scrim(&format!("add-key {CHEAP} --key-file key {child} other"));
    ceph.scrim(&format!("open --key-file other {child} child"));
    ceph.scrim("close child");
    ceph.refuses(
        &format!("format {CHEAP} -q --key-file key {child}"),
        4,
        &["it is a clone of pool/parent@base, a LUKS volume"],
    );
    ceph.format("stranger");
    let stranger = ceph.name("stranger");
    ceph.scrim(&format!(
        "header-backup --header-backup-file backup {stranger}"
    ));
    ceph.scrim(&format!(
        "header-restore -q --header-backup-file backup {child}"
    ));
    for image in [&child, &child.replace('?', "@later?")] {
        if image.contains("@later") {
            ceph.rbd("snap create pool/child@later");
        }
        ceph.refuses(
            &format!("open --readonly --key-file key {image} child"),
            4,
            &["it is a clone of pool/parent@base, a LUKS volume with another header"],
        );
    }
    ceph.scrim(&format!("open --key-file key {parent} parent"));
}

#[test]
fn what_is_missing_is_named() {
    let Some(ceph) = Ceph::find() else { return };
    let name = ceph.create("plain", PAYLOAD);
    let [image, conf] = [
        &name[..name.find('?').unwrap()],
        &name[name.find('?').unwrap()..],
    ];
    for (wrong, part) in [
        (
            format!("rbd:pool/none{conf}"),
            "pool pool has no image none",
        ),
        (format!("rbd:none/plain{conf}"), "there is no pool none"),
        (
            format!("{image}@none{conf}"),
            "the image has no snapshot none",
        ),
        (
            format!("rbd:pool/space/plain{conf}"),
            "namespace space of pool pool has no image plain",
        ),
        (
            format!("{image}?conf=/none"),
            "Ceph's configuration cannot be used",
        ),
        (format!("{name}&id=nobody"), "ceph auth get"),
        (format!("{name}&key=x"), "there is no option key"),
        ("rbd:plain".to_owned(), "write rbd:POOL/IMAGE"),
    ] {
        ceph.refuses(&format!("dump {wrong}"), 4, &[part]);
    }
    ceph.rbd(&format!(
        "create --size {}B --image-feature layering pool/old",
        OFFSET + (1 << 20)
    ));
    let old = ceph.name("old");
    ceph.refuses(
        &format!("format {CHEAP} -q --key-file key {old}"),
        4,
        &["rbd feature enable pool/old exclusive-lock"],
    );
    ceph.scrim(&format!(
        "format {CHEAP} -q --key-file key {name}&id=writer"
    ));
    ceph.scrim(&format!(
        "open --readonly --key-file key {name}&id=reader reader"
    ));
    ceph.refuses(
        &format!("add-key {CHEAP} --key-file key {name}&id=reader other"),
        4,
        &["profile rbd"],
    );
    // A monitor that is not there: the time limit is that of the option.
    let nowhere = "[global]\nmon_host = v1:127.0.0.1:9\nauth_client_required = none\n";
    let nowhere = ceph.place.write("nowhere.conf", nowhere);
    let nowhere = format!("rbd:pool/plain?conf={}", nowhere.display());
    let open = format!("open --nbd-timeout 2 --key-file key {nowhere} nowhere");
    ceph.refuses(&open, 4, &["os error 110", "monitors run"]);
}

#[test]
fn files_of_a_volume_are_named_behind_its_image() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["mkfs.ext4"]) {
        return;
    }
    std::fs::create_dir(ceph.place.path("tree")).unwrap();
    ceph.place.write("tree/hello", "hello, cluster");
    ceph.place.sparse("ext4", PAYLOAD as u64);
    ceph.place.run("mkfs.ext4", ["-q", "-d", "tree", "ext4"]);
    let name = ceph.create("files", PAYLOAD);
    ceph.scrim(&format!("import -q ext4 {name} --key-file key {CHEAP}"));
    let listed = ceph.scrim(&format!("ls --key-file key {name}:/"));
    assert!(listed.contains("hello"), "{listed}");
    ceph.scrim(&format!("cp --key-file key {name}:/hello ."));
    assert_eq!(
        std::fs::read(ceph.place.path("hello")).unwrap(),
        b"hello, cluster"
    );
    // An image in a namespace, of a user's own configuration.
    ceph.rbd("namespace create pool/space");
    ceph.rbd("cp pool/files pool/space/files");
    let named = format!("{}:/hello", ceph.name("space/files"));
    assert_eq!(
        ceph.scrim(&format!("cat --key-file key {named}")),
        "hello, cluster"
    );
}
