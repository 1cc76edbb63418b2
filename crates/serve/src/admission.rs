//! Limits on connections: on their total number, and on those of one client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::address::may_grow;
use crate::limits::Limits;

/// Part of all connections that proxies may have before they tell their clients; and the part of those that is kept for
/// proxies without any. The rest is for others, whatever a machine with a trusted address does.
const UNNAMED_PART: usize = 2;
const UNNAMED_RESERVE_PART: usize = 8;

/// Counts connections. Clones count the same ones.
#[derive(Clone, Default)]
pub(crate) struct Admission(Arc<Mutex<Connections>>);

#[derive(Default)]
struct Connections {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
    /// Connections of proxies that have not told the client: all of them, and those of each proxy.
    unnamed: usize,
    by_proxy: HashMap<IpAddr, usize>,
}

/// A counted connection, until this is dropped.
pub(crate) struct Admitted {
    admission: Admission,
    holder: Holder,
}

/// The peer that a connection is counted for.
#[derive(Debug, Clone, Copy)]
enum Holder {
    Nobody,
    Client(IpAddr),
    /// A proxy that has not told the client yet.
    Proxy(IpAddr),
}

/// Reason for which a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The server has as many connections as it may have.
    Full,
    /// This client has as many connections as one client may have.
    Client,
    /// This proxy has as many connections as it may have before it tells their clients.
    Proxy,
}

impl Admission {
    /// Counts a connection from `address`, within the limits.
    pub(crate) fn admit(&self, address: IpAddr, limits: &Limits) -> Result<Admitted, Refused> {
        let mut admitted = self.admit_any(limits)?;
        admitted.count_for(address, limits)?;
        Ok(admitted)
    }

    /// Counts a connection by a proxy at `address`, which will tell for whom it is. Until then it counts for the proxy,
    /// which gets a share of the connections without a client: one that tells nothing takes no place from others.
    pub(crate) fn admit_proxy(
        &self,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<Admitted, Refused> {
        let mut admitted = self.admit_any(limits)?;
        let proxy = client(address);
        let mut connections = self.lock();
        let most = limits.connections.div_ceil(UNNAMED_PART);
        let left = most.saturating_sub(connections.unnamed);
        let held = connections.by_proxy.get(&proxy).copied().unwrap_or(0);
        let may_have = may_grow(held, left, most / UNNAMED_RESERVE_PART);
        if may_have {
            connections.unnamed += 1;
            connections.by_proxy.insert(proxy, held + 1);
            admitted.holder = Holder::Proxy(proxy);
        }
        drop(connections);
        may_have.then_some(admitted).ok_or(Refused::Proxy)
    }

    /// Counts a connection for nobody.
    fn admit_any(&self, limits: &Limits) -> Result<Admitted, Refused> {
        let mut connections = self.lock();
        if connections.total >= limits.connections {
            return Err(Refused::Full);
        }
        connections.total += 1;
        drop(connections);
        Ok(Admitted {
            admission: self.clone(),
            holder: Holder::Nobody,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// Counts the connection for the client with this address, and no longer for a proxy, unless the client has as many
    /// as it may have.
    pub(crate) fn count_for(&mut self, address: IpAddr, limits: &Limits) -> Result<(), Refused> {
        let client = client(address);
        let mut connections = self.admission.lock();
        let held = connections.by_client.entry(client).or_default();
        if *held >= limits.per_client {
            return Err(Refused::Client);
        }
        *held += 1;
        connections.release(self.holder);
        drop(connections);
        self.holder = Holder::Client(client);
        Ok(())
    }
}

impl Connections {
    /// Takes a connection away from its holder.
    fn release(&mut self, holder: Holder) {
        match holder {
            Holder::Nobody => {}
            Holder::Client(client) => subtract_one(&mut self.by_client, client),
            Holder::Proxy(proxy) => {
                self.unnamed -= 1;
                subtract_one(&mut self.by_proxy, proxy);
            }
        }
    }
}

fn subtract_one(counts: &mut HashMap<IpAddr, usize>, address: IpAddr) {
    if let Entry::Occupied(mut held) = counts.entry(address) {
        *held.get_mut() -= 1;
        if *held.get() == 0 {
            held.remove();
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut connections = self.admission.lock();
        connections.total -= 1;
        connections.release(self.holder);
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
        let (admission, limits) = (Admission::default(), limits(8, 1));
        let address = |text: &str| text.parse().unwrap();
        let admit = |proxy| admission.admit_proxy(address(proxy), &limits).ok().unwrap();
        let (mut one, mut two) = (admit("10.0.0.1"), admit("10.0.0.1"));
        let mut three = admit("10.0.0.2");
        assert_eq!(admission.lock().unnamed, 3);
        assert_eq!(one.count_for(address("192.0.2.1"), &limits), Ok(()));
        assert_eq!(
            two.count_for(address("192.0.2.1"), &limits),
            Err(Refused::Client)
        );
        assert_eq!(three.count_for(address("192.0.2.2"), &limits), Ok(()));
        assert_eq!(admission.lock().unnamed, 1);
        drop((one, two, three));
        let left = admission.lock();
        assert_eq!((left.total, left.unnamed), (0, 0));
        assert!(left.by_client.is_empty() && left.by_proxy.is_empty());
    }

    #[test]
    fn a_proxy_that_tells_nothing_takes_its_share_and_leaves_the_rest() {
        let (admission, limits) = (Admission::default(), limits(64, 64));
        let proxy = |last: u8| IpAddr::from([10, 0, 0, last]);
        let take = |last| {
            let admit = || admission.admit_proxy(proxy(last), &limits).ok();
            std::iter::from_fn(admit).collect::<Vec<_>>()
        };
        // Half of the 32, after a reserve of 4, and half of what is left.
        let silent = [take(1), take(2)];
        assert_eq!(silent.each_ref().map(Vec::len), [14, 7]);
        let refused = admission.admit_proxy(proxy(1), &limits).err();
        assert_eq!(refused, Some(Refused::Proxy));
        // A proxy that tells its clients is at no limit of its own.
        let mut told = Vec::new();
        for last in 0..20 {
            let mut one = admission.admit_proxy(proxy(3), &limits).ok().unwrap();
            one.count_for([192, 0, 2, last].into(), &limits).unwrap();
            told.push(one);
        }
        // All the proxies of a network together leave half of the connections to clients.
        let many: Vec<_> = (4..60).map(take).collect();
        assert!(many.iter().any(|taken| !taken.is_empty()));
        assert_eq!(admission.lock().unnamed, 32);
        assert!(admission.admit([192, 0, 2, 99].into(), &limits).is_ok());
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
