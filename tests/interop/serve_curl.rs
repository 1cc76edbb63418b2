//! `scrim serve` with curl: versions of HTTP and TLS, methods, parts of files, answers that depend on what a
//! client has, and downloads that break off and go on.

use crate::server::{Server, Site, field};
use crate::support::{assert_same, have, noise};

/// The ways to a file.
const WAYS: [&[&str]; 3] = [
    &["--http1.1", "--tlsv1.3"],
    &["--http2", "--tlsv1.3"],
    &["--http1.1", "--tls-max", "1.2"],
];

/// A site with these files, and whether curl is there.
fn site(files: &[(&str, &[u8])]) -> Option<Site> {
    if !have(&["curl"]) {
        return None;
    }
    let site = Site::new();
    for (name, bytes) in files {
        site.write(name, bytes);
    }
    Some(site)
}

/// Downloads, and returns the status and what came.
fn get(server: &Server, args: &[&str]) -> (String, Vec<u8>) {
    let more = ["--output", "got", "--write-out", "%{http_code}"];
    let _ = std::fs::remove_file(server.site.place.path("got"));
    let status = server.curl(&[&more, args].concat());
    let got = std::fs::read(server.site.place.path("got")).unwrap_or_default();
    (status, got)
}

#[test]
fn both_versions_of_http_come_over_every_suite_of_both_versions_of_tls() {
    let bytes = noise(3_000_001, 1);
    let Some(site) = site(&[("file.bin", &bytes)]) else {
        return;
    };
    let server = site.serve(&["--access-log", "access.log", "--access-log-format", "json"]);
    let url = server.url("file.bin");
    let mut wanted = Vec::new();
    for (suite, words) in [
        (
            "TLS_AES_128_GCM_SHA256",
            &["--tlsv1.3", "--tls13-ciphers"][..],
        ),
        ("TLS_AES_256_GCM_SHA384", &["--tlsv1.3", "--tls13-ciphers"]),
        (
            "TLS_CHACHA20_POLY1305_SHA256",
            &["--tlsv1.3", "--tls13-ciphers"],
        ),
        (
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            &["--tls-max", "1.2", "--ciphers"],
        ),
        (
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            &["--tls-max", "1.2", "--ciphers"],
        ),
        (
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            &["--tls-max", "1.2", "--ciphers"],
        ),
    ] {
        for (option, http) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
            let (status, got) = get(&server, &[words, &[suite, option, &url]].concat());
            assert_eq!(status, "200", "{suite} {option}");
            assert_same(&got, &bytes, suite);
            let own = suite.trim_start_matches("ECDHE-ECDSA-").replace('-', "_");
            let own = own
                .replace("AES128", "AES_128")
                .replace("AES256", "AES_256");
            wanted.push((http, own));
        }
    }
    let lines = crate::server::lines_of(&site.place.path("access.log"), wanted.len());
    for (line, (http, suite)) in lines.iter().zip(&wanted) {
        assert!(
            line.contains(http) && line.contains(suite),
            "{line}: {http} {suite}"
        );
    }
    server.stop();
}

#[test]
fn an_rsa_key_serves_too_and_one_suite_alone_can_be_offered() {
    let Some(site) = site(&[("file.txt", b"text")]) else {
        return;
    };
    if !have(&["openssl"]) {
        return;
    }
    let line = "req -x509 -newkey rsa:2048 -noenc -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                -keyout tls/server-key.pem -out tls/server-cert.pem";
    site.place.run("openssl", line.split_whitespace());
    std::fs::copy(
        site.place.path("tls/server-cert.pem"),
        site.place.path("tls/ca-cert.pem"),
    )
    .unwrap();
    let suite = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
    let server = site.serve(&["--tls-suite", suite, "--no-http2"]);
    let url = server.url("file.txt");
    let out = server.curl(&["--http2", "--write-out", " %{http_version}", &url]);
    assert_eq!(out, "text 1.1");
    let other = [
        "--tls-max",
        "1.2",
        "--ciphers",
        "ECDHE-RSA-AES128-GCM-SHA256",
        &url,
    ];
    assert_eq!(server.try_curl(&other).status.code(), Some(35));
    assert_eq!(
        server.try_curl(&["--tlsv1.3", &url]).status.code(),
        Some(35)
    );
    server.stop();
}

