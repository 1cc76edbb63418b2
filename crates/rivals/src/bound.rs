//! The limit: as many AES rounds as the work takes, and nothing else.

use scrim_crypt::probe::aes_rounds;

use crate::rival::{Fault, Library, Missing, Turns};
use crate::work::{BLOCK, Direction, Work};

pub(crate) const BOUND: Library = Library {
    name: "bound",
    version: || {
        if aes_rounds(0) {
            Ok("this processor's AES rounds".to_owned())
        } else {
            Err(Missing("this processor has no AES instructions".to_owned()))
        }
    },
    set_up: |work| Ok(Some(Box::new(Rounds(work)))),
};

/// Turns nothing: it takes the time that the AES units need at least. The rounds of tweaks and IVs
/// are not counted.
struct Rounds(Work);

impl Turns for Rounds {
    fn turn(&mut self, _: Direction, _: u64, run: &mut [u8]) -> Result<(), Fault> {
        let blocks = run.len() / BLOCK * self.0.cipher.rounds();
        if aes_rounds(blocks) {
            Ok(())
        } else {
            Err(Fault::of("aes_rounds"))
        }
    }
}
