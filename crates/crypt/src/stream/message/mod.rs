//! Messages with one tag.
//!
//! AWS-LC opens a message in one call, so that it would have to be in memory whole. Here the tag is
//! computed in a first pass over the ciphertext, and the plaintext in a second, by the libraries'
//! GHASH, Poly1305 and ChaCha20, which take a message in parts, and by Scrim's own AES in counter
//! mode.
//!
//! Between the passes, anything that can write to the input could change it. So the first pass notes the
//! authenticator's state after each *window* of the message, and the second, which reads a window
//! into memory of its own once, decrypts it only when the state after it is the same: without the
//! authenticator's key nobody finds other bytes that lead there, by the argument that keeps tags
//! from being forged. Windows grow with the square root of the message, as then their number does,
//! so that a window and all states together take little memory: 32 KiB for 16 MiB and less, 256 KiB
//! for 1 GiB, 2 MiB for AES-GCM's longest.

mod chacha;
mod gcm;

use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use scrim_sys::memory::{DataBuffer, SecretBytes};

use self::chacha::ChaChaKey;
use self::gcm::GcmKey;
use super::{Aead, Limits, MessageError, NONCE, StreamError, TAG};
use crate::wipe;

/// A sealed message without its ciphertext.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The nonce it was sealed with.
    pub nonce: [u8; NONCE],
    /// The additional data it was sealed with.
    pub additional: &'a [u8],
    /// Length of the ciphertext, without the tag, in bytes.
    pub bytes: u64,
    /// Its tag.
    pub tag: [u8; TAG],
}

/// A key that opens messages of any length with little memory. Shared freely between threads.
///
/// It has no `Debug` and no `Clone`; its expanded keys live in locked memory and are wiped when it
/// is dropped.
pub struct MessageKey {
    aead: Aead,
    key: Expanded,
    most: u64,
    forgeries: AtomicU64,
    most_forgeries: u64,
}

enum Expanded {
    Gcm(GcmKey),
    ChaCha(ChaChaKey),
}

impl MessageKey {
    /// Sets up `key`, of which the caller keeps and wipes the original.
    ///
    /// # Errors
    /// [`StreamError::KeySize`]; [`StreamError::NoDriver`] for AES when all drivers of `ctr(aes)`
    /// are disabled.
    pub fn new(aead: Aead, key: &[u8]) -> Result<Self, StreamError> {
        let bytes = key.len();
        let wrong_size = StreamError::KeySize { aead, bytes };
        if bytes != aead.key_size() {
            return Err(wrong_size);
        }
        let expanded = match aead {
            Aead::Aes128Gcm | Aead::Aes256Gcm => GcmKey::new(key)
                .map(Expanded::Gcm)
                .ok_or(StreamError::NoDriver),
            Aead::ChaCha20Poly1305 => key
                .try_into()
                .map(|key| Expanded::ChaCha(ChaChaKey::new(key)))
                .map_err(|_| wrong_size),
        };
        wipe::stack();
        Ok(Self {
            aead,
            key: expanded?,
            most: aead.message_max(),
            forgeries: AtomicU64::new(0),
            most_forgeries: Limits::of(aead).forgeries,
        })
    }

