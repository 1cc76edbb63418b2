//! Runs of every length, at every alignment, against independent implementations: digests made by
//! OpenSSL (`vectors/make.py`), and a reference that follows IEEE Std 1619 block by block.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use common::{cipher, drivers, key, plaintext, sector_size};
use scrim_crypt::{Geometry, IvSector, SectorCipher};
use sha2::{Digest, Sha256};

/// Sectors in the longest run.
const SECTORS: usize = 40;

/// One line of `vectors/runs.txt`.
struct Case<'a> {
    key_size: u8,
    sector: usize,
    iv: &'a str,
    /// IV sectors from one sector to the next.
    step: u64,
    first: u64,
    /// SHA-256 of the ciphertext.
    digest: &'a str,
}

fn cases() -> impl Iterator<Item = Case<'static>> {
    let lines = include_str!("vectors/runs.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let [key_size, sector, iv, step, first, digest] = fields[..] else {
            panic!("{line}")
        };
        Case {
            key_size: key_size.parse().unwrap(),
            sector: sector.parse().unwrap(),
            iv,
            step: step.parse().unwrap(),
            first: first.parse().unwrap(),
            digest,
        }
    })
}

impl Case<'_> {
    fn geometry(&self) -> Geometry {
        Geometry {
            sector_size: sector_size(self.sector),
            iv_large_sectors: self.step == 1 && self.sector > 512,
        }
    }

    fn name(&self) -> String {
        format!(
            "aes-xts-{} with {} key bytes, sectors of {}, IV sectors from {} by {}",
            self.iv, self.key_size, self.sector, self.first, self.step
        )
    }
}

