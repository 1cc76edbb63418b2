//! Blocking work, such as reads from a disk, on a limited number of threads. Each address has its own queue for permits,
//! so that no client waits for all requests of another. Work that waits for a permit is dropped with its future, so that
//! cancelled requests leave nothing behind.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::address::Address;

/// Limit on the blocking threads of a worker.
pub(crate) const THREADS: usize = SHARED + RESERVE;
/// Threads that addresses share: a single address may use half of them.
const SHARED: usize = 16;
/// Threads reserved for addresses that use none: the other threads may wait for a disk that never answers.
const RESERVE: usize = 8;

thread_local! {
    /// Permits of the worker that runs on this thread.
    static PERMITS: Arc<Mutex<Permits>> = Arc::new(Mutex::new(Permits {
        left: THREADS,
        queues: VecDeque::new(),
    }));
}

/// Free permits, and the queues of work that waits for one.
struct Permits {
    left: usize,
    /// Queues by address; the address that is served next comes first.
    queues: VecDeque<(Arc<Address>, VecDeque<oneshot::Sender<Permit>>)>,
}

/// The right to use one of the threads.
struct Permit {
    address: Arc<Address>,
    /// Where the permit is returned; `None` if it was not counted.
    permits: Option<Arc<Mutex<Permits>>>,
}

/// Runs `act` on a blocking thread, once the address gets a permit.
///
/// # Errors
/// If `act` panicked.
pub(crate) async fn run<T: Send + 'static>(
    address: Arc<Address>,
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let permit = PERMITS.with(|permits| queue(permits, address));
    let permit = permit.await.map_err(io::Error::other)?;
    let done = spawn_blocking(move || {
        let done = act();
        drop(permit);
        done
    });
    done.await.map_err(io::Error::other)
}

/// Runs `act` on a blocking thread if one is free that is not reserved; returns whether it will run.
pub(crate) fn run_if_free(address: &Arc<Address>, act: impl FnOnce() + Send + 'static) -> bool {
    let Some(permit) = PERMITS.with(|permits| take_free(permits, address)) else {
        return false;
    };
    drop(spawn_blocking(move || {
        act();
        drop(permit);
    }));
    true
}

/// Takes a permit if nothing waits for one and more are left than are reserved.
fn take_free(permits: &Arc<Mutex<Permits>>, address: &Arc<Address>) -> Option<Permit> {
    let mut all = permits.lock().unwrap_or_else(PoisonError::into_inner);
    let left = all.left.saturating_sub(RESERVE);
    if !all.queues.is_empty() || !address.permits.may_grow(left, 0) {
        return None;
    }
    all.left -= 1;
    address.permits.add(1);
    Some(Permit {
        address: Arc::clone(address),
        permits: Some(Arc::clone(permits)),
    })
}

/// Queues a request for a permit.
fn queue(permits: &Arc<Mutex<Permits>>, address: Arc<Address>) -> oneshot::Receiver<Permit> {
    let (sender, receiver) = oneshot::channel();
    let mut all = permits.lock().unwrap_or_else(PoisonError::into_inner);
    let mut queues = all.queues.iter_mut();
    match queues.find(|(other, _)| Arc::ptr_eq(other, &address)) {
        Some((_, queue)) => {
            if queue.len() == queue.capacity() {
                // Cancelled requests would otherwise stay until they reach the front.
                queue.retain(|waiting| !waiting.is_closed());
                queue.reserve(queue.len().max(1));
            }
            queue.push_back(sender);
        }
        None => all.queues.push_back((address, VecDeque::from([sender]))),
    }
    all.hand_out(permits);
    receiver
}

impl Permits {
    /// Hands out free permits to the addresses in turn.
    fn hand_out(&mut self, permits: &Arc<Mutex<Self>>) {
        while self.left > 0 {
            let mut queues = self.queues.iter();
            let next = queues.position(|(address, _)| address.permits.may_grow(self.left, RESERVE));
            let Some((address, mut queue)) = next.and_then(|next| self.queues.remove(next)) else {
                return;
            };
            while let Some(waiting) = queue.pop_front() {
                let permit = Permit {
                    address: Arc::clone(&address),
                    permits: Some(Arc::clone(permits)),
                };
                match waiting.send(permit) {
                    Ok(()) => {
                        self.left -= 1;
                        address.permits.add(1);
                        break;
                    }
                    // The request was cancelled, and the permit was not counted.
                    Err(mut permit) => permit.permits = None,
                }
            }
            if !queue.is_empty() {
                self.queues.push_back((address, queue));
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(permits) = self.permits.take() else {
            return;
        };
        let mut all = permits.lock().unwrap_or_else(PoisonError::into_inner);
        all.left += 1;
        self.address.permits.subtract(1);
        all.hand_out(&permits);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn cancelled_work_does_not_begin() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let address = Arc::default();
        for _ in 0..100 {
            let slow = run(Arc::clone(&address), || {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(200));
            });
            // Requested and cancelled.
            let _ = tokio::time::timeout(Duration::from_millis(1), slow).await;
        }
        assert!(BEGUN.load(Ordering::Relaxed) <= 2 * THREADS);
        assert_eq!(run(address, || 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_can_be_left_undone_uses_only_free_threads() {
        let address: Arc<Address> = Arc::default();
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let begin = |address: &Arc<Address>| {
            let held = Arc::clone(&held);
            run_if_free(address, move || {
                let _ = held.lock().unwrap().recv();
            })
        };
        let begun = (0..THREADS).filter(|_| begin(&address)).count();
        assert_eq!(begun, SHARED / 2);
        let others = (0..THREADS).filter(|_| begin(&Arc::default())).count();
        assert_eq!(others, SHARED / 2, "the reserve is left");
        assert_eq!(run(Arc::default(), || 7).await.unwrap(), 7);
        drop(release);
        while address.permits.get() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(run_if_free(&address, || {}));
    }

    #[tokio::test]
    async fn an_address_with_much_work_does_not_delay_another() {
        let greedy: Arc<Address> = Arc::default();
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let asked: Vec<_> = (0..10 * THREADS)
            .map(|_| {
                let held = Arc::clone(&held);
                tokio::spawn(run(Arc::clone(&greedy), move || {
                    // Until the sender has gone.
                    let _ = held.lock().unwrap().recv();
                }))
            })
            .collect();
        while greedy.permits.get() < SHARED / 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(run(Arc::default(), || 7).await.unwrap(), 7);
        assert_eq!(greedy.permits.get(), SHARED / 2);
        drop(release);
        for one in asked {
            one.await.unwrap().unwrap();
        }
        assert_eq!(greedy.permits.get(), 0);
    }
}
