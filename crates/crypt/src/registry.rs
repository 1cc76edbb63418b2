//! Registry of implementations: those that exist, those usable in this process, and the one chosen.

use std::sync::{LazyLock, OnceLock};

use crate::error::{CipherError, alternatives};
use crate::kernels::descriptor::Kernel;
use crate::kernels::gcm::{Gcm, GcmKernel, NONCE};
use crate::kernels::iv::SectorKernel;
use crate::kernels::{gcm, kernels};
use crate::self_test;
use crate::spec::{Algorithm, CipherSpec, Mode};
use crate::state::State;

/// One implementation of a cipher, as a row of `/proc/crypto` would show it.
#[non_exhaustive]
pub struct Implementation {
    /// Name of the algorithm, in the kernel's spelling: `xts(aes)`.
    pub name: &'static str,
    /// Its own name, as [`SectorCipher::new_with_driver`](crate::SectorCipher::new_with_driver)
    /// and `SCRIM_DISABLE` take it: `xts-aes-aesni`.
    pub driver: &'static str,
    /// Name that it shares with its siblings of other ciphers, which `SCRIM_DISABLE` takes too:
    /// `aesni`.
    pub family: &'static str,
    /// Rank among several that can be used: the one with the highest priority is taken.
    pub priority: u32,
    /// True if its time and its memory accesses are independent of keys and data, on a processor that multiplies
    /// integers in constant time, as those with registers of 64 bits do: `gcm-aes-portable` and Adiantum multiply.
    pub constant_time: bool,
    /// The CPU features that it needs, in Rust's spelling; an empty list means that it runs everywhere.
    pub features: &'static [&'static str],
    /// Needed features that this CPU does not have, or that the operating system does not enable.
    pub missing: Vec<&'static str>,
    /// The unit in which it can work, in bytes: 16, or 1 for what makes a key stream or nothing.
    pub block_size: usize,
    /// The lengths that its key may have, in bytes, the shortest first. For XTS that is both keys
    /// together.
    pub key_sizes: &'static [usize],
    /// Length of the IV in bytes; 0 for a mode without IV.
    pub iv_size: usize,
    /// Its readiness in this process; empty before its self-test.
    state: OnceLock<State>,
    code: Code,
}

/// Code of an implementation.
#[derive(Clone, Copy)]
enum Code {
    Sector(&'static Kernel),
    Gcm(&'static Gcm),
}

/// Every implementation, usable or not, in order of name and falling priority. The first call in a
/// process, here or to set up a cipher, reads `SCRIM_DISABLE`.
pub fn implementations() -> &'static [Implementation] {
    static ROWS: OnceLock<Vec<Implementation>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let code = kernels().map(Code::Sector).chain(gcm().map(Code::Gcm));
        examine(code, disabled())
    })
}

/// The implementations of `spec`'s cipher, usable or not, in order of falling priority.
pub fn implementations_of(spec: &CipherSpec) -> impl Iterator<Item = &'static Implementation> {
    let algorithm = spec.algorithm;
    let rows = implementations().iter();
    rows.filter(move |row| row.code.computes(algorithm))
}

/// The implementation that [`SectorCipher::new`](crate::SectorCipher::new) takes for `spec`: the one
/// that it names, or else the best that can be used here.
///
/// # Errors
/// [`CipherError::NoDriver`] when all are disabled, or [`CipherError::DriverNotReady`] when the one
/// that is named cannot be used.
pub fn chosen(spec: &CipherSpec) -> Result<&'static Implementation, CipherError> {
    match spec.driver {
        Some(driver) => by_driver(driver, spec),
        None => best(spec),
    }
}

/// The implementation to use for `spec` unless the caller names one.
fn best(spec: &CipherSpec) -> Result<&'static Implementation, CipherError> {
    best_of(implementations(), spec.algorithm)
        .ok_or_else(|| CipherError::NoDriver { spec: spec.clone() })
}

/// The implementation of `spec` with this driver name.
pub(crate) fn by_driver(
    driver: &str,
    spec: &CipherSpec,
) -> Result<&'static Implementation, CipherError> {
    let Some(row) = implementations_of(spec).find(|row| row.driver == driver) else {
        let known = alternatives(implementations_of(spec).map(|row| row.driver));
        return Err(CipherError::unknown_driver(driver, spec, known));
    };
    match row.state() {
        State::Ready => Ok(row),
        state => Err(CipherError::DriverNotReady {
            driver: row.driver,
            state,
        }),
    }
}

