//! Requests of each address in a second.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::rate::{Meter, Rate};
use super::recent::Recent;

/// Limit on the addresses that are known, for one of two generations.
const ADDRESSES_MAX: usize = 8192;

/// Number of requests that an address may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate {
    /// Requests in a second, on average; at least one.
    pub per_second: u32,
    /// Requests that may come at once; at least one.
    pub burst: u32,
}

/// Requests of each address.
#[derive(Debug)]
pub(super) struct Requests {
    rate: Rate,
    addresses: Mutex<Recent<IpAddr, Meter>>,
}

impl Requests {
    pub(super) fn new(rate: RequestRate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        Self {
            rate: Rate::new(interval, rate.burst),
            addresses: Mutex::new(Recent::new(ADDRESSES_MAX)),
        }
    }

    /// Counts a request of a client, unless it has had too many.
    ///
    /// # Errors
    /// Time until the next request is allowed.
    pub(super) fn admit(&self, client: IpAddr) -> Result<(), Duration> {
        let now = Instant::now();
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let meter = addresses.get_or_default(client);
        meter.check(&self.rate, now)?;
        meter.count(&self.rate, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_requests() {
        let requests = Requests::new(RequestRate {
            per_second: 1,
            burst: 5,
        });
        for client in [[192, 0, 2, 1], [192, 0, 2, 2]] {
            let allowed = (0..10).filter(|_| requests.admit(client.into()).is_ok());
            assert_eq!(allowed.count(), 5);
        }
        let wait = requests.admit([192, 0, 2, 1].into()).expect_err("too many");
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
    }
}
