//! Random targets, and a walk that is so simple that it is right.

use std::path::Component;

use scrim_seeded::Random;

use super::*;

const WORDS: [&str; 16] = [
    "a", "b", "file", "..", ".", "", "%2e%2e", ".%2e", "%2f", "in", "out", "%61", "..%2f", "%00",
    "%", "x",
];

/// Path that a target names, step by step in the real file system, links resolved by the kernel afterwards.
fn reference(root: &std::path::Path, target: &str) -> Option<PathBuf> {
    let mut names: Vec<String> = Vec::new();
    for word in target.split('/').skip(1) {
        let name = match word {
            "%2e%2e" | ".%2e" => "..",
            "%61" => "a",
            "%2f" | "..%2f" | "%00" | "%" => return None,
            word => word,
        };
        match name {
            ".." => drop(names.pop()?),
            "." | "" => {}
            name => names.push(name.to_owned()),
        }
    }
    let ends_in_folder = ["/", "/.", "/..", "/%2e%2e", "/.%2e"]
        .iter()
        .any(|end| target.ends_with(end));
    let path = names
        .iter()
        .fold(root.to_owned(), |path, name| path.join(name));
    let path = path.canonicalize().ok()?;
    assert!(path.components().all(|part| part != Component::ParentDir));
    (path.is_file() && !ends_in_folder && path.starts_with(root)).then_some(path)
}

#[test]
fn a_target_is_answered_with_the_file_that_it_names() {
    let mut fixture = Fixture::new();
    for name in ["file", "a/file", "a/b/file", "b/a/file", "a/a/a/file", "x"] {
        fixture.put(name, name);
    }
    fs::create_dir(fixture.folder.path().join("a")).expect("a folder");
    fs::write(fixture.folder.path().join("a/file"), "outside").expect("a file");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, fixture.path(name)).expect("a link");
    };
    link("a/b", "in");
    link("../..", "a/b/in");
    link("../a", "out");
    link("../../../a", "a/b/out");
    let root = fixture.root().canonicalize().expect("a root");
    let mut random = Random::new(1);
    let mut served = 0;
    for _ in 0..20_000 {
        let count = 1 + random.index(6);
        let target: String = (0..count)
            .map(|_| format!("/{}", WORDS[random.index(WORDS.len())]))
            .collect();
        let wanted = reference(&root, &target);
        let mut answer = fixture.get(&target);
        assert_eq!(
            answer.status == StatusCode::OK,
            wanted.is_some(),
            "{target}"
        );
        if let Some(path) = wanted {
            let text = fs::read_to_string(path).expect("the file");
            assert_eq!(content(&mut answer), text, "{target}");
            served += 1;
        }
    }
    assert!(served > 100, "{served}");
}
