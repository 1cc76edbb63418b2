//! Trees of file systems that an attacker may have made, without a kernel: the fuzzer's seeds, and damage to them that a
//! number decides.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and the fuzz target uses the same walk"
)]

#[path = "common/walk.rs"]
mod walk;

use std::path::Path;

use scrim_seeded::Random;
use walk::{SIZE, image, tree, walk};

/// Damaged copies of each seed.
const COPIES: u64 = 150;

/// The images of the fuzzer's seeds, with their names.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/ext4_files");
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        seeds.push((name, image(&std::fs::read(entry.path()).unwrap())));
    }
    seeds.sort();
    assert!(seeds.len() >= 6);
    seeds
}

#[test]
fn every_seed_is_a_tree_that_can_be_read() {
    for (name, image) in seeds() {
        let tree = tree(image).unwrap_or_else(|| panic!("{name} is no file system"));
        assert!(walk(&tree) > 3, "{name}");
    }
}

/// No damage makes it panic, hang, or say what cannot be.
#[test]
fn damage_is_an_error_and_no_more() {
    let mut opened = 0;
    for (nth, (_, sound)) in (1_u64..).zip(seeds()) {
        // Metadata is where bytes are: damage elsewhere says nothing.
        let places: Vec<_> = (0..SIZE).filter(|&at| sound[at] != 0).collect();
        for copy in 0..COPIES {
            let mut random = Random::of(nth, copy);
            let mut image = sound.clone();
            for _ in 0..=random.below(8) {
                let at = *random.pick(&places).unwrap();
                image[at] = match random.below(3) {
                    0 => 0xff,
                    1 => image[at] ^ 1 << random.below(8),
                    _ => u8::try_from(random.below(256)).unwrap(),
                };
            }
            if let Some(tree) = tree(image) {
                walk(&tree);
                opened += 1;
            }
        }
    }
    assert!(opened > COPIES, "too few of them reach the files: {opened}");
}
