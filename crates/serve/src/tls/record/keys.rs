//! The key of one direction, and the count that makes its nonces.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use rustls::ConnectionTrafficSecrets;
use zeroize::Zeroizing;

use super::{EXPLICIT_NONCE, HEADER, PAYLOAD_MAX, TAG};

/// Records that AES-GCM may seal with one key: an attacker's chance to tell them from noise then is
/// below 2^-60 (draft-irtf-cfrg-aead-limits, full records). rustls has the same limit.
pub(in crate::tls) const GCM_RECORDS: u64 = 1 << 24;

/// The bytes that a record has around its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// TLS 1.3: the kind is behind the payload, encrypted.
    Tls13,
    /// TLS 1.2 with AES-GCM: 8 bytes of the nonce before the payload.
    Tls12Gcm,
    /// TLS 1.2 with ChaCha20-Poly1305.
    Tls12ChaCha,
}

impl Form {
    /// Bytes before the payload, header included.
    pub(super) fn before(self) -> usize {
        match self {
            Self::Tls13 | Self::Tls12ChaCha => HEADER,
            Self::Tls12Gcm => HEADER + EXPLICIT_NONCE,
        }
    }

    /// Bytes after the payload.
    pub(super) fn after(self) -> usize {
        match self {
            Self::Tls13 => 1 + TAG,
            Self::Tls12Gcm | Self::Tls12ChaCha => TAG,
        }
    }

    /// Least and most bytes behind a header that can be a record of this form.
    pub(super) fn fragment(self) -> (usize, usize) {
        match self {
            // Padding, which the kind belongs to here, may take up to 256 bytes with the tag. One without a kind is
            // refused for that, and not for its length.
            Self::Tls13 => (TAG, super::FRAGMENT_MAX),
            Self::Tls12Gcm => (EXPLICIT_NONCE + TAG, EXPLICIT_NONCE + PAYLOAD_MAX + TAG),
            Self::Tls12ChaCha => (TAG, PAYLOAD_MAX + TAG),
        }
    }
}

/// One direction's key as the handshake, or a key update, leaves it: it becomes a sealer or an opener, once, or is
/// given to the kernel.
pub struct Direction {
    /// Records that were sealed with it already.
    pub sequence: u64,
    /// Key and IV.
    pub secrets: ConnectionTrafficSecrets,
    /// True if it is TLS 1.3, or else 1.2.
    pub tls13: bool,
}

/// A key that is ready, with its IV and its count.
pub(super) struct Key {
    pub(super) cipher: LessSafeKey,
    pub(super) form: Form,
    /// Most records to be sealed with it.
    pub(super) records_max: u64,
    iv: Zeroizing<[u8; NONCE_LEN]>,
    sequence: Sequence,
}

impl Key {
    /// The key of a direction; `None` for a suite that is not one of TLS, or for a key whose length is not the suite's.
    pub(super) fn new(direction: Direction) -> Option<Self> {
        let Direction {
            sequence,
            secrets,
            tls13,
        } = direction;
        let (key, iv, algorithm, gcm): (_, _, &'static Algorithm, _) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (key, iv, &AES_128_GCM, true),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (key, iv, &AES_256_GCM, true),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (key, iv, &CHACHA20_POLY1305, false)
            }
            _ => return None,
        };
        let form = match (tls13, gcm) {
            (true, _) => Form::Tls13,
            (false, true) => Form::Tls12Gcm,
            (false, false) => Form::Tls12ChaCha,
        };
        let iv = iv.as_ref().try_into().ok()?;
        let mut new = Self::from_bytes(algorithm, key.as_ref(), iv, form)?;
        new.sequence = Sequence(sequence);
        Some(new)
    }

    /// A key that was not used before.
    pub(super) fn from_bytes(
        algorithm: &'static Algorithm,
        key: &[u8],
        iv: [u8; NONCE_LEN],
        form: Form,
    ) -> Option<Self> {
        let without_limit = std::ptr::eq(algorithm, &CHACHA20_POLY1305);
        Some(Self {
            cipher: LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?),
            form,
            records_max: if without_limit { u64::MAX } else { GCM_RECORDS },
            iv: Zeroizing::new(iv),
            sequence: Sequence(0),
        })
    }

    /// Number of records so far.
    pub(super) fn count(&self) -> u64 {
        self.sequence.0
    }

    /// Takes the next record's number and its nonce, which are spent then.
    pub(super) fn next(&mut self) -> Option<(u64, Nonce)> {
        let number = self.sequence.take()?;
        Some((number, self.nonce(number)))
    }

    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = *self.iv;
        for (byte, count) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= count;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// The number of the next record. It only grows, and nothing else makes nonces.
struct Sequence(u64);

impl Sequence {
    fn take(&mut self) -> Option<u64> {
        let number = self.0;
        // The last number is never given out, so that the count cannot start anew.
        self.0 = number.checked_add(1)?;
        Some(number)
    }
}

/// The data that is authenticated beside the payload in TLS 1.2: number, kind, version, payload length.
pub(super) fn tls12_data(number: u64, kind: u8, len: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&number.to_be_bytes());
    data[8] = kind;
    data[9..11].copy_from_slice(&super::VERSION);
    data[11..].copy_from_slice(&wire_len(len));
    data
}

/// A length as records have it. Longer ones than a record's were refused before.
pub(super) fn wire_len(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_and_do_not_start_anew() {
        let mut sequence = Sequence(u64::MAX - 2);
        assert_eq!(sequence.take(), Some(u64::MAX - 2));
        assert_eq!(sequence.take(), Some(u64::MAX - 1));
        assert_eq!(sequence.take(), None);
        assert_eq!(sequence.take(), None);
    }

    #[test]
    fn no_nonce_comes_twice() {
        let secrets = ConnectionTrafficSecrets::Aes256Gcm {
            key: [7; 32].into(),
            iv: [0xA5; 12].into(),
        };
        let mut key = Key::new(Direction {
            sequence: 250,
            secrets,
            tls13: true,
        })
        .unwrap();
        let mut seen = std::collections::HashSet::new();
        for expected in 250..70_000 {
            let (number, nonce) = key.next().unwrap();
            assert_eq!(number, expected);
            assert!(seen.insert(*nonce.as_ref()));
        }
    }
}
