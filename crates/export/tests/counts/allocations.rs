//! An allocator that counts what the threads of a server ask of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static COUNTING: Counting = Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// Counts the calling thread's allocations from here on, if it is one of a server's. The client and
/// the test's own threads are of the same process and do not count.
pub(crate) fn count_here() {
    if !COUNTED.get() {
        let thread = std::thread::current();
        let serves = |name: &str| name.starts_with("nbd-") || name == "storage";
        if thread.name().is_some_and(serves) {
            THREADS.fetch_add(1, Ordering::SeqCst);
            COUNTED.set(true);
        }
    }
}

/// Number of threads so far that count, those that have ended too.
pub(crate) fn threads() -> u64 {
    THREADS.load(Ordering::SeqCst)
}

/// Number of allocations so far by the threads that count.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}

struct Counting;

impl Counting {
    fn note() {
        // A thread that ends has no such place any more.
        if COUNTED.try_with(Cell::get).unwrap_or(false) {
            COUNT.fetch_add(1, Ordering::SeqCst);
        }
    }
}

// SAFETY: every call is passed on to the system's allocator as it came, which keeps the contract; counting
// touches nothing but a number and a thread-local without a destructor, and so allocates nothing.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the contract is the trait's, and is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::note();
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the contract is the trait's, and is passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::note();
        // SAFETY: as the caller has promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the contract is the trait's, and is passed on.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::note();
        // SAFETY: as the caller has promised.
        unsafe { System.realloc(pointer, layout, size) }
    }

    // SAFETY: the contract is the trait's, and is passed on.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn only_the_threads_of_a_server_count() {
    let _alone = crate::stage::alone();
    let allocate = || {
        let before = count();
        count_here();
        drop(std::hint::black_box(Box::new(1)));
        count() - before
    };
    assert_eq!(allocate(), 0);
    for (name, counted) in [("nbd-7", true), ("storage", true), ("client", false)] {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let counts = thread.spawn(allocate).unwrap().join().unwrap();
        assert_eq!(counts > 0, counted, "{name}");
    }
}
