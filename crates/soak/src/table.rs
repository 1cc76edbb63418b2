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

What a power cut leaves of a volume and its header, and how that is known. The tables are made by
`cargo xtask soak --table`; a test compares them with what it finds.

## Promises

- A header operation that is interrupted leaves the old header or the new one, each with its keys.
  Where it replaces the whole header (`format`, or a backup of the other version), it may also leave
  none. When it has returned, the new one is there, in both copies.
- A key that is to go is destroyed before the header forgets it, so that it cannot be left behind
  where nothing would find it. An interruption in between leaves a key slot that nothing opens;
  removing it again finishes the work.
- Where a key slot can only be overwritten in place, an interruption may lose it, and no other one:
  when a key is changed for which there is no room beside the old one, and when a backup is restored
  whose key material belongs where another key lies now (of LUKS2 only if there is no room to move
  it). The user is asked first.
- Of LUKS2's two copies the better one is used; opening the volume mends the other. That may be
  interrupted as well.
- Data behind the header is not touched.
- What a write, discard or zeroing has changed is durable after a flush that began when it had
  returned. A durable write (`FUA`) is durable when it returns, and promises nothing about others.
- What is not durable may be lost, in any order: of later and earlier writes either may be there.
- Each 512 bytes of the volume are as they were before a request or as it was to leave them. Larger
  encryption sectors are not written whole by disks that write 512 bytes whole: with XTS, a torn one
  reads as old and new pieces of 512 bytes. (With CBC, 16 bytes behind each tear are noise, also in a
  part of the sector that was not written.)
- A discarded range may hold anything, also what it held before, until it is written again.
- An error is reported to the request that met it, and undoes nothing that was durable. After a
  failed flush all later flushes and durable writes fail; reads and other writes go on.

## Header operations

A simulated disk with a volatile cache loses power during each write and each sync of the operation,
and after the last. Of each cut 16 outcomes are looked at: writes that were not synced are dropped,
kept, reordered and torn at 512 bytes. *Old*, *new*, *between*, *neither*: what the header says and
which passphrases open it. *Between* is no header where one is replaced; where one of several keys
changes or comes, all of the old keys or all of the new ones with some of the others; where keys go,
the old header with key slots that nothing opens; and where it says *asks first*, the old or the new
header without the one key slot that is overwritten in place. A repair changes nothing of all this:
what it leaves counts as *new*. Where a copy is to be mended, that is cut off at each place too.
*Errors*: each read, write and sync fails once in each of its ways (`EIO`, `ENOSPC`, an end that comes
too early), with and without a power cut afterwards.

";

const DATA: &str = "
## Requests to a volume

The same for a volume of 64 KiB, byte by byte. *Some of each*: each 512 bytes are old or new.

";

const TAIL: &str = "
## Random histories

`cargo test --package scrim-soak` runs 10,400 of them: volumes with and without LUKS headers, one to
three threads, reads, writes, zeros, discards, flushes, changes of the header, errors, and a power cut
anywhere. A model says what each 512 bytes may hold, when they are read and after the cut.

Half of the volumes begin inline, or with dm-crypt's queues under any of its flags; in some, requests are
long enough to be split over processors. In between the table is exchanged for one with another way, or
requests are held for a moment. The promises are the same on every way: none is lost, answered before it
is stored, or carried past a flush.

The changes are those of the table above, but `format`, which takes the data with it: with any key slot
and passphrase, one after the other, while the volume is open, also with one copy of the header torn
beforehand. What one is to leave is seen on a copy of the disk; after a cut or an error the header must
be the old one, that one, or what the table allows between, and the volume must open with the passphrases
that this one has. After a change that failed, a flush comes before the next: what two of them together
leave in a cache is not promised.

Disks that lie (a flush that is not done, a durable write that is not, an error that is hidden, a write to
the wrong place, a write that is answered before it is stored) are put in between and must be found out; so must a sync that a header operation needs and
leaves out, and a write of one that comes a sync too late.

`cargo xtask soak` goes on with other seeds until it is interrupted. What it finds it prints with the
seed and the command that runs it again.

## What is not simulated

Rotten bits, writes to a wrong place, disks that lose what they have said to be durable, and disks that
tear 512 bytes.
";
