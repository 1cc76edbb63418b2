//! Records of AES-GCM, as `scrim serve` seals and opens them.

use std::hint::black_box;

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

    /// Both sizes of key on every driver that can be used here, and by AWS-LC where `scrim serve` has that.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rows = implementations().iter();
        let ready = rows.filter(|row| row.name == "gcm(aes)" && row.state() == State::Ready);
        let mut all: Vec<_> = ready.flat_map(|row| of_driver(Some(row.driver))).collect();
        let usual = Self::usual();
        // AWS-LC's code is no driver.
        all.extend(usual.into_iter().filter(|usual| usual.code() == "awslc"));
        all
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
    /// Tags of the records that were sealed at once.
    tags: Vec<[u8; TAG]>,
    failure: Option<StreamError>,
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
            failure: None,
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

    /// The work by which turns are counted: sealing, which takes about as long as opening.
    pub(super) fn work(&mut self, buffers: &mut Buffers, load: Load, turns: u64) {
        buffers.calls(load, turns, |run| self.seal(run));
    }

    /// Times a slice. Calls of both directions go through the same data. What is to be opened is sealed in between, all
    /// that calls go through at once, which takes no time of the slice.
    pub(super) fn time(
        &mut self,
        stopwatch: &mut Stopwatch,
        buffers: &mut Buffers,
        load: Load,
        turns: u64,
    ) -> Slice {
        match self.direction {
            Direction::Encrypt => stopwatch.time(turns, |turns| self.work(buffers, load, turns)),
            Direction::Decrypt => {
                // Turns were counted by sealing alone, so the two sides have counted apart: both begin anew.
                match self.records.key() {
                    Ok(key) => (self.sealer, self.opener) = key,
                    Err(error) => self.failure = Some(error),
                }
                let calls = (load.walked() / load.call) as u64;
                let walks = stopwatch.time_prepared(
                    turns.div_ceil(calls),
                    &mut (self, buffers),
                    |(lane, buffers)| lane.seal(buffers.walked(load)),
                    |(lane, buffers)| lane.open(buffers.walked(load), load.call),
                );
                Slice {
                    turns: walks.turns * calls,
                    ..walks
                }
            }
        }
    }

    /// The last reason for which a record was not sealed or opened, so that the figures are none.
    pub(super) fn failure(&self) -> Option<StreamError> {
        self.failure
    }

    fn seal(&mut self, run: &mut [u8]) {
        let records = run.len() / self.size;
        // A key ends long before the numbers do. Where records are opened, both sides have counted as many.
        if self.sealer.number() + records as u64 > self.records.aead().records_max() {
            match self.records.key() {
                Ok(key) => (self.sealer, self.opener) = key,
                Err(error) => self.failure = Some(error),
            }
        }
        self.tags.resize(records, [0; TAG]);
        for (record, tag) in run.chunks_exact_mut(self.size).zip(&mut self.tags) {
            if let Err(error) = self.sealer.seal_in_place(&[], record, tag) {
                self.failure = Some(error);
            }
        }
    }

    /// Opens what was sealed at once, in calls of `call` bytes.
    fn open(&mut self, sealed: &mut [u8], call: usize) {
        let tags = self.tags.chunks_exact(call / self.size);
        for (run, tags) in sealed.chunks_exact_mut(call).zip(tags) {
            for (record, tag) in black_box(run).chunks_exact_mut(self.size).zip(tags) {
                if let Err(error) = self.opener.open_in_place(&[], record, tag) {
                    self.failure = Some(error);
                }
            }
        }
    }
}
