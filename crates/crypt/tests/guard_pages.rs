//! Buffers that end, or start, exactly at inaccessible memory: an access one byte too far ends the test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{cipher, drivers, key_sizes, plaintext, sector_size};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use scrim_crypt::stream::{Opener, Sealer, TAG};
use scrim_crypt::{Geometry, IvSector, SectorCipher};

const FIRST: IvSector = IvSector(77);

/// Messages of AES-GCM of every length up to two groups of the widest registers, and their additional data.
#[test]
fn nothing_outside_a_message_is_touched() {
    for (aead, driver) in common::gcm_drivers() {
        let key = common::key(aead.key_size().try_into().unwrap());
        let seal = |number, additional: &[u8], content: &mut [u8], tag: &mut [u8; TAG]| {
            let mut sealer = Sealer::new_with_driver(aead, driver, &key, &[7; 12], number).unwrap();
            sealer.seal_in_place(additional, content, tag).unwrap();
        };
        let opener =
            |number| Opener::new_with_driver(aead, driver, &key, &[7; 12], number).unwrap();
        for len in (0..1100).step_by(if cfg!(debug_assertions) { 7 } else { 1 }) {
            let plain = plaintext(len);
            let (mut expected, mut expected_tag) = (plain.clone(), [0; TAG]);
            seal(3, &plain[..len % 50], &mut expected, &mut expected_tag);
            let (mut content, mut additional) = (Guarded::new(len), Guarded::new(50));
            for at_end in [true, false] {
                let content = content.bytes(at_end, len);
                let additional = additional.bytes(at_end, len % 50);
                content.copy_from_slice(&plain);
                additional.copy_from_slice(&plain[..len % 50]);
                let mut tag = [0; TAG];
                seal(3, additional, content, &mut tag);
                assert!(
                    *content == expected && tag == expected_tag,
                    "{driver}, {len}"
                );
                opener(3).open_in_place(additional, content, &tag).unwrap();
                assert!(*content == plain, "{driver}, {len}");
            }
        }
    }
}

#[test]
fn nothing_outside_a_run_is_touched() {
    for spec in [
        "aes-xts-plain64",
        "aes-cbc-essiv:sha256",
        "aes-cbc-eboiv",
        "aes-ctr-plain64",
        "aes-ecb",
        "aes-lrw-benbi",
        "serpent-xts-plain64",
        "serpent-cbc-essiv:sha256",
        "serpent-ctr-plain64",
        "serpent-ecb",
        "camellia-xts-plain64",
        "camellia-cbc-essiv:sha256",
        "camellia-ctr-plain64",
        "camellia-ecb",
        "camellia-lrw-benbi",
        "twofish-xts-plain64",
        "xchacha12,aes-adiantum-plain64",
    ] {
        for driver in drivers(spec) {
            for key_size in key_sizes(spec) {
                for sector in [512, 1024, 2048, 4096] {
                    let geometry = Geometry::new(sector_size(sector));
                    check(&cipher(driver, spec, key_size, geometry));
                }
            }
        }
    }
}

fn check(cipher: &SectorCipher) {
    for sectors in 1..=40 {
        let plain = plaintext(sectors * cipher.geometry().sector_size.bytes());
        let mut expected = plain.clone();
        cipher.encrypt_in_place(FIRST, &mut expected);
        let mut one = Guarded::new(plain.len());
        let mut other = Guarded::new(plain.len());
        for at_end in [true, false] {
            let one = one.bytes(at_end, plain.len());
            let other = other.bytes(!at_end, plain.len());
            one.copy_from_slice(&plain);
            cipher.encrypt(FIRST, one, other);
            assert!(*other == expected);
            cipher.encrypt_in_place(FIRST, one);
            assert!(*one == expected);
            cipher.decrypt(FIRST, one, other);
            assert!(*other == plain);
            cipher.decrypt_in_place(FIRST, one);
            assert!(*one == plain);
        }
    }
}

const PAGE: usize = 4096;

/// Memory between two pages that can be neither read nor written.
struct Guarded {
    mapping: *mut u8,
    /// Length of the whole mapping, both guards included.
    bytes: usize,
}

impl Guarded {
    fn new(len: usize) -> Self {
        let bytes = len.next_multiple_of(PAGE) + 2 * PAGE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing; both
        // guards are pages of it.
        let mapping = unsafe {
            let mapping =
                mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE).unwrap();
            for guard in [mapping, mapping.byte_add(bytes - PAGE)] {
                mprotect(guard, PAGE, MprotectFlags::empty()).unwrap();
            }
            mapping.cast()
        };
        Self { mapping, bytes }
    }

    /// `len` bytes that end where the second guard starts, or start where the first ends.
    fn bytes(&mut self, at_end: bool, len: usize) -> &mut [u8] {
        assert!(len <= self.bytes - 2 * PAGE);
        let offset = if at_end {
            self.bytes - PAGE - len
        } else {
            PAGE
        };
        // SAFETY: the range lies between the guards, was zeroed by the kernel, and `&mut self` is
        // exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.add(offset), len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { munmap(self.mapping.cast(), self.bytes).unwrap() };
    }
}
