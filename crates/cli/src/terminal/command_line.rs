//! Command lines that a user can give as they are printed.

use std::ffi::OsString;
use std::path::Path;

/// A name as one word of a shell, never an option.
pub(crate) fn shell_word(name: &str) -> String {
    match name.starts_with('-') {
        true => quoted(name),
        false => word(name),
    }
}

/// A text as one word of a shell.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The command line of this run, with `option` in it: what goes on with work that has stopped.
///
/// Passphrases and keys are never arguments, so it may be printed.
pub(crate) fn same_command(option: Option<&str>) -> String {
    again(std::env::args_os(), option)
}

fn again(arguments: impl Iterator<Item = OsString>, option: Option<&str>) -> String {
    let mut words: Vec<String> = arguments
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name();
        *program = name.map_or(String::new(), |name| name.to_string_lossy().into_owned());
    }
    if let Some(option) = option.filter(|option| !words.iter().any(|word| word == option)) {
        // Behind `--` there are only names.
        let end = words.iter().position(|word| word == "--");
        words.insert(end.unwrap_or(words.len()), option.to_owned());
    }
    let words = words.iter().map(|text| word(text));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/a/disk-1.img"), "/a/disk-1.img");
        assert_eq!(shell_word("my disk"), "'my disk'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("-d"), "'-d'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_command_is_repeated_with_all_its_options() {
        let again = |line: &[&str], option| again(line.iter().map(OsString::from), option);
        let line = ["/usr/bin/scrim", "import", "my raw", "a.img", "-d", "key"];
        assert_eq!(again(&line, None), "scrim import 'my raw' a.img -d key");
        let resumed = "scrim import 'my raw' a.img -d key --resume";
        assert_eq!(again(&line, Some("--resume")), resumed);
        let twice = ["scrim", "import", "--resume", "a", "b"];
        assert_eq!(again(&twice, Some("--resume")), "scrim import --resume a b");
        let names = ["scrim", "import", "--key-file=a b", "--", "-a", "b"];
        let resumed = "scrim import '--key-file=a b' --resume -- -a b";
        assert_eq!(again(&names, Some("--resume")), resumed);
    }
}