    /// Lowers the limit for the length of a message, in bytes; a higher limit changes nothing.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.most = self.most.min(bytes);
        self
    }

    /// Lowers the limit for the messages that may fail to open; a higher limit changes nothing.
    #[must_use]
    pub fn with_forgeries(mut self, most: u64) -> Self {
        self.most_forgeries = self.most_forgeries.min(most);
        self
    }

    /// Verifies a message and then decrypts it.
    ///
    /// `read` fills a buffer with the ciphertext from a byte offset on; it is asked for each part
    /// twice, in order, but for a short message once. `emit` gets the plaintext in order, in parts of
    /// at most 16 KiB, and all of it when this returns `Ok`.
    ///
    /// Every byte that `emit` gets belongs to the message that the tag is for, whatever `read` gives
    /// the second time. What has been emitted when this returns an error is the start of that
    /// message, and without its rest worth what the caller's format makes it worth.
    ///
    /// # Errors
    /// [`MessageError::TooLong`] and [`MessageError::TooManyForgeries`], before anything is read;
    /// [`MessageError::Forged`], before anything is emitted; [`MessageError::Changed`];
    /// [`MessageError::NoMemory`]; [`MessageError::Caller`] with the error of `read` or `emit`.
    pub fn open<E>(
        &self,
        message: &Message<'_>,
        read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
        emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), MessageError<E>> {
        let Message { nonce, bytes, .. } = *message;
        if bytes > self.most {
            let most = self.most;
            return Err(MessageError::TooLong { bytes, most });
        }
        let forgeries = self.most_forgeries;
        if self.forgeries.load(Ordering::Relaxed) >= forgeries {
            return Err(MessageError::TooManyForgeries { forgeries });
        }
        let opened = match &self.key {
            Expanded::Gcm(key) => open(&mut key.session(nonce), message, read, emit),
            Expanded::ChaCha(key) => open(&mut key.session(nonce), message, read, emit),
        };
        wipe::stack();
        if let Err(MessageError::Forged | MessageError::Changed { .. }) = opened {
            self.forgeries.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }

    /// The AEAD that it computes.
    #[must_use]
    pub fn aead(&self) -> Aead {
        self.aead
    }
}

/// Opening of one message: an authenticator and a key stream. The caller wipes what its functions leave
/// behind on the stack.
trait Session {
    /// Starts over.
    fn restart(&mut self);

    /// Takes in more of the message, padded with zeros to whole blocks.
    fn absorb(&mut self, bytes: &[u8]);

    /// State of the authenticator after all that it took in: a secret.
    fn state(&self) -> [u8; TAG];

    /// The tag, after `additional` bytes of additional data and `message` bytes of message were taken in.
    fn tag(&mut self, additional: u64, message: u64) -> [u8; TAG];

    /// Decrypts what lies `at` bytes into the message, a multiple of [`PART`]; the length is one of
    /// 16.
    fn decrypt(&mut self, at: u64, bytes: &mut [u8]);
}

/// The most that is emitted at once, in bytes.
const PART: usize = 16 << 10;

/// Division of a message into windows.
#[derive(Clone, Copy)]
struct Windows {
    bytes: u64,
    /// Length of each but the last, in bytes: a multiple of [`PART`].
    window: usize,
}

impl Windows {
    /// For each window a state of [`TAG`] bytes is kept: with a window of √(16 · bytes) the states
    /// take as much memory as the window.
    fn of(bytes: u64) -> Self {
        let balanced = usize::try_from(4 * bytes.isqrt()).unwrap_or(usize::MAX / 2);
        Self {
            bytes,
            window: balanced.max(1).next_multiple_of(PART),
        }
    }

