//! Prefixes of addresses, such as `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

/// Number of bits before the IPv4 address in an IPv4-mapped IPv6 address.
const MAPPED: u8 = 96;

/// A network: all addresses that begin with the same bits. An IPv4-mapped IPv6 address counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix {
    pub(super) family: Family,
    /// The bits, those of an IPv4 address at the end; zero behind the prefix.
    pub(super) bits: u128,
    /// Number of bits of the prefix, within its family.
    pub(super) length: u8,
}

/// Version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Text that is not a prefix, with a sentence about it.
#[derive(Debug)]
pub struct BadPrefix(String);

impl Family {
    /// The family of an address, and its bits.
    pub(super) fn of(address: IpAddr) -> (Self, u128) {
        match address.to_canonical() {
            IpAddr::V4(address) => (Self::V4, u32::from(address).into()),
            IpAddr::V6(address) => (Self::V6, address.into()),
        }
    }

    pub(super) fn width(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Mask of the first `length` bits of an address.
    pub(super) fn mask(self, length: u8) -> u128 {
        let all = u128::MAX >> (128 - u32::from(self.width()));
        let rest = u32::from(self.width() - length);
        all & u128::MAX.checked_shl(rest).unwrap_or(0)
    }
}

impl TryFrom<String> for Prefix {
    type Error = BadPrefix;

    /// Reads `ADDRESS/LENGTH`, or an address alone.
    fn try_from(text: String) -> Result<Self, BadPrefix> {
        let wrong = || {
            BadPrefix(format!(
                "{text:?} is not a prefix of addresses: give one such as 10.0.0.0/8, fd00::/8 or 192.0.2.7"
            ))
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text.as_str(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (family, bits) = Family::of(address);
        let is_mapped = address.is_ipv6() && family == Family::V4;
        let length = match length {
            None => family.width(),
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                let length: u8 = length.parse().map_err(|_| wrong())?;
                let before = if is_mapped { MAPPED } else { 0 };
                length.checked_sub(before).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        if length > family.width() {
            return Err(wrong());
        }
        let within = Self {
            family,
            bits: bits & family.mask(length),
            length,
        };
        match within.bits == bits {
            true => Ok(within),
            false => Err(BadPrefix(format!(
                "{text:?} has bits behind its prefix: write {within} for the network"
            ))),
        }
    }
}

impl Prefix {
    /// Returns whether an address begins with the prefix.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (family, bits) = Family::of(address);
        family == self.family && bits & family.mask(self.length) == self.bits
    }

    /// Returns whether all addresses of its family begin with it.
    pub(crate) fn is_everything(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address: IpAddr = match (self.family, u32::try_from(self.bits)) {
            (Family::V4, Ok(bits)) => Ipv4Addr::from(bits).into(),
            _ => Ipv6Addr::from(self.bits).into(),
        };
        write!(out, "{address}/{}", self.length)
    }
}

impl fmt::Display for BadPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BadPrefix {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Prefix, BadPrefix> {
        text.to_owned().try_into()
    }

    #[test]
    fn a_prefix_is_read_and_written() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("fd00::/8", "fd00::/8"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ] {
            assert_eq!(parse(text).expect(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_prefix_is_refused() {
        for text in [
            "",
            "/",
            "10",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "::/129",
            "example.org",
            "::ffff:10.0.0.0/8",
            "10.0.0.0/256",
            " 10.0.0.0/8",
            "fe80::1%eth0",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("10.0.0.1/8").expect_err("bits").to_string();
        assert!(error.contains("write 10.0.0.0/8"), "{error}");
    }
}
