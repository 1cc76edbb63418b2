//! Names of keys and keyrings of the kernel, as cryptsetup and `keyctl(1)` write them.

use std::fmt;
use std::str::FromStr;

/// Type of a key whose name has none.
const DEFAULT_TYPE: &str = "user";

/// A key: `%TYPE:NAME`, or NAME for one of type `user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelKey {
    pub(crate) kind: String,
    pub(crate) description: String,
}

/// A place for the volume key, `KEYRING::KEY`: the keyring and the name that the key gets there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyLink {
    pub(crate) keyring: Keyring,
    pub(crate) key: KernelKey,
}

/// A keyring by its name. That of the thread or of the process (`@t`, `@p`) would go with the command, or stay for as long
/// as the process of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keyring {
    /// `@s`: that of the session.
    Session,
    /// `@u`: that of the user.
    User,
    /// `@us`: the user's default session's.
    UserSession,
    /// The one with this serial number.
    Number(i32),
    /// NAME, `%:NAME` or `%keyring:NAME`.
    Named(String),
}

impl FromStr for KernelKey {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (kind, description) = match name.strip_prefix('%') {
            Some(rest) => rest
                .split_once(':')
                .ok_or("a key is named NAME or %TYPE:NAME")?,
            None => (DEFAULT_TYPE, name),
        };
        if kind.is_empty() || description.is_empty() {
            return Err("a key is named NAME or %TYPE:NAME");
        }
        Ok(Self {
            kind: kind.to_owned(),
            description: description.to_owned(),
        })
    }
}

impl FromStr for KeyLink {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (keyring, key) = given
            .split_once("::")
            .ok_or("give a keyring and a name for the key, KEYRING::KEY, such as @u::disk")?;
        let key: KernelKey = key.parse()?;
        match key.kind.as_str() {
            "user" => {}
            // The kernel demands a prefix of such keys, which says what they are for.
            "logon" if key.description.find(':').is_some_and(|at| at > 0) => {}
            "logon" => {
                return Err("a key of type logon is named with a prefix: %logon:PREFIX:NAME");
            }
            _ => return Err("a volume key becomes a key of type user or logon"),
        }
        let keyring = keyring.parse()?;
        Ok(Self { keyring, key })
    }
}

impl FromStr for Keyring {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = name
            .strip_prefix("%keyring:")
            .or_else(|| name.strip_prefix("%:"));
        match name {
            _ if named.unwrap_or(name).is_empty() => Err("the keyring has no name"),
            "@s" => Ok(Self::Session),
            "@u" => Ok(Self::User),
            "@us" => Ok(Self::UserSession),
            _ if name.starts_with('@') => {
                Err("the keyrings that outlive the command are @s, @u and @us")
            }
            _ if name.starts_with('%') && named.is_none() => {
                Err("a keyring is named NAME, %:NAME or %keyring:NAME")
            }
            _ => match name.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Ok(Self::Named(named.unwrap_or(name).to_owned())),
            },
        }
    }
}

impl fmt::Display for KernelKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "%{}:{}", self.kind, self.description)
    }
}

impl fmt::Display for KeyLink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}::{}", self.keyring, self.key)
    }
}

impl fmt::Display for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => out.write_str("@s"),
            Self::User => out.write_str("@u"),
            Self::UserSession => out.write_str("@us"),
            Self::Number(number) => number.fmt(out),
            Self::Named(name) => out.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str, description: &str) -> KernelKey {
        KernelKey {
            kind: kind.to_owned(),
            description: description.to_owned(),
        }
    }

    #[test]
    fn a_key_has_a_type_and_a_name() {
        assert_eq!("disk".parse(), Ok(key("user", "disk")));
        assert_eq!("%user:disk".parse(), Ok(key("user", "disk")));
        assert_eq!("%logon:a:b".parse(), Ok(key("logon", "a:b")));
        for name in ["", "%", "%user", "%user:", "%:disk"] {
            assert!(name.parse::<KernelKey>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_link_names_a_keyring_and_a_key() {
        for (given, keyring) in [
            ("@u", Keyring::User),
            ("@us", Keyring::UserSession),
            ("17", Keyring::Number(17)),
            ("mine", Keyring::Named("mine".to_owned())),
            ("%:mine", Keyring::Named("mine".to_owned())),
            ("%keyring:mine", Keyring::Named("mine".to_owned())),
        ] {
            let link: KeyLink = format!("{given}::disk").parse().unwrap();
            assert_eq!((link.keyring, link.key), (keyring, key("user", "disk")));
        }
        let link: KeyLink = "@s::%logon:a:b".parse().unwrap();
        assert_eq!(link.key, key("logon", "a:b"));
        for given in [
            "",
            "@s",
            "::disk",
            "%:::disk",
            "@s::",
            "@g::disk",
            "@t::disk",
            "@p::disk",
            "%user:x::disk",
            "@s::%user",
            "@s::%logon:disk",
            "@s::%logon::disk",
            "@s::%trusted:disk",
        ] {
            assert!(given.parse::<KeyLink>().is_err(), "{given}");
        }
    }
}
