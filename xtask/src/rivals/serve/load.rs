//! The loads that a server is measured under.

use std::thread::sleep;
use std::time::{Duration, Instant};

use scrim_bench::web::{Crowd, SlowCrowd, Trust};

use super::contender::Served;
use super::site::{LONG, PROTOCOLS, Protocol, SIZES, Site, Size, TLS, TLS256};
use crate::error::{Doing, Error};

/// Connections that stay, each with one request under way.
pub(super) const CONNECTIONS: usize = 16;
/// Requests a second of the client that is fast beside slow ones.
const FAST: f64 = 1000.0;
/// Number of slow clients.
pub(super) const SLOW: usize = 1000;
/// Bytes a second that each slow client takes.
pub(super) const SLOW_RATE: usize = 32_000;
/// A server is at rest once it has used less than a tenth of its processor for this time.
const REST: Duration = Duration::from_millis(100);
/// Longest time to wait for a server to be at rest.
const SETTLES: Duration = Duration::from_secs(5);

/// A load that clients put on a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// As many requests as the server can answer.
    Full(Protocol, Size),
    /// The shortest file, at this number of requests a second.
    Half(Protocol, f64),
    /// One fast client beside slow ones.
    BesideSlow(Protocol),
}

/// Measurements of one load.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measured {
    /// Requests a second, MB/s, and CPU seconds per GB.
    Full { rps: f64, rate: f64, cpu: f64 },
    /// Percentiles of the latency, in µs.
    Latency { p50: f64, p99: f64 },
}

impl Load {
    /// All loads. The rate of half load is 0 here; it is measured first.
    pub(super) fn all() -> Vec<Self> {
        let full = PROTOCOLS
            .into_iter()
            .flat_map(|protocol| SIZES.map(|size| Self::Full(protocol, size)));
        let half = [TLS, TLS256].map(|protocol| Self::Half(protocol, 0.0));
        full.chain(half).chain([Self::BesideSlow(TLS)]).collect()
    }

    /// Name of the load in names of results, without a figure.
    pub(super) fn name(self) -> String {
        match self {
            Self::Full(protocol, size) => format!("{}_{}", protocol.name, size.name),
            Self::Half(protocol, _) => format!("{}_half_load", protocol.name),
            Self::BesideSlow(protocol) => format!("{}_fast_beside_slow", protocol.name),
        }
    }

    /// Description for the report.
    pub(super) fn workload(self, seconds: f64) -> String {
        match self {
            Self::Full(protocol, size) => format!(
                "{}, a file of {} bytes, {CONNECTIONS} connections, as much as goes, {seconds} s",
                protocol.words(),
                size.bytes
            ),
            Self::Half(protocol, rate) => format!(
                "{}, a file of {} bytes, {CONNECTIONS} connections, {rate:.0} requests a second, {seconds} s; \
                 time from when a request was due",
                protocol.words(),
                SIZES[0].bytes
            ),
            Self::BesideSlow(protocol) => format!(
                "{}, a file of {} bytes, one connection, {FAST} requests a second, {seconds} s, beside {SLOW} \
                 clients that take {SLOW_RATE} bytes a second each",
                protocol.words(),
                SIZES[0].bytes
            ),
        }
    }

    fn protocol(self) -> Protocol {
        match self {
            Self::Full(protocol, _) | Self::Half(protocol, _) | Self::BesideSlow(protocol) => {
                protocol
            }
        }
    }

    /// Runs the load once.
    pub(super) fn run(
        self,
        site: &Site,
        served: &Served,
        time: Duration,
    ) -> Result<Measured, Error> {
        let protocol = self.protocol();
        let server = served
            .url(protocol)
            .ok_or_else(|| Error::program(protocol.name, "is not served"))?;
        let trust = site.trust(protocol)?;
        let trust = trust.as_ref();
        let gather =
            |size: Size, count| Crowd::gather(&size.on(server), &SIZES[0].on(server), trust, count);
        match self {
            Self::Full(_, size) => full(&mut gather(size, CONNECTIONS)?, served, protocol, time),
            Self::Half(_, rate) => {
                let latencies =
                    gather(SIZES[0], CONNECTIONS)?.ask_at(rate, time, &mut |_| Ok(()))?;
                Ok(Measured::Latency {
                    p50: latencies.quantile(0.5),
                    p99: latencies.quantile(0.99),
                })
            }
            Self::BesideSlow(_) => {
                let mut fast = gather(SIZES[0], 1)?;
                beside_slow(&mut fast, served, protocol, trust, time)
            }
        }
    }
}

/// The slow ones are there for this turn alone: they fill the kernel's memory for sockets, and beside them every
/// other load would be slower.
fn beside_slow(
    fast: &mut Crowd,
    served: &Served,
    protocol: Protocol,
    trust: Option<&Trust>,
    time: Duration,
) -> Result<Measured, Error> {
    let mut slow = gather_slow(served, trust)?;
    // Then their sockets are full, and the server waits for all of them.
    settle(served, protocol)?;
    let latencies = fast.ask_at(FAST, time, &mut |now| slow.step(now));
    drop(slow);
    // Closing them costs the server some time, which must not count for the next load.
    settle(served, protocol)?;
    let latencies = latencies?;
    Ok(Measured::Latency {
        p50: latencies.quantile(0.5),
        p99: latencies.quantile(0.99),
    })
}

/// Waits until a server is at rest, but no longer than `SETTLES`.
fn settle(served: &Served, protocol: Protocol) -> Result<(), Error> {
    let start = Instant::now();
    let mut before = served.cpu_time(protocol)?;
    while start.elapsed() < SETTLES {
        sleep(REST);
        let now = served.cpu_time(protocol)?;
        if now.saturating_sub(before) <= REST / 10 {
            break;
        }
        before = now;
    }
    Ok(())
}

fn full(
    crowd: &mut Crowd,
    served: &Served,
    protocol: Protocol,
    time: Duration,
) -> Result<Measured, Error> {
    let before = served.cpu_time(protocol)?;
    let tally = crowd.ask_again_and_again(time)?;
    let used = served.cpu_time(protocol)?.saturating_sub(before);
    let seconds = tally.wall.as_secs_f64();
    Ok(Measured::Full {
        rps: tally.answers as f64 / seconds,
        rate: tally.bytes as f64 / 1e6 / seconds,
        cpu: used.as_secs_f64() / (tally.bytes as f64 / 1e9),
    })
}

fn gather_slow(served: &Served, trust: Option<&Trust>) -> Result<SlowCrowd, Error> {
    allow_open_files()?;
    let server = served
        .url(TLS)
        .ok_or_else(|| Error::program(TLS.name, "is not served"))?;
    Ok(SlowCrowd::gather(&LONG.on(server), trust, SLOW, SLOW_RATE)?)
}

/// Raises the limit of open files as far as allowed, for this process and those that it starts.
pub(super) fn allow_open_files() -> Result<(), Error> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).doing(|| "have more files open".to_owned())
}
