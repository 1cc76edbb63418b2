//! The listing of a folder, as a page or as JSON.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use http::StatusCode;
use scrim_figures::Size;
use scrim_figures::time::minutes;
use scrim_foreign::Html;
use serde::Serialize;

use super::natural;
use super::node::{Folder, FolderEntry};
use super::page::frame;
use super::path::FilePath;
use super::percent;
use super::tree::Tree;

/// Most entries of a folder that are listed, and looked at to be listed: it may hold millions. With names and lines as
/// long as they can be, a page of them takes some 30 MB while it is made.
const MOST: usize = 10_000;

/// Form in which a folder is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An HTML page for browsers.
    Html,
    /// An object `{"path": …, "entries": […], "is_all": …}`.
    Json,
}

/// Entries of a folder that would be served.
#[derive(Debug)]
pub(super) struct Listing {
    entries: Vec<Entry>,
    is_all: bool,
    /// True if something could not be looked at.
    is_damaged: bool,
}

#[derive(Debug)]
struct Entry {
    name: Box<[u8]>,
    is_folder: bool,
    size: u64,
    modified: i64,
}

impl Form {
    /// Form that `Accept` asks for: JSON where it is named and pages are not.
    #[must_use]
    pub fn wanted(accept: Option<&[u8]>) -> Self {
        let names = |wanted: &[u8]| {
            accept
                .unwrap_or_default()
                .split(|&byte| byte == b',')
                .filter_map(|element| element.split(|&byte| byte == b';').next())
                .any(|name| name.trim_ascii().eq_ignore_ascii_case(wanted))
        };
        if names(b"application/json") && !names(b"text/html") {
            Self::Json
        } else {
            Self::Html
        }
    }
}

impl Listing {
    /// Reads an open folder.
    pub(super) fn read(tree: &Tree, folder: &Folder, path: &FilePath) -> Result<Self, StatusCode> {
        let mut entries = Vec::new();
        let mut looked_at = 0;
        let mut is_all = true;
        let mut is_damaged = false;
        tree.names(folder, path, &mut |name| {
            if looked_at == MOST {
                is_all = false;
                return ControlFlow::Break(());
            }
            looked_at += 1;
            match Entry::of(name) {
                Ok(entry) => entries.extend(entry),
                Err(_) => is_damaged = true,
            }
            ControlFlow::Continue(())
        })?;
        entries.sort_by(Entry::order);
        Ok(Self {
            entries,
            is_all: is_all && !is_damaged,
            is_damaged,
        })
    }

    /// Makes the page, with a link to the folder's archive if there are `archives`.
    pub(super) fn html(&self, path: &FilePath, archives: bool) -> String {
        let title = Html::new(&String::from_utf8_lossy(path.as_bytes())).to_string();
        let mut content = String::from(SYMBOLS);
        crumbs(path, &mut content);
        content.push_str(
            "<div class=\"card\"><table>\n<thead><tr><th>Name</th><th class=\"n\">Size</th>\
             <th class=\"d\">Changed (UTC)</th></tr></thead>\n<tbody>\n",
        );
        if path.names().next().is_some() {
            row("../", ICON_UP, "..", ["", ""], &mut content);
        }
        for entry in &self.entries {
            let size = if entry.is_folder {
                String::new()
            } else {
                Size::of_bytes(entry.size).to_string()
            };
            let changed = minutes(entry.modified).unwrap_or_default();
            let icon = if entry.is_folder {
                ICON_FOLDER
            } else {
                ICON_FILE
            };
            row(
                &entry.href(),
                icon,
                &entry.text(),
                [&size, &changed],
                &mut content,
            );
        }
        content.push_str("</tbody>\n</table></div>\n");
        if self.is_damaged {
            content.push_str(
                "<p>Something in this folder could not be read, and is missing here.</p>\n",
            );
        } else if !self.is_all {
            let note = format!("<p>This folder holds more: no more than {MOST} are listed.</p>\n");
            content.push_str(&note);
        } else if self.entries.is_empty() {
            content.push_str("<p>This folder is empty.</p>\n");
        }
        if archives {
            content.push_str("<p><a href=\"?archive=tar\" download>Download as tar</a></p>\n");
        }
        frame(&format!("/{title}"), "list", &content)
    }

