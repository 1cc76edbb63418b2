//! `scrim serve` with curl: hosts and their certificates, addresses, and what a site adds to its answers.

use std::io::{Read, Write};

use crate::server::{Server, Site, field, port};
use crate::support::{have, succeeded};
use crate::tls_client::{PREFACE, config, connect, exchange, frame};

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
            // The certificate shows it too: curl trusts no other one.
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

/// The status of an answer to curl with these words.
fn status(server: &Server, args: &[&str]) -> String {
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    server.curl(&[&status[..], args].concat())
}

#[test]
fn a_host_of_another_connection_is_misdirected_unless_the_certificate_is_for_it() {
    let Some(site) = site() else { return };
    let mut tables = String::new();
    for (certificate, hosts) in [
        ("one.test", "'one.test', 'also-one.test'"),
        ("*.wild.test", "'a.wild.test'"),
    ] {
        tables += &site.certificate(certificate);
        tables += &format!("[[site]]\nnames = [{hosts}]\nroot = 'www'\n");
    }
    tables += "[[site]]\nnames = ['b.wild.test']\nroot = 'www'\n";
    site.write("name.txt", "text");
    let server = site.serve_by("", &tables);
    for (name, host, wanted) in [
        ("one.test", "ONE.test.", "200"),
        ("one.test", "also-one.test", "200"),
        ("one.test", "a.wild.test", "421"),
        ("a.wild.test", "b.wild.test", "200"),
        ("b.wild.test", "one.test", "421"),
        ("one.test", "unknown.test", "421"),
    ] {
        let to = format!("{name}:{}:127.0.0.1", server.port());
        let url = format!("https://{name}:{}/name.txt", server.port());
        let host = format!("Host: {host}");
        for http in ["--http1.1", "--http2"] {
            let args = [http, "--resolve", &to, "--header", &host, &url];
            assert_eq!(status(&server, &args), wanted, "{name} {host} {http}");
        }
    }
    server.stop();
}

#[test]
fn without_tls_on_loopback_no_name_is_answered_that_may_have_been_made_to_lead_here() {
    let Some(site) = site() else { return };
    site.write("file.txt", "text");
    let named = "[[site]]\nroot = 'www'\n[[site]]\nnames = ['named.test']\nroot = 'www'\n";
    let server = site.serve_by("plain-http = ['127.0.0.1:0']", named);
    let plain = format!("{}file.txt", server.urls[1]);
    for (host, wanted) in [
        ("localhost", "200"),
        ("127.0.0.1:1", "200"),
        ("[::1]", "200"),
        ("named.test:8080", "200"),
        ("elsewhere.test", "421"),
        ("192.0.2.1", "421"),
    ] {
        let field = format!("Host: {host}");
        assert_eq!(
            status(&server, &["--header", &field, &plain]),
            wanted,
            "{host}"
        );
        // With TLS no other name can be made to lead here: its certificate would be another.
        let secure = server.url("file.txt");
        let is_other = if host.contains("named") { "421" } else { "200" };
        assert_eq!(
            status(&server, &["--header", &field, &secure]),
            is_other,
            "{host}"
        );
    }
    let page = server.curl(&["--header", "Host: elsewhere.test", &plain]);
    assert!(page.contains("<code>names</code>"), "{page}");
    server.stop();
}

