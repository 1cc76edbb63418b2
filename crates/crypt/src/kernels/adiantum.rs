//! Adiantum (Crowley, Biggers: "Adiantum: length-preserving encryption for entry-level processors", 2018), with
//! XChaCha, AES-256, and a tweak of 32 bytes, as in the kernel.
//!
//! A data unit is its bulk and 16 bytes after it. To encrypt, the hash of tweak and bulk is added to these 16 bytes,
//! AES encrypts the sum, the result is the nonce of a key stream for the bulk, and the hash of tweak and new bulk is
//! subtracted from it.
//!
//! This construction and its keys are written once. [`Primitives`] are the hash and the key stream, which a kernel
//! computes by its own instructions. Several data units are processed together, so that AES and the set-up of their key
//! streams are computed side by side.

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use chacha20::cipher::{Array, IvSizeUser, KeyIvInit, KeySizeUser, StreamCipher, consts};
use scrim_sys::memory::Locked;

use super::iv::{Block, Ivs, SectorKernel, WideIv};
use super::run::{Run, UNIT_MAX, piecewise};

/// XChaCha of the `chacha20` crate, with some number of rounds.
pub(super) trait Stream:
    KeySizeUser<KeySize = consts::U32>
    + IvSizeUser<IvSize = consts::U24>
    + KeyIvInit
    + StreamCipher
    + 'static
{
    #[cfg_attr(
        not(any(test, target_arch = "x86_64")),
        expect(dead_code, reason = "for wide kernels")
    )]
    const ROUNDS: usize;
}

impl Stream for chacha20::XChaCha12 {
    const ROUNDS: usize = 12;
}

impl Stream for chacha20::XChaCha20 {
    const ROUNDS: usize = 20;
}

/// The hash and the key stream, with their keys.
pub(super) trait Primitives: Sized + Send + Sync + 'static {
    /// Cipher from whose key stream all other keys are taken.
    type Stream: Stream;

    /// Number of data units that are processed together, at most [`UNITS_MAX`].
    const UNITS: usize;

    /// Sets up the keys; `None` where the processor lacks the instructions.
    fn new(stream: &[u8; 32], hash: &HashKeys<'_>) -> Option<Self>;

    /// Hash of a data unit's length and tweak, as [`header`] has them.
    fn hash_header(&self, header: &[Block; 3]) -> u128;

    /// Hash of the bulk of a data unit, which is whole blocks.
    fn hash_bulk(&self, bulk: &[u8]) -> u128;

    /// XORs the key streams of `nonces`, each extended by a 1 and seven bytes of 0, to the bulk of data units of `unit` bytes. There
    /// is a nonce for each.
    fn xor_streams(&self, nonces: &[Block], unit: usize, data: &mut [u8]);

    /// Overwrites what a call has left on the stack.
    fn wipe_stack();
}

/// Maximum number of data units that are processed together.
pub(super) const UNITS_MAX: usize = 16;

/// Maximum number of bytes that are processed together: they stay in the first-level cache between the passes.
const BATCH: usize = 4 * UNIT_MAX;

/// Keys of the hash.
pub(super) struct HashKeys<'a> {
    /// Key of Poly1305 for a data unit's length and tweak.
    pub(super) header: &'a Block,
    /// Key of Poly1305 for the hashes by NH of the bulk.
    pub(super) message: &'a Block,
    pub(super) nh: &'a NhKey,
}

/// Maximum number of bytes that NH hashes at once.
pub(super) const NH_MESSAGE: usize = 1024;

/// Words of a key of NH: as many as a message has, and three times four more for its passes, whose keys are four words
/// apart (section 6.3 of the paper).
pub(super) const NH_KEY: usize = NH_MESSAGE / 4 + 3 * 4;

pub(super) type NhKey = [u32; NH_KEY];

/// Sets up a key; `None` for one of another length, and where the processor lacks the instructions.
pub(super) fn set_up<P: Primitives>(key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    let keys = Keys::<P>::new(key.try_into().ok()?)?;
    Some(Box::new(Adiantum(Locked::new(|| keys))))
}

struct Adiantum<P>(Locked<Keys<P>>);

impl<P: Primitives> SectorKernel for Adiantum<P> {
    fn encrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform::<P, true>(&self.0, ivs, run);
        P::wipe_stack();
    }

    fn decrypt(&self, ivs: Ivs<'_>, run: Run<'_>) {
        transform::<P, false>(&self.0, ivs, run);
        P::wipe_stack();
    }
}

/// Runs in a stack frame of its own, which the caller wipes.
#[inline(never)]
fn transform<P: Primitives, const ENCRYPT: bool>(keys: &Keys<P>, mut ivs: Ivs<'_>, run: Run<'_>) {
    const { assert!(P::UNITS <= UNITS_MAX) };
    let unit = run.unit();
    piecewise(run, P::UNITS.min(BATCH / unit), |data| {
        keys.transform::<ENCRYPT>(|| ivs.next_wide(), unit, data);
    });
}

