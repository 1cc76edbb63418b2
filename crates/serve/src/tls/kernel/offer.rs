//! Cipher suites that the kernel's TLS supports, found by trying them.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::io::Errno;
use scrim_sys::kernel_tls::{self, Cipher, CryptoInfo, Direction, IV, Version};

/// Versions and ciphers that are tried: all that Scrim serves.
const TRIED: [(Version, Cipher); 6] = [
    (Version::Tls13, Cipher::Aes128Gcm),
    (Version::Tls13, Cipher::Aes256Gcm),
    (Version::Tls13, Cipher::ChaCha20Poly1305),
    (Version::Tls12, Cipher::Aes128Gcm),
    (Version::Tls12, Cipher::Aes256Gcm),
    (Version::Tls12, Cipher::ChaCha20Poly1305),
];

/// Support of this kernel for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Each version with each cipher; empty if the kernel has no TLS.
    pub suites: Vec<SuiteOffer>,
    /// Reason for which it has no TLS.
    pub missing: Option<Missing>,
    /// True if the kernel can change the keys of a connection, as TLS 1.3 requires. Otherwise the connection ends instead.
    pub rekey: bool,
}

/// Support for one version and cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuiteOffer {
    pub version: Version,
    pub cipher: Cipher,
    /// True if the kernel accepts a key for sending.
    pub send: bool,
    /// True if the kernel accepts a key for receiving.
    pub receive: bool,
    /// Error number (`errno(3)`) with which the kernel refuses a key.
    pub errno: Option<i32>,
}

/// Reason for which a kernel has no TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The module `tls` is not loaded, and could not be loaded.
    Module,
    /// The kernel is older than 4.13.
    TooOld,
    /// The process may not use kernel TLS.
    Forbidden,
    /// The probe failed for another reason, with this error number.
    Untried(i32),
}

impl Offer {
    /// Probes the kernel with connections of this process to itself, and keys that protect nothing. This loads the kernel
    /// module if the process may do that.
    #[must_use]
    pub fn probe() -> Self {
        let mut offer = Self {
            suites: Vec::new(),
            missing: None,
            rekey: false,
        };
        for (version, cipher) in TRIED {
            match Trial::new() {
                Ok(trial) => {
                    let (suite, rekey) = trial.run(version, cipher);
                    offer.suites.push(suite);
                    offer.rekey |= rekey;
                }
                Err(missing) => {
                    offer.missing = Some(missing);
                    offer.suites.clear();
                    break;
                }
            }
        }
        offer
    }

    /// Returns whether the kernel supports both directions of a connection with this cipher.
    #[must_use]
    pub fn takes(&self, version: Version, cipher: Cipher) -> bool {
        self.suites.iter().any(|suite| {
            (suite.version, suite.cipher) == (version, cipher) && suite.send && suite.receive
        })
    }

    /// Returns whether the kernel supports both directions with any cipher.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        self.suites.iter().any(|suite| suite.send && suite.receive)
    }
}

/// A connection for one probe.
struct Trial {
    socket: TcpStream,
    _peer: TcpStream,
}