/// The implementation of the same cipher in ECB that goes with `row`, to encrypt IVs: of the same family where that
/// has one, or else the best.
pub(crate) fn ecb_beside(row: &Implementation) -> Option<&'static Implementation> {
    let rows = implementations();
    let cipher = row.code.sector()?.algorithm.cipher();
    let mut all = Algorithm::ALL.iter();
    let ecb = *all.find(|other| other.cipher() == cipher && other.mode() == Mode::Ecb)?;
    let sibling = rows
        .iter()
        .find(|other| other.code.computes(ecb) && other.family == row.family && other.is_ready());
    sibling.or_else(|| best_of(rows, ecb))
}

impl Implementation {
    /// Its readiness in this process. The first call for an implementation that this CPU can run, and that is not
    /// disabled, runs its self-test.
    pub fn state(&self) -> State {
        *self
            .state
            .get_or_init(|| match self.code.passes_self_test() {
                true => State::Ready,
                false => State::SelfTestFailed,
            })
    }

    /// Returns whether its self-test was run and gave wrong bytes. Runs no test.
    pub fn has_failed(&self) -> bool {
        self.state.get() == Some(&State::SelfTestFailed)
    }

    fn is_ready(&self) -> bool {
        self.state() == State::Ready
    }

    /// Expands a key, after the self-test. `None` if the implementation cannot be used, for a key of a length that is
    /// not the cipher's, or on another CPU than the one examined.
    pub(crate) fn set_up(&self, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        let kernel = self.code.sector()?;
        self.is_ready().then(|| (kernel.set_up)(key))?
    }

    /// As [`Implementation::set_up`], for a kernel of AES-GCM; `None` for another one too.
    pub(crate) fn set_up_gcm(&self, key: &[u8]) -> Option<Box<dyn GcmKernel>> {
        let kernel = self.code.gcm()?;
        self.is_ready().then(|| (kernel.set_up)(key))?
    }
}

/// The best kernel of AES-GCM that can be used here.
pub(crate) fn best_gcm() -> Option<&'static Implementation> {
    let mut rows = implementations().iter();
    rows.find(|row| row.code.gcm().is_some() && row.is_ready())
}

/// The kernel of AES-GCM with this driver name, usable or not.
pub(crate) fn gcm_by_driver(driver: &str) -> Option<&'static Implementation> {
    let mut rows = implementations().iter();
    rows.find(|row| row.code.gcm().is_some() && row.driver == driver)
}

/// Returns whether `SCRIM_DISABLE` has this name.
pub(crate) fn is_disabled(name: &str) -> bool {
    names(disabled()).any(|other| other == name)
}

/// The names in a value of `SCRIM_DISABLE`.
fn names(disabled: &str) -> impl Iterator<Item = &str> {
    disabled.split(',').map(str::trim)
}

/// Value of `SCRIM_DISABLE`, which is read once.
fn disabled() -> &'static str {
    static DISABLED: LazyLock<String> = LazyLock::new(|| {
        let disabled = std::env::var_os("SCRIM_DISABLE").unwrap_or_default();
        disabled.to_string_lossy().into_owned()
    });
    &DISABLED
}

impl Code {
    fn sector(self) -> Option<&'static Kernel> {
        match self {
            Self::Sector(kernel) => Some(kernel),
            Self::Gcm(_) => None,
        }
    }

    fn gcm(self) -> Option<&'static Gcm> {
        match self {
            Self::Sector(_) => None,
            Self::Gcm(gcm) => Some(gcm),
        }
    }

    fn computes(self, algorithm: Algorithm) -> bool {
        self.sector()
            .is_some_and(|kernel| kernel.algorithm == algorithm)
    }

    fn passes_self_test(self) -> bool {
        match self {
            Self::Sector(kernel) => self_test::passes(kernel),
            Self::Gcm(gcm) => self_test::gcm_passes(gcm),
        }
    }

    /// Its row of the registry, where `disabled` is the value of `SCRIM_DISABLE`.
    fn row(self, disabled: &str) -> Implementation {
        let mut row = match self {
            Self::Sector(kernel) => Implementation {
                name: kernel.algorithm.name(),
                driver: kernel.driver,
                family: kernel.family,
                priority: (kernel.priority)(),
                constant_time: kernel.constant_time,
                features: kernel.features,
                missing: missing(kernel.features),
                block_size: kernel.algorithm.block_size(),
                key_sizes: kernel.algorithm.key_sizes(),
                iv_size: kernel.algorithm.iv_size(),
                state: OnceLock::new(),
                code: self,
            },
            Self::Gcm(gcm) => Implementation {
                name: "gcm(aes)",
                driver: gcm.driver,
                family: gcm.family,
                priority: gcm.priority,
                constant_time: true,
                features: gcm.features,
                missing: missing(gcm.features),
                block_size: 1,
                key_sizes: &[16, 32],
                iv_size: NONCE,
                state: OnceLock::new(),
                code: self,
            },
        };
        row.state = barred(&row, disabled).map_or_else(OnceLock::new, OnceLock::from);
        row
    }

    fn runs_here(self) -> bool {
        match self {
            Self::Sector(kernel) => (kernel.runs_here)(),
            Self::Gcm(gcm) => (gcm.runs_here)(),
        }
    }
}

