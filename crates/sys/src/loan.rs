//! Memory that other threads use while its owner waits.
//!
//! A thread that hands work over and waits for it could let the others use its memory directly, but the
//! compiler cannot see that it waits. [`lend`] does: it returns only after every part of the lent memory
//! has been given back.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, PoisonError};
#[cfg(not(all(test, shuttle)))]
use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, shuttle))]
use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// Lends `memory` to the threads that `work` hands it to, and returns the result of `work` once all parts
/// of the loan have been dropped. A part that is never dropped keeps it waiting for ever.
pub fn lend<R>(memory: &mut [u8], work: impl FnOnce(Loan) -> R) -> R {
    let account = Arc::new(Account::default());
    // Waits on a panic of `work` too.
    let _settled = Settled(&account);
    let loan = Loan {
        start: NonNull::from(&mut *memory).cast(),
        len: memory.len(),
        account: account.opened(),
    };
    work(loan)
}

/// Bytes on loan. They are given back by being dropped.
pub struct Loan {
    start: NonNull<u8>,
    len: usize,
    account: Arc<Account>,
}

// SAFETY: a loan is the only access to its bytes, which outlive it: `lend` does not return before it
// was dropped, and borrows them alone all the while.
unsafe impl Send for Loan {}

/// Counts the parts that are out.
#[derive(Default)]
struct Account {
    out: Mutex<usize>,
    settled: Condvar,
}

struct Settled<'a>(&'a Account);

impl Loan {
    /// Two loans: of the first `at` bytes, or of all if there are fewer, and of the rest.
    #[must_use]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let at = at.min(self.len);
        let rest = Self {
            // SAFETY: `at` is within the bytes, or just behind them.
            start: unsafe { self.start.add(at) },
            len: self.len - at,
            account: self.account.opened(),
        };
        let mut first = self;
        first.len = at;
        (first, rest)
    }
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised and outlive the loan, which alone gives access to them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way to them now.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut out = self.account.lock();
        *out -= 1;
        if *out == 0 {
            // Under the lock: the waiting thread goes on, and the account may end, once it is released.
            self.account.settled.notify_all();
        }
    }
}

impl Account {
    /// Returns the same account, with one more part out.
    fn opened(self: &Arc<Self>) -> Arc<Self> {
        *self.lock() += 1;
        Arc::clone(self)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        let mut out = self.0.lock();
        while *out > 0 {
            let waited = self.0.settled.wait(out);
            out = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(all(test, shuttle))]
mod models {
    use super::*;
    use shuttle::{check_random, thread};

    #[test]
    fn what_is_lent_is_back_in_every_order_of_events() {
        let model = || {
            let mut memory = [0u8; 4];
            lend(&mut memory, |loan| {
                let (mut first, rest) = loan.split_at(1);
                thread::spawn(move || first.fill(1));
                let (mut second, mut third) = rest.split_at(1);
                thread::spawn(move || {
                    second.fill(2);
                    drop(second);
                    third.fill(3);
                });
            });
            assert_eq!(memory, [1, 2, 3, 3]);
        };
        check_random(model, 5000);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn other_threads_use_it_and_it_is_back_afterwards() {
        let mut memory = [0u8; 100];
        let sum = lend(&mut memory, |loan| {
            let (mut first, mut rest) = loan.split_at(30);
            assert_eq!((first.len(), rest.len()), (30, 70));
            thread::spawn(move || first.fill(1));
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                rest.fill(2);
            });
            7
        });
        assert_eq!(sum, 7);
        assert!(memory[..30].iter().all(|&byte| byte == 1));
        assert!(memory[30..].iter().all(|&byte| byte == 2));
    }

    #[test]
    fn who_panics_waits_too() {
        let mut memory = [0u8; 10];
        let result = catch_unwind(AssertUnwindSafe(|| {
            lend(&mut memory, |mut loan| {
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(20));
                    loan.fill(9);
                });
                panic!("on purpose");
            });
        }));
        assert!(result.is_err());
        assert_eq!(memory, [9; 10]);
    }

    #[test]
    fn nothing_is_lent_for_ever_by_a_split_beyond_the_end() {
        let mut memory = [0u8; 4];
        let (sender, receiver) = mpsc::channel();
        lend(&mut memory, |loan| {
            let (first, rest) = loan.split_at(9);
            assert!(rest.is_empty());
            sender.send(first).unwrap();
            thread::spawn(move || drop(receiver.recv()));
        });
    }
}
