//! The ways by which requests reach the storage: each must leave the same bytes.

use std::process::Stdio;

use crate::support::{assert_same, have, noise};
use crate::volume::{Image, LUKS1, PAYLOAD, USUAL};

const WAYS: [&str; 5] = [
    "--io-engine plain",
    "--io-engine io_uring",
    "--io-engine threads",
    "--io-engine io_uring --direct-io on",
    "--io-engine threads --direct-io on",
];

#[test]
fn what_each_engine_writes_is_what_an_independent_decryptor_reads() {
    if !have(&["cryptsetup", "nbdcopy"]) {
        return;
    }
    for (turn, way) in (1..).zip(WAYS) {
        for case in [LUKS1[1], USUAL] {
            // Storage past the page cache may not have blocks as small as LUKS1's sectors.
            if way.contains("direct") && case.sector != USUAL.sector {
                continue;
            }
            let image = Image::made_by_cryptsetup(case);
            let before = noise(PAYLOAD, turn);
            image.encrypt_independently(&before);
            let place = &image.place;
            let options: Vec<&str> = way.split(' ').collect();
            let uri = image.open_with("key", "secret", &options);
            let status = place.scrim(["status", "secret"]);
            assert!(status.contains(options[1]), "{way}: {status}");
            assert_same(&place.copy_out(&uri), &before, way);
            let after = noise(PAYLOAD, 100 + turn);
            place.copy_in(&after, &uri);
            place.close("secret");
            assert_same(&image.decrypt_independently(), &after, way);
        }
    }
}

/// Many requests at a time, whose sizes and offsets are not multiples of a sector.
#[test]
fn fio_reads_what_it_wrote_through_each_engine() {
    if !have(&["cryptsetup", "fio"]) {
        return;
    }
    for way in WAYS {
        // Storage past the page cache may not have smaller blocks.
        let (case, some) = match way.contains("direct") {
            true => (
                USUAL,
                ["--bs=4k", "--bs=64k", "--bsrange=4k-300k --blockalign=4k"],
            ),
            false => (
                LUKS1[1],
                ["--bs=4k", "--bs=512", "--bsrange=512-300k --blockalign=512"],
            ),
        };
        let image = Image::made_by_cryptsetup(case);
        let place = &image.place;
        let options: Vec<&str> = way.split(' ').collect();
        let uri = image.open_with("key", "secret", &options);
        for blocks in some {
            let line = format!(
                "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite {blocks} --size={PAYLOAD} \
                 --iodepth=32 --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
                 --do_verify=1 --fsync=100"
            );
            let mut fio = place.command("fio");
            fio.args(line.split_whitespace()).stdout(Stdio::null());
            assert!(fio.status().unwrap().success(), "{way} {blocks}");
        }
        let status = place.scrim(["status", "secret"]);
        assert!(!status.contains("error:"), "{way}: {status}");
        place.close("secret");
    }
}

#[test]
fn plain_calls_do_not_pass_the_page_cache_by() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let line = "open disk.img secret -d key --io-engine plain --direct-io on";
    let output = place.run_with_input("scrim", line.split(' '), b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--direct-io"), "{said}");
}
