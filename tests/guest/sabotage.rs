//! The tests' own test: a volume that is broken between its maker and its judge makes a case fail,
//! and for the right reason.

use std::sync::Arc;

use libtest_mimic::Trial;
use scrim_guest::Kernel;

use crate::case::Case;
use crate::pool::Pool;

/// The cases that hand volumes over, by the function `hand_over` of `lib.sh`.
const CASES: [&str; 2] = ["cryptsetup_to_scrim", "scrim_to_cryptsetup"];

/// Damage that `hand_over` can do to a volume, each on another kernel: the suite's own code is the same on all.
const DEEDS: [(&str, Kernel); 3] = [
    ("flipped_bit", Kernel::V6_1),
    ("shifted_iv", Kernel::V6_12),
    ("swapped_sectors", Kernel::V7_3),
];

/// Message of a case that finds a changed payload.
const COMPLAINT: &str = "payload differs";

pub(crate) fn trials(pool: &Arc<Pool>, cases: &[Case]) -> Vec<Trial> {
    let find = |name| cases.iter().find(|case| case.name == name);
    let cases = CASES.map(|name| find(name).unwrap_or_else(|| panic!("no case {name}")));
    cases
        .into_iter()
        .flat_map(|case| DEEDS.map(|(deed, kernel)| trial(pool, case, deed, kernel)))
        .collect()
}

fn trial(pool: &Arc<Pool>, case: &Case, deed: &'static str, kernel: Kernel) -> Trial {
    let (pool, case) = (Arc::clone(pool), case.clone());
    Trial::test(
        format!("{kernel}::sabotage::{}::{deed}", case.name),
        move || {
            let settings = format!("SABOTAGE={deed} ONLY_FIRST=yes");
            let outcome = pool.run(kernel, &case, &settings)?;
            if outcome.code != 0 && outcome.printed.contains(COMPLAINT) {
                return Ok(());
            }
            Err(format!(
                "exit code {}; it printed:\n{}",
                outcome.code, outcome.printed
            )
            .into())
        },
    )
}
