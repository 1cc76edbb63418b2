//! Passphrases that are typed at the terminal, which shows nothing of them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use scrim_foreign::Visible;
use scrim_sys::memory::SecretBytes;

use crate::error::{CliError, Exit};

/// Longest passphrase that is typed or read as a line, in bytes: cryptsetup's limit.
pub(crate) const PASSPHRASE_MAX: usize = 512;

/// Error for a passphrase that is longer.
pub(crate) const TOO_LONG: &str = "it has more than 512 bytes; use --key-file for longer ones";

/// Limit of the time to enter one passphrase; unset if there is none.
static TIME_LIMIT: OnceLock<Duration> = OnceLock::new();

/// Limits the time to enter each passphrase from now on.
pub(crate) fn limit_time(limit: Duration) {
    let _ = TIME_LIMIT.set(limit);
}

const TIME_IS_UP: &str = "no passphrase within the time of --timeout; nothing was changed";

/// Asks at the terminal, without showing what is typed.
pub(crate) fn prompt(question: &str) -> Result<SecretBytes, CliError> {
    let fail = |error: io::Error| CliError::io("ask at the terminal", &error);
    let mut terminal = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(fail)?;
    // Silence first: the user may type as soon as the question is shown.
    let silence = Silence::start(&terminal).map_err(fail)?;
    write!(&terminal, "{}", Visible::new(question)).map_err(fail)?;
    let line = read_typed(&mut Keys::of(&terminal));
    drop(silence);
    terminal.write_all(b"\n").map_err(fail)?;
    let fail_typing = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => CliError::usage(error.to_string()),
        _ => fail(error),
    };
    match line.map_err(fail_typing)? {
        Typed::Line(line) => Ok(line),
        Typed::Nothing => Err(CliError::usage(
            "no passphrase was entered; nothing was changed",
        )),
        Typed::Interrupt => Err(CliError::new(
            Exit::Interrupted,
            "interrupted; nothing was changed",
        )),
    }
}

/// Input at a terminal.
enum Typed {
    Line(SecretBytes),
    /// The end of input, by Ctrl-D on an empty line or because the terminal is gone.
    Nothing,
    /// Ctrl-C, which gives the command up.
    Interrupt,
}

/// Keys that are typed at a terminal, until the time is up.
struct Keys<'a> {
    terminal: &'a File,
    deadline: Option<Instant>,
}

impl<'a> Keys<'a> {
    fn of(terminal: &'a File) -> Self {
        let limit = TIME_LIMIT.get().filter(|limit| !limit.is_zero());
        Self {
            terminal,
            deadline: limit.and_then(|limit| Instant::now().checked_add(*limit)),
        }
    }

    /// Waits until a key is there.
    fn wait(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let mut events = [PollFd::new(self.terminal, PollFlags::IN)];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut events, Some(&left)) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, TIME_IS_UP)),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Keys<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        self.terminal.read(into)
    }
}

/// Reads a typed line key by key.
fn read_typed(from: &mut impl Read) -> io::Result<Typed> {
    const INTERRUPT: u8 = 0x03;
    const END: u8 = 0x04;
    const BACKSPACE: u8 = 0x08;
    const ERASE_LINE: u8 = 0x15;
    const DELETE: u8 = 0x7f;
    let mut line = SecretBytes::zeroed(PASSPHRASE_MAX);
    let mut used = 0;
    let mut key = SecretBytes::zeroed(1);
    loop {
        if from.read(key.expose_mut())? == 0 {
            return Ok(Typed::Nothing);
        }
        match key.expose()[0] {
            b'\n' | b'\r' => break,
            INTERRUPT => return Ok(Typed::Interrupt),
            END if used == 0 => return Ok(Typed::Nothing),
            END => break,
            BACKSPACE | DELETE => used = last_letter(&line.expose()[..used]),
            ERASE_LINE => used = 0,
            byte if used < PASSPHRASE_MAX => {
                line.expose_mut()[used] = byte;
                used += 1;
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG)),
        }
    }
    line.truncate(used);
    Ok(Typed::Line(line))
}

/// Offset at which the last UTF-8 character of a line starts.
fn last_letter(line: &[u8]) -> usize {
    line.iter()
        .rposition(|byte| byte & 0xc0 != 0x80)
        .unwrap_or(0)
}

/// A terminal that shows nothing of what is typed, until this is dropped. Keys come one by one and
/// Ctrl-C is one of them, so that it does not leave the terminal silent.
struct Silence<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silence<'a> {
    fn start(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal.as_fd())?;
        let mut silent = before.clone();
        let modes = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.local_modes.remove(modes);
        tcsetattr(terminal.as_fd(), OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal.as_fd(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_can_be_mended_and_interrupted() {
        let typed = |keys: &[u8]| match read_typed(&mut &keys[..]).unwrap() {
            Typed::Line(line) => Ok(line.expose().to_vec()),
            Typed::Nothing => Err("nothing"),
            Typed::Interrupt => Err("an interrupt"),
        };
        assert_eq!(typed("abü\x7f\x7fc\r".as_bytes()), Ok(b"ac".to_vec()));
        assert_eq!(typed(b"\x7fabc\x15xy\x04"), Ok(b"xy".to_vec()));
        assert_eq!(typed(b"ab\x03"), Err("an interrupt"));
        assert_eq!(typed(b"\x04"), Err("nothing"));
        assert_eq!(typed(b"ab"), Err("nothing"));
    }
}
