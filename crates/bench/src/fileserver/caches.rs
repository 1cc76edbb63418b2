//! The page cache, which is dropped before files are read.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use rustix::process::getuid;

/// Warning about reads that caches may have served.
pub const CACHES_KEPT: &str = "caches: they could not all be dropped before each phase that reads, so rates of reads may be those of memory";

/// Drops what the page cache holds of `files`, and as root everything that it holds. Returns whether both could
/// be done as far as this user may.
#[must_use]
pub(super) fn drop_caches(files: &[&Path]) -> bool {
    let dropped = files.iter().all(|path| drop_file(path).is_ok());
    if !getuid().is_root() {
        return dropped;
    }
    let all = File::options().write(true).open("/proc/sys/vm/drop_caches");
    let all = all.and_then(|mut file| file.write_all(b"3\n"));
    all.is_ok() && dropped
}

fn drop_file(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let file = File::open(path)?;
    file.sync_data()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}
