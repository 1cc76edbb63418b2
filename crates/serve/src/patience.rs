//! What may have to wait for a disk: other threads do it, and no more of it has begun at a time than there are
//! threads. What waits for its turn is forgotten as soon as nobody wants it any more, so that a client who asks
//! and takes back what he asked leaves nothing behind.

use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Threads that wait for disks, at most, for each worker.
pub(crate) const THREADS: usize = 8;

thread_local! {
    /// Turns of the worker whose thread this is.
    static TURNS: Arc<Semaphore> = Arc::new(Semaphore::new(THREADS));
}

/// Has it done, when it is its turn.
///
/// # Errors
/// When it panicked.
pub(crate) async fn wait<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let turn = TURNS.with(Arc::clone).acquire_owned().await;
    let turn = turn.map_err(io::Error::other)?;
    let done = spawn_blocking(move || {
        let done = act();
        drop(turn);
        done
    });
    done.await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_nobody_wants_any_more_does_not_begin() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        for _ in 0..100 {
            let slow = wait(|| {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(200));
            });
            // Asked for, and taken back.
            let _ = tokio::time::timeout(Duration::from_millis(1), slow).await;
        }
        assert!(BEGUN.load(Ordering::Relaxed) <= 2 * THREADS);
        assert_eq!(wait(|| 7).await.unwrap(), 7);
    }
}
