//! Check that a library does the same work as the others; only then is it timed.

use crate::measure::fill;
use crate::rival::{Fault, Turns};
use crate::work::{Direction, Work};

/// A known run and its expected ciphertext.
pub(crate) struct Expected {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    work: Work,
}

impl Expected {
    pub(crate) fn of(
        mut reference: Box<dyn Turns>,
        work: Work,
        bytes: usize,
    ) -> Result<Self, Fault> {
        let mut plain = vec![0; work.run(bytes)];
        fill(&mut plain);
        let mut sealed = plain.clone();
        reference.turn(Direction::Encrypt, work.first(), &mut sealed)?;
        Ok(Self {
            plain,
            sealed,
            work,
        })
    }

    pub(crate) fn check(&self, turns: &mut dyn Turns) -> Result<(), Fault> {
        let first = self.work.first();
        let mut run = self.plain.clone();
        turns.turn(Direction::Encrypt, first, &mut run)?;
        if run != self.sealed {
            return Err(Fault::Differs(Direction::Encrypt));
        }
        turns.turn(Direction::Decrypt, first, &mut run)?;
        let Work { unit, .. } = self.work;
        let mut units = run.chunks(unit).zip(self.plain.chunks(unit));
        let payload = ..self.work.payload();
        if !units.all(|(opened, plain)| opened[payload] == plain[payload]) {
            return Err(Fault::Differs(Direction::Decrypt));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::rustcrypto::RUSTCRYPTO;
    use crate::work::Cipher;

    /// SHA-256 of 64 KiB as Python's `cryptography` turns them.
    const KNOWN: [(Cipher, usize, &str); 9] = [
        (
            Cipher::Aes256Xts,
            512,
            "c32e21b9df0fcea656702bf3379fde32a523735a13b8f8904f46f8a02df09c43",
        ),
        (
            Cipher::Aes256Xts,
            4096,
            "b23f0b1e8a7bbad0efd328d6b327b44129e219aa92479ed9ec514ce80aedea8a",
        ),
        (
            Cipher::Aes128Xts,
            4096,
            "9d8253e4585ab68369d8121ec3395a951a083e17c207e5509b4ddf3e813e072e",
        ),
        (
            Cipher::Aes256CbcEssiv,
            512,
            "139d6c7bcedeeae45b59fcbe4ea924b0173127c52146cab68276396d1be7ed11",
        ),
        (
            Cipher::Aes256CbcEssiv,
            4096,
            "78f85dc3356549f0d7a64357a784ca4b0c7ae1f7ac8a4c93e3c07d675325d6d3",
        ),
        (
            Cipher::Aes128Cbc,
            4096,
            "1d601794e08cff9da00c08751859fed64bf19c875990210924a00eace13df3d1",
        ),
        (
            Cipher::Aes128Ctr,
            4096,
            "8c555c391e1ba4fbbe529151f47d88a488eb12326a719db4039d4ef542b6a39a",
        ),
        (
            Cipher::Aes128Ecb,
            4096,
            "f223e4407efc150ad49d8731eca1cb39fd4bbd6cfba747cd089866f225e91d9e",
        ),
        (
            Cipher::Aes128Gcm,
            16384,
            "ffb9eb67a35cafb0c233c17fa307f5f46ff952bc446b81effa6de41a5fc494fd",
        ),
    ];

    #[test]
    fn what_is_expected_is_what_another_implementation_gives() {
        for (cipher, bytes, digest) in KNOWN {
            let work = Work::new(cipher, bytes);
            let reference = (RUSTCRYPTO.set_up)(work).unwrap().unwrap();
            let expected = Expected::of(reference, work, 64 << 10).unwrap();
            let given: String = Sha256::digest(&expected.sealed)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(given, digest, "{cipher:?}, {bytes}");
        }
    }

    /// A library that changes nothing.
    struct Idle;

    impl Turns for Idle {
        fn turn(&mut self, _: Direction, _: u64, _: &mut [u8]) -> Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn who_does_nothing_is_found_out() {
        let work = Work::new(Cipher::Aes256Xts, 512);
        let reference = (RUSTCRYPTO.set_up)(work).unwrap().unwrap();
        let expected = Expected::of(reference, work, 4096).unwrap();
        let fault = expected.check(&mut Idle);
        assert_eq!(fault, Err(Fault::Differs(Direction::Encrypt)));
    }
}
