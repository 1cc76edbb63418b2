//! cryptsetup of a newer Debian than the one that the tests run on, fetched from Debian's archive once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use scrim_guest::Cache;

use crate::support::Place;

/// Debian's suite, which has cryptsetup 2.7.
const SUITE: &str = "trixie";
/// The program and all that it is linked with.
const PACKAGES: [&str; 15] = [
    "cryptsetup-bin",
    "libcryptsetup12",
    "libc6",
    "libblkid1",
    "libcap2",
    "libdevmapper1.02.1",
    "libjson-c5",
    "libpcre2-8-0",
    "libpopt0",
    "libselinux1",
    "libssl3t64",
    "libudev1",
    "libuuid1",
    "libzstd1",
    "zlib1g",
];
/// Folder with the dynamic linker and the libraries, below that of the unpacked packages.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Writes a script into `place` that runs the newer cryptsetup. Where it cannot be fetched, `None`, and a line says so.
pub(crate) fn cryptsetup(place: &Place) -> Option<PathBuf> {
    static FETCHED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let root = FETCHED.get_or_init(|| {
        let cache = Cache::open();
        let fetched = cache.and_then(|cache| cache.programs(SUITE, &PACKAGES, &mut |_| {}));
        fetched
            .inspect_err(|error| println!("skipped: no cryptsetup of Debian {SUITE}: {error}"))
            .ok()
    });
    let root = root.as_ref()?.display();
    let libraries = format!("{root}/{LIBRARIES}");
    let script = format!(
        "#!/bin/sh\nexec {libraries}/ld-linux-x86-64.so.2 --library-path {libraries} {root}/usr/sbin/cryptsetup \"$@\"\n"
    );
    let path = place.write("newer-cryptsetup", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Some(path)
}
