//! `scrim serve` before two judges: h2spec, of HTTP/2 (RFC 9113) and HPACK (RFC 7541), and testssl.sh, of what is
//! offered by TLS.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::{Server, Site, port};
use crate::support::{Place, have, scrim};

/// Number of times that a case is tried until it passes. h2spec sends something wrong on a stream and takes the
/// next frame for the server's reaction, but it may be the answer to the request before, which was on its way.
/// That depends on timing, while a fault of the server shows each time.
const TRIES: usize = 20;

/// Builds h2spec, of the version in `tests/support/h2spec`.
fn h2spec(place: &Place) -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/h2spec");
    let program = place.path("h2spec");
    let mut build = place.command("go");
    build.current_dir(modules).args(["build", "-o"]);
    build
        .arg(&program)
        .arg("github.com/summerwind/h2spec/cmd/h2spec");
    let built = build.env("GOFLAGS", "-mod=readonly").output().unwrap();
    crate::support::succeeded("go build", &built);
    program
}

/// Runs cases; returns how many there were, and which failed.
fn run(program: &Path, server: &Server, file: &str, cases: &[String]) -> (usize, BTreeSet<String>) {
    let mut command = server.site.place.command(program);
    let port = server.port().to_string();
    command.args([
        "--tls",
        "--insecure",
        "--strict",
        "--timeout",
        "3",
        "--port",
    ]);
    command.args([&port, "--path", file, "--junit-report", "report.xml"]);
    command.args(cases).output().unwrap();
    let report = std::fs::read_to_string(server.site.place.path("report.xml")).unwrap();
    let (mut count, mut failed) = (0, BTreeSet::new());
    for case in report.split("<testcase ").skip(1) {
        let attribute = |name: &str| {
            let value = case.split(&format!("{name}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().to_owned()
        };
        count += 1;
        if case.contains("<failure") || case.contains("<error") {
            failed.insert(format!(
                "{}: {}",
                attribute("package"),
                attribute("classname")
            ));
        }
    }
    (count, failed)
}

#[test]
fn every_case_of_h2spec_passes() {
    if !have(&["go"]) {
        return;
    }
    let site = Site::new();
    site.write("short", "hello\n");
    site.place.sparse("www/long", 100 << 20);
    let program = h2spec(&site.place);
    let server = site.serve(&[]);
    let (count, mut failed) = run(&program, &server, "/short", &[]);
    assert!(count > 140, "only {count} cases");
    for turn in 0..TRIES {
        if failed.is_empty() {
            break;
        }
        // Some need an answer that has not ended, others one that has.
        let file = ["/long", "/short"][turn % 2];
        let sections: BTreeSet<String> = failed
            .iter()
            .map(|case| case.split(':').next().unwrap().to_owned())
            .collect();
        let sections: Vec<String> = sections.into_iter().collect();
        let (_, again) = run(&program, &server, file, &sections);
        failed = failed.intersection(&again).cloned().collect();
    }
    assert!(failed.is_empty(), "never passed: {failed:#?}");
    assert_eq!(server.curl(&[&server.url("short")]), "hello\n");
    server.stop();
}

/// Findings that our own certificate causes, whatever the server does.
const OF_THE_CERTIFICATE: [&str; 3] = ["cert_chain_of_trust", "cert_revocation", "DNS_CAArecord"];

#[test]
fn testssl_finds_nothing_wrong() {
    if !have(&["testssl", "openssl"]) {
        return;
    }
    let site = Site::new();
    site.write("index.html", "hello");
    let mut command = site.place.command(scrim());
    let server = Server::start(
        &site,
        command.args("serve www --listen 127.0.0.1:0".split(' ')),
    );
    let host = format!("localhost:{}", port(&server.urls[0]));
    let sections = "--warnings off --color 0 --jsonfile found.json --ip 127.0.0.1 --protocols --std --vulnerable \
                    --server-defaults --fs --server-preference";
    let mut testssl = site.place.command("testssl");
    // It exits with the count of what it complains about.
    let output = testssl.args(sections.split_whitespace()).arg(&host);
    let output = output.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let found = std::fs::read_to_string(site.place.path("found.json")).unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    let found = found.as_array().unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    assert!(found.len() > 60, "only {} findings: {said}", found.len());
    for (id, severity) in [
        ("TLS1_3", "OK"),
        ("TLS1_2", "OK"),
        ("TLS1_1", "INFO"),
        ("SSLv3", "OK"),
    ] {
        let is_so = |finding: &&Value| text(finding, "id") == id;
        let finding = found.iter().find(is_so).unwrap();
        assert_eq!(text(finding, "severity"), severity, "{finding}");
    }
    let bad: Vec<&Value> = found
        .iter()
        .filter(|finding| {
            let is_harmless = ["OK", "INFO", "LOW", "DEBUG"].contains(&&*text(finding, "severity"));
            let id = text(finding, "id");
            // What it cannot do is nobody's weakness: its openssl may have no engines, and leaves so soon that
            // it may have no ticket yet to come back with (`serve_openssl` resumes).
            let could_not = text(finding, "severity") == "WARN"
                && ["engine_problem", "sessionresumption_ticket"].contains(&&*id);
            !is_harmless && !could_not && !OF_THE_CERTIFICATE.contains(&&*id)
        })
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    server.stop();
}
