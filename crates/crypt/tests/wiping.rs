//! Where expanded keys are, by the process's own memory as the kernel shows it: on locked,
//! undumpable pages while the cipher lives, nowhere afterwards. The round keys looked for are those
//! that are the key itself, of Serpent, whose are not, the first, of Camellia the first as kernels have it, and of AES-GCM
//! all.
//!
//! One test has keys in memory, so that no other thread has any of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Aes256Enc};
use blake2::{Blake2b256, Digest};
use scrim_crypt::stream::{Aead, Opener, Sealer};
use scrim_crypt::{CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};
use scrim_sys::memory::{DataBuffer, Locking, SecretBytes, locking};
use sha2::Sha256;

#[test]
fn keys_are_on_locked_pages_while_used_and_nowhere_afterwards() {
    let mut memory = Memory::new();
    let drivers = |spec| {
        common::drivers(spec)
            .into_iter()
            .map(move |driver| (spec, driver))
    };
    for (spec, driver) in SPECS.into_iter().flat_map(drivers) {
        for key_size in common::key_sizes(spec) {
            let key = masked_key(driver, usize::from(key_size));
            let pieces = pieces(&key, spec);
            assert_eq!(memory.holders(&pieces), [""; 0], "{driver}: before");

            let cipher = cipher(spec, driver, &key);
            let holders = memory.holders(&pieces);
            if !common::is_portable(driver) {
                assert!(!holders.is_empty(), "{driver}: the search finds nothing");
            }
            holders.iter().for_each(|flags| check(flags, driver));

            let mut data = common::plaintext(21 * 512);
            let mut other = data.clone();
            below(|| cipher.encrypt_in_place(IvSector(3), &mut data));
            below(|| cipher.decrypt(IvSector(3), &data, &mut other));
            let holders = memory.holders(&pieces);
            holders.iter().for_each(|flags| check(flags, driver));

            drop(cipher);
            assert_eq!(memory.holders(&pieces), [""; 0], "{driver}: afterwards");
        }
    }
    for (aead, driver) in common::gcm_drivers() {
        check_records(&mut memory, aead, Some(driver));
    }
    check_records(&mut memory, Aead::ChaCha20Poly1305, None);
}

/// While they live, these keys are on the heap.
fn check_records(memory: &mut Memory, aead: Aead, driver: Option<&str>) {
    let (masked, pieces) = aead_key(aead);
    assert_eq!(memory.holders(&pieces), [""; 0], "{aead}: before");
    let key = unmasked(&masked);
    let iv = [1; 12];
    let sealer = match driver {
        Some(driver) => Sealer::new_with_driver(aead, driver, key.expose(), &iv, 0),
        None => Sealer::new(aead, key.expose(), &iv, 0),
    };
    let opener = match driver {
        Some(driver) => Opener::new_with_driver(aead, driver, key.expose(), &iv, 0),
        None => Opener::new(aead, key.expose(), &iv, 0),
    };
    let (mut sealer, mut opener) = (sealer.unwrap(), opener.unwrap());
    drop(key);
    let [.., state, reversed, _, divided, classes] = pieces[..] else {
        panic!("fewer pieces")
    };
    if driver.is_some() {
        let found = !memory.holders(&[divided, classes]).is_empty();
        assert!(found, "{aead}: the search finds nothing");
    }
    // A block and parts of one after one group or more of some kernel for processors, and after more than a piece of the
    // portable one.
    for len in [
        20 + 3,
        128 + 20 + 3,
        256 + 20 + 3,
        512 + 20 + 3,
        1024 + 20 + 3,
    ] {
        let (mut content, mut tag) = (vec![5; len], [5; 16]);
        let sealed = below(|| sealer.seal_in_place(ADDITIONAL, &mut content, &mut tag));
        sealed.unwrap();
        let left = memory.holders(&[state, reversed]);
        assert_eq!(left, [""; 0], "{aead} {driver:?}: {len} bytes sealed");
        let opened = below(|| opener.open_in_place(ADDITIONAL, &mut content, &tag));
        opened.unwrap();
        let left = memory.holders(&[state, reversed]);
        assert_eq!(left, [""; 0], "{aead} {driver:?}: {len} bytes opened");
    }
    drop((sealer, opener));
    let holders = memory.holders(&pieces);
    assert_eq!(holders, [""; 0], "{aead} {driver:?}: afterwards");
}

