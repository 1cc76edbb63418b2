//! Cost of a request: one read and one write on the device, and data that stays where it was received.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use scrim_export::Traffic;
use scrim_sys::memory::DataBuffer;

use crate::common::{MIB, SIZE, Stage, pattern};

/// Counts once nothing is in flight any more. A program may go on before its reply is counted.
fn settled(stage: &Stage) -> Traffic {
    let mut last = stage.mounted.traffic();
    loop {
        thread::sleep(Duration::from_millis(20));
        let now = stage.mounted.traffic();
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Reads or writes `count` ranges of `len` bytes, and checks the counts and the memory that the storage was given.
fn check(stage: &Stage, len: usize, writes: bool) {
    const COUNT: u64 = 8;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(stage.path())
        .unwrap();
    let mut data = DataBuffer::zeroed(len);
    data.copy_from_slice(&pattern(1, len));
    let before = settled(stage);
    stage.backend.places.lock().unwrap().clear();
    for index in 0..COUNT {
        let offset = index * len as u64;
        if writes {
            file.write_all_at(&data, offset).unwrap();
        } else {
            file.read_exact_at(&mut data, offset).unwrap();
        }
    }
    let places = std::mem::take(&mut *stage.backend.places.lock().unwrap());
    let after = settled(stage);
    let told = format!("{len} bytes, writes: {writes}, {before:?} to {after:?}");

    let (was, is) = match writes {
        true => (before.write, after.write),
        false => (before.read, after.read),
    };
    assert_eq!(is.requests - was.requests, COUNT, "{told}");
    assert_eq!(is.bytes - was.bytes, COUNT * len as u64, "{told}");
    assert_eq!(after.copied, before.copied, "{told}");
    // One receive and one send for each; an attribute may have to be asked for in between.
    let receives = after.receives - before.receives;
    assert!((COUNT..COUNT + 2).contains(&receives), "{told}");
    assert_eq!(after.sends - before.sends, receives, "{told}");

    // All of the data of a request lies in one piece, from a page on.
    let stored: usize = places.iter().map(|(_, len)| len).sum();
    assert_eq!(stored as u64, COUNT * len as u64, "{told}");
    let mut end = 0;
    let mut pieces = 0;
    for (start, len) in places {
        if start != end {
            assert_eq!(start % 4096, 0, "{told}");
            pieces += 1;
        }
        end = start + len;
    }
    assert!(pieces <= COUNT, "{told}");
}

#[test]
fn a_request_is_one_read_and_one_write_and_no_copy() {
    let Some(stage) = Stage::set() else { return };
    for len in [4096, 128 << 10, 1 << 20] {
        check(&stage, len, true);
        check(&stage, len, false);
    }
    stage.end();
}

#[test]
fn many_readers_are_served_side_by_side() {
    let Some(stage) = Stage::set() else { return };
    let expected = pattern(8, usize::try_from(SIZE).unwrap());
    let file = stage.open();
    file.write_all_at(&expected, 0).unwrap();
    thread::scope(|scope| {
        for reader in 0..16u64 {
            let (file, expected) = (&file, &expected);
            scope.spawn(move || {
                let mut data = vec![0; 1 << 20];
                for round in 0..16 {
                    let offset = (reader * 7 + round * 3) % 15 * MIB + reader * 512;
                    file.read_exact_at(&mut data, offset).unwrap();
                    let at = usize::try_from(offset).unwrap();
                    assert!(data == expected[at..at + data.len()]);
                }
            });
        }
    });
    drop(file);
    stage.end();
}

/// One program writes as much as the kernel lets it, by long requests; a small read of another is served after those that
/// were in the queue before it, so that it never waits for more than the queue holds.
#[test]
fn a_greedy_writer_holds_up_a_small_reader_by_one_queue_at_most() {
    const READS: u64 = 50;
    let Some(stage) = Stage::set() else { return };
    let mut fio = std::process::Command::new("fio");
    fio.args([
        "--name=greedy",
        "--thread",
        "--rw=write",
        "--bs=1M",
        "--iodepth=64",
    ])
    .args(["--ioengine=libaio", "--direct=1", "--size=16M"])
    .args(["--time_based", "--runtime=600", "--allow_file_create=0"])
    .arg(format!("--filename={}", stage.path().display()))
    .stdout(std::process::Stdio::null());
    let mut fio = match fio.spawn() {
        Ok(fio) => fio,
        Err(error) => return crate::common::skip(&format!("fio: {error}")),
    };
    while stage.mounted.traffic().write.requests < 200 {
        assert!(fio.try_wait().unwrap().is_none(), "fio has ended");
        thread::sleep(Duration::from_millis(10));
    }
    let file = stage.open();
    let mut most = 0;
    for index in 0..READS {
        let before = stage.mounted.traffic().write.requests;
        file.read_exact_at(&mut [0; 4096], index * 4096).unwrap();
        most = most.max(stage.mounted.traffic().write.requests - before);
    }
    let all = stage.mounted.traffic().write.requests;
    fio.kill().unwrap();
    fio.wait().unwrap();
    println!("a read met at most {most} writes of 1 MiB; {all} in all");
    // Those in the queue, those that the threads had begun, and those that came while this thread was not scheduled.
    assert!(most <= 100, "{most}");
    drop(file);
    stage.end();
}

/// Readers that meet in the storage: each waits there until both have come.
#[test]
fn a_request_that_waits_for_the_storage_holds_up_no_other() {
    let Some(stage) = Stage::set() else { return };
    let (begun, first) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let waits = Mutex::new(Some(wait));
    let hook = move || {
        if let Some(wait) = waits.lock().unwrap().take() {
            begun.send(()).unwrap();
            wait.recv().unwrap();
        }
    };
    assert!(stage.backend.on_read.set(Box::new(hook)).is_ok());
    let path = stage.path();
    let reader = thread::spawn(move || {
        let file = std::fs::File::open(path).unwrap();
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
    });
    first.recv().unwrap();
    // A request that needs no storage.
    assert_eq!(std::fs::metadata(stage.path()).unwrap().len(), SIZE);
    go_on.send(()).unwrap();
    reader.join().unwrap();
    stage.end();
}
