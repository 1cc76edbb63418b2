//! Just enough of Rust's grammar: comments and the contents of literals told apart from code.

/// A Rust file, line by line.
pub(crate) struct Source {
    /// Without comments; a literal's content is left out, its quotes stay.
    pub(crate) code: Vec<String>,
    /// Text of the comments on each line.
    pub(crate) comments: Vec<String>,
}

/// A word or one sign of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// Number of the line, from 0.
    pub(crate) line: usize,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let mut lexer = Lexer {
            rest: text,
            source: Self {
                code: vec![String::new()],
                comments: vec![String::new()],
            },
        };
        while lexer.step() {}
        lexer.source
    }

    /// The code as words (identifiers, keywords, numbers) and single signs.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        let lines = self.code.iter().enumerate();
        lines
            .flat_map(|(line, code)| words(code).map(move |text| Token { text, line }))
            .collect()
    }

    /// Returns whether a comment with `words` stands on `line` (from 0), or above it with only comments and
    /// attributes between.
    pub(crate) fn is_explained(&self, line: usize, words: &[&str]) -> bool {
        let says = |line: usize| words.iter().any(|word| self.comments[line].contains(word));
        let passed_over = |line: &usize| {
            let code = self.code[*line].trim();
            code.starts_with("#[") || code.is_empty() && !self.comments[*line].is_empty()
        };
        says(line) || (0..line).rev().take_while(passed_over).any(says)
    }
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let length = match rest.find(|sign| !is_word(sign)) {
            _ if !is_word(first) => first.len_utf8(),
            Some(end) => end,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word)
    })
}

fn is_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

struct Lexer<'a> {
    rest: &'a str,
    source: Source,
}

impl Lexer<'_> {
    /// Takes one word, comment, literal or sign; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        if self.rest.starts_with("//") {
            self.comment(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment(self.rest));
        } else if first == '"' {
            self.literal(0, string(self.rest));
        } else if first == '\'' {
            match character(self.rest) {
                Some(length) => self.literal(0, length),
                None => self.code(1),
            }
        } else if is_word(first) {
            let length = self
                .rest
                .find(|sign| !is_word(sign))
                .unwrap_or(self.rest.len());
            let (word, after) = self.rest.split_at(length);
            match raw_string(after) {
                Some(raw) if matches!(word, "r" | "br" | "cr") => self.literal(length, raw),
                _ => self.code(length),
            }
        } else {
            self.code(first.len_utf8());
        }
        true
    }

    fn code(&mut self, length: usize) {
        let text = self.take(length);
        if text == "\n" {
            self.new_line();
        } else if let Some(line) = self.source.code.last_mut() {
            line.push_str(text);
        }
    }

    fn comment(&mut self, length: usize) {
        for (index, text) in self.take(length).split('\n').enumerate() {
            if index > 0 {
                self.new_line();
            }
            if let Some(line) = self.source.comments.last_mut() {
                line.push_str(text);
            }
        }
    }

    /// A literal of `length` after a prefix: kept as empty quotes.
    fn literal(&mut self, prefix: usize, length: usize) {
        let text = self.take(prefix + length);
        if let Some(line) = self.source.code.last_mut() {
            line.push_str("\"\"");
        }
        for _ in text.matches('\n') {
            self.new_line();
        }
    }

    fn take<'b>(&mut self, length: usize) -> &'b str
    where
        Self: 'b,
    {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn new_line(&mut self) {
        self.source.code.push(String::new());
        self.source.comments.push(String::new());
    }
}

/// Length of the comment that `text` starts with; block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        let here = &text[at..];
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of the string literal that `text` starts with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the character literal that `text` starts with; `None` is a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut signs = text.char_indices().skip(1);
    let (_, first) = signs.next()?;
    if first == '\\' {
        signs.next();
        return signs.find(|(_, sign)| *sign == '\'').map(|(at, _)| at + 1);
    }
    let (at, second) = signs.next()?;
    (second == '\'').then_some(at + 1)
}

/// Length of `#…"…"#…` at the start of `text`.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.find(|sign| sign != '#')?;
    let content = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &text[..hashes]);
    let found = content
        .find(&end)
        .map_or(content.len(), |at| at + end.len());
    Some(hashes + 1 + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::parse(text).code.join("\n")
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // unsafe\nb"), "a \nb");
        assert_eq!(code("a /* unsafe /* nested */\n unsafe */ b"), "a \n b");
        assert_eq!(code("/// unsafe\nfn"), "\nfn");
        let source = Source::parse("x // one\n/* two\nthree */ y");
        assert_eq!(source.comments, ["// one", "/* two", "three */"]);
        assert_eq!(source.code, ["x ", "", " y"]);
    }

    #[test]
    fn literals_are_not_code() {
        assert_eq!(code(r#"a("un\"safe // \\") b"#), r#"a("") b"#);
        assert_eq!(code("r#\"un\"safe\"# b"), "\"\" b");
        assert_eq!(code("br\"\\\" b"), "\"\" b");
        assert_eq!(code(r"'\'' '\u{41}' '/' b"), r#""" "" "" b"#);
        assert_eq!(code("\"one\ntwo\" three"), "\"\"\n three");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        assert_eq!(
            code("fn f<'a>(x: &'a str, r#type: u8)"),
            "fn f<'a>(x: &'a str, r#type: u8)"
        );
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'", "'\\", "// abc"] {
            Source::parse(text);
        }
    }

    #[test]
    fn words_and_signs_come_apart() {
        let source = Source::parse("pub(crate) fn über_2(&self)");
        let texts: Vec<_> = source.tokens().iter().map(|token| token.text).collect();
        let wanted = [
            "pub", "(", "crate", ")", "fn", "über_2", "(", "&", "self", ")",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn an_explanation_may_stand_above_attributes() {
        let source = Source::parse("// SAFETY: x\n#[inline]\nunsafe fn f() {}\nunsafe fn g() {}");
        assert!(source.is_explained(2, &["SAFETY"]));
        assert!(!source.is_explained(3, &["SAFETY"]));
    }
}
