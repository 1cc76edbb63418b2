//! The file that stands for paths without a file, as single-page applications need it.

use super::error::SiteError;
use super::node::Node;
use super::path::FilePath;
use super::tree::Tree;
use super::types::Types;

/// Types that a browser shows as a page: a missing page may be one of the application's own paths.
const PAGES: [&str; 2] = ["text/html", "application/xhtml+xml"];

/// A file that is answered in place of 404.
#[derive(Debug)]
pub(super) struct Fallback(FilePath);

impl Fallback {
    /// Checks that the site has the file, which is named by its path from the site's root on.
    pub(super) fn open(said: &str, tree: &Tree, dot_files: bool) -> Result<Self, SiteError> {
        let wrong = || SiteError::Fallback {
            path: said.to_owned(),
        };
        let path = FilePath::parse(said).map_err(|_| wrong())?;
        if said.contains(['?', '#', '%']) || (path.is_hidden() && !dot_files) {
            return Err(wrong());
        }
        match (tree.find(&path), path.is_folder()) {
            (Ok(Node::File(_)), false) => Ok(Self(path)),
            _ => Err(wrong()),
        }
    }

    /// Returns whether the file stands for a path that names no file. It does not for the files that a page loads, since
    /// a browser would take the page for a script or a style, nor below `/.well-known`, where clients expect 404.
    pub(super) fn stands_for(&self, path: &FilePath, types: &Types) -> bool {
        if path.names().next() == Some(b".well-known".as_slice()) {
            return false;
        }
        let known = types.known(path.as_bytes());
        known.is_none_or(|known| {
            let is_page = |page: &&str| known.as_bytes().starts_with(page.as_bytes());
            PAGES.iter().any(is_page)
        })
    }

    pub(super) fn path(&self) -> &FilePath {
        &self.0
    }
}
