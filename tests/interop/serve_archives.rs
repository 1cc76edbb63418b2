//! `scrim serve` with curl and tar: folders that are downloaded as one archive.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::server::{Server, Site, field, lines_of};
use crate::support::{have, noise};

/// A configuration with archives.
const ARCHIVES: &str = "[[site]]\nroot = 'www'\nlistings = true\narchives = true\n";

/// A site with a folder of every kind of file.
fn site() -> Site {
    let site = Site::new();
    for number in 0..60 {
        site.write(&format!("folder/many/{number}.txt"), number.to_string());
    }
    site.write("folder/big.bin", noise(3_000_001, 1));
    site.write("folder/empty", "");
    site.write(
        &format!("folder/{}/{}", "a".repeat(120), "b".repeat(200)),
        "long",
    );
    site.write("folder/Gr\u{fc}\u{df}e & <b>", "odd name");
    fs::create_dir(site.place.path("www/folder/nothing")).unwrap();
    site
}

/// Downloads an archive and unpacks it into `unpacked`, by each program that is here.
fn assert_unpacks(server: &Server, args: &[&str], name: &str) {
    let place = &server.site.place;
    server.curl(&[&["--output", "got.tar"], args].concat());
    for (program, unpack) in [
        ("tar", "-x -f got.tar -C unpacked"),
        ("python3", "-m tarfile -e got.tar unpacked"),
    ] {
        if !have(&[program]) {
            continue;
        }
        let _ = fs::remove_dir_all(place.path("unpacked"));
        fs::create_dir(place.path("unpacked")).unwrap();
        place.run(program, unpack.split_whitespace());
        let folder = place.path("unpacked").join(name);
        assert_same_tree(&folder, &place.path("www/folder"));
    }
}

#[track_caller]
fn assert_same_tree(one: &Path, other: &Path) {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other), "{}", other.display());
    for name in names(one) {
        let (one, other) = (one.join(&name), other.join(&name));
        if other.is_dir() {
            assert_same_tree(&one, &other);
        } else {
            assert!(
                fs::read(&one).unwrap() == fs::read(&other).unwrap(),
                "{}",
                other.display()
            );
            let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
            let difference = modified(&other).duration_since(modified(&one)).unwrap();
            assert!(difference.as_secs() < 1, "{}", other.display());
        }
    }
}

#[test]
fn an_archive_unpacks_to_the_folder() {
    if !have(&["curl", "tar"]) {
        return;
    }
    let site = site();
    let server = site.serve_by(
        "plain-http = ['127.0.0.1:0']\naccess-log = { file = 'log' }",
        ARCHIVES,
    );
    let url = server.url("folder/?archive=tar");
    let plain = format!("{}folder/?archive=tar", server.urls[1]);
    for args in [
        &["--http1.1", &*url][..],
        &["--http2", &url],
        &["--http1.1", &plain],
        &["--http1.0", &plain],
    ] {
        assert_unpacks(&server, args, "folder");
    }
    for http in ["--http1.1", "--http2"] {
        let head = server.curl(&[http, "--head", &url]);
        assert_eq!(
            field(&head, "content-type"),
            Some("application/x-tar"),
            "{head}"
        );
        let name = "attachment; filename=\"folder.tar\"; filename*=UTF-8''folder.tar";
        assert_eq!(field(&head, "content-disposition"), Some(name), "{head}");
        assert_eq!(field(&head, "content-length"), None, "{head}");
        assert_eq!(field(&head, "accept-ranges"), None, "{head}");
        let page = server.curl(&[http, &server.url("folder/")]);
        assert!(
            page.contains("<a href=\"?archive=tar\" download>"),
            "{page}"
        );
        // The connection goes on after an archive.
        let two = server.curl(&[
            http,
            "--output",
            "/dev/null",
            &url,
            &server.url("folder/empty"),
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code} ",
        ]);
        assert_eq!(two, "200 200 ");
    }
    server.stop();
}

#[test]
fn archives_are_off_unless_they_are_asked_for_and_links_keep_their_rules() {
    if !have(&["curl", "tar"]) {
        return;
    }
    let site = site();
    site.place.write("secret.txt", "secret");
    symlink("../../secret.txt", site.place.path("www/folder/out.txt")).unwrap();
    symlink(".", site.place.path("www/folder/circle")).unwrap();
    site.write("folder/.hidden", "hidden");
    let server = site.serve_by("", &ARCHIVES.replace("archives = true", ""));
    let page = server.curl(&[&server.url("folder/?archive=tar")]);
    assert!(
        page.starts_with("<!doctype html>") && !page.contains("archive=tar"),
        "{page}"
    );
    server.stop();
    let server = site.serve_by("", ARCHIVES);
    server.curl(&["--output", "got.tar", &server.url("folder/?archive=tar")]);
    let names = site.place.run("tar", ["-t", "-f", "got.tar"]);
    assert!(names.lines().count() > 60, "{names}");
    for absent in ["out.txt", "circle", ".hidden"] {
        assert!(!names.contains(absent), "{names}");
    }
    server.stop();
}

#[test]
fn a_file_that_is_cut_short_ends_the_archive_as_an_error() {
    if !have(&["curl"]) {
        return;
    }
    for http in ["--http1.1", "--http2"] {
        let site = Site::new();
        let path = site.write("folder/big.bin", noise(20_000_000, 2));
        let server = site.serve_by("access-log = { file = 'log', format = 'json' }", ARCHIVES);
        let url = server.url("folder/?archive=tar");
        let slow = ["--limit-rate", "2M", "--output", "got.tar"];
        let mut curl = server.curl_command(&[&slow[..], &[http, &url]].concat());
        let mut curl = curl.spawn().unwrap();
        crate::support::wait_until("some of it has come", || {
            let got = site.place.path("got.tar").metadata();
            got.is_ok_and(|got| got.len() > 100_000)
        });
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(1000)
            .unwrap();
        let status = curl.wait().unwrap();
        assert!(!status.success(), "{http}");
        // The log has what was sent of it, and the message names the file.
        let line = lines_of(&site.place.path("log"), 1).remove(0);
        let logged: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(logged["bytes"].as_u64() > Some(100_000), "{http}: {line}");
        assert_eq!(logged["whole"], false, "{http}: {line}");
        let complaints = server.complaints();
        assert!(
            complaints.contains("/folder/?archive=tar: folder/big.bin: the file"),
            "{http}: {complaints}"
        );
        let _ = fs::remove_file(site.place.path("log"));
        let _ = fs::remove_file(site.place.path("got.tar"));
        server.stop();
    }
}

#[test]
fn a_folder_of_a_volume_is_archived_too() {
    if !have(&["curl", "tar", "mke2fs"]) {
        return;
    }
    let site = site();
    site.place.write("key", "open sesame");
    site.place.sparse("plain.img", 32 << 20);
    site.place
        .run("mke2fs", "-q -F -d www plain.img".split_whitespace());
    let import =
        "import plain.img disk.img --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    site.place.scrim(import.split_whitespace());
    let server = site.serve_by(
        "",
        &ARCHIVES.replace("'www'", "'disk.img#/'\nkey-file = 'key'"),
    );
    let url = server.url("folder/?archive=tar");
    for http in ["--http1.1", "--http2"] {
        assert_unpacks(&server, &[http, &url], "folder");
    }
    server.stop();
}
