//! Mounts under fsx-like operations against a model (`tests/support/fsx.py`) and under fio's verification, by each method.

use std::fs;
use std::time::SystemTime;

use crate::mount::{Disk, root_may_mount};
use crate::support::{PYTHON, have, script};

/// Methods, with a size, a mkfs, and options of `scrim mount`.
const WAYS: [(&str, &str, &str, &str); 6] = [
    ("raw", "48M", "true", "--raw"),
    ("raw", "48M", "true", "--raw --page-cache"),
    ("ext4", "96M", "mkfs.ext4 -q -b 4096", "--method program"),
    ("ext4", "96M", "mkfs.ext4 -q -b 4096", "--method kernel"),
    ("xfs", "336M", "mkfs.xfs -q -s size=4096", ""),
    ("btrfs", "160M", "mkfs.btrfs -q", ""),
];

/// Runs both programs for `seconds` each on each method; then the file is looked at again after a second mount.
fn load(seconds: u32, seed: u64) {
    if !root_may_mount() || !have(&["fio", "mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    for (kind, size, mkfs, options) in WAYS {
        if kind != "raw" && !known.contains(kind) {
            println!("skipped: this kernel has no {kind}");
            continue;
        }
        println!("{kind} {options}, seed {seed}");
        let disk = Disk::new(size, mkfs);
        disk.mount(options);
        let place = &disk.0;
        let is_disk = kind == "raw";
        let file = if is_disk { "mnt/disk" } else { "mnt/fsx" };
        let fsx = script("fsx.py");
        let (seed, time) = (seed.to_string(), seconds.to_string());
        let mut words = vec![fsx.to_str().unwrap(), file, &seed, &time];
        words.extend(is_disk.then_some("disk"));
        print!("{}", place.run(PYTHON, words));
        let target = if is_disk { "mnt/disk" } else { "mnt/fio" };
        for engine in [
            "--ioengine=libaio --iodepth=16 --direct=1",
            "--ioengine=psync --fsync=32",
        ] {
            let half = (seconds / 2).max(1);
            let words = format!(
                "--name=verify --filename={target} --rw=randrw --bsrange=4k-256k --blockalign=4k --size=24M \
                 --verify=crc32c --verify_fatal=1 --verify_backlog=64 --randseed={seed} --verify_state_save=0 \
                 --end_fsync=1 --runtime={half} --time_based {engine}"
            );
            let said = place.run("fio", words.split_whitespace());
            assert!(said.contains("err= 0"), "{said}");
        }
        disk.unmount();
        if !is_disk {
            disk.mount(&format!("{options} --readonly"));
            place.run("cmp", ["fsx.model", "mnt/fsx"]);
            disk.unmount();
        }
    }
}

#[test]
fn every_method_agrees_with_a_model_under_load() {
    load(2, 7);
}

/// Ten minutes, with operations of their own each time.
#[test]
#[ignore = "takes ten minutes: cargo test --test interop mount_load -- --ignored"]
fn every_method_agrees_with_a_model_for_long() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    load(50, now.unwrap().as_secs());
}
