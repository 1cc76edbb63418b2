//! Packages by Debian's own client, which also checks their signatures and sums, from any suite of
//! the archive and into folders of ours: the host's own packages are neither seen nor changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Doing, Error};
use crate::{host, mirror};

/// Keyring with the keys that sign the archive.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One suite of the archive, with an index of its own.
pub(crate) struct Suite {
    folder: PathBuf,
}

impl Suite {
    /// Opens a suite, with an up-to-date index in `folder`.
    pub(crate) fn update(folder: PathBuf, name: &str) -> Result<Self, Error> {
        for inner in ["state/lists/partial", "cache/archives/partial"] {
            let inner = folder.join(inner);
            std::fs::create_dir_all(&inner).doing("make", &inner)?;
        }
        let mirror = mirror::of_this_system()?;
        let source = format!("deb [signed-by={KEYRING}] {mirror} {name} main\n");
        write(&folder.join("sources.list"), &source)?;
        write(&folder.join("state/status"), "")?;
        write(&folder.join("apt.conf"), &configuration(&folder))?;
        let suite = Self { folder };
        host::finish(suite.command("apt-get")?.arg("update"))?;
        Ok(suite)
    }

    /// The packages that `package` depends on directly.
    pub(crate) fn dependencies(&self, package: &str) -> Result<Vec<String>, Error> {
        let mut command = self.command("apt-cache")?;
        let said = host::finish(command.args(["depends", package]))?;
        let said = String::from_utf8_lossy(&said);
        let names = said
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_owned).collect())
    }

    /// Fetches these packages alone into `folder`.
    pub(crate) fn download(&self, packages: &[String], folder: &Path) -> Result<(), Error> {
        let mut command = self.command("apt-get")?;
        command.arg("download").args(packages).current_dir(folder);
        host::finish(&mut command).map(drop)
    }

    /// Fetches these packages and all that they depend on; returns the files.
    pub(crate) fn download_with_dependencies<'a>(
        &self,
        packages: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<PathBuf>, Error> {
        let folder = self.folder.join("cache/archives");
        // These packages are of an earlier time, and perhaps of older versions.
        for old in archives(&folder)? {
            std::fs::remove_file(&old).doing("remove", &old)?;
        }
        let mut command = self.command("apt-get")?;
        command.args(["install", "--yes", "--no-install-recommends"]);
        command.arg("--download-only").args(packages);
        host::finish(&mut command)?;
        archives(&folder)
    }

    fn command(&self, program: &'static str) -> Result<Command, Error> {
        if !Path::new(KEYRING).exists() {
            return Err(Error::Missing {
                program: "debian-archive-keyring",
            });
        }
        let mut command = host::program(program)?;
        command
            .arg("-q")
            .arg("-c")
            .arg(self.folder.join("apt.conf"));
        Ok(command)
    }
}

/// The packages in a folder, in order of name.
pub(crate) fn archives(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).doing("list", folder)?;
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .collect();
    files.sort();
    Ok(files)
}

/// Unpacks a package, without running what it brings.
pub(crate) fn unpack(package: &Path, folder: &Path) -> Result<(), Error> {
    let mut command = host::program("dpkg-deb")?;
    command.arg("--extract").arg(package).arg(folder);
    host::finish(&mut command).map(drop)
}

/// Text of apt's configuration: read after the system's own, which knows of proxies, and instead of
/// the parts of it that name archives or run programs.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{folder}/state";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Debug::NoLocking "1";
"#
    )
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).doing("write", path)
}
