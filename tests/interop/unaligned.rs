//! Clients whose requests are smaller than an encryption sector, or lie across two.

use std::fs::File;
use std::process::Stdio;

use crate::support::{Background, PYTHON, Place, assert_same, have, may, noise, wait_until};
use crate::volume::{Image, PAYLOAD, USUAL};

/// Bytes of a volume that has room for a file system.
const SIZE: usize = 32 << 20;

/// libnbd checks requests against the advertised sizes before it sends them, and QEMU aligns them.
#[test]
fn libnbd_and_qemu_write_parts_of_sectors() {
    if !have(&["cryptsetup", "qemu-io", "nbdcopy", "nbdinfo"]) {
        return;
    }
    let mut python = std::process::Command::new(PYTHON);
    if !may("to use libnbd in Python", python.args(["-c", "import nbd"])) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let mut expected = image.fill_with_noise(21);
    let uri = image.open_with("key", "secret", &[]);
    let told = image.place.run("nbdinfo", ["--json", &uri]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let told = &told["exports"][0];
    assert_eq!(told["block_size_minimum"], 1, "{told}");
    assert_eq!(told["block_size_preferred"], 4096, "{told}");

    let script = "
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
strict = nbd.STRICT_ALIGN if hasattr(nbd, 'STRICT_ALIGN') else 0
h.set_strict_mode(h.get_strict_mode() | strict)
h.pwrite(b'a' * 513, 4097)
h.pwrite(b'b', 8191)
h.pwrite(b'c' * 9000, 20000)
assert h.pread(1, 8191) == b'b'
assert h.pread(513, 4097) == b'a' * 513
h.flush()
";
    image.place.run(PYTHON, ["-c", script, &uri]);
    expected[4097..4097 + 513].fill(b'a');
    expected[8191] = b'b';
    expected[20_000..29_000].fill(b'c');

    let commands = [
        "write -P 7 50003 5",
        "write -P 8 65536 513",
        "read -P 7 50003 5",
        "flush",
    ];
    let words = commands.iter().flat_map(|command| ["-c", command]);
    let words = ["-f", "raw"].into_iter().chain(words);
    let said = image.place.run("qemu-io", words.chain([uri.as_str()]));
    assert!(!said.contains("verification failed"), "{said}");
    expected[50_003..50_008].fill(7);
    expected[65_536..66_049].fill(8);

    assert_same(&image.place.copy_out(&uri), &expected, "what was written");
    image.place.close("secret");
    assert_eq!(expected.len(), PAYLOAD);
}

/// A folder in which nbdfuse shows a volume as a file, until it is dropped.
struct Shown<'a> {
    place: &'a Place,
    // Ended after the folder is unmounted.
    _nbdfuse: Background,
}

impl<'a> Shown<'a> {
    fn new(place: &'a Place, uri: &str) -> Self {
        std::fs::create_dir(place.path("shown")).unwrap();
        let mut command = place.command("nbdfuse");
        command.args(["--pidfile", "ready", "shown/volume", uri]);
        let mut nbdfuse = Background::start(command.stdout(Stdio::null()));
        wait_until("nbdfuse is ready", || {
            assert!(nbdfuse.0.try_wait().unwrap().is_none(), "nbdfuse has ended");
            place.path("ready").exists()
        });
        Self {
            place,
            _nbdfuse: nbdfuse,
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let mut command = self.place.command("fusermount3");
        let _ = command.args(["-u", "-z", "shown"]).status();
    }
}

/// A file system is made on a volume with nothing but libnbd in between, without root.
#[test]
fn nbdfuse_takes_a_file_system_on_large_sectors() {
    let programs = ["nbdfuse", "fusermount3", "mkfs.ext4", "e2fsck", "debugfs"];
    if !have(&["cryptsetup", "nbdcopy", "timeout"]) || !have(&programs) {
        return;
    }
    let mut fuse = std::process::Command::new("test");
    if !may("to use FUSE", fuse.args(["-r", "/dev/fuse"])) || File::open("/dev/fuse").is_err() {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let end = USUAL.default_offset() + SIZE;
    let file = File::options().write(true).open(place.path("disk.img"));
    file.unwrap().set_len(end as u64).unwrap();
    let bytes = noise(300_001, 22);
    std::fs::create_dir(place.path("files")).unwrap();
    place.write("files/noise", &bytes);
    let uri = image.open_with("key", "secret", &[]);

    let shown = Shown::new(place, &uri);
    // Blocks of 1 KiB: most of its requests are parts of a sector.
    let words = "60 mkfs.ext4 -q -F -b 1024 -d files shown/volume";
    place.run("timeout", words.split(' '));
    drop(shown);

    place.write("plain.img", place.copy_out(&uri));
    place.close("secret");
    place.run("e2fsck", ["-fn", "plain.img"]);
    place.run("debugfs", ["-R", "dump noise read", "plain.img"]);
    let read = std::fs::read(place.path("read")).unwrap();
    assert_same(&read, &bytes, "the file");
}
