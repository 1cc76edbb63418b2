//! Cipher suites of rustls whose records are sealed and opened by [`scrim_crypt::stream`]: AES-GCM in TLS 1.3
//! (RFC 8446, 5.2) and in TLS 1.2 (RFC 5288). Everything else of a suite, its hash and how keys are made, is AWS-LC's.

use std::sync::LazyLock;

use rustls::crypto::aws_lc_rs::cipher_suite as awslc;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, Tls13AeadAlgorithm, UnsupportedOperationError, make_tls12_aad,
    make_tls13_aad,
};
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite,
};
use scrim_crypt::stream::{
    Aead, EXPLICIT_NONCE, NONCE, Opener, Sealer, StreamError, TAG, code_for,
};

use super::wire::PLAINTEXT_MAX;

/// Bytes of a nonce that come from the handshake and are not sent (RFC 5288, 3).
const SALT: usize = NONCE - EXPLICIT_NONCE;

/// Records at the end of a key that are left for the message that changes the key, and for alerts: rustls compares the
/// number of a record with the limit before it seals data, and seals such a message with the number that it found.
const RESERVED: u64 = 16;

/// AES-GCM with one size of keys, for both versions of TLS.
struct Gcm(Aead);

static AES_128: Gcm = Gcm(Aead::Aes128Gcm);
static AES_256: Gcm = Gcm(Aead::Aes256Gcm);

static TLS13: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    let suites = [
        (&awslc::TLS13_AES_128_GCM_SHA256, &AES_128),
        (&awslc::TLS13_AES_256_GCM_SHA384, &AES_256),
    ];
    let ours = suites.into_iter().filter_map(|(suite, gcm)| {
        let theirs = suite.tls13().filter(|_| gcm.has_code())?;
        Some(Tls13CipherSuite {
            common: gcm.common(&theirs.common),
            hkdf_provider: theirs.hkdf_provider,
            aead_alg: gcm,
            quic: None,
        })
    });
    ours.collect()
});

static TLS12: LazyLock<Vec<Tls12CipherSuite>> = LazyLock::new(|| {
    let suites = [
        (&awslc::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, &AES_128),
        (&awslc::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, &AES_128),
        (&awslc::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, &AES_256),
        (&awslc::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, &AES_256),
    ];
    let ours = suites.into_iter().filter_map(|(suite, gcm)| {
        let SupportedCipherSuite::Tls12(theirs) = suite else {
            return None;
        };
        gcm.has_code().then_some(())?;
        Some(Tls12CipherSuite {
            common: gcm.common(&theirs.common),
            prf_provider: theirs.prf_provider,
            kx: theirs.kx,
            sign: theirs.sign,
            aead_alg: gcm,
        })
    });
    ours.collect()
});

/// The suites of AES-GCM for TLS 1.3 for which this process has code, in the order of preference.
pub(super) fn tls13() -> impl Iterator<Item = SupportedCipherSuite> {
    TLS13.iter().map(SupportedCipherSuite::Tls13)
}

/// The suites of AES-GCM for TLS 1.2 for which this process has code, in the order of preference; all have forward
/// secrecy.
pub(super) fn tls12() -> impl Iterator<Item = SupportedCipherSuite> {
    TLS12.iter().map(SupportedCipherSuite::Tls12)
}

impl Gcm {
    /// Returns whether this process may use any code for it: rustls panics where a record cannot be sealed, so such a
    /// suite must not be agreed upon.
    fn has_code(&self) -> bool {
        code_for(self.0).is_some()
    }

    fn common(&self, theirs: &CipherSuiteCommon) -> CipherSuiteCommon {
        CipherSuiteCommon {
            suite: theirs.suite,
            hash_provider: theirs.hash_provider,
            confidentiality_limit: self.0.records_max() - RESERVED,
        }
    }

    fn secrets(&self, key: AeadKey, iv: Iv) -> ConnectionTrafficSecrets {
        match self.0.key_size() {
            16 => ConnectionTrafficSecrets::Aes128Gcm { key, iv },
            _ => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
        }
    }

    fn sealer(&self, key: &AeadKey, iv: Option<&[u8; NONCE]>) -> Sealing {
        let sealer = iv.map(|iv| Sealer::new(self.0, key.as_ref(), iv, 0));
        Sealing(sealer.and_then(Result::ok))
    }

    fn opener(&self, key: &AeadKey, iv: Option<&[u8; NONCE]>) -> Opening {
        let opener = iv.map(|iv| Opener::new(self.0, key.as_ref(), iv, 0));
        Opening(opener.and_then(Result::ok))
    }
}

impl Tls13AeadAlgorithm for Gcm {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Tls13Sealer(self.sealer(&key, iv.as_ref().try_into().ok())))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Tls13Opener(self.opener(&key, iv.as_ref().try_into().ok())))
    }

    fn key_len(&self) -> usize {
        self.0.key_size()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(self.secrets(key, iv))
    }
}

impl Tls12AeadAlgorithm for Gcm {
    fn encrypter(&self, key: AeadKey, iv: &[u8], extra: &[u8]) -> Box<dyn MessageEncrypter> {
        Box::new(Tls12Sealer(self.sealer(&key, joined(iv, extra).as_ref())))
    }

