//! The cipher of a mapping.

use crate::error::CipherError;
use crate::kernels::iv::{Ivs, Seal, SectorKernel};
use crate::kernels::run::Run;
use crate::kernels::shared::SharedSource;
use crate::registry::{self, Implementation};
use crate::sector::{Geometry, IvSector};
use crate::spec::{CipherSpec, IvMode};
use crate::wipe;

/// An expanded key, with the implementation chosen for it: encrypts and decrypts runs of
/// consecutive sectors. Shared freely between threads.
///
/// Every call takes the IV sector of the run's first sector; the others follow by [`Geometry`]'s
/// rule and wrap, as dm-crypt's do, after 2⁶⁴ - 1. A run is a whole number of sectors, and may be
/// empty; long runs cost less per sector than short ones. Buffers need no alignment.
///
/// A source and a destination never overlap, as the borrow checker ensures; the `_in_place` calls take
/// the same buffer as both.
///
/// For runs in pieces, and from memory that others may change, see [`vectored`](crate::vectored).
///
/// The expanded keys live in locked memory of their own, and are wiped when the cipher is dropped.
/// There is no `Debug`, no `Clone` and no way to get the key out again.
///
/// # Panics
/// Every call panics when a run is not a whole number of sectors, or when source and destination differ
/// in length.
pub struct SectorCipher {
    implementation: &'static Implementation,
    kernel: Box<dyn SectorKernel>,
    /// The kernel that encrypts the IVs of ESSIV.
    essiv: Option<Box<dyn SectorKernel>>,
    /// The IVs of a run that starts at 0, before ESSIV or EBOIV encrypts them: their rule is chosen once
    /// and not in every call.
    ivs: Ivs<'static>,
    /// True if the data's own kernel encrypts the IVs.
    is_eboiv: bool,
    geometry: Geometry,
}

/// More of the stack than any set-up of a key takes, in bytes: some build the expanded key there.
const SET_UP_STACK_BYTES: usize = 32 << 10;

impl SectorCipher {
    /// Sets up `key`, the whole volume key, with the implementation that the specification names,
    /// or else the best that can be used here. The caller keeps `key`, and wipes it.
    ///
    /// An XTS key is the data key followed by the tweak key. Two equal halves, which weaken XTS,
    /// are accepted, as dm-crypt does outside FIPS mode: refusing them here would only make an existing
    /// volume unreadable. A random key, as every LUKS volume has, never has equal halves.
    ///
    /// # Errors
    /// [`CipherError::KeySize`]; [`CipherError::NoDriver`] when all are disabled, or
    /// [`CipherError::DriverNotReady`] when the one that is named cannot be used.
    pub fn new(spec: &CipherSpec, key: &[u8], geometry: Geometry) -> Result<Self, CipherError> {
        Self::set_up(registry::chosen(spec)?, spec, key, geometry)
    }

    /// Like [`SectorCipher::new`], with the implementation whose driver has this name.
    ///
    /// # Errors
    /// [`CipherError::UnknownDriver`], [`CipherError::DriverNotReady`] or [`CipherError::KeySize`].
    pub fn new_with_driver(
        driver: &str,
        spec: &CipherSpec,
        key: &[u8],
        geometry: Geometry,
    ) -> Result<Self, CipherError> {
        Self::set_up(registry::by_driver(driver, spec)?, spec, key, geometry)
    }

    fn set_up(
        implementation: &'static Implementation,
        spec: &CipherSpec,
        key: &[u8],
        geometry: Geometry,
    ) -> Result<Self, CipherError> {
        if !spec.key_sizes().contains(&key.len()) {
            return Err(CipherError::KeySize {
                spec: spec.clone(),
                bytes: key.len(),
            });
        }
        let expand = |implementation: &Implementation, key: &[u8]| {
            let kernel = implementation.set_up(key);
            wipe::below::<SET_UP_STACK_BYTES>();
            kernel.ok_or_else(|| CipherError::NoDriver { spec: spec.clone() })
        };
        let kernel = expand(implementation, key)?;
        let essiv = match spec.essiv {
            None => None,
            Some(hash) => {
                let ecb = registry::ecb_beside(implementation)
                    .ok_or_else(|| CipherError::NoDriver { spec: spec.clone() })?;
                Some(expand(ecb, hash.salt(key).expose())?)
            }
        };
        Ok(Self {
            implementation,
            kernel,
            essiv,
            ivs: Ivs::new(spec.iv, IvSector(0), geometry),
            is_eboiv: spec.iv == IvMode::Eboiv,
            geometry,
        })
    }

