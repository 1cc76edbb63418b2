//! Text from outside is shown by `scrim_foreign` alone: what it hands out raw is never formatted, and
//! the program writes to its terminal in one module.

use super::repository::{Repository, Violation};
use crate::rust::Token;

/// Macros that format what they are given.
const FORMATTING: [&str; 10] = [
    "eprint",
    "eprintln",
    "format",
    "format_args",
    "panic",
    "print",
    "println",
    "unreachable",
    "write",
    "writeln",
];
/// The program's crate, and the only module of it that writes to a terminal.
const PROGRAM: &str = "crates/cli/src/";
const TERMINAL: &str = "crates/cli/src/terminal/output.rs";
/// Methods of a stream that write nothing, and so may be called outside that module.
const HARMLESS: [&str; 2] = ["is_terminal", "as_fd"];

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    let files = repository.rust();
    for (path, source) in files.filter(|(path, _)| path.contains("/src/")) {
        let tokens = source.tokens();
        for line in raw_text_formatted(&tokens) {
            violations.push(Violation::at(
                path,
                line,
                "raw foreign text is formatted; show the `Foreign` itself",
            ));
        }
        if path.starts_with(PROGRAM) && path != TERMINAL {
            for line in streams_taken(&tokens) {
                violations.push(Violation::at(
                    path,
                    line,
                    format!("a terminal is written to; do it in {TERMINAL}, which escapes"),
                ));
            }
        }
    }
    violations
}

/// Lines on which `.raw()` stands within a macro that formats.
fn raw_text_formatted(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let opens =
            |offset: usize, sign: &str| tokens.get(at + offset).is_some_and(|t| t.text == sign);
        if !FORMATTING.contains(&token.text) || !opens(1, "!") || !opens(2, "(") {
            continue;
        }
        let mut depth = 0usize;
        for window in tokens[at + 2..].windows(3) {
            match window[0].text {
                "(" => depth += 1,
                ")" => depth -= 1,
                "." if window[1].text == "raw" && window[2].text == "(" => {
                    lines.push(window[1].line);
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    lines
}

/// Lines that take standard output or error, but for a question about it.
fn streams_taken(tokens: &[Token<'_>]) -> Vec<usize> {
    let calls = tokens.windows(3).enumerate().filter(|(_, words)| {
        matches!(words[0].text, "stdout" | "stderr") && words[1].text == "(" && words[2].text == ")"
    });
    let asked = |at: usize| {
        let next = |offset: usize| tokens.get(at + offset).map(|token| token.text);
        let measured = at >= 2 && before(tokens, at).any(|word| word == "columns");
        next(3) == Some(".") && next(4).is_some_and(|word| HARMLESS.contains(&word)) || measured
    };
    calls
        .filter(|(at, _)| !asked(*at))
        .map(|(_, words)| words[0].line)
        .collect()
}

/// The four words before `at`: `columns(io::stdout())` measures a terminal.
fn before<'t>(tokens: &'t [Token<'_>], at: usize) -> impl Iterator<Item = &'t str> {
    tokens[at.saturating_sub(5)..at]
        .iter()
        .map(|token| token.text)
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_code(path: &str, code: &str) -> Vec<String> {
        printed(&check(&tree(&[(path, code)])))
    }

    #[test]
    fn raw_text_is_not_formatted() {
        let path = "crates/luks/src/dump.rs";
        for code in [
            "fn f() { format!(\"{}\", header.uuid().raw()); }",
            "fn f() {\n    note(format_args!(\n        \"{}\",\n        (a, label.raw()),\n    ));\n}",
        ] {
            assert_eq!(check_code(path, code).len(), 1, "{code}");
        }
        for code in [
            "fn f() { format!(\"{}\", header.uuid()); g(uuid.raw()); }",
            "fn f() { let raw = uuid.raw(); }",
            "fn f() { format!(\"x\"); } // format!(uuid.raw())",
        ] {
            assert!(check_code(path, code).is_empty(), "{code}");
        }
    }

    #[test]
    fn terminals_are_written_to_in_one_module() {
        let code = "fn f() { writeln!(io::stderr(), \"x\"); }";
        assert_eq!(check_code("crates/cli/src/main.rs", code).len(), 1);
        assert!(check_code(TERMINAL, code).is_empty());
        for code in [
            "fn f() { io::stdout().is_terminal(); }",
            "fn f() { columns(io::stdout()); }",
        ] {
            assert!(
                check_code("crates/cli/src/main.rs", code).is_empty(),
                "{code}"
            );
        }
    }
}
