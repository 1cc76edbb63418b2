//! Text that others wrote, and the one way to show it.
//!
//! A label in a LUKS header, the words of an NBD server and the name of a file may hold escape
//! sequences that move a terminal's cursor, change its title or hide what a user is asked to confirm.
//! [`Foreign`] wraps such text where it enters the program. Its only `Display` escapes whatever a
//! terminal would obey and whatever is invisible; [`Foreign::raw`] hands out the text as it is, for
//! comparison and storage, and `cargo xtask check` keeps that out of formatted text.
//!
//! [`Visible`] is for whole messages of this program, which have lines; [`json`] for JSON; [`Html`] for HTML and SVG.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Text, or bytes that may be text, from outside this program: one line when it is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Foreign<T>(T);

impl<T> Foreign<T> {
    /// Marks text as foreign.
    pub const fn new(text: T) -> Self {
        Self(text)
    }

    /// Returns the text as it is. It must not be printed: show the `Foreign` itself.
    pub fn raw(self) -> T {
        self.0
    }

    /// Borrows the text, still marked.
    pub const fn by_ref(&self) -> Foreign<&T> {
        Foreign(&self.0)
    }
}

impl Foreign<&str> {
    /// Copies the text, still marked.
    #[must_use]
    pub fn to_owned(self) -> Foreign<String> {
        Foreign(self.0.to_owned())
    }
}

impl<T: AsRef<[u8]>> Foreign<T> {
    /// Returns what is shown: at most `max` characters of the text, or bytes that are not text, and
    /// then `…` if there is more.
    pub fn shortened(&self, max: usize) -> String {
        let mut shown = String::new();
        let mut left = max;
        for chunk in self.0.as_ref().utf8_chunks() {
            // Writing to a string does not fail.
            for character in chunk.valid().chars().take(left) {
                let _ = write_escaped(&mut shown, character);
            }
            let valid = chunk.valid().chars().count();
            let bytes = chunk.invalid();
            let shown_bytes = bytes.len().min(left.saturating_sub(valid));
            let _ = write_bytes(&mut shown, &bytes[..shown_bytes]);
            if valid + bytes.len() > left {
                shown.push('…');
                return shown;
            }
            left -= valid + bytes.len();
        }
        shown
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Foreign<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(f, self.0.as_ref(), |_| false)
    }
}

/// The text's own `Debug`, which escapes too, so that a derived `Debug` of what holds it is safe to
/// print.
impl<T: fmt::Debug> fmt::Debug for Foreign<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: AsRef<[u8]>> PartialEq<str> for Foreign<T> {
    fn eq(&self, other: &str) -> bool {
        self.0.as_ref() == other.as_bytes()
    }
}

impl<T: AsRef<[u8]>> PartialEq<&str> for Foreign<T> {
    fn eq(&self, other: &&str) -> bool {
        self.0.as_ref() == other.as_bytes()
    }
}

/// A message of this program, which may have file names in it: lines and tabs stay, all else that a
/// terminal would obey is escaped.
#[derive(Clone, Copy)]
pub struct Visible<'a>(&'a [u8]);

impl<'a> Visible<'a> {
    /// Shows `text` with its lines.
    #[must_use]
    pub fn new(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self(text.as_ref())
    }
}

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(f, self.0, |character| matches!(character, '\n' | '\t'))
    }
}

/// JSON with every character escaped that [`Foreign`] would escape: serializers leave DEL, the C1
/// controls and bidirectional overrides as they are. The value stays the same.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    // Outside of strings JSON has no such characters but line feeds; in strings they are escaped.
    let is_kept = |character: char| character == '\n' || !is_dangerous(character);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_kept(character) {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(escaped)
}

/// Text within HTML or SVG: nothing in it is markup, neither between tags nor in a quoted attribute. Controls, and
/// characters that change the direction of text, are replaced; those without width stay, since names in some scripts
/// need them.
#[derive(Clone, Copy)]
pub struct Html<'a>(&'a str);

impl<'a> Html<'a> {
    /// Shows `text` within markup.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }
}

impl fmt::Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        // Long stretches are written at once.
        while let Some((at, character, replacement)) = rest
            .char_indices()
            .find_map(|(at, character)| Some((at, character, html_replacement(character)?)))
        {
            f.write_str(&rest[..at])?;
            f.write_str(replacement)?;
            rest = &rest[at + character.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Returns what stands for a character in HTML; `None` if that is the character itself.
fn html_replacement(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some("\u{fffd}")
        }
        _ if character.is_control() => Some("\u{fffd}"),
        _ => None,
    }
}

