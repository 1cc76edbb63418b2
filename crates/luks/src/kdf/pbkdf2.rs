//! PBKDF2 (RFC 8018, section 5.2).

use hmac::KeyInit;
use hmac::digest::{FixedOutput, Update};
use zeroize::Zeroize;

use super::error::{KdfError, check as check_range};
use super::guard::Watch;
use super::hash::{Hash, WithHmac};
use super::input::Input;
use super::parallel;

/// Most iterations: a hundred times what a fast CPU does in the usual two seconds.
pub(super) const MAX_ITERATIONS: u32 = 1 << 30;

/// Iterations between two looks whether to go on: some milliseconds with the slowest hash.
const BETWEEN_LOOKS: u32 = 4096;

/// Refuses counts of iterations that PBKDF2 does not have or that would not end.
pub(super) fn check(iterations: u32) -> Result<(), KdfError> {
    check_range("iterations", iterations.into(), 1, MAX_ITERATIONS.into())
}

/// Fills `out` by PBKDF2 with HMAC of `hash`. Each piece of `out` as long as a digest stands alone, so several are
/// made at once, on up to `threads` threads.
pub(super) fn derive(
    hash: Hash,
    input: Input<'_>,
    iterations: u32,
    out: &mut [u8],
    threads: usize,
    watch: &Watch<'_>,
) -> Result<(), KdfError> {
    hash.with_hmac(Derivation {
        input,
        iterations,
        out,
        threads,
        watch,
    })
}

/// A derivation whose pseudorandom function is still to be chosen.
struct Derivation<'a> {
    input: Input<'a>,
    iterations: u32,
    out: &'a mut [u8],
    threads: usize,
    watch: &'a Watch<'a>,
}

impl WithHmac for Derivation<'_> {
    type Output = Result<(), KdfError>;

    fn run<M>(self) -> Self::Output
    where
        M: KeyInit + Update + FixedOutput + Clone + Sync,
    {
        derive_with::<M>(
            self.input,
            self.iterations,
            self.out,
            self.threads,
            self.watch,
        )
    }
}

/// Fills `out` by PBKDF2 with `M` as its pseudorandom function.
fn derive_with<M>(
    input: Input<'_>,
    iterations: u32,
    out: &mut [u8],
    threads: usize,
    watch: &Watch<'_>,
) -> Result<(), KdfError>
where
    M: KeyInit + Update + FixedOutput + Clone + Sync,
{
    // HMAC takes keys of every length: the error does not happen.
    let keyed =
        <M as KeyInit>::new_from_slice(input.passphrase).map_err(|_| KdfError::OutOfRange {
            parameter: "bytes of passphrase",
            value: input.passphrase.len() as u64,
            least: 0,
            most: u32::MAX.into(),
        })?;
    let threads = threads.min(out.len().div_ceil(M::output_size()));
    let pieces = (1u32..).zip(out.chunks_mut(M::output_size()));
    parallel::for_each(pieces, threads, |(number, piece)| {
        derive_piece(&keyed, input.salt, iterations, number, piece, watch);
    });
    watch.result()
}

/// F (RFC 8018, section 5.2): the exclusive or of U₁ to U_c. Leaves `piece` as it is when it is stopped.
fn derive_piece<M>(
    keyed: &M,
    salt: &[u8],
    iterations: u32,
    number: u32,
    piece: &mut [u8],
    watch: &Watch<'_>,
) where
    M: Update + FixedOutput + Clone,
{
    let mut u = keyed
        .clone()
        .chain(salt)
        .chain(number.to_be_bytes())
        .finalize_fixed();
    let mut sum = u.clone();
    let mut stopped = false;
    for iteration in 1..iterations {
        if iteration.is_multiple_of(BETWEEN_LOOKS) && watch.stops() {
            stopped = true;
            break;
        }
        u = keyed.clone().chain(&u).finalize_fixed();
        for (sum, u) in sum.iter_mut().zip(&u) {
            *sum ^= u;
        }
    }
    if !stopped {
        piece.copy_from_slice(&sum[..piece.len()]);
    }
    u.zeroize();
    sum.zeroize();
}
