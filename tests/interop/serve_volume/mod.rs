//! `scrim serve IMAGE#/FOLDER`: files out of encrypted volumes of which nothing is mounted.

mod ways;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use scrim_seeded::Random;

use crate::server::{Server, Site};
use crate::support::{Background, PYTHON, find, have, is_root, noise, scrim, wait_until};

/// Options for a volume that is cheap to unlock.
const CHEAP: &str = "--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
/// Ways to ask, each with the number of its address.
const WAYS: [(&str, usize); 3] = [("--http1.1", 0), ("--http2", 0), ("--http1.1", 1)];

/// A site whose files are not in `www` but in volumes.
struct VolumeSite(Site);

impl VolumeSite {
    /// Nothing where the programs are missing.
    fn new() -> Option<Self> {
        if !have(&["curl", "mke2fs"]) {
            return None;
        }
        let site = Site::new();
        site.place.write("key", "open sesame");
        Some(Self(site))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.place.path(name)
    }

    /// A file of the tree that goes into volumes.
    fn put(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path("tree").join(name.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Makes `plain.img` of the tree, with these options of mke2fs.
    fn plain(&self, options: &str, mib: u64) {
        self.0.place.sparse("plain.img", mib << 20);
        let words = ["-q", "-F", "-d", "tree", "plain.img"].into_iter();
        self.0
            .place
            .run("mke2fs", words.chain(options.split_whitespace()));
    }

    /// Makes `NAME.img`, encrypted, of `plain.img`.
    fn encrypt(&self, name: &str, options: &str) {
        let words = format!("import plain.img {name}.img {CHEAP} {options}");
        self.0.place.scrim(words.split_whitespace());
    }

    /// Serves these ROOTs; plain HTTP is the second address.
    fn serve(&self, words: &str) -> Server<'_> {
        let usual = "--listen 127.0.0.1:0 --plain-http 127.0.0.1:0 --certificate tls/server-cert.pem \
                     --key tls/server-key.pem";
        let mut command = self.0.place.service(scrim());
        command.arg("serve").args(words.split_whitespace());
        Server::start(&self.0, command.args(usual.split_whitespace()))
    }

    /// Error text of a `scrim serve` that refuses to serve.
    fn refused(&self, words: &str) -> String {
        let mut command = self.0.place.command(scrim());
        command.arg("serve").args(words.split_whitespace());
        let output = command.arg("--check").output().unwrap();
        assert!(!output.status.success(), "{words}: it is served");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Server<'_> {
    fn bytes(&self, args: &[&str]) -> Vec<u8> {
        let output = self.try_curl(&[&["--fail"], args].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
        output.stdout
    }

    /// Fetches a file by each way.
    #[track_caller]
    fn must_have(&self, path: &str, wanted: &[u8]) {
        for (way, address) in WAYS {
            let got = self.bytes(&[way, &format!("{}{path}", self.urls[address])]);
            assert!(got == wanted, "{path} {way}: other bytes");
        }
    }

    fn status(&self, path: &str) -> String {
        let url = self.url(path);
        self.curl(&["--output", "/dev/null", "--write-out", "%{http_code}", &url])
    }
}

#[test]
fn files_of_every_kind_of_volume_come_as_they_were_put_there() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    let lens = [
        0, 1, 511, 512, 4095, 4096, 4097, 12_000, 16_384, 100_000, 3_000_001,
    ];
    let files = lens.map(|len| (len.to_string(), noise(len, len as u64)));
    for (name, bytes) in &files {
        site.put(format!("site/{name}"), bytes);
    }
    for (block, sector) in [
        ("-b 4096", ""),
        ("-b 1024", "--sector-size 4096"),
        ("-b 4096", "--type luks1"),
    ] {
        site.plain(&format!("-t ext4 {block}"), 16);
        let sector = if sector.is_empty() {
            "--sector-size 512"
        } else {
            sector
        };
        let _ = fs::remove_file(site.path("disk.img"));
        site.encrypt("disk", sector);
        for data_path in ["inline", "queued", "auto"] {
            let server = site.serve(&format!(
                "disk.img#/site --key-file key --data-path {data_path}"
            ));
            for (name, bytes) in &files {
                server.must_have(name, bytes);
            }
            server.stop();
        }
    }
}

#[test]
fn ranges_of_a_file_with_holes_and_fragments_are_those_of_the_file() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    let path = site.put("file", noise(400_000, 1));
    let file = File::options().write(true).open(&path).unwrap();
    for offset in [1_000_000, 1_300_001, 2_222_222] {
        file.write_all_at(&noise(77_777, offset), offset).unwrap();
    }
    file.set_len(3_000_000).unwrap();
    let bytes = fs::read(&path).unwrap();
    for block in [1024, 4096] {
        site.plain(&format!("-t ext4 -b {block}"), 16);
        site.encrypt(&format!("disk{block}"), "");
        let server = site.serve(&format!("disk{block}.img#/ --key-file key"));
        let url = server.url("file");
        let mut random = Random::new(1);
        for _ in 0..40 {
            let from = random.index(bytes.len());
            let len = random.index(200_000);
            let end = (from + len).min(bytes.len() - 1);
            let got = server.bytes(&["--range", &format!("{from}-{end}"), &url]);
            assert!(got == bytes[from..=end], "{from}-{end}");
        }
        // Parts of several ranges in one answer, and a download that goes on where another ended.
        let several = server.bytes(&["--range", "5-104,4000-4200,999990-1000500", &url]);
        for range in [5..105, 4000..4201, 999_990..1_000_501] {
            let part = &bytes[range];
            assert!(several.windows(part.len()).any(|window| window == part));
        }
        fs::write(site.path("got"), &bytes[..1_234_567]).unwrap();
        server.bytes(&["--continue-at", "-", "--output", "got", &url]);
        assert!(fs::read(site.path("got")).unwrap() == bytes);
        server.stop();
    }
}

/// Two files with the same name, size, time and inode, of which one has replaced the other, differ in their tags.
#[test]
fn no_other_file_has_a_files_tag() {
    let Some(site) = VolumeSite::new().filter(|_| have(&["debugfs"])) else {
        return;
    };
    site.put("file", "content");
    site.plain(
        "-t ext4 -O ^metadata_csum -U 01020304-0506-0708-090a-0b0c0d0e0f10",
        16,
    );
    let place = &site.0.place;
    let change = |request: &str| place.run("debugfs", ["-w", "-R", request, "plain.img"]);
    for field in ["mtime", "ctime"] {
        change(&format!("set_inode_field file {field} 20240101120000"));
    }
    let uuid = "11111111-2222-4333-8444-555555555555";
    let tag = |name: &str, uuid| {
        site.encrypt(name, "");
        place.scrim([
            "luksUUID",
            &format!("{name}.img"),
            "--uuid",
            uuid,
            "--batch-mode",
        ]);
        let server = site.serve(&format!("{name}.img#/ --key-file key"));
        let heads = server.curl(&["--head", &server.url("file")]);
        let tag = crate::server::field(&heads, "etag").unwrap().to_owned();
        server.stop();
        tag
    };
    let first = tag("first", uuid);
    assert!(first.starts_with('"'), "{first}: it is weak");
    // The same file system in the same volume, as far as that can be told, and in another.
    assert_eq!(tag("copy", uuid), first);
    let elsewhere = tag("elsewhere", "11111111-2222-4333-8444-555555555556");
    let mut tags = HashSet::from([first]);
    assert!(tags.insert(elsewhere));
    for (name, request) in [
        ("changed", "set_inode_field file ctime 20240101120001"),
        ("replaced", "set_inode_field file generation 77"),
        (
            "other",
            "set_super_value uuid 01020304-0506-0708-090a-0b0c0d0e0f11",
        ),
    ] {
        change(request);
        assert!(tags.insert(tag(name, uuid)), "{name}: {tags:?}");
    }
}

#[test]
fn volumes_and_folders_are_served_side_by_side() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    site.0.write("index.html", "folder");
    site.0.write("backup/hidden", "by what is mounted there");
    site.put("file", "volume");
    site.plain("-t ext4", 16);
    site.encrypt("disk", "");
    let server = site.serve("www /backup=disk.img#/ /more/www=www --key-file key");
    assert_eq!(server.curl(&[&server.url("index.html")]), "folder");
    assert_eq!(server.curl(&[&server.url("more/www/index.html")]), "folder");
    server.must_have("backup/file", b"volume");
    assert_eq!(server.status("backup/hidden"), "404");
    assert_eq!(server.status("backup"), "301");
    assert!(server.curl(&[&server.url("backup/")]).contains("file"));
    server.stop();

