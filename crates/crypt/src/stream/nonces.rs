//! Nonces from record numbers.

use zeroize::Zeroizing;

use super::aead::{EXPLICIT_NONCE, NONCE};

/// IV of a key, from which its nonces are made by the rule of TLS: the number, big endian, is xored into the last 8
/// bytes (RFC 8446, 5.3, and RFC 7905, 2).
///
/// AES-GCM in TLS 1.2 sends these 8 bytes with each record and keeps the first 4, the salt, secret (RFC 5288, 3); the
/// rule for the 8 bytes is the sender's own, and this one never gives them twice either.
pub(super) struct Nonces {
    salt: Zeroizing<[u8; NONCE - EXPLICIT_NONCE]>,
    /// The other bytes of the IV as one big-endian number.
    rest: Zeroizing<u64>,
}

impl Nonces {
    pub(super) fn new(iv: &[u8; NONCE]) -> Self {
        let [s0, s1, s2, s3, rest @ ..] = *iv;
        Self {
            salt: Zeroizing::new([s0, s1, s2, s3]),
            rest: Zeroizing::new(u64::from_be_bytes(rest)),
        }
    }

    /// Nonce of the record with this number.
    #[inline]
    pub(super) fn nonce(&self, number: u64) -> [u8; NONCE] {
        self.with(self.explicit(number))
    }

    /// Last bytes of that nonce, which are not secret.
    #[inline]
    pub(super) fn explicit(&self, number: u64) -> [u8; EXPLICIT_NONCE] {
        (*self.rest ^ number).to_be_bytes()
    }

    /// Nonce that ends with bytes chosen by the sender.
    #[inline]
    pub(super) fn with(&self, explicit: [u8; EXPLICIT_NONCE]) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        let (salt, rest) = nonce.split_at_mut(NONCE - EXPLICIT_NONCE);
        salt.copy_from_slice(&*self.salt);
        rest.copy_from_slice(&explicit);
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_xored_into_the_end_of_the_iv() {
        let nonces = Nonces::new(&[0x11; 12]);
        assert_eq!(nonces.nonce(0), [0x11; 12]);
        let nonce = nonces.nonce(0x0102_0304_0506_0708);
        assert_eq!(nonce[..4], [0x11; 4]);
        assert_eq!(nonce[4..], [0x10, 0x13, 0x12, 0x15, 0x14, 0x17, 0x16, 0x19]);
    }

    #[test]
    fn the_bytes_that_are_sent_follow_the_salt() {
        let nonces = Nonces::new(&[9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        let explicit = nonces.explicit(0x0102_0304_0506_0708);
        assert_eq!(explicit, [1, 2, 3, 4, 5, 6, 7, 8]);
        let nonce = nonces.with(explicit);
        assert_eq!(nonce, [9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(nonce, nonces.nonce(0x0102_0304_0506_0708));
    }

    #[test]
    fn no_nonce_comes_twice() {
        let nonces = Nonces::new(&[0xa5; 12]);
        let mut seen = std::collections::HashSet::new();
        assert!((250..70_000).all(|number| seen.insert(nonces.nonce(number))));
    }
}
