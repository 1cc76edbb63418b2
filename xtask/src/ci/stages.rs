//! The stages of continuous integration: the one list of all that must hold of a commit.

/// A part of continuous integration, with one row in each table of times.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) when: When,
    /// Lines of bash in the workspace's root; the first that fails ends the stage. `xtask` is this program.
    pub(crate) script: &'static str,
}

/// Condition under which a stage belongs to a run.
#[derive(Debug)]
pub(crate) enum When {
    /// The stage is part of every run.
    Always,
    /// The stage is part of runs of a change to one of these files and folders, or to one of [`SHARED`].
    Touched(&'static [&'static str]),
}

/// Files on which every stage depends: what is built, and by which versions. This list is not among them: a further
/// stage is touched by a change of its own script.
pub(crate) const SHARED: &[&str] = &[".ci/run", "Cargo.lock", "Cargo.toml", "scripts/setup.sh"];

/// Code that meets a kernel: calls of its interfaces, and the formats that both read and write.
const KERNELS: &[&str] = &[
    "crates/cli/src/doctor",
    "crates/crypt/src",
    "crates/export/src",
    "crates/guest",
    "crates/luks/src",
    "crates/nbd/src",
    "crates/serve/src",
    "crates/sys/src",
    "crates/volume/src",
    "tests/guest",
];

/// Code that drives dm-crypt, and measures it.
const KERNEL_ENGINE: &[&str] = &[
    "crates/bench/src/paths/mapped.rs",
    "crates/bench/src/tune",
    "crates/cli/src/kernel",
    "crates/cli/src/tune",
    "crates/guest",
    "crates/sys/src/device_mapper",
    "crates/sys/src/keyring.rs",
    "crates/sys/src/loop_device.rs",
    "crates/sys/src/udev_cookie.rs",
    "tests/guest",
];

