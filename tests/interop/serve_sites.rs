//! `scrim serve` with curl: hosts and their certificates, addresses, and what a site adds to its answers.

use crate::server::{Site, field, port};
use crate::support::{have, succeeded};

fn site() -> Option<Site> {
    have(&["curl"]).then(Site::new)
}

#[test]
fn each_host_has_its_own_files_and_its_own_certificate() {
    let Some(site) = site() else { return };
    let mut tables = String::new();
    for (host, certificate) in [
        ("one.test", "one.test"),
        ("two.test", "two.test"),
        ("a.wild.test", "*.wild.test"),
    ] {
        tables += &site.certificate(certificate);
        site.write(&format!("{host}/name.txt"), host);
        tables += &format!("[[site]]\nnames = ['{host}']\nroot = 'www/{host}'\n");
    }
    let server = site.serve_by("", &tables);
    let port = server.port();
    for host in ["one.test", "two.test", "a.wild.test"] {
        for http in ["--http1.1", "--http2"] {
            let to = format!("{host}:{port}:127.0.0.1");
            let url = format!("https://{host}:{port}/name.txt");
            // By its certificate too: curl believes no other one.
            assert_eq!(server.curl(&[http, "--resolve", &to, &url]), host);
            let connected = format!("{host}:443:127.0.0.1:{port}");
            let url = format!("https://{host}/name.txt");
            assert_eq!(server.curl(&[http, "--connect-to", &connected, &url]), host);
        }
    }
    // No site is for the first certificate's host.
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let unknown = server.curl(&[&status[..], &[&server.url("name.txt")]].concat());
    assert_eq!(unknown, "421");
    server.stop();
}

#[test]
fn ipv6_serves_as_well() {
    let Some(site) = site() else { return };
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        assert!(std::env::var_os("CI").is_none(), "there is no IPv6 in CI");
        println!("skipped: there is no IPv6");
        return;
    }
    site.write("file.txt", "over IPv6");
    let server = site.serve_by("listen = ['[::1]:0']", "[[site]]\nroot = 'www'\n");
    let url = format!("https://[::1]:{}/file.txt", server.port());
    for http in ["--http1.1", "--http2"] {
        assert_eq!(server.curl(&[http, &url]), "over IPv6");
    }
    server.stop();
}

#[test]
fn clients_of_plain_http_are_sent_to_https() {
    let Some(site) = site() else { return };
    site.write("folder/file.txt", "after a detour");
    let server = site.serve(&["--redirect-http", "127.0.0.1:0"]);
    let plain = format!("{}folder/file.txt?a=b", server.urls[1]);
    let heads = server.curl(&["--head", &plain]);
    assert!(heads.starts_with("HTTP/1.1 308"), "{heads}");
    let location = field(&heads, "location").unwrap();
    assert!(location.starts_with("https://localhost"), "{heads}");
    assert!(location.ends_with("/folder/file.txt?a=b"), "{heads}");
    server.stop();
}

#[test]
fn an_answer_has_what_its_site_adds() {
    let Some(site) = site() else { return };
    site.write("file.txt", "text");
    site.write("app.css", "p{}");
    site.write("thing.odd", "odd");
    site.write("unknown", "bytes");
    site.place.write("lost.html", "<p>gone fishing</p>");
    let server = site.serve_by(
        "",
        "[[site]]\nroot = 'www'\nhsts = { seconds = 31536000, subdomains = true }\n\
         headers = { X-Custom = 'yes', X-Other = 'no' }\nerror-pages = { 404 = 'lost.html' }\n\
         types = { odd = 'application/x-odd' }\ncache = [{ files = '*.css', control = 'max-age=3600' }]\n",
    );
    for http in ["--http1.1", "--http2"] {
        let head = server.curl(&[http, "--head", &server.url("file.txt")]);
        let hsts = field(&head, "strict-transport-security");
        assert_eq!(hsts, Some("max-age=31536000; includeSubDomains"), "{head}");
        assert_eq!(field(&head, "x-custom"), Some("yes"), "{head}");
        assert_eq!(field(&head, "x-other"), Some("no"), "{head}");
        for (file, name, value) in [
            ("app.css", "content-type", Some("text/css; charset=utf-8")),
            ("app.css", "cache-control", Some("max-age=3600")),
            ("file.txt", "cache-control", None),
            ("thing.odd", "content-type", Some("application/x-odd")),
            ("unknown", "content-type", Some("application/octet-stream")),
        ] {
            let head = server.curl(&[http, "--head", &server.url(file)]);
            assert_eq!(field(&head, name), value, "{file}: {head}");
        }
        let lost = server.curl(&[http, "--include", &server.url("lost")]);
        assert!(lost.contains(" 404"), "{lost}");
        assert!(lost.ends_with("<p>gone fishing</p>"), "{lost}");
        assert_eq!(field(&lost, "x-custom"), Some("yes"), "{lost}");
    }
    server.stop();
}

