//! The sites that are served, selected by host.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::http::Authority;
use crate::site::Site;

/// All sites, with the choice among them by host.
pub struct Sites {
    sites: Vec<Arc<Site>>,
    /// Indexes of sites by host in lower case.
    by_name: HashMap<Box<str>, usize>,
    /// The site for all other hosts.
    other: Option<usize>,
}

/// Conflict between the names of sites.
#[derive(Debug)]
pub enum SitesError {
    /// Two sites are for the same host.
    Twice {
        /// The host; `None` for all hosts that are not named.
        host: Option<String>,
    },
    /// A name is not the name of a host.
    Name { name: String },
}

impl Sites {
    /// Makes the set of sites from each site with its hosts; a site without hosts is for all others.
    ///
    /// # Errors
    /// When two sites are for the same host, or a name is not a host's.
    pub fn new(named: impl IntoIterator<Item = (Vec<String>, Site)>) -> Result<Self, SitesError> {
        let mut sites = Self {
            sites: Vec::new(),
            by_name: HashMap::new(),
            other: None,
        };
        for (names, site) in named {
            let number = sites.sites.len();
            sites.sites.push(Arc::new(site));
            if names.is_empty() && sites.other.replace(number).is_some() {
                return Err(SitesError::Twice { host: None });
            }
            for name in names {
                let host = host(&name).ok_or_else(|| SitesError::Name { name: name.clone() })?;
                if sites.by_name.insert(host, number).is_some() {
                    return Err(SitesError::Twice { host: Some(name) });
                }
            }
        }
        Ok(sites)
    }

    /// Returns whether a site is for this host by name.
    pub(crate) fn names(&self, host: &str) -> bool {
        self.named(host).is_some()
    }

    /// Returns whether a host is served here.
    pub(crate) fn serves(&self, host: &str) -> bool {
        self.site(Some(host)).is_some()
    }

    /// The site for a host, or for requests that name none.
    pub(crate) fn site(&self, host: Option<&str>) -> Option<&Arc<Site>> {
        let named = host.and_then(|host| self.named(host));
        self.sites.get(*named.or(self.other.as_ref())?)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.sites.iter()
    }

    fn named(&self, host: &str) -> Option<&usize> {
        // Without names there is at most the site for all hosts.
        if self.by_name.is_empty() {
            return None;
        }
        let name = Authority::parse(host).ok()?.name;
        let name = name.strip_suffix('.').unwrap_or(name);
        match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => self.by_name.get(name.to_ascii_lowercase().as_str()),
            false => self.by_name.get(name),
        }
    }
}

/// Normalizes a host name for the lookup: in lower case, without a dot at its end.
fn host(name: &str) -> Option<Box<str>> {
    let authority = Authority::parse(name).ok()?;
    let host = authority.name.strip_suffix('.').unwrap_or(authority.name);
    let is_bare = authority.name.len() == name.len() && !host.is_empty();
    is_bare.then(|| host.to_ascii_lowercase().into_boxed_str())
}

impl fmt::Display for SitesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { host: Some(host) } => {
                write!(f, "two sites are for {host}: name it in only one of them")
            }
            Self::Twice { host: None } => {
                f.write_str("two sites are for all hosts: give names to all but one")
            }
            Self::Name { name } => write!(
                f,
                "{name:?} is not a host name: give one such as files.example.org, without a port or `*`, or no \
                 names for a site that is for all other hosts"
            ),
        }
    }
}

impl std::error::Error for SitesError {}
