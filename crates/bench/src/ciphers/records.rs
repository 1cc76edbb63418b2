//! Records of AES-GCM, as `scrim serve` seals and opens them.

use scrim_crypt::stream::{Aead, NONCE, Opener, Sealer, StreamError, TAG, code_for};
use scrim_crypt::{State, implementations};

use super::load::{Buffers, Direction, Load, Warmth};
use crate::{Slice, Stopwatch};

/// Lengths of records in bytes: a short answer, and the longest that TLS has.
pub(super) const SIZES: [usize; 2] = [1 << 10, 16 << 10];

/// AES-GCM with a size of key.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// Length of the key, in bytes: 16 or 32.
    pub key_bytes: usize,
    /// The driver, where another than the best is wanted.
    pub driver: Option<&'static str>,
}

impl Records {
    /// Both sizes of key, by the code that `scrim serve` has.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        if code_for(Aead::Aes128Gcm).is_none() {
            return Vec::new();
        }
        of_driver(None)
    }

    /// Both sizes of key on every driver that can be used here.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rows = implementations().iter();
        let ready = rows.filter(|row| row.name == "gcm(aes)" && row.state() == State::Ready);
        ready.flat_map(|row| of_driver(Some(row.driver))).collect()
    }

    /// Bits of the AES key.
    pub(super) fn aes_bits(&self) -> usize {
        self.key_bytes * 8
    }

    /// Name of the code that computes them.
    pub(super) fn code(&self) -> &'static str {
        let code = self.driver.or_else(|| code_for(self.aead()));
        code.unwrap_or_default()
    }

    fn aead(&self) -> Aead {
        match self.key_bytes {
            16 => Aead::Aes128Gcm,
            _ => Aead::Aes256Gcm,
        }
    }

    /// Sets up both sides, with a key that is no secret.
    pub(super) fn key(&self) -> Result<(Sealer, Opener), StreamError> {
        let key: Vec<u8> = (0..=u8::MAX).cycle().take(self.key_bytes).collect();
        let (aead, iv) = (self.aead(), &[0; NONCE]);
        match self.driver {
            Some(driver) => Ok((
                Sealer::new_with_driver(aead, driver, &key, iv, 0)?,
                Opener::new_with_driver(aead, driver, &key, iv, 0)?,
            )),
            None => Ok((
                Sealer::new(aead, &key, iv, 0)?,
                Opener::new(aead, &key, iv, 0)?,
            )),
        }
    }
}

fn of_driver(driver: Option<&'static str>) -> Vec<Records> {
    let sizes = [16, 32].into_iter();
    sizes
        .map(|key_bytes| Records { key_bytes, driver })
        .collect()
}

/// Records of one length going one way.
pub(super) struct RecordLane {
    pub(super) records: Records,
    /// Bytes of a record, without its tag.
    pub(super) size: usize,
    pub(super) direction: Direction,
    sealer: Sealer,
    opener: Opener,
    /// Tags of the records of a call.
    tags: Vec<[u8; TAG]>,
}

impl RecordLane {
    pub(super) fn new(
        records: Records,
        size: usize,
        direction: Direction,
    ) -> Result<Self, StreamError> {
        let (sealer, opener) = records.key()?;
        Ok(Self {
            records,
            size,
            direction,
            sealer,
            opener,
            tags: Vec::new(),
        })
    }

    /// Returns whether there is something to measure: a call has at least one record. What is opened was sealed just
    /// before, so it never comes from memory.
    pub(super) fn has(&self, load: Load) -> bool {
        let opened_cold = (self.direction, load.warmth) == (Direction::Decrypt, Warmth::Cold);
        load.call >= self.size && !opened_cold
    }

    /// Name as a part of series' names.
    pub(super) fn name(&self, load: Load) -> String {
        let driver = self.records.driver.map(|driver| format!("_{driver}"));
        let (bits, driver) = (self.records.aes_bits(), driver.unwrap_or_default());
        let (size, load, direction) = (self.size, load.name(), self.direction.name());
        format!("aes-gcm_{bits}b{driver}_r{size}_{load}_{direction}")
    }

    pub(super) fn workload(&self, load: Load, cold: usize) -> String {
        format!(
            "{} aes-gcm, {}-bit key, {}-byte records, in place, {}, by {}",
            self.direction.name(),
            self.records.aes_bits(),
            self.size,
            load.describe(cold),
            self.records.code(),
        )
    }

    pub(super) fn work(&mut self, buffers: &mut Buffers, load: Load, turns: u64) {
        buffers.calls(load, turns, |run| {
            self.seal(run);
            if self.direction == Direction::Decrypt {
                self.open(run);
            }
        });
    }

    /// Times a slice. What is to be opened is sealed in between, which takes no time of the slice.
    pub(super) fn time(
        &mut self,
        stopwatch: &mut Stopwatch,
        buffers: &mut Buffers,
        load: Load,
        turns: u64,
    ) -> Slice {
        match self.direction {
            Direction::Encrypt => stopwatch.time(turns, |turns| self.work(buffers, load, turns)),
            Direction::Decrypt => stopwatch.time_prepared(
                turns,
                &mut (self, buffers),
                |(lane, buffers)| buffers.again(load, |run| lane.seal(run)),
                |(lane, buffers)| buffers.again(load, |run| lane.open(run)),
            ),
        }
    }

    fn seal(&mut self, run: &mut [u8]) {
        let records = run.len() / self.size;
        // Both sides have counted as many, and a key ends long before the numbers do.
        if self.sealer.number() + records as u64 > self.records.aead().records_max()
            && let Ok(key) = self.records.key()
        {
            (self.sealer, self.opener) = key;
        }
        self.tags.resize(records, [0; TAG]);
        for (record, tag) in run.chunks_exact_mut(self.size).zip(&mut self.tags) {
            // It cannot fail: the record is short, and the key is not exhausted.
            let _ = self.sealer.seal_in_place(&[], record, tag);
        }
    }

    fn open(&mut self, run: &mut [u8]) {
        for (record, tag) in run.chunks_exact_mut(self.size).zip(&self.tags) {
            // It cannot fail: it is what was sealed.
            let _ = self.opener.open_in_place(&[], record, tag);
        }
    }
}
