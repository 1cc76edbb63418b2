//! The header of the PROXY protocol, version 2, by section 2.2 of its specification (HAProxy, `proxy-protocol.txt`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the fixed part: signature, version and command, family and transport, length of the rest.
pub(super) const FIXED_BYTES: usize = 16;

/// Bytes that no other protocol begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// First bytes of a header of version 1, which is text.
const VERSION_1: &[u8] = b"PROXY ";

/// Bytes of the addresses and ports over IPv4, over IPv6, and of two unix sockets.
const INET_BYTES: usize = 12;
pub(super) const INET6_BYTES: usize = 36;
const UNIX_BYTES: usize = 216;

/// The fixed part of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fixed {
    addresses: Addresses,
    /// Bytes that follow: addresses, then further values (TLV), which have no meaning here.
    pub(super) rest: usize,
}

/// Kind of the addresses that follow the fixed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    Inet,
    Inet6,
    /// None that counts: the proxy speaks for itself, or the client's address is not one of IP.
    Unknown,
}

/// Fault in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection begins with something else.
    Absent,
    /// The header is of version 1.
    Version1,
    /// A field has a value that the specification does not have.
    Value,
    /// The addresses do not fit into the length of the rest.
    Short,
}

impl Fixed {
    /// Parses the first bytes of a connection.
    pub(super) fn parse(bytes: &[u8; FIXED_BYTES]) -> Result<Self, Fault> {
        if bytes[..12] != SIGNATURE {
            let is_old = bytes.starts_with(VERSION_1);
            return Err(if is_old {
                Fault::Version1
            } else {
                Fault::Absent
            });
        }
        let is_local = match bytes[12] {
            0x20 => true,
            0x21 => false,
            _ => return Err(Fault::Value),
        };
        let rest = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
        // The upper half is the family, the lower one the transport, which is a stream here.
        let (addresses, len) = match bytes[13] {
            _ if is_local => (Addresses::Unknown, 0),
            0x00 => (Addresses::Unknown, 0),
            0x11 => (Addresses::Inet, INET_BYTES),
            0x21 => (Addresses::Inet6, INET6_BYTES),
            0x31 => (Addresses::Unknown, UNIX_BYTES),
            _ => return Err(Fault::Value),
        };
        if rest < len {
            return Err(Fault::Short);
        }
        Ok(Self { addresses, rest })
    }

    /// Reads the client's address from the first bytes of the rest; `None` if the connection is the proxy's own, or the address unknown.
    pub(super) fn client(self, rest: &[u8]) -> Option<SocketAddr> {
        match self.addresses {
            Addresses::Unknown => None,
            Addresses::Inet => {
                let from: &[u8; INET_BYTES] = rest.first_chunk()?;
                let [a, b, c, d, ..] = *from;
                let ip = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
                Some((ip, u16::from_be_bytes([from[8], from[9]])).into())
            }
            Addresses::Inet6 => {
                let from: &[u8; INET6_BYTES] = rest.first_chunk()?;
                let ip: &[u8; 16] = from.first_chunk()?;
                let ip = IpAddr::V6(Ipv6Addr::from(*ip));
                Some((ip, u16::from_be_bytes([from[32], from[33]])).into())
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => {
                "its connections begin without a header of the PROXY protocol: set it to send version 2 \
                 (send-proxy-v2, and check-send-proxy for its checks), or take it out of trusted-proxies"
            }
            Self::Version1 => {
                "it sends version 1 of the PROXY protocol: set it to send version 2 (send-proxy-v2)"
            }
            Self::Value => "its header of the PROXY protocol has a value that version 2 does not have",
            Self::Short => "its header of the PROXY protocol is too short for the addresses in it",
        })
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header: command, family with transport, and the rest with its own length.
    fn header(command: u8, family: u8, rest: &[u8]) -> ([u8; FIXED_BYTES], Vec<u8>) {
        let mut fixed = [0; FIXED_BYTES];
        fixed[..12].copy_from_slice(b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a");
        (fixed[12], fixed[13]) = (command, family);
        let len = u16::try_from(rest.len()).expect("a short rest");
        fixed[14..].copy_from_slice(&len.to_be_bytes());
        (fixed, rest.to_vec())
    }

    fn client(command: u8, family: u8, rest: &[u8]) -> Result<Option<SocketAddr>, Fault> {
        let (fixed, rest) = header(command, family, rest);
        let fixed = Fixed::parse(&fixed)?;
        assert_eq!(fixed.rest, rest.len());
        Ok(fixed.client(&rest))
    }

    const INET: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0xab, 0xcd, 1, 187];

    fn inet6() -> Vec<u8> {
        let from: Ipv6Addr = "2001:db8::7".parse().expect("an address");
        let to = Ipv6Addr::LOCALHOST;
        [&from.octets()[..], &to.octets(), &[0x12, 0x34, 1, 187]].concat()
    }

    #[test]
    fn the_address_of_a_client_is_the_first_one() {
        let found = client(0x21, 0x11, &INET).expect("a header");
        assert_eq!(found, "192.0.2.7:43981".parse().ok());
        let found = client(0x21, 0x21, &inet6()).expect("a header");
        assert_eq!(found, "[2001:db8::7]:4660".parse().ok());
    }

    #[test]
    fn further_values_have_no_meaning() {
        let with_values = [&INET[..], &[4, 0, 2, 1, 2]].concat();
        let found = client(0x21, 0x11, &with_values).expect("a header");
        assert_eq!(found, "192.0.2.7:43981".parse().ok());
    }

    #[test]
    fn a_proxy_that_speaks_for_itself_names_no_client() {
        for (family, rest) in [(0x00, &[][..]), (0x11, &INET), (0xff, b"anything")] {
            assert_eq!(client(0x20, family, rest), Ok(None), "{family:#x}");
        }
        assert_eq!(client(0x21, 0x00, b"ignored"), Ok(None));
        assert_eq!(client(0x21, 0x31, &[b'/'; 216]), Ok(None));
    }

    /// All values of the fixed part but the lengths, of which those about the addresses' are tried.
    #[test]
    fn no_value_names_a_client_but_a_proxy_of_ip() {
        for (command, family) in (0..=u8::MAX).flat_map(|a| (0..=u8::MAX).map(move |b| (a, b))) {
            for len in [0, 11, 12, 35, 36, 215, 216, 300] {
                let found = client(command, family, &vec![1; len]);
                let needed = match (command, family) {
                    (0x21, 0x11) => INET_BYTES,
                    (0x21, 0x21) => INET6_BYTES,
                    _ => usize::MAX,
                };
                let names_client = matches!(found, Ok(Some(_)));
                assert_eq!(
                    names_client,
                    len >= needed,
                    "{command:#x} {family:#x} {len}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_such_header_is_refused_by_name() {
        assert_eq!(Fixed::parse(b"GET / HTTP/1.1\r\n"), Err(Fault::Absent));
        assert_eq!(Fixed::parse(b"PROXY TCP4 192.0"), Err(Fault::Version1));
        for (command, family) in [(0x11, 0x11), (0x22, 0x11), (0x21, 0x12), (0x21, 0x41)] {
            assert_eq!(client(command, family, &inet6()), Err(Fault::Value));
        }
        assert_eq!(client(0x21, 0x11, &INET[1..]), Err(Fault::Short));
        assert_eq!(client(0x21, 0x21, &INET), Err(Fault::Short));
        assert_eq!(client(0x21, 0x31, &inet6()), Err(Fault::Short));
    }
}
