//! Work on several threads, for a moment.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `work` with every item, in any order, on up to `threads` threads of which this is one.
pub(super) fn for_each<I>(items: I, threads: usize, work: impl Fn(I::Item) + Sync)
where
    I: Iterator + Send,
{
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Where no other thread is to be had, this one does all the work.
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [0, 1, 3, 200] {
            let mut done = [0; 100];
            let calls = AtomicUsize::new(0);
            for_each(done.iter_mut(), threads, |item| {
                *item += 1;
                calls.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done, [1; 100]);
            assert_eq!(calls.into_inner(), 100);
        }
    }
}
