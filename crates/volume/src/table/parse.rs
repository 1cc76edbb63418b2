//! Parser that makes a checked [`CryptTable`] of text that a user or a script wrote.

use std::borrow::Cow;
use std::fmt;

use scrim_crypt::{CipherError, CipherSpec, SectorSize};
use scrim_luks::VolumeKey;
use scrim_sys::memory::SecretBytes;

use super::{CryptOptions, CryptSpec, CryptTable, Line, LinearSpec, TargetSpec};

/// The largest mapping, in 512-byte units: its size in bytes fits an `i64`, as file offsets must.
const SECTORS_MAX: u64 = (i64::MAX as u64) / 512;

/// The most key bytes of any cipher here.
const KEY_MAX: usize = 128;

impl CryptTable {
    /// Most bytes that a table's text may have.
    pub const TEXT_MAX: usize = 1 << 20;

    /// Reads a table, one line per target.
    ///
    /// # Errors
    /// [`TableError`], which names the line and the fault, and shows no part of a key.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        if text.len() > Self::TEXT_MAX {
            return Err(TableError::new(0, Problem::TooLong));
        }
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let words = split_words(line);
            if words.is_empty() {
                continue;
            }
            let line = parse_line(&words).map_err(|problem| TableError::new(index + 1, problem))?;
            lines.push(line);
        }
        Self::from_lines(lines)
    }

    /// Makes a table of lines that follow each other from sector 0.
    ///
    /// # Errors
    /// When there is no line, or a gap, an overlap or an overflow.
    pub fn from_lines(lines: Vec<Line>) -> Result<Self, TableError> {
        let mut expected = 0u64;
        for (index, line) in lines.iter().enumerate() {
            let number = index + 1;
            if line.start != expected {
                let start = line.start;
                return Err(TableError::new(number, Problem::Gap { expected, start }));
            }
            expected = line
                .start
                .checked_add(line.len)
                .filter(|&end| line.len > 0 && end <= SECTORS_MAX)
                .ok_or(TableError::new(number, Problem::Length))?;
            check_target(line).map_err(|problem| TableError::new(number, problem))?;
        }
        if lines.is_empty() {
            return Err(TableError::new(0, Problem::Empty));
        }
        Ok(Self { lines })
    }
}

/// Sectors larger than 512 bytes start and end on their own boundaries, as the kernel demands.
fn check_target(line: &Line) -> Result<(), Problem> {
    if let TargetSpec::Crypt(crypt) = &line.target {
        let unit = crypt.options.sector_size.bytes() as u64 / 512;
        let aligned = [line.start, line.len, crypt.iv_offset, crypt.offset];
        if aligned.iter().any(|value| !value.is_multiple_of(unit)) {
            return Err(Problem::Unaligned { unit });
        }
        if !crypt.cipher.key_sizes().contains(&crypt.key.len()) {
            return Err(Problem::Cipher(CipherError::KeySize {
                spec: crypt.cipher.clone(),
                bytes: crypt.key.len(),
            }));
        }
    }
    Ok(())
}

/// Splits at white space; a backslash takes the next letter as it is. Only words with a backslash
/// are copied, so that no key is.
fn split_words(line: &str) -> Vec<Cow<'_, str>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let mut escaped = false;
        let end = rest.find(|letter: char| {
            let ends = letter.is_ascii_whitespace() && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(unescape(word));
        rest = after.trim_ascii_start();
    }
    words
}

fn unescape(word: &str) -> Cow<'_, str> {
    if !word.contains('\\') {
        return Cow::Borrowed(word);
    }
    let mut plain = String::with_capacity(word.len());
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => letters.next().unwrap_or('\\'),
            other => other,
        });
    }
    Cow::Owned(plain)
}

