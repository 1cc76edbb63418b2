//! Choice between kernel and user space for the records of a connection, with its reason.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::keys;
use super::offer::{Missing, Offer};
use crate::tls::{Established, Protocol};

/// Configured use of kernel TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The kernel, if it supports the cipher suite.
    #[default]
    Auto,
    /// Like `Auto`, but the server does not start if the kernel supports no cipher suite.
    On,
    Off,
}

/// Reason for which a connection's records are made in user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackReason {
    /// The configuration asks for it.
    Off,
    /// The module `tls` is not loaded.
    Module,
    /// The kernel has no TLS.
    TooOld,
    /// The process may not use kernel TLS.
    Forbidden,
    /// The kernel's support could not be probed when the server started.
    Untried,
    /// The kernel does not support the version with this cipher suite.
    Suite,
    /// The connection uses HTTP/2, whose frames are made in user space.
    Http2,
    /// The client closed the connection before the kernel got the keys.
    NotEstablished,
    /// The kernel refused the keys, although it supports the cipher suite.
    Refused,
}

/// Implementation of a connection's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    Kernel,
    /// Scrim, in user space.
    User(FallbackReason),
}

/// Configured mode, and the cipher suites that the kernel supports.
#[derive(Debug, Clone)]
pub struct Offload {
    mode: Mode,
    offer: Option<Arc<Offer>>,
}

/// Reason for which [`Mode::On`] is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadError {
    /// The kernel has no TLS.
    Missing(Missing),
    /// The kernel has TLS, but supports none of the cipher suites.
    NoSuite,
}

impl FallbackReason {
    pub const ALL: [Self; 9] = [
        Self::Off,
        Self::Module,
        Self::TooOld,
        Self::Forbidden,
        Self::Untried,
        Self::Suite,
        Self::Http2,
        Self::NotEstablished,
        Self::Refused,
    ];

    /// A short name, for logs and figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Module => "no-module",
            Self::TooOld => "no-kernel-tls",
            Self::Forbidden => "forbidden",
            Self::Untried => "untried",
            Self::Suite => "suite",
            Self::Http2 => "http2",
            Self::NotEstablished => "not-established",
            Self::Refused => "refused",
        }
    }
}

impl From<Missing> for FallbackReason {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Module => Self::Module,
            Missing::TooOld => Self::TooOld,
            Missing::Forbidden => Self::Forbidden,
            Missing::Untried(_) => Self::Untried,
        }
    }
}

impl Path {
    /// Iterates over all values: the kernel, then user space by reason.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Kernel).chain(FallbackReason::ALL.map(Self::User))
    }

    /// Index of the value in [`all`](Self::all).
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Kernel => 0,
            Self::User(why) => 1 + why as usize,
        }
    }

    /// Name for logs and figures: `kernel` or `user`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::User(_) => "user",
        }
    }

    /// The reason's short name; `None` where the kernel makes the records.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Kernel => None,
            Self::User(why) => Some(why.name()),
        }
    }
}

pub const PATHS: usize = 1 + FallbackReason::ALL.len();

impl Offload {
    /// Probes the kernel, unless the mode is [`Mode::Off`].
    ///
    /// # Errors
    /// If the mode is [`Mode::On`] and the kernel supports no cipher suite.
    pub fn new(mode: Mode) -> Result<Self, OffloadError> {
        let offer = (mode != Mode::Off).then(|| Arc::new(Offer::probe()));
        Self::with(mode, offer)
    }

    fn with(mode: Mode, offer: Option<Arc<Offer>>) -> Result<Self, OffloadError> {
        if let (Mode::On, Some(offer)) = (mode, &offer)
            && !offer.takes_any()
        {
            return Err(match offer.missing {
                Some(missing) => OffloadError::Missing(missing),
                None => OffloadError::NoSuite,
            });
        }
        Ok(Self { mode, offer })
    }

    /// Mode given to [`Offload::new`].
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Cipher suites that the kernel supports; `None` if it was not probed.
    #[must_use]
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_deref()
    }

    /// Chooses for a connection: the kernel's offer, or the reason for user space.
    pub(crate) fn choose(&self, established: &Established) -> Result<&Offer, FallbackReason> {
        let offer = self.offer.as_deref().ok_or(FallbackReason::Off)?;
        if let Some(missing) = offer.missing {
            return Err(missing.into());
        }
        let suites = [&established.sending, &established.receiving].map(keys::suite);
        let taken = suites
            .into_iter()
            .all(|suite| suite.is_some_and(|(version, cipher)| offer.takes(version, cipher)));
        if !taken {
            return Err(FallbackReason::Suite);
        }
        match established.facts.protocol {
            Protocol::Http2 => Err(FallbackReason::Http2),
            Protocol::Http11 | Protocol::AcmeTls => Ok(offer),
        }
    }
}

