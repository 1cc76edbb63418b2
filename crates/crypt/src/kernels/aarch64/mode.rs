//! Kernels of a mode: how they are described, set up and called.

use scrim_sys::memory::Locked;

use super::cpu::{Aes, FAMILY};
use super::key::{NO_KEYS, RoundKeys, expand, invert};
use crate::kernels::cursor::{Cursor, RawRun};
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::{Ivs, SectorKernel};
use crate::kernels::run::Run;
use crate::spec::Algorithm;

/// A mode of operation.
pub(super) trait Mode: Send + Sync + 'static {
    /// Number of AES keys, all of one length, that a key of the mode consists of: the second is for tweaks.
    const AES_KEYS: usize = 1;
    /// True if decryption is the same as encryption.
    const ONE_DIRECTION: bool = false;

    /// Encrypts or decrypts the data units of a run.
    ///
    /// # Safety
    /// The CPU has AES instructions. `units` data units of `unit` bytes can be read and written `at`, as
    /// [`RawRun`] promises.
    unsafe fn transform<const ROUNDS: usize, const ENCRYPT: bool>(
        keys: &Keys,
        ivs: &mut Ivs<'_>,
        at: Cursor,
        unit: usize,
        units: usize,
    );
}

/// Round keys of all AES keys of a mode's key.
#[repr(C, align(64))]
pub(super) struct Keys {
    encrypt: RoundKeys,
    decrypt: RoundKeys,
    /// Empty for modes without tweaks.
    pub(super) tweak: RoundKeys,
}

impl Keys {
    /// Expands `key`, whose `aes_keys` keys have the length that goes with `ROUNDS`.
    fn locked<const ROUNDS: usize>(_: Aes, key: &[u8], aes_keys: usize) -> Locked<Self> {
        let mut keys = Locked::new(|| Self {
            encrypt: NO_KEYS,
            decrypt: NO_KEYS,
            tweak: NO_KEYS,
        });
        let Self {
            encrypt,
            decrypt,
            tweak,
        } = &mut *keys;
        let (data, rest) = key.split_at(key.len() / aes_keys);
        // SAFETY: the token shows that the CPU has the feature.
        unsafe {
            expand::<ROUNDS>(data, encrypt);
            invert::<ROUNDS>(encrypt, decrypt);
            if !rest.is_empty() {
                expand::<ROUNDS>(rest, tweak);
            }
        }
        keys
    }

    /// Round keys of one direction, in the order of use.
    #[inline]
    pub(super) fn of<const ENCRYPT: bool>(&self) -> &RoundKeys {
        if ENCRYPT {
            &self.encrypt
        } else {
            &self.decrypt
        }
    }
}

/// Describes the kernel of a mode. All are constant in time.
pub(super) const fn kernel<M: Mode>(algorithm: Algorithm, driver: &'static str) -> Kernel {
    Kernel {
        algorithm,
        driver,
        family: FAMILY,
        priority: || 400,
        constant_time: true,
        features: Aes::FEATURES,
        runs_here: || Aes::detect().is_some(),
        set_up: |key| set_up::<M>(Aes::detect()?, key),
    }
}

/// A kernel with `key` expanded; `None` for a key of another algorithm.
fn set_up<M: Mode>(token: Aes, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
    match (key.len() / M::AES_KEYS, key.len() % M::AES_KEYS) {
        (16, 0) => Some(Keyed::<M, 10>::boxed(token, key)),
        (24, 0) => Some(Keyed::<M, 12>::boxed(token, key)),
        (32, 0) => Some(Keyed::<M, 14>::boxed(token, key)),
        _ => None,
    }
}

struct Keyed<M: Mode, const ROUNDS: usize> {
    keys: Locked<Keys>,
    /// Proof that the CPU can run the mode.
    _token: Aes,
    _mode: core::marker::PhantomData<M>,
}

impl<M: Mode, const ROUNDS: usize> Keyed<M, ROUNDS> {
    fn boxed(token: Aes, key: &[u8]) -> Box<dyn SectorKernel> {
        Box::new(Self {
            keys: Keys::locked::<ROUNDS>(token, key, M::AES_KEYS),
            _token: token,
            _mode: core::marker::PhantomData,
        })
    }

    #[inline]
    fn transform<const ENCRYPT: bool>(&self, ivs: &mut Ivs<'_>, run: Run<'_>) {
        let RawRun {
            source,
            destination,
            unit,
            units,
        } = run.into();
        let at = Cursor {
            source,
            destination,
        };
        // SAFETY: the token that `self` holds proves the CPU feature. The pointers are of memory that `run` borrows for
        // longer than this call takes: `units` data units of `unit` bytes.
        unsafe { M::transform::<ROUNDS, ENCRYPT>(&self.keys, ivs, at, unit, units) }
    }
}

impl<M: Mode, const ROUNDS: usize> SectorKernel for Keyed<M, ROUNDS> {
    fn encrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        self.transform::<true>(&mut ivs, run);
    }

    fn decrypt(&self, mut ivs: Ivs<'_>, run: Run<'_>) {
        if M::ONE_DIRECTION {
            self.transform::<true>(&mut ivs, run);
        } else {
            self.transform::<false>(&mut ivs, run);
        }
    }
}
