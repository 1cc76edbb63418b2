//! `rbd:POOL/IMAGE`: an image of a Ceph cluster, as a user names it.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

/// Beginning of a name.
const SCHEME: &str = "rbd:";

/// An image of a Ceph cluster: `rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT][?conf=PATH&id=NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdName {
    pub pool: String,
    /// Namespace in the pool; `None` for the pool's own images.
    pub namespace: Option<String>,
    pub image: String,
    /// Snapshot of the image; `None` for the image as it is now.
    pub snapshot: Option<String>,
    /// Configuration file of the cluster; `None` for the file that Ceph's own programs take.
    pub conf: Option<PathBuf>,
    /// Name of the user without `client.`; `None` for `admin`.
    pub id: Option<String>,
}

/// A text that names no image of a Ceph cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdNameError(Problem);

/// The reason why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Scheme,
    Parts,
    Empty(&'static str),
    Control,
    QemuOption,
    Encoding,
    Option(String),
    OptionTwice(&'static str),
    OptionEmpty(&'static str),
    Id,
}

impl RbdName {
    /// Returns whether a text is meant as the name of an image of a cluster, well-formed or not, and not as a path.
    /// `rbd:/FILE` is a file in a volume that is called `rbd`.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let (scheme, rest) = text.split_at_checked(SCHEME.len()).unwrap_or_default();
        scheme.eq_ignore_ascii_case(SCHEME) && !rest.starts_with('/')
    }

    /// The image as Ceph's programs name it: `POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]`.
    #[must_use]
    pub fn spec(&self) -> String {
        let namespace = self.namespace.iter().map(|name| format!("{name}/"));
        let snapshot = self.snapshot.iter().map(|name| format!("@{name}"));
        let (namespace, snapshot) = (namespace.collect::<String>(), snapshot.collect::<String>());
        format!("{}/{namespace}{}{snapshot}", self.pool, self.image)
    }
}

impl FromStr for RbdName {
    type Err = RbdNameError;

    fn from_str(text: &str) -> Result<Self, RbdNameError> {
        parse(text).map_err(RbdNameError)
    }
}

fn parse(text: &str) -> Result<RbdName, Problem> {
    if !RbdName::is_meant(text) {
        return Err(Problem::Scheme);
    }
    let rest = &text[SCHEME.len()..];
    if rest.contains(|character: char| character.is_control()) {
        return Err(Problem::Control);
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (pool, namespace, image) = match path.split('/').collect::<Vec<_>>()[..] {
        [pool, image] => (pool, None, image),
        [pool, namespace, image] => (pool, Some(namespace), image),
        _ => return Err(Problem::Parts),
    };
    if image.contains(":conf=") || image.contains(":id=") {
        return Err(Problem::QemuOption);
    }
    let (image, snapshot) = match image.split_once('@') {
        Some((image, snapshot)) => (image, Some(snapshot)),
        None => (image, None),
    };
    for (part, value) in [
        ("pool", Some(pool)),
        ("namespace", namespace),
        ("image", Some(image)),
        ("snapshot", snapshot),
    ] {
        if value == Some("") {
            return Err(Problem::Empty(part));
        }
    }
    let (conf, id) = options(query)?;
    Ok(RbdName {
        pool: pool.to_owned(),
        namespace: namespace.map(str::to_owned),
        image: image.to_owned(),
        snapshot: snapshot.map(str::to_owned),
        conf,
        id,
    })
}

/// Parses `conf=PATH&id=NAME`, both optional.
fn options(query: &str) -> Result<(Option<PathBuf>, Option<String>), Problem> {
    let (mut conf, mut id) = (None, None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let (key, place) = match key {
            "conf" => ("conf", &mut conf),
            "id" => ("id", &mut id),
            _ => return Err(Problem::Option(key.to_owned())),
        };
        if place.is_some() {
            return Err(Problem::OptionTwice(key));
        }
        let value = decoded(value)?;
        if value.is_empty() {
            return Err(Problem::OptionEmpty(key));
        }
        *place = Some(value);
    }
    let id = id.map(String::from_utf8).transpose();
    let id = id.map_err(|_| Problem::Encoding)?;
    if id.as_ref().is_some_and(|id| id.starts_with("client.")) {
        return Err(Problem::Id);
    }
    let conf = conf.map(|path| PathBuf::from(OsString::from_vec(path)));
    Ok((conf, id))
}

/// Replaces `%XX` by its byte.
fn decoded(text: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(Problem::Encoding);
        };
        match high << 4 | low {
            control if control.is_ascii_control() => return Err(Problem::Control),
            byte => bytes.push(byte),
        }
    }
    Ok(bytes)
}

