//! ECB (NIST SP 800-38A, 6.1).

use scrim_sys::memory::Locked;

use super::blocks::{Aes, BLOCKS, piecewise};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::SectorKernel;
use crate::kernels::iv::{Block, Ivs};
use crate::kernels::run::Run;
use crate::spec::Algorithm;
use crate::wipe;

pub(crate) const ECB: Kernel = Kernel {
    algorithm: Algorithm::AesEcb,
    driver: "ecb-aes-portable",
    family: "portable",
    priority: 100,
    constant_time: true,
    features: &[],
    runs_here: || true,
    set_up: |key| match key.len() {
        16 => Ecb::<aes::Aes128>::boxed(key),
        24 => Ecb::<aes::Aes192>::boxed(key),
        32 => Ecb::<aes::Aes256>::boxed(key),
        _ => None,
    },
};

struct Ecb<A>(Locked<A>);

impl<A: Aes> Ecb<A> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        Some(Box::new(Self(A::locked(key)?)))
    }
}

impl<A: Aes> SectorKernel for Ecb<A> {
    fn encrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        transform(run, |blocks| self.0.encrypt_all(blocks));
        wipe::stack();
    }

    fn decrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        transform(run, |blocks| self.0.decrypt_all(blocks));
        wipe::stack();
    }
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn transform(run: Run<'_>, cipher: impl Fn(&mut [Block])) {
    let units = (16 * BLOCKS / run.unit()).max(1);
    piecewise(run, units, |data| cipher(data.as_chunks_mut().0));
}
