//! Operations: a power cut and an error at every place, and syncs that are left out.

#![allow(clippy::panic, reason = "a failing test may panic")]

use scrim_soak::{Canary, Effort, OPERATIONS, table};

/// After a cut at any place the old or the new is there; and the page that says so is up to date.
#[test]
fn a_cut_at_any_place_leaves_old_or_new_as_the_table_says() {
    let page = table::page().unwrap_or_else(|broken| panic!("{broken}"));
    let written = include_str!("../../../docs/crash-safety.md");
    assert!(
        page == written,
        "docs/crash-safety.md is not up to date: run `cargo xtask soak --table`. It should be:\n{page}"
    );
}

/// The judge finds syncs that are needed when they are missing: that of the key material before the
/// header that names it, those between two copies or two halves of a header, the last one, and that of
/// an old header's end, or of its key's new place, before its keys go.
#[test]
fn a_sync_that_is_left_out_is_found() {
    let effort = Effort {
        seed: 7,
        survivors: 24,
    };
    for (name, syncs) in [
        ("add a key, LUKS1", 3..=3),
        ("add a key whose slot lies across two sectors, LUKS1", 2..=3),
        ("add a key, LUKS2", 1..=3),
        ("format LUKS2", 8..=10),
        ("format LUKS1", 10..=11),
        ("format LUKS1 over LUKS1", 1..=1),
        ("format LUKS2 over LUKS2", 3..=3),
        ("change a key, LUKS1", 3..=3),
        ("change a key, LUKS1", 5..=5),
        ("change a key, LUKS2", 1..=2),
        ("change a key that keeps its slot, LUKS1", 8..=8),
        ("remove a key, LUKS1", 2..=2),
        ("remove a key, LUKS2", 2..=3),
        ("set a UUID, LUKS1", 1..=1),
        ("convert LUKS1 to LUKS2", 1..=4),
        ("convert LUKS2 to LUKS1", 1..=2),
        ("restore a header with a changed key, LUKS1", 3..=3),
        (
            "restore a header with another key in its place, LUKS2",
            1..=2,
        ),
        (
            "restore a header with another key in its place, LUKS2",
            4..=5,
        ),
        ("repair an older secondary, LUKS2", 1..=1),
    ] {
        let operation = OPERATIONS.iter().find(|one| one.name == name);
        let operation = operation.unwrap_or_else(|| panic!("there is no {name}"));
        for sync in syncs {
            match operation.check(effort, Some(Canary::SkipsFlush(sync))) {
                Ok(outcomes) => panic!("{name} without sync {sync} was not found: {outcomes:?}"),
                Err(broken) => println!("without sync {sync}: {}", broken.what),
            }
        }
    }
}

/// The judge finds a wrong order, too: a write that comes behind the sync that was to make it
/// durable.
#[test]
fn a_write_in_the_wrong_order_is_found() {
    let effort = Effort {
        seed: 7,
        survivors: 24,
    };
    for (name, write) in [
        ("add a key, LUKS1", 3),
        ("add a key, LUKS2", 1),
        ("change a key, LUKS1", 3),
        ("change a key, LUKS2", 1),
        ("remove a key, LUKS1", 2),
        ("remove a key, LUKS2", 2),
        ("remove a key, LUKS2", 3),
        ("set a key slot's priority, LUKS2", 1),
        ("convert LUKS1 to LUKS2", 1),
        ("convert LUKS2 to LUKS1", 1),
        ("restore a header with a changed key, LUKS2", 1),
    ] {
        let operation = OPERATIONS.iter().find(|one| one.name == name);
        let operation = operation.unwrap_or_else(|| panic!("there is no {name}"));
        match operation.check(effort, Some(Canary::HoldsBackWriteOfHeader(write))) {
            Ok(outcomes) => panic!("{name}, write {write} too late: not found: {outcomes:?}"),
            Err(broken) => println!("write {write} too late: {}", broken.what),
        }
    }
}
