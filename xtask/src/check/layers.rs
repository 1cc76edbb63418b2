//! Rule: a crate depends only on crates of lower layers.

use super::repository::{Repository, Violation};

/// Each crate with those directly below it; what is below those is below it too.
const LAYERS: [(&str, &[&str]); 19] = [
    ("scrim-cli", &["scrim-export", "scrim-serve", "scrim-bench"]),
    ("scrim-export", &["scrim-files", "scrim-fuse", "scrim-nbd"]),
    (
        "scrim-serve",
        &["scrim-files", "scrim-figures", "scrim-foreign", "scrim-pem"],
    ),
    (
        "scrim-files",
        &["scrim-volume", "scrim-ext4", "scrim-foreign"],
    ),
    (
        "scrim-bench",
        &["scrim-volume", "scrim-foreign", "scrim-seeded"],
    ),
    ("scrim-soak", &["scrim-volume"]),
    (
        "scrim-volume",
        &["scrim-crypt", "scrim-luks", "scrim-backend"],
    ),
    ("scrim-luks", &["scrim-crypt", "scrim-foreign", "scrim-sys"]),
    ("scrim-crypt", &["scrim-sys"]),
    (
        "scrim-backend",
        &["scrim-sys", "scrim-nbd", "scrim-rbd", "scrim-seeded"],
    ),
    ("scrim-nbd", &["scrim-crypt", "scrim-foreign", "scrim-pem"]),
    ("scrim-pem", &["scrim-sys"]),
    ("scrim-ext4", &[]),
    ("scrim-figures", &[]),
    ("scrim-foreign", &[]),
    ("scrim-fuse", &[]),
    ("scrim-rbd", &[]),
    ("scrim-seeded", &[]),
    ("scrim-sys", &[]),
];

/// Crates above all layers, on which no other crate may depend.
const TOOLS: [&str; 2] = ["xtask", "scrim-rivals"];

/// A crate beside the layers: tools and tests use it, the program does not.
const BESIDE: &str = "scrim-guest";

/// Finds dependencies that are not on a lower layer. Dependencies of tests alone are not restricted.
pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in &repository.members {
        if !is_placed(&member.name) {
            violations.push(Violation::at(
                &member.manifest,
                repository.manifest_line(&member.manifest, "name"),
                format!(
                    "{} has no place among the layers; give it one in ARCHITECTURE.md and in \
                     xtask/src/check/layers.rs",
                    member.name
                ),
            ));
            continue;
        }
        let internal = member.dependencies.iter().filter(|d| d.internal && !d.dev);
        for dependency in internal.filter(|d| !may_use(&member.name, &d.name)) {
            violations.push(Violation::at(
                &member.manifest,
                repository.manifest_line(&member.manifest, &dependency.name),
                format!(
                    "{} depends on {}, which is not below it; move what both need into a crate \
                     below both (ARCHITECTURE.md has the layers)",
                    member.name, dependency.name
                ),
            ));
        }
    }
    violations
}

fn is_placed(name: &str) -> bool {
    TOOLS.contains(&name) || name == BESIDE || LAYERS.iter().any(|(layer, _)| *layer == name)
}

fn may_use(user: &str, used: &str) -> bool {
    if TOOLS.contains(&user) {
        return !TOOLS.contains(&used);
    }
    let below = LAYERS.iter().find(|(layer, _)| *layer == user);
    below.is_some_and(|(_, below)| {
        below
            .iter()
            .any(|layer| *layer == used || may_use(layer, used))
    })
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_one(name: &str, dependencies: &[&str]) -> Vec<String> {
        let mut repository = tree(&[(
            "crates/luks/Cargo.toml",
            "[package]\nname = \"scrim-luks\"\n\n[dependencies]\nscrim-volume.workspace = true\n",
        )]);
        repository.members = vec![member(name, dependencies)];
        printed(&check(&repository))
    }

    #[test]
    fn downwards_is_allowed_also_past_a_layer() {
        assert!(check_one("scrim-cli", &["scrim-sys", "scrim-volume", "serde"]).is_empty());
        assert!(
            check_one("scrim-luks", &["scrim-crypt", "scrim-foreign", "scrim-sys"],).is_empty()
        );
        assert!(check_one("xtask", &["scrim-bench"]).is_empty());
        assert!(check_one("scrim-rivals", &["scrim-bench", "scrim-crypt"]).is_empty());
        assert!(check_one("scrim-volume", &["dev:scrim-export"]).is_empty());
    }

    #[test]
    fn upwards_and_sideways_are_not() {
        let violations = check_one("scrim-luks", &["scrim-volume"]);
        assert!(
            violations[0].starts_with("crates/luks/Cargo.toml:5: scrim-luks depends on scrim-vol"),
            "{violations:?}"
        );
        for (user, used) in [
            ("scrim-crypt", "scrim-luks"),
            ("scrim-pem", "scrim-crypt"),
            ("scrim-export", "scrim-bench"),
            ("scrim-sys", "scrim-sys"),
            ("scrim-cli", "xtask"),
            ("scrim-cli", "scrim-rivals"),
            ("xtask", "scrim-rivals"),
        ] {
            assert_eq!(check_one(user, &[used]).len(), 1, "{user} on {used}");
        }
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        let violations = check_one("scrim-extra", &[]);
        assert!(violations[0].contains("no place"), "{violations:?}");
    }
}
