//! Compares ciphers on a file server's own storage, with bonnie++'s phases on a mounted file system, as a report of 2009
//! did over a night.
//!
//! A [`Night`] is the plan with the results so far. [`measure`] runs the turns that have no result yet and saves the
//! night after each, so that a run that was killed goes on where it ended. In each turn a volume is made on the storage,
//! an ext4 file system in it is mounted, and all phases run. Series are named `COMBINATION_PHASE`, such as
//! `aes-xts-plain64_512b_inline_block_read`, and the same with `_scrim_cpu`, `_fuse2fs_cpu` and `_generator_cpu` (CPU
//! seconds per GB), `_busy_cores`, `_memory`, `_bystander_p50` and `_bystander_p99`. Plain data is `plain_scrim` and
//! `plain_kernel`. Ratios compare a round's samples:
//!
//! | ratio | compares |
//! |---|---|
//! | `COMBINATION_PHASE_vs_plain` | the rate with that of plain data on the same way |
//! | `CIPHER_inline_PHASE_vs_queued` | Scrim's mount without queues with the one through them |

mod advice;
mod against;
mod bonnie;
mod bystander;
mod caches;
mod check;
mod combination;
mod error;
mod generator;
mod identity;
mod leftovers;
mod meter;
mod night;
mod outcome;
mod page;
mod phase;
mod place;
mod program;
mod reference;
mod run;
mod sampler;
mod stack;

use std::path::Path;

pub use against::Earlier;
pub use bonnie::BONNIE;
pub use bystander::Latency;
pub use caches::CACHES_KEPT;
pub use combination::{Cipher, Combination, MountPath};
pub use error::FileserverError;
pub use identity::Identity;
pub use night::{Client, Night, PhaseResult, Plan, Raw, Source, TurnResult, beside};
pub use page::page;
pub use phase::{Load, Phase};
pub use place::{FOLDER, Target};
pub use reference::{Link, References};
pub use sampler::Usage;
pub use stack::{Method, can_measure, has_dm_crypt};

use crate::{Study, Watch};

/// Measures every turn of `night` that has no result and that [`can_measure`] allows, and saves the night in `state` after
/// each. `watch` hears how far it is, and can end it; complete turns are kept then. `program` is Scrim. With `resumes`,
/// files that an earlier run has left are removed first.
///
/// Everything that is made is removed at the end, except the state file.
///
/// # Errors
/// When the storage cannot be used or the state cannot be saved. A combination that fails is noted in the night, and the
/// others go on.
pub fn measure(
    night: &mut Night,
    state: &Path,
    program: &Path,
    resumes: bool,
    watch: &mut Watch<'_>,
) -> Result<(), FileserverError> {
    run::measure(night, state, program, resumes, watch)
}

/// Measures the generator and the real bonnie++ in a directory in the rounds of `study`, with ratios named
/// `generator_vs_bonnie_PHASE`. Both have the caches dropped before each phase that reads.
///
/// # Errors
/// When a file cannot be written, or bonnie++ does not run.
pub fn check_bonnie(
    directory: &Path,
    load: Load,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<(), FileserverError> {
    check::measure(directory, load, study, watch)
}
