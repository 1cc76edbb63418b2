//! Volumes on images of a real Ceph cluster: its programs `rbd`, `ceph` and qemu's driver beside Scrim; a second writer, a
//! dead one and one that lives on after its lock was taken; and an OSD that is killed under load.
//!
//! All tests share one cluster, which ends with their process. Debian's ceph-mon, ceph-osd, ceph-mgr and ceph-common are
//! not among the packages that every test run installs: without them the tests are skipped, in CI too.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;

use crate::server::{Server, Site, field};
use crate::support::{
    Background, Place, assert_same, have, noise, scrim, script, succeeded, wait_until,
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
        let path = std::env::var("PATH").unwrap_or_default();
        let is_here = |program: &&str| path.split(':').any(|folder| Path::new(folder).join(program).exists());
        let missing: Vec<_> = PROGRAMS.iter().filter(|program| !is_here(program)).collect();
        if !missing.is_empty() {
            println!("skipped: {missing:?} not installed (Debian: ceph-mon ceph-osd ceph-mgr ceph-common)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap().keep();
        let place = Place::new();
        let output = place.command(script("ceph.sh")).arg("start").arg(&folder).arg(std::process::id().to_string()).output();
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

    /// Sends a signal to the process that serves a volume.
    fn signal(&self, volume: &str, signal: &str) {
        let pid = self.status(volume)["pid"].to_string();
        self.place.run("kill", [signal, &pid]);
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
fn the_lock_of_a_dead_writer_is_taken_over_with_what_it_flushed() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    let name = ceph.format("widowed");
    let uri = ceph.scrim(&format!("open --key-file key {name} dead"));
    let bytes = noise(PAYLOAD, 5);
    // nbdcopy flushes at the end.
    ceph.place.copy_in(&bytes, uri.trim());
    ceph.signal("dead", "-KILL");
    let open = format!("open --key-file key {name} heir");
    wait_until("the cluster forgets the dead client", || {
        ceph.try_scrim(&open).status.success()
    });
    let uri = format!(
        "nbd+unix:///?socket={}",
        ceph.place.path("run/scrim/heir.nbd").display()
    );
    assert_same(&ceph.place.copy_out(&uri), &bytes, "after the takeover");
    assert_eq!(ceph.lock("heir"), "held");
}

#[test]
fn a_writer_that_was_taken_for_dead_can_not_write() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    let name = ceph.format("fenced");
    let uri = ceph.scrim(&format!("open --key-file key {name} frozen"));
    let frozen = uri.trim();
    let pid = ceph.status("frozen")["pid"].to_string();
    ceph.signal("frozen", "-STOP");
    let open = format!("open --key-file key {name} heir");
    wait_until("the cluster forgets the stopped client", || {
        ceph.try_scrim(&open).status.success()
    });
    let heir = format!(
        "nbd+unix:///?socket={}",
        ceph.place.path("run/scrim/heir.nbd").display()
    );
    let bytes = noise(PAYLOAD, 6);
    ceph.place.copy_in(&bytes, &heir);
    ceph.place.run("kill", ["-CONT", &pid]);
    ceph.place.write("late", noise(PAYLOAD, 8));
    let late = ceph.place.run_with_input(
        "timeout",
        ["120", "nbdcopy", "--flush", "late", frozen],
        b"",
    );
    assert!(!late.status.success(), "a blocked client has written");
    assert_eq!(ceph.lock("frozen"), "lost");
    let status = ceph.scrim("status frozen");
    assert!(
        status.contains("EBLOCKLISTED: another client has taken the image over"),
        "{status}"
    );
    ceph.refuses("close frozen", 4, &["what was not flushed is lost"]);
    assert_same(
        &ceph.place.copy_out(&heir),
        &bytes,
        "beside a blocked client",
    );
}

#[test]
fn requests_wait_for_an_osd_that_is_killed() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["fio"]) {
        return;
    }
    let name = ceph.format("patient");
    let uri = ceph.scrim(&format!("open --key-file key {name} patient"));
    let line = format!(
        "--name=verify --ioengine=nbd --uri={} --rw=randwrite --bs=4k --size={PAYLOAD} --loops=2 --iodepth=16 \
         --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 --fsync=64",
        uri.trim()
    );
    let mut fio = ceph.place.command("timeout");
    fio.args(["240", "fio"])
        .args(line.split_whitespace())
        .stdout(Stdio::null());
    let mut fio = Background::start(&mut fio);
    let writes = || ceph.status("patient")["served"]["writes"].as_u64().unwrap();
    for turn in 0..2 {
        let before = writes();
        wait_until("fio writes", || {
            writes() > before + 100 || fio.0.try_wait().unwrap().is_some()
        });
        assert!(
            fio.0.try_wait().unwrap().is_none(),
            "fio has ended before turn {turn}"
        );
        let osd = std::fs::read_to_string(ceph.folder.join("osd.pid")).unwrap();
        ceph.place.run("kill", ["-KILL", osd.trim()]);
        let gone = Path::new("/proc").join(osd.trim());
        wait_until("the OSD is gone", || !gone.exists());
        // Its status is there, though no request ends.
        assert_eq!(ceph.lock("patient"), "held");
        let again = ceph
            .place
            .command(script("ceph.sh"))
            .arg("start-osd")
            .arg(ceph.folder)
            .output();
        succeeded("start-osd", &again.unwrap());
    }
    assert!(fio.0.wait().unwrap().success(), "fio has found other data");
    ceph.scrim("close patient");
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

/// Packs a version of a site, writes it over the one before, and takes a snapshot.
fn publish(ceph: &Ceph, site: &Site, version: &str) {
    site.place.write("tree/version", version);
    site.place.scrim(
        "pack tree site.img --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --size 40M --batch-mode"
            .split_whitespace(),
    );
    let to = format!("rbd:pool/site:conf={}/ceph.conf", ceph.folder.display());
    let words = ["convert", "-n", "-f", "raw", "-O", "raw", "site.img", &to];
    site.place.run("qemu-img", words);
    ceph.rbd(&format!("snap create --no-progress pool/site@{version}"));
}

#[test]
fn servers_with_the_same_snapshot_have_the_same_tags_and_go_on_to_the_next_one() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["mke2fs", "qemu-img", "curl"]) {
        return;
    }
    let site = Site::new();
    site.place.write("key", "open sesame");
    std::fs::create_dir(site.place.path("tree")).unwrap();
    let content = noise(4 << 20, 7);
    site.place.write("tree/big", &content);
    ceph.rbd("create --size 40M pool/site");
    publish(&ceph, &site, "v42");
    let configure = |version: &str| {
        let image = ceph.name(&format!("site@{version}"));
        site.configure(
            "health = '127.0.0.1:0'",
            &format!("[[site]]\nroot = '{image}#/'\nkey-file = 'key'\n"),
        );
    };
    configure("v42");
    let servers = ["one", "two"].map(|name| {
        let mut command = site.place.service(scrim());
        let command = command.args(["serve", "--config", "serve.toml"]);
        Server::start_as(name, &site, command)
    });
    let tags = |name| {
        let heads = servers.each_ref().map(|server| {
            let heads = server.curl(&["--head", &server.url("big")]);
            field(&heads, name).map(str::to_owned).expect(name)
        });
        assert_eq!(heads[0], heads[1], "{name}");
        heads[0].clone()
    };
    tags("last-modified");
    let before = tags("etag");
    publish(&ceph, &site, "v43");
    for server in &servers {
        let output = server.try_curl(&[&server.url("big")]);
        assert_same(
            &output.stdout,
            &content,
            "the old version, which is not the image's any more",
        );
        assert_eq!(server.curl(&[&server.url("version")]), "v42");
    }
    configure("v43");
    for server in &servers {
        server.reload();
        assert_eq!(server.curl(&[&server.url("version")]), "v43");
        assert_eq!(server.curl(&[&server.urls[1]]), "ready\n");
    }
    assert_ne!(tags("etag"), before);
    servers.into_iter().for_each(Server::stop);
    for version in ["v42", "v43"] {
        ceph.rbd(&format!("snap rm --no-progress pool/site@{version}"));
    }
    ceph.rbd("rm --no-progress pool/site");
}