#[test]
fn plain_http_serves_the_same() {
    let bytes = noise(1_000_003, 2);
    let Some(site) = site(&[("file.bin", &bytes)]) else {
        return;
    };
    let server = site.serve(&["--plain-http", "127.0.0.1:0"]);
    let url = format!("{}file.bin", server.urls[1]);
    assert!(url.starts_with("http://"), "{url}");
    assert_same(&get(&server, &[&url]).1, &bytes, "plain");
    let (status, part) = get(&server, &["--range", "17-1016", &url]);
    assert_eq!((status.as_str(), part.len()), ("206", 1000));
    assert_same(&part, &bytes[17..1017], "part");
    server.stop();
}

#[test]
fn methods_do_what_they_are_for() {
    let Some(site) = site(&[("file.txt", b"some text")]) else {
        return;
    };
    let server = site.serve(&[]);
    let url = server.url("file.txt");
    for way in WAYS {
        let head = server.curl(&[way, &["--head", &url]].concat());
        assert_eq!(field(&head, "content-length"), Some("9"), "{head}");
        assert_eq!(
            field(&head, "content-type"),
            Some("text/plain; charset=utf-8")
        );
        assert_eq!(field(&head, "accept-ranges"), Some("bytes"), "{head}");
        let options = server.curl(&[way, &["--include", "--request", "OPTIONS", &url]].concat());
        assert!(options.contains(" 204"), "{options}");
        assert_eq!(
            field(&options, "allow"),
            Some("GET, HEAD, OPTIONS"),
            "{options}"
        );
        let post = server.curl(&[way, &["--include", "--data", "x=1", &url]].concat());
        assert!(post.contains(" 405"), "{post}");
        assert_eq!(field(&post, "allow"), Some("GET, HEAD, OPTIONS"), "{post}");
        let (status, _) = get(
            &server,
            &[way, &["--upload-file", "tls/ca-cert.pem", &url]].concat(),
        );
        assert_eq!(status, "405");
    }
    server.stop();
}

#[test]
fn parts_come_alone_together_and_from_the_end() {
    let bytes = noise(500_000, 3);
    let Some(site) = site(&[("file.bin", &bytes)]) else {
        return;
    };
    let server = site.serve(&[]);
    let url = server.url("file.bin");
    for way in WAYS {
        for (range, part) in [
            ("0-0", &bytes[..1]),
            ("1000-300999", &bytes[1000..301_000]),
            ("499999-", &bytes[499_999..]),
            ("-12345", &bytes[500_000 - 12_345..]),
            ("-9999999", &bytes[..]),
            ("499000-9999999", &bytes[499_000..]),
        ] {
            let (status, got) = get(&server, &[way, &["--range", range, &url]].concat());
            assert_eq!(status, "206", "{range}");
            assert_same(&got, part, range);
        }
        let (status, got) = get(
            &server,
            &[way, &["--range", "10-19,400000-400009,-5", &url]].concat(),
        );
        assert_eq!(status, "206");
        for part in [&bytes[10..20], &bytes[400_000..400_010], &bytes[499_995..]] {
            let is_there = got.windows(part.len()).any(|window| window == part);
            assert!(is_there, "{}", String::from_utf8_lossy(&got));
        }
        let past = [way, &["--include", "--range", "500000-", &url]].concat();
        let past = server.curl(&past);
        assert!(past.contains(" 416"), "{past}");
        assert_eq!(field(&past, "content-range"), Some("bytes */500000"));
    }
    server.stop();
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let Some(site) = site(&[("page.html", b"<p>one</p>")]) else {
        return;
    };
    let config = "[limits]\nfile-cache-ms = 0\n[[site]]\nroot = 'www'\n";
    let server = site.serve_by("", config);
    let url = server.url("page.html");
    for way in WAYS {
        let saving = [way, &["--etag-save", "etag", &url]].concat();
        assert_eq!(get(&server, &saving).0, "200");
        let comparing = [way, &["--etag-compare", "etag", &url]].concat();
        let (status, got) = get(&server, &comparing);
        assert_eq!((status.as_str(), got.len()), ("304", 0));
        // The time of a file is what curl asks by, and this one's is the page's own.
        let since = [way, &["--time-cond", "www/page.html", &url]].concat();
        assert_eq!(get(&server, &since).0, "304");
        let before = [way, &["--time-cond", "2001-01-01", &url]].concat();
        assert_eq!(get(&server, &before).0, "200");
        let long_ago = "If-Unmodified-Since: Mon, 01 Jan 2001 00:00:00 GMT";
        let changed = [way, &["--header", long_ago, &url]].concat();
        assert_eq!(get(&server, &changed).0, "412");
        let other = [
            way,
            &["--header", "If-Range: \"other\"", "--range", "0-2", &url],
        ]
        .concat();
        assert_eq!(get(&server, &other).0, "200");
        site.write("page.html", format!("<p>another {}</p>", way.len() * 31));
        assert_eq!(get(&server, &comparing).0, "200");
        site.write("page.html", "<p>one</p>");
    }
    server.stop();
}

