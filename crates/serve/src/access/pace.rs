//! Bandwidth of an address: its answers share a rate of bytes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::recent::Recent;

/// Limit on the addresses that are known, for one of two generations.
const ADDRESSES_MAX: usize = 8192;
/// Number of pieces in a second, for all answers of an address together: each waits for a timer at most once.
const PIECES_PER_SECOND: u64 = 16;
/// Shortest and longest piece in bytes.
const PIECE_MIN: u64 = 16 << 10;
const PIECE_MAX: u64 = 512 << 10;
/// Time whose bytes an address may send at once after a pause.
const BURST: Duration = Duration::from_secs(1);

/// Least rate in bytes a second: one at which the shortest piece takes less than a minute.
pub(crate) const RATE_MIN: u64 = 1024;

/// The bandwidth of each address.
#[derive(Debug)]
pub(super) struct Bandwidth {
    bytes_per_second: u64,
    addresses: Mutex<Recent<IpAddr, Arc<Share>>>,
}

/// The rate that the answers to an address share.
#[derive(Debug)]
struct Share {
    /// Queue in which the pieces of all answers wait for their turn, first come, first served. A client that leaves it
    /// costs the others no time.
    queue: Semaphore,
    /// Time at which all granted bytes are sent, at the rate.
    until: Mutex<Option<Instant>>,
}

/// Pacing of an answer, with the rate that it shares with the other answers to its address.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    bytes_per_second: u64,
    share: Arc<Share>,
}

/// Bytes that may be sent. Those that are not sent are given back.
#[derive(Debug)]
pub(crate) struct Grant {
    pace: Pace,
    left: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            queue: Semaphore::new(1),
            until: Mutex::default(),
        }
    }
}

impl Bandwidth {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(RATE_MIN),
            addresses: Mutex::new(Recent::new(ADDRESSES_MAX)),
        }
    }

    /// Pacing of an answer to a client.
    pub(super) fn pace(&self, client: IpAddr) -> Pace {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Pace {
            bytes_per_second: self.bytes_per_second,
            share: Arc::clone(addresses.get_or_default(client)),
        }
    }
}

impl Pace {
    /// Waits until the next piece of an answer that has `length` bytes left may be sent.
    pub(crate) async fn grant(&self, length: u64) -> Grant {
        // The queue is never closed.
        let _turn = self.share.queue.acquire().await;
        let (grant, from) = self.reserve(length);
        if from > Instant::now() {
            sleep_until(from).await;
        }
        grant
    }

    /// Reserves the bytes of the next piece, which may be sent from some time on.
    fn reserve(&self, length: u64) -> (Grant, Instant) {
        let piece = (self.bytes_per_second / PIECES_PER_SECOND).clamp(PIECE_MIN, PIECE_MAX);
        let bytes = piece.min(length);
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let mut until = self.until();
        let from = until.map_or(earliest, |until| until.max(earliest));
        *until = from.checked_add(self.time(bytes));
        let grant = Grant {
            pace: self.clone(),
            left: bytes,
        };
        (grant, from)
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        (self.share.until.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl Grant {
    /// Bytes that may be sent.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Takes bytes that are sent.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.left == 0 {
            return;
        }
        let unused = self.pace.time(self.left);
        let mut until = self.pace.until();
        *until = until.and_then(|until| until.checked_sub(unused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1 << 20;
    const PIECE: u64 = RATE / PIECES_PER_SECOND;

    fn wait((grant, from): (Grant, Instant)) -> (Grant, f64) {
        let wait = from.saturating_duration_since(Instant::now());
        (grant, wait.as_secs_f64())
    }

    /// Reserves pieces that are all sent, and returns how long the last one waits, in seconds.
    fn send(pace: &Pace, pieces: u64) -> f64 {
        let mut waited = 0.0;
        for _ in 0..pieces {
            let (mut grant, wait) = wait(pace.reserve(u64::MAX));
            assert_eq!(grant.left(), PIECE);
            grant.take(PIECE);
            waited = wait;
        }
        waited
    }

    #[test]
    fn answers_of_an_address_share_a_rate_after_a_burst() {
        let bandwidth = Bandwidth::new(RATE);
        let client = IpAddr::from([192, 0, 2, 1]);
        let (one, two) = (bandwidth.pace(client), bandwidth.pace(client));
        // The burst, and the pieces of the next four seconds.
        assert!(send(&one, PIECES_PER_SECOND) < 0.01);
        send(&one, 2 * PIECES_PER_SECOND);
        let waited = send(&two, 2 * PIECES_PER_SECOND);
        assert!((3.5..4.1).contains(&waited), "{waited}");
        let other = bandwidth.pace([192, 0, 2, 2].into());
        assert!(send(&other, 1) < 0.01);
    }

    #[test]
    fn bytes_that_are_not_sent_are_given_back() {
        let pace = Bandwidth::new(RATE).pace([192, 0, 2, 1].into());
        send(&pace, PIECES_PER_SECOND);
        drop((0..100).map(|_| pace.reserve(u64::MAX)).collect::<Vec<_>>());
        let (mut half, _) = pace.reserve(u64::MAX);
        half.take(PIECE / 2);
        drop(half);
        let (_, waited) = wait(pace.reserve(u64::MAX));
        assert!(waited < 0.1, "{waited}");
    }

    /// Their pieces would take 6 s.
    #[tokio::test]
    async fn answers_that_are_given_up_take_no_time_of_others() {
        let pace = Bandwidth::new(RATE).pace([192, 0, 2, 1].into());
        send(&pace, PIECES_PER_SECOND);
        let began = Instant::now();
        let send = async |pace: Pace| pace.grant(u64::MAX).await.take(PIECE);
        let wait = |pace: Pace| tokio::spawn(send(pace));
        let given_up: Vec<_> = (0..100).map(|_| wait(pace.clone())).collect();
        tokio::task::yield_now().await;
        let last = wait(pace.clone());
        tokio::task::yield_now().await;
        given_up.iter().for_each(tokio::task::JoinHandle::abort);
        last.await.expect("a grant");
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_short_answer_takes_only_its_length() {
        let pace = Bandwidth::new(RATE).pace([192, 0, 2, 1].into());
        for _ in 0..100 {
            let (mut grant, waited) = wait(pace.reserve(100));
            assert!(grant.left() == 100 && waited <= 0.0);
            grant.take(100);
        }
    }
}
