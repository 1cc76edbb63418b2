//! Requests over several buffers against the same request over one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::io::{IoSlice, IoSliceMut};

use common::{cipher, drivers, key_sizes, plaintext, sector_size};
use scrim_crypt::vectored::{Gathered, Vectored};
use scrim_crypt::{Geometry, IvSector, SectorCipher, SharedSource};
use scrim_seeded::Random;

/// IV sectors wrap within the request.
const FIRST: IvSector = IvSector(u64::MAX - 20);

const SPECS: [&str; 7] = [
    "aes-xts-plain64",
    "aes-xts-eboiv",
    "aes-cbc-plain64be",
    "aes-cbc-essiv:sha256",
    "aes-cbc-benbi",
    "aes-ctr-plain64",
    "aes-ecb",
];

#[test]
fn every_mode_and_sector_size_with_random_splits() {
    let mut random = Random::new(4);
    for spec in SPECS {
        for driver in drivers(spec) {
            for key_size in key_sizes(spec) {
                for sector in [512, 1024, 2048, 4096] {
                    let geometry = Geometry::new(sector_size(sector));
                    let cipher = cipher(driver, spec, key_size, geometry);
                    for _ in 0..8 {
                        Request::random(spec, &cipher, &mut random).check();
                    }
                }
            }
        }
    }
}

/// The null cipher has no driver in its specification's name.
#[test]
fn the_null_cipher_with_random_splits() {
    let mut random = Random::new(5);
    let spec = "cipher_null-ecb";
    let cipher =
        SectorCipher::new(&spec.parse().unwrap(), &[], Geometry::new(sector_size(512))).unwrap();
    for _ in 0..50 {
        Request::random(spec, &cipher, &mut random).check();
    }
}

#[test]
fn large_iv_sectors_count_sectors() {
    let mut random = Random::new(6);
    let geometry = Geometry {
        sector_size: sector_size(2048),
        iv_large_sectors: true,
    };
    let cipher = cipher("xts-aes-portable", "aes-xts-plain64", 64, geometry);
    for _ in 0..20 {
        Request::random("aes-xts-plain64", &cipher, &mut random).check();
    }
}

/// Runs that overlap others: each part of a volume stands alone, however the calls before cut it.
#[test]
fn overlapping_runs() {
    let geometry = Geometry::new(sector_size(512));
    let cipher = cipher("cbc-aes-portable", "aes-cbc-essiv:sha256", 32, geometry);
    let plain = plaintext(24 * 512);
    let mut whole = plain.clone();
    cipher.encrypt_in_place(FIRST, &mut whole);
    let mut random = Random::new(7);
    for _ in 0..40 {
        let (from, to) = (random.index(24), random.index(24));
        let (from, to) = (from.min(to), from.max(to) + 1);
        let first = IvSector(FIRST.0.wrapping_add(from as u64));
        let mut part = whole[from * 512..to * 512].to_vec();
        let cuts = cuts(part.len(), &mut random);
        Vectored::of(&cipher).decrypt_in_place(first, &mut cut_mut(&mut part, &cuts));
        assert!(part == plain[from * 512..to * 512]);
    }
}

/// Meaning of the counts, on a layout that is written out.
#[test]
fn what_is_gathered_is_counted() {
    let geometry = Geometry::new(sector_size(512));
    let cipher = cipher("xts-aes-portable", "aes-xts-plain64", 64, geometry);
    // Sectors 0 and 1 whole, 2 split, 3 whole, 4 in three parts, 5 whole.
    let lens = [1024 + 100, 412 + 512 + 8, 0, 3, 501 + 512];
    let mut pieces: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len]).collect();
    let counted = |sectors, bytes| Gathered { sectors, bytes };
    assert_eq!(
        Vectored::of(&cipher).encrypt_in_place(FIRST, &mut pieces),
        counted(2, 2 * 2 * 512)
    );
    let mut whole = [vec![0; 6 * 512]];
    assert_eq!(
        Vectored::of(&cipher).decrypt(FIRST, &pieces, &mut whole),
        counted(2, 2 * 512)
    );
    assert!(whole[0].iter().all(|byte| *byte == 0));
    let mut halves = [vec![0; 3 * 512], vec![0; 3 * 512]];
    assert_eq!(
        Vectored::of(&cipher).encrypt(FIRST, &whole, &mut halves),
        counted(0, 0)
    );
    assert!(halves.concat() == pieces.concat());
}

#[test]
#[should_panic(expected = "pieces of 600 bytes are not whole sectors of 512")]
fn parts_of_sectors_are_no_request() {
    let geometry = Geometry::new(sector_size(512));
    let cipher = cipher("xts-aes-portable", "aes-xts-plain64", 64, geometry);
    Vectored::of(&cipher).encrypt_in_place(FIRST, &mut [vec![0; 500], vec![0; 100]]);
}

/// One request, cut in one way for a source and in another for a destination.
struct Request<'a> {
    cipher: &'a SectorCipher,
    spec: &'a str,
    plain: Vec<u8>,
    encrypted: Vec<u8>,
    from: Vec<usize>,
    to: Vec<usize>,
}

