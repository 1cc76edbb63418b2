//! Tweaks of the data units after those of a call, kept for the next call of the same thread.
//!
//! Wide kernels make tweaks ahead of the data: those of blocks a group ahead, those of data units
//! several at once. The tweaks that are left at the end of a run are those that the next call needs, if it
//! goes on where this one stopped. Then the work of the two overlaps as that of two groups does, and a
//! caller that takes one sector a call is as fast as one that takes runs. Otherwise every call would begin
//! with rounds that wait for each other, with nothing to do meanwhile.
//!
//! A cipher is shared between threads. With its first call each thread gets a place of its own, for good,
//! so that finding it again takes a comparison and no lock. When all are taken, later threads keep
//! nothing. The places lie beside the keys, in locked memory that is wiped when the cipher is
//! dropped.

use core::arch::x86_64::*;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use zeroize::Zeroize;

use crate::kernels::iv::Numbers;

/// Tweaks that a call leaves for the next one.
#[repr(C)]
pub(super) struct Ahead<B: Zeroize> {
    /// The tweaks of the first blocks of the next data unit, perhaps of those after it.
    pub(super) blocks: B,
    /// The tweaks of the data units after those.
    pub(super) units: Units,
}

impl<B: Zeroize> Ahead<B> {
    /// `blocks` is any value.
    pub(super) fn nothing(blocks: B) -> Self {
        Self {
            blocks,
            units: Units::NONE,
        }
    }
}

impl<B: Zeroize> Drop for Ahead<B> {
    fn drop(&mut self) {
        self.blocks.zeroize();
        self.units.tweaks.zeroize();
    }
}

/// Tweaks of consecutive data units, given out one by one.
#[repr(C, align(64))]
pub(super) struct Units {
    tweaks: [__m128i; BATCH],
    /// Number of tweaks that were given out.
    taken: usize,
    /// The position of the IV after theirs.
    after: u64,
}

/// Tweaks of data units that are encrypted together.
pub(super) const BATCH: usize = 4;

impl Units {
    const NONE: Self = Self {
        // SAFETY: any pattern of bits is a value.
        tweaks: unsafe { core::mem::zeroed() },
        taken: BATCH,
        after: 0,
    };

    /// Returns whether the last `begun` tweaks that were given out are those of the next of `ivs`. If so, these and the
    /// IVs of the tweaks that are still here are taken from `ivs`.
    #[inline]
    pub(super) fn go_on(&self, ivs: &mut Numbers, begun: usize) -> bool {
        !self.are_used_up() && ivs.skip_to(self.after, BATCH - self.taken + begun)
    }

    /// Where new tweaks are to be written; the IV after theirs is at this position.
    #[inline]
    pub(super) fn refill(&mut self, after: u64) -> &mut [__m128i; BATCH] {
        self.taken = 0;
        self.after = after;
        &mut self.tweaks
    }

    /// The next tweak. There must be one left.
    #[inline]
    pub(super) fn next(&mut self) -> __m128i {
        // The remainder is the number itself, and spares the check.
        let tweak = self.tweaks[self.taken % BATCH];
        self.taken += 1;
        tweak
    }

    #[inline]
    pub(super) fn are_used_up(&self) -> bool {
        self.taken == BATCH
    }
}

/// A place for each of the first few threads.
#[repr(C, align(64))]
pub(super) struct Places<T> {
    /// The thread that each place belongs to, or [`NOBODY`]: in a cache line of their own, which
    /// soon no thread writes any more.
    owners: [AtomicUsize; THREADS],
    places: [Place<T>; THREADS],
}

const THREADS: usize = 8;
const NOBODY: usize = 0;

/// A value in cache lines of its own, in pairs as CPUs fetch them, so that threads do not disturb
/// each other.
#[repr(C, align(128))]
struct Place<T>(UnsafeCell<T>);

// SAFETY: only the thread that owns a place reaches what is in it.
unsafe impl<T: Send> Sync for Places<T> {}

impl<T> Places<T> {
    pub(super) fn new(empty: impl Fn() -> T) -> Self {
        Self {
            owners: [const { AtomicUsize::new(NOBODY) }; THREADS],
            places: core::array::from_fn(|_| Place(UnsafeCell::new(empty()))),
        }
    }

    /// This thread's place, `None` where all belong to others.
    ///
    /// # Safety
    /// The reference that an earlier call in this thread returned is no longer used.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "there is one user of each place")]
    pub(super) unsafe fn mine(&self) -> Option<&mut T> {
        let me = this_thread();
        let is_mine = |owner: &AtomicUsize| match owner.load(Ordering::Relaxed) {
            NOBODY => owner
                .compare_exchange(NOBODY, me, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok(),
            owner => owner == me,
        };
        let at = self.owners.iter().position(is_mine)?;
        // SAFETY: no other thread has this number, so none reaches this place; and this one, as the
        // caller promises, has no reference to it. A thread that had the number before has ended, and all
        // that it did came before this (see `this_thread`): `owners`, relaxed, need not order it.
        Some(unsafe { &mut *self.places[at].0.get() })
    }
}

/// A number, not [`NOBODY`], that no other living thread has: the address of a thread-local variable. A
/// new thread may get that of one that has ended, and inherits its places. The code that hands the memory
/// of one thread's variables on to another orders what the two do, as an allocator does with any memory:
/// otherwise the first writes to those variables would race with the last ones of the other. A thread
/// makes no call after its variables are gone.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| core::ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::kernels::iv::Ivs;
    use crate::sector::{Geometry, IvSector, SectorSize};
    use crate::spec::IvMode;

    fn ivs(first: u64) -> Numbers {
        let geometry = Geometry::new(SectorSize::S512);
        let ivs = Ivs::new(IvMode::Plain64, IvSector(first), geometry);
        ivs.numbers().unwrap()
    }

    #[test]
    fn calls_go_on_only_where_the_last_one_stopped() {
        let mut units = Units::NONE;
        assert!(!units.go_on(&mut ivs(u64::MAX), 1));

        // Of the data units u64::MAX - 1 to 1, two given out: the second is the next.
        units.refill(ivs(2).position());
        units.next();
        units.next();
        for elsewhere in [u64::MAX - 1, 0, 1, 2] {
            assert!(!units.go_on(&mut ivs(elsewhere), 1));
        }
        for (first, begun) in [(u64::MAX, 1), (u64::MAX - 1, 2)] {
            let mut next = ivs(first);
            assert!(units.go_on(&mut next, begun));
            assert_eq!(next.position(), 2);
        }
    }

    #[test]
    fn each_thread_has_a_place_of_its_own_until_there_are_none() {
        let places = Places::new(|| 0);
        let all_here = Barrier::new(THREADS + 3);
        let visit = |number| {
            // SAFETY: each of the references is used for one statement.
            let write = || unsafe { places.mine() }.map(|place| *place = number);
            let had = write().is_some();
            all_here.wait();
            // SAFETY: as above.
            assert_eq!(unsafe { places.mine() }.copied(), had.then_some(number));
            had
        };
        let had = thread::scope(|scope| {
            let threads: Vec<_> = (1..=THREADS + 3)
                .map(|number| scope.spawn(move || visit(number)))
                .collect();
            let had = threads.into_iter().map(|thread| thread.join().unwrap());
            had.filter(|had| *had).count()
        });
        assert_eq!(had, THREADS);
    }
}