impl fmt::Display for OffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => missing.fmt(f),
            Self::NoSuite => {
                f.write_str("this kernel's TLS supports none of the offered cipher suites")
            }
        }?;
        f.write_str(
            "; use --tls-offload auto to make records in user space where the kernel cannot",
        )
    }
}

impl std::error::Error for OffloadError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::kernel::SuiteOffer;
    use crate::tls::record::Direction;
    use crate::tls::{Facts, Protocol};
    use rustls::ConnectionTrafficSecrets;
    use scrim_sys::kernel_tls::{Cipher, Version};

    fn established(protocol: Protocol) -> Established {
        let direction = || Direction {
            sequence: 0,
            secrets: ConnectionTrafficSecrets::Aes256Gcm {
                key: [7; 32].into(),
                iv: [7; 12].into(),
            },
            tls13: true,
        };
        Established {
            facts: Facts {
                version: "TLSv1.3",
                suite: "TLS_AES_256_GCM_SHA384",
                protocol,
                resumed: false,
                group: None,
            },
            sending: direction(),
            receiving: direction(),
            kernel: None,
            server_name: None,
        }
    }

    fn offer(missing: Option<Missing>, suite: Option<(Cipher, bool)>) -> Option<Arc<Offer>> {
        let suite = suite.map(|(cipher, receive)| SuiteOffer {
            version: Version::Tls13,
            cipher,
            send: true,
            receive,
            errno: None,
        });
        Some(Arc::new(Offer {
            suites: suite.into_iter().collect(),
            missing,
            rekey: false,
        }))
    }

    #[test]
    fn a_connection_that_the_kernel_does_not_get_says_why() {
        let chosen = |mode, offer, protocol| {
            let offload = Offload::with(mode, offer).unwrap();
            offload.choose(&established(protocol)).map(drop)
        };
        let taken = || offer(None, Some((Cipher::Aes256Gcm, true)));
        let auto = |offer, protocol| chosen(Mode::Auto, offer, protocol);
        assert_eq!(auto(taken(), Protocol::Http11), Ok(()));
        assert_eq!(chosen(Mode::On, taken(), Protocol::Http11), Ok(()));
        assert_eq!(auto(taken(), Protocol::Http2), Err(FallbackReason::Http2));
        assert_eq!(
            chosen(Mode::Off, None, Protocol::Http11),
            Err(FallbackReason::Off)
        );
        for (missing, why) in [
            (Missing::Module, FallbackReason::Module),
            (Missing::TooOld, FallbackReason::TooOld),
            (Missing::Forbidden, FallbackReason::Forbidden),
            (Missing::Untried(12), FallbackReason::Untried),
        ] {
            assert_eq!(auto(offer(Some(missing), None), Protocol::Http11), Err(why));
        }
        let others = [
            None,
            Some((Cipher::Aes128Gcm, true)),
            Some((Cipher::Aes256Gcm, false)),
        ];
        for suite in others {
            assert_eq!(
                auto(offer(None, suite), Protocol::Http11),
                Err(FallbackReason::Suite)
            );
        }
    }

    #[test]
    fn on_is_refused_where_the_kernel_takes_nothing_and_names_the_remedy() {
        let error = |offer| Offload::with(Mode::On, offer).unwrap_err();
        let missing = error(offer(Some(Missing::Module), None));
        assert!(missing.to_string().contains("modprobe tls"), "{missing}");
        assert!(missing.to_string().contains("--tls-offload auto"));
        let half = error(offer(None, Some((Cipher::Aes128Gcm, false))));
        assert_eq!(half, OffloadError::NoSuite);
    }

    #[test]
    fn what_the_kernel_of_this_machine_says_is_heard() {
        let auto = Offload::new(Mode::Auto).unwrap();
        let offer = auto.offer().unwrap();
        assert_eq!(Offload::new(Mode::On).is_ok(), offer.takes_any());
        assert!(Offload::new(Mode::Off).unwrap().offer().is_none());
        let why = auto.choose(&established(Protocol::Http11)).map(drop).err();
        match offer.missing {
            Some(missing) => assert_eq!(why, Some(missing.into())),
            None => assert!(matches!(why, None | Some(FallbackReason::Suite))),
        }
    }

    #[test]
    fn every_path_has_its_place_and_a_name_of_its_own() {
        let all: Vec<_> = Path::all().collect();
        assert_eq!(all.len(), PATHS);
        let mut names = std::collections::HashSet::new();
        for (place, path) in all.into_iter().enumerate() {
            assert_eq!(path.index(), place);
            assert!(names.insert((path.name(), path.reason())));
            assert_eq!(path.reason().is_none(), path == Path::Kernel);
        }
    }
}
