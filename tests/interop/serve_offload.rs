//! TLS offload, on a machine whose kernel may or may not support it: the content is the same, and the server says
//! which side made the records, and why. The tests in guests check the records that the kernel makes.

use crate::server::{Server, Site};
use crate::support::{have, wait_until};

/// Returns whether this machine's kernel has TLS for `scrim`, as it says itself.
fn kernel_has_tls(site: &Site) -> bool {
    let mut command = site.place.command(crate::support::scrim());
    let said = command
        .args(["serve", "www", "--check", "--tls-offload", "on"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.success(), text.is_empty(), "{text}");
    assert!(
        text.is_empty() || text.contains("--tls-offload auto"),
        "{text}"
    );
    said.status.success()
}

/// Number of connections that took `path` for `reason`.
fn taken(server: &Server, path: &str, reason: &str) -> u32 {
    let metrics = server.curl(&[&format!("{}metrics", server.urls[1])]);
    let name = format!("scrim_serve_tls_connections_total{{path=\"{path}\",reason=\"{reason}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap().parse().unwrap()
}

#[test]
fn each_connection_says_who_makes_its_records_and_why() {
    if !have(&["curl"]) {
        return;
    }
    let site = Site::new();
    site.write("file.txt", "the file's text\n");
    let by_kernel = kernel_has_tls(&site);
    let top = |offload: &str| {
        format!(
            "status = '127.0.0.1:0'\naccess-log = {{ file = 'log', format = 'json' }}\n\
             tls.offload = '{offload}'"
        )
    };
    let server = site.serve_by(&top("off"), "[[site]]\nroot = 'www'\n");
    let get = |way| {
        assert_eq!(
            server.curl(&[way, &server.url("file.txt")]),
            "the file's text\n"
        );
    };
    get("--http1.1");
    assert_eq!(taken(&server, "user", "off"), 1);

    // The switch counts for connections that come from then on.
    site.configure(&top("auto"), "[[site]]\nroot = 'www'\n");
    server.reload();
    get("--http1.1");
    get("--http2");
    assert_eq!(taken(&server, "user", "off"), 1);
    assert_eq!(taken(&server, "kernel", ""), u32::from(by_kernel));
    assert_eq!(taken(&server, "user", "http2"), u32::from(by_kernel));
    // Figures are asked for without TLS.
    let paths = || {
        let log = std::fs::read_to_string(site.place.path("log")).unwrap();
        let path = |line: &str| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            let reason = entry["tls_reason"].as_str().map(str::to_owned);
            Some((entry["tls_path"].as_str()?.to_owned(), reason))
        };
        log.lines().filter_map(path).collect::<Vec<_>>()
    };
    wait_until("the log", || paths().len() == 3);
    let paths = paths();
    assert_eq!(paths[0], ("user".to_owned(), Some("off".to_owned())));
    assert_eq!(
        paths[1].0,
        if by_kernel { "kernel" } else { "user" },
        "{paths:?}"
    );
    assert_eq!(paths[1].1.is_none(), by_kernel, "{paths:?}");
    server.stop();
}

#[test]
fn a_key_that_is_used_up_is_changed_or_ends_the_connection_with_a_farewell() {
    if !have(&["curl"]) {
        return;
    }
    let site = Site::new();
    let content: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7 % 251) as u8).collect();
    site.write("file", &content);
    // Twenty records are some 300 KB.
    let server = site.serve_by("limits.records-per-key = 20", "[[site]]\nroot = 'www'\n");
    let out = site.place.path("got").display().to_string();
    server.curl(&["--http1.1", "--tlsv1.3", "-o", &out, &server.url("file")]);
    assert_eq!(std::fs::read(&out).unwrap(), content);
    std::fs::remove_file(&out).unwrap();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let output = server.try_curl(&[
            "--http1.1",
            "--tls-max",
            "1.2",
            "-C",
            "-",
            "-o",
            &out,
            &server.url("file"),
        ]);
        if output.status.success() {
            break;
        }
        // The client was told, and did not find itself cut off.
        assert_eq!(output.status.code(), Some(18), "{output:?}");
        assert!(attempts < 30, "{output:?}");
    }
    assert!(attempts > 5, "{attempts}");
    assert_eq!(std::fs::read(&out).unwrap(), content);
    server.stop();
}