/// The first that can be used; those of lower priority are not tested.
fn best_of(rows: &[Implementation], algorithm: Algorithm) -> Option<&Implementation> {
    let mut rows = rows.iter();
    rows.find(|row| row.code.computes(algorithm) && row.is_ready())
}

/// The registry's rows for `code`, those of an algorithm in order of falling priority, where `disabled` is the value
/// of `SCRIM_DISABLE`.
fn examine(code: impl Iterator<Item = Code>, disabled: &str) -> Vec<Implementation> {
    let mut rows: Vec<_> = code.map(|code| code.row(disabled)).collect();
    rows.sort_by_key(|row| (row.name, std::cmp::Reverse(row.priority)));
    rows
}

fn missing(features: &[&'static str]) -> Vec<&'static str> {
    let lacks = |feature: &&&'static str| cpu_has(feature) == Some(false);
    features.iter().filter(lacks).copied().collect()
}

/// Checks whether this CPU has a feature, by Rust's name for it; `None` for a name that is not known here.
fn cpu_has(feature: &str) -> Option<bool> {
    #[cfg(target_arch = "aarch64")]
    return crate::kernels::aarch64::cpu_has(feature);
    #[cfg(not(target_arch = "aarch64"))]
    {
        macro_rules! look {
            ($($name:tt)*) => {
                match feature {
                    $(#[cfg(target_arch = "x86_64")]
                    $name => Some(std::is_x86_feature_detected!($name)),)*
                    _ => None,
                }
            };
        }
        look!("aes" "avx" "avx2" "avx512bw" "avx512dq" "avx512f" "avx512vbmi" "avx512vl" "bmi1" "bmi2"
            "gfni" "pclmulqdq" "sse2" "sse3" "sse4.1" "sse4.2" "ssse3" "vaes" "vpclmulqdq")
    }
}

/// Reason why a kernel is not used, and not tested.
fn barred(row: &Implementation, disabled: &str) -> Option<State> {
    let named = |name: &str| {
        let is_feature = |feature: &&str| match name {
            "avx512" => feature.starts_with(name),
            _ => **feature == *name,
        };
        name == row.driver || name == row.family || row.features.iter().any(is_feature)
    };
    if names(disabled).any(named) {
        Some(State::Disabled)
    } else if !row.code.runs_here() {
        Some(State::Unavailable)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::iv::Ivs;
    use crate::kernels::run::Run;

    /// Gives what it was given.
    struct Broken;

    impl SectorKernel for Broken {
        fn encrypt(&self, _: Ivs<'_>, _: Run<'_>) {}
        fn decrypt(&self, _: Ivs<'_>, _: Run<'_>) {}
    }

    static SOME: &[Kernel] = &[
        Kernel {
            driver: "xts-aes-slow",
            family: "slow",
            priority: || 1,
            ..crate::kernels::portable::AES_XTS
        },
        Kernel {
            driver: "xts-aes-broken",
            family: "broken",
            priority: || 3,
            set_up: |_| Some(Box::new(Broken)),
            ..crate::kernels::portable::AES_XTS
        },
        Kernel {
            driver: "xts-aes-elsewhere",
            family: "elsewhere",
            priority: || 4,
            features: &["sve2"],
            runs_here: || false,
            set_up: |_| None,
            ..crate::kernels::portable::AES_XTS
        },
        Kernel {
            driver: "xts-aes-fast",
            family: "fast",
            priority: || 2,
            features: &["avx9"],
            ..crate::kernels::portable::AES_XTS
        },
    ];

    fn some() -> impl Iterator<Item = Code> {
        SOME.iter().map(Code::Sector)
    }

    fn all() -> impl Iterator<Item = Code> {
        kernels().map(Code::Sector).chain(gcm().map(Code::Gcm))
    }

    fn states(disabled: &str) -> Vec<(&'static str, State)> {
        let rows = examine(some(), disabled);
        rows.iter().map(|row| (row.driver, row.state())).collect()
    }

    fn chosen(disabled: &str) -> Option<&'static str> {
        best_of(&examine(some(), disabled), Algorithm::AesXts).map(|row| row.driver)
    }

    #[test]
    fn broken_code_is_found_out_and_not_chosen() {
        assert_eq!(
            states(""),
            [
                ("xts-aes-elsewhere", State::Unavailable),
                ("xts-aes-broken", State::SelfTestFailed),
                ("xts-aes-fast", State::Ready),
                ("xts-aes-slow", State::Ready),
            ]
        );
        assert_eq!(chosen(""), Some("xts-aes-fast"));
    }

    #[test]
    fn a_self_test_precedes_the_first_use_and_is_run_for_what_is_used_only() {
        let rows = examine(some(), "");
        let tested = |driver: &str| {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.driver == driver).unwrap();
            row.state.get().copied()
        };
        assert_eq!(tested("xts-aes-broken"), None);
        // Whoever has a row gets no cipher of it before its test.
        let broken = rows.iter().find(|row| row.family == "broken").unwrap();
        assert!(!broken.has_failed() && broken.set_up(&[1; 64]).is_none() && broken.has_failed());
        assert_eq!(tested("xts-aes-fast"), None);
        assert_eq!(best_of(&rows, Algorithm::AesXts).unwrap().family, "fast");
        assert_eq!(tested("xts-aes-fast"), Some(State::Ready));
        assert_eq!(tested("xts-aes-slow"), None);
        assert_eq!(tested("xts-aes-elsewhere"), Some(State::Unavailable));
    }

    #[test]
    fn drivers_families_and_features_can_be_disabled() {
        for disabled in ["fast", "xts-aes-fast", "avx9", "nothing, avx9 ,", ",,fast"] {
            assert_eq!(states(disabled)[2], ("xts-aes-fast", State::Disabled));
            assert_eq!(chosen(disabled), Some("xts-aes-slow"));
        }
        assert_eq!(chosen("slow"), Some("xts-aes-fast"));
        assert_eq!(chosen("fast,slow"), None);
        for disabled in ["aes-fast", "FAST", "xts", "xts(aes)", "avx", ""] {
            assert_eq!(chosen(disabled), Some("xts-aes-fast"));
        }
    }

    #[test]
    fn avx512_stands_for_all_of_its_parts() {
        static KERNEL: Kernel = Kernel {
            features: &["aes", "avx512bw"],
            ..crate::kernels::portable::AES_XTS
        };
        let row = Code::Sector(&KERNEL).row("");
        assert_eq!(barred(&row, "avx512"), Some(State::Disabled));
        assert_eq!(barred(&row, "avx512f,avx5,avx"), None);
    }

    #[test]
    fn every_kernel_of_this_build_that_can_run_here_works() {
        for row in examine(all(), "") {
            assert!(
                matches!(row.state(), State::Ready | State::Unavailable),
                "{}: {}",
                row.driver,
                row.state()
            );
        }
    }

    #[test]
    fn the_ecb_of_the_same_family_is_beside_each() {
        let rows = implementations().iter();
        let aes = rows.filter(|row| row.name.ends_with("(aes)") && row.code.sector().is_some());
        for row in aes.filter(|row| row.is_ready()) {
            let ecb = ecb_beside(row).unwrap();
            assert!(ecb.code.computes(Algorithm::AesEcb));
            assert_eq!(ecb.family, row.family);
        }
    }

    #[test]
    fn what_is_unavailable_lacks_a_feature_and_what_is_ready_none() {
        for row in examine(all(), "") {
            let lacks = !row.missing.is_empty();
            assert_eq!(row.state() == State::Unavailable, lacks, "{}", row.driver);
            assert!(
                row.features.iter().all(|name| cpu_has(name).is_some()),
                "{}: cpu_has() does not know all of {:?}",
                row.driver,
                row.features
            );
        }
        assert_eq!(cpu_has("sve2"), None);
    }

    #[test]
    fn priorities_leave_no_doubt() {
        let mut pairs: Vec<_> = (implementations().iter())
            .map(|row| (row.name, row.priority))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), implementations().len());
    }

    #[test]
    fn driver_names_are_unique() {
        let mut drivers: Vec<_> = implementations().iter().map(|row| row.driver).collect();
        drivers.sort_unstable();
        drivers.dedup();
        assert_eq!(drivers.len(), implementations().len());
    }
}
