//! Limits on connections: on their total number, and on those of one client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::Limits;

/// Counts connections. Clones count the same ones.
#[derive(Clone, Default)]
pub(crate) struct Admission(Arc<Mutex<Connections>>);

#[derive(Default)]
struct Connections {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A counted connection, until this is dropped.
pub(crate) struct Admitted {
    admission: Admission,
    /// Client that the connection is counted for; `None` as long as it is not known.
    client: Option<IpAddr>,
}

/// Reason for which a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The server has as many connections as it may have.
    Full,
    /// This client has as many connections as one client may have.
    Client,
}

impl Admission {
    /// Counts a connection from `address`, within the limits.
    pub(crate) fn admit(&self, address: IpAddr, limits: &Limits) -> Result<Admitted, Refused> {
        let mut admitted = self.admit_unknown(limits)?;
        admitted.count_for(address, limits)?;
        Ok(admitted)
    }

    /// Counts a connection whose client is not known yet: a proxy made it, and will tell for whom.
    pub(crate) fn admit_unknown(&self, limits: &Limits) -> Result<Admitted, Refused> {
        let mut connections = self.lock();
        if connections.total >= limits.connections {
            return Err(Refused::Full);
        }
        connections.total += 1;
        drop(connections);
        Ok(Admitted {
            admission: self.clone(),
            client: None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// Counts the connection for the client with this address, unless that has as many as it may have.
    pub(crate) fn count_for(&mut self, address: IpAddr, limits: &Limits) -> Result<(), Refused> {
        let client = client(address);
        let mut connections = self.admission.lock();
        let held = connections.by_client.entry(client).or_default();
        if *held >= limits.per_client {
            return Err(Refused::Client);
        }
        *held += 1;
        drop(connections);
        self.client = Some(client);
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut connections = self.admission.lock();
        connections.total -= 1;
        let Some(client) = self.client else { return };
        if let Some(held) = connections.by_client.get_mut(&client) {
            *held -= 1;
            if *held == 0 {
                connections.by_client.remove(&client);
            }
        }
    }
}

/// Maps all addresses of one client to one: an IPv6 client has 2⁶⁴ of them, those of its /64 network.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 64);
            IpAddr::V6(network.into())
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(connections: usize, per_client: usize) -> Limits {
        Limits {
            connections,
            per_client,
            ..Limits::default()
        }
    }

    #[test]
    fn a_place_is_given_back() {
        let (admission, limits) = (Admission::default(), limits(2, 2));
        let address = "192.0.2.1".parse().unwrap();
        let one = admission.admit(address, &limits).ok();
        let two = admission.admit(address, &limits).ok();
        assert!(one.is_some() && two.is_some());
        assert_eq!(admission.admit(address, &limits).err(), Some(Refused::Full));
        drop(one);
        assert!(admission.admit(address, &limits).is_ok());
        drop(two);
        assert!(admission.lock().by_client.is_empty());
    }

    #[test]
    fn a_proxys_connection_counts_for_the_client_that_it_names() {
        let (admission, limits) = (Admission::default(), limits(3, 1));
        let address = |text: &str| text.parse().unwrap();
        let admit = || admission.admit_unknown(&limits).ok().unwrap();
        let (mut one, mut two, mut three) = (admit(), admit(), admit());
        assert_eq!(
            admission.admit_unknown(&limits).err(),
            Some(Refused::Full),
            "before its client is known"
        );
        assert_eq!(one.count_for(address("192.0.2.1"), &limits), Ok(()));
        assert_eq!(
            two.count_for(address("192.0.2.1"), &limits),
            Err(Refused::Client)
        );
        assert_eq!(three.count_for(address("192.0.2.2"), &limits), Ok(()));
        drop((one, two, three));
        assert_eq!(admission.lock().total, 0);
        assert!(admission.lock().by_client.is_empty());
    }

    #[test]
    fn a_client_of_ipv6_is_a_network() {
        let (admission, limits) = (Admission::default(), limits(8, 1));
        let admit = |address: &str| admission.admit(address.parse().unwrap(), &limits);
        let _one = admit("2001:db8::1").ok().unwrap();
        assert_eq!(admit("2001:db8::2").err(), Some(Refused::Client));
        let _other = admit("2001:db8:0:1::1").ok().unwrap();
        let _v4 = admit("192.0.2.1").ok().unwrap();
        assert_eq!(admit("::ffff:192.0.2.1").err(), Some(Refused::Client));
    }
}
