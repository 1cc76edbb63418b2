//! Work that may have to wait for a disk: other threads do it, and no more of it has begun at a time than there are
//! threads. Each address waits in a queue of its own, so that no client waits for all that another has asked for. Work
//! that waits for its permit is dropped as soon as its result is not wanted any more, so that a client that asks and
//! takes back what it asked leaves nothing behind.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::address::Address;

/// Threads that wait for disks, at most, for each worker.
pub(crate) const THREADS: usize = SHARED + RESERVE;
/// Threads that addresses share: an address that is alone has half of them.
const SHARED: usize = 16;
/// Threads for addresses that have none: the threads of others may wait for a disk that never answers.
const RESERVE: usize = 8;

thread_local! {
    /// Permits of the worker that runs on this thread.
    static PERMITS: Arc<Mutex<Permits>> = Arc::new(Mutex::new(Permits {
        left: THREADS,
        queues: VecDeque::new(),
    }));
}

/// Permits that are left, and the queues of requests that wait for one.
struct Permits {
    left: usize,
    /// Queues by address; the address whose permit is next comes first.
    queues: VecDeque<(Arc<Address>, VecDeque<oneshot::Sender<Permit>>)>,
}

/// The right to one of the threads.
struct Permit {
    address: Arc<Address>,
    /// The permits that it is given back to.
    permits: Option<Arc<Mutex<Permits>>>,
}

/// Does work for a client, when it is the client's permit.
///
/// # Errors
/// When the work panicked.
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

/// Puts an address in its queue.
fn queue(permits: &Arc<Mutex<Permits>>, address: Arc<Address>) -> oneshot::Receiver<Permit> {
    let (sender, receiver) = oneshot::channel();
    let mut all = permits.lock().unwrap_or_else(PoisonError::into_inner);
    let mut queues = all.queues.iter_mut();
    match queues.find(|(other, _)| Arc::ptr_eq(other, &address)) {
        Some((_, queue)) => {
            if queue.len() == queue.capacity() {
                // Those that were taken back would else stay until it is their permit.
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
    /// Hands out what is left, to each address in its permit.
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
                    // Nobody wants it any more, and it was not counted.
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
    async fn what_nobody_wants_any_more_does_not_begin() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let address = Arc::default();
        for _ in 0..100 {
            let slow = run(Arc::clone(&address), || {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(200));
            });
            // Asked for, and taken back.
            let _ = tokio::time::timeout(Duration::from_millis(1), slow).await;
        }
        assert!(BEGUN.load(Ordering::Relaxed) <= 2 * THREADS);
        assert_eq!(run(address, || 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn who_asks_for_much_holds_up_nobody_else() {
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
