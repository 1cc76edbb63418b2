//! Counts of the meter and of the allocator.

use scrim_export::limits;
use scrim_volume::queue::Engine;

use crate::allocations;
use crate::engines;
use crate::load::{LOADS, Load};
use crate::stage::{Stage, mapped_memory, serving_threads};

/// Cost of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Allocations by the threads that serve.
    pub(crate) allocations: u64,
    /// System calls that received something.
    pub(crate) receives: u64,
    /// System calls that sent something.
    pub(crate) sends: u64,
    /// Reads and writes of the storage, except those that go through a ring.
    pub(crate) storage: u64,
    /// Bytes moved from one place in memory to another.
    pub(crate) copied: u64,
}

/// Measures the cost of a load for a server that has served it before. A queue adds threads up to its
/// limit when all are busy, and a buffer for each slot that is used for the first time, at moments that
/// nothing else reveals: a run in which that happened does not count. `mark` is called before and after
/// each run.
pub(crate) fn cost(stage: &mut Stage, load: &Load, mark: impl Fn(&str)) -> Cost {
    load.run(stage);
    loop {
        let before = (stage.traffic(), serving_threads(), mapped_memory());
        let (calls, allocations) = (stage.backend.calls(), allocations::count());
        mark("begin");
        load.run(stage);
        let after = (stage.traffic(), serving_threads(), mapped_memory());
        mark("end");
        if (&before.1, &before.2) == (&after.1, &after.2) {
            let (before, after) = (before.0, after.0);
            return Cost {
                allocations: allocations::count() - allocations,
                receives: after.receives - before.receives,
                sends: after.sends - before.sends,
                storage: stage.backend.calls() - calls,
                copied: after.copied - before.copied,
            };
        }
    }
}

fn print(engine: Engine, load: &Load, cost: Cost) {
    let each = |count: u64| count as f64 / load.requests as f64;
    println!(
        "{engine:<9} {:<13} a request: {:.3} allocations, {:.3} receives, {:.3} sends, {:.3} calls of \
         the storage; a byte: {:.3} copies",
        load.name,
        each(cost.allocations),
        each(cost.receives),
        each(cost.sends),
        each(cost.storage),
        cost.copied as f64 / load.bytes() as f64
    );
}

#[test]
fn requests_cost_no_allocations_few_calls_and_no_needless_copy() {
    for engine in engines() {
        for load in LOADS {
            let mut stage = Stage::set(engine);
            let cost = cost(&mut stage, &load, |_| ());
            print(engine, &load, cost);
            check(engine, &load, cost);
        }
    }
}

fn check(engine: Engine, load: &Load, cost: Cost) {
    let told = format!("{engine} {}: {cost:?}", load.name);
    let requests = load.requests;
    assert_eq!(cost.allocations, 0, "{told}");

    let socket_calls = cost.receives + cost.sends;
    match (load.len, load.depth) {
        (4096, 1) => assert_eq!((cost.receives, cost.sends), (requests, requests), "{told}"),
        // Requests that come together are received together. A crew ends its jobs one by one, and each
        // is answered when it ends.
        (4096, _) if engine == Engine::Threads => {
            assert!(cost.receives <= requests / 4, "{told}");
            assert!(cost.sends <= requests, "{told}");
        }
        (4096, _) => assert!(socket_calls <= requests / 2, "{told}"),
        // A reply of 1 MiB goes out as a whole.
        _ if engine == Engine::Plain && !load.writes => {
            assert_eq!((cost.receives, cost.sends), (requests, requests), "{told}");
        }
        // A reply goes out in pieces of some 32 KiB to 128 KiB.
        _ => assert!(socket_calls <= requests * 64, "{told}"),
    }

    let pieces = load.len.div_ceil(32 << 10);
    match engine {
        Engine::IoUring => assert_eq!(cost.storage, 0, "{told}"),
        // A long write goes on as it comes, in pieces that end where sectors do.
        _ if load.writes && pieces > 1 => {
            assert!(cost.storage >= requests * pieces, "{told}");
            assert!(cost.storage <= requests * pieces * 2, "{told}");
        }
        Engine::Plain | Engine::Threads => assert_eq!(cost.storage, requests * pieces, "{told}"),
    }

    // A slot is another place than the socket's buffer: the cipher moves the bytes. Beyond that, what is
    // left of a request at the end of a full buffer moves to its front.
    let needed = if engine == Engine::Plain {
        0
    } else {
        load.bytes()
    };
    let few = match (load.len, load.depth) {
        (4096, 1) => 0,
        _ => load.bytes() / 10,
    };
    assert!(cost.copied >= needed, "{told}");
    assert!(cost.copied <= needed + few, "{told}");
}

/// Bytes of a page, at which buffers begin.
const PAGE: usize = 4096;
/// Bytes of a connection's buffer for each direction, at most.
const BUFFER: usize = limits::LONG_SEND_BUFFER;

/// On the plain path, the bytes that the storage is given lie in the socket's buffers, behind the
/// header that they came or go with.
#[test]
fn what_comes_and_goes_is_turned_where_it_lies() {
    for load in LOADS {
        let mut stage = Stage::set(Engine::Plain);
        load.run(&mut stage);
        let places = stage.backend.take_places();
        let first = *places.iter().min().unwrap();
        let last = *places.iter().max().unwrap();
        assert!(last - first < BUFFER, "{}: more than one buffer", load.name);
        // In a long request, this holds for the first piece only.
        assert_eq!(places[0] % PAGE, 28, "{}: not behind a header", load.name);
        if load.depth == 1 && load.len == 4096 {
            assert_eq!(first, last, "{}: always the same place", load.name);
        }
    }
}
