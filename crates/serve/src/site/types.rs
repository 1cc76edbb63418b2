//! Content types of files, by their names.

use std::collections::HashMap;

use http::HeaderValue;

use super::error::SiteError;

const UNKNOWN: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The usual types and a site's own.
#[derive(Debug)]
pub(super) struct Types {
    own: HashMap<String, HeaderValue>,
}

impl Types {
    pub(super) fn new<'a>(
        own: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, SiteError> {
        let own = own
            .into_iter()
            .map(|(extension, value)| {
                let parsed = HeaderValue::from_str(value).map_err(|_| SiteError::Type {
                    extension: extension.clone(),
                });
                parsed.map(|parsed| (extension.to_ascii_lowercase(), parsed))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { own })
    }

    /// The value of `Content-Type` for a file of this path.
    pub(super) fn of(&self, path: &[u8]) -> HeaderValue {
        self.known(path).unwrap_or(UNKNOWN)
    }

    /// The type of a path whose name has a known extension.
    pub(super) fn known(&self, path: &[u8]) -> Option<HeaderValue> {
        let extension = std::str::from_utf8(extension(path)?).ok()?;
        let extension = extension.to_ascii_lowercase();
        if let Some(own) = self.own.get(&extension) {
            return Some(own.clone());
        }
        Some(match mime_guess::from_ext(&extension).first_raw()? {
            // RFC 9239 has one name for scripts.
            "application/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
            // Text without a charset is guessed at by browsers, and each guesses differently.
            text if text.starts_with("text/") => {
                HeaderValue::try_from(format!("{text}; charset=utf-8")).unwrap_or(UNKNOWN)
            }
            other => HeaderValue::from_static(other),
        })
    }
}

/// Returns whether content of a type is usually much smaller when it is compressed: text, and formats that are text or
/// tables without a compression of their own.
pub(super) fn is_compressible(content_type: &HeaderValue) -> bool {
    let essence = content_type.as_bytes().split(|&byte| byte == b';').next();
    let essence = essence
        .unwrap_or_default()
        .trim_ascii()
        .to_ascii_lowercase();
    let Ok(essence) = std::str::from_utf8(&essence) else {
        return false;
    };
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || COMPRESSIBLE.contains(&essence)
}

/// Compressible types besides text and those that end in `+json` or `+xml`.
const COMPRESSIBLE: [&str; 15] = [
    "application/javascript",
    "application/json",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-sh",
    "application/x-tex",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

/// Extension of a path's last name; `None` if the name has none, such as `Makefile` and `.profile`.
pub(super) fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    match name.iter().rposition(|&byte| byte == b'.') {
        None | Some(0) => None,
        Some(dot) => Some(&name[dot + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_files_name_tells_its_type() {
        let own = BTreeMap::from([("Foo".to_owned(), "x/y".to_owned())]);
        let types = Types::new(&own).expect("types");
        for (path, content_type) in [
            ("a.html", "text/html; charset=utf-8"),
            ("a/b.HTML", "text/html; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.avif", "image/avif"),
            ("a.webp", "image/webp"),
            ("a.woff2", "font/woff2"),
            ("a.wasm", "application/wasm"),
            ("a.mp4", "video/mp4"),
            ("a.pdf", "application/pdf"),
            ("a.tar.gz", "application/gzip"),
            ("a.foo", "x/y"),
            ("a", "application/octet-stream"),
            ("x.html/a", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(types.of(path.as_bytes()), content_type, "{path}");
        }
        assert_eq!(types.of(b"a.\xff"), "application/octet-stream");
    }

    #[test]
    fn text_and_its_like_are_compressible() {
        for (content_type, wanted) in [
            ("text/html; charset=utf-8", true),
            ("TEXT/x-odd;a=b", true),
            ("application/json", true),
            ("application/geo+json", true),
            ("image/svg+xml", true),
            ("application/wasm", true),
            ("image/png", false),
            ("application/zip", false),
            ("application/octet-stream", false),
            ("font/woff2", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(content_type);
            assert_eq!(is_compressible(&value), wanted, "{content_type}");
        }
    }

    #[test]
    fn a_type_that_is_no_value_is_refused() {
        let own = BTreeMap::from([("x".to_owned(), "a\r\nb".to_owned())]);
        assert!(matches!(Types::new(&own), Err(SiteError::Type { .. })));
    }
}