    let sites = "[[site]]\nnames = ['localhost']\nroot = 'www'\n\
                 [[site.mount]]\nat = '/backup'\nroot = 'disk.img#/'\nkey-file = 'key'\n\
                 [[site]]\nroot = 'disk.img#/'\nkey-file = 'key'\nvolume.data-path = 'inline'\n";
    let server = site.0.serve_by("", sites);
    assert_eq!(server.curl(&[&server.url("index.html")]), "folder");
    assert_eq!(server.curl(&[&server.url("backup/file")]), "volume");
    let other = format!("https://127.0.0.1:{}/file", server.port());
    assert_eq!(server.curl(&["--insecure", &other]), "volume");
    server.reload();
    assert_eq!(server.curl(&[&server.url("backup/file")]), "volume");
    server.stop();
}

/// Mounts an image read-only with fuse2fs, until it is dropped.
struct Mounted<'a>(&'a VolumeSite);

impl<'a> Mounted<'a> {
    fn new(site: &'a VolumeSite) -> Option<Self> {
        // Without root it takes a helper to mount and to unmount.
        let helper = if is_root() { "umount" } else { "fusermount" };
        if !have(&["fuse2fs", helper]) || File::open("/dev/fuse").is_err() {
            assert!(
                std::env::var_os("CI").is_none(),
                "fuse2fs cannot mount in CI"
            );
            println!("skipped: fuse2fs cannot mount here");
            return None;
        }
        fs::create_dir(site.path("mounted")).unwrap();
        site.0
            .place
            .run("fuse2fs", ["-o", "ro", "plain.img", "mounted"]);
        wait_until("it is mounted", || site.path("mounted/lost+found").exists());
        Some(Self(site))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let place = &self.0.0.place;
        let _ = match is_root() {
            true => place.command("umount").arg("mounted").status(),
            false => place.command("fusermount").args(["-u", "mounted"]).status(),
        };
    }
}

