//! Registry of implementations: those that exist, those usable in this process, and the one chosen.

use std::sync::OnceLock;

use crate::error::{CipherError, alternatives};
use crate::kernels::KERNELS;
use crate::kernels::descriptor::Kernel;
use crate::kernels::iv::{Ivs, SectorKernel};
use crate::kernels::run::Run;
use crate::sector::{Geometry, IvSector, SectorSize};
use crate::spec::{Algorithm, CipherSpec, IvMode};
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
    /// True if its time and its memory accesses are independent of keys and data.
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
    /// Its readiness in this process.
    pub state: State,
    kernel: &'static Kernel,
}

/// Every implementation, usable or not, in order of name and falling priority. The first call in a
/// process, here or to set up a cipher, reads `SCRIM_DISABLE` and runs the self-tests.
pub fn implementations() -> &'static [Implementation] {
    static ROWS: OnceLock<Vec<Implementation>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let disabled = std::env::var_os("SCRIM_DISABLE").unwrap_or_default();
        examine(KERNELS, &disabled.to_string_lossy())
    })
}

/// The implementations of `spec`'s cipher, usable or not, in order of falling priority.
pub fn implementations_of(spec: &CipherSpec) -> impl Iterator<Item = &'static Implementation> {
    let algorithm = spec.algorithm;
    let rows = implementations().iter();
    rows.filter(move |row| row.kernel.algorithm == algorithm)
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
    match row.state {
        State::Ready => Ok(row),
        state => Err(CipherError::DriverNotReady {
            driver: row.driver,
            state,
        }),
    }
}

/// The implementation of ECB that goes with `row`, to encrypt IVs: of the same family where that
/// has one, or else the best.
pub(crate) fn ecb_beside(row: &Implementation) -> Option<&'static Implementation> {
    let rows = implementations();
    let sibling = rows.iter().find(|other| {
        other.kernel.algorithm == Algorithm::AesEcb
            && other.kernel.family == row.kernel.family
            && other.state == State::Ready
    });
    sibling.or_else(|| best_of(rows, Algorithm::AesEcb))
}

impl Implementation {
    /// `None` for a key of a length that is not the cipher's, or on another CPU than the one
    /// examined.
    pub(crate) fn set_up(&self, key: &[u8]) -> Option<Box<dyn SectorKernel>> {
        (self.kernel.set_up)(key)
    }
}

fn best_of(rows: &[Implementation], algorithm: Algorithm) -> Option<&Implementation> {
    rows.iter()
        .filter(|row| row.kernel.algorithm == algorithm && row.state == State::Ready)
        .max_by_key(|row| row.priority)
}

/// The registry's rows for `kernels`, where `disabled` is the value of `SCRIM_DISABLE`.
fn examine(kernels: &'static [Kernel], disabled: &str) -> Vec<Implementation> {
    let mut rows: Vec<_> = kernels
        .iter()
        .map(|kernel| Implementation {
            name: kernel.algorithm.name(),
            driver: kernel.driver,
            family: kernel.family,
            priority: kernel.priority,
            constant_time: kernel.constant_time,
            features: kernel.features,
            missing: missing(kernel.features),
            block_size: block_size(kernel.algorithm),
            key_sizes: kernel.algorithm.key_sizes(),
            iv_size: iv_size(kernel.algorithm),
            state: state(kernel, disabled),
            kernel,
        })
        .collect();
    rows.sort_by_key(|row| (row.name, std::cmp::Reverse(row.priority)));
    rows
}

/// Block size in bytes, like the kernel's `blocksize`.
fn block_size(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::AesXts | Algorithm::AesCbc | Algorithm::AesEcb => 16,
        Algorithm::AesCtr | Algorithm::NullEcb => 1,
    }
}

/// Length of the IV in bytes, like the kernel's `ivsize`.
fn iv_size(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::AesXts | Algorithm::AesCbc | Algorithm::AesCtr => 16,
        Algorithm::AesEcb | Algorithm::NullEcb => 0,
    }
}

