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
