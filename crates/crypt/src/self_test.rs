//! Self-tests of kernels, which each passes before its first use.

use crate::kernels::descriptor::Kernel;
use crate::kernels::gcm::Gcm;
use crate::kernels::iv::Ivs;
use crate::kernels::run::{Data, Run};
use crate::sector::{Geometry, IvSector, SectorSize};
use crate::spec::{Algorithm, IvMode, Mode};

/// Sectors of the self-test: whole batches of tweaks for any kernel, and one more.
const SECTORS: usize = 17;

/// Numbers of sectors in the calls of the self-test; together they are [`SECTORS`].
const CALLS: [usize; 7] = [1, 1, 3, 1, 2, 8, 1];

/// For each algorithm and key size the [`digest`] of the self-test's ciphertext, made by other implementations:
/// `tests/vectors/make.py`.
const DIGESTS: &[(Algorithm, &[(usize, u64)])] = &[
    (
        Algorithm::AesXts,
        &[
            (32, 0xef4c_dc84_6848_bbf9),
            (48, 0x4bc7_aaa7_ef81_cbbc),
            (64, 0x4da6_5bab_6e24_6c67),
        ],
    ),
    (
        Algorithm::AesCbc,
        &[
            (16, 0xeb69_7b23_0e3a_3a69),
            (24, 0xbbe8_efa4_5be1_2c4a),
            (32, 0x538a_d08f_74c8_2e1d),
        ],
    ),
    (
        Algorithm::AesCtr,
        &[
            (16, 0x8abc_9d97_e289_bb23),
            (24, 0x5749_1ce2_9308_b967),
            (32, 0x6b55_cfca_8bc3_4461),
        ],
    ),
    (
        Algorithm::AesEcb,
        &[
            (16, 0x9d8d_b238_01a5_65f3),
            (24, 0x2455_9cd8_b8aa_0415),
            (32, 0x0a65_c285_4391_6cbe),
        ],
    ),
    (
        Algorithm::AesLrw,
        &[
            (32, 0xa1ac_751d_c401_63b3),
            (40, 0x71e4_b113_31d0_fd2b),
            (48, 0x5f45_2943_8065_8847),
        ],
    ),
    (
        Algorithm::SerpentXts,
        &[
            (32, 0xf07b_3e21_efc8_f544),
            (48, 0x113c_d2e7_38b9_bf67),
            (64, 0x8059_9856_7891_3f39),
        ],
    ),
    (
        Algorithm::SerpentCbc,
        &[
            (16, 0x265d_2252_01f8_d927),
            (24, 0xabe6_fc04_ebd0_2b4b),
            (32, 0x1d9a_67c7_1f2a_8d4d),
        ],
    ),
    (
        Algorithm::SerpentCtr,
        &[
            (16, 0xc217_8a99_6af7_7dd0),
            (24, 0xb39a_7b64_2f9e_1c2b),
            (32, 0x64c7_78c0_00fc_a24d),
        ],
    ),
    (
        Algorithm::SerpentEcb,
        &[
            (16, 0x1389_12e9_55c1_33a7),
            (24, 0x0835_9e12_9294_07a3),
            (32, 0xa7fc_2440_6503_71ba),
        ],
    ),
    (
        Algorithm::SerpentLrw,
        &[
            (32, 0x7a69_1c7f_3123_53a2),
            (40, 0x28db_ca8f_b343_39ae),
            (48, 0xcc9e_f897_f283_543c),
        ],
    ),
    (
        Algorithm::TwofishXts,
        &[
            (32, 0x85c9_7c3f_ac1d_6d28),
            (48, 0x5c80_f5cc_63bf_6133),
            (64, 0xe7a8_8bf0_a7ac_64c4),
        ],
    ),
    (
        Algorithm::TwofishCbc,
        &[
            (16, 0xbed0_fb26_905b_8e5a),
            (24, 0x5814_acc6_98da_d2cb),
            (32, 0xddad_3ebe_8ce3_8751),
        ],
    ),
    (
        Algorithm::TwofishCtr,
        &[
            (16, 0x6230_4da3_2064_c1eb),
            (24, 0x6c1c_6771_16ed_c598),
            (32, 0x0dfc_f436_8cda_6ee7),
        ],
    ),
    (
        Algorithm::TwofishEcb,
        &[
            (16, 0x382a_9763_fbef_4ae2),
            (24, 0x3df5_ca9e_e47c_afec),
            (32, 0x308a_c0bb_4d23_0e78),
        ],
    ),
    (
        Algorithm::TwofishLrw,
        &[
            (32, 0xc692_0208_6afb_b99d),
            (40, 0xba43_8913_ecdc_4b4a),
            (48, 0x4a3f_d763_fb0a_b805),
        ],
    ),
    (
        Algorithm::CamelliaXts,
        &[
            (32, 0xa1d9_ed3a_9877_762e),
            (48, 0x48b6_47fd_0ef1_1411),
            (64, 0x5330_84ed_8b03_6767),
        ],
    ),
    (
        Algorithm::CamelliaCbc,
        &[
            (16, 0x78c7_5e27_3e22_7db6),
            (24, 0xb148_4d5f_a2fc_43be),
            (32, 0xc1d7_d0ba_06c6_37e6),
        ],
    ),
    (
        Algorithm::CamelliaCtr,
        &[
            (16, 0x8716_e735_5f5a_e41d),
            (24, 0x8df6_b022_dd5d_1973),
            (32, 0x85c0_065b_5048_f0da),
        ],
    ),
    (
        Algorithm::CamelliaEcb,
        &[
            (16, 0x3de2_4509_08ac_bcc6),
            (24, 0x34c8_d63d_eb5c_9f94),
            (32, 0xa249_6977_34a7_0c2e),
        ],
    ),
    (
        Algorithm::CamelliaLrw,
        &[
            (32, 0xea43_7a59_b28f_6fc8),
            (40, 0x9970_ea4c_accb_9175),
            (48, 0xa645_4630_13ce_e929),
        ],
    ),
    (Algorithm::Adiantum12, &[(32, 0x2db0_73cc_ce09_d96c)]),
    (Algorithm::Adiantum20, &[(32, 0xec9e_a6b5_f0a3_9590)]),
    // Of the plaintext.
    (Algorithm::NullEcb, &[(0, 0x147c_f7fe_f600_1818)]),
];

