//! Running guests, up to two for each kernel.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use scrim_guest::{Cache, Error, Guest, Kernel, Machine, Version};

use crate::case::{self, Case};

/// Number of guests of one kernel that run beside each other, on a processor each.
const BESIDE: usize = 2;

/// Guests of each kernel. One is booted when a test finds no other that is idle, and again when it was lost.
#[derive(Default)]
pub(crate) struct Pool {
    guests: [[Mutex<Option<Guest>>; BESIDE]; Kernel::ALL.len()],
}

/// Exit code and output of a script.
pub(crate) struct Outcome {
    pub(crate) code: u8,
    pub(crate) printed: String,
}

/// Run after each case: it stops what the case left behind, and fails if there was anything.
const TIDY: &str = ". /share/tests/guest/lib.sh && tidy";
const TIDY_LIMIT: Duration = Duration::from_secs(60);

impl Pool {
    /// Runs a case, with the shell's `settings` before it.
    pub(crate) fn run(
        &self,
        kernel: Kernel,
        case: &Case,
        settings: &str,
    ) -> Result<Outcome, Error> {
        let mut slot = self.slot(kernel);
        let mut guest = match slot.take() {
            Some(guest) => guest,
            None => boot(kernel)?,
        };
        let mut printed = Vec::new();
        let script = format!(
            "{settings}\n. /share/tests/guest/lib.sh\n. /share/tests/guest/cases/{}.sh\n",
            case.name
        );
        let ended = run_and_tidy(&mut guest, &script, case.limit, &mut printed);
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let code = ended.inspect_err(|_| print!("{printed}"))?;
        // Only a guest that answered is used again.
        *slot = Some(guest);
        Ok(Outcome { code, printed })
    }

    /// Powers off all running guests.
    pub(crate) fn power_off(&self) {
        for guest in self.guests.iter().flatten() {
            let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Err(error)) = guest.take().map(Guest::power_off) {
                println!("warning: {error}");
            }
        }
    }

    /// Locks one of this kernel's guests that no other test uses, or waits for the first of them.
    fn slot(&self, kernel: Kernel) -> MutexGuard<'_, Option<Guest>> {
        let guests = &self.guests[kernel as usize];
        let mut idle = guests.iter().filter_map(|guest| match guest.try_lock() {
            Ok(idle) => Some(idle),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        idle.next()
            .unwrap_or_else(|| guests[0].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn run_and_tidy(
    guest: &mut Guest,
    script: &str,
    limit: Duration,
    printed: &mut Vec<u8>,
) -> Result<u8, Error> {
    let mut keep = |_, bytes: &[u8]| printed.extend_from_slice(bytes);
    let code = guest.run(script, limit, &mut keep)?;
    if code == 0 {
        return guest.run(TIDY, TIDY_LIMIT, &mut keep);
    }
    // What a failed case left is no news.
    guest.run(TIDY, TIDY_LIMIT, &mut |_, _| {})?;
    Ok(code)
}

fn boot(kernel: Kernel) -> Result<Guest, Error> {
    let mut announce = |step: &str| println!("guest: {step}");
    let parts = Cache::open()?.parts(kernel, Version::Cached, &mut announce)?;
    let machine = Machine {
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_scrim"))),
        share: Some(case::workspace()),
        ..Machine::default()
    };
    Guest::boot(&parts, &machine)
}
