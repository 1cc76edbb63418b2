//! The kernel's null cipher: bytes unchanged, to measure the cost of everything else.

use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::{Ivs, SectorKernel};
use crate::kernels::run::{Data, Run};
use crate::spec::Algorithm;

pub(crate) const NULL: Kernel = Kernel {
    algorithm: Algorithm::NullEcb,
    driver: "ecb-cipher_null",
    family: "null",
    priority: || 100,
    constant_time: true,
    features: &[],
    runs_here: || true,
    set_up: |key| {
        key.is_empty()
            .then(|| Box::new(Null) as Box<dyn SectorKernel>)
    },
};

struct Null;

impl SectorKernel for Null {
    fn encrypt(&self, _: Ivs<'_>, run: Run<'_>) {
        match run.into_data() {
            Data::InPlace(_) => {}
            Data::Copy {
                source,
                destination,
            } => destination.copy_from_slice(source),
            Data::Shared {
                source,
                destination,
            } => source.copy_to(destination),
        }
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        self.encrypt(ivs, run);
    }
}
