//! Ranges that are being changed. Changes that overlap take turns: what a later one does is not undone
//! by an earlier one that has to be sent again.

use std::ops::Range;

use super::journal::overlap;

/// The ranges (bytes) of all changes in flight.
#[derive(Default)]
pub(super) struct Claims {
    ranges: Vec<Range<u64>>,
    /// Number of threads that wait until a claim is given back.
    pub(super) waiting: usize,
}

impl Claims {
    /// Claims a range, if no part of it is claimed.
    pub(super) fn take(&mut self, range: &Range<u64>) -> bool {
        let free = !self.ranges.iter().any(|other| overlap(other, range));
        if free {
            self.ranges.push(range.clone());
        }
        free
    }

    /// Gives a range back.
    pub(super) fn give_back(&mut self, range: &Range<u64>) {
        if let Some(at) = self.ranges.iter().position(|other| other == range) {
            self.ranges.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_has_to_wait() {
        let mut claims = Claims::default();
        assert!(claims.take(&(512..1024)));
        assert!(!claims.take(&(0..513)));
        assert!(!claims.take(&(600..700)));
        assert!(claims.take(&(0..512)));
        claims.give_back(&(512..1024));
        assert!(claims.take(&(600..700)));
    }
}