/// Writes bytes as the value of an option.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Prints the name as it is parsed.
impl fmt::Display for RbdName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.spec())?;
        let conf = self.conf.as_ref().map(|path| path.as_os_str().as_bytes());
        let id = self.id.as_ref().map(String::as_bytes);
        let mut mark = '?';
        for (key, value) in [("conf", conf), ("id", id)] {
            if let Some(value) = value {
                write!(f, "{mark}{key}={}", encoded(value))?;
                mark = '&';
            }
        }
        Ok(())
    }
}

impl fmt::Display for RbdNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::Scheme => write!(f, "it does not begin with {SCHEME}"),
            Problem::Parts => f.write_str(
                "it does not name a pool and an image; write rbd:POOL/IMAGE or rbd:POOL/NAMESPACE/IMAGE",
            ),
            Problem::Empty(part) => write!(
                f,
                "the {part} has no name; write rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]"
            ),
            Problem::Control => f.write_str("it has a control character; leave it out"),
            Problem::QemuOption => f.write_str(
                "options stand behind a question mark here, as in rbd:POOL/IMAGE?conf=PATH&id=NAME",
            ),
            Problem::Encoding => f.write_str(
                "an option's value is not well-formed; write a percent sign as %25, and `id` in UTF-8",
            ),
            Problem::Option(key) => write!(
                f,
                "there is no option {}; the options are conf=PATH (the cluster's configuration) and id=NAME \
                 (the user)",
                key.escape_default()
            ),
            Problem::OptionTwice(key) => write!(f, "the option {key} is there twice; leave one out"),
            Problem::OptionEmpty(key) => {
                write!(f, "the option {key} has no value; give it one or leave it out")
            }
            Problem::Id => f.write_str("the user's id is what follows client.; leave client. out"),
        }
    }
}

impl std::error::Error for RbdNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printed_as_it_is_parsed() {
        for text in [
            "rbd:pool/image",
            "rbd:pool/space/image",
            "rbd:pool/image@snap",
            "rbd:p/n/i@s?conf=/etc/ceph/ceph.conf&id=backup",
            "rbd:p/i?id=a",
            "rbd:p/i?conf=a%20b%26c%25",
        ] {
            let name: RbdName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
        }
        let name: RbdName = "RBD:p/n/i@s?id=a&conf=%2fetc%2Fx".parse().unwrap();
        assert_eq!(name.to_string(), "rbd:p/n/i@s?conf=/etc/x&id=a");
        assert_eq!(name.spec(), "p/n/i@s");
        assert_eq!(name.namespace.as_deref(), Some("n"));
        assert_eq!(name.snapshot.as_deref(), Some("s"));
    }

    #[test]
    fn a_file_in_a_volume_called_rbd_is_not_meant() {
        for text in ["rbd:p/i", "rbd:", "rbd:p", "Rbd:p/i"] {
            assert!(RbdName::is_meant(text), "{text}");
        }
        for text in ["rbd:/a/b", "rbd", "./rbd:p/i", "rbdx:p/i", "rb\u{e9}:p", ""] {
            assert!(!RbdName::is_meant(text), "{text}");
        }
    }

    #[test]
    fn a_wrong_name_is_refused_with_the_right_form() {
        for (text, part) in [
            ("disk.img", "does not begin"),
            ("rbd:image", "rbd:POOL/IMAGE"),
            ("rbd:a/b/c/d", "rbd:POOL/IMAGE"),
            ("rbd:pool/", "the image has no name"),
            ("rbd:pool//i", "the namespace has no name"),
            ("rbd:pool/i@", "the snapshot has no name"),
            ("rbd:pool/@s", "the image has no name"),
            ("rbd:pool/i\n", "control character"),
            ("rbd:pool/i?id=%00", "control character"),
            ("rbd:pool/i:id=admin:conf=x", "question mark"),
            ("rbd:pool/i?id=%4", "%25"),
            ("rbd:pool/i?id=%+4", "%25"),
            ("rbd:pool/i?id=%ff", "UTF-8"),
            ("rbd:pool/i?key=AQ", "there is no option key"),
            ("rbd:pool/i?id", "no value"),
            ("rbd:pool/i?id=a&id=b", "twice"),
            ("rbd:pool/i?id=client.a", "leave client. out"),
        ] {
            let error = text.parse::<RbdName>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