impl Trial {
    fn new() -> Result<Self, Missing> {
        let pair = || -> io::Result<Self> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let peer = TcpStream::connect(listener.local_addr()?)?;
            let (socket, _) = listener.accept()?;
            Ok(Self {
                socket,
                _peer: peer,
            })
        };
        let trial = pair().map_err(|error| Missing::Untried(number(&error)))?;
        kernel_tls::attach(trial.socket.as_fd()).map_err(|error| Missing::of(&error))?;
        Ok(trial)
    }

    /// Tries keys for both directions, and then another key for each.
    fn run(self, version: Version, cipher: Cipher) -> (SuiteOffer, bool) {
        // Both directions have the same key here, and nothing is ever sent.
        let key = [0x5C; 32];
        let info = |byte| {
            CryptoInfo::new(version, cipher, &key[..cipher.key_len()], &[byte; IV], 0)
                .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let install =
            |direction, byte| kernel_tls::install(self.socket.as_fd(), direction, &info(byte)?);
        let send = install(Direction::Send, 1);
        let receive = install(Direction::Receive, 1);
        let rekey = version == Version::Tls13
            && send.is_ok()
            && receive.is_ok()
            && install(Direction::Send, 2).is_ok()
            && install(Direction::Receive, 2).is_ok();
        let suite = SuiteOffer {
            version,
            cipher,
            send: send.is_ok(),
            receive: receive.is_ok(),
            errno: send.and(receive).err().map(|error| number(&error)),
        };
        (suite, rekey)
    }
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

impl Missing {
    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => Self::Module,
            Some(Errno::NOPROTOOPT | Errno::NOSYS | Errno::OPNOTSUPP) => Self::TooOld,
            Some(Errno::PERM | Errno::ACCESS) => Self::Forbidden,
            _ => Self::Untried(number(error)),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module => f.write_str(
                "the kernel's module `tls` is not loaded: run `modprobe tls` as root, and name it in \
                 /etc/modules-load.d so that it is loaded at the next start; if there is no such module, the \
                 kernel was built without CONFIG_TLS",
            ),
            Self::TooOld => f.write_str(
                "this kernel has no TLS: it is older than 4.13, or built without CONFIG_TLS",
            ),
            Self::Forbidden => f.write_str(
                "this process may not use the kernel's TLS: a filter of system calls forbids \
                 setsockopt(TCP_ULP)",
            ),
            Self::Untried(number) => {
                let error = io::Error::from_raw_os_error(*number);
                write!(f, "the kernel's TLS could not be tried: {error}")
            }
        }
    }
}

impl fmt::Display for SuiteOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            Version::Tls13 => "TLS 1.3",
            Version::Tls12 => "TLS 1.2",
        };
        let cipher = match self.cipher {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        };
        write!(f, "{version} {cipher}: ")?;
        match (self.send, self.receive) {
            (true, true) => f.write_str("sends and receives"),
            (true, false) => f.write_str("only sends"),
            (false, true) => f.write_str("only receives"),
            (false, false) => f.write_str("no"),
        }?;
        match self.errno {
            Some(errno) => write!(f, " ({})", io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Offer {
    /// A line for each suite, and one about keys; or one about what is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(missing) = &self.missing {
            return write!(f, "{missing}");
        }
        for suite in &self.suites {
            writeln!(f, "{suite}")?;
        }
        f.write_str(match self.rekey {
            true => "changes keys",
            false => "cannot change keys: connections end instead",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_either_lacks_tls_or_says_which_suites_it_takes() {
        let offer = Offer::probe();
        match offer.missing {
            Some(missing) => {
                assert!(offer.suites.is_empty() && !offer.takes_any() && !offer.rekey);
                assert_eq!(offer.to_string(), missing.to_string());
            }
            None => {
                assert_eq!(offer.suites.len(), TRIED.len());
                for suite in &offer.suites {
                    assert_eq!(suite.errno.is_none(), suite.send && suite.receive);
                }
                assert_eq!(offer.to_string().lines().count(), TRIED.len() + 1);
            }
        }
    }

    #[test]
    fn what_is_missing_names_the_next_step() {
        let of = |errno: Errno| Missing::of(&errno.into());
        assert!(of(Errno::NOENT).to_string().contains("modprobe tls"));
        assert_eq!(of(Errno::NOPROTOOPT), Missing::TooOld);
        assert_eq!(of(Errno::PERM), Missing::Forbidden);
        let number = Errno::NOMEM.raw_os_error();
        assert_eq!(of(Errno::NOMEM), Missing::Untried(number));
    }

    #[test]
    fn a_suite_that_is_refused_says_by_which_error() {
        let mut suite = SuiteOffer {
            version: Version::Tls12,
            cipher: Cipher::ChaCha20Poly1305,
            send: true,
            receive: true,
            errno: None,
        };
        assert_eq!(
            suite.to_string(),
            "TLS 1.2 ChaCha20-Poly1305: sends and receives"
        );
        suite.receive = false;
        suite.errno = Some(Errno::INVAL.raw_os_error());
        assert!(suite.to_string().contains("only sends (Invalid argument"));
    }
}
