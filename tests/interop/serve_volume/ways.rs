//! Paths and listings of a volume: names, links, files in another coding.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::VolumeSite;
use crate::support::have;

#[test]
fn names_links_and_listings_are_those_of_a_folder() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    site.put("site/index.html", "<p>home");
    site.put("site/a/b.txt", "b");
    site.put("site/a/.hidden", "no");
    site.put(OsStr::from_bytes(b"site/a/\xff\n\"'"), "odd");
    site.put("site/a/b.txt.gz", "not gzip");
    site.put("outside", "no");
    let link =
        |target: &str, name: &str| symlink(target, site.path("tree/site").join(name)).unwrap();
    for (target, name) in [
        ("a/b.txt", "in"),
        ("a", "folder"),
        ("../outside", "out"),
        ("/site/a/b.txt", "absolute"),
        ("loop", "loop"),
    ] {
        link(target, name);
    }
    site.plain("-t ext4", 16);
    site.encrypt("disk", "");
    let server = site.serve("disk.img#/site --key-file key");
    assert_eq!(server.curl(&[&server.url("")]), "<p>home");
    for path in ["a/b.txt", "in", "folder/b.txt", "a/../a/b.txt"] {
        server.must_have(path, b"b");
    }
    server.must_have("a/%ff%0a%22'", b"odd");
    for (path, status) in [
        ("out", "404"),
        ("absolute", "404"),
        ("loop", "404"),
        ("a/.hidden", "404"),
        ("a", "301"),
        ("a/b.txt/", "404"),
        ("a/b.txt/c", "404"),
        ("%2e%2e/outside", "400"),
        ("none", "404"),
    ] {
        assert_eq!(server.status(path), status, "{path}");
    }
    let listing = server.curl(&["--header", "accept: application/json", &server.url("a/")]);
    assert!(
        listing.contains(r#""name":"b.txt","href":"b.txt","type":"file","size":1"#),
        "{listing}"
    );
    assert!(
        listing.contains("%FF%0A%22") && !listing.contains("hidden"),
        "{listing}"
    );
    // Conditions, and content that is there in a coding.
    let heads = server.curl(&["--head", &server.url("in")]);
    let etag = crate::server::field(&heads, "etag").unwrap().to_owned();
    let condition = format!("if-none-match: {etag}");
    let status = [
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
        "--header",
        &condition,
    ];
    assert_eq!(
        server.curl(&[&status[..], &[&server.url("in")]].concat()),
        "304"
    );
    let coded = server.curl(&["--header", "accept-encoding: gzip", &server.url("a/b.txt")]);
    assert_eq!(coded, "not gzip");
    server.stop();
}

/// Links to the kinds of files that a listing shows.
#[test]
fn a_listing_follows_links_from_its_own_folder() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    site.put("site/a/deep/down/file", "down");
    site.put("site/b/other", "otherwise");
    site.put("outside", "no");
    let deep = site.path("tree/site/a/deep");
    for (target, name) in [
        ("down/file", "in"),
        ("../../b", "folder"),
        ("chain-2", "chain-1"),
        ("../../b/other", "chain-2"),
        ("../../../outside", "out"),
        ("../../b/none", "nowhere"),
        ("/site/b", "absolute"),
    ] {
        symlink(target, deep.join(name)).unwrap();
    }
    symlink("a/deep", site.path("tree/site/way")).unwrap();
    site.plain("-t ext4", 16);
    site.encrypt("disk", "");
    let server = site.serve("disk.img#/site --key-file key");
    for folder in ["a/deep/", "way/"] {
        let url = server.url(folder);
        let listing = server.curl(&["--header", "accept: application/json", &url]);
        for (name, kind) in [
            ("down", "\"folder\""),
            ("in", "\"file\",\"size\":4"),
            ("folder", "\"folder\""),
            ("chain-1", "\"file\",\"size\":9"),
            ("chain-2", "\"file\",\"size\":9"),
        ] {
            let slash = if kind == "\"folder\"" { "/" } else { "" };
            let entry = format!(r#""name":"{name}","href":"{name}{slash}","type":{kind}"#);
            assert!(listing.contains(&entry), "{folder}{name}: {listing}");
        }
        assert_eq!(
            listing.matches("\"name\"").count(),
            5,
            "{folder}: {listing}"
        );
    }
    server.must_have("way/in", b"down");
    server.must_have("way/folder/other", b"otherwise");
    assert_eq!(server.status("way/out"), "404");
    server.stop();
}

