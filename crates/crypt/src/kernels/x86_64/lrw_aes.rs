//! AES-LRW at any width, by the modes for batches of blocks.
//!
//! | | 128-bit registers | 256-bit registers | 512-bit registers |
//! |---|---|---|---|
//! | for | CPUs with AES-NI and AVX | CPUs with VAES but without AVX-512: Zen 3, Alder Lake and later | Ice Lake and Sapphire Rapids, Zen 4, and later |
//! | width | 8 blocks in flight | 8 registers of 2 blocks | 8 registers of 4 blocks |
//! | registers | 8 of data, 1 round key | likewise | likewise |
//! | bound | general registers, which make a tweak in about ten instructions | likewise | likewise |
//! | constant time | yes | yes | yes |
//! | why | for volumes that exist: LRW was the mode before XTS | likewise | likewise |

use super::aes::{Aes, WIDTH, rounds};
use super::batch::{Batch, Cipher, Lrw, set_up};
use super::cpu::{AesAvx, Proof, Vaes2, Vaes512};
use super::wide::{Operation, Schedule, Schedules};
use crate::kernels::cursor::Cursor;
use crate::kernels::descriptor::Kernel;
use crate::kernels::opaque::opaque;
use crate::spec::Algorithm;

pub(crate) const LRW_AESNI: Kernel = kernel::<AesAvx, 4>("lrw-aes-aesni");
pub(crate) const LRW_VAES2: Kernel = kernel::<Vaes2, 8>("lrw-aes-vaes2");
pub(crate) const LRW_VAES512: Kernel = kernel::<Vaes512, 16>("lrw-aes-vaes512");

const fn kernel<W: Aes, const PAIRS: usize>(driver: &'static str) -> Kernel {
    Kernel {
        algorithm: Algorithm::AesLrw,
        driver,
        family: W::FAMILY,
        priority: || W::PRIORITY,
        constant_time: true,
        features: W::FEATURES,
        runs_here: || W::detect().is_some(),
        set_up: set_up::<Batches<W>, PAIRS, Lrw>,
    }
}

/// AES on batches of eight registers.
#[derive(Clone, Copy)]
struct Batches<W>(W);

impl<W: Proof> Proof for Batches<W> {
    const FEATURES: &[&str] = W::FEATURES;

    fn detect() -> Option<Self> {
        W::detect().map(Self)
    }
}

struct Keys<W: Aes> {
    schedules: Schedules<W>,
    rounds: usize,
}

// SAFETY: the tokens of which kernels are made have AVX, and all but 128-bit registers AVX2; the number of blocks is asserted.
unsafe impl<W: Aes, const PAIRS: usize> Cipher<PAIRS> for Batches<W> {
    type Keys = Keys<W>;
    const NO_KEYS: Keys<W> = Keys {
        schedules: Schedules::EMPTY,
        rounds: 0,
    };

    fn expand(self, key: &[u8], keys: &mut Keys<W>) {
        keys.rounds = 6 + key.len() / 4;
        match keys.rounds {
            10 => keys.schedules.expand::<10>(self.0, key),
            12 => keys.schedules.expand::<12>(self.0, key),
            _ => keys.schedules.expand::<14>(self.0, key),
        }
    }

    /// # Safety
    /// As the trait says.
    #[inline(always)]
    unsafe fn all_rounds<const ENCRYPT: bool>(
        self,
        keys: &Keys<W>,
        at: Cursor,
        before: &Batch<PAIRS>,
        after: &Batch<PAIRS>,
    ) {
        const { assert!(2 * PAIRS == WIDTH * W::LANES) };
        let schedule = keys.schedules.of::<ENCRYPT>();
        let (before, after) = (before.as_ptr().cast(), after.as_ptr().cast());
        match keys.rounds {
            10 => self.0.run(Rounds::<W, 10, ENCRYPT> {
                schedule,
                at,
                before,
                after,
            }),
            12 => self.0.run(Rounds::<W, 12, ENCRYPT> {
                schedule,
                at,
                before,
                after,
            }),
            _ => self.0.run(Rounds::<W, 14, ENCRYPT> {
                schedule,
                at,
                before,
                after,
            }),
        }
    }
}

/// The transformation of a batch, which can be read and written `at`, and read at `before` and `after`.
struct Rounds<'a, W: Aes, const ROUNDS: usize, const ENCRYPT: bool> {
    schedule: &'a Schedule<W>,
    at: Cursor,
    before: *const u8,
    after: *const u8,
}

impl<W: Aes, const ROUNDS: usize, const ENCRYPT: bool> Operation<W>
    for Rounds<'_, W, ROUNDS, ENCRYPT>
{
    type Result = ();

    #[inline(always)]
    fn run(self, width: W) {
        let keys = opaque(self.schedule);
        let bytes = 16 * W::LANES;
        let mut data = [W::ZERO; WIDTH];
        for (index, register) in data.iter_mut().enumerate() {
            // SAFETY: a batch can be read at both, as `all_rounds` was promised.
            unsafe {
                let block = self.at.source.wrapping_add(bytes * index);
                let block = width.load::<true>(block, W::LANES);
                let mask = self.before.wrapping_add(bytes * index);
                let mask = width.load::<true>(mask, W::LANES);
                *register = width.xor3(block, mask, keys[0]);
            }
        }
        rounds::<W, ROUNDS, ENCRYPT, WIDTH>(width, keys, &mut data);
        for (index, register) in data.into_iter().enumerate() {
            // SAFETY: as above, and for the store.
            unsafe {
                let mask = self.after.wrapping_add(bytes * index);
                let mask = width.load::<true>(mask, W::LANES);
                let output = width.last_round::<ENCRYPT>(register, width.xor(keys[ROUNDS], mask));
                let to = self.at.destination.wrapping_add(bytes * index);
                width.store::<true>(to, W::LANES, output);
            }
        }
    }
}