/// Additional data of a record, as long as TLS 1.2 has it.
const ADDITIONAL: &[u8; 13] = b"thirteen byte";

/// A key of its own, masked, and what to look for: its blocks and, of AES-GCM, its round keys, the state of GHASH after the
/// additional data, from which the key of GHASH follows, and that key, also as kernels have it: divided by x, with its
/// bytes in reverse order, and of that the first two of the classes that portable code makes.
fn aead_key(aead: Aead) -> (Vec<u8>, Vec<[u8; 16]>) {
    let masked = masked_key(&format!("{aead}"), aead.key_size());
    let mut pieces: Vec<[u8; 16]> = masked.as_chunks().0.to_vec();
    let mut hash = [0; 16];
    let mut divided = [0; 16];
    let mut classes = [0; 16];
    masked_hash_key(&masked, &mut hash, &mut divided, &mut classes);
    let mut state = [0; 16];
    masked_state(&hash, &mut state);
    let mut round_keys = [[0; 16]; 15];
    let count = masked_round_keys(&masked, &mut round_keys);
    clear_stack();
    pieces.extend(&round_keys[..count]);
    let reversed = std::array::from_fn(|byte| state[15 - byte]);
    pieces.extend([state, reversed, hash, divided, classes]);
    (masked, pieces)
}

#[inline(never)]
fn masked_hash_key(
    masked: &[u8],
    hash: &mut [u8; 16],
    divided: &mut [u8; 16],
    classes: &mut [u8; 16],
) {
    let key = unmasked(masked);
    let hash = Array::cast_from_core_mut(hash);
    match key.expose().len() {
        16 => Aes128Enc::new_from_slice(key.expose())
            .unwrap()
            .encrypt_block(hash),
        _ => Aes256Enc::new_from_slice(key.expose())
            .unwrap()
            .encrypt_block(hash),
    }
    let number = u128::from_be_bytes(hash[..].try_into().unwrap());
    let inverse = 0xc200_0000_0000_0000_0000_0000_0000_0001 * (number >> 127);
    let number = (number << 1) ^ inverse;
    *divided = number.to_le_bytes();
    // Bits 0, 4, 8 … of the first 60, and bits 1, 5, 9 ….
    for (class, bytes) in (0..).zip(classes.as_chunks_mut::<8>().0) {
        let number = number & (0x0111_1111_1111_1111 << class);
        bytes.copy_from_slice(&number.to_le_bytes()[..8]);
    }
    for bytes in [&mut hash[..], &mut divided[..], &mut classes[..]] {
        bytes.iter_mut().for_each(|byte| *byte ^= MASK);
    }
}

/// The state of GHASH after the additional data (SP 800-38D, 6.3): their product with the key, bit by bit, whose first bit
/// is the highest of the first byte.
#[inline(never)]
fn masked_state(masked: &[u8; 16], state: &mut [u8; 16]) {
    let mut power = u128::from_be_bytes(masked.map(|byte| byte ^ MASK));
    let mut block = [0; 16];
    block[..ADDITIONAL.len()].copy_from_slice(ADDITIONAL);
    let block = u128::from_be_bytes(block);
    let mut product = 0;
    for bit in (0..128).rev() {
        product ^= power * (block >> bit & 1);
        power = (power >> 1) ^ ((0xe1 << 120) * (power & 1));
    }
    *state = product.to_be_bytes().map(|byte| byte ^ MASK);
}