    /// Encrypts the sectors from `first` on, in place.
    pub fn encrypt_in_place(&self, first: IvSector, run: &mut [u8]) {
        self.kernel
            .encrypt(self.ivs(first), Run::in_place(self.unit(), run));
    }

    /// Decrypts the sectors from `first` on, in place.
    pub fn decrypt_in_place(&self, first: IvSector, run: &mut [u8]) {
        self.kernel
            .decrypt(self.ivs(first), Run::in_place(self.unit(), run));
    }

    /// Encrypts the sectors from `first` on, from `source` to `destination`.
    pub fn encrypt(&self, first: IvSector, source: &[u8], destination: &mut [u8]) {
        self.kernel
            .encrypt(self.ivs(first), Run::copy(self.unit(), source, destination));
    }

    /// Decrypts the sectors from `first` on, from `source` to `destination`.
    pub fn decrypt(&self, first: IvSector, source: &[u8], destination: &mut [u8]) {
        self.kernel
            .decrypt(self.ivs(first), Run::copy(self.unit(), source, destination));
    }

    /// Decrypts the sectors from `first` on, from memory that others may change meanwhile. A block that
    /// changes is decrypted to arbitrary bytes, like a block that is read while it is written.
    pub fn decrypt_from_shared(
        &self,
        first: IvSector,
        source: SharedSource<'_>,
        destination: &mut [u8],
    ) {
        let run = Run::shared(self.unit(), source, destination);
        self.kernel.decrypt(self.ivs(first), run);
    }

