//! `scrim serve` with curl: files that are compressed while they are served.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::server::{Server, Site, field};
use crate::support::{assert_same, have, noise, wait_until};

/// Codings. curl has libraries for all of them.
const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// A configuration that compresses.
const COMPRESS: &str =
    "[[site]]\nroot = 'www'\nlistings = true\ncompress = ['zstd', 'br', 'gzip']\n";

fn text(lines: usize) -> Vec<u8> {
    let line = |number| format!("{number}: {}\n", number * number);
    (0..lines).map(line).collect::<String>().into_bytes()
}

/// A site with these files, which have not changed for long; nothing where curl is missing.
fn site(files: &[(&str, &[u8])]) -> Option<Site> {
    have(&["curl"]).then(|| {
        let site = Site::new();
        for (name, bytes) in files {
            settle(&site.write(name, bytes), 1000);
        }
        site
    })
}

/// Gives a file a time of change in the past.
fn settle(path: &Path, seconds_ago: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let time = SystemTime::now() - Duration::from_secs(seconds_ago);
    file.set_modified(time).unwrap();
}

/// The head and the content of an answer.
fn get(server: &Server, args: &[&str]) -> (String, Vec<u8>) {
    let files = ["head", "got"].map(|name| server.site.place.path(name));
    for file in &files {
        let _ = std::fs::remove_file(file);
    }
    server.curl(&[&["--dump-header", "head", "--output", "got"], args].concat());
    let head = std::fs::read_to_string(&files[0]).unwrap();
    (head, std::fs::read(&files[1]).unwrap_or_default())
}

fn accept(coding: &str) -> String {
    format!("Accept-Encoding: {coding}")
}

#[test]
fn each_coding_decompresses_to_the_file() {
    let text = text(50_000);
    let Some(site) = site(&[("big.json", &text)]) else {
        return;
    };
    let server = site.serve_by("plain-http = ['127.0.0.1:0']", COMPRESS);
    let urls = [
        server.url("big.json"),
        format!("{}big.json", server.urls[1]),
    ];
    for coding in CODINGS {
        for (http, url) in [
            ("--http1.1", &urls[0]),
            ("--http2", &urls[0]),
            ("--http1.1", &urls[1]),
        ] {
            let field_line = accept(coding);
            let (head, got) = get(&server, &[http, "--header", &field_line, url]);
            assert_eq!(field(&head, "content-encoding"), Some(coding), "{head}");
            assert_eq!(field(&head, "vary"), Some("accept-encoding"), "{head}");
            assert_eq!(field(&head, "accept-ranges"), None, "{head}");
            let len = got.len().to_string();
            assert_eq!(field(&head, "content-length"), Some(&*len), "{head}");
            assert!(got.len() < text.len() / 2, "{coding}: {len}");
            let (_, plain) = get(
                &server,
                &[http, "--compressed", "--header", &field_line, url],
            );
            assert_same(&plain, &text, coding);
            // HEAD has the same fields.
            let only = server.curl(&[http, "--head", "--header", &field_line, url]);
            for name in [
                "content-encoding",
                "content-length",
                "etag",
                "vary",
                "content-type",
            ] {
                assert_eq!(field(&only, name), field(&head, name), "{name}: {only}");
            }
        }
    }
    // The site's order decides between codings that the client likes equally.
    let all = accept("br, gzip, zstd");
    let (head, _) = get(&server, &["--header", &all, &urls[0]]);
    assert_eq!(field(&head, "content-encoding"), Some("zstd"), "{head}");
    let weighted = accept("br, gzip, zstd;q=0.5");
    let (head, _) = get(&server, &["--header", &weighted, &urls[0]]);
    assert_eq!(field(&head, "content-encoding"), Some("br"), "{head}");
    server.stop();
}