#[test]
fn a_real_mount_has_the_same_files() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    for number in 0..50_usize {
        site.put(
            format!("a/{}/file-{number}", number % 7),
            noise(number * 997, number as u64),
        );
    }
    site.plain("-t ext4 -O inline_data -I 256", 16);
    let Some(mounted) = Mounted::new(&site) else {
        return;
    };
    site.encrypt("disk", "");
    let server = site.serve("disk.img#/ --key-file key");
    let mut count = 0;
    for folder in fs::read_dir(site.path("mounted/a")).unwrap() {
        let folder = folder.unwrap();
        for file in fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(site.path("mounted")).unwrap();
            let got = server.bytes(&[&server.url(name.to_str().unwrap())]);
            assert!(got == fs::read(&path).unwrap(), "{}", name.display());
            count += 1;
        }
    }
    assert_eq!(count, 50);
    server.stop();
    drop(mounted);
}

#[test]
fn a_running_volume_is_served_by_its_name_and_its_image_is_not() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    let bytes = noise(1_000_000, 5);
    site.put("file", &bytes);
    site.plain("-t ext4", 16);
    site.encrypt("disk", "");
    let place = &site.0.place;
    place.open("disk.img", "secret", &["--key-file", "key"]);
    let refused = site.refused("disk.img#/ --key-file key");
    assert!(refused.contains("another program has it open"), "{refused}");
    assert!(refused.contains("by its name: NAME#/"), "{refused}");
    let server = site.serve("secret#/");
    server.must_have("file", &bytes);
    server.stop();
    place.close("secret");
    // Read-only, both can have it.
    place.open("disk.img", "secret", &["--key-file", "key", "--readonly"]);
    let server = site.serve("disk.img#/ /other=secret#/ --key-file key");
    server.must_have("file", &bytes);
    server.must_have("other/file", &bytes);
    server.stop();
    place.close("secret");
    let refused = site.refused("secret#/");
    assert!(refused.contains("secret"), "{refused}");
}