/// For each size of a key the tag of the self-test's message of AES-GCM, made by another implementation:
/// `tests/vectors/make.py`.
const GCM_TAGS: [(usize, u128); 2] = [
    (16, 0xff2a_104c_7221_10f0_dcaa_8664_0752_0b1c),
    (32, 0x3b4e_216b_47f0_ae9d_7252_7ed6_f074_0408),
];

/// Length of that message in bytes: two groups of any kernel for processors, or one piece of the portable kernel, and
/// behind them whole blocks and a part of one.
const GCM_MESSAGE: usize = 1105;

fn digests(algorithm: Algorithm) -> &'static [(usize, u64)] {
    let row = DIGESTS.iter().find(|(known, _)| *known == algorithm);
    row.map_or(&[], |(_, digests)| *digests)
}

/// Seals a known message with known keys, compares the tag with that of another implementation, and opens it again.
pub(crate) fn gcm_passes(gcm: &Gcm) -> bool {
    GCM_TAGS.into_iter().all(|(key_size, expected)| {
        let key: Vec<u8> = (0..key_size).map(|i| i.to_le_bytes()[0] ^ 0x5a).collect();
        let plain: Vec<u8> = (0..GCM_MESSAGE)
            .map(|i| (i * 7 + i / 251).to_le_bytes()[0])
            .collect();
        let Some(kernel) = (gcm.set_up)(&key) else {
            return false;
        };
        let (nonce, additional) = (b"twelve bytes", b"a header of 21 bytes.");
        let mut message = plain.clone();
        let sealed = kernel.seal(nonce, additional, Data::InPlace(&mut message));
        let opened = kernel.open(nonce, additional, Data::InPlace(&mut message));
        u128::from_be_bytes(sealed) == expected && opened == sealed && message == plain
    })
}

/// Encrypts a known run with known keys, compares with the result of another implementation, and
/// decrypts it again: in place, from one buffer to another, and in calls that continue where the last
/// one stopped. Data units that are not sectors begin as sectors do, but for wide blocks. Portable code is written once
/// for all sizes of a key, so only the longest one takes all of these ways.
pub(crate) fn passes(kernel: &Kernel) -> bool {
    let key: Vec<u8> = (0..64).map(|i: u8| i.wrapping_mul(37) ^ 0x5a).collect();
    let plain: Vec<u8> = (0..SECTORS * 512)
        .map(|i| (i * 7 + i / 251).to_le_bytes()[0])
        .collect();
    let ivs_from = |sector: u64| {
        let geometry = Geometry::new(SectorSize::S512);
        Ivs::new(IvMode::Plain64, IvSector(0x1_ffff_fff0 + sector), geometry)
    };
    let ivs = || ivs_from(0);
    let digests = digests(kernel.algorithm);
    let longest = digests.last().map_or(0, |(size, _)| *size);
    let is_wide = kernel.algorithm.mode() == Mode::Adiantum;
    let passes = |&(key_size, expected): &(usize, u64)| {
        let Some(keyed) = key.get(..key_size).and_then(kernel.set_up) else {
            return false;
        };
        let mut run = plain.clone();
        let mut other = vec![0; run.len()];
        keyed.encrypt(ivs(), Run::in_place(512, &mut run));
        let is_known = digest(&run) == expected;
        if kernel.features.is_empty() && key_size < longest {
            keyed.decrypt(ivs(), Run::in_place(512, &mut run));
            return is_known && run == plain;
        }
        keyed.encrypt(ivs(), Run::copy(512, &plain, &mut other));
        let encrypts = is_known && run == other;
        other.copy_from_slice(&plain);
        let mut rest = &mut other[..];
        let mut sector = 0;
        for sectors in CALLS {
            let (call, behind) = rest.split_at_mut(sectors * 512);
            keyed.encrypt(ivs_from(sector), Run::in_place(512, call));
            sector += sectors as u64;
            rest = behind;
        }
        let goes_on = run == other;
        let begins = [16, 48, 528].iter().all(|unit| {
            let mut data = plain[..*unit].to_vec();
            keyed.encrypt(ivs(), Run::in_place(*unit, &mut data));
            let same = (*unit).min(512);
            let begins = is_wide || data[..same] == run[..same];
            keyed.decrypt(ivs(), Run::in_place(*unit, &mut data));
            begins && data == plain[..*unit]
        });
        keyed.decrypt(ivs(), Run::copy(512, &run, &mut other));
        keyed.decrypt(ivs(), Run::in_place(512, &mut run));
        encrypts && goes_on && begins && run == plain && other == plain
    };
    !digests.is_empty() && digests.iter().all(passes)
}

/// FNV-1a of 64 bits: it has to detect broken code, not to withstand an attack.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_size_is_tested() {
        for algorithm in Algorithm::ALL {
            let tested = digests(*algorithm).iter().map(|(size, _)| *size);
            assert_eq!(tested.collect::<Vec<_>>(), algorithm.key_sizes());
        }
    }
}
