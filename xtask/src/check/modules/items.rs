//! Just enough of Rust's grammar to find names, child modules, imports and paths among the tokens of a module.

use crate::rust::Token;

/// Words of a path, without the colons.
pub(super) type Path<'a> = Vec<&'a str>;

/// Attributes that leave an item out: neither tests nor models are part of the program.
const LEFT_OUT: [&str; 2] = ["test", "shuttle"];

/// Conditions under which an item with such an attribute may be part of the program.
const KEPT: [&str; 2] = ["any", "not"];

const DEFINING: [&str; 9] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "union",
    "macro_rules",
];

/// A part of a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// An item that is defined here.
    Named(&'a str),
    /// A child module, with its tokens if they are in the same file.
    Child {
        name: &'a str,
        line: usize,
        body: Option<Vec<Token<'a>>>,
    },
    /// One path of a `use`, and its name here; `*` for all names.
    Use {
        path: Path<'a>,
        name: &'a str,
        line: usize,
        public: bool,
    },
    /// A path of two words or more in code.
    Path { path: Path<'a>, line: usize },
}

/// Returns whether a path leads out of its module.
pub(super) fn leaves(path: &[&str]) -> bool {
    let mut words = path.iter().skip_while(|word| **word == "self");
    words
        .next()
        .is_some_and(|word| matches!(*word, "crate" | "super"))
}

pub(super) fn parse<'a>(tokens: &[Token<'a>]) -> Vec<Item<'a>> {
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        public: false,
        items: Vec::new(),
    };
    while parser.at < tokens.len() {
        parser.step();
    }
    parser.items
}

struct Parser<'a, 't> {
    tokens: &'t [Token<'a>],
    at: usize,
    /// Number of braces around this place.
    depth: usize,
    /// True just after a visibility.
    public: bool,
    items: Vec<Item<'a>>,
}

