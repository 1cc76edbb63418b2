//! Marks of a header that is being made behind the old end of a file, by which its sectors are told from what
//! a user writes there.

use std::collections::BTreeMap;
use std::ops::Range;

use scrim_luks::kdf::Hash;
use scrim_luks::{Plan, Step, Target};

use super::digest::Digest;
use super::pieces::{SECTOR, is_zero};

/// Sectors of a record that hold marks.
pub(super) const SECTORS: usize = 7;
/// Bytes of a sector of marks before its digest.
const BODY: usize = SECTOR - 32;
/// Bytes of a mark: a user's sector has the same one in 1 of 2^48 cases.
const MARK: usize = 6;
/// Most marks that a record has room for. A header with more sectors has sectors that cannot be told.
const MARKS_MAX: usize = SECTORS * (BODY / MARK);
/// Length of the noise that is written at a time, in bytes.
const NOISE_PIECE: u64 = 1 << 20;

type Mark = [u8; MARK];
type Sector = [u8; SECTOR];

/// The sectors of a header: those of areas without a key hold noise that follows from the seed, and each
/// other one has a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) seed: [u8; 32],
    /// The marks of its other sectors, in ascending order.
    marks: Vec<Mark>,
}

impl Marks {
    /// Marks the header that `plan` writes. The seed follows from what is written, which has salts and
    /// encrypted key material in it, so that nobody can know it before.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut seed = Digest::default();
        for step in plan.steps() {
            if let Step::Write { bytes, .. } = step {
                seed.add(bytes);
            }
        }
        let mut marks = Self {
            seed: seed.0,
            marks: Vec::new(),
        };
        let sectors = marks.written(plan);
        marks.marks = sectors
            .iter()
            .map(|(at, sector)| marks.mark(*at, sector))
            .collect();
        marks.marks.truncate(MARKS_MAX);
        marks.marks.sort_unstable();
        marks
    }

    /// Carries out `plan` on `target`, but for its syncs, with this noise in the place of any other.
    pub(super) fn make<T: Target>(&self, plan: &Plan, target: &mut T) -> Result<(), T::Error> {
        for step in plan.steps() {
            match step {
                Step::Write { offset, bytes } => target.write_at(*offset, bytes)?,
                Step::Randomise { offset, len } => {
                    let end = offset + len;
                    let mut at = *offset;
                    while at < end {
                        let to = end.min((at / NOISE_PIECE + 1) * NOISE_PIECE);
                        target.write_at(at, &self.noise(at, to))?;
                        at = to;
                    }
                }
                Step::Sync => {}
            }
        }
        Ok(())
    }

    /// Checks whether a sector that was found where the header's sector at `offset` is made is that one, or
    /// what lay there before it: noise, or nothing.
    pub(super) fn is_sector(&self, offset: u64, found: &[u8]) -> bool {
        is_zero(found)
            || self.noise_sector(offset) == found
            || self.marks.binary_search(&self.mark(offset, found)).is_ok()
    }

    /// Encodes the marks in sectors that prove to be marks, each by the digest at its end.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(SECTORS * SECTOR);
        for place in 0..SECTORS {
            let len = BODY / MARK;
            let marks = self.marks.iter().skip(place * len).take(len);
            let mut body: Vec<u8> = marks.flatten().copied().collect();
            body.resize(BODY, 0);
            let digest = Self::digest(place, &body);
            all.extend(body);
            all.extend(digest.0);
        }
        all
    }

    /// Reads the marks of those sectors that are whole; a power cut may have kept the others from being
    /// written.
    pub(super) fn decode(seed: [u8; 32], sectors: &[u8]) -> Self {
        let mut marks: Vec<Mark> = Vec::new();
        for (place, sector) in sectors.chunks_exact(SECTOR).enumerate() {
            if Self::is_marks(place, sector) {
                let (found, _) = sector[..BODY].as_chunks();
                marks.extend(found.iter().filter(|mark| !is_zero(*mark)));
            }
        }
        marks.sort_unstable();
        Self { seed, marks }
    }

    /// Checks whether a sector of a record is one of marks.
    pub(super) fn is_marks(place: usize, sector: &[u8]) -> bool {
        let (body, digest) = sector.split_at(BODY);
        Self::digest(place, body).0 == digest
    }

    fn digest(place: usize, body: &[u8]) -> Digest {
        let mut digest = Digest::default();
        digest.add(b"scrim in place marks");
        digest.add(&(place as u64).to_le_bytes());
        digest.add(body);
        digest
    }

    /// The sectors that steps of `plan` write, as they are in the end, without those that are empty.
    fn written(&self, plan: &Plan) -> BTreeMap<u64, Sector> {
        let mut sectors = BTreeMap::new();
        let mut noise: Vec<Range<u64>> = Vec::new();
        for step in plan.steps() {
            match step {
                Step::Write { offset, bytes } => {
                    let mut rest = bytes.as_slice();
                    let mut at = *offset;
                    while !rest.is_empty() {
                        let within = usize::try_from(at % SECTOR as u64).unwrap_or(0);
                        let (now, later) = rest.split_at(rest.len().min(SECTOR - within));
                        let start = at - within as u64;
                        let before = || match noise.iter().any(|area| area.contains(&start)) {
                            true => self.noise_sector(start),
                            false => [0; SECTOR],
                        };
                        let sector = sectors.entry(start).or_insert_with(before);
                        sector[within..within + now.len()].copy_from_slice(now);
                        at += now.len() as u64;
                        rest = later;
                    }
                }
                Step::Randomise { offset, len } => {
                    let area = *offset..offset + len;
                    sectors.retain(|at, _| !area.contains(at));
                    noise.push(area);
                }
                Step::Sync => {}
            }
        }
        sectors.retain(|_, sector| !is_zero(sector));
        sectors
    }

    /// Returns the noise from one offset to another.
    fn noise(&self, from: u64, end: u64) -> Vec<u8> {
        let sector = SECTOR as u64;
        let first = from / sector * sector;
        let mut noise: Vec<u8> = (first..end)
            .step_by(SECTOR)
            .flat_map(|at| self.noise_sector(at))
            .collect();
        let cut = usize::try_from(from - first).unwrap_or(0);
        noise.drain(..cut);
        noise.truncate(usize::try_from(end - from).unwrap_or(usize::MAX));
        noise
    }

    fn noise_sector(&self, offset: u64) -> Sector {
        let mut sector = [0; SECTOR];
        for (part, bytes) in (0_u8..).zip(sector.chunks_exact_mut(32)) {
            Hash::Sha256.digest(&[&self.seed, &offset.to_le_bytes(), &[part]], bytes);
        }
        sector
    }

    fn mark(&self, offset: u64, sector: &[u8]) -> Mark {
        let mut mark = [0; MARK];
        Hash::Sha256.digest(&[&self.seed, &offset.to_le_bytes(), sector], &mut mark);
        mark
    }
}
