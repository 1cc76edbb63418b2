//! Names that a certificate is wanted for, and the authority that is asked for it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;
use rustls::pki_types::DnsName;

/// Let's Encrypt, for browsers.
const PRODUCTION: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Let's Encrypt, for trying things out: generous limits, and certificates that browsers do not trust.
const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
/// Names in one certificate, at most: Let's Encrypt's limit.
const NAMES_MAX: usize = 100;

/// Names that a certificate is wanted for, and the authority that is asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(super) directory: String,
    pub(super) names: Vec<String>,
    pub(super) contact: Option<String>,
    pub(super) state: PathBuf,
    pub(super) ca: Option<PathBuf>,
}

/// Reason for which there can be no certificate by these settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsError {
    /// The authority's terms are not agreed to.
    Terms,
    /// There is no folder for the account and the certificate.
    State,
    /// The directory is not an HTTPS URL.
    Directory(String),
    /// There is no name that the certificate could be for.
    NoNames,
    /// There are more names than an authority takes.
    TooManyNames(usize),
    /// A name that this challenge cannot prove.
    Name(String),
    /// A contact that is not an e-mail address.
    Contact(String),
}

impl Settings {
    /// Checks what a configuration says. `directory` is a URL, `staging`, or Let's Encrypt's if there is none;
    /// `state` is the folder for what has to be kept, and `ca` a PEM file with the roots by which the
    /// directory's own certificate is checked, instead of the system's.
    ///
    /// # Errors
    /// When there could be no certificate by these settings.
    pub fn new(
        agreed: bool,
        directory: Option<&str>,
        names: &[String],
        contact: Option<&str>,
        state: PathBuf,
        ca: Option<PathBuf>,
    ) -> Result<Self, SettingsError> {
        if !agreed {
            return Err(SettingsError::Terms);
        }
        if state.as_os_str().is_empty() {
            return Err(SettingsError::State);
        }
        let directory = match directory {
            None => PRODUCTION,
            Some("staging") => STAGING,
            Some(url) if is_https(url) => url,
            Some(url) => return Err(SettingsError::Directory(url.to_owned())),
        };
        let contact = contact.map(mail).transpose()?;
        Ok(Self {
            directory: directory.to_owned(),
            names: checked(names)?,
            contact,
            state,
            ca,
        })
    }

    /// The names of the certificate, in lower case.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

fn is_https(url: &str) -> bool {
    url.parse::<Uri>()
        .is_ok_and(|url| url.scheme_str() == Some("https") && url.host().is_some())
}

/// `mailto:` and the address, checked so that it hides no other address or header.
fn mail(address: &str) -> Result<String, SettingsError> {
    let plain = |c: char| c.is_ascii_graphic() && !",?%:".contains(c);
    match address.split_once('@') {
        Some((user, host))
            if !user.is_empty() && !host.is_empty() && address.chars().all(plain) =>
        {
            Ok(format!("mailto:{address}"))
        }
        _ => Err(SettingsError::Contact(address.to_owned())),
    }
}

fn checked(names: &[String]) -> Result<Vec<String>, SettingsError> {
    let mut all = Vec::new();
    for name in names {
        // A wildcard takes DNS to prove, and a bare number TLS has no name for.
        let sound = DnsName::try_from(name.as_str()).is_ok() && name.parse::<IpAddr>().is_err();
        if !sound || name.ends_with('.') {
            return Err(SettingsError::Name(name.clone()));
        }
        let name = name.to_ascii_lowercase();
        if !all.contains(&name) {
            all.push(name);
        }
    }
    match all.len() {
        0 => Err(SettingsError::NoNames),
        1..=NAMES_MAX => Ok(all),
        count => Err(SettingsError::TooManyNames(count)),
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terms => f.write_str(
                "acme: an authority issues certificates only to users who agree to its terms of service; read \
                 them, and set agree-to-terms = true",
            ),
            Self::State => f.write_str(
                "acme: the account and the certificate need a permanent folder; name one (state = \
                 \"/var/lib/…\")",
            ),
            Self::Directory(url) => write!(
                f,
                "acme: directory: {url:?} is neither a URL that begins with https:// nor \"staging\""
            ),
            Self::NoNames => f.write_str(
                "acme: the certificate needs at least one name; name the hosts of a [[site]], or list them here \
                 (names = [\"…\"])",
            ),
            Self::TooManyNames(count) => write!(
                f,
                "acme: a certificate can have at most {NAMES_MAX} names, and {count} are listed; leave some out"
            ),
            Self::Name(name) => write!(
                f,
                "acme: {name:?} is not a DNS name that TLS-ALPN-01 can validate; list host names without `*`, and no \
                 IP addresses"
            ),
            Self::Contact(address) => {
                write!(f, "acme: contact: {address:?} is not an e-mail address")
            }
        }
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(directory: Option<&str>, names: &[&str]) -> Result<Settings, SettingsError> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        Settings::new(true, directory, &names, None, "state".into(), None)
    }

    #[test]
    fn a_directory_is_lets_encrypts_if_nobody_says_otherwise() {
        let of = |directory| settings(directory, &["a.example"]).map(|s| s.directory);
        assert_eq!(of(None).unwrap(), PRODUCTION);
        assert_eq!(of(Some("staging")).unwrap(), STAGING);
        assert_eq!(
            of(Some("https://ca.lan:9000/acme")).unwrap(),
            "https://ca.lan:9000/acme"
        );
        for wrong in ["http://ca.lan/acme", "production", "", "https://"] {
            let error = SettingsError::Directory(wrong.to_owned());
            assert_eq!(of(Some(wrong)), Err(error));
        }
    }

    #[test]
    fn names_are_dns_names_each_once_and_in_lower_case() {
        let named = settings(None, &["A.example", "a.example", "b.example"]).unwrap();
        assert_eq!(named.names(), ["a.example", "b.example"]);
        for wrong in ["*.example", "127.0.0.1", "::1", "a b", "", "a.example."] {
            let error = SettingsError::Name(wrong.to_owned());
            assert_eq!(settings(None, &["a.example", wrong]), Err(error));
        }
        assert_eq!(settings(None, &[]), Err(SettingsError::NoNames));
        let many: Vec<_> = (0..101).map(|n| format!("n{n}.example")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(settings(None, &many), Err(SettingsError::TooManyNames(101)));
    }

    #[test]
    fn nobody_agrees_or_keeps_keys_without_being_told_to() {
        let names = ["a.example".to_owned()];
        let unsaid = Settings::new(false, None, &names, None, "state".into(), None);
        assert_eq!(unsaid, Err(SettingsError::Terms));
        let nowhere = Settings::new(true, None, &names, None, PathBuf::new(), None);
        assert_eq!(nowhere, Err(SettingsError::State));
    }

    #[test]
    fn a_contact_is_one_address() {
        assert_eq!(mail("me@a.example").unwrap(), "mailto:me@a.example");
        for wrong in ["me", "@a", "me@", "me@a,you@b", "me@a?cc=you@b", "me @a"] {
            assert_eq!(mail(wrong), Err(SettingsError::Contact(wrong.to_owned())));
        }
    }
}
