//! Scrim against real kernels: each script in `cases` is a test on each kernel that its head names,
//! and the tests on one kernel share up to two boots. docs/testing.md tells how to add one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod case;
mod pool;
mod sabotage;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use scrim_guest::Kernel;

use crate::case::Case;
use crate::pool::Pool;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Err(missing) = scrim_guest::check_tools() {
        assert!(
            std::env::var_os("CI").is_none(),
            "in CI, where nothing is skipped: {missing}"
        );
        println!("skipped: all tests in guests: {missing}");
        return ExitCode::SUCCESS;
    }
    let pool = Arc::new(Pool::default());
    let mut cases = case::all();
    // The longest first, so that no processor waits for another at the end.
    cases.sort_by_key(|case| std::cmp::Reverse(case.limit));
    // The kernels take turns, so that tests that run at the same time use different ones.
    let mut trials = Vec::new();
    for case in &cases {
        for kernel in Kernel::ALL {
            if case.kernels.contains(&kernel) {
                trials.push(trial(&pool, case, kernel));
            }
        }
    }
    trials.extend(sabotage::trials(&pool, &cases));
    let conclusion = libtest_mimic::run(&arguments, trials);
    pool.power_off();
    conclusion.exit_code()
}

fn trial(pool: &Arc<Pool>, case: &Case, kernel: Kernel) -> Trial {
    let (pool, case) = (Arc::clone(pool), case.clone());
    Trial::test(format!("{kernel}::{}", case.name), move || {
        let outcome = pool.run(kernel, &case, "")?;
        if outcome.code == 0 {
            return Ok(());
        }
        Err(format!(
            "exit code {}; it printed:\n{}",
            outcome.code, outcome.printed
        )
        .into())
    })
}
