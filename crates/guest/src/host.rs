//! The programs of the host.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::Error;

/// Folders of programs that are not on every user's `PATH`.
const ADMIN: &str = "/usr/sbin:/sbin";

/// A program of the host, that is there.
pub(crate) fn program(name: &'static str) -> Result<Command, Error> {
    let path = std::env::var("PATH").unwrap_or_default() + ":" + ADMIN;
    let found: Option<PathBuf> = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    let mut command = Command::new(found.ok_or(Error::Missing { program: name })?);
    // This is for programs that it calls in turn, and so that its messages can be read.
    command.env("PATH", path).env("LC_ALL", "C");
    Ok(command)
}

/// Checks whether the host has the programs that guests need, whatever is cached already.
///
/// # Errors
/// [`Error::Missing`] names the first that is not there.
pub fn check_tools() -> Result<(), Error> {
    let needed = [
        "qemu-system-x86_64",
        "apt-get",
        "dpkg-deb",
        "depmod",
        "cpio",
        "xz",
        "mkfs.erofs",
    ];
    needed
        .into_iter()
        .try_for_each(|name| program(name).map(drop))
}

/// Runs a command to its end and demands success; returns what it wrote.
pub(crate) fn finish(command: &mut Command) -> Result<Vec<u8>, Error> {
    command.stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(command, error))?;
    succeeded(command, output)
}

/// Runs a command with `input` on its standard input and demands success.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, Error> {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = |command: &mut Command| {
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // Beside the reading of what it says, so that neither waits for the other. A program
            // that fails early does not read all of it.
            scope.spawn(|| stdin.map(|mut stdin| io::Write::write_all(&mut stdin, input)));
            child.wait_with_output()
        })
    };
    let output = run(command).map_err(|error| failed(command, error))?;
    succeeded(command, output)
}

fn succeeded(command: &Command, output: Output) -> Result<Vec<u8>, Error> {
    if output.status.success() {
        Ok(output.stdout)
    } else {
        let said = [output.stdout, output.stderr].concat();
        Err(Error::program(words(command), &said))
    }
}

fn failed(command: &Command, source: io::Error) -> Error {
    Error::Io {
        doing: format!("run {}", words(command)),
        source,
    }
}

/// The program's name and its first word.
fn words(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name();
    let first = command.get_args().find(|word| !is_option(word));
    let words = name.into_iter().chain(first);
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_option(word: &OsStr) -> bool {
    word.to_string_lossy().starts_with(['-', '/'])
}
