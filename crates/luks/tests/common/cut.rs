//! Power cuts: every state in which a disk may be found when a plan was cut short.
//!
//! The disk that is assumed keeps everything from before the last sync. Of the writes since then it
//! keeps each 512-byte sector or not, in any order; a sector is never torn.

use scrim_luks::{Plan, Step, Target};
use scrim_seeded::Random;

use super::Memory;

const SECTOR: usize = 512;
/// Random choices of sectors in each group of writes between two syncs.
const RANDOM: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Keeps what was synced.
    Honest,
    /// Only claims to do so: the canary.
    IgnoresSync,
}

/// Progress of a plan that was cut: the group of writes between two syncs, and the part of it on the disk.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "shown when a test fails")]
pub(crate) struct Cut {
    group: usize,
    kept: Kept,
}

#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "shown when a test fails")]
enum Kept {
    /// The first writes, and the first sectors of the next one.
    Prefix { writes: usize, sectors: usize },
    /// The last sectors of all writes: the disk wrote backwards.
    Backwards { sectors: usize },
    /// Sectors chosen at random.
    Random { seed: u64 },
}

type Write = (u64, Vec<u8>);

/// Shows `check` every cut of `plan` on a disk that holds `before`, and then, as `None`, the
/// finished one.
pub(crate) fn cuts(
    before: &[u8],
    plan: &Plan,
    disk: Disk,
    mut check: impl FnMut(&[u8], Option<Cut>),
) {
    let mut done = Memory(before.to_vec());
    for (group, writes) in groups(plan, disk).iter().enumerate() {
        let sectors: Vec<(u64, &[u8])> = writes
            .iter()
            .flat_map(|(offset, bytes)| {
                let numbered = (*offset..).step_by(SECTOR);
                numbered.zip(bytes.chunks(SECTOR))
            })
            .collect();
        let mut image = Memory(done.0.clone());
        let mut show = |kept, chosen: &mut dyn Iterator<Item = &(u64, &[u8])>| {
            let mut written = Vec::new();
            for &(offset, bytes) in chosen {
                image.write_at(offset, bytes).unwrap();
                written.push((offset, bytes.len()));
            }
            check(&image.0, Some(Cut { group, kept }));
            // A new copy of the whole image would take longer than all else.
            for (offset, len) in written {
                let start = usize::try_from(offset).unwrap();
                let range = start..(start + len).min(done.0.len());
                image.0.truncate(done.0.len().max(start));
                if let Some(before) = done.0.get(range.clone()) {
                    image.0[range].copy_from_slice(before);
                }
            }
            image.0.truncate(done.0.len());
        };
        let mut start = 0;
        for (number, (_, bytes)) in writes.iter().enumerate() {
            let len = bytes.len().div_ceil(SECTOR);
            for sectors_kept in interesting(len) {
                let kept = Kept::Prefix {
                    writes: number,
                    sectors: sectors_kept,
                };
                show(kept, &mut sectors[..start + sectors_kept].iter());
            }
            start += len;
        }
        for last in interesting(sectors.len()) {
            let kept = Kept::Backwards { sectors: last };
            show(kept, &mut sectors[sectors.len() - last..].iter());
        }
        for seed in 0..RANDOM as u64 {
            let mut random = Random::of(seed, group as u64);
            // From few sectors to nearly all.
            let share = random.next();
            let mut chosen = sectors.iter().filter(|_| random.next() < share);
            show(Kept::Random { seed }, &mut chosen);
        }
        for (offset, bytes) in writes {
            done.write_at(*offset, bytes).unwrap();
        }
    }
    check(&done.0, None);
}

/// The writes between syncs. A random area is filled with bytes that are no header.
fn groups(plan: &Plan, disk: Disk) -> Vec<Vec<Write>> {
    let mut groups = vec![Vec::new()];
    for step in plan.steps() {
        let write = match step {
            Step::Write { offset, bytes } => (*offset, bytes.clone()),
            Step::Randomise { offset, len } => {
                (*offset, vec![0x5a; usize::try_from(*len).unwrap()])
            }
            Step::Sync => {
                if disk == Disk::Honest {
                    groups.push(Vec::new());
                }
                continue;
            }
        };
        groups.last_mut().unwrap().push(write);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Numbers of sectors to keep of `len`: all where it is a header, some where it is key material.
fn interesting(len: usize) -> impl Iterator<Item = usize> {
    (0..=len)
        .filter(move |&kept| len <= 32 || kept <= 2 || kept + 2 >= len || kept.is_power_of_two())
}
