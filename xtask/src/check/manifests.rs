//! Rule: every package takes the workspace's lints.

use super::repository::{Repository, Violation};

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    repository
        .members
        .iter()
        .filter(|member| {
            let text = repository.text(&member.manifest).unwrap_or_default();
            !inherits_lints(text)
        })
        .map(|member| {
            let text = "does not take the workspace's lints; add `[lints]` and `workspace = true`";
            Violation::at(&member.manifest, 0, text)
        })
        .collect()
}

fn inherits_lints(manifest: &str) -> bool {
    let lines = manifest.lines().map(str::trim);
    lines
        .skip_while(|line| *line != "[lints]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line == "workspace = true")
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_manifest(text: &str) -> Vec<String> {
        let mut repository = tree(&[("crates/x/Cargo.toml", text)]);
        repository.members = vec![member("scrim-x", &[])];
        printed(&check(&repository))
    }

    #[test]
    fn lints_are_inherited() {
        assert!(check_manifest("[package]\n\n[lints]\nworkspace = true\n").is_empty());
        for text in [
            "[package]\n",
            "[lints]\n\n[other]\nworkspace = true\n",
            "[other]\nworkspace = true\n[lints]\n",
        ] {
            let violations = check_manifest(text);
            assert!(
                violations[0].starts_with("crates/x/Cargo.toml:1: "),
                "{text}"
            );
        }
    }
}
