//! Errors of specifications and of setting up a cipher.

use std::error::Error;
use std::fmt;

use crate::spec::CipherSpec;
use crate::state::State;

/// Most characters of a foreign name that an error repeats.
const NAME_MAX: usize = 64;

/// Reason for which a specification was not understood or a [`SectorCipher`](crate::SectorCipher) not made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CipherError {
    /// The specification has none of the forms that [`CipherSpec`] lists.
    Malformed {
        /// The specification as given, cut short where it is long.
        spec: String,
    },
    /// The specification names no IV, and its mode needs one.
    MissingIv {
        /// The specification as given, cut short where it is long.
        spec: String,
        /// The mode, such as `cbc`.
        mode: &'static str,
    },
    /// One part of the specification is unknown.
    Unsupported {
        /// The specification as given, cut short where it is long.
        spec: String,
        /// `cipher`, `mode`, `IV` or `driver`.
        part: &'static str,
        /// The part as given, cut short where it is long.
        name: String,
        /// The names that may stand there: `a, b or c`.
        supported: String,
    },
    /// The hash of `essiv:hash` is unknown, or its digest is no key of the cipher.
    EssivHash {
        /// The specification as given, cut short where it is long.
        spec: String,
        /// The hash as given, cut short where it is long.
        hash: String,
        /// The names that may stand there: `a, b or c`.
        supported: String,
    },
    /// The volume key has a length that the cipher does not take.
    KeySize {
        /// The cipher that was to use the key.
        spec: CipherSpec,
        /// Length of the key given, in bytes.
        bytes: usize,
    },
    /// There is no driver of this name for the cipher.
    UnknownDriver {
        /// The name that was asked for, cut short where it is long.
        driver: String,
        /// The cipher that was to be driven.
        spec: CipherSpec,
        /// The drivers that the cipher has: `a, b or c`.
        known: String,
    },
    /// The driver exists but may not be used in this process.
    DriverNotReady {
        driver: &'static str,
        /// Reason for which it may not be used.
        state: State,
    },
    /// Every driver of the cipher is disabled, failed its self-test or does not run on this CPU.
    NoDriver {
        /// The cipher that was to be driven.
        spec: CipherSpec,
    },
}

impl CipherError {
    pub(crate) fn malformed(spec: &str) -> Self {
        Self::Malformed { spec: cut(spec) }
    }

    pub(crate) fn missing_iv(spec: &str, mode: &'static str) -> Self {
        Self::MissingIv {
            spec: cut(spec),
            mode,
        }
    }

    pub(crate) fn essiv_hash(spec: &str, hash: &str, supported: String) -> Self {
        Self::EssivHash {
            spec: cut(spec),
            hash: cut(hash),
            supported,
        }
    }

    pub(crate) fn unsupported(
        spec: &str,
        part: &'static str,
        name: &str,
        supported: String,
    ) -> Self {
        Self::Unsupported {
            spec: cut(spec),
            part,
            name: cut(name),
            supported,
        }
    }

    pub(crate) fn unknown_driver(driver: &str, spec: &CipherSpec, known: String) -> Self {
        Self::UnknownDriver {
            driver: cut(driver),
            spec: spec.clone(),
            known,
        }
    }
}

fn cut(name: &str) -> String {
    let mut short: String = name.chars().take(NAME_MAX).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}

/// `a, b or c`.
pub(crate) fn alternatives(names: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let mut names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() {
        last
    } else {
        format!("{} or {last}", names.join(", "))
    }
}

impl fmt::Display for CipherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { spec } => write!(
                f,
                "the cipher specification {spec:?} is neither of the form cipher-mode-iv nor \
                 capi:mode(cipher)-iv; write it like aes-xts-plain64"
            ),
            Self::MissingIv { spec, mode } => {
                let usual = match *mode {
                    "lrw" => "-benbi",
                    "adiantum" => "-plain64",
                    _ => "-plain64 or -essiv:sha256",
                };
                write!(
                    f,
                    "the cipher specification {spec:?} names no IV, which {mode} needs; add one, such as {usual}"
                )
            }
            Self::EssivHash {
                spec,
                hash,
                supported,
            } => write!(
                f,
                "the hash {hash:?} in the cipher specification {spec:?} cannot be used for ESSIV; \
                 supported, since their digests are keys of the cipher: {supported}"
            ),
            Self::Unsupported {
                spec,
                part,
                name,
                supported,
            } => write!(
                f,
                "the {part} {name:?} in the cipher specification {spec:?} is not supported; \
                 supported: {supported}"
            ),
            Self::KeySize { spec, bytes } if spec.is_null() => {
                write!(f, "{spec} takes no volume key, not one of {bytes} bytes")
            }
            Self::KeySize { spec, bytes } => {
                let sizes = alternatives(spec.key_sizes());
                let tweak_key = match spec.tweak_key_size() {
                    0 => String::new(),
                    bytes => format!(", the last {bytes} being the tweak key"),
                };
                write!(
                    f,
                    "{spec} takes a volume key of {sizes} bytes{tweak_key}, not of {bytes}"
                )
            }
            Self::UnknownDriver {
                driver,
                spec,
                known,
            } => write!(f, "{spec} has no driver {driver:?}; use {known}"),
            Self::DriverNotReady { driver, state } => {
                write!(f, "the driver {driver} cannot be used: {state}")
            }
            Self::NoDriver { spec } => write!(
                f,
                "no driver for {spec} can be used in this process; look at SCRIM_DISABLE and at \
                 the self-tests of the drivers"
            ),
        }
    }
}

impl Error for CipherError {}
