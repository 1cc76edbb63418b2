//! Paths of one machine, and marks of unfinished work, are not allowed in the tree.

use super::repository::{Repository, Violation};

/// Each is written in two halves so that this file does not break its own rule.
const UNFINISHED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const HOMES: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
];
/// Home folder that examples in documentation use; it belongs to nobody.
const EXAMPLE: &str = concat!("/ho", "me/", "me/");
const REGISTRIES: [&str; 8] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("arti", "factory"),
    concat!("jf", "rog"),
];
/// The one source that a lock file may name.
const LOCKED_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in repository.texts() {
        for (index, line) in text.lines().enumerate() {
            let mut wrong = |text: String| violations.push(Violation::at(path, index, text));
            for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
                wrong(format!(
                    "`{word}`: finish it, or write down elsewhere what is left"
                ));
            }
            for home in HOMES.iter().filter(|home| has_path(line, home)) {
                wrong(format!(
                    "a path under {home} belongs to one machine; use a relative one"
                ));
            }
            for host in REGISTRIES
                .iter()
                .filter(|host| line.to_lowercase().contains(**host))
            {
                wrong(format!(
                    "`{host}` is a matter of each machine's configuration; remove it"
                ));
            }
            if line.contains("source = \"registry+") && !line.contains(LOCKED_SOURCE) {
                wrong(format!(
                    "locked to another registry than {LOCKED_SOURCE}; lock it again"
                ));
            }
        }
    }
    violations
}

fn has_word(line: &str, word: &str) -> bool {
    let is_inside = |sign: Option<char>| sign.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !is_inside(before) && !is_inside(after)
    })
}

/// Returns whether a path starts with `directory` here, and does not only contain it.
fn has_path(line: &str, directory: &str) -> bool {
    line.match_indices(directory).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + directory.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}*".contains(c))
            && after.is_some_and(|c| c.is_alphanumeric() || "._-$<{".contains(c))
            && !line[at..].starts_with(EXAMPLE)
    })
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_text(text: &str) -> Vec<String> {
        printed(&check(&tree(&[("a.txt", text)])))
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in UNFINISHED {
            assert_eq!(check_text(&format!("fine\n// {word}: later")).len(), 1);
            assert!(check_text(&format!("x{word} {word}_X {}", word.to_lowercase())).is_empty());
        }
        let line = format!("one\ntwo {}", UNFINISHED[0]);
        assert!(check_text(&line)[0].starts_with("a.txt:2: "));
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for home in HOMES {
            assert_eq!(check_text(&format!("cd {home}someone")).len(), 1, "{home}");
            assert_eq!(check_text(&format!("\"{home}someone\"")).len(), 1, "{home}");
            let relative = format!("a{home}b ./x{home}b the directory {home} itself");
            assert!(check_text(&relative).is_empty(), "{home}");
        }
        assert!(check_text(&format!("scrim open {EXAMPLE}disk.img")).is_empty());
    }

    #[test]
    fn registries_are_found() {
        for host in REGISTRIES {
            assert_eq!(check_text(&format!("https://{host}/x")).len(), 1, "{host}");
        }
        assert!(check_text(&format!("source = \"{LOCKED_SOURCE}\"")).is_empty());
        assert_eq!(
            check_text("source = \"registry+https://mirror.example/index\"").len(),
            1
        );
    }
}