/// Writes `text`, escaping what is dangerous and not `kept`.
fn write_text(f: &mut impl Write, text: &[u8], kept: fn(char) -> bool) -> fmt::Result {
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        // Long stretches are written at once.
        while let Some(at) = rest.find(|c| is_dangerous(c) && !kept(c)) {
            let (plain, escaped) = rest.split_at(at);
            f.write_str(plain)?;
            let mut characters = escaped.chars();
            if let Some(character) = characters.next() {
                write_escaped(f, character)?;
            }
            rest = characters.as_str();
        }
        f.write_str(rest)?;
        write_bytes(f, chunk.invalid())?;
    }
    Ok(())
}

fn write_escaped(f: &mut impl Write, character: char) -> fmt::Result {
    if is_dangerous(character) {
        write!(f, "{}", character.escape_default())
    } else {
        f.write_char(character)
    }
}

/// Writes bytes that are not UTF-8.
fn write_bytes(f: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    for byte in bytes {
        write!(f, "\\x{byte:02x}")?;
    }
    Ok(())
}

/// Finds characters that a terminal may obey, or a reader cannot see: controls (C0, DEL, C1), what
/// changes the direction of text, what has no width, and what ends a line.
fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' // soft hyphen
            | '\u{34f}' // combining grapheme joiner
            | '\u{61c}' // Arabic letter mark
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
            | '\u{180e}' // Mongolian vowel separator
            | '\u{200b}'..='\u{200f}' // zero width, left-to-right and right-to-left marks
            | '\u{2028}'..='\u{202e}' // line and paragraph separators, embeddings, overrides
            | '\u{2060}'..='\u{206f}' // word joiner, invisible operators, isolates
            | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' // variation selectors
            | '\u{feff}' // zero-width no-break space
            | '\u{fff9}'..='\u{fffb}' // interlinear annotations
            | '\u{e0000}'..='\u{e007f}' // tags
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind that is dangerous.
    const HOSTILE: &str =
        "\u{1b}]0;x\u{7}\u{9b}2J\u{7f}\r\n\t\u{202e}\u{2066}\u{200b}\u{2028}\u{e0041}";

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        let shown = Foreign::new(HOSTILE).to_string();
        assert_eq!(
            shown,
            "\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{7f}\\r\\n\\t\\u{202e}\\u{2066}\\u{200b}\\u{2028}\\u{e0041}"
        );
        let debug = format!("{:?}", Foreign::new(HOSTILE));
        assert!(!debug.contains(is_dangerous), "{debug}");
        assert_eq!(Foreign::new("é 日本 \\ \"").to_string(), "é 日本 \\ \"");
    }

    #[test]
    fn every_byte_can_be_shown() {
        assert_eq!(Foreign::new(b"a\xffb\xc3").to_string(), "a\\xffb\\xc3");
        for byte in 0..=u8::MAX {
            let shown = Foreign::new([byte, b'x']).to_string();
            assert!(!shown.contains(char::is_control), "{byte:#04x}");
        }
    }

    #[test]
    fn a_message_keeps_its_lines() {
        let shown = Visible::new("a\tb\n\u{1b}c\r\n").to_string();
        assert_eq!(shown, "a\tb\n\\u{1b}c\\r\n");
    }

    #[test]
    fn what_is_long_is_cut_before_it_is_escaped() {
        let hostile = "\u{1b}".repeat(1 << 20);
        assert_eq!(Foreign::new(&hostile).shortened(2), "\\u{1b}\\u{1b}…");
        assert_eq!(Foreign::new("ab").shortened(2), "ab");
        assert_eq!(Foreign::new([0xff; 4000]).shortened(2), "\\xff\\xff…");
        assert_eq!(Foreign::new(b"a\xffb\xff").shortened(3), "a\\xffb…");
        assert_eq!(Foreign::new(b"a\xff").shortened(2), "a\\xff");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "é"] });
        for text in [
            serde_json::to_string(&value).unwrap(),
            serde_json::to_string_pretty(&value).unwrap(),
        ] {
            let escaped = json(&text);
            let shown = |c: char| c == '\n' || !is_dangerous(c);
            assert!(escaped.chars().all(shown), "{escaped}");
            let read: serde_json::Value = serde_json::from_str(&escaped).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn text_in_html_is_no_markup() {
        let text = "<a href='x' id=\"y\">&\u{202e}\n";
        assert_eq!(
            Html::new(text).to_string(),
            "&lt;a href=&#39;x&#39; id=&quot;y&quot;&gt;&amp;\u{fffd}\u{fffd}"
        );
        assert_eq!(Html::new("\u{85}ä & b").to_string(), "\u{fffd}ä &amp; b");
        // Persian names have a character that joins no letters.
        assert_eq!(
            Html::new("\u{646}\u{200c}\u{645}").to_string(),
            "\u{646}\u{200c}\u{645}"
        );
        assert_eq!(Html::new("").to_string(), "");
    }
}
