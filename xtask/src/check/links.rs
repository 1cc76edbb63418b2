//! Relative links in Markdown lead somewhere.

use super::repository::{Repository, Violation};

pub(crate) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, prose) in prose(text) {
            let broken =
                targets(&prose).filter(|target| !leads_somewhere(repository, path, target));
            violations.extend(broken.map(|target| {
                let text = format!("the link to `{target}` leads nowhere; mend or remove it");
                Violation::at(path, line, text)
            }));
        }
    }
    violations
}

/// The lines outside fenced blocks, without code spans.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let outside_spans = line.split('`').step_by(2);
        (!fence && !fenced).then(|| (index, outside_spans.collect()))
    })
}

/// Targets of the links `[text](target "title")` and `[label]: target` on a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        target.split_whitespace().next()
    });
    let reference = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, target)| target.split_whitespace().next());
    inline
        .chain(reference)
        .map(|target| target.trim_matches(['<', '>']))
}

fn leads_somewhere(repository: &Repository, from: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(from, path) else {
        return false;
    };
    let heading = || {
        let text = repository.text(&path).unwrap_or_default();
        prose_headings(text).any(|heading| slug(heading) == fragment)
    };
    let checked = !fragment.is_empty() && path.ends_with(".md");
    repository.contains(&path) && (!checked || heading())
}

/// The path from the root that `target` means in the file `from`; `None` above the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn prose_headings(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        fenced ^= line.trim_start().starts_with("```");
        !fenced && line.starts_with('#')
    })
}

/// Usual anchor of a heading: lower case, signs left out, hyphens for spaces.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::repository::testing::*;
    use super::*;

    fn check_text(text: &str) -> Vec<String> {
        printed(&check(&tree(&[
            ("docs/a.md", text),
            (
                "docs/b.md",
                "# The `one` thing: here\n```\n# not this\n```\n",
            ),
            ("README.md", ""),
        ])))
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "[b](b.md) [up](../README.md \"title\") [dir](../docs/) [x](https://x.org/y)\n\
                    [h](b.md#the-one-thing-here) `[code](nowhere.md)`\n\
                    ```\n[fenced](nowhere.md)\n```\n[ref]: b.md\n[here](#mine)\n# Mine\n";
        assert_eq!(check_text(text), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_not() {
        for text in [
            "[x](c.md)",
            "[x](b.md#not-this)",
            "[x](#yours)",
            "[x](../../outside.md)",
            "[ref]: c.md",
            "[x](b.md) and [y](<c.md>)",
        ] {
            assert_eq!(check_text(text).len(), 1, "{text}");
        }
        assert!(check_text("fine\n[x](c.md)")[0].starts_with("docs/a.md:2: the link to `c.md`"));
    }
}
