//! A source that others change is read once: after each single instruction of the kernels, the
//! whole source changes.
//!
//! The handler fills the source with a value that tells which instruction it was. A kernel that read a byte
//! twice, or a part of a word now and the other part later, would encrypt bytes that never were in memory.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::cell::Cell;
use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::ptr;

use common::steps::after_each_instruction;
use common::{cipher, drivers, is_portable, key_sizes, plaintext, sector_size};
use rustix::fs::MemfdFlags;
use scrim_crypt::vectored::Vectored;
use scrim_crypt::{Geometry, IvSector, SectorCipher, SharedSource};
use scrim_sys::memory::MappedFile;

const FIRST: IvSector = IvSector(77);
const SECTOR: usize = 512;
/// One specification of each mode, for each cipher that has kernels of this project.
const SPECS: [&str; 14] = [
    "aes-xts-plain64",
    "aes-cbc-plain64",
    "aes-ctr-plain64",
    "aes-ecb",
    "serpent-xts-plain64",
    "serpent-cbc-plain64",
    "serpent-ctr-plain64",
    "serpent-ecb",
    "camellia-xts-plain64",
    "camellia-cbc-plain64",
    "camellia-ctr-plain64",
    "camellia-ecb",
    "aes-lrw-benbi",
    "xchacha12,aes-adiantum-plain64",
];

#[test]
fn each_byte_is_read_once() {
    for spec in SPECS {
        for driver in drivers(spec) {
            let largest = key_sizes(spec).max();
            for key_size in key_sizes(spec) {
                // An instruction takes microseconds here. Where sectors are turned side by side,
                // more than any kernel takes at once. Camellia takes the most instructions, and its code is the same for all
                // sizes of keys. Adiantum copies its source before anything else, by the same code in all kernels.
                let is_camellia = spec.starts_with("camellia");
                let most = match spec {
                    _ if spec.contains("cbc") && !is_camellia => 18,
                    _ if spec.contains("adiantum") => 2,
                    _ => 4,
                };
                let sectors = match (is_portable(driver), Some(key_size) == largest) {
                    (_, false) if is_camellia => continue,
                    (false, true) => most,
                    (true, true) if spec.contains("adiantum") => continue,
                    (false, false) | (true, true) => 2,
                    (true, false) => continue,
                };
                let geometry = Geometry::new(sector_size(SECTOR));
                check(&cipher(driver, spec, key_size, geometry), sectors, driver);
            }
        }
    }
}

#[test]
fn the_null_cipher_too() {
    let geometry = Geometry::new(sector_size(SECTOR));
    let cipher = SectorCipher::new(&"cipher_null-ecb".parse().unwrap(), &[], geometry).unwrap();
    check(&cipher, 18, "ecb-cipher_null");
}

/// A mapped file that does not change gives the same ciphertext as its bytes.
#[test]
fn a_mapped_file_is_decrypted() {
    let name = rustix::fs::memfd_create("ciphertext", MemfdFlags::CLOEXEC);
    let mut file = File::from(name.unwrap());
    let stored = plaintext(18 * SECTOR);
    file.write_all(&stored).unwrap();
    let map = MappedFile::new(file.as_fd(), 0, stored.len()).unwrap();
    for spec in SPECS {
        for driver in drivers(spec) {
            let key_size = key_sizes(spec).max().unwrap();
            let geometry = Geometry::new(sector_size(SECTOR));
            let cipher = cipher(driver, spec, key_size, geometry);
            for sectors in [1, 3, 17] {
                let here = SECTOR..(sectors + 1) * SECTOR;
                let mut wanted = stored[here.clone()].to_vec();
                cipher.decrypt_in_place(FIRST, &mut wanted);
                let mut plain = vec![0; wanted.len()];
                let source = map.bytes(here.start, here.len()).into();
                cipher.decrypt_from_shared(FIRST, source, &mut plain);
                assert!(plain == wanted, "{driver}, {sectors} sectors");
            }
        }
    }
}

/// Power of this test: a reader that it finds out, and one that it does not.
#[test]
fn reading_twice_is_noticed() {
    let source = Changing::new(SECTOR);
    let start: *const u64 = source.start.cast();
    let read = |mask: u64| {
        let mut bytes = Vec::with_capacity(SECTOR);
        source.change_while(|| {
            for at in 0..SECTOR / 8 {
                // SAFETY: word `at` is in the source, which only volatile accesses touch.
                let [one, other] = [(); 2].map(|()| unsafe { start.add(at).read_volatile() });
                bytes.extend(((one & mask) | (other & !mask)).to_ne_bytes());
            }
        });
        was_read_once(&bytes)
    };
    assert!(!read(0xffff_ffff));
    assert!(read(u64::MAX));
}

/// The first sector is cut, differently, in source and destination, so that it is gathered; the
/// others are a run.
fn check(cipher: &SectorCipher, sectors: usize, driver: &str) {
    let len = sectors * SECTOR;
    let source = Changing::new(len);
    let mut data = vec![0; len];

    let pieces = [source.part(0, 264), source.part(264, len - 264)];
    source.change_while(|| {
        let (low, high) = data.split_at_mut(200);
        Vectored::of(cipher).encrypt_from_shared(FIRST, &pieces, &mut [low, high]);
    });
    cipher.decrypt_in_place(FIRST, &mut data);
    assert!(was_read_once(&data), "{driver}");
}

/// Returns whether these are words that the handler wrote, each whole, and not all of the same moment.
fn was_read_once(bytes: &[u8]) -> bool {
    let words: Vec<_> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    assert!(words.first() != words.last(), "nothing changed meanwhile");
    words.iter().all(|word| *word == value(!(*word >> 32)))
}

/// Value with which the source is filled after an instruction.
fn value(instruction: u64) -> u64 {
    (!instruction << 32) | (instruction & 0xffff_ffff)
}

/// Memory that changes after each instruction of this thread.
struct Changing {
    start: *mut u8,
    len: usize,
}

thread_local! {
    /// The source that the handler fills: its address, and its length in words.
    static SOURCE: Cell<(*mut u64, usize)> = const { Cell::new((ptr::null_mut(), 0)) };
    static INSTRUCTION: Cell<u64> = const { Cell::new(0) };
}

impl Changing {
    /// Makes a source of `len` bytes, a multiple of 8.
    fn new(len: usize) -> Self {
        let words: Box<[u64]> = vec![0; len / 8].into();
        Self {
            start: Box::into_raw(words).cast(),
            len,
        }
    }

    fn part(&self, at: usize, len: usize) -> SharedSource<'_> {
        assert!(at + len <= self.len);
        // SAFETY: the bytes are ours, and only the handler writes them, by volatile writes.
        unsafe { SharedSource::new(self.start.add(at), len) }
    }

    fn change_while(&self, act: impl FnOnce()) {
        SOURCE.set((self.start.cast(), self.len / 8));
        // SAFETY: the handler only touches this thread's cells and the source.
        unsafe { after_each_instruction(change, act) };
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let words = ptr::slice_from_raw_parts_mut(self.start.cast::<u64>(), self.len / 8);
        // SAFETY: from `Box::into_raw`, of so many words.
        drop(unsafe { Box::from_raw(words) });
    }
}

extern "C" fn change(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let instruction = INSTRUCTION.get().wrapping_add(1);
    INSTRUCTION.set(instruction);
    let (start, words) = SOURCE.get();
    for at in 0..words {
        // SAFETY: `SOURCE` has so many words, which nobody else writes.
        unsafe { start.add(at).write_volatile(value(instruction)) };
    }
}