#[test]
fn only_long_enough_files_of_the_right_types_are_compressed_and_never_a_page_of_the_server() {
    let (text, noise) = (text(1000), noise(100_000, 1));
    let Some(site) = site(&[
        ("a.txt", &text),
        ("short.txt", &text[..1023]),
        ("long.txt", &text.repeat(10)),
        ("noise.txt", &noise),
        ("a.png", &text),
        ("beside.css", &text),
        ("beside.css.gz", b"made before"),
    ]) else {
        return;
    };
    settle(&site.place.path("www/beside.css.gz"), 10);
    let more =
        format!("{COMPRESS}compress-max-bytes = 100000\nerror-pages = {{ 404 = 'lost.html' }}\n");
    site.place.write("lost.html", &text);
    let server = site.serve_by("", &more);
    let all = accept("br, gzip, zstd");
    for (path, coding, varies) in [
        ("a.txt", Some("zstd"), true),
        ("short.txt", None, false),
        ("long.txt", None, false),
        ("noise.txt", None, true),
        ("a.png", None, false),
        // The file that was compressed before wins, though the site prefers another coding.
        ("beside.css", Some("gzip"), true),
        ("lost", None, false),
    ] {
        for http in ["--http1.1", "--http2"] {
            let (head, _) = get(&server, &[http, "--header", &all, &server.url(path)]);
            assert_eq!(field(&head, "content-encoding"), coding, "{path}: {head}");
            let vary = varies.then_some("accept-encoding");
            assert_eq!(field(&head, "vary"), vary, "{path}: {head}");
        }
    }
    let (_, got) = get(&server, &["--header", &all, &server.url("beside.css")]);
    assert_eq!(got, b"made before");
    let (head, page) = get(&server, &["--header", &all, &server.url("")]);
    assert_eq!(field(&head, "content-encoding"), None, "{head}");
    assert!(page.len() > 1024 && page.starts_with(b"<!doctype html>"));
    // Without a coding that the client takes, the file comes as it is.
    for coding in ["identity", "deflate", "zstd;q=0, identity"] {
        let (head, got) = get(
            &server,
            &["--header", &accept(coding), &server.url("a.txt")],
        );
        assert_eq!(field(&head, "content-encoding"), None, "{head}");
        assert_same(&got, &text, coding);
    }
    server.stop();
}

#[test]
fn conditions_and_ranges_tell_the_codings_apart() {
    let text = text(1000);
    let Some(site) = site(&[("a.txt", &text)]) else {
        return;
    };
    let server = site.serve_by("", COMPRESS);
    let url = server.url("a.txt");
    let mut tags = Vec::new();
    for coding in ["identity", "zstd", "br", "gzip"] {
        let (head, _) = get(&server, &["--header", &accept(coding), &url]);
        let tag = field(&head, "etag").unwrap().to_owned();
        assert!(
            tag.starts_with('"') && !tags.contains(&tag),
            "{tags:?} {tag}"
        );
        tags.push(tag);
    }
    let [plain, zstd, ..] = tags.as_slice() else {
        panic!("four tags");
    };
    let status = |args: &[&str]| {
        let (head, got) = get(&server, &[args, &[&url]].concat());
        let status = head.split(' ').nth(1).unwrap().to_owned();
        (status, field(&head, "etag").map(str::to_owned), got)
    };
    let zstd_too = accept("zstd");
    for http in ["--http1.1", "--http2"] {
        for (tag, wanted) in [(zstd, "304"), (plain, "304"), (&tags[2], "200")] {
            let condition = format!("If-None-Match: {tag}");
            let (status, named, _) = status(&[http, "--header", &zstd_too, "--header", &condition]);
            assert_eq!(status, wanted, "{tag}");
            let named = named.unwrap();
            assert_eq!(&named, if status == "304" { tag } else { zstd });
        }
        for (tag, wanted) in [(zstd, "200"), (plain, "200"), (&tags[2], "412")] {
            let condition = format!("If-Match: {tag}");
            let (status, ..) = status(&[http, "--header", &zstd_too, "--header", &condition]);
            assert_eq!(status, wanted, "{tag}");
        }
        // A range is one of the file as it is.
        let (part, tag, got) = status(&[http, "--header", &zstd_too, "--range", "10-19"]);
        assert_eq!((&*part, tag.as_ref()), ("206", Some(plain)));
        assert_eq!(got, &text[10..20]);
        let condition = format!("If-Range: {zstd}");
        let condition = ["--header", &condition, "--range", "10-19"];
        let (whole, tag, got) = status(&[&[http, "--header", &*zstd_too], &condition[..]].concat());
        assert_eq!((&*whole, tag.as_ref()), ("200", Some(plain)));
        assert_same(&got, &text, "the range of another content");
    }
    server.stop();
}

