//! The gate: no thread is inside while it is closed, each has the present value, and none is left outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::thread;

use super::{hold, is_found_out};
use crate::gate::Gate;

const ROUNDS: usize = 2;

/// State that the model sees from outside; no part of its own synchronisation.
#[derive(Default)]
struct Seen {
    closed: AtomicBool,
    now: AtomicUsize,
    inside: AtomicUsize,
}

fn pass(gate: &Gate<usize>, seen: &Seen) {
    let pass = gate.enter();
    let before = seen.inside.fetch_add(1, Ordering::SeqCst);
    assert!(before < 3);
    let at_rest = || {
        assert!(!seen.closed.load(Ordering::SeqCst), "inside a closed gate");
        assert_eq!(
            **pass,
            seen.now.load(Ordering::SeqCst),
            "with what was there"
        );
    };
    at_rest();
    thread::yield_now();
    at_rest();
    seen.inside.fetch_sub(1, Ordering::SeqCst);
}

fn exchange(gate: &Gate<usize>, seen: &Seen, round: usize, closes: bool) {
    if closes {
        assert!(gate.close(Duration::MAX) && gate.is_closed());
        assert_eq!(seen.inside.load(Ordering::SeqCst), 0);
        seen.closed.store(true, Ordering::SeqCst);
        thread::yield_now();
    }
    gate.exchange(&Arc::new(round));
    seen.now.store(round, Ordering::SeqCst);
    seen.closed.store(false, Ordering::SeqCst);
    if closes {
        gate.open();
    }
    assert_eq!(*gate.peek(), round);
}

fn passing_and_exchanging(closes: bool) {
    let shared = Arc::new((Gate::new(0), Seen::default()));
    let passing = (0..3).map(|_| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || (0..ROUNDS).for_each(|_| pass(&shared.0, &shared.1)))
    });
    let passing: Vec<_> = passing.collect();
    (1..=ROUNDS).for_each(|round| exchange(&shared.0, &shared.1, round, closes));
    for thread in passing {
        thread.join().unwrap();
    }
}

#[test]
fn nobody_is_inside_a_closed_gate_or_left_outside_an_open_one() {
    hold(20_000, || passing_and_exchanging(true));
}

#[test]
fn who_exchanges_without_closing_is_found_out() {
    is_found_out(20_000, || passing_and_exchanging(false));
}

#[test]
fn a_gate_that_cannot_be_closed_in_time_is_open_for_those_outside() {
    hold(10_000, || {
        let gate = Arc::new(Gate::new(0));
        let passing = (0..2).map(|_| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let pass = gate.enter();
                thread::yield_now();
                drop(pass);
                drop(gate.enter());
            })
        });
        let passing: Vec<_> = passing.collect();
        if gate.close(Duration::ZERO) {
            gate.open();
        }
        for thread in passing {
            thread.join().unwrap();
        }
        assert!(!gate.is_closed());
    });
}
