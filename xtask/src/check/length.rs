//! Rule: no file has over 800 lines without a written reason. (clippy checks the length of functions.)

use super::repository::{Repository, Violation};

const LIMIT: usize = 800;
const REASON: &str = "long-file:";

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let has_reason = |comment: &String| {
        let after = comment.split_once(REASON);
        after.is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    repository
        .rust()
        .filter_map(|(path, source)| Some((path, source, repository.text(path)?.lines().count())))
        .filter(|(_, source, lines)| *lines > LIMIT && !source.comments.iter().any(has_reason))
        .map(|(path, _, lines)| {
            let text = format!(
                "{lines} lines, and {LIMIT} is the limit; split it, or say why not in a comment \
                 `// {REASON} <reason>`"
            );
            Violation::at(path, LIMIT, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_lines(count: usize, head: &str) -> Vec<String> {
        let text = format!("{head}{}", "fn f() {}\n".repeat(count));
        printed(&check(&tree(&[("src/a.rs", &text)])))
    }

    #[test]
    fn long_files_need_a_reason() {
        assert!(check_lines(800, "").is_empty());
        assert!(check_lines(801, "")[0].starts_with("src/a.rs:801: 801 lines"));
        assert!(check_lines(801, "// long-file: one table\n").is_empty());
        assert_eq!(check_lines(801, "// long-file:\n").len(), 1);
        assert_eq!(
            check_lines(801, "const A: &str = \"long-file: x\";\n").len(),
            1
        );
    }
}
