//! Files of file systems that an attacker may have made, mounted by the real kernel and read by real programs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use scrim_export::fuse::{MountOptions, PageCache};
use scrim_seeded::Random;

use crate::common::{alone, mounted, tool};

#[path = "../common/walk.rs"]
mod walk;

/// Damaged copies of each seed.
const COPIES: u64 = 3;

/// Programs read all of a mount and come to an end, with the page cache and past it; what they print is not judged.
#[test]
fn no_damage_leaves_a_program_waiting() {
    let _alone = alone();
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/ext4_files");
    for entry in std::fs::read_dir(seeds).unwrap().flatten() {
        let sound = walk::image(&std::fs::read(entry.path()).unwrap());
        let places: Vec<_> = (0..walk::SIZE).filter(|&at| sound[at] != 0).collect();
        for copy in 0..=COPIES {
            let mut random = Random::of(9, copy);
            let mut image = sound.clone();
            // The first is sound.
            for _ in 0..copy * 3 {
                image[*random.pick(&places).unwrap()] ^= 1 << random.below(8);
            }
            let Some(tree) = walk::tree(image) else {
                continue;
            };
            walk::walk(&tree);
            let options = MountOptions {
                read_only: true,
                cache: match copy % 2 {
                    0 => PageCache::WriteBack,
                    _ => PageCache::Bypass,
                },
                ..MountOptions::default()
            };
            let folder = tempfile::tempdir().unwrap();
            let Some(mounted) = mounted(Arc::new(tree), folder.path(), &options) else {
                return;
            };
            // A file of holes may have exabytes, and a folder may have itself below it.
            let read = "find . -maxdepth 6 | head -n 500 > /dev/null; ls -lR . | head -n 500 > /dev/null; \
                find . -maxdepth 6 -type f -size -9000k | head -n 200 | xargs -d '\\n' cat > /dev/null; \
                find . -maxdepth 6 -type f | head -n 50 | xargs -d '\\n' head -c 70000 > /dev/null; exit 0";
            let mut command = Command::new("timeout");
            let command = command.args(["60", "sh", "-c", read]);
            let Some(output) = tool(command.current_dir(folder.path())) else {
                return;
            };
            assert_eq!(output.status.code(), Some(0), "{:?} {copy}", entry.path());
            mounted.unmount().unwrap_or_else(|error| panic!("{error}"));
            mounted.wait();
            assert_eq!(mounted.stop(), 0);
        }
    }
}