fn parse_line(words: &[Cow<'_, str>]) -> Result<Line, Problem> {
    let [start, len, kind, arguments @ ..] = words else {
        return Err(Problem::TooFewWords);
    };
    // A misplaced key must not be repeated by the error that follows from it.
    let key_place = if kind == "crypt" { Some(4) } else { None };
    let misplaced =
        |(place, word): (usize, &Cow<'_, str>)| Some(place) != key_place && looks_like_key(word);
    if words.iter().enumerate().any(misplaced) {
        return Err(Problem::KeyMisplaced);
    }
    let target = match kind.as_ref() {
        "crypt" => TargetSpec::Crypt(Box::new(parse_crypt(arguments)?)),
        "linear" => match arguments {
            [device, offset] => TargetSpec::Linear(LinearSpec {
                device: device.to_string(),
                offset: number("offset", offset)?,
            }),
            _ => return Err(Problem::Arguments("linear takes: device offset")),
        },
        "zero" if arguments.is_empty() => TargetSpec::Zero,
        "error" if arguments.is_empty() => TargetSpec::Error,
        "zero" | "error" => return Err(Problem::Arguments("zero and error take no argument")),
        other => return Err(Problem::UnknownTarget(other.to_owned())),
    };
    Ok(Line {
        start: number("start", start)?,
        len: number("length", len)?,
        target,
    })
}

/// Returns whether a word could be a key, or has one in it behind some rarer white space: as many hexadecimal
/// digits as the shortest key has.
fn looks_like_key(word: &str) -> bool {
    let is_key =
        |part: &str| part.len() >= 32 && part.bytes().all(|letter| letter.is_ascii_hexdigit());
    word.split_ascii_whitespace().any(is_key)
}

fn parse_crypt(arguments: &[Cow<'_, str>]) -> Result<CryptSpec, Problem> {
    let [cipher, key, iv_offset, device, offset, rest @ ..] = arguments else {
        return Err(Problem::Arguments(
            "crypt takes: cipher key iv_offset device offset [count options…]",
        ));
    };
    Ok(CryptSpec {
        cipher: cipher.parse::<CipherSpec>().map_err(Problem::Cipher)?,
        key: parse_key(key)?,
        iv_offset: number("iv_offset", iv_offset)?,
        device: device.to_string(),
        offset: number("offset", offset)?,
        options: parse_options(rest)?,
    })
}

fn parse_key(word: &str) -> Result<VolumeKey, Problem> {
    if word.starts_with(':') {
        return Err(Problem::KeyringKey);
    }
    let digits = if word == "-" { "" } else { word };
    if digits.len() % 2 != 0 || digits.len() > 2 * KEY_MAX {
        return Err(Problem::Key);
    }
    let mut key = SecretBytes::zeroed(digits.len() / 2);
    for (byte, pair) in key
        .expose_mut()
        .iter_mut()
        .zip(digits.as_bytes().chunks_exact(2))
    {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Ok(VolumeKey::new(key))
}

fn hex_digit(letter: u8) -> Result<u8, Problem> {
    match letter {
        b'0'..=b'9' => Ok(letter - b'0'),
        b'a'..=b'f' => Ok(letter - b'a' + 10),
        b'A'..=b'F' => Ok(letter - b'A' + 10),
        _ => Err(Problem::Key),
    }
}

fn parse_options(words: &[Cow<'_, str>]) -> Result<CryptOptions, Problem> {
    let sector = |bytes: &str| {
        bytes
            .parse()
            .ok()
            .and_then(SectorSize::new)
            .ok_or(Problem::SectorSize)
    };
    let mut options = CryptOptions::new(SectorSize::S512);
    for word in option_words(words)? {
        match word.as_ref() {
            "allow_discards" => options.allow_discards = true,
            "same_cpu_crypt" => options.same_cpu_crypt = true,
            "submit_from_crypt_cpus" => options.submit_from_crypt_cpus = true,
            "no_read_workqueue" => options.no_read_workqueue = true,
            "no_write_workqueue" => options.no_write_workqueue = true,
            "high_priority" => options.high_priority = true,
            // What a well-known patch of the kernel calls these two.
            "force_inline" => {
                options.no_read_workqueue = true;
                options.no_write_workqueue = true;
            }
            "iv_large_sectors" => options.iv_large_sectors = true,
            other => match other.strip_prefix("sector_size:") {
                Some(bytes) => options.sector_size = sector(bytes)?,
                None => return Err(Problem::UnknownOption(other.to_owned())),
            },
        }
    }
    Ok(options)
}

/// Returns the options of `count options…`. Another `count options…` may follow, appended to a line that was
/// printed: dm-crypt ignores those, which cannot have been intended.
fn option_words<'a, 'w>(words: &'a [Cow<'w, str>]) -> Result<Vec<&'a Cow<'w, str>>, Problem> {
    let mut found = Vec::new();
    let mut rest = words;
    while let Some((count, following)) = rest.split_first() {
        let said = number("option count", count)?;
        let taken = usize::try_from(said).ok().filter(|&n| n <= following.len());
        let is_next_count = |word: &Cow<'_, str>| word.parse::<u64>().is_ok();
        let next = taken.and_then(|n| following.get(n));
        let Some(taken) = taken.filter(|_| next.is_none_or(is_next_count)) else {
            return Err(Problem::OptionCount {
                said: count.to_string(),
                found: following.len(),
            });
        };
        found.extend(&following[..taken]);
        rest = &following[taken..];
    }
    Ok(found)
}

fn number(what: &'static str, word: &str) -> Result<u64, Problem> {
    word.parse()
        .ok()
        .filter(|&value: &u64| value <= SECTORS_MAX)
        .ok_or(Problem::Number { what })
}

/// A table that does not parse: the line, the fault, and the expected text.
#[derive(Debug)]
pub struct TableError {
    /// Line, counted from 1; 0 if the fault is in the table as a whole.
    line: usize,
    problem: Problem,
}

impl TableError {
    fn new(line: usize, problem: Problem) -> Self {
        Self { line, problem }
    }
}

#[derive(Debug)]
enum Problem {
    TooLong,
    Empty,
    TooFewWords,
    Arguments(&'static str),
    UnknownTarget(String),
    UnknownOption(String),
    OptionCount { said: String, found: usize },
    Number { what: &'static str },
    Gap { expected: u64, start: u64 },
    Length,
    Unaligned { unit: u64 },
    Cipher(CipherError),
    Key,
    KeyMisplaced,
    KeyringKey,
    SectorSize,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "table: {}", self.problem),
            line => write!(f, "table, line {line}: {}", self.problem),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                f,
                "it is longer than {} bytes; give a table only",
                CryptTable::TEXT_MAX
            ),
            Self::Empty => write!(
                f,
                "it has no line; write one as `dmsetup table --showkeys` prints it"
            ),
            Self::TooFewWords => write!(f, "a line reads: start length target arguments"),
            Self::Arguments(usage) => f.write_str(usage),
            Self::UnknownTarget(name) => write!(
                f,
                "target `{name}` is unknown; there are crypt, linear, zero and error"
            ),
            Self::UnknownOption(name) => write!(
                f,
                "option `{name}` is unknown; there are allow_discards, same_cpu_crypt, \
                 submit_from_crypt_cpus, no_read_workqueue, no_write_workqueue, high_priority, \
                 sector_size:N and iv_large_sectors"
            ),
            Self::OptionCount { said, found } => write!(
                f,
                "the option count is `{said}`, but {found} options follow; write {found}"
            ),
            Self::Number { what } => write!(
                f,
                "{what} is not a number from 0 to {SECTORS_MAX}; give it in 512-byte sectors"
            ),
            Self::Gap { expected, start } => write!(
                f,
                "it starts at sector {start}, but the one before ends at {expected}; lines must \
                 follow each other"
            ),
            Self::Length => write!(f, "its length is zero, or it ends beyond {SECTORS_MAX}"),
            Self::Unaligned { unit } => write!(
                f,
                "start, length, iv_offset and offset must be multiples of {unit} with this \
                 sector_size"
            ),
            Self::Cipher(error) => error.fmt(f),
            Self::Key => write!(
                f,
                "the key is not an even number of hexadecimal digits, at most {}",
                2 * KEY_MAX
            ),
            Self::KeyMisplaced => write!(
                f,
                "what looks like a key stands in another place than the key's; a crypt line reads: \
                 start length crypt cipher key iv_offset device offset"
            ),
            Self::KeyringKey => write!(
                f,
                "the key is in the kernel's keyring, from where it cannot be read; open the volume \
                 by its passphrase, or activate it with --disable-keyring first"
            ),
            Self::SectorSize => write!(f, "sector_size must be 512, 1024, 2048 or 4096"),
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Cipher(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keys;

    fn key_hex() -> String {
        (0..64u8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn text(table: &CryptTable, keys: Keys) -> String {
        String::from_utf8(table.to_text(keys).expose().to_vec()).unwrap()
    }

    #[test]
    fn what_dmsetup_prints_is_printed_again() {
        let key = key_hex();
        let lines = format!(
            "0 2048 crypt aes-xts-plain64 {key} 0 /dev/sdb1 32768 2 no_read_workqueue sector_size:4096\n\
             2048 100 linear /tmp/a\\ b\\\\c 8\n\
             2148 1 zero\n\
             2149 7 error\n"
        );
        let table = CryptTable::parse(&lines).unwrap();
        assert_eq!(text(&table, Keys::Shown), lines);
        let masked = text(&table, Keys::Masked);
        assert!(masked.contains(&"0".repeat(128)) && !masked.contains("0a0b0c"));
        assert_eq!(table.lines()[1].target.device(), Some("/tmp/a b\\c"));
        assert_eq!(table.len(), 2156);
    }

    #[test]
    fn ciphers_are_printed_as_they_were_given() {
        for (cipher, key) in [
            ("aes", 16),
            ("aes-cbc-essiv:sha256", 24),
            ("aes-ecb", 32),
            ("aes-xts-plain64", 48),
            ("capi:essiv(cbc(aes),sha256)-plain64", 16),
            ("capi:xts-aes-portable-plain64", 32),
            ("cipher_null-ecb", 0),
            ("capi:ecb(cipher_null)-null", 0),
        ] {
            let key = match key {
                0 => "-".to_owned(),
                bytes => key_hex()[..2 * bytes].to_owned(),
            };
            let line = format!("0 8 crypt {cipher} {key} 0 /x 0\n");
            let table = CryptTable::parse(&line).unwrap();
            assert_eq!(text(&table, Keys::Shown), line);
        }
    }

    #[test]
    fn options_may_be_added_to_the_end_of_a_line() {
        let crypt = |options: &str| {
            let key = key_hex();
            format!("0 8 crypt aes-xts-plain64 {key} 0 /x 0{options}\n")
        };
        let inline = " 2 no_read_workqueue no_write_workqueue";
        let with_sector = " 3 no_read_workqueue no_write_workqueue sector_size:4096";
        for (given, printed) in [
            (inline.to_owned(), inline),
            (" 1 force_inline".to_owned(), inline),
            (format!(" 1 sector_size:4096{inline}"), with_sector),
            (" 1 sector_size:4096 1 force_inline".to_owned(), with_sector),
            (format!(" 0{inline}"), inline),
        ] {
            let table = CryptTable::parse(&crypt(&given)).unwrap();
            assert_eq!(text(&table, Keys::Shown), crypt(printed));
        }
        for wrong in [
            " 1 allow_discards 2 force_inline",
            " 1 force_inline fast",
            " 2 force_inline 1",
        ] {
            assert!(CryptTable::parse(&crypt(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_without_the_key() {
        let key = key_hex();
        let crypt = |rest: &str| format!("0 8 crypt aes-xts-plain64 {key} {rest}");
        let cases = [
            (String::new(), "no line"),
            ("0 8".to_owned(), "a line reads"),
            ("0 8 striped 2".to_owned(), "`striped` is unknown"),
            ("0 0 zero".to_owned(), "length is zero"),
            ("0 8 zero\n9 1 zero".to_owned(), "ends at 8"),
            ("0 8 linear /x".to_owned(), "device offset"),
            ("0 18446744073709551615 zero".to_owned(), "length is not"),
            (crypt("0 /x 0 1 fast"), "`fast` is unknown"),
            (crypt("0 /x 0 2 allow_discards"), "write 1"),
            (crypt("0 /x 0 1 sector_size:513"), "512, 1024"),
            (crypt("1 /x 0 1 sector_size:4096"), "multiples of 8"),
            (crypt("0 /x"), "crypt takes"),
            (
                "0 8 crypt aes-xts-plain64 zz 0 /x 0".to_owned(),
                "hexadecimal",
            ),
            (
                "0 8 crypt aes-xts-plain64 abcd 0 /x 0".to_owned(),
                "32, 48 or 64 bytes, not of 2",
            ),
            (
                format!("0 8 crypt cipher_null-ecb {key} 0 /x 0"),
                "no volume key",
            ),
            ("0 8 crypt aes-xts-plain99 - 0 /x 0".to_owned(), "plain64be"),
            (
                "0 8 crypt capi:xts-aes-ce-plain64 - 0 /x 0".to_owned(),
                "the driver \"xts-aes-ce\"",
            ),
            (format!("0 8 crypt {key} 0 /x 0"), "another place"),
            (
                "0 8 crypt aes-xts-plain64 :64:logon:x 0 /x 0".to_owned(),
                "keyring",
            ),
        ];
        for (input, expected) in cases {
            let error = CryptTable::parse(&input).err().unwrap().to_string();
            assert!(error.contains(expected), "{input:.40}: {error}");
            assert!(!error.contains("0a0b0c"), "{error}");
        }
    }

    #[test]
    fn no_text_panics() {
        let words = [
            "0",
            "8",
            "crypt",
            "\\",
            "-",
            ":",
            "aes-xts-plain64",
            "é",
            "1",
            "\n",
        ];
        let mut seed = 1u32;
        for _ in 0..5_000 {
            let mut line = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                line.push_str(words[(seed >> 16) as usize % words.len()]);
                line.push(' ');
            }
            let _ = CryptTable::parse(&line);
        }
    }
}