fn missing(features: &[&'static str]) -> Vec<&'static str> {
    let lacks = |feature: &&&'static str| cpu_has(feature) == Some(false);
    features.iter().filter(lacks).copied().collect()
}

/// Checks whether this CPU has a feature, by Rust's name for it; `None` for a name that is not known here.
fn cpu_has(feature: &str) -> Option<bool> {
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

fn state(kernel: &Kernel, disabled: &str) -> State {
    let named = |name: &str| {
        let is_feature = |feature: &&str| match name {
            "avx512" => feature.starts_with(name),
            _ => **feature == *name,
        };
        name == kernel.driver || name == kernel.family || kernel.features.iter().any(is_feature)
    };
    if disabled.split(',').map(str::trim).any(named) {
        State::Disabled
    } else if !(kernel.runs_here)() {
        State::Unavailable
    } else if passes_self_test(kernel) {
        State::Ready
    } else {
        State::SelfTestFailed
    }
}

/// Sectors of the self-test: whole batches of tweaks for any kernel, and one more.
const SELF_TEST_SECTORS: usize = 17;

/// Numbers of sectors in the calls of the self-test; together they are [`SELF_TEST_SECTORS`].
const SELF_TEST_CALLS: [usize; 7] = [1, 1, 3, 1, 2, 8, 1];

/// For each key size the [`digest`] of the self-test's ciphertext, made with OpenSSL by
/// `tests/vectors/make.py`.
fn self_test_digests(algorithm: Algorithm) -> &'static [(usize, u64)] {
    match algorithm {
        Algorithm::AesXts => &[
            (32, 0xef4c_dc84_6848_bbf9),
            (48, 0x4bc7_aaa7_ef81_cbbc),
            (64, 0x4da6_5bab_6e24_6c67),
        ],
        Algorithm::AesCbc => &[
            (16, 0xeb69_7b23_0e3a_3a69),
            (24, 0xbbe8_efa4_5be1_2c4a),
            (32, 0x538a_d08f_74c8_2e1d),
        ],
        Algorithm::AesCtr => &[
            (16, 0x8abc_9d97_e289_bb23),
            (24, 0x5749_1ce2_9308_b967),
            (32, 0x6b55_cfca_8bc3_4461),
        ],
        Algorithm::AesEcb => &[
            (16, 0x9d8d_b238_01a5_65f3),
            (24, 0x2455_9cd8_b8aa_0415),
            (32, 0x0a65_c285_4391_6cbe),
        ],
        // Of the plaintext.
        Algorithm::NullEcb => &[(0, 0x147c_f7fe_f600_1818)],
    }
}

/// Encrypts a known run with known keys, compares with the result of another implementation, and
/// decrypts it again: in place, from one buffer to another, and in calls that continue where the last
/// one stopped. Data units that are not sectors begin as sectors do.
fn passes_self_test(kernel: &Kernel) -> bool {
    let key: Vec<u8> = (0..64).map(|i: u8| i.wrapping_mul(37) ^ 0x5a).collect();
    let plain: Vec<u8> = (0..SELF_TEST_SECTORS * 512)
        .map(|i| (i * 7 + i / 251).to_le_bytes()[0])
        .collect();
    let ivs_from = |sector: u64| {
        let geometry = Geometry::new(SectorSize::S512);
        Ivs::new(IvMode::Plain64, IvSector(0x1_ffff_fff0 + sector), geometry)
    };
    let ivs = || ivs_from(0);
    let passes = |&(key_size, expected): &(usize, u64)| {
        let Some(keyed) = key.get(..key_size).and_then(kernel.set_up) else {
            return false;
        };
        let mut run = plain.clone();
        let mut other = vec![0; run.len()];
        keyed.encrypt(ivs(), Run::in_place(512, &mut run));
        keyed.encrypt(ivs(), Run::copy(512, &plain, &mut other));
        let encrypts = digest(&run) == expected && run == other;
        other.copy_from_slice(&plain);
        let mut rest = &mut other[..];
        let mut sector = 0;
        for sectors in SELF_TEST_CALLS {
            let (call, behind) = rest.split_at_mut(sectors * 512);
            keyed.encrypt(ivs_from(sector), Run::in_place(512, call));
            sector += sectors as u64;
            rest = behind;
        }
        let goes_on = run == other;
        let begins = [16, 48, 528].iter().all(|unit| {
            let mut data = plain[..*unit].to_vec();
            keyed.encrypt(ivs(), Run::in_place(*unit, &mut data));
            let same = (*unit).min(512);
            let begins = data[..same] == run[..same];
            keyed.decrypt(ivs(), Run::in_place(*unit, &mut data));
            begins && data == plain[..*unit]
        });
        keyed.decrypt(ivs(), Run::copy(512, &run, &mut other));
        keyed.decrypt(ivs(), Run::in_place(512, &mut run));
        encrypts && goes_on && begins && run == plain && other == plain
    };
    self_test_digests(kernel.algorithm).iter().all(passes)
}

/// FNV-1a of 64 bits: it has to detect broken code, not to withstand an attack.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            priority: 1,
            ..crate::kernels::portable::XTS
        },
        Kernel {
            driver: "xts-aes-broken",
            family: "broken",
            priority: 3,
            set_up: |_| Some(Box::new(Broken)),
            ..crate::kernels::portable::XTS
        },
        Kernel {
            driver: "xts-aes-elsewhere",
            family: "elsewhere",
            priority: 4,
            features: &["sve2"],
            runs_here: || false,
            set_up: |_| None,
            ..crate::kernels::portable::XTS
        },
        Kernel {
            driver: "xts-aes-fast",
            family: "fast",
            priority: 2,
            features: &["avx9"],
            ..crate::kernels::portable::XTS
        },
    ];

    fn states(disabled: &str) -> Vec<(&'static str, State)> {
        let rows = examine(SOME, disabled);
        rows.iter().map(|row| (row.driver, row.state)).collect()
    }

    fn chosen(disabled: &str) -> Option<&'static str> {
        best_of(&examine(SOME, disabled), Algorithm::AesXts).map(|row| row.driver)
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
        let kernel = Kernel {
            features: &["aes", "avx512bw"],
            ..crate::kernels::portable::XTS
        };
        assert_eq!(state(&kernel, "avx512"), State::Disabled);
        assert_eq!(state(&kernel, "avx512f,avx5,avx"), State::Ready);
    }

    #[test]
    fn every_kernel_of_this_build_that_can_run_here_works() {
        for row in examine(KERNELS, "") {
            assert!(
                matches!(row.state, State::Ready | State::Unavailable),
                "{}: {}",
                row.driver,
                row.state
            );
        }
    }

    #[test]
    fn the_ecb_of_the_same_family_is_beside_each() {
        let is_ready = |row: &&Implementation| row.state == State::Ready;
        let rows = implementations().iter();
        let aes = rows.filter(|row| row.name.ends_with("(aes)"));
        for row in aes.filter(is_ready) {
            let ecb = ecb_beside(row).unwrap();
            assert_eq!(ecb.kernel.algorithm, Algorithm::AesEcb);
            assert_eq!(ecb.kernel.family, row.kernel.family);
        }
    }

    #[test]
    fn what_is_unavailable_lacks_a_feature_and_what_is_ready_none() {
        for row in examine(KERNELS, "") {
            let lacks = !row.missing.is_empty();
            assert_eq!(row.state == State::Unavailable, lacks, "{}", row.driver);
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
    fn every_key_size_is_tested() {
        for algorithm in Algorithm::ALL {
            let tested = self_test_digests(*algorithm).iter().map(|(size, _)| *size);
            assert_eq!(tested.collect::<Vec<_>>(), algorithm.key_sizes());
        }
    }

    #[test]
    fn priorities_leave_no_doubt() {
        let mut pairs: Vec<_> = KERNELS
            .iter()
            .map(|kernel| (kernel.algorithm.name(), kernel.priority))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), KERNELS.len());
    }

    #[test]
    fn driver_names_are_unique() {
        let mut drivers: Vec<_> = KERNELS.iter().map(|kernel| kernel.driver).collect();
        drivers.sort_unstable();
        drivers.dedup();
        assert_eq!(drivers.len(), KERNELS.len());
    }
}
