//! Programs of an older or newer Debian that run on the host, from a folder: they are started by their own dynamic
//! linker with their own libraries, and the host's packages are neither seen nor changed.

use std::path::Path;

use crate::apt::{self, Suite};
use crate::error::{Doing, Error, temporary};

/// Makes `folder` of what is in these packages.
pub(crate) fn fetch(suite: &Suite, packages: &[&str], folder: &Path) -> Result<(), Error> {
    let parent = folder.parent().unwrap_or(folder);
    let making = temporary(parent)?;
    let [archives, root] = ["archives", "root"].map(|inner| making.path().join(inner));
    for inner in [&archives, &root] {
        std::fs::create_dir(inner).doing("make", inner)?;
    }
    let packages: Vec<String> = packages.iter().map(|&name| name.to_owned()).collect();
    suite.download(&packages, &archives)?;
    for package in apt::archives(&archives)? {
        apt::unpack(&package, &root)?;
    }
    std::fs::rename(&root, folder).doing("make", folder)
}
