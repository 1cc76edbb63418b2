//! CTR (NIST SP 800-38A, 6.5), counting in 128 bits from the IV, big endian.

use scrim_sys::memory::Locked;

use super::blocks::{Aes, BLOCKS, piecewise, xor};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Ivs, OneByOne};
use crate::kernels::run::Run;
use crate::spec::Algorithm;
use crate::wipe;

pub(crate) const CTR: Kernel = Kernel {
    algorithm: Algorithm::AesCtr,
    driver: "ctr-aes-portable",
    family: "portable",
    priority: 100,
    constant_time: true,
    features: &[],
    runs_here: || true,
    set_up: |key| match key.len() {
        16 => Ctr::<aes::Aes128>::boxed(key),
        24 => Ctr::<aes::Aes192>::boxed(key),
        32 => Ctr::<aes::Aes256>::boxed(key),
        _ => None,
    },
};

struct Ctr<A>(Locked<A>);

impl<A: Aes> Ctr<A> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        Some(Box::new(Self(A::locked(key)?)))
    }
}

impl<A: Aes> SectorKernel for Ctr<A> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform(&*self.0, ivs, run);
        wipe::stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        self.encrypt(ivs, run);
    }
}

/// Runs in a stack frame of its own, which the caller wipes: it holds the key stream.
#[inline(never)]
fn transform(cipher: &impl Aes, mut ivs: Ivs<'_>, run: Run<'_>) {
    let unit = run.unit();
    let mut ivs = OneByOne::new(&mut ivs, run.units());
    let mut stream = [[0; 16]; BLOCKS];
    piecewise(run, 1, |data| {
        let stream = &mut stream[..unit / 16];
        let mut counter = ivs.next().swap_bytes();
        for block in &mut *stream {
            *block = counter.to_be_bytes();
            counter = counter.wrapping_add(1);
        }
        cipher.encrypt_all(stream);
        xor(data.as_chunks_mut().0, stream);
    });
}
