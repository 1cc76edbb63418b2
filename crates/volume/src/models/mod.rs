//! Models of handovers between threads and of exchanged tables, under a scheduler that tries out orders
//! of events: docs/testing.md says how they are run.
//!
//! A model that waits for ever fails, as one whose assertion fails does, and prints the order that led
//! there. Each model here has a canary: the same with one fault, which must be found.

mod gate;
mod handover;
mod isolation;
mod reload;
mod watched;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::Config;
use shuttle::scheduler::RandomScheduler;

/// Stack of a modelled thread, in bytes: ciphers have their tables on it.
const STACK: usize = 256 << 10;

/// Runs `model` in `orders` orders.
fn hold(orders: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK;
    shuttle::Runner::new(RandomScheduler::new(orders), config).run(model);
}

/// Demands that `model`, which has a fault, does not hold.
fn is_found_out(orders: usize, model: impl Fn() + Send + Sync + 'static) {
    let held = catch_unwind(AssertUnwindSafe(|| hold(orders, model)));
    assert!(held.is_err(), "a fault was not found in {orders} orders");
}
