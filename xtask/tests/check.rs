//! Runs `cargo xtask check` on small workspaces: one that keeps every rule, and one for each rule that
//! is broken, to show that the checker can fail.

use std::fs;
use std::io;
use std::process::Command;

use tempfile::TempDir;

/// A workspace that keeps every rule.
const SOUND: [(&str, &str); 9] = [
    (
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n[workspace.lints]\n",
    ),
    ("crates/sys/Cargo.toml", SYS_MANIFEST),
    (
        "crates/sys/src/lib.rs",
        "//! The system calls that Scrim uses.\n",
    ),
    ("crates/luks/Cargo.toml", LUKS_MANIFEST),
    (
        "crates/luks/src/lib.rs",
        "//! Headers of LUKS volumes.\n#![forbid(unsafe_code)]\nmod a;\n",
    ),
    ("crates/luks/src/a.rs", ""),
    ("xtask/modules.txt", "crates/luks\n    a\n"),
    (
        "docs/dependencies.md",
        "| crate | why |\n|---|---|\n| `aes` | the cipher |\n",
    ),
    ("README.md", "[Dependencies](docs/dependencies.md)\n"),
];
const SYS_MANIFEST: &str = "[package]\nname = \"scrim-sys\"\nversion = \"0.1.0\"\n\n\
                            [lints]\nworkspace = true\n";
const LUKS_MANIFEST: &str = "[package]\nname = \"scrim-luks\"\nversion = \"0.1.0\"\n\n\
                             [lints]\nworkspace = true\n\n\
                             [dependencies]\naes = \"0.9\"\nscrim-sys = { path = \"../sys\" }\n";

/// Runs the checker on [`SOUND`] with these files added or replaced: its exit code and its lines.
fn check(changes: &[(&str, &str)]) -> io::Result<(Option<i32>, Vec<String>)> {
    let directory = TempDir::new()?;
    for (path, text) in SOUND.iter().chain(changes) {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(directory.path()))?;
        fs::write(path, text)?;
    }
    let output = checker(&directory).output()?;
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok((
        output.status.code(),
        lines.lines().map(str::to_owned).collect(),
    ))
}

fn checker(directory: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["check", "--root"]).arg(directory.path());
    command
}

#[test]
fn a_sound_workspace_passes() {
    assert_eq!(check(&[]).unwrap(), (Some(0), Vec::new()));
}

#[test]
fn each_rule_can_be_broken() {
    let upwards =
        SYS_MANIFEST.to_owned() + "\n[dependencies]\nscrim-luks = { path = \"../luks\" }\n";
    let no_cycle = LUKS_MANIFEST.replace("scrim-sys = { path = \"../sys\" }\n", "");
    let unlinted = SYS_MANIFEST.replace("workspace = true", "");
    let long = "fn f() {}\n".repeat(801);
    let unfinished = ["// TO", "DO"].concat();
    let cases: [(&[(&str, &str)], &str); 12] = [
        (
            &[
                ("crates/sys/Cargo.toml", &upwards),
                ("crates/luks/Cargo.toml", &no_cycle),
            ],
            "crates/sys/Cargo.toml:9: scrim-sys depends on scrim-luks",
        ),
        (
            &[("crates/sys/Cargo.toml", &unlinted)],
            "crates/sys/Cargo.toml:1: does not take",
        ),
        (
            &[("crates/luks/src/lib.rs", "//! Headers of LUKS volumes.\n")],
            "crates/luks/src/lib.rs:1: a crate root",
        ),
        (
            &[("crates/luks/src/a.rs", "\nunsafe fn f() {}")],
            "crates/luks/src/a.rs:2: `unsafe`",
        ),
        (
            &[("crates/luks/src/a.rs", &long)],
            "crates/luks/src/a.rs:801: 801 lines",
        ),
        (
            &[(
                "crates/luks/src/a.rs",
                "#[derive(Debug)]\nstruct VolumeKey;",
            )],
            "crates/luks/src/a.rs:1: `VolumeKey` is or has a secret",
        ),
        (
            &[("docs/dependencies.md", "")],
            "crates/luks/Cargo.toml:9: `aes` has no line in docs/dependencies.md",
        ),
        (
            &[("README.md", "\n[x](docs/none.md)\n")],
            "README.md:2: the link to `docs/none.md`",
        ),
        (
            &[("crates/luks/src/a.rs", &unfinished)],
            "crates/luks/src/a.rs:1: `TO",
        ),
        (
            &[(
                "crates/luks/src/a.rs",
                "/// Who has a key, opens it.\nfn f() {}",
            )],
            "crates/luks/src/a.rs:1: a doc comment starts with",
        ),
        (
            &[("crates/luks/src/a.rs", "\nfn hire() {}")],
            "crates/luks/src/a.rs:2: the field has a term for this name",
        ),
        (
            &[
                (
                    "crates/luks/src/lib.rs",
                    "//! Headers of LUKS volumes.\n#![forbid(unsafe_code)]\nmod a;\nmod b;\n",
                ),
                ("crates/luks/src/a.rs", "use crate::b::B;"),
                ("crates/luks/src/b.rs", "pub(crate) struct B;"),
                ("xtask/modules.txt", "crates/luks\n    a\n    b\n"),
            ],
            "crates/luks/src/a.rs:1: a imports `crate::b::B` of b, which is not below it",
        ),
    ];
    for (changes, wanted) in cases {
        let (code, lines) = check(changes).unwrap();
        assert_eq!(code, Some(1), "{wanted}");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(wanted), "{lines:?}");
    }
}

#[test]
fn what_is_no_workspace_is_an_error() {
    let directory = TempDir::new().unwrap();
    let output = checker(&directory).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
