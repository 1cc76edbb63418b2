//! `scrim serve` with curl: clients that a site admits by address or by password, and paths of applications.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::server::{Server, Site, field};
use crate::support::{Background, assert_same, have, noise, scrim, wait_until};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2"];
const PASSWORD: &str = "correct-horse-battery";

fn site() -> Option<Site> {
    let site = have(&["curl"]).then(Site::new)?;
    site.write("file.txt", "text");
    Some(site)
}

/// The status of an answer to curl with these words.
fn status(server: &Server, args: &[&str]) -> String {
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    server.curl(&[&status[..], args].concat())
}

/// Writes a file of users, all with the same password.
fn write_users(site: &Site, names: &[&str]) {
    let lines = names.iter().map(|name| {
        let words = ["serve", "--hash-password", name];
        let input = format!("{PASSWORD}\n");
        let made = site.place.run_with_input(scrim(), words, input.as_bytes());
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap()
    });
    site.place.write("users.txt", lines.collect::<String>());
}

#[test]
fn an_application_has_its_page_at_its_own_paths() {
    let Some(site) = site() else { return };
    site.write("index.html", "application");
    let server = site.serve_by("", "[[site]]\nroot = 'www'\nfallback = '/index.html'\n");
    for http in VERSIONS {
        for (path, wanted) in [
            ("users/7", "200"),
            ("users/7/?tab=b", "200"),
            ("assets/gone.js", "404"),
            (".git/config", "404"),
            (".well-known/gone", "404"),
            ("%00", "400"),
        ] {
            let url = server.url(path);
            assert_eq!(status(&server, &[http, &url]), wanted, "{path}");
        }
        assert_eq!(server.curl(&[http, &server.url("users/7")]), "application");
        assert_eq!(server.curl(&[http, &server.url("file.txt")]), "text");
    }
    server.stop();
    site.configure("", "[[site]]\nroot = 'www'\nfallback = '/gone.html'\n");
    let words = ["serve", "--config", "serve.toml", "--check"];
    let output = site.place.run_with_input(scrim(), words, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("fallback") && said.contains("/gone.html"),
        "{said}"
    );
}

#[test]
fn clients_are_admitted_by_address() {
    let Some(site) = site() else { return };
    site.write(".well-known/acme-challenge/token", "token");
    let rules = "allow = ['127.0.0.0/8']\ndeny = ['127.0.0.2', '127.1.0.0/16']\n";
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let listen = match has_ipv6 {
        true => "listen = ['127.0.0.1:0', '[::1]:0']",
        false => "listen = ['127.0.0.1:0']",
    };
    let server = site.serve_by(listen, &format!("[[site]]\nroot = 'www'\n{rules}"));
    for http in VERSIONS {
        for (client, wanted) in [
            ("127.0.0.1", "200"),
            ("127.0.0.2", "403"),
            ("127.1.2.3", "403"),
        ] {
            let with = [http, "--interface", client];
            let url = server.url("file.txt");
            assert_eq!(
                status(&server, &[&with[..], &[&url]].concat()),
                wanted,
                "{client}"
            );
            let url = server.url(".well-known/acme-challenge/token");
            assert_eq!(
                status(&server, &[&with[..], &[&url]].concat()),
                "200",
                "{client}"
            );
        }
        if has_ipv6 {
            let port = crate::server::port(&server.urls[1]);
            let url = format!("https://[::1]:{port}/file.txt");
            assert_eq!(status(&server, &[http, &url]), "403");
        }
    }
    site.configure(listen, "[[site]]\nroot = 'www'\ndeny = ['127.0.0.1']\n");
    server.reload();
    for (client, wanted) in [("127.0.0.1", "403"), ("127.0.0.2", "200")] {
        let url = server.url("file.txt");
        assert_eq!(status(&server, &["--interface", client, &url]), wanted);
    }
    server.stop();
}

