//! Patterns of names, for rules.

/// A pattern: `*` and `?` stand for anything but a slash, `**` for anything.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: Vec<u8>,
    /// Without a slash in it, it is for a file's name, wherever the file is.
    by_name: bool,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let by_name = !text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text);
        Self {
            text: text.as_bytes().to_vec(),
            by_name,
        }
    }

    /// Returns whether it fits a path from the site's folder on.
    pub(super) fn fits(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        fits(&self.text, if self.by_name { name } else { path })
    }
}

/// Row by row over the pattern: which beginnings of `text` fit so much of it. Patterns are the owner's, but
/// paths are anybody's: no path makes this take more than their product.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    let mut rest = pattern;
    while let [sign, after @ ..] = rest {
        rest = after;
        if *sign == b'*' {
            let any = rest.first() == Some(&b'*');
            rest = if any { &rest[1..] } else { rest };
            for at in 0..text.len() {
                reach[at + 1] |= reach[at] && (any || text[at] != b'/');
            }
        } else {
            for at in (0..text.len()).rev() {
                let is_it = text[at] == *sign || (*sign == b'?' && text[at] != b'/');
                reach[at + 1] = reach[at] && is_it;
            }
            reach[0] = false;
        }
    }
    reach[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names_or_paths() {
        for (pattern, path, fitting) in [
            ("*.js", "a.js", true),
            ("*.js", "b/c/a.js", true),
            ("*.js", "a.jsx", false),
            ("*", "a", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("/a", "a", true),
            ("/a", "b/a", false),
            ("assets/*", "assets/a", true),
            ("assets/*", "assets/b/a", false),
            ("assets/**", "assets/b/a", true),
            ("assets/**", "x/assets/b", false),
            ("**/assets/**.js", "x/assets/b/c.js", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXc", false),
            ("a/?", "a//", false),
            ("", "a", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).fits(path.as_bytes()),
                fitting,
                "{pattern} {path}"
            );
        }
    }
}
