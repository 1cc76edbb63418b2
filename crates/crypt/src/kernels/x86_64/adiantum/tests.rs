//! Wide kernels on the vectors of the authors, and beside the portable kernel.

use chacha20::{XChaCha12, XChaCha20};

use super::super::cpu::{Avx2, Avx2Avx512};
use super::Wide;
use crate::kernels::adiantum::tests::check_vectors;

#[test]
fn vectors_of_the_authors() {
    check_vectors::<Wide<Avx2, XChaCha12>>();
    check_vectors::<Wide<Avx2, XChaCha20>>();
    check_vectors::<Wide<Avx2Avx512, XChaCha12>>();
    check_vectors::<Wide<Avx2Avx512, XChaCha20>>();
}