    /// Start and length of each window, both in bytes.
    fn each(self) -> impl ExactSizeIterator<Item = (u64, usize)> {
        let window = self.window as u64;
        let count = usize::try_from(self.bytes.div_ceil(window)).unwrap_or(usize::MAX);
        (0..count).map(move |index| {
            let at = index as u64 * window;
            let len = usize::try_from(self.bytes - at).unwrap_or(usize::MAX);
            (at, len.min(self.window))
        })
    }
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn open<E>(
    session: &mut impl Session,
    message: &Message<'_>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut emit: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), MessageError<E>> {
    let windows = Windows::of(message.bytes);
    let bytes = windows.window;
    let mut buffer = DataBuffer::try_zeroed(bytes).ok_or(MessageError::NoMemory { bytes })?;
    let bytes = windows.each().len() * TAG;
    let mut states = SecretBytes::try_zeroed(bytes).ok_or(MessageError::NoMemory { bytes })?;

    session.absorb(message.additional);
    let (each_state, _) = states.expose_mut().as_chunks_mut::<TAG>();
    for ((at, len), state) in windows.each().zip(each_state) {
        read(at, &mut buffer[..len]).map_err(MessageError::Caller)?;
        session.absorb(&buffer[..len]);
        *state = session.state();
        wipe::stack();
    }
    let tag = session.tag(message.additional.len() as u64, message.bytes);
    if !equal(&tag, &message.tag) {
        return Err(MessageError::Forged);
    }

    session.restart();
    session.absorb(message.additional);
    let (each_state, _) = states.expose().as_chunks::<TAG>();
    for ((at, len), state) in windows.each().zip(each_state) {
        // What was verified of a single window is still there.
        if each_state.len() > 1 {
            read(at, &mut buffer[..len]).map_err(MessageError::Caller)?;
            session.absorb(&buffer[..len]);
            if !equal(&session.state(), state) {
                return Err(MessageError::Changed { emitted: at });
            }
        }
        session.decrypt(at, &mut buffer[..len.next_multiple_of(16)]);
        wipe::stack();
        for part in buffer[..len].chunks(PART) {
            emit(part).map_err(MessageError::Caller)?;
        }
    }
    Ok(())
}

fn equal(one: &[u8; TAG], other: &[u8; TAG]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_possible_truncation,
        reason = "small numbers, and lengths on 64 bits"
    )]

    use super::*;

    #[test]
    fn windows_and_states_take_little_memory() {
        for (bytes, window, count) in [
            (0, PART, 0),
            (1, PART, 1),
            (PART as u64, PART, 1),
            (PART as u64 + 1, PART, 2),
            (16 << 20, PART, 1024),
            (1 << 30, 128 << 10, 8192),
            ((1 << 36) - 32, 1 << 20, 1 << 16),
            ((1 << 38) - 64, 2 << 20, 1 << 17),
        ] {
            let windows = Windows::of(bytes);
            assert_eq!((windows.window, windows.each().len()), (window, count));
        }
    }

    #[test]
    fn windows_cover_a_message() {
        for bytes in [1, 16_383, 16_384, 16_385, 50_000, 20 << 20, (20 << 20) + 5] {
            let mut end = 0;
            for (at, len) in Windows::of(bytes).each() {
                assert_eq!(at, end);
                end += len as u64;
            }
            assert_eq!(end, bytes);
        }
    }

    /// The last blocks that a nonce has, by another implementation (Python's `cryptography`: AES of
    /// the counters 2³² - 3 to 2³² - 1, and ChaCha20 from block 2³² - 2 on).
    #[test]
    fn the_end_of_the_longest_message() {
        let key: [u8; 32] = std::array::from_fn(|at| at as u8);
        let nonce = std::array::from_fn(|at| 100 + at as u8);
        for (key, end) in [
            (
                &key[..16],
                "feeca0af6956b89c08221161845e7a3f79c46c718d034898394bce6e36e89c49\
                 152d9ed8c329c8f3ed678213671977b2",
            ),
            (
                &key[..],
                "1e13e916002b29d43ac665ac32d596c5438f17426dc6dc07f0bf203c3f22e3e4\
                 1bb2214fb0897c134b46e804844d5c2d",
            ),
        ] {
            let key = GcmKey::new(key).unwrap();
            check_end(&mut key.session(nonce), Aead::Aes128Gcm, end);
        }
        let end = "b736ee6f1c7b6e807130170295015f417d9320e40185e37bd667f172940a1e9f\
                   4c2bf9188ec29f40ceda9f9103e4b5d9550b74d47faa825f0fbd9af61f136cbe\
                   af103bcbcd040b5d3b47466b79fa5533ed0407c70f08634c8fc1ab02874bdcc6\
                   47e8be353132375d396ac064bf144324a58e0905b97791299b149e6a7705ff03";
        let key = ChaChaKey::new(&key);
        check_end(&mut key.session(nonce), Aead::ChaCha20Poly1305, end);
    }

    /// Decrypting zeros gives the key stream: that of the last part has this `end`.
    fn check_end(session: &mut impl Session, aead: Aead, end: &str) {
        let part = PART as u64;
        let at = aead.message_max() / part * part;
        let mut bytes = vec![0; (aead.message_max() - at) as usize];
        session.decrypt(at, &mut bytes);
        let last: String = bytes[bytes.len() - end.len() / 2..]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(last, end, "{aead}");
    }
}
