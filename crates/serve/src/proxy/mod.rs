//! Proxies that tell for which client they connect, by the PROXY protocol.

mod header;

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

use crate::access::Prefix;
use header::{FIXED_BYTES, Fixed, INET6_BYTES};

/// Bytes of a header that are received at a time. Its addresses are in the first of them.
const PART_BYTES: usize = 512;
const _: () = assert!(PART_BYTES >= INET6_BYTES);

/// The proxies that are trusted. Each of their connections has to begin with a header; those of others must not, since
/// anybody could then take any address.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<Prefix>);

impl TrustedProxies {
    /// Trusts all addresses of these networks.
    #[must_use]
    pub fn new(networks: Vec<Prefix>) -> Self {
        Self(networks)
    }

    /// Returns whether connections from this address begin with a header.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// Receives the header of a connection, and no byte more. Returns the client's address, or the peer's own if it speaks
/// for itself. There is no time limit: the caller may drop the future.
///
/// # Errors
/// Those of the socket, `UnexpectedEof` if it is closed before, or `InvalidData` with a [`header::Fault`] as its source.
pub(crate) async fn receive_client(socket: &TcpStream, peer: SocketAddr) -> io::Result<SocketAddr> {
    let mut fixed = [0; FIXED_BYTES];
    receive(socket, &mut fixed).await?;
    let fixed =
        Fixed::parse(&fixed).map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
    let (mut part, mut left) = ([0; PART_BYTES], fixed.rest);
    let mut client = None;
    while left > 0 {
        let part = &mut part[..left.min(PART_BYTES)];
        receive(socket, part).await?;
        if left == fixed.rest {
            client = fixed.client(part);
        }
        left -= part.len();
    }
    Ok(client.unwrap_or(peer))
}

/// Fills `bytes` from the socket.
async fn receive(socket: &TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        socket.readable().await?;
        match socket.try_read(&mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_trusted_without_being_named() {
        let networks = |texts: &[&str]| -> Vec<Prefix> {
            let parsed = texts.iter().map(|text| (*text).to_owned().try_into());
            parsed.collect::<Result<_, _>>().expect("prefixes")
        };
        let one = "10.0.0.7".parse().expect("an address");
        assert!(!TrustedProxies::default().contains(one));
        let some = TrustedProxies::new(networks(&["10.0.0.0/24", "fd00::/8"]));
        assert!(some.contains(one));
        assert!(some.contains("::ffff:10.0.0.7".parse().expect("an address")));
        assert!(!some.contains("10.0.1.7".parse().expect("an address")));
    }
}
