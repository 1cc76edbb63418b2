//! `scrim serve` while files change that are being sent: a client gets all of the file it asked for, or an error.

use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::server::{Server, Site};
use crate::support::{Background, find, have, noise, wait_until};

/// Bytes of the file: more than sockets, TLS and curl keep between them.
const SIZE: usize = 48 << 20;

/// A slow download in the background.
struct Download(Background);

impl Download {
    /// Starts the download, and waits until some of it has arrived.
    fn begin(server: &Server, way: &str, url: &str, name: &str) -> Self {
        Self::begin_with(server, &[way], url, name)
    }

    /// Starts the download with these options of curl.
    fn begin_with(server: &Server, options: &[&str], url: &str, name: &str) -> Self {
        let got = server.site.place.path(name);
        let _ = fs::remove_file(&got);
        let mut curl = server.curl_command(options);
        curl.args(["--limit-rate", "8M", "--output", name, url]);
        curl.stdout(Stdio::null()).stderr(Stdio::null());
        let download = Self(Background::start(&mut curl));
        wait_until("the download has begun", || {
            fs::metadata(&got).is_ok_and(|file| file.len() > 0)
        });
        download
    }

    /// Waits for the end of the download; returns its exit code.
    fn ended(mut self) -> Option<i32> {
        self.0.0.wait().unwrap().code()
    }
}

/// A change to a file during a download. Changes that leave its bytes alone do not harm the download.
type Change = (&'static str, fn(&Path));

const HARMLESS: [Change; 3] = [
    ("replaced", |path| {
        let other = path.with_extension("new");
        fs::write(&other, noise(SIZE / 2, 2)).unwrap();
        fs::rename(other, path).unwrap();
    }),
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("unreadable", |path| {
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    }),
];

const HARMFUL: [Change; 2] = [
    ("truncated", |path| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(1 << 20).unwrap();
    }),
    ("emptied", |path| {
        File::create(path).unwrap();
    }),
];

/// Each way to the server, with its first address or its second.
const WAYS: [(&str, usize); 3] = [("--http1.1", 0), ("--http2", 0), ("--http1.1", 1)];

/// Judge of a download: it sees the way and the change, the exit code, what came, and the old file.
type Judge = fn(&str, Option<i32>, &[u8], &[u8]);

/// Does something to a file while it is downloaded by each way. Downloads are slow, so each change has a server of its own
/// beside the others.
fn change(changes: &[Change], judge: Judge) {
    if !have(&["curl"]) {
        return;
    }
    let old = &noise(SIZE, 1);
    std::thread::scope(|scope| {
        for change in changes {
            scope.spawn(move || change_one(change, old, judge));
        }
    });
}

fn change_one((what, change): &Change, old: &[u8], judge: Judge) {
    let site = Site::new();
    let path = site.write("file.bin", old);
    let server = site.serve(&["--plain-http", "127.0.0.1:0"]);
    let downloads = WAYS.map(|(way, address)| {
        let (url, name) = (&server.urls[address], format!("got{way}{address}"));
        let download = Download::begin(&server, way, &format!("{url}file.bin"), &name);
        (download, name)
    });
    change(&path);
    for (download, name) in downloads {
        let code = download.ended();
        let got = fs::read(site.place.path(&name)).unwrap();
        judge(&format!("{what}, {name}"), code, &got, old);
    }
    site.write("other.txt", "still here");
    assert_eq!(server.curl(&[&server.url("other.txt")]), "still here");
    server.stop();
}

#[test]
fn a_file_that_is_replaced_or_removed_comes_whole_as_it_was() {
    change(&HARMLESS, |what, code, got, old| {
        assert_eq!(code, Some(0), "{what}");
        assert!(got == old, "{what}: it is not the old file");
    });
}

#[test]
fn a_file_that_grows_comes_as_long_as_it_was_announced() {
    let grows: [Change; 1] = [("appended to", |path| {
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(&noise(1 << 20, 3)).unwrap();
    })];
    change(&grows, |what, code, got, old| {
        assert_eq!(code, Some(0), "{what}");
        assert!(got == old, "{what}: it is not what was announced");
    });
}

#[test]
fn parts_of_a_file_that_grows_come_whole() {
    if !have(&["curl"]) {
        return;
    }
    let old = &noise(SIZE, 1);
    std::thread::scope(|scope| {
        for (way, address) in WAYS {
            scope.spawn(move || parts_while_it_grows(way, address, old));
        }
    });
}

fn parts_while_it_grows(way: &str, address: usize, old: &[u8]) {
    let site = Site::new();
    let path = site.write("file.bin", old);
    let server = site.serve(&["--plain-http", "127.0.0.1:0"]);
    let (first, last) = (SIZE - (40 << 20), SIZE - 1);
    let url = format!("{}file.bin", server.urls[address]);
    let one = format!("{first}-{last}");
    let several = format!("0-9,{first}-{last}");
    let downloads = [one, several].map(|range| {
        let name = format!("part{}", range.len());
        let download = Download::begin_with(&server, &[way, "--range", &range], &url, &name);
        (download, name)
    });
    let mut log = File::options().append(true).open(&path).unwrap();
    log.write_all(&noise(1 << 20, 4)).unwrap();
    for (download, name) in downloads {
        assert_eq!(download.ended(), Some(0), "{way} {name}");
        let got = fs::read(site.place.path(&name)).unwrap();
        let has_all = find(&got, &old[first..]).is_some();
        assert!(has_all, "{way} {name}: {} bytes came", got.len());
    }
    server.stop();
}

#[test]
fn a_file_that_is_cut_short_ends_in_an_error() {
    change(&HARMFUL, |what, code, got, old| {
        // A transfer that was cut off, an empty one, a connection reset, a stream reset.
        let is_error = matches!(code, Some(18 | 52 | 55 | 56 | 92));
        assert!(is_error, "{what}: {code:?}");
        assert!(got.len() < old.len(), "{what}: as long as ever");
        assert!(
            old.starts_with(got),
            "{what}: bytes that the file never had"
        );
    });
}

#[test]
fn a_file_that_is_written_over_is_an_error_or_whole() {
    let over: [Change; 1] = [("written over", |path| {
        let mut file = File::options().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(SIZE as u64 / 2)).unwrap();
        file.write_all(&noise(SIZE / 2, 9)).unwrap();
    })];
    change(&over, |what, code, got, old| match code {
        // Nobody can tell by its length: it must at least be that.
        Some(0) => assert_eq!(
            got.len(),
            old.len(),
            "{what}: a short answer that looks whole"
        ),
        code => assert!(
            matches!(code, Some(18 | 52 | 55 | 56 | 92)),
            "{what}: {code:?}"
        ),
    });
}

#[test]
fn a_file_that_has_gone_is_not_found_and_its_successor_is() {
    if !have(&["curl"]) {
        return;
    }
    let site = Site::new();
    let path = site.write("file.txt", "old");
    let server = site.serve_by("", "[limits]\nfile-cache-ms = 0\n[[site]]\nroot = 'www'\n");
    let url = server.url("file.txt");
    let fetch = || -> Output { server.try_curl(&["--fail", &url]) };
    assert_eq!(fetch().stdout, b"old");
    fs::remove_file(&path).unwrap();
    assert_eq!(fetch().status.code(), Some(22));
    site.write("file.txt", "a new one");
    assert_eq!(fetch().stdout, b"a new one");
    fs::write(&path, "and shorter").unwrap();
    assert_eq!(fetch().stdout, b"and shorter");
    server.stop();
}
