//! Runs of every length, at every alignment, against independent implementations: digests made by
//! OpenSSL and Nettle (`vectors/make.py`), and a reference that follows the standards block by block.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::sync::Barrier;
use std::thread;

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use common::{cipher, drivers, key, key_sizes, plaintext, sector_size};
use scrim_crypt::{
    CipherSpec, Geometry, IvSector, SectorCipher, SectorIndex, State, implementations_of,
};
use sha2::{Digest, Sha256};

/// Sectors in the longest run.
const SECTORS: usize = 40;

/// Where the runs of `vectors/runs.txt` start.
const FIRSTS: [u64; 3] = [0, (1 << 32) - 16, u64::MAX - 15];

/// One line of `vectors/runs.txt` or `vectors/dm-crypt.txt`.
struct Case<'a> {
    spec: &'a str,
    key_size: u8,
    sector: usize,
    /// IV sectors from one sector to the next.
    step: u64,
    /// SHA-256 of the output.
    digest: &'a str,
}

fn lines(file: &str) -> impl Iterator<Item = Case<'_>> {
    let lines = file.lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let [spec, key_size, sector, step, digest] = fields[..] else {
            panic!("{line}")
        };
        Case {
            spec,
            key_size: key_size.parse().unwrap(),
            sector: sector.parse().unwrap(),
            step: step.parse().unwrap(),
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
            "{} with {} key bytes, sectors of {}, IV sectors {} apart",
            self.spec, self.key_size, self.sector, self.step
        )
    }

    /// Compares the ciphertext of every driver with the digest.
    fn check(&self) {
        let plain = plaintext(SECTORS * self.sector);
        for driver in drivers(self.spec) {
            let name = format!("{} by {driver}", self.name());
            let cipher = cipher(driver, self.spec, self.key_size, self.geometry());
            let mut hash = Sha256::new();
            for first in FIRSTS.map(IvSector) {
                let mut data = plain.clone();
                cipher.encrypt_in_place(first, &mut data);
                hash.update(&data);
                cipher.decrypt_in_place(first, &mut data);
                assert!(data == plain, "{name}");
            }
            assert_eq!(hex(&hash.finalize()), self.digest, "{name}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn ciphertexts_are_those_of_openssl_and_nettle() {
    let cases = lines(include_str!("vectors/runs.txt"));
    assert_eq!(cases.inspect(Case::check).count(), 729);
}

/// The kernel's dm-crypt understands every specification in the same way, words and arithmetic.
#[test]
fn plaintexts_are_those_of_the_kernel() {
    let cases: Vec<_> = lines(include_str!("vectors/dm-crypt.txt")).collect();
    assert_eq!(cases.len(), 432);
    let mut data = Vec::new();
    for case in cases {
        let geometry = case.geometry();
        let first = geometry.iv_sector(SectorIndex(0), 4_294_966_272);
        let spec: CipherSpec = case.spec.parse().unwrap();
        for row in implementations_of(&spec).filter(|row| row.state() == State::Ready) {
            let driver = row.driver;
            let cipher =
                SectorCipher::new_with_driver(driver, &spec, &key(case.key_size), geometry)
                    .unwrap();
            data.clear();
            data.resize(1 << 20, 0);
            cipher.decrypt_in_place(first, &mut data);
            assert_eq!(
                hex(&Sha256::digest(&data)[..16]),
                case.digest,
                "{} by {driver}",
                case.name()
            );
        }
    }
}

/// Shorter and longer spellings of the same specifications.
#[test]
fn other_words_for_a_cipher_do_not_change_it() {
    let geometry = Geometry::new(sector_size(512));
    for (spec, words) in [
        ("aes-cbc-essiv:sha256", "capi:cbc(aes)-essiv:sha256"),
        (
            "aes-cbc-essiv:sha256",
            "capi:essiv(cbc(aes),sha256)-plain64",
        ),
        ("aes-xts-plain64be", "capi:xts(aes)-plain64be"),
        ("aes-xts-plain64be", "capi:xts-aes-portable-plain64be"),
        ("aes-cbc-essiv:sm3", "capi:cbc-aes-portable-essiv:sm3"),
        ("aes-cbc-plain", "aes"),
        ("aes-cbc-plain", "aes-plain"),
        ("aes-ecb", "aes-ecb-plain64"),
        ("aes-ecb", "capi:ecb(aes)"),
        ("serpent-cbc-plain", "serpent"),
        ("serpent-lrw-benbi", "capi:lrw(serpent)-benbi"),
        (
            "twofish-cbc-essiv:sha256",
            "capi:essiv(cbc(twofish),sha256)-plain64",
        ),
        (
            "xchacha12,aes-adiantum-plain64",
            "capi:adiantum(xchacha12,aes)-plain64",
        ),
    ] {
        let turned = |spec: &str| {
            let spec: CipherSpec = spec.parse().unwrap();
            let cipher = SectorCipher::new(&spec, &key(32), geometry).unwrap();
            let mut data = plaintext(SECTORS * 512);
            cipher.encrypt_in_place(FIRST, &mut data);
            data
        };
        assert!(turned(spec) == turned(words), "{words}");
    }
}

#[test]
fn every_run_length_and_alignment_of_xts() {
    every_run_length_and_alignment("aes-xts-plain64");
}

#[test]
fn every_run_length_and_alignment_of_cbc() {
    every_run_length_and_alignment("aes-cbc-plain64");
}

#[test]
fn every_run_length_and_alignment_of_ctr() {
    every_run_length_and_alignment("aes-ctr-plain64");
}

#[test]
fn every_run_length_and_alignment_of_ecb() {
    every_run_length_and_alignment("aes-ecb");
}

#[test]
fn every_run_length_and_alignment_of_lrw() {
    every_run_length_and_alignment("aes-lrw-plain64");
}

/// A run is its sectors, one after the other, whatever the cipher makes of each.
#[test]
fn every_run_length_of_other_ciphers() {
    let modes = [
        "xts-plain64",
        "cbc-essiv:sha256",
        "ctr-benbi",
        "ecb",
        "lrw-eboiv",
    ];
    let block_ciphers = ["serpent", "twofish", "camellia"].into_iter();
    let mut specs: Vec<_> = block_ciphers
        .flat_map(|cipher| modes.map(|mode| format!("{cipher}-{mode}")))
        .collect();
    let wide = ["12,aes-adiantum-plain64be", "20,aes-adiantum-plain64"];
    specs.extend(wide.map(|words| format!("xchacha{words}")));
    for spec in &specs {
        for driver in drivers(spec) {
            for key_size in key_sizes(spec) {
                check_sectors(driver, spec, key_size);
            }
        }
    }
}

fn check_sectors(driver: &str, spec: &str, key_size: u8) {
    for sector in [512, 4096] {
        let geometry = Geometry::new(sector_size(sector));
        let cipher = cipher(driver, spec, key_size, geometry);
        let plain = plaintext(19 * sector);
        let mut encrypted = plain.clone();
        for (sector, number) in encrypted.chunks_mut(sector).zip(0..) {
            let units = geometry.sector_size.units();
            cipher.encrypt_in_place(IvSector(FIRST.0 + number * units), sector);
        }
        for sectors in 1..=19 {
            let bytes = sectors * sector;
            // Buffers that are not aligned.
            let at = sectors % 16;
            let mut source = vec![CANARY; bytes + 32];
            let mut destination = source.clone();
            source[at..at + bytes].copy_from_slice(&plain[..bytes]);
            let name = format!("{spec} by {driver}: {sectors} sectors of {sector}");
            let there = 16 - at..16 - at + bytes;
            cipher.encrypt(
                FIRST,
                &source[at..at + bytes],
                &mut destination[there.clone()],
            );
            assert!(destination[there.clone()] == encrypted[..bytes], "{name}");
            cipher.decrypt_in_place(FIRST, &mut destination[there.clone()]);
            assert!(destination[there.clone()] == plain[..bytes], "{name}");
            destination[there].fill(CANARY);
            assert!(destination.iter().all(|byte| *byte == CANARY), "{name}");
        }
    }
}

/// Every run length at every alignment of source and destination for the smallest sectors, where
/// runs have most turns to take; for larger ones every run length, and every alignment some time.
fn every_run_length_and_alignment(spec: &str) {
    for driver in drivers(spec) {
        for key_size in key_sizes(spec) {
            check_lengths(driver, spec, key_size);
        }
    }
}

/// IVs that are encrypted are made in batches of their own.
#[test]
fn every_run_length_with_encrypted_ivs() {
    for spec in [
        "aes-cbc-essiv:sha256",
        "aes-ctr-essiv:sha256",
        "aes-xts-eboiv",
        "aes-cbc-eboiv",
    ] {
        for driver in drivers(spec) {
            let geometry = Geometry::new(sector_size(512));
            let cipher = cipher(driver, spec, 32, geometry);
            let mut bench = Bench::new(&cipher, spec, 32);
            (1..=SECTORS).for_each(|sectors| bench.check(sectors, sectors % 64));
        }
    }
}

fn check_lengths(driver: &str, spec: &str, key_size: u8) {
    for sector in [512, 1024, 2048, 4096] {
        let geometry = Geometry::new(sector_size(sector));
        let cipher = cipher(driver, spec, key_size, geometry);
        let mut bench = Bench::new(&cipher, spec, key_size);
        for sectors in 1..=SECTORS {
            if sector == 512 {
                (0..64).for_each(|offset| bench.check(sectors, offset));
            } else {
                (0..4).for_each(|turn| bench.check(sectors, (sectors * 4 + turn * 17) % 64));
            }
        }
    }
}

/// Kernels keep what they know of the sectors after a call for the next one. Calls that go on where
/// the one before stopped, that do it again, that leave something out or that go back.
#[test]
fn calls_in_any_order() {
    for (spec, key_size, sector) in [
        ("aes-xts-plain64", 32, 512),
        ("aes-xts-plain64", 64, 512),
        ("aes-xts-plain64", 64, 4096),
        ("aes-xts-essiv:sha256", 64, 512),
        ("aes-xts-eboiv", 48, 512),
        ("aes-xts-eboiv", 64, 4096),
        ("aes-cbc-eboiv", 32, 512),
        ("aes-ctr-plain64", 32, 512),
    ] {
        for driver in drivers(spec) {
            check_calls(driver, spec, key_size, sector);
        }
    }
}

fn check_calls(driver: &str, spec: &str, key_size: u8, sector: usize) {
    let geometry = Geometry::new(sector_size(sector));
    let cipher = cipher(driver, spec, key_size, geometry);
    let plain = plaintext(SECTORS * sector);
    let encrypted = reference(spec, geometry, &key(key_size), &plain);
    let check = |from: usize, sectors: usize| {
        let what = || format!("{spec} by {driver}: {sectors} from {from}");
        let first = IvSector(FIRST.0 + from as u64 * geometry.sector_size.units());
        let range = from * sector..(from + sectors) * sector;
        let mut run = plain[range.clone()].to_vec();
        cipher.encrypt_in_place(first, &mut run);
        assert!(run == encrypted[range.clone()], "{}", what());
        let mut again = vec![0; run.len()];
        cipher.decrypt(first, &run, &mut again);
        assert!(again == plain[range], "{}", what());
    };
    for sectors in 1..=9 {
        let forwards = (0..=SECTORS - sectors).step_by(sectors);
        forwards.for_each(|from| check(from, sectors));
        let backwards = (0..=SECTORS - sectors).rev();
        backwards.for_each(|from| check(from, sectors));
    }
    for turn in 0..400 {
        let sectors = [1, 3, 0, 2, 1, 1, 11, 4][turn * turn % 37 % 8];
        check(turn * 7 % 29, sectors);
    }
}

/// As above, by more threads at once than a cipher has places for what it keeps.
#[test]
fn calls_of_many_threads() {
    const THREADS: usize = 11;
    for spec in ["aes-xts-plain64", "aes-xts-eboiv"] {
        for driver in drivers(spec) {
            let geometry = Geometry::new(sector_size(512));
            let cipher = &cipher(driver, spec, 64, geometry);
            let plain = &plaintext(SECTORS * 512);
            let encrypted = &reference(spec, geometry, &key(64), plain);
            let all_here = &Barrier::new(THREADS);
            let work = move |thread: usize| {
                all_here.wait();
                for turn in 0..20 {
                    let mut run = plain.clone();
                    let mut number = FIRST.0;
                    for sectors in run.chunks_mut((1 + (thread + turn) % 3) * 512) {
                        cipher.encrypt_in_place(IvSector(number), sectors);
                        number += sectors.len() as u64 / 512;
                    }
                    assert!(run == *encrypted, "{spec} by {driver}");
                }
            };
            thread::scope(|scope| {
                (0..THREADS).for_each(|number| {
                    scope.spawn(move || work(number));
                });
            });
        }
    }
}

/// The numbers of IVs wrap, in the middle of what is kept as anywhere.
#[test]
fn calls_around_the_last_number() {
    for spec in ["aes-xts-plain64", "aes-xts-essiv:sha256", "aes-xts-eboiv"] {
        for driver in drivers(spec) {
            let geometry = Geometry::new(sector_size(512));
            let cipher = cipher(driver, spec, 64, geometry);
            let mut run = plaintext(12 * 512);
            let mut pieces = run.clone();
            cipher.encrypt_in_place(IvSector(u64::MAX - 4), &mut run);
            for (sector, number) in pieces.chunks_mut(512).zip(0..) {
                cipher.encrypt_in_place(IvSector((u64::MAX - 4).wrapping_add(number)), sector);
            }
            assert!(pieces == run, "{spec} by {driver}");
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
    /// Contents of both buffers between the checks.
    untouched: Vec<u8>,
}

/// Byte that surrounds the bytes at work, and must remain.
const CANARY: u8 = 0xa5;
const MARGIN: usize = 128;
const FIRST: IvSector = IvSector(0xffff_fff0);

impl<'a> Bench<'a> {
    fn new(cipher: &'a SectorCipher, spec: &str, key_size: u8) -> Self {
        let plain = plaintext(SECTORS * cipher.geometry().sector_size.bytes());
        let room = vec![CANARY; plain.len() + 2 * MARGIN];
        Self {
            encrypted: reference(spec, cipher.geometry(), &key(key_size), &plain),
            cipher,
            plain,
            source: room.clone(),
            destination: room.clone(),
            untouched: room,
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
            assert!(*room == self.untouched, "bytes outside were written");
        }
    }
}

/// The first index at which `room` is aligned to 64 bytes.
fn align(room: &[u8]) -> usize {
    room.as_ptr().align_offset(64)
}

/// The modes as IEEE Std 1619 and NIST SP 800-38A write them: one sector, one block, one byte at a
/// time.
fn reference(spec: &str, geometry: Geometry, key: &[u8], plain: &[u8]) -> Vec<u8> {
    let cipher: CipherSpec = spec.parse().unwrap();
    match cipher.cipher_key_size(key.len()) {
        16 => Reference::<aes::Aes128>::new(spec, key).encrypt(geometry, plain),
        24 => Reference::<aes::Aes192>::new(spec, key).encrypt(geometry, plain),
        _ => Reference::<aes::Aes256>::new(spec, key).encrypt(geometry, plain),
    }
}

struct Reference<C> {
    mode: String,
    iv: String,
    data: C,
    /// Of XTS; in other modes of no use.
    tweak: C,
    /// Of LRW; in other modes of no use.
    factor: u128,
    essiv: aes::Aes256,
}

type Block = [u8; 16];

impl<C> Reference<C>
where
    C: KeyInit + BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    fn new(spec: &str, key: &[u8]) -> Self {
        let mut words = spec.split('-').skip(1).map(str::to_owned);
        let mode = words.next().unwrap();
        let (data, tweak) = match mode.as_str() {
            "xts" => key.split_at(key.len() / 2),
            "lrw" => (&key[..key.len() - 16], &key[..key.len() - 16]),
            _ => (key, key),
        };
        Self {
            mode,
            iv: words.next().unwrap_or_default(),
            data: C::new_from_slice(data).unwrap(),
            tweak: C::new_from_slice(tweak).unwrap(),
            factor: u128::from_be_bytes(*key.last_chunk().unwrap()),
            essiv: aes::Aes256::new(&Sha256::digest(key)),
        }
    }

    fn encrypt(&self, geometry: Geometry, plain: &[u8]) -> Vec<u8> {
        let mut encrypted = plain.to_vec();
        let mut number = FIRST.0;
        for sector in encrypted.chunks_exact_mut(geometry.sector_size.bytes()) {
            let iv = self.iv(geometry, number);
            self.sector(iv, sector.as_chunks_mut().0);
            number += geometry.sector_size.units();
        }
        encrypted
    }

    fn iv(&self, geometry: Geometry, number: u64) -> Block {
        let little = |number: u64| u128::from(number).to_le_bytes();
        match self.iv.as_str() {
            "essiv:sha256" => block(&self.essiv, little(number)),
            "eboiv" => {
                let mut zeros = [[0; 16]];
                let offset = number * geometry.sector_size.bytes() as u64;
                self.sector(little(offset), &mut zeros);
                zeros[0]
            }
            _ => little(number),
        }
    }

    fn sector(&self, iv: Block, blocks: &mut [Block]) {
        let mut state = match self.mode.as_str() {
            "xts" => block(&self.tweak, iv),
            _ => iv,
        };
        for bytes in blocks {
            match self.mode.as_str() {
                "xts" => {
                    *bytes = xor(block(&self.data, xor(*bytes, state)), state);
                    double(&mut state);
                }
                "cbc" => {
                    *bytes = block(&self.data, xor(*bytes, state));
                    state = *bytes;
                }
                "ctr" => {
                    *bytes = xor(block(&self.data, state), *bytes);
                    count_on(&mut state);
                }
                "lrw" => {
                    let tweak = product(self.factor, u128::from_be_bytes(state));
                    *bytes = xor(block(&self.data, xor(*bytes, tweak)), tweak);
                    count_on(&mut state);
                }
                _ => *bytes = block(&self.data, *bytes),
            }
        }
    }
}

fn block<C>(cipher: &C, mut block: Block) -> Block
where
    C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    cipher.encrypt_block(Array::cast_from_core_mut(&mut block));
    block
}

/// IEEE Std 1619, 5.2.
fn double(tweak: &mut Block) {
    let mut carry = 0;
    for byte in &mut *tweak {
        (*byte, carry) = (*byte << 1 | carry, *byte >> 7);
    }
    tweak[0] ^= if carry == 1 { 135 } else { 0 };
}

/// The product in GF(2¹²⁸), as LRW writes it: big endian, the first byte with the highest powers.
fn product(one: u128, other: u128) -> Block {
    let mut product = 0;
    for bit in (0..128).rev() {
        product = (product << 1) ^ ((product >> 127) * 0x87);
        product ^= one * ((other >> bit) & 1);
    }
    product.to_be_bytes()
}

/// NIST SP 800-38A, B.1, with all bits of the counter.
fn count_on(counter: &mut Block) {
    for byte in counter.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
}

fn xor(one: Block, other: Block) -> Block {
    std::array::from_fn(|i| one[i] ^ other[i])
}
