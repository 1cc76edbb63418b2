//! Clients that a site admits: by address, and by name and password.

mod addresses;
mod credentials;
mod logins;
mod pace;
mod password;
mod prefix;
mod rate;
mod recent;
mod requests;
mod turns;
mod users;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, header};

pub use addresses::AddressRules;
pub(crate) use logins::{Login, Logins, THREADS};
pub(crate) use pace::{Grant, Pace, RATE_MIN};
pub use prefix::{BadPrefix, Prefix};
pub use requests::RequestRate;
pub use users::{Users, UsersError, check_name, user_line};

use crate::http::{Answer, Field};
use pace::Bandwidth;
use requests::Requests;

/// Path of the files by which an authority that speaks ACME verifies a host (RFC 8555, 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Restrictions on the clients of a site.
#[derive(Debug, Clone, Default)]
pub struct AccessSettings {
    /// Lists of addresses that are admitted.
    pub addresses: AddressRules,
    /// Users, one of whom each client has to be.
    pub users: Option<Arc<Users>>,
    /// Requests of each address.
    pub requests: Option<RequestRate>,
    /// Bytes in a second for all answers to an address together.
    pub bytes_per_second: Option<u64>,
}

/// Restrictions on the clients of a site that has any.
#[derive(Debug)]
pub(crate) struct Access {
    addresses: AddressRules,
    users: Option<Arc<Users>>,
    requests: Option<Requests>,
    bandwidth: Option<Bandwidth>,
}

impl Access {
    /// Makes the restrictions of a site; `None` if it has none.
    pub(crate) fn new(settings: &AccessSettings) -> Option<Self> {
        let access = Self {
            addresses: settings.addresses.clone(),
            users: settings.users.clone(),
            requests: settings.requests.map(Requests::new),
            bandwidth: settings.bytes_per_second.map(Bandwidth::new),
        };
        let is_open = access.addresses.is_empty()
            && access.users.is_none()
            && access.requests.is_none()
            && access.bandwidth.is_none();
        (!is_open).then_some(access)
    }

    /// Returns whether an address is admitted.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        self.addresses.admit(address)
    }

    /// Counts a request of a client, an address as [`crate::admission::client`] maps it.
    ///
    /// # Errors
    /// Time until its next request is allowed, if it has had too many.
    pub(crate) fn count_request(&self, client: IpAddr) -> Result<(), Duration> {
        let requests = self.requests.as_ref();
        requests.map_or(Ok(()), |requests| requests.admit(client))
    }

    /// Pacing of an answer to a client; `None` if its rate has no limit.
    pub(crate) fn pace(&self, client: IpAddr) -> Option<Pace> {
        Some(self.bandwidth.as_ref()?.pace(client))
    }

    /// Users, one of whom the client has to be.
    pub(crate) fn users(&self) -> Option<&Arc<Users>> {
        self.users.as_ref()
    }
}

/// Asks for a name and a password in an answer, which is not to be stored.
pub(crate) fn ask_for_password(answer: &mut Answer, users: &Users) {
    let fields = [
        (header::WWW_AUTHENTICATE, users.challenge().clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::VARY, HeaderValue::from_static("authorization")),
    ];
    answer.fields.extend(fields);
}

/// Marks an answer as one for a user: without another rule no shared cache may store it, and with one it is only for
/// requests with the same password.
pub(crate) fn mark_private(answer: &mut Answer) {
    let shared = answer.shared.iter().flat_map(|shared| shared.iter());
    let mut fields = shared.chain(&answer.fields);
    if !fields.any(|(name, _)| name == header::CACHE_CONTROL) {
        let private = HeaderValue::from_static("private");
        answer.fields.push((header::CACHE_CONTROL, private));
    }
    let authorization = HeaderValue::from_static("authorization");
    answer.fields.push((header::VARY, authorization));
}

/// `Retry-After` with a time, in whole seconds.
pub(crate) fn retry_after(wait: Duration) -> Field {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    (header::RETRY_AFTER, seconds.max(1).into())
}

/// Returns whether a target is the answer to an authority's challenge, which is for everybody: the authority does not
/// tell from which addresses it asks.
pub(crate) fn is_challenge(target: &str) -> bool {
    let token = target.strip_prefix(CHALLENGES);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    token.is_some_and(|token| !token.is_empty() && token.bytes().all(is_allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_a_challenge_is_for_everybody() {
        for (target, is_for_all) in [
            (
                "/.well-known/acme-challenge/evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA",
                true,
            ),
            ("/.well-known/acme-challenge/", false),
            ("/.well-known/acme-challenge/..", false),
            ("/.well-known/acme-challenge/a/b", false),
            ("/.well-known/acme-challenge/%2e%2e", false),
            ("/.well-known/acme-challenge/a?b", false),
            ("/.well-known/other", false),
            ("//.well-known/acme-challenge/a", false),
        ] {
            assert_eq!(is_challenge(target), is_for_all, "{target}");
        }
    }
}