#[test]
fn a_site_with_users_asks_for_their_passwords() {
    let Some(site) = site() else { return };
    site.write(".well-known/acme-challenge/token", "token");
    write_users(&site, &["ann", "bob"]);
    let top = "plain-http = ['127.0.0.1:0']\nredirect-http = ['127.0.0.1:0']\nstatus = '127.0.0.1:0'\n\
               access-log = { file = 'access.log', format = 'json' }";
    let tables = "[[site]]\nnames = ['localhost']\nroot = 'www'\nusers = 'users.txt'\n\
                  cache = [{ files = '*.css', control = 'public, max-age=60' }]\n";
    site.write("app.css", "p{}");
    let server = site.serve_by(top, tables);
    let right = format!("ann:{PASSWORD}");
    let plain = format!("{}file.txt", server.urls[1]);
    for (http, url) in [
        ("--http1.1", server.url("file.txt")),
        ("--http2", server.url("file.txt")),
        ("--http1.1", plain),
    ] {
        let asked = server.curl(&[http, "--include", &url]);
        assert!(asked.contains(" 401"), "{asked}");
        let challenge = field(&asked, "www-authenticate");
        assert_eq!(
            challenge,
            Some("Basic realm=\"localhost\", charset=\"UTF-8\"")
        );
        assert_eq!(field(&asked, "cache-control"), Some("no-store"), "{asked}");
        let given = server.curl(&[http, "--include", "--user", &right, &url]);
        assert!(given.contains(" 200") && given.ends_with("text"), "{given}");
        assert_eq!(field(&given, "cache-control"), Some("private"), "{given}");
        assert_eq!(field(&given, "vary"), Some("authorization"), "{given}");
        let missing = format!("{url}.none");
        for (credentials, path, wanted) in [
            ("ann:wrong", &url, "401"),
            (&*format!("eve:{PASSWORD}"), &url, "401"),
            (&right, &missing, "404"),
        ] {
            let args = [http, "--user", credentials, path];
            assert_eq!(status(&server, &args), wanted, "{credentials}");
        }
        assert_eq!(
            status(&server, &[http, "--request", "OPTIONS", &url]),
            "401"
        );
    }
    let css = server.curl(&["--head", "--user", &right, &server.url("app.css")]);
    assert_eq!(
        field(&css, "cache-control"),
        Some("public, max-age=60"),
        "{css}"
    );
    let token = server.url(".well-known/acme-challenge/token");
    assert_eq!(server.curl(&[&token]), "token");
    assert_eq!(
        status(&server, &[&format!("{}file.txt", server.urls[2])]),
        "308"
    );
    assert_eq!(status(&server, &[&server.urls[3]]), "200");

    write_users(&site, &["bob"]);
    server.reload();
    let url = server.url("file.txt");
    assert_eq!(status(&server, &["--user", &right, &url]), "401");
    let bob = format!("bob:{PASSWORD}");
    assert_eq!(status(&server, &["--user", &bob, &url]), "200");
    let errors = server.complaints();
    server.stop();
    let log = std::fs::read_to_string(site.place.path("access.log")).unwrap();
    assert!(
        log.contains("\"user\":\"ann\"") && log.contains("\"user\":\"bob\""),
        "{log}"
    );
    assert!(!log.contains("\"user\":\"eve\""), "{log}");
    // `ann:` and `bob:` in Base64, too.
    for secret in [PASSWORD, "YW5uOm", "Ym9iOm", "argon2id", "authorization"] {
        assert!(
            !log.contains(secret) && !errors.contains(secret),
            "{secret}: {log} {errors}"
        );
    }
}

