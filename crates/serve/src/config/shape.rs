//! Plain words about values that have the wrong shape in a configuration.

use toml::Value;

/// Tables of which there may be several.
const SEVERAL: [&[&str]; 4] = [
    &["site"],
    &["site", "mount"],
    &["site", "cache"],
    &["tls", "certificate"],
];

/// Tables of which there is one.
const SINGLE: [&[&str]; 11] = [
    &["tls"],
    &["acme"],
    &["access-log"],
    &["limits"],
    &["site", "volume"],
    &["site", "mount", "volume"],
    &["site", "per-client"],
    &["site", "headers"],
    &["site", "hsts"],
    &["site", "error-pages"],
    &["site", "types"],
];

/// Keys whose values are lists of texts.
const LISTS: [&[&str]; 12] = [
    &["listen"],
    &["plain-http"],
    &["redirect-http"],
    &["health-allow"],
    &["health-deny"],
    &["acme", "names"],
    &["site", "names"],
    &["site", "allow"],
    &["site", "deny"],
    &["site", "index"],
    &["site", "precompressed"],
    &["site", "compress"],
];

/// Advice on the first value that is a table, a list or a text where another of these belongs.
pub(super) fn advice(text: &str) -> Option<String> {
    let whole: Value = toml::from_str(text).ok()?;
    let is_table = |value: &&Value| value.is_table();
    let is_array = |value: &&Value| value.is_array();
    for path in SEVERAL {
        if values(&whole, path).iter().any(is_table) {
            let name = path.join(".");
            return Some(format!(
                "there may be several of {name}: write [[{name}]] with two brackets, not [{name}]"
            ));
        }
    }
    for path in SINGLE {
        if values(&whole, path).iter().any(is_array) {
            let name = path.join(".");
            return Some(format!(
                "there is only one {name}: write [{name}] with one bracket, not [[{name}]]"
            ));
        }
    }
    LISTS.iter().find_map(|path| {
        let (key, values) = (path.last()?, values(&whole, path));
        let text = values.iter().find_map(|value| value.as_str())?;
        Some(format!(
            "{key} is a list: write it in brackets, {key} = [{text:?}]"
        ))
    })
}

/// The values at a path, in each of the tables that it leads through.
fn values<'a>(at: &'a Value, path: &[&str]) -> Vec<&'a Value> {
    let Some((key, rest)) = path.split_first() else {
        return vec![at];
    };
    match at {
        Value::Table(table) => table
            .get(*key)
            .map_or(Vec::new(), |value| values(value, rest)),
        Value::Array(tables) => tables
            .iter()
            .flat_map(|table| values(table, path))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    #[test]
    fn a_wrong_shape_is_named_with_what_to_write() {
        for (text, words) in [
            (
                "[site]\nroot = 'a'\n",
                "write [[site]] with two brackets, not [site]",
            ),
            ("site = { root = 'a' }\n", "write [[site]]"),
            (
                "[[site]]\nroot = 'a'\n[site.mount]\nat = '/m'\nroot = 'b'\n",
                "write [[site.mount]]",
            ),
            (
                "[tls.certificate]\nchain = 'a'\nkey = 'b'\n",
                "write [[tls.certificate]]",
            ),
            (
                "[[limits]]\nfields = 1\n",
                "write [limits] with one bracket",
            ),
            (
                "listen = '[::]:443'\n",
                "write it in brackets, listen = [\"[::]:443\"]",
            ),
            (
                "[[site]]\nroot = 'a'\n[[site]]\nroot = 'b'\nnames = 'c'\n",
                "names = [\"c\"]",
            ),
        ] {
            let error = Config::parse(text, Path::new("/")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(error.contains("at line"), "{error}");
            assert!(!error.contains("expected"), "{error}");
        }
        for text in ["threads = 'four'\n", "lisen = []\n", "[site\n"] {
            let error = Config::parse(text, Path::new("/")).unwrap_err().to_string();
            assert!(!error.contains("brackets,"), "{error}");
        }
    }
}
