//! Paths of files, taken from the targets of requests.

use std::fmt;

use super::percent;

/// Path of a file below a site's folder: names without `.`, `..`, NUL or a slash in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath {
    /// The names with slashes between them; empty for the site's folder itself.
    bytes: Vec<u8>,
    /// True if a folder is meant, because a slash is at the end.
    is_folder: bool,
}

/// A path that can name nothing on any site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPath;

impl FilePath {
    /// Reads the path of a target that begins with a slash; its query is passed over. Dot segments are
    /// taken out as every browser does it (RFC 3986, 5.2.4, and `%2e` is a dot), empty ones too.
    ///
    /// # Errors
    /// A path with a broken percent-encoding, with an encoded slash or NUL, or that leaves the root.
    pub fn parse(target: &str) -> Result<Self, BadPath> {
        let path = target.split('?').next().unwrap_or_default();
        let mut names = path.strip_prefix('/').ok_or(BadPath)?.split('/').peekable();
        let mut bytes = Vec::with_capacity(path.len());
        let mut is_folder = true;
        while let Some(name) = names.next() {
            let name = percent::decode(name.as_bytes()).ok_or(BadPath)?;
            if name.contains(&0) || name.contains(&b'/') {
                return Err(BadPath);
            }
            is_folder = true;
            match name.as_slice() {
                b"" | b"." => {}
                b".." if bytes.is_empty() => return Err(BadPath),
                b".." => {
                    let parent = bytes.iter().rposition(|&byte| byte == b'/');
                    bytes.truncate(parent.unwrap_or(0));
                }
                _ => {
                    if !bytes.is_empty() {
                        bytes.push(b'/');
                    }
                    bytes.extend_from_slice(&name);
                    is_folder = names.peek().is_some();
                }
            }
        }
        Ok(Self { bytes, is_folder })
    }

    /// The path below the site's folder, as the file system takes it; empty for that folder.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether a folder is meant.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Its names, from the site's folder on.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let all = (!self.bytes.is_empty()).then_some(self.bytes.as_slice());
        all.into_iter()
            .flat_map(|bytes| bytes.split(|&byte| byte == b'/'))
    }

    /// Returns whether one of its names begins with a dot. `.well-known` is there to be seen (RFC 8615).
    pub(super) fn is_hidden(&self) -> bool {
        self.names()
            .enumerate()
            .any(|(depth, name)| name.starts_with(b".") && (depth > 0 || name != b".well-known"))
    }

    /// A file in this folder.
    pub(super) fn child(&self, name: impl AsRef<[u8]>) -> Self {
        let mut bytes = self.bytes.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name.as_ref());
        Self {
            bytes,
            is_folder: false,
        }
    }

    /// The file beside it whose name is longer by this extension.
    pub(super) fn with_extension(&self, extension: &str) -> Self {
        let mut bytes = self.bytes.clone();
        bytes.extend_from_slice(extension.as_bytes());
        Self {
            bytes,
            is_folder: false,
        }
    }

    /// The same on a URI, as a folder: one slash at its beginning, one at its end, and what could mean
    /// anything else encoded.
    pub(super) fn folder_url(&self) -> String {
        let mut url = String::from("/");
        for name in self.names() {
            percent::encode(name, &mut url);
            url.push('/');
        }
        url
    }
}

impl fmt::Display for BadPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the path is malformed")
    }
}

impl std::error::Error for BadPath {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_a_file_or_a_folder() {
        for (target, path, is_folder) in [
            ("/", "", true),
            ("//", "", true),
            ("/?a=/b", "", true),
            ("/a", "a", false),
            ("/a?b/../c", "a", false),
            ("/a/", "a", true),
            ("/a/b", "a/b", false),
            ("//a///b//", "a/b", true),
            ("/a/.", "a", true),
            ("/a/./b", "a/b", false),
            ("/a/..", "", true),
            ("/a/../b", "b", false),
            ("/a/b/..", "a", true),
            ("/a/b/../", "a", true),
            ("/a/b/../c", "a/c", false),
            ("/a/%2e%2E/b", "b", false),
            ("/a/.%2e", "", true),
            ("/%61%20b", "a b", false),
            ("/...", "...", false),
            ("/a%5c..%5cb", "a\\..\\b", false),
            ("/a+b", "a+b", false),
            ("/%C3%A4", "ä", false),
            ("/ä", "ä", false),
            ("/%252e%252e/a", "%2e%2e/a", false),
            ("/%3Fa", "?a", false),
        ] {
            let parsed = FilePath::parse(target).expect(target);
            assert_eq!(parsed.as_bytes(), path.as_bytes(), "{target}");
            assert_eq!(parsed.is_folder(), is_folder, "{target}");
        }
    }

    #[test]
    fn a_path_that_leaves_the_root_or_has_two_readings_is_bad() {
        for target in [
            "",
            "a",
            "*",
            "/..",
            "/../a",
            "/a/../..",
            "/%2e%2e",
            "/%2e%2e/a",
            "/.%2e/",
            "/./..",
            "/a/../../a",
            "//..",
            "/%2f",
            "/a%2fb",
            "/..%2fa",
            "/%2e%2e%2fa",
            "/a%00",
            "/%",
            "/%4",
            "/%zz",
            "/a%2",
            "/a/b/../../../c",
        ] {
            assert_eq!(FilePath::parse(target), Err(BadPath), "{target}");
        }
    }

    #[test]
    fn names_with_a_dot_in_front_are_hidden_but_for_the_well_known_one() {
        for (target, is_hidden) in [
            ("/", false),
            ("/a.b", false),
            ("/.git", true),
            ("/.git/config", true),
            ("/a/.b/c", true),
            ("/%2egit/config", true),
            ("/.well-known/acme-challenge/x", false),
            ("/.well-known", false),
            ("/.well-known/.x", true),
            ("/a/.well-known", true),
            ("/.well-knownx", true),
            ("/...", true),
        ] {
            let path = FilePath::parse(target).expect(target);
            assert_eq!(path.is_hidden(), is_hidden, "{target}");
        }
    }

    #[test]
    fn a_folder_has_one_url_and_that_is_of_this_site() {
        for (target, url) in [
            ("/", "/"),
            ("/a", "/a/"),
            ("//evil.example/x", "/evil.example/x/"),
            ("/%5cevil.example", "/%5Cevil.example/"),
            ("/a b/%0d%0aX:%20y", "/a%20b/%0D%0AX%3A%20y/"),
            ("/%ff", "/%FF/"),
        ] {
            let path = FilePath::parse(target).expect(target);
            assert_eq!(path.folder_url(), url, "{target}");
        }
    }
}