#[test]
fn a_changed_file_is_compressed_anew() {
    let first = text(1000);
    let Some(site) = site(&[("a.txt", &first)]) else {
        return;
    };
    let server = site.serve_by("", COMPRESS);
    let url = server.url("a.txt");
    let zstd = accept("zstd");
    let get = || get(&server, &["--compressed", "--header", &zstd, &url]);
    assert_same(&get().1, &first, "first");
    let second = [&first[..], b"and more\n"].concat();
    let path = site.write("a.txt", &second);
    // It may change again within the same time, and is not compressed until it has settled.
    let (head, got) = get();
    assert_eq!(field(&head, "content-encoding"), None, "{head}");
    assert_same(&got, &second, "second");
    settle(&path, 500);
    let (head, got) = get();
    assert_eq!(field(&head, "content-encoding"), Some("zstd"), "{head}");
    assert_same(&got, &second, "second");
    server.stop();
}

#[test]
fn memory_for_compressed_files_is_limited_and_many_clients_wait_for_one_compression() {
    let names: Vec<_> = (0..40).map(|number| format!("{number}.json")).collect();
    let text = text(30_000);
    let files: Vec<_> = names.iter().map(|name| (&**name, &*text)).collect();
    let Some(site) = site(&files) else { return };
    let limits = "[limits]\ncompressed-bytes = 2000000\n";
    let server = site.serve_by("", &format!("{COMPRESS}{limits}"));
    let gzip = accept("gzip");
    for round in 0..2 {
        for name in &names {
            let url = server.url(name);
            let (head, got) = get(&server, &["--compressed", "--header", &gzip, &url]);
            assert_eq!(
                field(&head, "content-encoding"),
                Some("gzip"),
                "{round} {head}"
            );
            assert_same(&got, &text, name);
        }
    }
    // Requests for the same new file at once, on one connection.
    let zstd = accept("zstd");
    let url = server.url("0.json?[1-30]");
    let said = server.curl(&[
        "--parallel",
        "--parallel-immediate",
        "--header",
        &zstd,
        "--output",
        "/dev/null",
        "--write-out",
        "%{size_download} ",
        &url,
    ]);
    let lengths: Vec<_> = said.split_whitespace().collect();
    assert_eq!(lengths.len(), 30);
    assert!(lengths.iter().all(|&length| length == lengths[0]), "{said}");
    assert!(lengths[0].parse::<usize>().unwrap() < text.len(), "{said}");
    server.stop();
}

#[test]
fn files_in_a_volume_are_compressed() {
    if !have(&["curl", "mke2fs"]) {
        return;
    }
    let (site, text) = (Site::new(), text(30_000));
    site.write("a.txt", &text);
    site.place.write("key", "open sesame");
    site.place.sparse("plain.img", 16 << 20);
    site.place
        .run("mke2fs", "-q -F -d www plain.img".split_whitespace());
    let import =
        "import plain.img disk.img --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    site.place.scrim(import.split_whitespace());
    let server = site.serve_by(
        "",
        &COMPRESS.replace("'www'", "'disk.img#/'\nkey-file = 'key'"),
    );
    let url = server.url("a.txt");
    for coding in CODINGS {
        let coded = accept(coding);
        // The file has changed a moment ago.
        wait_until("it is compressed", || {
            let (head, _) = get(&server, &["--header", &coded, &url]);
            field(&head, "content-encoding") == Some(coding)
        });
        for http in ["--http1.1", "--http2"] {
            let (_, got) = get(&server, &[http, "--compressed", "--header", &coded, &url]);
            assert_same(&got, &text, coding);
        }
    }
    server.stop();
}
