//! A limited amount of something that all connections of a server share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The amount that is left.
#[derive(Debug)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(amount: usize) -> Self {
        Self(AtomicUsize::new(amount))
    }

    /// Takes `amount`, if there is that much left.
    pub(crate) fn take(&self, amount: usize) -> Option<Taken<'_>> {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(amount)
            })
            .ok()
            .map(|_| Taken {
                budget: self,
                amount,
            })
    }
}

/// A part of a budget; given back when dropped.
pub(crate) struct Taken<'a> {
    budget: &'a Budget,
    amount: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_it_comes_back() {
        let budget = Budget::new(10);
        let taken = budget.take(7);
        assert!(taken.is_some());
        assert!(budget.take(4).is_none());
        assert!(budget.take(3).is_some());
        drop(taken);
        assert!(budget.take(10).is_some());
    }
}
