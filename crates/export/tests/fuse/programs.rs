//! Programs that take the file for a disk.

use std::path::Path;
use std::process::Command;

use scrim_export::fuse::{MountOptions, PageCache, PunchHole};

use crate::common::{Stage, tool};

/// Runs a program that has to succeed, and returns its output; `None` if it is missing.
fn run(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let output = tool(command.args(arguments).arg(file))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {said} {output:?}");
    Some(said)
}

/// A volume that allows discards, which make noise. A file system that took holes for zeros would be broken.
#[test]
fn a_file_system_is_sound() {
    for cache in [PageCache::Bypass, PageCache::WriteBack] {
        let options = MountOptions {
            cache,
            ..MountOptions::default()
        };
        let table = "1 allow_discards";
        let Some(stage) = Stage::with(table, PunchHole::Refuse, &options) else {
            return;
        };
        let file = stage.path();
        let mkfs = ["-q", "-F", "-d", "src"];
        let path = format!("{}:{}", env!("PATH"), "/usr/sbin:/sbin");
        let mut command = Command::new("mkfs.ext4");
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("PATH", path)
            .args(mkfs)
            .arg(&file);
        let Some(made) = tool(&mut command) else {
            return;
        };
        assert!(made.status.success(), "{made:?}");
        if run("/usr/sbin/e2fsck", &["-fn"], &file).is_none() {
            return;
        }
        let request = ["-R", "cat /lib.rs"];
        let Some(read) = run("/usr/sbin/debugfs", &request, &file) else {
            return;
        };
        assert_eq!(read, include_str!("../../src/lib.rs"));
        stage.end();
    }
}

#[test]
fn fio_verifies_its_writes() {
    let blocks = ["--bs=4k", "--bs=1M", "--bsrange=512-300k --blockalign=512"];
    let ways = [
        (
            PageCache::Bypass,
            "--ioengine=libaio --iodepth=16 --direct=1",
        ),
        (PageCache::Bypass, "--ioengine=psync"),
        (PageCache::WriteBack, "--ioengine=psync"),
        (PageCache::WriteBack, "--ioengine=mmap"),
    ];
    for (blocks, (cache, way)) in blocks.into_iter().flat_map(|b| ways.map(|way| (b, way))) {
        let options = MountOptions {
            cache,
            ..MountOptions::default()
        };
        let Some(stage) = Stage::with("", PunchHole::Refuse, &options) else {
            return;
        };
        let mut fio = Command::new("fio");
        fio.args(["--name=verify", "--rw=randwrite", "--size=12M", "--loops=2"])
            .args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"])
            .args(["--verify_state_save=0", "--end_fsync=1", "--randseed=7"])
            .args(blocks.split(' ').chain(way.split(' ')))
            .arg("--allow_file_create=0")
            .arg(format!("--filename={}", stage.path().display()));
        let Some(output) = tool(&mut fio) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{blocks} {way}: {said} {output:?}");
        assert!(said.contains("err= 0"), "{blocks} {way}: {said}");
        stage.end();
    }
}
