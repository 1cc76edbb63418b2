//! Other programs: started with a deadline, and ended with this process.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use scrim_sys::program::find;

use super::error::FileserverError;

/// Time after which a program that does not end is given up, as on a disk that does not answer.
const LIMIT: Duration = Duration::from_secs(600);
/// Pause between two looks at a program.
const PAUSE: Duration = Duration::from_millis(5);
/// Time for a server to open a volume.
const OPENING: Duration = Duration::from_secs(60);
/// Time for a server to end that was told to.
const ENDING: Duration = Duration::from_secs(10);
/// Most bytes that are read of a program's words.
const SAID_MAX: u64 = 64 << 10;

/// Runs a program to its end, and returns what it printed.
pub(super) fn run<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
    input: &str,
) -> Result<String, FileserverError> {
    let found = find(program).unwrap_or_else(|| program.into());
    let mut command = Command::new(found);
    command.args(arguments);
    finish(program, command, input)
}

/// Runs a command to its end; `name` is for errors.
pub(super) fn finish(
    name: &str,
    mut command: Command,
    input: &str,
) -> Result<String, FileserverError> {
    let mut child = quiet(&mut command)
        .spawn()
        .map_err(FileserverError::system(format!("start {name}")))?;
    let out = child.stdout.take().map(listen);
    let error = child.stderr.take().map(listen);
    if let Some(mut pipe) = child.stdin.take() {
        // A program that has ended already says why.
        let _ = pipe.write_all(input.as_bytes());
    }
    let failure = |said: String| FileserverError::Program {
        program: name.to_owned(),
        said,
    };
    let Some(success) = wait(&mut child, LIMIT) else {
        let _ = child.kill();
        return Err(failure(format!(
            "it did not end in {} s; look at the kernel's log for errors of the disk",
            LIMIT.as_secs()
        )));
    };
    let words = |pipe: Option<thread::JoinHandle<String>>| {
        pipe.and_then(|pipe| pipe.join().ok()).unwrap_or_default()
    };
    let (out, error) = (words(out), words(error));
    match success {
        true => Ok(out),
        false => Err(failure(last_line(&error, name))),
    }
}

fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .env_remove("LISTEN_FDS")
        .env_remove("NOTIFY_SOCKET")
        // A Ctrl-C is for this process, which ends those that it has started.
        .process_group(0)
}

fn listen(pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut said = Vec::new();
        let mut pipe = pipe.take(SAID_MAX);
        let _ = pipe.read_to_end(&mut said);
        let _ = std::io::copy(&mut pipe.into_inner(), &mut std::io::sink());
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// Reads the first line of an output, or everything if it ends before. `None` if neither comes in time.
fn first_line(output: impl Read + Send + 'static, limit: Duration) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // The end of the output is as good as an error.
        let _ = BufReader::new(output.take(SAID_MAX)).read_line(&mut line);
        let _ = sender.send(line);
    });
    receiver.recv_timeout(limit).ok()
}

/// Waits for the end; `None` where it does not come in time.
fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < deadline => thread::sleep(PAUSE),
            _ => return None,
        }
    }
}

fn last_line(text: &str, program: &str) -> String {
    let mut lines = text.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty());
    let last = last.unwrap_or("it ended without a word");
    let prefix = format!("{program}: ");
    last.strip_prefix(&prefix).unwrap_or(last).to_owned()
}

/// Scrim itself, with a runtime directory of its own.
#[derive(Clone, Debug)]
pub(super) struct Scrim {
    pub(super) program: PathBuf,
    pub(super) runtime: PathBuf,
}

/// A process that serves an open volume. It is killed with this, if it runs still.
pub(super) struct Server(Child);

impl Scrim {
    /// Runs a command of Scrim.
    pub(super) fn run<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, FileserverError> {
        let arguments: Vec<OsString> = arguments
            .into_iter()
            .map(|argument| argument.as_ref().to_owned())
            .collect();
        let what = arguments.first().map(|what| what.to_string_lossy());
        let name = format!("scrim {}", what.unwrap_or_default());
        let mut command = self.command();
        command.args(&arguments);
        finish(&name, command, "").map_err(|error| match error {
            FileserverError::Program { program, said } => FileserverError::Program {
                program,
                said: said.trim_start_matches("scrim: ").to_owned(),
            },
            other => other,
        })
    }

    /// Opens a table as a volume, by a process that ends with this one.
    pub(super) fn open(
        &self,
        name: &str,
        table: &str,
        data_path: &str,
    ) -> Result<Server, FileserverError> {
        let mut command = self.command();
        command
            .args(["open", "--table", "-", name, "--foreground"])
            .args(["--data-path", data_path, "--end-with-parent"])
            .arg(std::process::id().to_string());
        let doing = format!("start {}", self.program.display());
        let mut server = Server(
            quiet(&mut command)
                .spawn()
                .map_err(FileserverError::system(doing))?,
        );
        if let Some(mut input) = server.0.stdin.take() {
            let _ = input.write_all(table.as_bytes());
        }
        let errors = server.0.stderr.take().map(listen);
        let failure = |said| FileserverError::Program {
            program: "scrim open".to_owned(),
            said,
        };
        let output = server.0.stdout.take();
        match output.and_then(|output| first_line(output, OPENING)) {
            Some(address) if address.ends_with('\n') => Ok(server),
            Some(_) => {
                let said = errors.and_then(|errors| errors.join().ok());
                Err(failure(last_line(&said.unwrap_or_default(), "scrim")))
            }
            None => Err(failure(format!(
                "it did not open the volume in {} s; look at the kernel's log for errors of the disk",
                OPENING.as_secs()
            ))),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end, which was asked for.
    pub(super) fn wait(&mut self) {
        let _ = wait(&mut self.0, ENDING);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the children of process `pid` whose program is called `name`.
pub(super) fn children(pid: u32, name: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut found = Vec::new();
    for task in tasks.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children"));
        for child in children.unwrap_or_default().split_ascii_whitespace() {
            let of = Path::new("/proc").join(child).join("comm");
            let is_wanted = std::fs::read_to_string(of).is_ok_and(|comm| comm.trim() == name);
            found.extend(child.parse::<u32>().ok().filter(|_| is_wanted));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_what_went_wrong() {
        assert_eq!(run("cat", ["-"], "words").unwrap(), "words");
        let error = run(
            "sh",
            ["-c", "echo sh: first; echo 'sh: no such disk' >&2; exit 3"],
            "",
        );
        assert_eq!(error.unwrap_err().to_string(), "sh failed: no such disk");
        let error = run("false", [""; 0], "").unwrap_err().to_string();
        assert_eq!(error, "false failed: it ended without a word");
        assert!(run("scrim-no-such-program", [""; 0], "").is_err());
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let (silent, writer) = std::io::pipe().unwrap();
        assert_eq!(first_line(silent, PAUSE), None);
        drop(writer);
        let line = |text: &'static [u8]| first_line(text, LIMIT).unwrap();
        assert_eq!(line(b"nbd://x\nmore"), "nbd://x\n");
        assert_eq!(line(b""), "");
    }

    #[test]
    fn children_have_a_name() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        while children(std::process::id(), "sleep").is_empty() {
            thread::sleep(PAUSE);
        }
        assert!(children(std::process::id(), "scrim-none").is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
