//! Measurement of the time that one request spends in each stage.

use std::time::{Duration, Instant};

/// Stage of a request: what it waits for, or what is done for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waiting in a queue, or for a lock.
    Waiting,
    /// Being encrypted or decrypted.
    Cipher,
    /// Waiting for the storage.
    Backend,
}

/// The stages of a request that is measured; nothing at all of one that is not.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Times>);

#[derive(Debug)]
pub(crate) struct Times {
    begun: Instant,
    last: Instant,
    pub(crate) waiting: Duration,
    pub(crate) cipher: Duration,
    pub(crate) backend: Duration,
}

impl Trace {
    /// Starts the trace of a request that begins now.
    pub(crate) fn started() -> Self {
        let now = Instant::now();
        Self(Some(Times {
            begun: now,
            last: now,
            waiting: Duration::ZERO,
            cipher: Duration::ZERO,
            backend: Duration::ZERO,
        }))
    }

    /// The trace of a request that is not measured.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    /// The time since the mark before belongs to `stage`.
    pub(crate) fn mark(&mut self, stage: Stage) {
        let Some(times) = &mut self.0 else {
            return;
        };
        let now = Instant::now();
        let spent = now.saturating_duration_since(times.last);
        times.last = now;
        match stage {
            Stage::Waiting => times.waiting += spent,
            Stage::Cipher => times.cipher += spent,
            Stage::Backend => times.backend += spent,
        }
    }

    /// A trace of a part of the same request, which goes on elsewhere.
    pub(crate) fn part(&self) -> Self {
        if self.0.is_some() {
            Self::started()
        } else {
            Self::off()
        }
    }

    /// Adds what became of a part. Parts that go on side by side add up to more than the whole.
    pub(crate) fn add(&mut self, part: &Self) {
        if let (Some(times), Some(part)) = (&mut self.0, &part.0) {
            times.waiting += part.waiting;
            times.cipher += part.cipher;
            times.backend += part.backend;
            times.last = Instant::now();
        }
    }

    /// Returns the time that it took, in all and by stage, if it was measured.
    pub(crate) fn end(&self) -> Option<(Duration, &Times)> {
        let times = self.0.as_ref()?;
        Some((times.begun.elapsed(), times))
    }
}