/// Keys of the parts, which follow from the one key (section 2 of the paper).
struct Keys<P> {
    block: Aes256,
    primitives: P,
}

impl<P: Primitives> Keys<P> {
    fn new(key: &[u8; 32]) -> Option<Self> {
        let mut parts = [0; 32 + 16 + 16 + 4 * NH_KEY];
        let nonce = [1].into_iter().chain([0; 23]);
        P::Stream::new(&(*key).into(), &Array::from_iter(nonce)).apply_keystream(&mut parts);
        let (block, parts) = parts.split_first_chunk::<32>()?;
        let (header, parts) = parts.split_first_chunk()?;
        let (message, nh) = parts.split_first_chunk()?;
        let (nh, _) = nh.as_chunks();
        let hash = HashKeys {
            header,
            message,
            nh: &std::array::from_fn(|at| u32::from_le_bytes(nh[at])),
        };
        Some(Self {
            block: Aes256::new(block.into()),
            primitives: P::new(key, &hash)?,
        })
    }

    /// Transforms as many data units of `unit` bytes as `data` has, at most [`UNITS_MAX`].
    fn transform<const ENCRYPT: bool>(
        &self,
        mut tweak: impl FnMut() -> WideIv,
        unit: usize,
        data: &mut [u8],
    ) {
        assert!(
            unit >= 16 && unit.is_multiple_of(16),
            "a data unit of {unit} bytes"
        );
        let (mut headers, mut lasts) = ([0; UNITS_MAX], [[0; 16]; UNITS_MAX]);
        let units = data.len() / unit;
        let (headers, lasts) = (&mut headers[..units], &mut lasts[..units]);
        for ((header_hash, last), unit) in
            headers.iter_mut().zip(&mut *lasts).zip(data.chunks(unit))
        {
            let Some((bulk, end)) = unit.split_last_chunk() else {
                return;
            };
            *header_hash = self.primitives.hash_header(&header(bulk, &tweak()));
            let hash = header_hash.wrapping_add(self.primitives.hash_bulk(bulk));
            *last = u128::from_le_bytes(*end).wrapping_add(hash).to_le_bytes();
        }
        if ENCRYPT {
            self.block
                .encrypt_blocks(Array::cast_slice_from_core_mut(lasts));
        }
        self.primitives.xor_streams(lasts, unit, data);
        if !ENCRYPT {
            self.block
                .decrypt_blocks(Array::cast_slice_from_core_mut(lasts));
        }
        for ((header_hash, last), unit) in headers.iter().zip(&*lasts).zip(data.chunks_mut(unit)) {
            let Some((bulk, end)) = unit.split_last_chunk_mut() else {
                return;
            };
            let hash = header_hash.wrapping_add(self.primitives.hash_bulk(bulk));
            *end = u128::from_le_bytes(*last).wrapping_sub(hash).to_le_bytes();
        }
    }
}

/// Length in bits and tweak of a data unit.
fn header(bulk: &[u8], tweak: &WideIv) -> [Block; 3] {
    let bits = 8 * bulk.len() as u128;
    let (tweak, _) = tweak.as_chunks::<16>();
    [bits.to_le_bytes(), tweak[0], tweak[1]]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().as_chunks::<2>().0;
        let pairs = digits.iter().map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    /// Checks primitives by the vectors of the authors; those that this processor cannot compute are skipped.
    pub(in crate::kernels) fn check_vectors<P: Primitives>() {
        let file = include_str!("../../tests/vectors/adiantum.rsp");
        let mut count = 0;
        for record in file.split("\n\n") {
            let field = |name: &str| {
                let mut lines = record.lines().filter_map(|line| line.split_once(" = "));
                lines
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value)
            };
            let Some(rounds) = field("Rounds") else {
                continue;
            };
            if rounds != P::Stream::ROUNDS.to_string() {
                continue;
            }
            let [key, tweak, plain, cipher] =
                ["Key", "Tweak", "PT", "CT"].map(|name| hex(field(name).unwrap()));
            let Some(keys) = Keys::<P>::new(&key.try_into().unwrap()) else {
                return;
            };
            let tweak: WideIv = tweak.try_into().unwrap();
            let unit = plain.len();
            let mut data = plain.clone();
            keys.transform::<true>(|| tweak, unit, &mut data);
            assert!(data == cipher, "{unit} bytes");
            keys.transform::<false>(|| tweak, unit, &mut data);
            assert!(data == plain, "{unit} bytes");
            count += 1;
        }
        assert_eq!(count, 9);
    }
}