/// All stages, in the order in which they run: what fails soonest is first.
///
/// To add one, write a row, with the paths whose change can break it. A stage that takes minutes is a further one:
/// all that run always take less than 45 minutes on two processors.
pub(crate) const STAGES: &[Stage] = &[
    always("format", "cargo fmt --all --check"),
    always("rules", "xtask check"),
    always(
        "lint",
        "cargo clippy --workspace --all-targets --quiet -- -D warnings",
    ),
    always(
        "docs",
        "RUSTDOCFLAGS='-D warnings' \
         cargo doc --workspace --no-deps --document-private-items --quiet",
    ),
    always("demo", "make demo"),
    always("tests", "make test"),
    // Only the package's own tests are built for the scheduler.
    always(
        "models",
        r#"for package in scrim-sys scrim-volume; do
            built=$(cargo rustc --quiet --package $package --lib --profile test --message-format json -- --cfg shuttle)
            "$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<< "$built")" --quiet models
        done"#,
    ),
    always(
        "fuzz",
        "cargo fmt --manifest-path fuzz/Cargo.toml --check
        cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target --quiet -- -D warnings
        xtask fuzz --seconds 5",
    ),
    further(
        "as shipped",
        &[
            "Makefile",
            "crates/crypt",
            "crates/sys/src",
            "scripts/demo.sh",
        ],
        "make build
        scripts/demo.sh target/release/scrim
        cargo test --quiet --release --package scrim-crypt \
            --test guard_pages --test shared_source --test wiping --test instructions",
    ),
    further(
        "soft AES",
        &["crates/crypt"],
        r#"RUSTFLAGS='--cfg aes_backend="soft"' cargo test --quiet --package scrim-crypt --target-dir target/soft"#,
    ),
    further(
        "Miri",
        &["crates/crypt/src/kernels", "crates/sys/src/loan.rs"],
        "scripts/setup.sh miri
        export MIRIFLAGS=-Zmiri-disable-isolation
        cargo +nightly miri test --quiet --package scrim-sys --lib --target-dir target/miri -- loan
        cargo +nightly miri test --quiet --package scrim-crypt --lib --target-dir target/miri -- \
            kernels::portable kernels::shared",
    ),
    further(
        "rivals",
        &[
            "crates/bench/src",
            "crates/crypt/src",
            "crates/rivals",
            "xtask/src/rivals",
        ],
        "cargo test --quiet --package scrim-rivals",
    ),
    further(
        "kernel TLS suites",
        &[
            "crates/guest",
            "crates/serve/src",
            "crates/sys/src",
            "tests/guest",
        ],
        "cargo test --package scrim-cli --test guest -- --exact 6.12::kernel_tls_suites",
    ),
    further(
        "kernel 6.1",
        KERNELS,
        "cargo test --package scrim-cli --test guest -- 6.1:: --skip kernel_engine",
    ),
    further(
        "kernel 7.3",
        KERNELS,
        "cargo test --package scrim-cli --test guest -- 7.3:: --skip kernel_engine",
    ),
    further(
        "kernel engine",
        KERNEL_ENGINE,
        "cargo test --package scrim-cli --test guest -- kernel_engine",
    ),
    // By the oldest compiler that Cargo.toml allows. Clippy knows which functions it lacks, but not which syntax.
    further(
        "oldest Rust",
        &["crates/crypt/src", "crates/sys/src"],
        r#"scripts/setup.sh oldest
        oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
        cargo "+$oldest" build --locked --quiet --package scrim-cli --target-dir target/oldest
        target/oldest/debug/scrim --version"#,
    ),
    further(
        "packages",
        &[
            "Makefile",
            "packaging",
            "scripts/archive.sh",
            "scripts/empty_system.sh",
            "scripts/image.sh",
            "scripts/packages.sh",
            "scripts/packages_test.sh",
            "scripts/rpm.sh",
            "xtask/src/inventory.rs",
        ],
        "scripts/setup.sh packages
        make packages
        lintian --fail-on error,warning target/packages/*.deb
        scripts/packages_test.sh target/packages",
    ),
    further(
        "aarch64",
        &["crates/crypt", "crates/sys/src", "scripts/aarch64.sh"],
        "scripts/setup.sh aarch64
        scripts/aarch64.sh",
    ),
    // On a cluster of one machine, which the tests start.
    further(
        "ceph",
        &[
            "crates/backend/src/rbd",
            "crates/rbd",
            "tests/interop/rbd",
            "tests/interop/serve_many.rs",
            "tests/support/ceph.sh",
        ],
        "tests/support/ceph.sh install
        cargo test --quiet --package scrim-rbd
        cargo test --package scrim-cli --test interop -- rbd:: serve_many::",
    ),
    // Further ones go here: servers of other projects.
];

const fn always(name: &'static str, script: &'static str) -> Stage {
    Stage {
        name,
        when: When::Always,
        script,
    }
}

const fn further(
    name: &'static str,
    touched: &'static [&'static str],
    script: &'static str,
) -> Stage {
    Stage {
        name,
        when: When::Touched(touched),
        script,
    }
}

impl Stage {
    /// Returns the first of these changed paths that makes the stage part of a run. `None` for a further stage says
    /// that nothing it depends on has changed.
    pub(crate) fn touched_by<'a>(&self, changed: &'a [String]) -> Option<&'a str> {
        let When::Touched(own) = self.when else {
            return None;
        };
        let parts = [own, SHARED].concat();
        let is_part = |path: &&String| parts.iter().any(|part| is_within(path, part));
        changed.iter().find(is_part).map(String::as_str)
    }
}

/// Returns whether `path` is the file or is in the folder `part`.
fn is_within(path: &str, part: &str) -> bool {
    path.strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::cargo::workspace_root;

    /// Names of the further stages that a change of `path` touches.
    fn touched(path: &str) -> Vec<&'static str> {
        let changed = [path.to_owned()];
        let is_touched = |stage: &&Stage| stage.touched_by(&changed).is_some();
        STAGES
            .iter()
            .filter(is_touched)
            .map(|stage| stage.name)
            .collect()
    }

    #[test]
    fn a_change_touches_the_stages_that_it_can_break() {
        let none: [&str; 0] = [];
        assert_eq!(touched("docs/testing.md"), none);
        assert_eq!(touched("tests/interop/keys.rs"), none);
        assert_eq!(touched("crates/ext4/src/lib.rs"), none);
        assert_eq!(
            touched("crates/crypt/tests/wiping.rs"),
            ["as shipped", "soft AES", "aarch64"]
        );
        assert_eq!(
            touched("crates/luks/src/header.rs"),
            ["kernel 6.1", "kernel 7.3"]
        );
        assert_eq!(touched("crates/rivals/src/main.rs"), ["rivals"]);
        let guests = [
            "kernel TLS suites",
            "kernel 6.1",
            "kernel 7.3",
            "kernel engine",
        ];
        assert_eq!(touched("tests/guest/cases/reload.sh"), guests);
        assert_eq!(touched("crates/serve/src/worker.rs"), guests[..3]);
        assert_eq!(touched("crates/cli/src/tune/mod.rs"), ["kernel engine"]);
        assert_eq!(touched("packaging/debian/control"), ["packages"]);
        assert_eq!(touched("crates/backend/src/rbd/name.rs"), ["ceph"]);
        assert_eq!(touched("tests/support/ceph.sh"), ["ceph"]);
        assert_eq!(touched("xtask/src/ci/stages.rs"), none);
    }

    #[test]
    fn what_all_share_touches_every_further_stage() {
        let further = STAGES
            .iter()
            .filter(|stage| matches!(stage.when, When::Touched(_)));
        let all: Vec<_> = further.map(|stage| stage.name).collect();
        for path in SHARED {
            assert_eq!(touched(path), all, "{path}");
        }
    }

    #[test]
    fn a_path_is_within_a_folder_by_whole_names() {
        assert!(is_within("crates/sys/src/ring.rs", "crates/sys"));
        assert!(is_within("Makefile", "Makefile"));
        assert!(!is_within("crates/system/src/lib.rs", "crates/sys"));
        assert!(!is_within("Cargo.toml.orig", "Cargo.toml"));
    }

    /// A folder that was renamed would never be touched again.
    #[test]
    fn every_path_of_a_stage_exists() {
        for stage in STAGES {
            let When::Touched(paths) = stage.when else {
                continue;
            };
            for path in paths.iter().chain(SHARED) {
                assert!(
                    workspace_root().join(path).exists(),
                    "{}: {path}",
                    stage.name
                );
            }
        }
    }

    #[test]
    fn every_script_is_bash() {
        for stage in STAGES {
            let parsed = Command::new("bash")
                .args(["-n", "-c", stage.script])
                .output();
            let said = parsed.unwrap().stderr;
            assert!(
                said.is_empty(),
                "{}: {}",
                stage.name,
                String::from_utf8_lossy(&said)
            );
        }
    }

    /// Names are the keys of the stored table, whose columns end with `|`.
    #[test]
    fn names_are_unique_words() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert!(!stage.name.contains('|') && stage.name.trim() == stage.name);
            assert!(STAGES[..index].iter().all(|other| other.name != stage.name));
        }
    }
}