#[test]
fn an_address_with_wrong_passwords_is_limited() {
    let Some(site) = site() else { return };
    write_users(&site, &["ann"]);
    let server = site.serve_by("", "[[site]]\nroot = 'www'\nusers = 'users.txt'\n");
    let (right, url) = (format!("ann:{PASSWORD}"), server.url("file.txt"));
    let ask = |client: &str, credentials: &str| {
        let args = [
            "--include",
            "--interface",
            client,
            "--user",
            credentials,
            &url,
        ];
        server.curl(&args)
    };
    let mut limited = None;
    for guess in 0..20 {
        let said = ask("127.0.0.3", &format!("ann:guess{guess}"));
        if said.contains(" 429") {
            limited = Some(said);
            break;
        }
        assert!(said.contains(" 401"), "{said}");
    }
    let limited = limited.expect("20 guesses are too many");
    let wait: u32 = field(&limited, "retry-after").unwrap().parse().unwrap();
    assert!((1..=6).contains(&wait), "{limited}");
    assert!(ask("127.0.0.3", &right).contains(" 429"));
    assert!(ask("127.0.0.4", &right).ends_with("text"));
    server.stop();
}

#[test]
fn each_client_has_a_limited_number_of_requests() {
    let Some(site) = site() else { return };
    let limits = "per-client = { requests-per-second = 1, burst = 5 }";
    let server = site.serve_by("", &format!("[[site]]\nroot = 'www'\n{limits}\n"));
    let url = format!("{}?[1-20]", server.url("file.txt"));
    for (http, client) in [("--http1.1", "127.0.0.2"), ("--http2", "127.0.0.3")] {
        let each = ["--write-out", "%{http_code} ", "--output", "/dev/null"];
        let with = [http, "--interface", client, &url];
        let statuses = server.curl(&[&each[..], &with].concat());
        let count = |status| statuses.matches(status).count();
        // A slow machine takes some seconds, in each of which there is one more.
        assert!((5..15).contains(&count("200")), "{statuses}");
        assert_eq!(count("200") + count("429"), 20, "{statuses}");
    }
    let said = server.curl(&["--include", "--interface", "127.0.0.2", &url]);
    assert_eq!(field(&said, "retry-after"), Some("1"), "{said}");
    server.stop();
}

#[test]
fn the_answers_to_a_client_share_a_rate() {
    let Some(site) = site() else { return };
    let bytes = noise(1_500_000, 1);
    site.write("long.bin", &bytes);
    let options = "plain-http = ['127.0.0.1:0']";
    let limits = "per-client = { bytes-per-second = 500000 }";
    let server = site.serve_by(options, &format!("[[site]]\nroot = 'www'\n{limits}\n"));
    let secure = server.url("long.bin");
    let plain = format!("{}long.bin", server.urls[1]);
    let download = |client: &str, args: &[&str]| {
        let began = Instant::now();
        let got = server.try_curl(&[&["--interface", client], args].concat());
        assert!(got.status.success(), "{got:?}");
        (got.stdout, began.elapsed().as_secs_f64())
    };
    for (client, way, url) in [
        ("127.0.0.2", "--http1.1", &secure),
        ("127.0.0.3", "--http2", &secure),
        ("127.0.0.4", "--http1.1", &plain),
    ] {
        let (got, seconds) = download(client, &[way, url]);
        assert_same(&got, &bytes, way);
        // A second's bytes come at once.
        assert!(seconds > 1.8, "{way}: {seconds}");
    }
    // Two downloads by one address take twice the time of one.
    let both = [
        "--parallel",
        "--output",
        "one",
        &secure,
        "--output",
        "two",
        &secure,
    ];
    let (_, seconds) = download("127.0.0.5", &both);
    assert!(seconds > 4.5, "{seconds}");
    server.stop();
}

/// The figures of a server whose status page is at this URL.
fn figures(server: &Server, page: &str) -> serde_json::Value {
    let json = server.curl(&[&format!("{page}status.json")]);
    serde_json::from_str(&json).unwrap()
}

