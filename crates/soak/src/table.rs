//! `docs/crash-safety.md`, from what the operations have gone through.

use std::fmt::Write as _;

use crate::broken::Broken;
use crate::data_operation::DATA_OPERATIONS;
use crate::operation::{Effort, Outcomes};
use crate::operations::OPERATIONS;

/// Effort from which the table's numbers come.
const EFFORT: Effort = Effort {
    seed: 5,
    survivors: 16,
};

/// Tries every operation and writes the page.
///
/// # Errors
/// The first promise that was not kept.
pub fn page() -> Result<String, Broken> {
    let mut page = HEAD.to_owned();
    let headers = side_by_side(OPERATIONS, |operation| {
        Ok((operation.name.to_owned(), operation.check(EFFORT, None)?))
    })?;
    page.push_str("| operation | cut points | old | new | between | neither | errors |\n");
    page.push_str("|---|--:|--:|--:|--:|--:|--:|\n");
    for (name, outcomes) in headers {
        row(&mut page, &name, outcomes);
    }
    page.push_str(DATA);
    let data = side_by_side(DATA_OPERATIONS, |operation| {
        let name = format!("{} ({})", operation.name, operation.sector_size);
        Ok((name, operation.check(EFFORT)?))
    })?;
    page.push_str(
        "| request (encryption sector) | cut points | old | new | some of each | neither | errors |\n",
    );
    page.push_str("|---|--:|--:|--:|--:|--:|--:|\n");
    for (name, outcomes) in data {
        row(&mut page, &name, outcomes);
    }
    page.push_str(TAIL);
    Ok(page)
}

fn row(page: &mut String, name: &str, outcomes: Outcomes) {
    let Outcomes {
        cut_points,
        old,
        new,
        between,
        errors,
        ..
    } = outcomes;
    // What is neither ends the trial with an error.
    let _ = writeln!(
        page,
        "| {name} | {cut_points} | {old} | {new} | {between} | 0 | {errors} |"
    );
}

/// Tries each on a thread of its own; the results are in their order.
fn side_by_side<T: Sync>(
    operations: &[T],
    check: impl Fn(&T) -> Result<(String, Outcomes), Broken> + Sync,
) -> Result<Vec<(String, Outcomes)>, Broken> {
    std::thread::scope(|scope| {
        let check = &check;
        let threads: Vec<_> = operations
            .iter()
            .map(|operation| scope.spawn(move || check(operation)))
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

const HEAD: &str = "\
# Crash safety

This page says what a power cut leaves of a volume and its header, and how tests prove it. `cargo xtask soak --table`
writes the page; a test compares it with a new run.

## Promises

- An interrupted header operation leaves the old header or the new one, each with its keys. If it replaces the whole
  header (`format`, or a backup of the other version), it may also leave no header. When it has returned, the new header
  is on the device, in both copies.
- A key that is removed is destroyed before the header forgets it, so no key material is left that no header lists. An
  interruption in between leaves a key slot that nothing opens; remove it again to finish the work.
- If a key slot can only be overwritten in place, an interruption may lose this key slot, and no other one. This happens
  when a key is changed and there is no space beside the old one, and when a backup is restored whose key material
  belongs where another key is now (in LUKS2 only if there is no space to move it). Scrim asks first.
- Scrim uses the better one of LUKS2's two copies; opening the volume repairs the other one. That may be interrupted as
  well.
- No header operation changes the data behind the header.
- A change by a write, discard or zeroing is durable after a flush that began when the request had returned. A durable
  write (`FUA`) is durable when it returns, and promises nothing about other writes.
- A change that is not durable may be lost, in any order: a later write may survive without an earlier one.
- Each 512 bytes of the volume have either their old content or that of the request. Disks that write 512 bytes whole do
  not write larger encryption sectors whole: with XTS, a torn sector reads as old and new pieces of 512 bytes. (With
  CBC, 16 bytes behind each tear are noise, even in a part of the sector that was not written.)
- A discarded range may read as anything, including its old content, until it is written again.
- The request that meets an error reports it, and the error undoes nothing that was durable. After a failed flush all
  later flushes and durable writes fail; reads and other writes go on.

## Header operations

A simulated disk with a volatile cache loses power during each write and each sync of the operation, and after the last.
For each cut the test examines 16 outcomes: writes that were not synced are dropped, kept, reordered and torn at 512
bytes. *Old*, *new*, *between* and *neither* classify the header and the passphrases that open it. *Between* depends on
the operation:

- If the header is replaced, it is no header.
- If one of several keys changes or is added, it is all of the old keys, or all of the new ones with some of the others.
- If keys are removed, it is the old header with key slots that nothing opens.
- With *asks first*, it is the old or the new header without the one key slot that is overwritten in place.

A repair changes none of this: its result counts as *new*. Where a copy is to be repaired, the power is cut at each
place of that too. *Errors*: each read, write and sync fails once in each of its ways (`EIO`, `ENOSPC`, an end that
comes too early), with and without a power cut afterwards.

";

const DATA: &str = "
## Requests to a volume

This is the same test for a volume of 64 KiB, byte by byte. *Some of each*: each 512 bytes are old or new.

";

const TAIL: &str = "
## Random histories

`cargo test --package scrim-soak` runs 10,400 random histories: volumes with and without LUKS headers, one to three
threads, reads, writes, zeros, discards, flushes, changes of the header, errors, and a power cut at any moment. A model
defines what each 512 bytes may hold, when they are read and after the cut.

Half of the volumes begin with the data path `auto`. The others begin inline, or with dm-crypt's queues under any of its
flags. In some, requests are long enough to be split over processors. In between, the test exchanges the table for one
with another data path, or holds requests for a moment. The promises are the same on every data path: no request is
lost, answered before it is stored, or moved past a flush.

The header changes are those of the table above, except `format`, which destroys the data. They use any key slot and
passphrase, one after the other, while the volume is open, also with one copy of the header torn beforehand. The test
observes the result of a change on a copy of the disk. After a cut or an error the header must be the old one, this
result, or what the table allows between, and the volume must open with that header's passphrases. After a change that
failed, a flush comes before the next one: the page promises nothing about two such changes together in a cache.

Canaries prove that the tests find faults. They are disks that lie (a flush that is not done, a durable write that is
not, an error that is hidden, a write to the wrong place, a write that is answered before it is stored), a sync that a
header operation needs and leaves out, and a write that comes a sync too late. The tests must find each of them.

`cargo xtask soak` goes on with other seeds until you interrupt it. It prints each fault with its seed and the command
that repeats it.

## What is not simulated

The simulation has no rotten bits, no writes to a wrong place, no disks that lose what they have reported as durable,
and no disks that tear 512 bytes.
";
