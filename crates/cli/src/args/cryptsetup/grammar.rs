//! cryptsetup's command line, which popt reads: options may stand anywhere, and letters may be joined.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::{Known, by_letter, by_name};

/// The words of a command line.
#[derive(Default)]
pub(super) struct Words {
    /// The action, and its arguments.
    pub(super) arguments: Vec<OsString>,
    /// Options in their order, each with its value if it takes one.
    pub(super) options: Vec<(&'static Known, Option<OsString>)>,
}

impl Words {
    /// Reads what follows the name of the program.
    pub(super) fn read(given: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut words = Self::default();
        let mut rest = given;
        while let Some(word) = rest.next() {
            match word.as_bytes() {
                b"--" => {
                    words.arguments.extend(rest);
                    break;
                }
                [b'-', b'-', long @ ..] => words.long(long, &mut rest)?,
                [b'-', letters @ ..] if !letters.is_empty() => words.letters(letters, &mut rest)?,
                _ => words.arguments.push(word),
            }
        }
        Ok(words)
    }

    /// `--name`, `--name=value` or `--name value`.
    fn long(
        &mut self,
        word: &[u8],
        rest: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let mut parts = word.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default();
        let joined = parts.next();
        let shown = || OsStr::from_bytes(name).display().to_string();
        let known = by_name(name).ok_or_else(|| format!("--{}: unknown option", shown()))?;
        if joined.is_some() && !known.takes_value {
            return Err(format!("--{}: option does not take an argument", shown()));
        }
        self.push(known, joined, rest)
    }

    /// `-q`, `-qv`, `-s 256`, `-s256` or `-s=256`.
    fn letters(
        &mut self,
        mut letters: &[u8],
        rest: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        while let [letter, after @ ..] = letters {
            let known = by_letter(*letter)
                .ok_or_else(|| format!("-{}: unknown option", letter.escape_ascii()))?;
            if known.takes_value {
                let joined = after.strip_prefix(b"=").unwrap_or(after);
                return self.push(known, (!after.is_empty()).then_some(joined), rest);
            }
            self.push(known, None, rest)?;
            letters = after;
        }
        Ok(())
    }

    fn push(
        &mut self,
        known: &'static Known,
        joined: Option<&[u8]>,
        rest: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let value = match (known.takes_value, joined) {
            (false, _) => None,
            (true, Some(joined)) => Some(OsString::from_vec(joined.to_vec())),
            (true, None) => {
                let missing = || format!("--{}: missing argument", known.long);
                Some(rest.next().ok_or_else(missing)?)
            }
        };
        self.options.push((known, value));
        Ok(())
    }

    /// Returns whether a flag is given.
    pub(super) fn has(&self, long: &str) -> bool {
        self.options.iter().any(|(known, _)| known.long == long)
    }

    /// The value of an option; of several the last one counts.
    pub(super) fn value(&self, long: &str) -> Option<&OsStr> {
        let mut given = self.options.iter().rev();
        let (_, value) = given.find(|(known, _)| known.long == long)?;
        value.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<String, String> {
        let words = Words::read(line.split(' ').map(OsString::from))?;
        let options = words.options.iter().map(|(known, value)| match value {
            Some(value) => format!("{}={}", known.long, value.display()),
            None => known.long.to_owned(),
        });
        let arguments = words
            .arguments
            .iter()
            .map(|word| word.display().to_string());
        Ok(options.chain(arguments).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_stand_anywhere() {
        for (line, expected) in [
            (
                "-q -v luksOpen --key-file k a b",
                "batch-mode verbose key-file=k luksOpen a b",
            ),
            (
                "-qv -s256 luksFormat a",
                "batch-mode verbose key-size=256 luksFormat a",
            ),
            (
                "luksFormat -s=256 a --hash=sha1",
                "key-size=256 hash=sha1 luksFormat a",
            ),
            ("luksOpen -qd - a b", "batch-mode key-file=- luksOpen a b"),
            ("luksFormat a - -q", "batch-mode luksFormat a -"),
            ("luksDump -- -q", "luksDump -q"),
            ("open --label= a", "label= open a"),
        ] {
            assert_eq!(read(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn unknown_options_are_named() {
        for (line, expected) in [
            ("--foo luksDump", "--foo: unknown option"),
            ("-qZ luksDump", "-Z: unknown option"),
            (
                "luksDump --batch-mode=1",
                "--batch-mode: option does not take an argument",
            ),
            ("luksDump -s", "--key-size: missing argument"),
            ("luksDump --key-si 256", "--key-si: unknown option"),
        ] {
            assert_eq!(read(line), Err(expected.to_owned()), "{line}");
        }
    }
}
