//! Input of passphrases: from the terminal, a key file, or standard input, but never from the command line, which every
//! user of the machine can read.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use scrim_sys::memory::SecretBytes;

use crate::args::{KeyArgs, NewKeyArgs};
use crate::error::{CliError, Exit};
use crate::luks::derivation::CostLimits;
use crate::terminal::passphrase::{PASSPHRASE_MAX, TOO_LONG, prompt};

/// Largest key file that is read without `--keyfile-size`, in bytes: cryptsetup's limit.
const KEY_FILE_MAX: usize = 8 << 20;

/// A passphrase and where it came from.
pub(crate) struct Passphrase {
    pub(crate) secret: SecretBytes,
    pub(crate) source: Source,
}

/// Source that a passphrase came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Typed at a terminal: worth asking again.
    Terminal,
    /// The first line of standard input.
    StandardInput,
    /// A key file, whole.
    KeyFile,
}

impl Passphrase {
    /// Advice for a passphrase that does not fit.
    pub(crate) fn hint(&self) -> &'static str {
        let bytes = self.secret.expose();
        match self.source {
            _ if bytes.is_empty() => "the passphrase is empty",
            Source::KeyFile if bytes.ends_with(b"\r\n") => {
                "the key file ends with a line end of Windows (CR LF), which is part of the key: leave it out with \
                 --keyfile-size if it does not belong there"
            }
            Source::StandardInput if bytes.ends_with(b"\r") => {
                "the passphrase ends with a carriage return, as lines of Windows do: remove it, as `tr -d '\\r'` does"
            }
            Source::KeyFile if bytes.ends_with(b"\n") => {
                "the key file ends with a newline, which is part of the key: leave it out with \
                 --keyfile-size if it does not belong there"
            }
            Source::KeyFile => "check that this is the volume's key file, and its offset and size",
            Source::StandardInput => {
                "standard input is read up to the first newline: give a key that contains one with \
                 --key-file"
            }
            Source::Terminal => "check the keyboard layout and caps lock, then try again",
        }
    }
}

/// Source from which a passphrase is to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySource<'a> {
    /// A key file; "-" is all of standard input. `None` is a question at the terminal, or the next
    /// line of standard input.
    pub(crate) file: Option<&'a Path>,
    /// Bytes to skip of the key file.
    pub(crate) offset: u64,
    /// Bytes to take of the key file; `None` is all.
    pub(crate) size: Option<usize>,
    /// Prefix of the names of these options, for messages.
    pub(crate) options: &'static str,
    /// Limits on the cost of the header that the key is for.
    pub(crate) cost: CostLimits,
}

impl KeyArgs {
    pub(crate) fn source(&self) -> KeySource<'_> {
        self.source_or(None)
    }

    /// The source, where a key file may also be named by its place on the command line.
    pub(crate) fn source_or<'a>(&'a self, positional: Option<&'a Path>) -> KeySource<'a> {
        KeySource {
            file: self.key_file.as_deref().or(positional),
            offset: self.keyfile_offset,
            size: self.keyfile_size,
            options: "keyfile",
            cost: CostLimits {
                memory_kib: self.pbkdf_memory_limit,
                time: self
                    .pbkdf_time_limit
                    .map(u64::from)
                    .map(Duration::from_secs),
            },
        }
    }
}

impl NewKeyArgs {
    pub(crate) fn source(&self) -> KeySource<'_> {
        KeySource {
            file: self
                .new_keyfile
                .as_deref()
                .or(self.positional_key.as_deref()),
            offset: self.new_keyfile_offset,
            size: self.new_keyfile_size,
            options: "new-keyfile",
            cost: CostLimits::default(),
        }
    }
}

impl KeySource<'_> {
    /// Returns whether the key is all of standard input, so that nothing else can be read from there.
    pub(crate) fn is_standard_input(&self) -> bool {
        self.file == Some(Path::new("-"))
    }
}

/// Refuses two keys that would both be all of standard input.
pub(crate) fn check_apart(one: &KeySource<'_>, other: &KeySource<'_>) -> Result<(), CliError> {
    if one.is_standard_input() && other.is_standard_input() {
        return Err(CliError::usage(
            "two keys cannot both be all of standard input: name a file for one of them",
        ));
    }
    Ok(())
}

/// Asks for a new passphrase; at a terminal twice.
pub(crate) fn new_passphrase(key: &KeySource<'_>, question: &str) -> Result<Passphrase, CliError> {
    let passphrase = existing_passphrase(key, question)?;
    if passphrase.source == Source::Terminal {
        let again = prompt("Verify passphrase: ")?;
        if again.expose() != passphrase.secret.expose() {
            return Err(CliError::new(
                Exit::NoKey,
                "the two passphrases differ; nothing was changed: try again",
            ));
        }
    }
    if passphrase.secret.is_empty() {
        return Err(CliError::new(
            Exit::NoKey,
            "the passphrase is empty; nothing was changed: give one of at least one byte",
        ));
    }
    Ok(passphrase)
}