/// All round keys of AES (FIPS 197, 5.2), from any two of which the key follows; returns how many there are.
#[inline(never)]
fn masked_round_keys(masked: &[u8], round_keys: &mut [[u8; 16]; 15]) -> usize {
    let mut words = [[0; 4]; 60];
    let of_key = masked.len() / 4;
    for (word, masked) in words.iter_mut().zip(masked.as_chunks().0) {
        *word = masked.map(|byte| byte ^ MASK);
    }
    let count = of_key + 7;
    let mut constant = 1;
    for at in of_key..4 * count {
        let mut word = words[at - 1];
        if at % of_key == 0 {
            word.rotate_left(1);
            word = word.map(substituted);
            word[0] ^= constant;
            constant = product(constant, 2);
        } else if of_key == 8 && at % of_key == 4 {
            word = word.map(substituted);
        }
        let before = words[at - of_key];
        words[at] = std::array::from_fn(|byte| word[byte] ^ before[byte]);
    }
    let bytes = words.as_flattened().as_chunks::<16>().0;
    for (round_key, bytes) in round_keys.iter_mut().zip(bytes) {
        *round_key = bytes.map(|byte| byte ^ MASK);
    }
    count
}

/// The S-box of AES (FIPS 197, 5.1.1): the inverse, which is the 254th power, and a sum of its rotations.
fn substituted(byte: u8) -> u8 {
    let inverse = (0..254).fold(1, |power, _| product(power, byte));
    (0..5).fold(0x63, |sum, bits| sum ^ inverse.rotate_left(bits))
}

/// The product of two bytes modulo x^8 + x^4 + x^3 + x + 1.
fn product(one: u8, other: u8) -> u8 {
    (0..8).rev().fold(0, |sum: u8, bit| {
        let doubled = (sum << 1) ^ (0x1b * (sum >> 7));
        doubled ^ (one * (other >> bit & 1))
    })
}

#[test]
fn the_last_round_key_is_that_of_the_standard() {
    // FIPS 197, appendices A.1 and A.3.
    let mut round_keys = [[0; 16]; 15];
    for (key, last) in [
        (
            &0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes()[..],
            0xd014_f9a8_c9ee_2589_e13f_0cc8_b663_0ca6_u128,
        ),
        (
            [
                0x603d_eb10_15ca_71be_2b73_aef0_857d_7781_u128.to_be_bytes(),
                0x1f35_2c07_3b61_08d7_2d98_10a3_0914_dff4_u128.to_be_bytes(),
            ]
            .as_flattened(),
            0xfe48_90d1_e618_8d0b_046d_f344_706c_631e_u128,
        ),
    ] {
        let masked: Vec<_> = key.iter().map(|byte| byte ^ MASK).collect();
        let count = masked_round_keys(&masked, &mut round_keys);
        let round_key = round_keys[count - 1].map(|byte| byte ^ MASK);
        assert_eq!(round_key, last.to_be_bytes());
    }
}

fn check(flags: &str, driver: &str) {
    let has = |flag| flags.split(' ').any(|known| known == flag);
    assert!(
        has("dd"),
        "{driver}: a key on pages that are dumped ({flags})"
    );
    assert!(
        has("lo") || locking() == Locking::Incomplete,
        "{driver}: a key on pages that are not locked ({flags})"
    );
}

/// Every mode, and of every way to make IVs one that holds a key.
const SPECS: [&str; 16] = [
    "aes-xts-plain64",
    "aes-cbc-essiv:sha256",
    "aes-ctr-essiv:blake2b-256",
    "aes-cbc-eboiv",
    "aes-ecb",
    "aes-lrw-benbi",
    "serpent-xts-plain64",
    "serpent-cbc-essiv:sha256",
    "serpent-lrw-benbi",
    "twofish-xts-plain64",
    "twofish-lrw-essiv:sha256",
    "camellia-xts-plain64",
    "camellia-cbc-essiv:sha256",
    "camellia-lrw-benbi",
    "xchacha12,aes-adiantum-plain64",
    "xchacha20,aes-adiantum-plain64",
];

