//! A volume on a file that s3backer shows of an object store, and which of its caches keep a flush when it is killed.
//!
//! The store is moto's server. Neither program is among the packages that test runs install (s3backer is Debian's, moto
//! Python's `moto[server]`): without them the test is skipped, in CI too.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::{Background, Place, have, have_rare, is_root, noise, scrim, wait_until};
use crate::volume::CHEAP;

/// Bytes that are written and flushed.
const WRITTEN: usize = 2 << 20;

/// A mounted store, until this is dropped.
struct Mounted<'a> {
    place: &'a Place,
    folder: PathBuf,
    process: Background,
}

impl<'a> Mounted<'a> {
    fn start(place: &'a Place, store: &str, bucket: &str, options: &[&str]) -> Self {
        let folder = place.path(bucket);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = place.command("s3backer");
        command.args([
            "--accessId=x",
            "--accessKey=y",
            "--size=4m",
            "--blockSize=64k",
            // S3 of 2012 could show an object as it was before; today's stores do not.
            "--minWriteDelay=0",
        ]);
        // The one that was killed has left its mark in the store.
        command.args(["--force", "--timeout=30", &format!("--baseURL={store}")]);
        command.args(options).arg("-f").arg(bucket).arg(&folder);
        let process = Background::start(command.stderr(Stdio::null()));
        let mounted = Self {
            place,
            folder,
            process,
        };
        wait_until("the store is mounted", || {
            mounted.folder.join("file").exists()
        });
        mounted
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.process.0.kill();
        let _ = self.process.0.wait();
        let mut command = self.place.command("umount");
        let _ = command.arg("--lazy").arg(&self.folder).output();
    }
}

/// The number of flushed bytes that are lost when s3backer is killed.
fn lost(place: &Place, store: &str, bucket: &str, options: &[&str]) -> usize {
    place.run(
        "curl",
        ["-q", "--silent", "-X", "PUT", &format!("{store}{bucket}")],
    );
    let image = format!("{bucket}/file");
    let mounted = Mounted::start(place, store, bucket, options);
    // The header is elsewhere, so that few objects are written.
    let header = format!("{bucket}.header");
    let format = format!("format {CHEAP} -q --key-file key --header {header} {image}");
    place.scrim(format.split_whitespace());
    let uri = place.open(&image, bucket, &["--key-file", "key", "--header", &header]);
    let bytes = noise(WRITTEN, 1);
    // nbdcopy flushes at the end.
    place.copy_in(&bytes, &uri);
    drop(mounted);
    // Its last flush fails, as the storage is gone.
    let close = ["close", "--force", bucket];
    let _ = place.run_with_input(scrim(), close, b"");
    let _mounted = Mounted::start(place, store, bucket, options);
    let words = [
        "export",
        "-q",
        &image,
        "exported",
        "--key-file",
        "key",
        "--header",
        &header,
    ];
    place.scrim(words);
    let found = std::fs::read(place.path("exported")).unwrap();
    std::fs::remove_file(place.path("exported")).unwrap();
    let pairs = bytes.iter().zip(&found);
    pairs.filter(|(written, found)| written != found).count()
}

#[test]
fn s3backer_keeps_a_flush_unless_its_cache_writes_late() {
    if !have_rare(&["s3backer", "moto_server"], "s3backer; moto is Python's")
        || !have(&["nbdcopy", "curl"])
    {
        return;
    }
    if !is_root() {
        println!("skipped: s3backer lets others look at its file, which only root may");
        return;
    }
    let place = Place::new();
    place.write("key", "open sesame");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let store = format!("http://127.0.0.1:{port}/");
    let mut command = place.command("moto_server");
    command.args(["-H", "127.0.0.1", "-p", &port]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Background::start(command);
    wait_until("the store answers", || {
        let mut curl = place.command("curl");
        let curl = curl.args(["-q", "--silent", "--output", "answer", &store]);
        curl.status().unwrap().success()
    });
    for (bucket, options) in [
        ("uncached", &["--blockCacheSize=0"][..]),
        (
            "synchronous",
            &["--blockCacheSync", "--blockCacheWriteDelay=0"],
        ),
    ] {
        assert_eq!(lost(&place, &store, bucket, options), 0, "{bucket}");
    }
    // How much that is depends on the moment.
    let late = lost(&place, &store, "usual", &[]);
    println!("s3backer's usual cache: {late} of {WRITTEN} flushed bytes lost");
}
