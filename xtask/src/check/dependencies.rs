//! Every direct dependency has one line in `docs/dependencies.md` that says why.

use std::collections::{BTreeMap, BTreeSet};

use super::repository::{Repository, Violation};

const LIST: &str = "docs/dependencies.md";

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let Some(list) = repository.text(LIST) else {
        let text = "missing; it has a line `| `name` | reason |` for every direct dependency";
        return vec![Violation::at(LIST, 0, text)];
    };
    let mut users = BTreeMap::new();
    for member in &repository.members {
        for dependency in member.dependencies.iter().filter(|d| !d.internal) {
            users.entry(dependency.name.as_str()).or_insert(member);
        }
    }

    let mut violations = Vec::new();
    let mut listed = BTreeSet::new();
    for (line, (name, reason)) in list.lines().enumerate().filter_map(entry) {
        let mut wrong = |text| violations.push(Violation::at(LIST, line, text));
        if !listed.insert(name) {
            wrong(format!("`{name}` has a second line; keep one"));
        } else if !users.contains_key(name) {
            wrong(format!("nothing depends on `{name}`; remove its line"));
        }
        if reason.is_empty() {
            wrong(format!("`{name}` has no reason; say why it is needed"));
        }
    }
    for (name, member) in users.iter().filter(|(name, _)| !listed.contains(*name)) {
        violations.push(Violation::at(
            &member.manifest,
            repository.manifest_line(&member.manifest, name),
            format!("`{name}` has no line in {LIST}; say there why it is needed"),
        ));
    }
    violations
}

/// The name and the reason of a line ``| `name` | reason |``.
fn entry((index, line): (usize, &str)) -> Option<(usize, (&str, &str))> {
    let (name, rest) = line.trim().strip_prefix("| `")?.split_once("` |")?;
    Some((index, (name, rest.trim_matches([' ', '|']))))
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_list(list: &str) -> Vec<String> {
        let manifest = "[dependencies]\naes = \"1\"\n";
        let mut repository = tree(&[(LIST, list), ("crates/x/Cargo.toml", manifest)]);
        repository.members = vec![
            member("scrim-x", &["aes", "scrim-sys"]),
            member("scrim-y", &["aes", "dev:tempfile"]),
        ];
        printed(&check(&repository))
    }

    #[test]
    fn one_line_each_is_right() {
        let list = "| crate | why |\n|---|---|\n| `aes` | the cipher |\n| `tempfile` | tests |\n";
        assert_eq!(check_list(list), [""; 0]);
    }

    #[test]
    fn missing_stale_double_and_silent_lines_are_not() {
        let list =
            "| `aes` | the cipher |\n| `aes` | again |\n| `old` | gone |\n| `tempfile` | |\n";
        let violations = check_list(list);
        assert_eq!(violations.len(), 3);
        assert!(violations[0].starts_with("docs/dependencies.md:2: `aes` has a second"));
        assert!(violations[1].starts_with("docs/dependencies.md:3: nothing depends on `old`"));
        assert!(violations[2].starts_with("docs/dependencies.md:4: `tempfile` has no reason"));

        let violations = check_list("| `tempfile` | tests |\n");
        assert!(violations[0].starts_with("crates/x/Cargo.toml:2: `aes` has no line"));
        assert_eq!(check(&tree(&[])).len(), 1);
    }
}
