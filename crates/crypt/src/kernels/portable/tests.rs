//! One small case of each mode, so that it runs under Miri. `kernels::tests` has the many.

use super::{GCM, KERNELS};
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::{Data, Run};

const KEY: u128 = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c;
const PLAIN: [u128; 2] = [
    0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
    0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51,
];

fn check(driver: &str, key: &[u8], iv: Block, plain: [u128; 2], cipher: [u128; 2]) {
    let bytes = |blocks: [u128; 2]| blocks.map(u128::to_be_bytes).as_flattened().to_vec();
    let (plain, cipher) = (bytes(plain), bytes(cipher));
    let mut kernels = KERNELS.iter();
    let kernel = kernels.find(|kernel| kernel.driver == driver).unwrap();
    let keyed = (kernel.set_up)(key).unwrap();
    let mut data = plain.clone();
    keyed.encrypt(Ivs::constant(iv), Run::in_place(32, &mut data));
    assert_eq!(data, cipher, "{driver}");
    keyed.decrypt(Ivs::constant(iv), Run::copy(32, &cipher, &mut data));
    assert_eq!(data, plain, "{driver}");
}

/// NIST SP 800-38A, F.1.1.
#[test]
fn ecb() {
    let cipher = [
        0x3ad7_7bb4_0d7a_3660_a89e_caf3_2466_ef97,
        0xf5d3_d585_03b9_699d_e785_895a_96fd_baaf,
    ];
    check(
        "ecb-aes-portable",
        &KEY.to_be_bytes(),
        [0; 16],
        PLAIN,
        cipher,
    );
}

/// NIST SP 800-38A, F.2.1.
#[test]
fn cbc() {
    let iv = std::array::from_fn(|at| at.to_le_bytes()[0]);
    let cipher = [
        0x7649_abac_8119_b246_cee9_8e9b_12e9_197d,
        0x5086_cb9b_5072_19ee_95db_113a_9176_78b2,
    ];
    check("cbc-aes-portable", &KEY.to_be_bytes(), iv, PLAIN, cipher);
}

/// NIST SP 800-38A, F.5.1.
#[test]
fn ctr() {
    let iv = std::array::from_fn(|at| 0xf0 + at.to_le_bytes()[0]);
    let cipher = [
        0x874d_6191_b620_e326_1bef_6864_990d_b6ce,
        0x9806_f66b_7970_fdff_8617_187b_b9ff_fdff,
    ];
    check("ctr-aes-portable", &KEY.to_be_bytes(), iv, PLAIN, cipher);
}

/// IEEE Std 1619, annex B, vector 1.
#[test]
fn xts() {
    let cipher = [
        0x917c_f69e_bd68_b2ec_9b9f_e9a3_eadd_a692,
        0xcd43_d2f5_9598_ed85_8c02_c265_2fbf_922e,
    ];
    check("xts-aes-portable", &[0; 32], [0; 16], [0; 2], cipher);
}

/// Serpent in the NESSIE project's submission, the first vector of set 1 for each size of key: `verified.test-vectors`.
#[test]
fn serpent() {
    for (size, cipher) in [
        (16, 0x264e_5481_eff4_2a46_06ab_da06_c0bf_da3d),
        (24, 0x9e27_4ead_9b73_7bb2_1efc_fca5_4860_2689),
        (32, 0xa223_aa12_8846_3c0e_2be3_8ebd_8256_16c0),
    ] {
        let mut key = vec![0; size];
        key[0] = 0x80;
        check("ecb-serpent-portable", &key, [0; 16], [0; 2], [cipher; 2]);
    }
}

/// RFC 3713, appendix A.
#[test]
fn camellia() {
    const FIRST: u128 = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
    let mut key = FIRST.to_be_bytes().to_vec();
    key.extend(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());
    for (size, cipher) in [
        (16, 0x6767_3138_5496_6973_0857_0656_48ea_be43),
        (24, 0xb499_3401_b3e9_96f8_4ee5_cee7_d79b_09b9),
        (32, 0x9acc_237d_ff16_d76c_20ef_7c91_9e3a_7509),
    ] {
        check(
            "ecb-camellia-portable",
            &key[..size],
            [0; 16],
            [FIRST; 2],
            [cipher; 2],
        );
    }
}

/// Draft of IEEE P1619 of 2004, LRW-32-AES 1; what follows the first block is computed by OpenSSL's AES.
#[test]
fn lrw() {
    let key = [
        0x4562_ac25_f828_176d_4c26_8414_b568_0185_u128,
        0x258e_2a05_e73e_9d03_ee5a_830c_cc09_4c87,
    ];
    let key = key.map(u128::to_be_bytes);
    let plain = 0x3031_3233_3435_3637_3839_4142_4344_4546;
    let cipher = [
        0xf1b2_73cd_65a3_df5f_e95d_4892_5463_4eb8,
        0x649e_1726_a7f5_c171_314f_a0c2_61c9_e1ae,
    ];
    check(
        "lrw-aes-portable",
        key.as_flattened(),
        1_u128.to_be_bytes(),
        [plain; 2],
        cipher,
    );
}

/// McGrew and Viega, The Galois/Counter Mode of Operation, test case 4: a part of a block at both ends.
#[test]
fn gcm() {
    const DATA: &[u8; 20] =
        b"\xfe\xed\xfa\xce\xde\xad\xbe\xef\xfe\xed\xfa\xce\xde\xad\xbe\xef\xab\xad\xda\xd2";
    const NONCE: &[u8; 12] = b"\xca\xfe\xba\xbe\xfa\xce\xdb\xad\xde\xca\xf8\x88";
    let key = 0xfeff_e992_8665_731c_6d6a_8f94_6730_8308_u128.to_be_bytes();
    let bytes = |blocks: [u128; 4]| blocks.map(u128::to_be_bytes).as_flattened()[..60].to_vec();
    let plain = bytes([
        0xd931_3225_f884_06e5_a559_09c5_aff5_269a,
        0x86a7_a953_1534_f7da_2e4c_303d_8a31_8a72,
        0x1c3c_0c95_9568_0953_2fcf_0e24_49a6_b525,
        0xb16a_edf5_aa0d_e657_ba63_7b39_0000_0000,
    ]);
    let cipher = bytes([
        0x4283_1ec2_2177_7424_4b72_21b7_84d0_d49c,
        0xe3aa_212f_2c02_a4e0_35c1_7e23_29ac_a12e,
        0x21d5_14b2_5466_931c_7d8f_6a5a_ac84_aa05,
        0x1ba3_0b39_6a0a_ac97_3d58_e091_0000_0000,
    ]);
    let tag = 0x5bc9_4fbc_3221_a5db_94fa_e95a_e712_1a47_u128.to_be_bytes();
    let keyed = (GCM[0].set_up)(&key).unwrap();
    let mut data = plain.clone();
    assert_eq!(keyed.seal(NONCE, DATA, Data::InPlace(&mut data)), tag);
    assert_eq!(data, cipher);
    let copied = Data::Copy {
        source: &cipher,
        destination: &mut data,
    };
    assert_eq!(keyed.open(NONCE, DATA, copied), tag);
    assert_eq!(data, plain);
}