    fn decrypter(&self, key: AeadKey, iv: &[u8]) -> Box<dyn MessageDecrypter> {
        // The sender chooses the rest of each nonce.
        let iv = joined(iv, &[0; EXPLICIT_NONCE]);
        Box::new(Tls12Opener(self.opener(&key, iv.as_ref())))
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        KeyBlockShape {
            enc_key_len: self.0.key_size(),
            fixed_iv_len: SALT,
            explicit_nonce_len: EXPLICIT_NONCE,
        }
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        let iv = joined(iv, explicit).ok_or(UnsupportedOperationError)?;
        Ok(self.secrets(key, Iv::new(iv)))
    }
}

/// The nonce of record 0; `None` for parts of other lengths than [`Gcm::key_block_shape`] names.
fn joined(salt: &[u8], explicit: &[u8]) -> Option<[u8; NONCE]> {
    let (salt, explicit): ([u8; SALT], [u8; EXPLICIT_NONCE]) =
        (salt.try_into().ok()?, explicit.try_into().ok()?);
    let mut iv = [0; NONCE];
    iv[..SALT].copy_from_slice(&salt);
    iv[SALT..].copy_from_slice(&explicit);
    Some(iv)
}

/// Sealer of one direction; `None` if its key could not be set up, for which [`Gcm::has_code`] leaves no reason.
struct Sealing(Option<Sealer>);

impl Sealing {
    /// Returns the sealer, which has to be at the record that rustls names.
    fn at(&mut self, number: u64) -> Result<&mut Sealer, Error> {
        let sealer = self.0.as_mut().filter(|sealer| sealer.number() == number);
        sealer.ok_or(Error::EncryptError)
    }
}

/// Opener of one direction; `None` if its key could not be set up, so that every record is refused.
struct Opening(Option<Opener>);

impl Opening {
    /// Returns the opener, which has to be at the record that rustls names.
    fn at(&mut self, number: u64) -> Result<&mut Opener, Error> {
        let opener = self.0.as_mut().filter(|opener| opener.number() == number);
        opener.ok_or(Error::DecryptError)
    }
}

struct Tls13Sealer(Sealing);

impl MessageEncrypter for Tls13Sealer {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let len = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(len);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&[message.typ.into()]);
        let (additional, mut tag) = (make_tls13_aad(len), [0; TAG]);
        let sealer = self.0.at(number)?;
        let sealed = sealer.seal_in_place(&additional, payload.as_mut(), &mut tag);
        sealed.map_err(cannot_seal)?;
        payload.extend_from_slice(&tag);
        // Each record says that it is data of TLS 1.2 (RFC 8446, 5.2).
        let (kind, version) = (ContentType::ApplicationData, ProtocolVersion::TLSv1_2);
        Ok(OutboundOpaqueMessage::new(kind, version, payload))
    }

    fn encrypted_payload_len(&self, len: usize) -> usize {
        len + 1 + TAG
    }
}

struct Tls13Opener(Opening);

impl MessageDecrypter for Tls13Opener {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let opener = self.0.at(number)?;
        let additional = make_tls13_aad(message.payload.len());
        let parts = message.payload.split_last_chunk_mut::<TAG>();
        let (content, tag) = parts.ok_or(Error::DecryptError)?;
        let len = content.len();
        let opened = opener.open_in_place(&additional, content, tag);
        opened.map_err(cannot_open)?;
        message.payload.truncate(len);
        message.into_tls13_unpadded_message()
    }
}

struct Tls12Sealer(Sealing);

impl MessageEncrypter for Tls12Sealer {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let (kind, version, len) = (message.typ, message.version, message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(self.encrypted_payload_len(len));
        let sealer = self.0.at(number)?;
        payload.extend_from_slice(&sealer.explicit_nonce());
        payload.extend_from_chunks(&message.payload);
        let additional = make_tls12_aad(number, kind, version, len);
        let mut tag = [0; TAG];
        let content = &mut payload.as_mut()[EXPLICIT_NONCE..];
        let sealed = sealer.seal_in_place(&additional, content, &mut tag);
        sealed.map_err(cannot_seal)?;
        payload.extend_from_slice(&tag);
        Ok(OutboundOpaqueMessage::new(kind, version, payload))
    }

    fn encrypted_payload_len(&self, len: usize) -> usize {
        EXPLICIT_NONCE + len + TAG
    }
}

struct Tls12Opener(Opening);

impl MessageDecrypter for Tls12Opener {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let opener = self.0.at(number)?;
        let (kind, version) = (message.typ, message.version);
        let parts = message.payload.split_first_chunk_mut();
        let (explicit, rest) = parts.ok_or(Error::DecryptError)?;
        let parts = rest.split_last_chunk_mut::<TAG>();
        let (content, tag) = parts.ok_or(Error::DecryptError)?;
        let len = content.len();
        if len > PLAINTEXT_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        let additional = make_tls12_aad(number, kind, version, len);
        let opened = opener.open_in_place_with(*explicit, &additional, content, tag);
        opened.map_err(cannot_open)?;
        Ok(message.into_plain_message_range(EXPLICIT_NONCE..EXPLICIT_NONCE + len))
    }
}

/// One error for all reasons, since rustls has no others.
fn cannot_seal(_: StreamError) -> Error {
    Error::EncryptError
}

fn cannot_open(_: StreamError) -> Error {
    Error::DecryptError
}
