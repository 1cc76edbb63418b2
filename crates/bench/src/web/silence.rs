//! A limit of silence: a client gives up a server that sends nothing any more.

use std::time::{Duration, Instant};

use super::error::WebError;

/// Longest silence of a server.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest interval between two looks at the clock while a client waits.
const LOOK: Duration = Duration::from_secs(1);

/// Silence of a server, as far as the client listened: a client that was itself stopped for a while (SIGSTOP, a
/// debugger) has not heard anything either, and does not blame the server for it.
pub(super) struct Silence {
    lasts: Duration,
    looked: Instant,
}

impl Silence {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            lasts: Duration::ZERO,
            looked: now,
        }
    }

    /// Called at least every [`LOOK`] while a server is waited for.
    pub(super) fn look(
        &mut self,
        has_heard: bool,
        now: Instant,
        server: &str,
    ) -> Result<(), WebError> {
        let since = now - self.looked;
        self.looked = now;
        if has_heard {
            self.lasts = Duration::ZERO;
            return Ok(());
        }
        self.lasts += since.min(LOOK);
        if self.lasts < PATIENCE {
            return Ok(());
        }
        let text = format!(
            "it said nothing for {} seconds, or its answers have become shorter than the first one",
            PATIENCE.as_secs()
        );
        Err(WebError::answer(server, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_that_was_listened_to_counts() {
        let start = Instant::now();
        let mut silence = Silence::new(start);
        // Stopped for an hour.
        let mut now = start + Duration::from_secs(3600);
        silence.look(false, now, "it").unwrap();
        for _ in 2..20 {
            now += LOOK;
            silence.look(false, now, "it").unwrap();
        }
        let error = silence.look(false, now + LOOK, "it").unwrap_err();
        assert!(error.to_string().contains("nothing for 20 s"), "{error}");
        silence.look(true, now + LOOK, "it").unwrap();
        silence.look(false, now + 2 * LOOK, "it").unwrap();
    }
}
