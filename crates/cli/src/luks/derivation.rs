//! Limits on the cost of unlocking a header: the header itself names that cost, and somebody else may have written it.
//!
//! A header is from *elsewhere* if it is on an NBD server, or in a regular file that belongs neither to
//! the user of this process nor to root. It may ask for no more memory than cryptsetup asks for by
//! default, and all of its key slots together for no more than two minutes, unless options allow more.
//! For block devices and the user's own files the machine is the only limit; an unusual cost is reported.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use scrim_backend::{Backend, Medium};
use scrim_figures::Size;
use scrim_luks::kdf::{Kdf, KdfError, KdfGuard};
use scrim_luks::{Header, VolumeKey};
use scrim_volume::LuksError;

use crate::error::CliError;
use crate::process::{daemon, signals};
use crate::terminal::note;
use crate::terminal::progress::Display;

/// Most memory for a header from elsewhere, in KiB: cryptsetup's default, and its own for new key slots.
const MEMORY_KIB: u64 = 1 << 20;
/// Longest time for a header from elsewhere: each of 32 key slots may take almost twice the 2 s that
/// cryptsetup makes one take.
const TIME: Duration = Duration::from_secs(120);
/// Time after which a user wonders what happens.
const NOTICED: Duration = Duration::from_secs(1);
/// More passes, times KiB of memory, than any machine does in cryptsetup's 2 s.
const UNUSUAL_WORK_KIB: u64 = 64 << 20;
/// More iterations than any machine does in 2 s.
const UNUSUAL_ITERATIONS: u32 = 50_000_000;

/// Limits that the user names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CostLimits {
    pub(crate) memory_kib: Option<u32>,
    pub(crate) time: Option<Duration>,
}

/// Reports the cost that a header asks for, refuses one above the limits, and ends a key derivation that takes too long
/// or is no longer wanted.
pub(crate) struct Guard<'a> {
    place: &'a str,
    is_elsewhere: bool,
    memory_kib: Option<u64>,
    time: Option<Duration>,
    start: Instant,
    /// The derivation that runs, in words, and where it is shown.
    running: Mutex<(String, Display)>,
}

impl<'a> Guard<'a> {
    /// Guards the trial of one passphrase on the header that `backend` holds.
    pub(crate) fn new(place: &'a str, backend: &dyn Backend, asked: CostLimits) -> Self {
        let is_elsewhere = is_elsewhere(backend);
        Self {
            place,
            is_elsewhere,
            memory_kib: match asked.memory_kib {
                Some(kib) => Some(kib.into()),
                None => is_elsewhere.then_some(MEMORY_KIB),
            },
            time: asked.time.or(is_elsewhere.then_some(TIME)),
            start: Instant::now(),
            running: Mutex::new((String::new(), Display::new("unlocking", "stops it"))),
        }
    }
}

impl Guard<'_> {
    /// Shows what takes long.
    fn show(&self) {
        if self.start.elapsed() >= NOTICED
            && let Ok(mut running) = self.running.try_lock()
        {
            let (what, display) = &mut *running;
            let seconds = self.start.elapsed().as_secs();
            display.count(|| format!("unlocking {}: {what}, {seconds} s", self.place));
        }
    }

    /// Checks that `key` is the volume key of `header`.
    pub(crate) fn verify(&self, header: &Header, key: &VolumeKey) -> Result<(), CliError> {
        let verified = header.verify_volume_key_guarded(key, self);
        verified.map_err(|error| CliError::from(LuksError::from(error)).within(self.place))
    }
}

impl KdfGuard for Guard<'_> {
    fn begin(&self, keyslot: Option<u8>, kdf: &Kdf) -> Result<(), KdfError> {
        self.go_on()?;
        let (needed, limit) = (memory_kib(kdf), self.memory_kib);
        if let Some(limit_kib) = limit.filter(|limit| needed > *limit) {
            return Err(KdfError::OverLimit {
                need_kib: needed,
                limit_kib,
            });
        }
        let what = match keyslot {
            Some(slot) => format!("key slot {slot}"),
            None => "the digest of the key".to_owned(),
        };
        if let Ok(mut running) = self.running.lock() {
            running.1.clear();
            running.0.clone_from(&what);
        }
        if is_unusual(kdf) || self.is_elsewhere && keyslot.is_some() {
            note(format_args!(
                "{}: {what} asks for {}",
                self.place,
                work(kdf)
            ));
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), KdfError> {
        if signals::asked_to_end() || daemon::is_abandoned() {
            return Err(KdfError::Interrupted);
        }
        match self.time.filter(|time| self.start.elapsed() >= *time) {
            Some(time) => Err(KdfError::TimeLimit {
                seconds: time.as_secs(),
            }),
            None => {
                self.show();
                Ok(())
            }
        }
    }
}

