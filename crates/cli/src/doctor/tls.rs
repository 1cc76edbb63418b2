//! Examination of the kernel's TLS. It is tried only where that would not load its module.

use std::fmt::Write as _;
use std::io;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};
use scrim_serve::tls::kernel::{Cipher, Missing, Offer, SuiteOffer, Version};

use super::finding::{Finding, read};

const COST: &str = "HTTPS is sealed by Scrim itself, as everywhere; `sendfile` under TLS, and a network card's \
    own TLS, need the kernel's";

const LOAD: &str = "`sudo modprobe tls && echo tls | sudo tee /etc/modules-load.d/tls.conf`";

pub(super) fn findings() -> Vec<Finding> {
    let statistics = read("/proc/net/tls_stat");
    let protocols = read("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    let loaded = statistics.is_some()
        || protocols.split_ascii_whitespace().any(|word| word == "tls")
        || std::path::Path::new("/sys/module/tls").exists();
    // A process with the right to have the kernel load modules would load this one by the probe below.
    let may_load =
        capabilities(None).is_ok_and(|mine| mine.effective.contains(CapabilitySet::NET_ADMIN));
    if !loaded && may_load {
        return vec![absent(Missing::Module, modules().as_deref())];
    }
    all(&Offer::probe(), modules().as_deref(), statistics.as_deref())
}

/// List of the kernel's modules; `None` where it has no modules, or does not show them.
fn modules() -> Option<String> {
    let release = read("/proc/sys/kernel/osrelease")?;
    read(&format!("/lib/modules/{release}/modules.dep"))
}

fn all(offer: &Offer, modules: Option<&str>, statistics: Option<&str>) -> Vec<Finding> {
    if let Some(missing) = offer.missing {
        return vec![absent(missing, modules)];
    }
    vec![
        suites("kernel TLS 1.3", Version::Tls13, &offer.suites),
        suites("kernel TLS 1.2", Version::Tls12, &offer.suites),
        new_keys(offer.rekey),
        by_card(statistics),
    ]
}

/// `modules` is the kernel's list of them.
fn absent(missing: Missing, modules: Option<&str>) -> Finding {
    const NAME: &str = "kernel TLS";
    let has_module = modules.map(|list| list.lines().any(is_tls));
    match missing {
        Missing::Module => {
            let (found, remedy) = match has_module {
                Some(true) => ("the module tls is there, but not loaded", LOAD),
                Some(false) => (
                    "the module tls is not loaded, and not among this kernel's",
                    "the package with this kernel's further modules, or a kernel with CONFIG_TLS",
                ),
                None => ("the module tls is not loaded", LOAD),
            };
            Finding::missing(NAME, found, COST, remedy)
        }
        Missing::TooOld => Finding::missing(
            NAME,
            "this kernel has none",
            COST,
            "a kernel of 4.13 or newer with CONFIG_TLS",
        ),
        Missing::Forbidden => Finding::missing(
            NAME,
            "forbidden, by a filter of system calls",
            COST,
            "a filter that lets setsockopt(TCP_ULP) pass",
        ),
        Missing::Untried(number) => {
            let error = io::Error::from_raw_os_error(number);
            Finding::unknown(NAME, format!("it could not be tried: {error}"))
        }
    }
}

/// Returns whether a line, `PATH: PATHS`, is the module's: `kernel/net/tls/tls.ko.xz:`.
fn is_tls(line: &str) -> bool {
    let path = line.split(':').next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    file == "tls.ko" || file.starts_with("tls.ko.")
}

/// Finding about the cipher suites of a TLS version that the kernel takes.
fn suites(name: &'static str, version: Version, all: &[SuiteOffer]) -> Finding {
    let ours = all.iter().filter(|suite| suite.version == version);
    let (whole, part): (Vec<&SuiteOffer>, Vec<_>) =
        ours.partition(|suite| suite.send && suite.receive);
    let names: Vec<_> = whole.iter().map(|suite| cipher(suite.cipher)).collect();
    let mut found = names.join(", ");
    if part.is_empty() {
        return Finding::found(name, found + ": sent and received");
    }
    for suite in part {
        let between = if found.is_empty() { "" } else { "; " };
        let _ = write!(found, "{between}{}", shortcoming(suite));
    }
    Finding::missing(
        name,
        found,
        "connections with these are sealed by Scrim itself",
        "a newer kernel, with the modules of these ciphers",
    )
}

fn shortcoming(suite: &SuiteOffer) -> String {
    let name = cipher(suite.cipher);
    let what = match (suite.send, suite.receive) {
        (true, _) => format!("{name} is only sent"),
        (_, true) => format!("{name} is only received"),
        _ => format!("no {name}"),
    };
    let why = match suite.errno.map(Errno::from_raw_os_error) {
        None => return what,
        Some(Errno::NOENT) => "the kernel finds no code for it".to_owned(),
        Some(Errno::INVAL | Errno::NOPROTOOPT) => "the kernel does not know it".to_owned(),
        Some(error) => io::Error::from(error).to_string(),
    };
    format!("{what} ({why})")
}

fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => "AES-128-GCM",
        Cipher::Aes256Gcm => "AES-256-GCM",
        Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
    }
}