/// Reads the passphrase of an existing volume.
pub(crate) fn existing_passphrase(
    key: &KeySource<'_>,
    question: &str,
) -> Result<Passphrase, CliError> {
    match key.file {
        Some(_) if key.is_standard_input() => {
            let secret = read_key(standard_input()?, key, "standard input")?;
            if secret.is_empty() && key.size != Some(0) {
                return Err(nothing_to_read());
            }
            Ok(Passphrase {
                secret,
                source: Source::KeyFile,
            })
        }
        Some(path) => Ok(Passphrase {
            secret: read_key_file(path, key)?,
            source: Source::KeyFile,
        }),
        None if io::stdin().is_terminal() => {
            if key.offset > 0 || key.size.is_some() {
                return Err(CliError::usage(format!(
                    "--{0}-offset and --{0}-size are not for a passphrase that is typed; leave them out, or \
                     name a key file",
                    key.options
                )));
            }
            Ok(Passphrase {
                secret: prompt(question)?,
                source: Source::Terminal,
            })
        }
        None => Ok(Passphrase {
            secret: standard_passphrase(key)?.ok_or_else(nothing_to_read)?,
            source: Source::StandardInput,
        }),
    }
}

/// Reads a passphrase from the next line of standard input; `None` if that has ended.
pub(crate) fn standard_passphrase(key: &KeySource<'_>) -> Result<Option<SecretBytes>, CliError> {
    read_passphrase(&mut standard_input()?, key)
}

/// Error for an input that ended before a passphrase. An empty line is one.
fn nothing_to_read() -> CliError {
    CliError::usage(
        "standard input has no passphrase: pipe one in, name a key file with --key-file, or run the command at a terminal",
    )
}

/// Standard input without the buffer of the standard library, which would keep what passes through
/// it on the heap, and would take more than the line that is wanted.
pub(crate) fn standard_input() -> Result<File, CliError> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    input
        .map(File::from)
        .map_err(|error| CliError::io("read standard input", &error))
}

/// Reads a key file of exactly `len` bytes, such as a volume key.
pub(crate) fn exact_key(path: &Path, len: usize, options: &str) -> Result<SecretBytes, CliError> {
    let mut file = open_key_file(path)?;
    // One byte more is read of a file, so that a longer key is refused and not cut. What has no end, such as
    // /dev/urandom, has every length.
    let has_end = file.metadata().is_ok_and(|found| found.is_file());
    let key = read_up_to(&mut file, len.saturating_add(usize::from(has_end)))
        .map_err(|error| CliError::io(format_args!("read key from {}", path.display()), &error))?;
    if key.len() != len {
        let path = path.display();
        let bits = len.saturating_mul(8);
        return Err(CliError::usage(format!(
            "{path} does not have the {bits} bits that the key should have; name its file, or its \
             size with {options}"
        )));
    }
    Ok(key)
}

/// Reads the first `len` bytes of a key file behind `offset`; what follows is not of the key.
pub(crate) fn exact_start(path: &Path, offset: u64, len: usize) -> Result<SecretBytes, CliError> {
    let key = KeySource {
        file: Some(path),
        offset,
        size: Some(len),
        options: "keyfile",
        cost: CostLimits::default(),
    };
    read_key_file(path, &key)
}

fn open_key_file(path: &Path) -> Result<File, CliError> {
    File::open(path).map_err(|error| {
        CliError::usage(format!("cannot open key file {}: {error}", path.display()))
    })
}

fn read_key_file(path: &Path, key: &KeySource<'_>) -> Result<SecretBytes, CliError> {
    let mut file = open_key_file(path)?;
    let place = path.display().to_string();
    // A large regular file is not read up to the offset.
    let size = file.metadata().map_or(0, |found| found.len());
    let can_skip = (1..=size).contains(&key.offset);
    if can_skip && file.seek(SeekFrom::Start(key.offset)).is_ok() {
        return read_key(file, &KeySource { offset: 0, ..*key }, &place);
    }
    read_key(file, key, &place)
}

/// Reads a key: what is left after the offset, up to the size.
fn read_key(
    mut from: impl Read,
    key: &KeySource<'_>,
    place: &str,
) -> Result<SecretBytes, CliError> {
    let options = key.options;
    let fail = |error| CliError::io(format_args!("read key from {place}"), &error);
    let skipped = io::copy(&mut from.by_ref().take(key.offset), &mut io::sink());
    if skipped.map_err(fail)? < key.offset {
        return Err(CliError::usage(format!(
            "{place} ends before --{options}-offset {}; give a smaller one",
            key.offset
        )));
    }
    let wanted = key.size.unwrap_or(KEY_FILE_MAX);
    if wanted > KEY_FILE_MAX {
        return Err(CliError::usage(format!(
            "--{options}-size {wanted} is more than the largest key, {KEY_FILE_MAX} bytes"
        )));
    }
    let secret = read_up_to(&mut from, wanted).map_err(fail)?;
    if key.size.is_some_and(|size| secret.len() < size) {
        return Err(CliError::usage(format!(
            "{place} has only {} of the {wanted} bytes that --{options}-size asks for",
            secret.len()
        )));
    }
    if key.size.is_none() && from.read(&mut [0]).map_err(fail)? > 0 {
        return Err(CliError::usage(format!(
            "{place} has more than the largest key, {KEY_FILE_MAX} bytes; say with \
             --{options}-size how much of it is the key"
        )));
    }
    Ok(secret)
}

