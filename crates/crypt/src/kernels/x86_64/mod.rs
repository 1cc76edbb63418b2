//! Kernels for x86-64, on `core::arch`.

mod adiantum;
mod aes;
mod aesni;
mod ahead;
pub(crate) mod argon2;
mod batch;
mod camellia;
mod cbc;
mod cbc_aesni;
mod cbc_vaes2;
mod cbc_vaes512;
mod chain;
mod cpu;
mod ctr;
mod ctr_aesni;
mod ctr_vaes2;
mod ctr_vaes512;
mod ecb;
mod gcm;
mod gcm_aesni;
mod gcm_counters;
mod gcm_vaes2;
mod gcm_vaes512;
mod gcm_width;
mod key;
mod lanes;
mod lrw_aes;
mod mode;
mod opaque;
mod prefetch;
pub(crate) mod probe;
mod serpent;
mod transposed;
mod vaes2;
mod vaes512;
mod wide;
mod xts;
mod xts_aesni;
mod xts_scalar;
mod xts_vaes2;
mod xts_vaes512;

use super::descriptor::Kernel;
use super::gcm::Gcm;

/// Every sector kernel for x86-64.
pub(crate) static KERNELS: &[Kernel] = &[
    xts_vaes512::XTS_VAES512,
    xts_vaes512::XTS_VAES512_SCALAR,
    xts_vaes2::XTS_VAES2,
    xts_aesni::XTS_AESNI,
    cbc_vaes512::CBC_VAES512,
    cbc_vaes2::CBC_VAES2,
    cbc_aesni::CBC_AESNI,
    ctr_vaes512::CTR_VAES512,
    ctr_vaes2::CTR_VAES2,
    ctr_aesni::CTR_AESNI,
    ecb::ECB_VAES512,
    ecb::ECB_VAES2,
    ecb::ECB_AESNI,
    lrw_aes::LRW_VAES512,
    lrw_aes::LRW_VAES2,
    lrw_aes::LRW_AESNI,
    serpent::XTS_AVX512,
    serpent::CBC_AVX512,
    serpent::CTR_AVX512,
    serpent::ECB_AVX512,
    serpent::LRW_AVX512,
    serpent::XTS,
    serpent::CBC,
    serpent::CTR,
    serpent::ECB,
    serpent::LRW,
    camellia::XTS_AVX512,
    camellia::CBC_AVX512,
    camellia::CTR_AVX512,
    camellia::ECB_AVX512,
    camellia::LRW_AVX512,
    camellia::XTS_AVX2,
    camellia::CBC_AVX2,
    camellia::CTR_AVX2,
    camellia::ECB_AVX2,
    camellia::LRW_AVX2,
    camellia::XTS_VAES2,
    camellia::CBC_VAES2,
    camellia::CTR_VAES2,
    camellia::ECB_VAES2,
    camellia::LRW_VAES2,
    camellia::XTS_AESNI,
    camellia::CBC_AESNI,
    camellia::CTR_AESNI,
    camellia::ECB_AESNI,
    camellia::LRW_AESNI,
    adiantum::XCHACHA12_AVX512,
    adiantum::XCHACHA20_AVX512,
    adiantum::XCHACHA12_AVX2,
    adiantum::XCHACHA20_AVX2,
];

/// Every kernel of AES-GCM for x86-64, the fastest first.
pub(crate) static GCM: &[Gcm] = &[
    gcm_vaes512::GCM_VAES512,
    gcm_vaes2::GCM_VAES2,
    gcm_aesni::GCM_AVX,
    gcm_aesni::GCM_AESNI,
];
