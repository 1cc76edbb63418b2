//! What is served, as long as nobody exchanges it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::http::Authority;
use crate::site::Site;

/// All sites, and which one is for whom.
pub struct Live {
    sites: Vec<Arc<Site>>,
    /// Numbers of sites by host, in small letters.
    by_name: HashMap<Box<str>, usize>,
    /// The one for all other hosts.
    other: Option<usize>,
}

/// Two sites for the same host.
#[derive(Debug)]
pub struct Ambiguous {
    /// The host; none for all those that are not named.
    pub host: Option<String>,
}

impl Live {
    /// Sites with the hosts that they are for; one without any is for all others.
    ///
    /// # Errors
    /// When two are for the same.
    pub fn new(named: impl IntoIterator<Item = (Vec<String>, Site)>) -> Result<Self, Ambiguous> {
        let mut live = Self {
            sites: Vec::new(),
            by_name: HashMap::new(),
            other: None,
        };
        for (names, site) in named {
            let number = live.sites.len();
            live.sites.push(Arc::new(site));
            if names.is_empty() && live.other.replace(number).is_some() {
                return Err(Ambiguous { host: None });
            }
            for name in names {
                let host = name.to_ascii_lowercase().into_boxed_str();
                if live.by_name.insert(host, number).is_some() {
                    return Err(Ambiguous { host: Some(name) });
                }
            }
        }
        Ok(live)
    }

    /// Whether a host is served here.
    pub(crate) fn serves(&self, host: &str) -> bool {
        self.site(Some(host)).is_some()
    }

    /// The site for a host, or for those who name none.
    pub(crate) fn site(&self, host: Option<&str>) -> Option<&Arc<Site>> {
        let named = match host {
            // Nobody needs to be looked for where there is only one for all.
            Some(host) if !self.by_name.is_empty() => {
                let name = Authority::parse(host).ok()?.name;
                let name = name.strip_suffix('.').unwrap_or(name);
                match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    true => self.by_name.get(name.to_ascii_lowercase().as_str()),
                    false => self.by_name.get(name),
                }
            }
            _ => None,
        };
        self.sites.get(*named.or(self.other.as_ref())?)
    }
}

impl fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "two sites are for {host}: name it in one of them"),
            None => f.write_str("two sites are for all hosts: give names to all but one"),
        }
    }
}

impl std::error::Error for Ambiguous {}
