//! Daemons of the cluster that are killed under load, and a pool that is full.

use std::process::Stdio;
use std::time::Duration;

use super::{Ceph, OFFSET, PAYLOAD};
use crate::support::{Background, assert_same, have, noise, wait_until};
use crate::volume::CHEAP;

/// fio, which writes to a volume and verifies what it has written, with a flush now and then.
fn verify(ceph: &Ceph, uri: &str) -> Background {
    // At this rate it writes for twenty seconds.
    let line = format!(
        "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite --bs=4k --size={PAYLOAD} --loops=2 \
         --rate_iops=,200 --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 --fsync=64"
    );
    let mut fio = ceph.place.command("timeout");
    fio.args(["240", "fio"]).args(line.split_whitespace());
    Background::start(fio.stdout(Stdio::null()))
}

/// Waits until a volume has served a hundred more writes of fio, which still runs.
fn wait_for_writes(ceph: &Ceph, volume: &str, fio: &mut Background) {
    let writes = || ceph.status(volume)["served"]["writes"].as_u64().unwrap();
    let before = writes();
    let mut ended = false;
    wait_until("fio writes", || {
        ended = fio.0.try_wait().unwrap().is_some();
        ended || writes() > before + 100
    });
    assert!(!ended, "fio has ended too soon");
}

#[test]
fn requests_wait_for_an_osd_that_is_killed() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["fio"]) {
        return;
    }
    let name = ceph.format("patient");
    let uri = ceph.scrim(&format!("open --key-file key {name} patient"));
    let mut fio = verify(&ceph, uri.trim());
    for _ in 0..2 {
        wait_for_writes(&ceph, "patient", &mut fio);
        let _killed = ceph.without("osd");
        // Its status is there, though no request ends.
        assert_eq!(ceph.lock("patient"), "held");
    }
    assert!(fio.0.wait().unwrap().success(), "fio has found other data");
    ceph.scrim("close patient");
}

#[test]
fn requests_go_on_without_a_monitor() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["fio"]) {
        return;
    }
    let name = ceph.format("headless");
    let uri = ceph.scrim(&format!("open --key-file key {name} headless"));
    let mut fio = verify(&ceph, uri.trim());
    for _ in 0..2 {
        wait_for_writes(&ceph, "headless", &mut fio);
        let _killed = ceph.without("mon");
        wait_for_writes(&ceph, "headless", &mut fio);
        assert_eq!(ceph.lock("headless"), "held");
    }
    assert!(fio.0.wait().unwrap().success(), "fio has found other data");
    ceph.scrim("close headless");
    ceph.scrim(&format!("open --readonly --key-file key {name} headless"));
}

#[test]
fn writes_wait_for_space_in_a_full_pool_and_nothing_is_lost() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    ceph.ceph("osd pool create tight 4");
    ceph.rbd("pool init tight");
    let size = OFFSET + 2 * PAYLOAD as u64;
    ceph.rbd(&format!("create --size {size}B tight/full"));
    let name = ceph.name("full").replace("rbd:pool/", "rbd:tight/");
    ceph.scrim(&format!("format {CHEAP} -q --key-file key {name}"));
    let uri = ceph.scrim(&format!("open --key-file key {name} full"));
    let uri = uri.trim();
    let [before, after] = [1, 2].map(|seed| noise(2 * PAYLOAD, seed));
    ceph.place.copy_in(&before, uri);
    ceph.ceph(&format!("osd pool set-quota tight max_bytes {PAYLOAD}"));
    wait_until("the pool is full", || {
        ceph.ceph("osd pool ls detail")
            .lines()
            .any(|line| line.contains("'tight'") && line.contains("full_quota"))
    });
    ceph.place.write("after", &after);
    let mut writer = ceph.place.command("timeout");
    writer.args(["240", "nbdcopy", "--flush", "after", uri]);
    let mut writer = Background::start(&mut writer);
    let writes = || ceph.status("full")["served"]["writes"].as_u64().unwrap();
    // Writes that were in flight when the pool became full may still complete.
    std::thread::sleep(Duration::from_secs(2));
    let ended = writes();
    std::thread::sleep(Duration::from_secs(2));
    let is_over = writer.0.try_wait().unwrap().is_some();
    assert!(
        !is_over && writes() == ended,
        "a write has ended in a full pool"
    );
    assert_eq!(ceph.lock("full"), "held");
    ceph.ceph("osd pool set-quota tight max_bytes 0");
    assert!(writer.0.wait().unwrap().success(), "a write has failed");
    assert_same(&ceph.place.copy_out(uri), &after, "once there is space");
    ceph.scrim("close full");
}