    /// The implementation that was chosen.
    #[must_use]
    pub fn implementation(&self) -> &'static Implementation {
        self.implementation
    }

    /// The sectors this cipher was made for.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Encrypts a run that starts the given number of sectors after `first`.
    pub(crate) fn encrypt_after(&self, first: IvSector) -> impl Fn(usize, Run<'_>) {
        move |before, run| self.kernel.encrypt(self.ivs_after(first, before), run)
    }

    /// Decrypts a run that starts the given number of sectors after `first`.
    pub(crate) fn decrypt_after(&self, first: IvSector) -> impl Fn(usize, Run<'_>) {
        move |before, run| self.kernel.decrypt(self.ivs_after(first, before), run)
    }

    fn ivs_after(&self, first: IvSector, before: usize) -> Ivs<'_> {
        let units = self.geometry.iv_step().wrapping_mul(before as u64);
        self.ivs(IvSector(first.0.wrapping_add(units)))
    }

    #[inline]
    fn ivs(&self, first: IvSector) -> Ivs<'_> {
        let seal = match &self.essiv {
            Some(ecb) => Some(Seal::Essiv(&**ecb)),
            None if self.is_eboiv => Some(Seal::Eboiv(&*self.kernel)),
            None => None,
        };
        self.ivs.starting_at(first, seal)
    }

    /// Length of a sector in bytes.
    pub(crate) fn unit(&self) -> usize {
        self.geometry.sector_size.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SectorSize;

    const KEY: [u8; 64] = [3; 64];

    fn spec() -> CipherSpec {
        "aes-xts-plain64".parse().unwrap()
    }

    fn geometry() -> Geometry {
        Geometry::new(SectorSize::S4096)
    }

    fn cipher() -> SectorCipher {
        SectorCipher::new(&spec(), &KEY, geometry()).unwrap()
    }

    #[test]
    fn a_cipher_tells_what_it_is() {
        let cipher = cipher();
        assert_eq!(cipher.geometry(), geometry());
        assert_eq!(cipher.implementation().name, "xts(aes)");
    }

    #[test]
    fn it_can_be_shared_between_threads() {
        let cipher = cipher();
        let encrypt = || {
            let mut run = vec![0; 8192];
            cipher.encrypt_in_place(IvSector(1), &mut run);
            run
        };
        let other = std::thread::scope(|scope| scope.spawn(encrypt).join().unwrap());
        assert!(other == encrypt());
    }

    #[test]
    fn keys_of_the_wrong_length_are_refused() {
        for bytes in (0..=129).filter(|bytes| ![32, 48, 64].contains(bytes)) {
            let error = SectorCipher::new(&spec(), &vec![0; bytes], geometry()).err();
            let expected = CipherError::KeySize {
                spec: spec(),
                bytes,
            };
            assert_eq!(error, Some(expected));
        }
        for (spec, bytes, message) in [
            (
                "aes-xts-plain64",
                16,
                "aes-xts-plain64 takes a volume key of 32, 48 or 64 bytes, not of 16",
            ),
            (
                "aes-cbc-essiv:sha256",
                12,
                "aes-cbc-essiv:sha256 takes a volume key of 16, 24 or 32 bytes, not of 12",
            ),
            (
                "aes-lrw-benbi",
                16,
                "aes-lrw-benbi takes a volume key of 32, 40 or 48 bytes, the last 16 being the tweak key, not of 16",
            ),
            (
                "xchacha12,aes-adiantum-plain64",
                64,
                "xchacha12,aes-adiantum-plain64 takes a volume key of 32 bytes, not of 64",
            ),
            (
                "cipher_null-ecb",
                16,
                "cipher_null-ecb takes no volume key, not one of 16 bytes",
            ),
        ] {
            let spec = spec.parse().unwrap();
            let error = SectorCipher::new(&spec, &vec![0; bytes], geometry()).err();
            assert_eq!(error.unwrap().to_string(), message);
        }
    }

    #[test]
    fn unknown_drivers_are_refused() {
        let error = SectorCipher::new_with_driver("xts-aes-ce", &spec(), &KEY, geometry()).err();
        let message = error.unwrap().to_string();
        assert!(
            message.starts_with(r#"aes-xts-plain64 has no driver "xts-aes-ce"; use "#),
            "{message}"
        );
        assert!(message.ends_with("xts-aes-portable"), "{message}");
    }

    #[test]
    fn a_driver_in_the_specification_is_taken() {
        for driver in ["xts-aes-portable", "ecb-aes-portable", "ecb-cipher_null"] {
            let spec: CipherSpec = format!("capi:{driver}-plain64").parse().unwrap();
            let key = &KEY[..*spec.key_sizes().last().unwrap()];
            let cipher = SectorCipher::new(&spec, key, geometry()).unwrap();
            assert_eq!(cipher.implementation().driver, driver);
            let other = if spec.is_null() {
                "xts-aes-portable"
            } else {
                "ecb-cipher_null"
            };
            assert!(SectorCipher::new_with_driver(other, &spec, key, geometry()).is_err());
        }
    }

    #[test]
    fn the_null_cipher_changes_nothing() {
        let spec: CipherSpec = "cipher_null-ecb".parse().unwrap();
        let cipher = SectorCipher::new(&spec, &[], geometry()).unwrap();
        let plain: Vec<u8> = (0..=255).cycle().take(8192).collect();
        let mut data = vec![0; 8192];
        cipher.encrypt(IvSector(3), &plain, &mut data);
        assert_eq!(data, plain);
        cipher.encrypt_in_place(IvSector(3), &mut data);
        cipher.decrypt_in_place(IvSector(9), &mut data);
        assert_eq!(data, plain);
    }

    #[test]
    fn empty_runs_are_runs() {
        cipher().encrypt_in_place(IvSector(0), &mut []);
        cipher().decrypt(IvSector(0), &[], &mut []);
    }

    #[test]
    #[should_panic(expected = "a run of 4608 bytes is not whole sectors of 4096")]
    fn parts_of_sectors_are_no_run() {
        cipher().encrypt_in_place(IvSector(0), &mut [0; 4608]);
    }

    #[test]
    #[should_panic(expected = "a source of 4096 bytes for a destination of 8192")]
    fn source_and_destination_are_equally_long() {
        cipher().decrypt(IvSector(0), &[0; 4096], &mut [0; 8192]);
    }
}
