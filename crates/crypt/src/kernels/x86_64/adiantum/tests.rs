//! Wide kernels on the vectors of the authors, and beside the portable kernel.

use chacha20::{XChaCha12, XChaCha20};

use super::super::KERNELS;
use super::super::cpu::{Avx2, Avx2Avx512};
use super::Wide;
use crate::kernels::adiantum::tests::check_vectors;
use crate::kernels::iv::Ivs;
use crate::kernels::portable;
use crate::kernels::run::{Run, UNIT_MAX};
use crate::sector::{Geometry, IvSector, SectorSize};
use crate::spec::{Algorithm, IvMode};

#[test]
fn vectors_of_the_authors() {
    check_vectors::<Wide<Avx2, XChaCha12>>();
    check_vectors::<Wide<Avx2, XChaCha20>>();
    check_vectors::<Wide<Avx2Avx512, XChaCha12>>();
    check_vectors::<Wide<Avx2Avx512, XChaCha20>>();
}

/// Data units of every length, one alone and a few more than any kernel processes together of them, at several alignments.
#[test]
#[cfg_attr(miri, ignore)]
fn every_length_is_as_the_portable_kernel_has_it() {
    let plain: Vec<u8> = (0..=250).cycle().take(5 * UNIT_MAX).collect();
    let ivs = || {
        let geometry = Geometry::new(SectorSize::S512);
        Ivs::new(IvMode::Plain64, IvSector(5), geometry)
    };
    for algorithm in [Algorithm::Adiantum12, Algorithm::Adiantum20] {
        let wide = KERNELS.iter().filter(|kernel| (kernel.runs_here)());
        let all = portable::KERNELS.iter().chain(wide);
        let keyed: Vec<_> = all
            .filter(|kernel| kernel.algorithm == algorithm)
            .map(|kernel| (kernel.driver, (kernel.set_up)(&[0x5a; 32]).unwrap()))
            .collect();
        for (unit, units) in (16..=UNIT_MAX)
            .step_by(16)
            .flat_map(|unit| [(unit, 1), (unit, (plain.len() / unit).min(19))])
        {
            let plain = &plain[..unit * units];
            let mut expected = plain.to_vec();
            keyed[0]
                .1
                .encrypt(ivs(), Run::in_place(unit, &mut expected));
            for (driver, keyed) in &keyed[1..] {
                let offset = (unit / 16 + units) % 64;
                let mut room = vec![0xa5; plain.len() + 64];
                let data = &mut room[offset..][..plain.len()];
                keyed.encrypt(ivs(), Run::copy(unit, plain, data));
                assert!(*data == expected, "{driver}: {units} units of {unit} bytes");
                keyed.decrypt(ivs(), Run::in_place(unit, data));
                assert!(*data == *plain, "{driver}: {units} units of {unit} bytes");
                room.drain(offset..offset + plain.len());
                assert!(room.iter().all(|byte| *byte == 0xa5), "{driver}");
            }
        }
    }
}
