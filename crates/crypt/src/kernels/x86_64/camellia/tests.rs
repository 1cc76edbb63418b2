//! Blocks in batches of every size. That modes agree with the portable code is tested with all other kernels.

use camellia::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use camellia::{Camellia128, Camellia192, Camellia256};

use super::{ECB_AESNI, ECB_AVX2, ECB_AVX512, ECB_VAES2};
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::Run;

/// More blocks than four batches of any width.
const BLOCKS: usize = 300;

/// RFC 3713, appendix A.
#[test]
fn blocks_are_those_of_the_specification() {
    const FIRST: u128 = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
    const REST: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
    let key = [FIRST, REST].map(u128::to_be_bytes);
    for (size, cipher) in [
        (16, 0x6767_3138_5496_6973_0857_0656_48ea_be43_u128),
        (24, 0xb499_3401_b3e9_96f8_4ee5_cee7_d79b_09b9),
        (32, 0x9acc_237d_ff16_d76c_20ef_7c91_9e3a_7509),
    ] {
        let key = &key.as_flattened()[..size];
        check(key, &[FIRST.to_be_bytes()], &[cipher.to_be_bytes()]);
    }
}

#[test]
fn blocks_are_those_of_the_crate() {
    let key: Vec<u8> = (0..32).map(|at: u8| at.wrapping_mul(29) ^ 0x5a).collect();
    compare::<Camellia128>(&key[..16]);
    compare::<Camellia192>(&key[..24]);
    compare::<Camellia256>(&key);
}

fn compare<C: KeyInit + BlockCipherEncrypt + BlockCipherDecrypt>(key: &[u8]) {
    let theirs = C::new_from_slice(key).unwrap();
    let number =
        |at: usize| (at as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let plain: Vec<Block> = (0..BLOCKS).map(|at| number(at).to_le_bytes()).collect();
    let encrypted = plain.iter().map(|block| {
        let mut encrypted = camellia::cipher::Block::<C>::try_from(&block[..]).unwrap();
        theirs.encrypt_block(&mut encrypted);
        encrypted.as_slice().try_into().unwrap()
    });
    let encrypted: Vec<Block> = encrypted.collect();
    for count in 1..=BLOCKS {
        check(key, &plain[..count], &encrypted[..count]);
    }
}

fn check(key: &[u8], plain: &[Block], encrypted: &[Block]) {
    for kernel in [ECB_AVX512, ECB_AVX2, ECB_VAES2, ECB_AESNI] {
        if !(kernel.runs_here)() {
            continue;
        }
        let keyed = (kernel.set_up)(key).unwrap();
        let mut blocks = plain.to_vec();
        let ivs = Ivs::constant([0; 16]);
        keyed.encrypt(ivs.clone(), Run::in_place(16, blocks.as_flattened_mut()));
        assert!(blocks == encrypted, "{}: {}", kernel.driver, plain.len());
        keyed.decrypt(ivs, Run::in_place(16, blocks.as_flattened_mut()));
        assert!(blocks == plain, "{}: {}", kernel.driver, plain.len());
    }
}