/// Checks whether somebody else may have written a header.
fn is_elsewhere(backend: &dyn Backend) -> bool {
    match backend.medium() {
        Medium::Remote { .. } => true,
        Medium::Memory => false,
        Medium::File { file, .. } => rustix::fs::fstat(file).map_or(true, |found| {
            let is_regular = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
            let owner = found.st_uid;
            let is_own = owner == 0 || owner == rustix::process::geteuid().as_raw();
            is_regular && (!is_own || found.st_mode & 0o002 != 0)
        }),
    }
}

fn memory_kib(kdf: &Kdf) -> u64 {
    match kdf {
        Kdf::Pbkdf2 { .. } => 0,
        Kdf::Argon2i { cost } | Kdf::Argon2id { cost } => cost.memory_kib.into(),
    }
}

fn is_unusual(kdf: &Kdf) -> bool {
    match kdf {
        Kdf::Pbkdf2 { iterations, .. } => *iterations > UNUSUAL_ITERATIONS,
        Kdf::Argon2i { cost } | Kdf::Argon2id { cost } => {
            let memory = u64::from(cost.memory_kib);
            memory > MEMORY_KIB || memory * u64::from(cost.time) > UNUSUAL_WORK_KIB
        }
    }
}

/// A derivation in words.
fn work(kdf: &Kdf) -> String {
    let (name, cost) = match kdf {
        Kdf::Pbkdf2 { hash, iterations } => {
            return format!("{iterations} iterations of pbkdf2 with {hash}");
        }
        Kdf::Argon2i { cost } => ("argon2i", cost),
        Kdf::Argon2id { cost } => ("argon2id", cost),
    };
    let memory = Size::of_kib(cost.memory_kib);
    format!("{} passes over {memory} of memory by {name}", cost.time)
}

#[cfg(test)]
mod tests {
    use scrim_backend::MemoryBackend;
    use scrim_luks::kdf::{Argon2Cost, Hash};

    use super::*;

    fn argon2(time: u32, memory_kib: u32) -> Kdf {
        Kdf::Argon2id {
            cost: Argon2Cost {
                time,
                memory_kib,
                lanes: 4,
            },
        }
    }

    fn guard(asked: CostLimits, is_elsewhere: bool) -> Guard<'static> {
        let mut guard = Guard::new("here", &MemoryBackend::new(Vec::new()), asked);
        if is_elsewhere {
            guard.is_elsewhere = true;
            guard.memory_kib = guard.memory_kib.or(Some(MEMORY_KIB));
            guard.time = guard.time.or(Some(TIME));
        }
        guard
    }

    #[test]
    fn a_header_from_elsewhere_gets_what_cryptsetup_asks_for_and_no_more() {
        let usual = CostLimits::default();
        assert_eq!(
            guard(usual, true).begin(Some(0), &argon2(4, 1 << 20)),
            Ok(())
        );
        let refused = guard(usual, true).begin(Some(0), &argon2(1, (1 << 20) + 1));
        let expected = KdfError::OverLimit {
            need_kib: (1 << 20) + 1,
            limit_kib: 1 << 20,
        };
        assert_eq!(refused, Err(expected));
        let more = CostLimits {
            memory_kib: Some(4 << 20),
            time: None,
        };
        assert_eq!(
            guard(more, true).begin(Some(0), &argon2(1, 4 << 20)),
            Ok(())
        );
        assert_eq!(
            guard(usual, false).begin(Some(0), &argon2(1, 4 << 20)),
            Ok(())
        );
        let none = CostLimits {
            memory_kib: None,
            time: Some(Duration::ZERO),
        };
        let late = guard(none, false).go_on();
        assert_eq!(late, Err(KdfError::TimeLimit { seconds: 0 }));
    }

    #[test]
    fn what_is_asked_for_is_said_in_words() {
        assert_eq!(
            work(&argon2(4, 1 << 20)),
            "4 passes over 1.0 GiB of memory by argon2id"
        );
        let (hash, iterations) = (Hash::Sha256, 2_000_000);
        let kdf = Kdf::Pbkdf2 { hash, iterations };
        assert_eq!(work(&kdf), "2000000 iterations of pbkdf2 with sha256");
        assert!(!is_unusual(&kdf) && !is_unusual(&argon2(4, 1 << 20)));
        assert!(is_unusual(&argon2(4096, 1 << 20)) && is_unusual(&argon2(1, 2 << 20)));
    }
}
