//! Unsafe code is allowed in three folders of the program and in one of its tools only, and each use says
//! why it is sound.

use super::repository::{Repository, Violation};
use crate::rust::{Source, Token};

const ROOMS: [&str; 4] = ["crates/sys/src/", "crates/rbd/src/", KERNELS, FOREIGN];
const KERNELS: &str = "crates/crypt/src/kernels/";
/// The libraries that Scrim is compared with; no part of the program.
const FOREIGN: &str = "crates/rivals/src/foreign/";
/// Crates with such a folder; all others forbid unsafe code at their root.
const CRATES: [&str; 4] = [
    "crates/sys/",
    "crates/rbd/",
    "crates/crypt/",
    "crates/rivals/",
];
/// Folders that may use intrinsics, for instructions that no library wraps.
const INTRINSICS: [&str; 2] = [KERNELS, FOREIGN];

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, source) in repository.rust() {
        let mut wrong = |line, text: &str| violations.push(Violation::at(path, line, text));
        if is_crate_root(path) && !starts_with(path, &CRATES) && !forbids(source) {
            wrong(0, "a crate root without `#![forbid(unsafe_code)]`; add it");
        }
        let tokens = source.tokens();
        let allowed = starts_with(path, &ROOMS) || is_test(path);
        for (at, token) in tokens.iter().enumerate() {
            if token.text == "unsafe" && !allowed {
                wrong(
                    token.line,
                    "`unsafe` outside crates/sys/src, crates/rbd/src, crates/crypt/src/kernels and \
                     crates/rivals/src/foreign; call a safe function of these, or add one there",
                );
            } else if token.text == "unsafe" && is_unexplained(source, &tokens[at..]) {
                wrong(
                    token.line,
                    "`unsafe` without a reason; write `// SAFETY: …` above it, or a `# Safety` \
                     section in its documentation",
                );
            }
            if is_arch(&tokens[at..]) && !starts_with(path, &INTRINSICS) && !is_test(path) {
                wrong(
                    token.line,
                    "processor intrinsics outside crates/crypt/src/kernels and \
                     crates/rivals/src/foreign; move them there",
                );
            }
        }
    }
    violations
}

fn starts_with(path: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| path.starts_with(prefix))
}

fn is_crate_root(path: &str) -> bool {
    let roots = ["src/lib.rs", "src/main.rs", "build.rs"];
    roots
        .iter()
        .any(|root| path == *root || path.ends_with(&format!("/{root}")))
        || path.contains("/src/bin/")
}

/// An integration test of some crate.
fn is_test(path: &str) -> bool {
    path.contains("/tests/")
}

fn forbids(source: &Source) -> bool {
    let squeezed = |line: &String| line.split_whitespace().collect::<String>();
    let wanted = "#![forbid(unsafe_code)]";
    source.code.iter().any(|line| squeezed(line) == wanted)
}

/// Returns whether an unsafe function, trait, implementation or foreign block has no SAFETY. (Blocks in
/// functions are clippy's, and a function pointer's type promises nothing.)
fn is_unexplained(source: &Source, tokens: &[Token<'_>]) -> bool {
    let follows = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let declares = match follows(1) {
        "impl" | "trait" => true,
        "fn" => follows(2) != "(",
        // Behind the name of the ABI.
        "extern" => {
            let opens = |token: &Token<'_>| matches!(token.text, "fn" | "{");
            let at = tokens.iter().position(opens).unwrap_or(tokens.len());
            follows(at) != "fn" || follows(at + 1) != "("
        }
        _ => false,
    };
    declares && !source.is_explained(tokens[0].line, &["SAFETY", "# Safety"])
}

fn is_arch(tokens: &[Token<'_>]) -> bool {
    let mut texts = tokens.iter().map(|token| token.text);
    matches!(texts.next(), Some("core" | "std")) && texts.take(3).eq([":", ":", "arch"])
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_file(path: &str, text: &str) -> Vec<String> {
        printed(&check(&tree(&[(path, text)])))
    }

    #[test]
    fn roots_forbid_unsafe_code() {
        for path in [
            "crates/x/src/lib.rs",
            "xtask/src/main.rs",
            "crates/x/src/bin/y.rs",
        ] {
            assert!(check_file(path, "//! X.\n\n#![forbid(unsafe_code)]\n").is_empty());
            assert_eq!(
                check_file(path, "//! X.\n// #![forbid(unsafe_code)]\n").len(),
                1
            );
        }
        assert!(check_file("crates/sys/src/lib.rs", "").is_empty());
        assert!(check_file("crates/rbd/src/lib.rs", "").is_empty());
        assert!(check_file("crates/crypt/src/lib.rs", "").is_empty());
        assert!(check_file("crates/rivals/src/main.rs", "").is_empty());
    }

    #[test]
    fn unsafe_has_its_rooms() {
        let text = "fn f() {\n    // SAFETY: nothing is done.\n    unsafe {}\n}\n";
        for path in [
            "crates/sys/src/a.rs",
            "crates/rbd/src/a.rs",
            "crates/crypt/src/kernels/x86_64/a.rs",
            "crates/rivals/src/foreign/a.rs",
            "crates/crypt/tests/a.rs",
        ] {
            assert!(check_file(path, text).is_empty(), "{path}");
        }
        for path in [
            "crates/crypt/src/a.rs",
            "crates/luks/src/a.rs",
            "crates/rivals/src/a.rs",
            "xtask/src/a.rs",
        ] {
            let violations = check_file(path, text);
            assert!(
                violations[0].starts_with(&format!("{path}:3: `unsafe` outside")),
                "{path}"
            );
        }
        let harmless = "#![deny(unsafe_op_in_unsafe_fn)] // unsafe\nconst A: &str = \"unsafe\";";
        assert!(check_file("crates/luks/src/a.rs", harmless).is_empty());
    }

    #[test]
    fn what_is_unsafe_says_why() {
        let path = "crates/sys/src/a.rs";
        for text in [
            "// SAFETY: plain data.\nunsafe impl Send for A {}",
            "/// F.\n///\n/// # Safety\n/// Only once.\n#[inline]\npub unsafe fn f() {}",
            "type F = unsafe fn(u8);",
            "type F = unsafe extern \"C\" fn(u8);",
        ] {
            assert!(check_file(path, text).is_empty(), "{text}");
        }
        for text in [
            "unsafe impl Send for A {}",
            "/// F.\npub unsafe fn f() {}",
            "// SAFETY: for another.\nfn f() {}\nunsafe trait T {}",
            "unsafe extern \"C\" { fn f(); }",
            "pub unsafe extern \"C\" fn f() {}",
        ] {
            assert_eq!(check_file(path, text).len(), 1, "{text}");
        }
    }

    #[test]
    fn intrinsics_have_one_room() {
        let text = "use core::arch::x86_64::__m512i;\nuse std :: arch :: asm;";
        for path in [
            "crates/crypt/src/kernels/a.rs",
            "crates/rivals/src/foreign/a.rs",
        ] {
            assert!(check_file(path, text).is_empty(), "{path}");
        }
        assert_eq!(check_file("crates/sys/src/a.rs", text).len(), 2);
        assert!(check_file("crates/sys/src/a.rs", "use std::archive::x;").is_empty());
    }
}
