//! Argon2's compression function G (RFC 9106, section 3.5), with the widest vectors that this CPU
//! has.
//!
//! G is nearly all that Argon2 computes, on memory that fits no cache. So [`Compressor::compress`]
//! reports the first word of its result, which decides where the next call reads, before it has
//! finished: with [`prefetch`] the caller loads that block meanwhile.

use std::sync::OnceLock;

use crate::kernels::argon2 as portable;
#[cfg(target_arch = "x86_64")]
use crate::kernels::x86_64::argon2::{self as x86_64, Proof};
use crate::wipe;

pub use crate::kernels::argon2::{Block, Write};

/// One way of computing G.
#[derive(Clone, Copy)]
pub struct Compressor(Driver);

#[derive(Clone, Copy)]
enum Driver {
    #[cfg(target_arch = "x86_64")]
    Avx512(x86_64::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    Portable,
}

impl Compressor {
    /// The fastest that this CPU runs, that passed its self-test, and that `SCRIM_DISABLE` does not
    /// name; the portable one where nothing else is left.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Compressor> = OnceLock::new();
        *BEST.get_or_init(|| {
            let disabled = std::env::var_os("SCRIM_DISABLE").unwrap_or_default();
            Self::best_without(&disabled.to_string_lossy())
        })
    }

    /// All that this CPU runs, the fastest first and the portable one last.
    fn all() -> impl Iterator<Item = Self> {
        let drivers = [
            #[cfg(target_arch = "x86_64")]
            x86_64::Avx512::detect().map(Driver::Avx512),
            #[cfg(target_arch = "x86_64")]
            x86_64::Avx2::detect().map(Driver::Avx2),
            Some(Driver::Portable),
        ];
        drivers.into_iter().flatten().map(Self)
    }

    /// Its name, as `SCRIM_DISABLE` takes it: `argon2-avx2`.
    #[must_use]
    pub fn driver(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Driver::Avx512(_) => "argon2-avx512",
            #[cfg(target_arch = "x86_64")]
            Driver::Avx2(_) => "argon2-avx2",
            Driver::Portable => "argon2-portable",
        }
    }

    /// Writes G(`x`, `y`) to `into`. `early` is called once, with the first word of what `into`
    /// will hold, as soon as that is known.
    #[inline]
    pub fn compress(
        self,
        x: &Block,
        y: &Block,
        into: &mut Block,
        write: Write,
        early: impl FnOnce(u64),
    ) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Driver::Avx512(proof) => x86_64::compress_avx512(proof, x, y, into, write, early),
            #[cfg(target_arch = "x86_64")]
            Driver::Avx2(proof) => x86_64::compress_avx2(proof, x, y, into, write, early),
            Driver::Portable => portable::compress(x, y, into, write, early),
        }
    }

    fn best_without(disabled: &str) -> Self {
        Self::all()
            .filter(|compressor| !compressor.is_named_in(disabled))
            .find(|compressor| compressor.passes_self_test())
            .unwrap_or(Self(Driver::Portable))
    }

    /// Returns whether the list names this driver, its family or its CPU feature.
    fn is_named_in(self, list: &str) -> bool {
        let (family, features): (_, &[&str]) = match self.0 {
            #[cfg(target_arch = "x86_64")]
            Driver::Avx512(_) => ("avx512", x86_64::Avx512::FEATURES),
            #[cfg(target_arch = "x86_64")]
            Driver::Avx2(_) => ("avx2", x86_64::Avx2::FEATURES),
            Driver::Portable => ("portable", &[]),
        };
        let mut names = list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names.any(|name| name == self.driver() || name == family || features.contains(&name))
    }

    /// Compresses known blocks and compares with the result of another implementation.
    fn passes_self_test(self) -> bool {
        let block = |first: u64| -> Block { std::array::from_fn(|i| word(first + i as u64)) };
        let (x, y, before) = (block(0), block(128), block(256));
        let compressed = |write| {
            let mut into = before;
            let mut early = None;
            self.compress(&x, &y, &mut into, write, |word| early = Some(word));
            (early == Some(into[0])).then_some(into)
        };
        let (Some(replaced), Some(combined)) = (compressed(Write::Replace), compressed(Write::Xor))
        else {
            return false;
        };
        let digest = replaced.iter().fold(0u64, |sum, word| {
            sum.rotate_left(7).wrapping_mul(0x0100_0000_01b3) ^ word
        });
        let xor = before.iter().zip(&replaced).map(|(a, b)| a ^ b);
        digest == SELF_TEST && combined.into_iter().eq(xor)
    }
}

/// The digest, as [`Compressor::passes_self_test`] computes it, of G of its blocks, by an
/// implementation of section 3.5 in Python.
const SELF_TEST: u64 = 0x73f2_0aaf_370d_162e;

/// The words of the self-test's blocks: splitmix64.
fn word(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Starts to load a block into the cache, and does not wait for it. It may be called for any block, and
/// affects only the time of later accesses.
#[inline]
pub fn prefetch(block: &Block) {
    #[cfg(target_arch = "x86_64")]
    x86_64::prefetch(block);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
}

/// Overwrites values that [`Compressor::compress`] left on the stack of this thread. Call it when a
/// derivation is done: its result is made of the last block of each lane, so those blocks reveal it.
pub fn wipe_stack() {
    wipe::stack();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_passes_its_self_test() {
        for compressor in Compressor::all() {
            assert!(compressor.passes_self_test(), "{}", compressor.driver());
        }
    }

    #[test]
    fn every_driver_agrees_with_the_portable_one() {
        let portable = Compressor(Driver::Portable);
        let mut words = (0..).map(word);
        let mut block = || -> Block { std::array::from_fn(|_| words.next().unwrap()) };
        for round in 0..200 {
            let (x, y, before) = (block(), block(), block());
            let write = [Write::Replace, Write::Xor][round % 2];
            let mut expected = before;
            portable.compress(&x, &y, &mut expected, write, |_| ());
            for compressor in Compressor::all() {
                let mut into = before;
                let mut first = None;
                compressor.compress(&x, &y, &mut into, write, |word| first = Some(word));
                assert_eq!(into, expected, "{}", compressor.driver());
                assert_eq!(first, Some(expected[0]), "{}", compressor.driver());
                prefetch(&into);
            }
        }
    }

    #[test]
    fn what_is_disabled_is_not_taken() {
        let best = |disabled: &str| Compressor::best_without(disabled).driver();
        assert_eq!(
            Some(best("")),
            Compressor::all().next().map(Compressor::driver)
        );
        assert_ne!(best("argon2-avx512"), "argon2-avx512");
        assert_ne!(best("xts-aes-aesni, avx512f"), "argon2-avx512");
        assert_eq!(best("avx512,avx2"), "argon2-portable");
        assert_eq!(best("avx512,avx2,portable"), "argon2-portable");
    }
}