impl<'a> Request<'a> {
    fn random(spec: &'a str, cipher: &'a SectorCipher, random: &mut Random) -> Self {
        let sectors = 1 + random.index(24);
        let plain = plaintext(sectors * cipher.geometry().sector_size.bytes());
        let mut encrypted = plain.clone();
        cipher.encrypt_in_place(FIRST, &mut encrypted);
        Self {
            cipher,
            spec,
            from: cuts(plain.len(), random),
            to: cuts(plain.len(), random),
            plain,
            encrypted,
        }
    }

    fn check(&self) {
        let Self { cipher, .. } = self;
        let vectored = Vectored::of(cipher);
        let expected = |cuts: &[usize]| split_sectors(cipher, cuts);
        let (from, to) = (&self.from[..], &self.to[..]);

        let mut data = self.plain.clone();
        let gathered = vectored.encrypt_in_place(FIRST, &mut cut_mut(&mut data, from));
        assert!(data == self.encrypted, "{}", self.what());
        let split = expected(from);
        assert_eq!(gathered.sectors, split.len(), "{}", self.what());
        assert_eq!(gathered.bytes, 2 * split.len() * self.sector());
        vectored.decrypt_in_place(FIRST, &mut cut_mut(&mut data, to));
        assert!(data == self.plain, "{}", self.what());

        let mut there = vec![0; data.len()];
        let gathered = vectored.encrypt(FIRST, &cut(&data, from), &mut cut_mut(&mut there, to));
        assert!(there == self.encrypted, "{}", self.what());
        let copies = split.len() + expected(to).len();
        let mut either = [split, expected(to)].concat();
        either.sort_unstable();
        either.dedup();
        assert_eq!(gathered.sectors, either.len(), "{}", self.what());
        assert_eq!(gathered.bytes, copies * self.sector());

        let mut back = vec![0; data.len()];
        vectored.decrypt(FIRST, &cut(&there, to), &mut cut_mut(&mut back, from));
        assert!(back == self.plain, "{}", self.what());

        let all = shared(&cut(&data, &[]))[0];
        vectored.encrypt_from_shared(FIRST, &[all], &mut [&mut back[..]]);
        assert!(back == self.encrypted, "{}", self.what());
        there.fill(0);
        let shared = shared(&cut(&data, from));
        let same = vectored.encrypt_from_shared(FIRST, &shared, &mut cut_mut(&mut there, to));
        assert!(there == self.encrypted, "{}", self.what());
        assert_eq!(same, gathered);
    }

    fn sector(&self) -> usize {
        self.cipher.geometry().sector_size.bytes()
    }

    fn what(&self) -> String {
        let (spec, driver) = (self.spec, self.cipher.implementation().driver);
        format!("{spec} by {driver}, {:?} to {:?}", self.from, self.to)
    }
}

/// The sectors that a cut goes through.
fn split_sectors(cipher: &SectorCipher, cuts: &[usize]) -> Vec<usize> {
    let sector = cipher.geometry().sector_size.bytes();
    let mut split: Vec<_> = cuts
        .iter()
        .filter(|cut| *cut % sector != 0)
        .map(|cut| cut / sector)
        .collect();
    split.dedup();
    split
}

/// Where to cut `len` bytes, in order: nowhere, at sectors, at blocks, at bytes, often or seldom, and
/// more than once in the same place, which makes empty pieces.
fn cuts(len: usize, random: &mut Random) -> Vec<usize> {
    let grain = [1, 1, 1, 8, 16, 512][random.index(6)];
    let count = [0, 1, 3, 10, 100][random.index(5)];
    let mut cuts: Vec<_> = (0..count)
        .map(|_| random.index(len / grain + 1) * grain)
        .collect();
    if random.index(4) == 0 {
        // A place where every piece is shorter than a block.
        let start = random.index(len);
        cuts.extend((start..len.min(start + 1100)).step_by(1 + random.index(15)));
    }
    cuts.sort_unstable();
    cuts
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<IoSlice<'a>> {
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    starts
        .zip(ends)
        .map(|(start, end)| IoSlice::new(&bytes[start..end]))
        .collect()
}

fn cut_mut<'a>(mut bytes: &'a mut [u8], cuts: &[usize]) -> Vec<IoSliceMut<'a>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for cut in cuts {
        let (piece, rest) = bytes.split_at_mut(cut - at);
        pieces.push(IoSliceMut::new(piece));
        (bytes, at) = (rest, *cut);
    }
    pieces.push(IoSliceMut::new(bytes));
    pieces
}

fn shared<'a>(pieces: &[IoSlice<'a>]) -> Vec<SharedSource<'a>> {
    let share = |piece: &IoSlice<'a>| {
        // SAFETY: the bytes are borrowed for `'a`, and nobody changes them.
        unsafe { SharedSource::new(piece.as_ptr(), piece.len()) }
    };
    pieces.iter().map(share).collect()
}
