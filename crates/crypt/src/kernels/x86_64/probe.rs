//! Loops of nothing but AES rounds.

use core::hint::black_box;

use super::aes::{Aes, WIDTH, some_rounds};
use super::cpu::{AesNi, Vaes2, Vaes512};
use super::wide::{Operation, Wide};

/// Implements [`aes_rounds`](crate::probe::aes_rounds) with the widest registers.
pub(crate) fn aes_rounds(blocks: usize) -> bool {
    [Vaes512::FAMILY, Vaes2::FAMILY, AesNi::FAMILY]
        .into_iter()
        .any(|family| aes_rounds_by(family, blocks))
}

/// Implements [`aes_rounds_by`](crate::probe::aes_rounds_by), with the registers of a family.
pub(crate) fn aes_rounds_by(family: &str, blocks: usize) -> bool {
    match family {
        Vaes512::FAMILY => run::<Vaes512>(blocks),
        Vaes2::FAMILY => run::<Vaes2>(blocks),
        AesNi::FAMILY => run::<AesNi>(blocks),
        _ => false,
    }
}

fn run<W: Aes>(blocks: usize) -> bool {
    let turns = blocks / (W::LANES * WIDTH);
    W::detect()
        .map(|width| width.run(Rounds { turns }))
        .is_some()
}

/// A round for each of the blocks in flight, `turns` times.
struct Rounds {
    turns: usize,
}

impl<W: Aes> Operation<W> for Rounds {
    type Result = ();

    #[inline(always)]
    fn run(self, width: W) {
        let key = width.in_every_lane(black_box(7));
        let mut data = [key; WIDTH];
        for _ in 0..self.turns {
            some_rounds::<W, true, WIDTH>(width, &[key], &mut data);
        }
        black_box(data);
    }
}