#[test]
fn what_was_compressed_beforehand_is_sent_to_those_who_can_read_it() {
    let text = "a line of text\n".repeat(2000);
    let Some(site) = site(&[("page.txt", text.as_bytes()), ("raw.txt", text.as_bytes())]) else {
        return;
    };
    if !have(&["gzip"]) {
        return;
    }
    site.place.run("gzip", ["--keep", "www/page.txt"]);
    let server = site.serve(&[]);
    for way in WAYS {
        let url = server.url("page.txt");
        let more = ["--compressed", "--dump-header", "heads", &url];
        assert_same(
            &get(&server, &[way, &more].concat()).1,
            text.as_bytes(),
            "decoded",
        );
        let heads = std::fs::read_to_string(site.place.path("heads")).unwrap();
        assert_eq!(field(&heads, "content-encoding"), Some("gzip"), "{heads}");
        assert!(
            field(&heads, "vary")
                .unwrap()
                .eq_ignore_ascii_case("accept-encoding")
        );
        let plain = server.curl(&[way, &["--include", &url]].concat());
        assert_eq!(field(&plain, "content-encoding"), None);
        assert_ne!(field(&plain, "etag"), field(&heads, "etag"));
        let head =
            server.curl(&[way, &["--compressed", "--head", &server.url("raw.txt")]].concat());
        assert_eq!(field(&head, "content-encoding"), None);
    }
    server.stop();
}

#[test]
fn a_long_download_survives_every_disconnect() {
    let mib: usize = std::env::var("SCRIM_SERVE_MIB").map_or(256, |mib| mib.parse().unwrap());
    let bytes = noise(mib << 20, 4);
    let Some(site) = site(&[("long.bin", &bytes)]) else {
        return;
    };
    let server = site.serve(&["--plain-http", "127.0.0.1:0"]);
    let (secure, plain) = (
        server.url("long.bin"),
        format!("{}long.bin", server.urls[1]),
    );
    let path = site.place.path("part.bin");
    for (turn, (way, url)) in [
        ("--http1.1", &secure),
        ("--http2", &secure),
        ("--http1.1", &plain),
    ]
    .into_iter()
    .enumerate()
    {
        let _ = std::fs::remove_file(&path);
        let mut broken_off = 0;
        // Slower than it can be, so that there is something to break off; then as fast as it can be.
        for attempt in 0.. {
            let seconds = format!("0.{:02}", 10 + (attempt * 37 + turn * 11) % 40);
            let limit: &[&str] = match attempt {
                0..8 => &["--max-time", &seconds, "--limit-rate", "80M"],
                _ => &[],
            };
            let args = [way, "--continue-at", "-", "--output", "part.bin", url];
            let output = server.try_curl(&[&args, limit].concat());
            match output.status.code() {
                Some(0) => break,
                Some(28) => broken_off += 1,
                other => panic!(
                    "curl {way}: {other:?} {}",
                    String::from_utf8_lossy(&output.stderr)
                ),
            }
        }
        assert!(broken_off > 2, "{way}: nothing was broken off");
        assert_same(&std::fs::read(&path).unwrap(), &bytes, url);
    }
    server.stop();
}