#[test]
fn what_cannot_be_served_is_said_before_anybody_is() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    site.put("site/file", "");
    site.plain("-t ext4", 16);
    site.encrypt("disk", "");
    site.0.place.write("wrong", "wrong");
    site.0.place.sparse("plain.img", 1 << 20);
    site.encrypt("empty", "");
    site.0.write("key", "open sesame");
    for (words, said) in [
        ("disk.img#/site --key-file wrong", "no key available"),
        (
            "disk.img#/none --key-file key",
            "disk.img#/none: the volume has no such folder",
        ),
        ("disk.img#/site/file --key-file key", "no such folder"),
        (
            "empty.img#/ --key-file key",
            "empty.img: there is no ext2, ext3 or ext4 file system",
        ),
        ("plain.img#/ --key-file key", "plain.img"),
        ("www disk.img#/ --key-file key", "/PATH=disk.img#/"),
        (
            "www /=disk.img#/ --key-file key",
            "nothing can be served below",
        ),
        (
            "www /a=disk.img#/ /a=www --key-file key",
            "nothing can be served below",
        ),
        (
            "www /a=disk.img#/ --key-file www/key",
            "the key of a volume in the folder that is served",
        ),
    ] {
        let refused = site.refused(words);
        assert!(refused.contains(said), "{words}: {refused}");
    }
}

#[test]
fn a_read_error_ends_the_answer_as_an_error_and_the_server_goes_on() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    site.put("first", noise(10_000, 1));
    let bytes = noise(12 << 20, 2);
    site.put("large", &bytes);
    site.plain("-t ext4", 24);
    site.encrypt("disk", "");
    let server = site.serve("disk.img#/ --key-file key");
    server.must_have("first", &noise(10_000, 1));
    server.must_have("large", &bytes);
    // What the file system says lies behind the end of its device now.
    let image = File::options()
        .write(true)
        .open(site.path("disk.img"))
        .unwrap();
    image
        .set_len(image.metadata().unwrap().len() - (14 << 20))
        .unwrap();
    for (way, address) in WAYS {
        let url = format!("{}large", server.urls[address]);
        let output = server.try_curl(&[way, &url]);
        let code = output.status.code();
        assert!(
            matches!(code, Some(18 | 52 | 55 | 56 | 92)),
            "{way}: {code:?}"
        );
        assert!(output.stdout.len() < bytes.len() && bytes.starts_with(&output.stdout));
    }
    assert_eq!(server.status("first"), "200");
    assert!(
        server
            .complaints()
            .contains("/large: the file could not be read"),
        "{}",
        server.complaints()
    );
    server.stop();
}

#[test]
fn a_volume_that_somebody_mounts_for_writing_waits_until_it_is_unmounted() {
    let Some(site) = VolumeSite::new().filter(|_| has_libnbd()) else {
        return;
    };
    site.put("file", "content");
    site.plain("-t ext4 -O ^metadata_csum", 16);
    site.encrypt("disk", "");
    let place = &site.0.place;
    let uri = place.open("disk.img", "secret", &["--key-file", "key"]);
    let server = site.0.serve_by(
        "",
        "[limits]\nfile-cache-ms = 0\n[[site]]\nroot = 'secret#/'\n",
    );
    assert_eq!(server.status("file"), "200");
    // What mounting does first.
    for (flags, status) in [("| 4", "503"), ("& ~4", "200")] {
        let script = format!(
            "import nbd; h = nbd.NBD(); h.connect_uri('{uri}'); s = bytearray(h.pread(4096, 0)); \
             s[1120] = s[1120] {flags}; h.pwrite(s, 0)"
        );
        place.run(PYTHON, ["-c", &script]);
        assert_eq!(server.status("file"), status);
    }
    assert!(
        server.complaints().contains("mounted for writing"),
        "{}",
        server.complaints()
    );
    server.stop();
    place.close("secret");
}