fn cipher(spec: &str, driver: &str, masked: &[u8]) -> SectorCipher {
    let spec: CipherSpec = spec.parse().unwrap();
    let key = unmasked(masked);
    let geometry = Geometry::new(SectorSize::S512);
    SectorCipher::new_with_driver(driver, &spec, key.expose(), geometry)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn unmasked(masked: &[u8]) -> SecretBytes {
    let mut key = SecretBytes::zeroed(masked.len());
    let bytes = key.expose_mut().iter_mut();
    bytes
        .zip(masked)
        .for_each(|(byte, masked)| *byte = masked ^ MASK);
    key
}

/// A key of its own for each case, masked so that it is not found itself.
fn masked_key(driver: &str, size: usize) -> Vec<u8> {
    let seed = driver.len() * 256 + size;
    (0..size)
        .map(|i| ((seed + i) * 2_654_435_761).to_le_bytes()[2])
        .collect()
}

/// Patterns to look for: each block of the masked key, the last one too where it starts in the middle of another, and,
/// masked too, both blocks of the digests that are keys of ESSIV, the first round key of Serpent, the first four bytes
/// of that of Camellia, each four times, and the tweak key of LRW as a number.
fn pieces(masked: &[u8], spec: &str) -> Vec<[u8; 16]> {
    let mut pieces: Vec<[u8; 16]> = masked.as_chunks().0.to_vec();
    pieces.extend(masked.last_chunk::<16>());
    let mut digests = [[0; 32]; 2];
    masked_digests(masked, &mut digests);
    clear_stack();
    pieces.extend(digests.as_flattened().as_chunks::<16>().0);
    if spec.starts_with("serpent") {
        let size = match spec.split('-').nth(1) {
            Some("xts") => masked.len() / 2,
            Some("lrw") => masked.len() - 16,
            _ => masked.len(),
        };
        let mut round_key = [0; 16];
        masked_serpent_key(&masked[..size], &mut round_key);
        clear_stack();
        pieces.push(round_key);
    }
    if spec.contains("-lrw-") {
        let tweak = masked.last_chunk().copied();
        pieces.push(u128::from_le_bytes(tweak.unwrap()).to_be_bytes());
    }
    if spec.starts_with("camellia") {
        pieces.push(std::array::from_fn(|at| masked[at / 4]));
    }
    if spec.contains("adiantum") {
        let mut derived = [0; 80];
        masked_adiantum_keys(masked, spec.starts_with("xchacha12"), &mut derived);
        clear_stack();
        // Not the points of Poly1305, of which some bits are cleared.
        pieces.extend(&derived.as_chunks().0[..2]);
        pieces.extend(&derived.as_chunks().0[4..]);
        let words = masked.as_chunks::<4>().0.iter();
        pieces.extend(words.map(|word| std::array::from_fn(|at| word[at % 4])));
    }
    pieces
}

/// The first round key of Serpent: S-box 3 of the first four words that follow from the key.
#[inline(never)]
fn masked_serpent_key(masked: &[u8], round_key: &mut [u8; 16]) {
    const BOX: [u32; 16] = [0, 15, 11, 8, 12, 9, 6, 3, 13, 1, 2, 4, 10, 7, 5, 14];
    let mut key = [0; 32];
    for (byte, masked) in key.iter_mut().zip(masked) {
        *byte = masked ^ MASK;
    }
    if let Some(after) = key.get_mut(masked.len()) {
        *after = 1;
    }
    let mut words = [0; 12];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    for (number, at) in (0..4).zip(8..) {
        let sum = words[at - 8] ^ words[at - 5] ^ words[at - 3] ^ words[at - 1];
        words[at] = (sum ^ 0x9e37_79b9 ^ number).rotate_left(11);
    }
    let mut outputs = [0; 4];
    for bit in 0..32 {
        let input = (0..4).fold(0, |input, word| {
            input | (words[8 + word] >> bit & 1) << word
        });
        for (word, output) in outputs.iter_mut().enumerate() {
            *output |= (BOX[input as usize] >> word & 1) << bit;
        }
    }
    for (bytes, word) in round_key.as_chunks_mut().0.iter_mut().zip(outputs) {
        *bytes = word.to_le_bytes().map(|byte| byte ^ MASK);
    }
}

/// The first keys that Adiantum takes from a key stream: of AES, two points, and the start of that of NH.
#[inline(never)]
fn masked_adiantum_keys(masked: &[u8], has_12_rounds: bool, derived: &mut [u8; 80]) {
    use chacha20::cipher::{KeyIvInit, StreamCipher};
    let key = unmasked(masked);
    let key = Array::try_from(key.expose()).unwrap();
    let nonce = Array::from_fn(|at| u8::from(at == 0));
    *derived = [MASK; 80];
    match has_12_rounds {
        true => chacha20::XChaCha12::new(&key, &nonce).apply_keystream(derived),
        false => chacha20::XChaCha20::new(&key, &nonce).apply_keystream(derived),
    }
}

/// Overwrites what functions that have returned left behind.
#[inline(never)]
fn clear_stack() {
    std::hint::black_box([0u8; 64 << 10]);
}

/// Calls `act` so far down the stack that the search does not overwrite what it leaves there.
#[inline(never)]
fn below<T>(act: impl FnOnce() -> T) -> T {
    let mut room = [0u8; 32 << 10];
    std::hint::black_box(&mut room);
    let result = act();
    std::hint::black_box(&mut room);
    result
}

#[inline(never)]
fn masked_digests(masked: &[u8], digests: &mut [[u8; 32]; 2]) {
    let mut key = SecretBytes::copied_from(masked);
    key.expose_mut().iter_mut().for_each(|byte| *byte ^= MASK);
    *digests = [
        Sha256::digest(key.expose()).into(),
        Blake2b256::digest(key.expose()).into(),
    ];
    let bytes = digests.as_flattened_mut().iter_mut();
    bytes.for_each(|byte| *byte ^= MASK);
}

const MASK: u8 = 0xc3;

/// The memory of this process.
struct Memory {
    file: File,
    /// Buffer for the bytes read; it is not searched itself.
    window: DataBuffer,
}

impl Memory {
    fn new() -> Self {
        Self {
            file: File::open("/proc/self/mem").unwrap(),
            window: DataBuffer::zeroed(64 << 10),
        }
    }

    /// The `VmFlags` of every writable mapping that holds one of `pieces`.
    fn holders(&mut self, pieces: &[[u8; 16]]) -> Vec<String> {
        let own = self.window.as_ptr() as usize;
        let own = own..own + self.window.len();
        let mut holders = Vec::new();
        for (range, flags) in mappings() {
            let before = range.start..range.end.min(own.start);
            let after = range.start.max(own.end)..range.end;
            if self.holds(before, pieces) || self.holds(after, pieces) {
                holders.push(flags);
            }
        }
        holders
    }

    fn holds(&mut self, range: Range<usize>, pieces: &[[u8; 16]]) -> bool {
        let window = &mut self.window[..];
        let mut at = range.start;
        while at < range.end {
            let len = window.len().min(range.end - at);
            // Some special mappings cannot be read this way; they hold nothing of ours.
            let Ok(len) = self.file.read_at(&mut window[..len], at as u64) else {
                return false;
            };
            if len < 16 {
                return false;
            }
            let found = find(&window[..len], pieces);
            window.fill(0);
            if found {
                return true;
            }
            // What lies across two windows is seen whole in one.
            at += if at + len == range.end { len } else { len - 15 };
        }
        false
    }
}

/// Returns whether one of `pieces` is in `bytes`.
fn find(bytes: &[u8], pieces: &[[u8; 16]]) -> bool {
    // Most places are ruled out by their first byte.
    let mut starts = [false; 256];
    for piece in pieces {
        starts[usize::from(piece[0] ^ MASK)] = true;
    }
    let mut places = bytes.windows(16);
    places.any(|bytes| starts[usize::from(bytes[0])] && is_one_of(bytes, pieces))
}

fn is_one_of(bytes: &[u8], pieces: &[[u8; 16]]) -> bool {
    let same = |piece: &[u8; 16]| {
        bytes
            .iter()
            .zip(piece)
            .all(|(byte, masked)| byte ^ MASK == *masked)
    };
    pieces.iter().any(same)
}

/// Every writable mapping of this process and its `VmFlags`.
fn mappings() -> Vec<(Range<usize>, String)> {
    let mut mappings = Vec::new();
    let mut current = None;
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            let writable = words.next().is_some_and(|access| access.starts_with("rw"));
            current = writable.then(|| number(start)..number(end));
        } else if let Some(flags) = line.strip_prefix("VmFlags: ")
            && let Some(range) = current.take()
        {
            mappings.push((range, flags.trim_end().to_owned()));
        }
    }
    mappings
}
