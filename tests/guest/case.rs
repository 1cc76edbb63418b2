//! The scripts, and what their heads say.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scrim_guest::Kernel;

/// A script for a guest, with what its head says:
///
/// ```sh
/// # What is shown.
/// #
/// # kernels: 6.1 6.12 7.3
/// # limit: 120 s
/// ```
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) limit: Duration,
}

/// The folder of all sources, which guests find as `/share`.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All scripts, in order of name.
pub(crate) fn all() -> Vec<Case> {
    let entries = std::fs::read_dir(workspace().join("tests/guest/cases")).unwrap();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "sh"))
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Case {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let field = |field: &str| {
        let start = format!("# {field}: ");
        let found = text.lines().find_map(|line| line.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{}: no line `{start}…`", path.display()))
    };
    let seconds = field("limit").strip_suffix(" s").unwrap();
    Case {
        kernels: field("kernels")
            .split(' ')
            .map(|tag| tag.parse().unwrap())
            .collect(),
        limit: Duration::from_secs(seconds.parse().unwrap()),
        name,
    }
}