#[test]
fn http_at_the_port_of_https_is_shown_the_way() {
    let Some(site) = site() else { return };
    site.write("file.txt", "text");
    let server = site.serve(&[]);
    let plain = format!("http://localhost:{}/file.txt?a", server.port());
    let heads = server.curl(&["--head", &plain]);
    assert!(heads.starts_with("HTTP/1.1 307"), "{heads}");
    assert_eq!(field(&heads, "cache-control"), Some("no-store"), "{heads}");
    let location = field(&heads, "location").unwrap();
    assert_eq!(location, server.url("file.txt?a"));
    assert_eq!(server.curl(&["--location", &plain]), "text");
    // A proxy that ends TLS for that host: it would ask the same again.
    let said = server.curl(&["--include", "--header", "Host: example.org", &plain]);
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    assert!(said.contains("HTTPS"), "{said}");
    assert_eq!(field(&said, "location"), None);
    let mut client = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let said = exchange(
        &mut client,
        b"GET nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert!(said.starts_with(b"HTTP/1.1 400 "), "{said:?}");
    // What is neither is told so by TLS, and the client hears that though it goes on.
    for length in [3, 200_000] {
        let mut client = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let mut sent = b"\x80\x2e\x01".to_vec();
        sent.resize(length, 7);
        client.write_all(&sent).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        client.read_to_end(&mut said).unwrap();
        assert_eq!(said, [21, 3, 3, 0, 2, 2, 70]);
    }
    server.stop();
}

#[test]
fn a_request_without_a_host_is_told_so_where_all_sites_have_names() {
    let Some(site) = site() else { return };
    site.write("file.txt", "text");
    let ask = b"GET /file.txt HTTP/1.0\r\n\r\n";
    for (names, wanted, words) in [
        ("", "HTTP/1.1 200", "text"),
        ("names = ['named.test']\n", "HTTP/1.1 421", "names no host"),
    ] {
        let tables = format!("[[site]]\n{names}root = 'www'\n");
        let top = "plain-http = ['127.0.0.1:0']\nredirect-http = ['127.0.0.1:0']";
        let server = site.serve_by(top, &tables);
        for (url, wanted, words) in [(1, wanted, words), (2, "HTTP/1.1 421", "names no host")] {
            let port = crate::server::port(&server.urls[url]);
            let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let said = exchange(&mut client, ask);
            let said = str::from_utf8(&said).unwrap();
            assert!(said.starts_with(wanted), "{url} {said}");
            assert!(said.contains(words), "{url} {said}");
        }
        server.stop();
    }
}

#[test]
fn schemes_versions_and_methods_are_answered_as_they_are_meant() {
    let Some(site) = site() else { return };
    site.write("file.txt", "text");
    let server = site.serve(&["--plain-http", "127.0.0.1:0"]);
    for (line, wanted) in [
        ("GET /file.txt HTTP/1.2", "200"),
        ("GET /file.txt HTTP/1.9", "200"),
        ("GET /file.txt HTTP/2.0", "505"),
        ("GET http://localhost/file.txt HTTP/1.1", "200"),
        ("GET https://localhost/file.txt HTTP/1.1", "421"),
        ("GET ftp://localhost/file.txt HTTP/1.1", "400"),
        ("DELETE /file.txt HTTP/1.1", "405"),
        ("BREW /file.txt HTTP/1.1", "501"),
    ] {
        let mut client =
            std::net::TcpStream::connect(("127.0.0.1", port(&server.urls[1]))).unwrap();
        let request = format!("{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let said = exchange(&mut client, request.as_bytes());
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.starts_with(&format!("HTTP/1.1 {wanted} ")),
            "{line}: {said}"
        );
        let is_allowed = said
            .to_ascii_lowercase()
            .contains("\r\nallow: get, head, options\r\n");
        assert_eq!(
            is_allowed,
            ["405", "501"].contains(&wanted),
            "{line}: {said}"
        );
    }
    let secure =
        "GET https://localhost/file.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let said = exchange(
        &mut connect(&server, &config(&site, "http/1.1")),
        secure.as_bytes(),
    );
    assert!(
        said.starts_with(b"HTTP/1.1 200 "),
        "{}",
        String::from_utf8_lossy(&said)
    );
    server.stop();
}

/// A field of HPACK that is not to be remembered: its name and its value as they are.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        field.push(u8::try_from(text.len()).unwrap());
        field.extend(text.bytes());
    }
    field
}

#[test]
fn fields_of_http2_that_are_malformed_are_refused() {
    let Some(site) = site() else { return };
    site.write("index.html", "a page");
    let server = site.serve(&[]);
    let config = config(&site, "h2");
    for (scheme, value, wanted) in [
        // The static table's 200 and 400, and no status where the stream is reset.
        ("https", "x y", 0x88),
        ("http", "x", 0x88),
        ("ftp", "x", 0x8c),
        ("https", " x", 0x8c),
        ("https", "x ", 0x8c),
        ("https", "\tx", 0x8c),
    ] {
        let mut fields = literal(":method", "GET");
        fields.extend(literal(":scheme", scheme));
        fields.extend(literal(":path", "/"));
        fields.extend(literal(":authority", "localhost"));
        fields.extend(literal("x-some", value));
        let mut tls = connect(&server, &config);
        std::io::Write::write_all(&mut tls, PREFACE).unwrap();
        std::io::Write::write_all(&mut tls, &frame(1, 5, 1, &fields)).unwrap();
        let mut heads = Vec::new();
        // Frames: 9 bytes of a head, of which the first 3 are a length; HEADERS is 1.
        while heads.first() != Some(&wanted) {
            let mut head = [0; 9];
            std::io::Read::read_exact(&mut tls, &mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            std::io::Read::read_exact(&mut tls, &mut payload).unwrap();
            if head[3] == 1 {
                heads = payload;
                assert_eq!(heads.first(), Some(&wanted), "{scheme} {value:?}");
            }
        }
    }
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
fn text_without_an_extension_is_recognised_where_that_is_asked_for() {
    let Some(site) = site() else { return };
    site.write("README", "Gr\u{fc}\u{df}e\n");
    site.write("binary", "a\0b");
    site.write("notes.odd", "text");
    for (setting, readme) in [
        ("true", "text/plain; charset=utf-8"),
        ("false", "application/octet-stream"),
    ] {
        let site_table = format!("[[site]]\nroot = 'www'\ndetect-text = {setting}\n");
        let server = site.serve_by("", &site_table);
        for http in ["--http1.1", "--http2"] {
            for (file, content_type) in [
                ("README", readme),
                ("binary", "application/octet-stream"),
                ("notes.odd", "application/octet-stream"),
            ] {
                let head = server.curl(&[http, "--head", &server.url(file)]);
                assert_eq!(field(&head, "content-type"), Some(content_type), "{head}");
                assert_eq!(field(&head, "x-content-type-options"), Some("nosniff"));
            }
        }
        server.stop();
    }
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