#[test]
fn folders_are_listed_and_nothing_outside_of_them_is_found() {
    let Some(site) = site() else { return };
    site.write("folder/a <b> & 'c'.txt", "odd name");
    site.write("folder/.hidden", "hidden");
    site.write("with-index/index.html", "an index");
    site.place.write("secret.txt", "secret");
    std::os::unix::fs::symlink("../secret.txt", site.place.path("www/out.txt")).unwrap();
    let server = site.serve(&[]);
    let page = server.curl(&[&server.url("folder/")]);
    assert!(page.contains("a &lt;b&gt; &amp; "), "{page}");
    assert!(!page.contains(".hidden") && !page.contains("<b>"), "{page}");
    let odd = server.url("folder/a%20%3Cb%3E%20%26%20%27c%27.txt");
    assert_eq!(server.curl(&[&odd]), "odd name");
    let json = server.curl(&[
        "--header",
        "Accept: application/json",
        &server.url("folder/"),
    ]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json.to_string().contains("a <b> & 'c'.txt"), "{json}");
    assert_eq!(
        server.curl(&["--location", &server.url("with-index")]),
        "an index"
    );
    for path in [
        "../secret.txt",
        "%2e%2e/secret.txt",
        "folder/..%2f..%2fsecret.txt",
        "out.txt",
        "folder/.hidden",
        "none",
    ] {
        let status = [
            "--path-as-is",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ];
        let status = server.curl(&[&status[..], &[&server.url(path)]].concat());
        assert!(
            ["400", "403", "404"].contains(&&*status),
            "{path}: {status}"
        );
    }
    server.stop();
    let server = site.serve(&["--no-listings"]);
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let status = server.curl(&[&status[..], &[&server.url("folder/")]].concat());
    assert!(["403", "404"].contains(&&*status), "{status}");
    server.stop();
}

#[test]
fn several_requests_go_by_one_connection() {
    let Some(site) = site() else { return };
    site.write("file.txt", "text");
    let server = site.serve(&["--plain-http", "127.0.0.1:0", "--status", "127.0.0.1:0"]);
    let missing = server.url("missing");
    let secure = server.url("file.txt");
    let plain = format!("{}file.txt", server.urls[1]);
    assert_ne!(port(&plain.replace("/file.txt", "/")), server.port());
    let count = ["--write-out", "%{num_connects} ", "--output", "/dev/null"];
    for (http, url) in [
        ("--http1.1", &secure),
        ("--http2", &secure),
        ("--http1.1", &plain),
    ] {
        let mut args = vec![http];
        let other = if url == &plain { &plain } else { &missing };
        for url in [url, other, url, url] {
            args.extend(count);
            args.push(url);
            args.push("--next");
            args.push(http);
            args.extend(["--cacert", "tls/ca-cert.pem", "--silent"]);
        }
        args.extend([
            "--output",
            "/dev/null",
            "--write-out",
            "%{num_connects}",
            url,
        ]);
        let output = server.try_curl(&args);
        assert_eq!(succeeded("curl", &output), "1 0 0 0 0", "{http} {url}");
    }
    let together = ["--parallel", "--http2", "--write-out", "%{http_code} "];
    let urls: Vec<String> = (0..40).map(|_| secure.clone()).collect();
    let mut args = together.to_vec();
    for url in &urls {
        args.extend(["--output", "/dev/null", url]);
    }
    assert_eq!(server.curl(&args), "200 ".repeat(40));
    server.stop();
}