impl<'a> Parser<'a, '_> {
    fn step(&mut self) {
        let public = std::mem::take(&mut self.public);
        match self.text(0) {
            "#" => self.attribute(),
            "pub" => {
                self.at += 1;
                self.public = true;
                if self.text(0) == "(" {
                    self.at = self.end(self.at);
                }
            }
            "use" => self.import(public),
            "mod" if is_name(self.text(1)) => self.child(),
            // Not a definition, but a lifetime and a pointer.
            "static" | "const" if matches!(self.before(), "'" | "*") => self.at += 1,
            word if DEFINING.contains(&word) => {
                let skipped = usize::from(self.text(1) == "!");
                // A method has a name only within its type.
                if self.depth == 0 && is_name(self.text(1 + skipped)) {
                    self.items.push(Item::Named(self.text(1 + skipped)));
                }
                self.at += 1;
            }
            word if is_name(word) => self.path(),
            sign => {
                match sign {
                    "{" => self.depth += 1,
                    "}" => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                self.at += 1;
            }
        }
    }

    /// The text of a token ahead; empty after the end.
    fn text(&self, ahead: usize) -> &'a str {
        self.tokens
            .get(self.at + ahead)
            .map_or("", |token| token.text)
    }

    /// The text of the last token; empty at the start.
    fn before(&self) -> &'a str {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.map_or("", |token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    /// Index after the bracket that closes the one at `open`.
    fn end(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }

    /// Passes over an attribute, and over what it applies to if that is left out.
    fn attribute(&mut self) {
        let open = self.at + 1 + usize::from(self.text(1) == "!");
        let end = self.end(open);
        let words: Vec<_> = self.tokens[open.min(end)..end]
            .iter()
            .map(|token| token.text)
            .collect();
        self.at = end;
        let is_left_out = words.contains(&"cfg")
            && !KEPT.iter().any(|word| words.contains(word))
            && LEFT_OUT.iter().any(|word| words.contains(word));
        if is_left_out {
            self.skip_item();
        }
    }

    fn skip_item(&mut self) {
        let mut generics = 0usize;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "<" => generics += 1,
                ">" if self.before() != "-" => generics = generics.saturating_sub(1),
                "," if generics > 0 => {}
                ";" | "," => return,
                ")" | "]" | "}" => return,
                "{" => {
                    self.at = self.end(self.at);
                    return;
                }
                "(" | "[" => {
                    self.at = self.end(self.at);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn child(&mut self) {
        let (name, line) = (self.text(1), self.line());
        self.at += 2;
        let body = (self.text(0) == "{").then(|| {
            let end = self.end(self.at);
            let body = self.tokens[self.at + 1..end - 1].to_vec();
            self.at = end;
            body
        });
        self.items.push(Item::Child { name, line, body });
    }

    fn import(&mut self, public: bool) {
        self.at += 1;
        self.tree(&Vec::new(), public);
    }

    /// Reads a tree of a `use` behind `prefix`.
    fn tree(&mut self, prefix: &Path<'a>, public: bool) {
        let mut path = prefix.clone();
        let line = self.line();
        loop {
            match self.text(0) {
                "{" => {
                    let end = self.end(self.at);
                    self.at += 1;
                    while self.at + 1 < end {
                        let before = self.at;
                        self.tree(&path, public);
                        // Past the comma.
                        self.at = self.at.max(before) + 1;
                    }
                    self.at = end;
                    return;
                }
                ":" => self.at += 1,
                word @ "*" => {
                    self.at += 1;
                    self.push_use(path, word, line, public);
                    return;
                }
                "as" => {
                    let name = self.text(1);
                    self.at += 2;
                    self.push_use(path, name, line, public);
                    return;
                }
                word if is_name(word) => {
                    path.push(word);
                    self.at += 1;
                }
                _ => {
                    let name = path.last().copied().unwrap_or_default();
                    self.push_use(path, name, line, public);
                    return;
                }
            }
        }
    }

    fn push_use(&mut self, mut path: Path<'a>, name: &'a str, line: usize, public: bool) {
        if path.len() > 1 && path.last() == Some(&"self") {
            path.pop();
        }
        let name = match name {
            "self" => path.last().copied().unwrap_or_default(),
            name => name,
        };
        self.items.push(Item::Use {
            path,
            name,
            line,
            public,
        });
    }

    fn path(&mut self) {
        let line = self.line();
        let before = |back: usize| {
            self.at
                .checked_sub(back)
                .map_or("", |at| self.tokens[at].text)
        };
        // What follows two colons or one dot belongs to something else.
        let is_part =
            matches!((before(2), before(1)), (":", ":")) || before(1) == "." && before(2) != ".";
        let mut path = vec![self.text(0)];
        self.at += 1;
        while self.text(0) == ":" && self.text(1) == ":" && is_name(self.text(2)) {
            path.push(self.text(2));
            self.at += 3;
        }
        if path.len() > 1 && !is_part {
            self.items.push(Item::Path { path, line });
        }
    }
}

fn is_name(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|first| first.is_alphabetic() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::Source;

    fn paths(text: &str) -> Vec<String> {
        let source = Source::parse(text);
        let items = parse(&source.tokens());
        let paths = items.iter().filter_map(|item| match item {
            Item::Use {
                path, name, public, ..
            } => {
                let public = if *public { "pub " } else { "" };
                Some(format!("{public}{} as {name}", path.join("::")))
            }
            Item::Path { path, .. } => Some(path.join("::")),
            Item::Named(_) | Item::Child { .. } => None,
        });
        paths.collect()
    }

    #[test]
    fn trees_of_imports_come_apart() {
        assert_eq!(
            paths("use a::{self, b::{C, D as E,}, f::*}; pub(in crate::x) use g::H;"),
            [
                "a as a",
                "a::b::C as C",
                "a::b::D as E",
                "a::f as *",
                "pub g::H as H",
            ]
        );
    }

    #[test]
    fn paths_are_found_in_code_and_types() {
        assert_eq!(
            paths("fn f(x: a::B) -> c::D { x.e(); g::<u8>::h(0..i::J) }"),
            ["a::B", "c::D", "i::J"]
        );
    }

    #[test]
    fn names_of_methods_and_lifetimes_are_not_the_modules() {
        let text = "impl A { fn f(x: *const B) {} } struct S(&'static C); fn g() {}";
        let source = Source::parse(text);
        let items = parse(&source.tokens());
        assert_eq!(items, [Item::Named("S"), Item::Named("g")]);
    }

    #[test]
    fn tests_and_models_are_left_out() {
        for attribute in ["#[cfg(test)]", "#[cfg(all(test, unix))]", "#[cfg(shuttle)]"] {
            let text = format!(
                "{attribute} use a::b; {attribute} #[x] mod t {{ use c::d; }} {attribute} mod u; fn f() {{}}"
            );
            let source = Source::parse(&text);
            assert_eq!(parse(&source.tokens()), [Item::Named("f")], "{text}");
        }
        let generic = "#[cfg(test)] fn f<A, B>(x: A, y: a::b) -> C<A, B> { c::d } use e::f;";
        assert_eq!(paths(generic), ["e::f as f"]);
        for kept in ["#[cfg(not(test))]", "#[cfg(any(test, unix))]"] {
            assert_eq!(paths(&format!("{kept} use a::b;")), ["a::b as b"]);
        }
    }
}
