//! The limit: as many AES rounds as the work takes, and nothing else.

use scrim_crypt::probe;

use crate::restriction::Restriction;
use crate::rival::{Fault, Library, Missing, Turns};
use crate::work::{BLOCK, Direction};

pub(crate) const BOUND: Library = Library {
    name: "bound",
    version: || {
        if aes_rounds(0) {
            Ok("this processor's AES rounds".to_owned())
        } else {
            Err(Missing("this processor has no AES instructions".to_owned()))
        }
    },
    set_up: |work| {
        Ok(work
            .cipher
            .rounds()
            .map(|rounds| Box::new(Rounds(rounds)) as Box<dyn Turns>))
    },
};

/// AES rounds for each block. Turns nothing: it takes the time that the AES units need at least. The rounds of tweaks
/// and IVs are not counted.
struct Rounds(usize);

impl Turns for Rounds {
    fn turn(&mut self, _: Direction, _: u64, run: &mut [u8]) -> Result<(), Fault> {
        let blocks = run.len() / BLOCK * self.0;
        if aes_rounds(blocks) {
            Ok(())
        } else {
            Err(Fault::of("aes_rounds"))
        }
    }
}

/// AES rounds by the widest registers that libraries may use here.
fn aes_rounds(blocks: usize) -> bool {
    match Restriction::current() {
        Restriction::None => probe::aes_rounds(blocks),
        Restriction::Avx2 => probe::aes_rounds_by("vaes2", blocks),
        Restriction::Aesni => probe::aes_rounds_by("aesni", blocks),
    }
}
