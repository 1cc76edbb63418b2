//! The host that a request is for.

use std::net::IpAddr;

use super::Refusal;

/// Host and port of `Host`, `:authority` or an absolute target, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// A name, an IPv4 address, or an IPv6 address in brackets; not in lower case yet.
    pub name: &'a str,
    /// The port, if one was given.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads a name or an address, with or without a port.
    ///
    /// # Errors
    /// [`Refusal::Host`] where the text is neither, also where it has a user.
    pub fn parse(text: &'a str) -> Result<Self, Refusal> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let end = rest.find(']').ok_or(Refusal::Host)?;
                (&text[..end + 2], &rest[end + 1..])
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        if !is_name(name) {
            return Err(Refusal::Host);
        }
        let port = match port.strip_prefix(':') {
            // A colon without a port means the scheme's own (RFC 3986, 3.2.3).
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| Refusal::Host)?)
            }
            None if port.is_empty() => None,
            _ => return Err(Refusal::Host),
        };
        Ok(Self { name, port })
    }

    /// Returns whether it is this machine by a name that leads nowhere else: `localhost` and what is below it (RFC
    /// 6761, 6.3), or an address. A page from another site, whose own name is made to lead here, has another name.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let bare = self.name.trim_start_matches('[').trim_end_matches(']');
        let name = bare.strip_suffix('.').unwrap_or(bare);
        let top = name.rsplit('.').next();
        top.is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
            || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

/// Checks a name. Names of the Internet's hosts need no percent-encoding: a name with any is not one of ours.
fn is_name(name: &str) -> bool {
    match name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
    {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            (1..=255).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_taken_with_their_ports() {
        for (text, name, port) in [
            ("example.org", "example.org", None),
            ("Example.Org:443", "Example.Org", Some(443)),
            ("192.0.2.1:8443", "192.0.2.1", Some(8443)),
            ("[2001:db8::1]", "[2001:db8::1]", None),
            ("[2001:db8::1]:8443", "[2001:db8::1]", Some(8443)),
            ("under_score", "under_score", None),
            ("example.org:", "example.org", None),
        ] {
            assert_eq!(
                Authority::parse(text),
                Ok(Authority { name, port }),
                "{text}"
            );
        }
    }

    #[test]
    fn only_names_that_lead_nowhere_else_are_this_machines() {
        for (host, is_here) in [
            ("localhost", true),
            ("LOCALHOST:9180", true),
            ("localhost.", true),
            ("files.localhost", true),
            ("a.files.LocalHost.:80", true),
            ("notlocalhost", false),
            ("127.0.0.1:9180", true),
            ("127.1.2.3", true),
            ("[::1]", true),
            ("[::1]:80", true),
            ("example.org", false),
            ("localhost.example.org", false),
            ("192.0.2.1", false),
            ("0.0.0.0", false),
            ("127.0.0.1.example.org", false),
            ("[2001:db8::1]", false),
        ] {
            let authority = Authority::parse(host).unwrap();
            assert_eq!(authority.is_loopback(), is_here, "{host}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ":",
            ":443",
            "a b",
            "a/b",
            "user@example.org",
            "a:b",
            "a:65536",
            "a:+1",
            "a:1:2",
            "[::1",
            "::1",
            "[::1]x",
            "[zz]",
            "[::1]:x",
            "a%20b",
            "ä",
            "a,b",
            "a?b",
            "a#b",
            "a\\b",
        ] {
            assert_eq!(Authority::parse(text), Err(Refusal::Host), "{text}");
        }
        assert!(Authority::parse(&"a".repeat(256)).is_err());
    }
}