fn new_keys(rekey: bool) -> Finding {
    const NAME: &str = "new TLS keys";
    if rekey {
        return Finding::found(NAME, "the kernel takes them while a connection lasts");
    }
    Finding::missing(
        NAME,
        "the kernel takes none while a connection lasts",
        "a TLS 1.3 connection that the kernel seals ends where its keys would have to change",
        "Linux 6.14 or newer",
    )
}

/// `statistics` is `/proc/net/tls_stat`: a name and a number a line.
fn by_card(statistics: Option<&str>) -> Finding {
    const NAME: &str = "TLS by card";
    let lines = statistics.unwrap_or_default().lines();
    let count = lines.filter_map(|line| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        let number: u64 = number.trim().parse().ok()?;
        matches!(name, "TlsTxDevice" | "TlsRxDevice").then_some(number)
    });
    match count.fold(0, u64::saturating_add) {
        0 => Finding::unknown(
            NAME,
            "no connection so far; what a card can do says `ethtool -k DEVICE | grep tls-hw`",
        ),
        count => Finding::found(NAME, format!("{count} directions of connections so far")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn suite(version: Version, cipher: Cipher, receive: bool) -> SuiteOffer {
        SuiteOffer {
            version,
            cipher,
            send: true,
            receive,
            errno: (!receive).then_some(22),
        }
    }

    fn offer(missing: Option<Missing>) -> Offer {
        Offer {
            suites: vec![
                suite(Version::Tls13, Cipher::Aes128Gcm, true),
                suite(Version::Tls13, Cipher::ChaCha20Poly1305, false),
                suite(Version::Tls12, Cipher::Aes256Gcm, true),
            ],
            missing,
            rekey: true,
        }
    }

    #[test]
    fn each_version_names_its_ciphers() {
        let found = all(
            &offer(None),
            None,
            Some("TlsTxDevice\t2\nTlsRxDevice  1\nTlsTxSw 9\n"),
        );
        let [new, old, keys, card] = &found[..] else {
            panic!("{} findings", found.len());
        };
        assert_eq!(
            new.found,
            "AES-128-GCM; ChaCha20-Poly1305 is only sent (the kernel does not know it)"
        );
        assert_eq!(new.state, State::Missing);
        assert_eq!(old.found, "AES-256-GCM: sent and received");
        assert_eq!((old.state, keys.state), (State::Found, State::Found));
        assert_eq!(card.found, "3 directions of connections so far");
        assert_eq!(
            by_card(Some("nonsense\nTlsTxDevice x\n")).state,
            State::Unknown
        );
        assert_eq!(new_keys(false).state, State::Missing);
    }

    #[test]
    fn why_there_is_none_is_said_once() {
        for missing in [Missing::Module, Missing::TooOld, Missing::Forbidden] {
            let found = all(&offer(Some(missing)), None, None);
            assert_eq!((found.len(), found[0].state), (1, State::Missing));
        }
        let found = all(&offer(Some(Missing::Untried(12))), None, None);
        assert_eq!(found[0].state, State::Unknown);
    }

    #[test]
    fn a_module_that_is_not_there_cannot_be_loaded() {
        let remedy = |modules| absent(Missing::Module, modules).remedy.unwrap();
        let there = "kernel/net/sctp/sctp.ko:\nkernel/net/tls/tls.ko.xz: kernel/x.ko\n";
        assert!(is_tls("tls.ko:"));
        assert!(!is_tls("kernel/x.ko: kernel/net/tls/tls.ko"));
        assert!(remedy(Some(there)).contains("modprobe tls"));
        assert!(!remedy(Some("kernel/net/mptcp/mptcp.ko:\n")).contains("modprobe"));
        assert!(remedy(None).contains("modprobe tls"));
    }
}
