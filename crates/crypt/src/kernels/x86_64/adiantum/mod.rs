//! Adiantum with AVX-512 and AVX2.
//!
//! | | |
//! |---|---|
//! | for | CPUs with AVX-512, or with AVX2: Haswell and Zen, and later |
//! | width | 16 or 8 blocks of ChaCha, a lane for each; 4 or 2 blocks of NH in a register; 16 or 8 data units, of 16 KiB at most |
//! | registers | ChaCha: 16 of state and, with AVX-512, 1 or 2 more, while with AVX2 some are kept on the stack; NH: 4 sums, 1 of the message, 2 of products |
//! | bound | vector units: for a register of the data 42 operations of ChaCha12, or 53 with AVX2, and twice 17 of NH; with two units of 512 bits 0.6 cycles a byte, with three of 256 bits 0.9 |
//! | constant time | yes: additions, multiplications, rotations, and AES as in the other modes |
//! | why | the hash and the key stream are nearly all of the work, and computed eight or sixteen words an instruction |
//!
//! [`Width`] has what depends on the registers. The construction is [`kernels::adiantum`](crate::kernels::adiantum).

mod bulks;
mod chacha;
mod lanes;
mod nh;
mod poly;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use chacha20::{XChaCha12, XChaCha20};

use self::nh::Key;
use self::poly::{Point, Polynomial};
use super::cpu::{Avx2, Avx2Avx512, Proof};
use crate::kernels::adiantum::{HashKeys, NH_MESSAGE, Primitives, Stream, set_up};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::Block;
use crate::spec::Algorithm;
use crate::wipe;

pub(crate) const XCHACHA12_AVX512: Kernel =
    with_avx512::<XChaCha12>(Algorithm::Adiantum12, "adiantum-xchacha12-aes-avx512");
pub(crate) const XCHACHA20_AVX512: Kernel =
    with_avx512::<XChaCha20>(Algorithm::Adiantum20, "adiantum-xchacha20-aes-avx512");
pub(crate) const XCHACHA12_AVX2: Kernel =
    kernel::<Avx2, XChaCha12>(Algorithm::Adiantum12, "adiantum-xchacha12-aes-avx2");
pub(crate) const XCHACHA20_AVX2: Kernel =
    kernel::<Avx2, XChaCha20>(Algorithm::Adiantum20, "adiantum-xchacha20-aes-avx2");

const fn with_avx512<S: Stream>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    Kernel {
        family: "avx512",
        priority: || 600,
        ..kernel::<Avx2Avx512, S>(algorithm, driver)
    }
}

const fn kernel<W: Width, S: Stream>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family: "avx2",
        priority: || 500,
        constant_time: true,
        features: W::FEATURES,
        runs_here: || W::detect().is_some(),
        set_up: set_up::<Wide<W, S>>,
    }
}

/// More of the stack than a call uses in a release build, in bytes. To wipe more takes time that small sectors notice.
const STACK_BYTES: usize = 6 << 10;

/// Registers in which hash and key stream are computed.
trait Width: Proof {
    /// Lanes of 32 bits.
    const LANES: usize;

    /// Hash of the bulk of a data unit: Poly1305 at `point` of what NH leaves.
    fn hash(self, nh: &Key, point: &Point, bulk: &[u8]) -> u128;

    /// [`Primitives::xor_streams`] with `rounds` rounds.
    fn xor_streams(
        self,
        rounds: usize,
        key: &[u32; 8],
        nonces: &[Block],
        unit: usize,
        data: &mut [u8],
    );
}

impl Width for Avx2 {
    const LANES: usize = 8;

    fn hash(self, key: &Key, point: &Point, bulk: &[u8]) -> u128 {
        #[target_feature(enable = "avx2")]
        fn hash(key: &Key, point: &Point, bulk: &[u8]) -> u128 {
            let mut hash = Polynomial::new(point);
            for message in bulk.chunks(NH_MESSAGE) {
                hash.absorb(nh::by_256_bits(key, message));
            }
            hash.value()
        }
        // SAFETY: the token shows that the CPU has AVX2.
        unsafe { hash(key, point, bulk) }
    }

    fn xor_streams(
        self,
        rounds: usize,
        key: &[u32; 8],
        nonces: &[Block],
        unit: usize,
        data: &mut [u8],
    ) {
        #[target_feature(enable = "avx2")]
        fn xor_streams(
            width: Avx2,
            rounds: usize,
            key: &[u32; 8],
            nonces: &[Block],
            unit: usize,
            data: &mut [u8],
        ) {
            chacha::xor_streams::<lanes::Eight>(width, rounds, key, nonces, unit, data);
        }
        // SAFETY: the token shows that the CPU has AVX2.
        unsafe { xor_streams(self, rounds, key, nonces, unit, data) }
    }
}

impl Width for Avx2Avx512 {
    const LANES: usize = 16;

    fn hash(self, key: &Key, point: &Point, bulk: &[u8]) -> u128 {
        #[target_feature(enable = "avx2,avx512f")]
        fn hash(key: &Key, point: &Point, bulk: &[u8]) -> u128 {
            let mut hash = Polynomial::new(point);
            for message in bulk.chunks(NH_MESSAGE) {
                hash.absorb(nh::by_512_bits(key, message));
            }
            hash.value()
        }
        // SAFETY: the token shows that the CPU has AVX-512.
        unsafe { hash(key, point, bulk) }
    }

    fn xor_streams(
        self,
        rounds: usize,
        key: &[u32; 8],
        nonces: &[Block],
        unit: usize,
        data: &mut [u8],
    ) {
        #[target_feature(enable = "avx2,avx512f")]
        fn xor_streams(
            width: Avx2Avx512,
            rounds: usize,
            key: &[u32; 8],
            nonces: &[Block],
            unit: usize,
            data: &mut [u8],
        ) {
            chacha::xor_streams::<lanes::Sixteen>(width, rounds, key, nonces, unit, data);
        }
        // SAFETY: the token shows that the CPU has AVX-512.
        unsafe { xor_streams(self, rounds, key, nonces, unit, data) }
    }
}

/// Hash and key stream on wide registers, with the rounds of `S`.
struct Wide<W, S> {
    nh: Key,
    width: W,
    stream: [u32; 8],
    header: Point,
    message: Point,
    cipher: PhantomData<fn() -> S>,
}

impl<W: Width, S: Stream> Primitives for Wide<W, S> {
    type Stream = S;

    const UNITS: usize = W::LANES;

    fn new(stream: &[u8; 32], hash: &HashKeys<'_>) -> Option<Self> {
        let (words, _) = stream.as_chunks();
        Some(Self {
            nh: Key::new(hash.nh),
            width: W::detect()?,
            stream: std::array::from_fn(|at| u32::from_le_bytes(words[at])),
            header: Point::new(hash.header),
            message: Point::new(hash.message),
            cipher: PhantomData,
        })
    }

    fn hash_header(&self, header: &[Block; 3]) -> u128 {
        let mut hash = Polynomial::new(&self.header);
        for block in header {
            hash.absorb([u128::from_le_bytes(*block)]);
        }
        hash.value()
    }

    fn hash_bulk(&self, bulk: &[u8]) -> u128 {
        self.width.hash(&self.nh, &self.message, bulk)
    }

    fn xor_streams(&self, nonces: &[Block], unit: usize, data: &mut [u8]) {
        self.width
            .xor_streams(S::ROUNDS, &self.stream, nonces, unit, data);
    }

    fn wipe_stack() {
        if cfg!(debug_assertions) {
            wipe::stack();
        } else {
            wipe::below::<STACK_BYTES>();
        }
    }
}