/// Those who watch the server see a long download while it lasts, and see each byte once.
#[test]
fn bytes_of_a_download_are_counted_as_they_are_sent() {
    let Some(site) = site() else { return };
    site.write("long.bin", noise(8_000_000, 1));
    let options = "plain-http = ['127.0.0.1:0']\nstatus = '127.0.0.1:0'\n\
                   access-log = { file = 'access.log', format = 'json' }";
    let limits = "per-client = { bytes-per-second = 50000 }";
    let server = site.serve_by(options, &format!("[[site]]\nroot = 'www'\n{limits}\n"));
    let (plain, page) = (&server.urls[1], &server.urls[2]);
    let secure = server.url("long.bin");
    let plain = format!("{plain}long.bin");
    for (done, (client, way, url)) in [
        ("127.0.0.2", "--http1.1", &secure),
        ("127.0.0.3", "--http2", &secure),
        ("127.0.0.4", "--http1.1", &plain),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = || figures(&server, page)["bytes_sent"].as_u64().unwrap();
        let before = sent();
        let mut curl = server.curl_command(&["--interface", client, way, url]);
        let download = Background::start(curl.stdout(Stdio::null()).stderr(Stdio::null()));
        wait_until("bytes are counted", || sent() > before);
        let first = sent();
        wait_until("more bytes are counted", || sent() > first);
        let now = figures(&server, page);
        assert_eq!(now["by_class"][1], done, "{way}: the download has ended");
        drop(download);
        // Those who watch the server are in the log, too.
        let logged = || -> Vec<u64> {
            let lines = std::fs::read_to_string(site.place.path("access.log")).unwrap();
            let lines = lines.lines().filter(|line| line.contains("/long.bin"));
            let bytes =
                |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["bytes"].as_u64();
            lines.map(|line| bytes(line).unwrap()).collect()
        };
        wait_until("the download is logged", || logged().len() > done);
        assert_eq!(sent(), logged().iter().sum::<u64>(), "{way}");
    }
    server.stop();
}

/// Their pieces would be due over more than half a minute, in which the address gets nothing else.
#[test]
fn clients_that_have_left_take_no_share_of_a_rate() {
    let Some(site) = site() else { return };
    site.write("long.bin", noise(200_000, 1));
    let options = "plain-http = ['127.0.0.1:0']";
    let limits = "per-client = { bytes-per-second = 20000 }";
    let server = site.serve_by(options, &format!("[[site]]\nroot = 'www'\n{limits}\n"));
    let plain = &server.urls[1];
    let address = plain.trim_start_matches("http://").trim_end_matches('/');
    for _ in 0..50 {
        let mut client = TcpStream::connect(address).unwrap();
        let request = format!("GET /long.bin HTTP/1.1\r\nHost: {address}\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        // Until it is answered or paced.
        let _ = client.set_read_timeout(Some(Duration::from_millis(10)));
        let _ = client.read(&mut [0; 1024]);
    }
    let text = server.curl(&["--max-time", "20", &format!("{plain}file.txt")]);
    assert_eq!(text, "text");
    server.stop();
}

/// Configurations that would show what users protect.
#[test]
fn users_that_would_not_be_protected_are_refused() {
    let Some(site) = site() else { return };
    write_users(&site, &["ann"]);
    let check = |top: &str, users: &str| {
        site.configure(
            top,
            &format!("[[site]]\nroot = 'www'\nlistings = true\nusers = '{users}'\n"),
        );
        let words = [
            "serve",
            "--config",
            "serve.toml",
            "--insecure-plaintext",
            "--check",
        ];
        let output = site.place.run_with_input(scrim(), words, b"");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = check("plain-http = ['0.0.0.0:0']", "users.txt");
    assert!(
        said.contains("plain-http: ") && said.contains("redirect-http"),
        "{said}"
    );
    std::fs::copy(
        site.place.path("users.txt"),
        site.place.path("www/users.txt"),
    )
    .unwrap();
    let said = check("", "www/users.txt");
    assert!(said.contains("move it elsewhere"), "{said}");
    let said = check("", "none.txt");
    assert!(
        said.contains("none.txt") && said.contains("No such file"),
        "{said}"
    );
    // The last user may be removed: then nobody can log in, which a warning says.
    site.place.write("users.txt", "# nobody\n");
    let said = check("", "users.txt");
    assert!(said.contains("users.txt names no user"), "{said}");
    assert!(!said.contains("Error"), "{said}");
    site.place.write("users.txt", "ann:hunter2\n");
    let said = check("", "users.txt");
    assert!(said.contains("users.txt, line 1: "), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
