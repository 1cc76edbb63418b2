//! Reads beside changes of parts of the same sector, on storage that tears it: bytes that no thread writes are
//! read as they are, and no thread is left waiting.

use std::sync::Arc;

use scrim_backend::{Backend, Durability};
use shuttle::thread;

use super::watched::{WAYS, Watched, Way};
use super::{hold, is_found_out};
use crate::stats::Record;
use crate::{DataPath, Volume};

/// Orders of each model.
const ORDERS: usize = 2000;

/// Bytes of a sector.
const SECTOR: usize = 512;

/// Offset and length of each part of the first sector that one thread writes. The sector is torn within the
/// first of them.
const PARTS: [(usize, usize); 2] = [(100, 4), (300, 4)];
const TEAR: u64 = 102;

const CIPHERS: [&str; 6] = [
    "aes-xts-plain64",
    "aes-cbc-plain64",
    "aes-cbc-essiv:sha256",
    "aes-cbc-eboiv",
    "aes-ctr-plain64",
    "aes-ecb",
];

const CBC: &str = CIPHERS[2];

/// A volume of zeros.
fn start(way: Way, slow: bool) -> Arc<Volume> {
    let backend = Watched::torn(&Watched::memory(), slow, TEAR);
    let open = |_: &str| Ok(Arc::clone(&backend) as Arc<dyn Backend>);
    let volume = Volume::start(way.table("one"), way.2, open).unwrap();
    let mut zeros = [0; 4 * SECTOR];
    volume.write(0, &mut zeros, Durability::Cached).unwrap();
    Arc::new(volume)
}

fn change(volume: &Volume, (offset, len): (usize, usize)) {
    for byte in 1..=2 {
        let mut part = vec![byte; len];
        volume
            .write(offset as u64, &mut part, Durability::Cached)
            .unwrap();
    }
}

fn check(read: &[u8]) {
    for (at, &byte) in read.iter().enumerate() {
        let is_written = |&(offset, len): &(usize, usize)| (offset..offset + len).contains(&at);
        let most = if PARTS.iter().any(is_written) { 2 } else { 0 };
        assert!(byte <= most, "noise at {at}");
    }
}

/// Two threads that change parts, one that writes whole sectors in the same region, and two that read.
fn beside_changes(volume: &Arc<Volume>, read: impl Fn(&Volume) + Send + Clone + 'static) {
    let mut threads = Vec::new();
    for part in PARTS {
        let volume = Arc::clone(volume);
        threads.push(thread::spawn(move || change(&volume, part)));
    }
    let same = Arc::clone(volume);
    threads.push(thread::spawn(move || {
        let at = 8 * SECTOR as u64;
        same.write(at, &mut [7; SECTOR], Durability::Cached)
            .unwrap();
    }));
    let (same, other) = (Arc::clone(volume), read.clone());
    threads.push(thread::spawn(move || other(&same)));
    read(volume);
    for thread in threads {
        thread.join().unwrap();
    }
    let mut sector = [0; SECTOR];
    volume.read(0, &mut sector).unwrap();
    check(&sector);
    for (offset, len) in PARTS {
        assert_eq!(sector[offset..offset + len], [2; 4][..len]);
    }
}

/// Reads the sector alone, and with others in a request that is split.
fn by_call(volume: &Volume) {
    for len in [SECTOR, 4 * SECTOR] {
        let mut read = vec![9; len];
        volume.read(0, &mut read).unwrap();
        check(&read);
    }
}

#[test]
fn bytes_that_nobody_writes_are_read_as_they_are_in_every_mode() {
    for cipher in CIPHERS {
        // As many orders as it takes to find the rarest fault, below.
        let orders = if cipher == CBC {
            10 * ORDERS
        } else {
            ORDERS / 2
        };
        hold(orders, move || {
            beside_changes(&start(Way(cipher, "", DataPath::Inline), false), by_call);
        });
    }
}

#[test]
fn bytes_that_nobody_writes_are_read_as_they_are_on_every_way() {
    for Way(cipher, flags, path) in WAYS {
        let cipher = match cipher.starts_with("capi") {
            true => "capi:cryptd(cbc(aes))-essiv:sha256",
            false => CBC,
        };
        for slow in [false, true] {
            hold(ORDERS / 2, move || {
                beside_changes(&start(Way(cipher, flags, path), slow), by_call);
            });
        }
    }
}

/// Reads the first sector with `read`, and decrypts it.
fn sector_by(volume: &Volume, read: impl Fn(&crate::crypt_target::CryptTarget, &mut [u8])) {
    let mapping = volume.enter();
    let crypt = mapping.targets()[0].crypt().expect("a crypt target");
    let mut sector = [9; SECTOR];
    read(&crypt.target, &mut sector);
    (crypt.target).decrypt_sectors(0, &mut sector, &mut Record::default());
    check(&sector);
}

#[test]
fn a_reader_that_does_not_look_for_changes_is_found_out() {
    for cipher in [CBC, "aes-xts-plain64"] {
        is_found_out(ORDERS, move || {
            let volume = start(Way(cipher, "", DataPath::Inline), false);
            beside_changes(&volume, |volume| {
                sector_by(volume, |target, sector| {
                    target.backend.read_at(0, sector).unwrap();
                });
            });
        });
    }
}

#[test]
fn a_reader_that_does_not_hold_changes_off_is_found_out() {
    is_found_out(10 * ORDERS, || {
        let volume = start(Way(CBC, "", DataPath::Inline), false);
        beside_changes(&volume, |volume| {
            sector_by(volume, |target, sector| {
                let mut read = || target.backend.read_at(0, sector).unwrap();
                let undisturbed = target.locks.undisturbed(0, SECTOR as u64, &mut read);
                undisturbed.unwrap_or_else(read);
            });
        });
    });
}
