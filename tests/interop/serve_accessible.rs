//! Pages that Scrim serves, as people see them who cannot see well or use no mouse: checked by axe-core in Chromium, on
//! desks and phones, in light and in dark colours.
//!
//! `scripts/axe.sh` fetches axe-core, which no package of Debian has: without it the test is skipped, in CI too.

use std::path::{Path, PathBuf};

use crate::server::Site;
use crate::support::{Place, have};
use crate::volume::CHEAP;

/// A file of the project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The program axe-core, where it was fetched.
fn axe() -> Option<PathBuf> {
    if !have(&["chromium", "python3"]) {
        return None;
    }
    let axe = project("target/tools/axe.min.js");
    if !axe.exists() {
        println!("skipped: no axe-core (scripts/axe.sh fetches it)");
        return None;
    }
    Some(axe)
}

/// Runs the check; returns what it printed, and whether it found no violation.
fn check(place: &Place, axe: &Path, urls: &[String]) -> (String, bool) {
    let mut command = place.command(project("scripts/accessible.py"));
    let output = command
        .env("HOME", place.dir())
        .arg(axe)
        .args(urls)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (text.into_owned(), output.status.success())
}

#[test]
fn everyone_can_read_listings_and_the_status_page() {
    let Some(axe) = axe() else { return };
    let site = Site::new();
    for name in ["letters/a.txt", "image.png", "a file.tar.gz"] {
        site.write(name, "some bytes");
    }
    site.write(
        "bad.html",
        "<!doctype html><html lang=en><title>bad</title><main><h1>Bad</h1><img src=image.png>",
    );
    let place = &site.place;
    place.write("key", "a passphrase");
    let format = format!("format -q disk.img --size 20M --key-file key {CHEAP}");
    place.scrim(format.split_whitespace());
    place.open("disk.img", "holiday-photos", &["--key-file", "key"]);
    let server = site.serve(&["--status", "127.0.0.1:0"]);
    let listing = server.url("");
    // The check does find what is wrong.
    let (said, passed) = check(place, &axe, &[server.url("bad.html")]);
    assert!(!passed && said.contains("image-alt (critical)"), "{said}");
    let (said, passed) = check(place, &axe, &[listing, server.urls[1].clone()]);
    assert!(passed, "{said}");
    server.stop();
    place.close("holiday-photos");
}

#[test]
fn everyone_can_read_the_pages_of_benchmarks() {
    let Some(axe) = axe() else { return };
    let place = Place::in_memory();
    for (name, words) in [
        ("serve.html", "serve --size 1M --rounds 2"),
        (
            "from.html",
            "serve --from dir,volume:inline --size 20000 --rounds 2 --seconds 0.1",
        ),
        (
            "paths.html",
            "paths --only served --rounds 2 --seconds 0.02",
        ),
    ] {
        let words = format!("bench {words} --html {name}");
        place.scrim(words.split_whitespace());
    }
    let urls = ["serve.html", "from.html", "paths.html"]
        .map(|name| format!("file://{}", place.path(name).display()));
    let (said, passed) = check(&place, &axe, &urls);
    assert!(passed, "{said}");
}