/// Files beside a file, in a folder with an index and in one without.
#[test]
fn what_is_there_in_a_coding_is_found_with_an_index_and_without() {
    let Some(site) = VolumeSite::new().filter(|_| have(&["e2fsck"])) else {
        return;
    };
    for number in 0..500 {
        site.put(format!("page-{number}"), "plain");
    }
    for (ending, text) in [("br", "brotli"), ("gz", "gzip")] {
        site.put(format!("page-77.{ending}"), text);
    }
    symlink("page-77.gz", site.path("tree/page-78.gz")).unwrap();
    for is_indexed in [false, true] {
        site.plain("-t ext4 -b 1024", 16);
        if is_indexed {
            // It says by its code that it has changed something.
            let mut command = site.0.place.command("e2fsck");
            let code = command
                .args(["-fyD", "plain.img"])
                .output()
                .unwrap()
                .status
                .code();
            assert!(matches!(code, Some(0 | 1)), "{code:?}");
        }
        let name = if is_indexed { "indexed" } else { "plain" };
        site.encrypt(&format!("{name}-disk"), "");
        let server = site.serve(&format!("{name}-disk.img#/ --key-file key"));
        for (file, coding, text) in [
            ("page-77", "br", "brotli"),
            ("page-77", "gzip", "gzip"),
            ("page-77", "zstd", "plain"),
            ("page-78", "gzip", "gzip"),
            ("page-79", "gzip", "plain"),
        ] {
            let accept = format!("accept-encoding: {coding}");
            let got = server.curl(&["--header", &accept, &server.url(file)]);
            assert_eq!(got, text, "{file} {coding}, {name}");
        }
        server.stop();
    }
}

/// Links that lead hundreds of times through a folder that takes long to be searched.
#[test]
fn links_that_keep_the_server_busy_are_given_up() {
    let Some(site) = VolumeSite::new() else {
        return;
    };
    let file = site.put("many/file", "found");
    // As many as fill their blocks: there is no room for short names at the front.
    for number in 0..4000 {
        fs::hard_link(&file, file.with_file_name(format!("{number:0>232}"))).unwrap();
    }
    for name in ('a'..='h')
        .map(String::from)
        .chain((100..200).map(|number| number.to_string()))
    {
        fs::create_dir(file.with_file_name(name)).unwrap();
    }
    site.put("links/sound", "sound");
    let links = file.parent().unwrap().with_file_name("links");
    let around = |times| {
        format!(
            "../many/{}",
            "a/../b/../c/../d/../e/../f/../g/../h/../".repeat(times)
        )
    };
    for (name, target) in [
        ("short", around(1) + "file"),
        ("long", around(80) + "../links/2"),
        ("2", around(80) + "../links/3"),
        ("3", around(80) + "file"),
    ] {
        symlink(target, links.join(name)).unwrap();
    }
    // Each is followed, but not all of them for one listing.
    site.put("together/sound", "sound");
    for number in 0..24 {
        let link = links.with_file_name(format!("together/{number}"));
        symlink(around(28) + "file", link).unwrap();
    }
    // `mke2fs -d` makes no index.
    site.plain("-t ext4 -b 4096", 16);
    site.encrypt("disk", "");
    let server = site.serve("disk.img#/ --key-file key");
    assert_eq!(server.status("links/long"), "500");
    assert_eq!(server.status("links/short"), "200");
    let complaints = server.complaints();
    assert!(complaints.contains("a search was given up"), "{complaints}");
    assert_eq!(server.status("together/0"), "200");
    assert_eq!(server.status("together/23"), "200");
    for folder in ["links/", "together/"] {
        let url = server.url(folder);
        let listing = server.curl(&["--header", "accept: application/json", &url]);
        assert!(listing.contains(r#""name":"sound""#), "{listing}");
        assert!(listing.contains(r#""is_all":false"#), "{listing}");
    }
    server.stop();
}