fn has_libnbd() -> bool {
    let output = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    let there = output.is_ok_and(|output| output.status.success());
    assert!(
        there || std::env::var_os("CI").is_none(),
        "libnbd's Python module is missing in CI"
    );
    if !there {
        println!("skipped: libnbd's Python module is missing (`make test` installs it)");
    }
    there
}

#[test]
fn what_is_damaged_or_encrypted_again_is_an_error_and_the_rest_is_served() {
    let Some(site) = VolumeSite::new().filter(|_| have(&["debugfs"])) else {
        return;
    };
    for name in ["sound", "damaged", "encrypted", "unused"] {
        site.put(name, noise(100_000, 1));
    }
    site.put("folder/file", "");
    site.plain("-t ext4", 16);
    for change in [
        "set_inode_field damaged block[0] 0",
        "set_inode_field encrypted flags 0x80800",
        "set_inode_field unused links_count 0",
        "set_inode_field folder block[5] 0xfffffff",
    ] {
        let place = &site.0.place;
        place.run("debugfs", ["-w", "-R", change, "plain.img"]);
    }
    site.encrypt("disk", "");
    let server = site.serve("disk.img#/ --key-file key");
    for (way, address) in WAYS {
        let url = format!("{}damaged", server.urls[address]);
        let output = server.try_curl(&[way, &url]);
        let code = output.status.code();
        assert!(
            matches!(code, Some(18 | 52 | 55 | 56 | 92)),
            "{way}: {code:?}"
        );
    }
    assert_eq!(server.status("encrypted"), "403");
    for damaged in ["unused", "folder/", "folder/file"] {
        assert_eq!(server.status(damaged), "500", "{damaged}");
    }
    server.must_have("sound", &noise(100_000, 1));
    assert!(
        server.complaints().contains("e2fsck -f"),
        "{}",
        server.complaints()
    );
    server.stop();
}

/// Start of a mark that memory is searched for; the number of the mark follows it.
const MARK: &str = "this line of a file in a volume should be nowhere else at all:";

/// The numbers of marks in a process's memory.
fn marks_in(pid: u32) -> HashSet<[u8; 5]> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut found = HashSet::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        if memory.seek(SeekFrom::Start(start)).is_err() || memory.read_exact(&mut bytes).is_err() {
            continue;
        }
        let needle = &MARK.as_bytes()[..40];
        let mut at = 0;
        while let Some(next) = find(&bytes[at..], needle) {
            at += next;
            if bytes.len() >= at + MARK.len() + 5 {
                let number = &bytes[at + MARK.len()..at + MARK.len() + 5];
                found.insert(number.try_into().unwrap());
            }
            at += 1;
        }
    }
    found
}

/// Starts a client that downloads the file again and again at the speed `rate`.
fn download(server: &Server<'_>, way: &str, rate: &str) -> Background {
    let url = server.url("marked");
    let mut command: Command = server.curl_command(&[way, "--limit-rate", rate]);
    for _ in 0..50 {
        command.args(["--output", "/dev/null", &url]);
    }
    Background::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Root may read the memory. A record's plaintext is there from its decryption until it is sealed, and HTTP/2's
/// frames until they are sent.
#[test]
fn the_plaintext_of_a_file_never_lies_whole_in_memory() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    if !is_root() {
        println!("skipped: only root can look into the process");
        return;
    }
    let lines: String = (0..99_999)
        .map(|number| format!("{MARK}{number:05}\n"))
        .collect();
    let size = lines.len();
    site.put("marked", &lines);
    site.plain("-t ext4", 24);
    site.encrypt("disk", "");
    for (way, most) in [("--http1.1", 128 << 10), ("--http2", 2 << 20)] {
        let server = site.serve("disk.img#/ --key-file key --threads 1");
        let fast = download(&server, way, "1G");
        let slow = download(&server, way, "200k");
        let mut largest = 0;
        for _ in 0..20 {
            let found = marks_in(server.pid()).len() * lines.len() / 99_999;
            largest = largest.max(found);
        }
        println!("{way}: at most {largest} of {size} bytes at a time");
        assert!(largest <= most, "{way}: {largest} of {size} bytes");
        drop((fast, slow));
        server.stop();
    }
}