    pub(super) fn json(&self, path: &FilePath) -> Option<String> {
        #[derive(Serialize)]
        struct Folder<'a> {
            path: String,
            entries: Vec<Item<'a>>,
            is_all: bool,
        }
        #[derive(Serialize)]
        struct Item<'a> {
            name: std::borrow::Cow<'a, str>,
            href: String,
            #[serde(rename = "type")]
            kind: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            size: Option<u64>,
            modified: i64,
        }
        let entries = self.entries.iter().map(|entry| Item {
            name: String::from_utf8_lossy(&entry.name),
            href: entry.href(),
            kind: if entry.is_folder { "folder" } else { "file" },
            size: (!entry.is_folder).then_some(entry.size),
            modified: entry.modified,
        });
        let folder = Folder {
            path: path.folder_url(),
            entries: entries.collect(),
            is_all: self.is_all,
        };
        serde_json::to_string(&folder).ok()
    }
}

impl Entry {
    /// Looks at an entry; `None` if it would not be served.
    fn of(name: FolderEntry<'_>) -> Result<Option<Self>, StatusCode> {
        let looked = (name.look)()?;
        Ok(looked.map(|looked| Self {
            name: name.bytes.into(),
            is_folder: looked.is_folder,
            size: looked.size,
            modified: looked.modified,
        }))
    }

    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let folders_first = other.is_folder.cmp(&self.is_folder);
        folders_first.then_with(|| natural::compare(&self.name, &other.name))
    }

    /// A link from the folder's own page.
    fn href(&self) -> String {
        let mut href = String::new();
        percent::encode(&self.name, &mut href);
        if self.is_folder {
            href.push('/');
        }
        href
    }

    fn text(&self) -> String {
        let slash = if self.is_folder { "/" } else { "" };
        format!("{}{slash}", String::from_utf8_lossy(&self.name))
    }
}

const ICON_UP: &str = "up";
const ICON_FOLDER: &str = "folder";
const ICON_FILE: &str = "file";
const SYMBOLS: &str = "<svg class=\"defs\"><defs>\
    <symbol id=\"up\" viewBox=\"0 0 16 16\"><path d=\"M8 13V4M4 7.5 8 3.5l4 4\"/></symbol>\
    <symbol id=\"folder\" viewBox=\"0 0 16 16\"><path d=\"M1.5 12.5v-9h4.5l1.5 2h7v7z\"/></symbol>\
    <symbol id=\"file\" viewBox=\"0 0 16 16\"><path d=\"M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3\"/></symbol>\
    </defs></svg>\n";

fn row(href: &str, icon: &str, text: &str, [size, changed]: [&str; 2], out: &mut String) {
    let start = "<tr><td><a href=\"";
    let mark = "\"><svg aria-hidden=\"true\"><use href=\"#";
    for part in [start, href, mark, icon, "\"/></svg>"] {
        out.push_str(part);
    }
    // Writing to a String cannot fail.
    let _ = write!(out, "{}", Html::new(text));
    for part in [
        "</a></td><td class=\"n\">",
        size,
        "</td><td class=\"d\">",
        changed,
        "</td></tr>\n",
    ] {
        out.push_str(part);
    }
}

/// The way from the site's folder to this one, each step a link.
fn crumbs(path: &FilePath, out: &mut String) {
    out.push_str("<h1><a href=\"/\">/</a>");
    let mut href = String::from("/");
    for (depth, name) in path.names().enumerate() {
        percent::encode(name, &mut href);
        href.push('/');
        if depth > 0 {
            out.push_str("<span class=\"sep\">/</span>");
        }
        out.push_str("<a href=\"");
        out.push_str(&href);
        out.push_str("\">");
        let _ = write!(out, "{}", Html::new(&String::from_utf8_lossy(name)));
        out.push_str("</a>");
    }
    out.push_str("</h1>\n");
}

#[cfg(test)]
mod tests;
