//! The cost of a cipher alone, for the bound of a path that first moves data and then encrypts it: processor time of the
//! plain path and of the cipher, one after the other.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use scrim_crypt::{CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};

use crate::error::Error;

/// Bytes of a request.
const REQUEST: usize = 1 << 20;

/// Requests of one measurement.
const REQUESTS: u32 = 64;

/// The cipher of the volumes that `rivals nbd` serves, with memory for one request. The key is of no importance.
pub(super) struct CipherAlone {
    cipher: SectorCipher,
    source: Vec<u8>,
    target: Vec<u8>,
}

impl CipherAlone {
    pub(super) fn new() -> Result<Self, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::program("cipher", error.to_string());
        let spec: CipherSpec = "aes-xts-plain64".parse().map_err(|e| failed(&e))?;
        let key: [u8; 64] = std::array::from_fn(|at| at.to_le_bytes()[0]);
        let geometry = Geometry::new(SectorSize::S512);
        let cipher = SectorCipher::new(&spec, &key, geometry).map_err(|e| failed(&e))?;
        Ok(Self {
            cipher,
            source: vec![1; REQUEST],
            target: vec![2; REQUEST],
        })
    }

    /// Processor seconds per GB, from one buffer to another, as a volume does it.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn cost(&mut self, encrypts: bool) -> f64 {
        let before = thread_time();
        for request in 0..REQUESTS {
            let first = IvSector(u64::from(request) * (REQUEST as u64 / 512));
            let (source, target) = (&self.source[..], &mut self.target[..]);
            match encrypts {
                true => self.cipher.encrypt(first, source, target),
                false => self.cipher.decrypt(first, source, target),
            }
            black_box(&mut self.target);
        }
        let used = thread_time().saturating_sub(before);
        used.as_secs_f64() / (f64::from(REQUESTS) * REQUEST as f64 / 1e9)
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