fn digest(data: &[u8]) -> String {
    Sha256::digest(data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn ciphertexts_are_those_of_openssl() {
    let mut checked = 0;
    for case in cases() {
        let plain = plaintext(SECTORS * case.sector);
        let first = IvSector(case.first);
        for driver in drivers() {
            let name = format!("{} by {driver}", case.name());
            let spec = format!("aes-xts-{}", case.iv);
            let cipher = cipher(driver, &spec, case.key_size, case.geometry());
            let mut data = plain.clone();
            cipher.encrypt_in_place(first, &mut data);
            assert_eq!(digest(&data), case.digest, "{name}");
            cipher.decrypt_in_place(first, &mut data);
            assert!(data == plain, "{name}");
        }
        checked += 1;
    }
    assert_eq!(checked, 168);
}

/// Every run length at every alignment of source and destination for the smallest sectors, where
/// runs have most turns to take; for larger ones every run length, and every alignment some time.
#[test]
fn every_run_length_and_alignment() {
    for driver in drivers() {
        for key_size in [32, 64] {
            for sector in [512, 1024, 2048, 4096] {
                let geometry = Geometry::new(sector_size(sector));
                let cipher = cipher(driver, "aes-xts-plain64", key_size, geometry);
                let mut bench = Bench::new(&cipher, key_size);
                for sectors in 1..=SECTORS {
                    if sector == 512 {
                        (0..64).for_each(|offset| bench.check(sectors, offset));
                    } else {
                        (0..4)
                            .for_each(|turn| bench.check(sectors, (sectors * 4 + turn * 17) % 64));
                    }
                }
            }
        }
    }
}

/// Buffers with room to shift, and the one right answer.
struct Bench<'a> {
    cipher: &'a SectorCipher,
    plain: Vec<u8>,
    encrypted: Vec<u8>,
    source: Vec<u8>,
    destination: Vec<u8>,
}

/// What surrounds the bytes at work, and must remain.
const CANARY: u8 = 0xa5;
const MARGIN: usize = 128;
const FIRST: IvSector = IvSector(0xffff_fff0);

impl<'a> Bench<'a> {
    fn new(cipher: &'a SectorCipher, key_size: u8) -> Self {
        let plain = plaintext(SECTORS * cipher.geometry().sector_size.bytes());
        let room = vec![CANARY; plain.len() + 2 * MARGIN];
        Self {
            encrypted: reference(cipher.geometry(), &key(key_size), &plain),
            cipher,
            plain,
            source: room.clone(),
            destination: room,
        }
    }

    /// All four calls on the first `sectors` sectors, `offset` bytes from an aligned address; the
    /// destination of a copy has an offset of its own.
    fn check(&mut self, sectors: usize, offset: usize) {
        let bytes = sectors * self.cipher.geometry().sector_size.bytes();
        let plain = &self.plain[..bytes];
        let encrypted = &self.encrypted[..bytes];
        let here = offset + align(&self.source)..offset + align(&self.source) + bytes;
        let other = (offset * 5 + 11) % 64 + align(&self.destination);
        let there = other..other + bytes;
        let (source, destination) = (&mut self.source, &mut self.destination);

        source[here.clone()].copy_from_slice(plain);
        self.cipher.encrypt(
            FIRST,
            &source[here.clone()],
            &mut destination[there.clone()],
        );
        assert!(source[here.clone()] == *plain, "the source changed");
        assert!(
            destination[there.clone()] == *encrypted,
            "{sectors} sectors at {offset}"
        );
        self.cipher
            .encrypt_in_place(FIRST, &mut source[here.clone()]);
        assert!(
            source[here.clone()] == *encrypted,
            "{sectors} sectors at {offset}"
        );

        self.cipher.decrypt(
            FIRST,
            &source[here.clone()],
            &mut destination[there.clone()],
        );
        assert!(
            destination[there.clone()] == *plain,
            "{sectors} sectors at {offset}"
        );
        self.cipher
            .decrypt_in_place(FIRST, &mut source[here.clone()]);
        assert!(
            source[here.clone()] == *plain,
            "{sectors} sectors at {offset}"
        );

        source[here].fill(CANARY);
        destination[there].fill(CANARY);
        for room in [source, destination] {
            assert!(
                room.iter().all(|byte| *byte == CANARY),
                "bytes outside were written"
            );
        }
    }
}

/// The first index at which `room` is aligned to 64 bytes.
fn align(room: &[u8]) -> usize {
    room.as_ptr().align_offset(64)
}

/// aes-xts-plain64 as IEEE Std 1619 5.3.2 and 5.2 write it: one sector, one block, one byte at a
/// time.
fn reference(geometry: Geometry, key: &[u8], plain: &[u8]) -> Vec<u8> {
    if key.len() == 32 {
        reference_with::<aes::Aes128>(geometry, key, plain)
    } else {
        reference_with::<aes::Aes256>(geometry, key, plain)
    }
}

fn reference_with<C>(geometry: Geometry, key: &[u8], plain: &[u8]) -> Vec<u8>
where
    C: KeyInit + BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    let (data_key, tweak_key) = key.split_at(key.len() / 2);
    let data_cipher = C::new_from_slice(data_key).unwrap();
    let tweak_cipher = C::new_from_slice(tweak_key).unwrap();
    let mut encrypted = plain.to_vec();
    let mut number = FIRST.0;
    for sector in encrypted.chunks_exact_mut(geometry.sector_size.bytes()) {
        let mut tweak = [0u8; 16];
        tweak[..8].copy_from_slice(&number.to_le_bytes());
        tweak_cipher.encrypt_block(Array::cast_from_core_mut(&mut tweak));
        for block in sector.as_chunks_mut::<16>().0 {
            xor(block, &tweak);
            data_cipher.encrypt_block(Array::cast_from_core_mut(block));
            xor(block, &tweak);
            let mut carry = 0;
            for byte in &mut tweak {
                (*byte, carry) = (*byte << 1 | carry, *byte >> 7);
            }
            tweak[0] ^= if carry == 1 { 135 } else { 0 };
        }
        number += geometry.sector_size.units();
    }
    encrypted
}

fn xor(block: &mut [u8; 16], tweak: &[u8; 16]) {
    block
        .iter_mut()
        .zip(tweak)
        .for_each(|(byte, tweak)| *byte ^= tweak);
}