/// Reads until the end or until `max` bytes, growing in secret memory.
pub(crate) fn read_up_to(from: &mut impl Read, max: usize) -> io::Result<SecretBytes> {
    let mut room = SecretBytes::zeroed(max.min(4096));
    let mut used = 0;
    loop {
        if used == room.len() {
            if used == max {
                break;
            }
            let mut larger = SecretBytes::zeroed((2 * used).min(max));
            larger.expose_mut()[..used].copy_from_slice(room.expose());
            room = larger;
        }
        match from.read(&mut room.expose_mut()[used..]) {
            Ok(0) => break,
            Ok(read) => used += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    room.truncate(used);
    Ok(room)
}

/// Reads a passphrase from the line behind the offset: the whole line, or, as in cryptsetup, exactly `size` bytes of
/// it.
fn read_passphrase(
    from: &mut impl Read,
    key: &KeySource<'_>,
) -> Result<Option<SecretBytes>, CliError> {
    let options = key.options;
    let fail = |error: io::Error| CliError::io("read a passphrase from standard input", &error);
    // Skipped bytes are read one by one too: they may be another passphrase.
    let mut skipped = SecretBytes::zeroed(1);
    for _ in 0..key.offset {
        if read_up_to_once(from, skipped.expose_mut()).map_err(fail)? == 0 {
            return Err(CliError::usage(format!(
                "standard input ends before --{options}-offset {}; give a smaller one",
                key.offset
            )));
        }
    }
    let line = read_line(from, key.size.unwrap_or(usize::MAX)).map_err(fail)?;
    let Some(line) = line else {
        return Ok(None);
    };
    match key.size {
        Some(size) if line.len() < size => Err(CliError::usage(format!(
            "the line of standard input has only {} of the {size} bytes that --{options}-size asks for",
            line.len()
        ))),
        _ => Ok(Some(line)),
    }
}

fn read_up_to_once(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads up to a newline or until `max` bytes, byte by byte so that nothing after it is taken; `None` if the input has
/// ended.
fn read_line(from: &mut impl Read, max: usize) -> io::Result<Option<SecretBytes>> {
    let mut line = SecretBytes::zeroed(PASSPHRASE_MAX);
    let mut used = 0;
    let mut byte = SecretBytes::zeroed(1);
    while used < max {
        match read_up_to_once(from, byte.expose_mut())? {
            0 if used == 0 => return Ok(None),
            0 => break,
            _ if byte.expose() == b"\n" => break,
            _ if used == PASSPHRASE_MAX => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
            }
            _ => {
                line.expose_mut()[used] = byte.expose()[0];
                used += 1;
            }
        }
    }
    line.truncate(used);
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(offset: u64, size: Option<usize>) -> KeySource<'static> {
        KeySource {
            file: None,
            offset,
            size,
            options: "keyfile",
            cost: CostLimits::default(),
        }
    }

    fn read(bytes: &[u8], key: &KeySource<'_>) -> Result<Vec<u8>, String> {
        read_key(bytes, key, "key")
            .map(|secret| secret.expose().to_vec())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn key_files_are_cut_as_asked() {
        assert_eq!(read(b"abcdef\n", &key(0, None)), Ok(b"abcdef\n".to_vec()));
        assert_eq!(read(b"abcdef", &key(2, Some(3))), Ok(b"cde".to_vec()));
        assert!(
            read(b"abc", &key(4, None))
                .unwrap_err()
                .contains("ends before")
        );
        assert!(
            read(b"abc", &key(0, Some(4)))
                .unwrap_err()
                .contains("only 3")
        );
        let large = vec![1; KEY_FILE_MAX + 1];
        assert!(
            read(&large, &key(0, None))
                .unwrap_err()
                .contains("--keyfile-size")
        );
        assert_eq!(
            read(&large[1..], &key(0, None)).map(|k| k.len()),
            Ok(KEY_FILE_MAX)
        );
    }

    #[test]
    fn a_line_ends_at_the_newline_and_has_a_limit() {
        let mut input = &b"one\ntwo"[..];
        let mut next = || {
            let line = read_line(&mut input, usize::MAX).unwrap();
            line.map(|line| line.expose().to_vec())
        };
        assert_eq!(next().as_deref(), Some(&b"one"[..]));
        assert_eq!(next().as_deref(), Some(&b"two"[..]));
        assert_eq!(next(), None);
        assert!(
            read_line(&mut &b"\n"[..], 9)
                .unwrap()
                .is_some_and(|line| line.is_empty())
        );
        assert!(read_line(&mut &[b'x'; PASSPHRASE_MAX + 1][..], usize::MAX).is_err());
        assert!(read_line(&mut &[b'x'; PASSPHRASE_MAX][..], usize::MAX).is_ok());
    }
}
