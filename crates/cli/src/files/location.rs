//! `IMAGE:/path`: a file in a volume, as a user names it.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use scrim_foreign::Foreign;

use crate::error::CliError;
use crate::storage::scheme_len;

/// A file in a volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The volume's image, or the name of an open volume.
    pub(crate) image: PathBuf,
    /// The path in its file system, from a slash on.
    pub(crate) path: Vec<u8>,
}

impl Location {
    /// Splits a name at the first `:/` that has a file or device before it, or at the first one if none has. The scheme of
    /// storage on a server is left out.
    pub(crate) fn parse(given: &OsStr) -> Result<Self, CliError> {
        let bytes = given.as_bytes();
        let scheme = scheme_len(Path::new(given));
        let from = scheme.unwrap_or(1);
        let ends: Vec<_> = (from..bytes.len())
            .filter(|&at| bytes[at..].starts_with(b":/"))
            .collect();
        let is_image = |&&at: &&usize| {
            let image = Path::new(OsStr::from_bytes(&bytes[..at]));
            image.metadata().is_ok_and(|found| !found.is_dir())
        };
        let named = match scheme {
            Some(_) => None,
            None => ends.iter().find(is_image),
        };
        let Some(&end) = named.or(ends.first()) else {
            return Err(no_path(bytes));
        };
        Ok(Self {
            image: OsStr::from_bytes(&bytes[..end]).into(),
            path: bytes[end + 1..].to_vec(),
        })
    }

    /// The last name of the path; `None` if the path ends at the root or at `..`, which has no name of its own.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        let mut names = self.path.split(|&byte| byte == b'/').rev();
        let name = names.find(|name| !matches!(*name, b"" | b"."));
        name.filter(|name| *name != b"..")
    }

    /// A path below this one, in the file system.
    pub(crate) fn path_of(&self, below: &[u8]) -> Vec<u8> {
        let mut path = self.path.clone();
        if !below.is_empty() {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(below);
        }
        path
    }

    /// A path below this one, as the user would name it.
    pub(crate) fn shown(&self, below: &[u8]) -> String {
        let path = self.path_of(below);
        format!("{}:{}", self.image.display(), Foreign::new(path))
    }
}

/// The error for a name without a path in a volume.
fn no_path(given: &[u8]) -> CliError {
    let shown = Foreign::new(given);
    let image = given.strip_suffix(b":").unwrap_or(given);
    // Something below an image, as a slash is written in the place of the colon.
    let cut = (1..image.len())
        .rev()
        .filter(|&at| image[at] == b'/')
        .find(|&at| Path::new(OsStr::from_bytes(&image[..at])).is_file());
    let example = match cut {
        Some(at) => format!(
            "{}:{}",
            Foreign::new(&image[..at]),
            Foreign::new(&image[at..])
        ),
        None => format!("{}:/", Foreign::new(image)),
    };
    CliError::usage(format!(
        "{shown}: no path in the volume is named; give it after a colon, from the root on, as in {example}"
    ))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(b""))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parsed(given: &OsStr) -> (PathBuf, String) {
        let Location { image, path } = Location::parse(given).unwrap();
        (image, String::from_utf8(path).unwrap())
    }

    #[test]
    fn a_name_is_split_behind_the_image() {
        for (given, image, path) in [
            ("disk.img:/", "disk.img", "/"),
            ("disk.img:/a/b", "disk.img", "/a/b"),
            ("secret:/a:/b", "secret", "/a:/b"),
            ("/dev/sdx1://a", "/dev/sdx1", "//a"),
            ("nbd://h/e:/a", "nbd://h/e", "/a"),
            ("nbd://[::1]:10809/e:/a:/b", "nbd://[::1]:10809/e", "/a:/b"),
            ("nbd+unix:///e?socket=s:/a", "nbd+unix:///e?socket=s", "/a"),
            ("./nbd://h/e:/a", "./nbd", "//h/e:/a"),
            ("rbd:p/i:/a", "rbd:p/i", "/a"),
            (
                "rbd:p/n/i@s?conf=/c&id=u:/a:/b",
                "rbd:p/n/i@s?conf=/c&id=u",
                "/a:/b",
            ),
            ("rbd:p/i:/a://b", "rbd:p/i", "/a://b"),
            ("rbd:/p/i", "rbd", "/p/i"),
        ] {
            let (image, path) = (PathBuf::from(image), path.to_owned());
            assert_eq!(parsed(OsStr::new(given)), (image, path), "{given}");
        }
        for given in [
            "disk.img",
            "disk.img:a",
            ":/a",
            "",
            "nbd://h/e",
            "rbd:p/i",
            "disk.img:",
        ] {
            let refused = Location::parse(OsStr::new(given)).unwrap_err();
            assert!(
                refused.to_string().contains("no path"),
                "{given}: {refused}"
            );
        }
    }

    #[test]
    fn an_image_in_a_folder_whose_name_ends_with_a_colon_is_found() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("odd:");
        fs::create_dir(&folder).unwrap();
        let image = folder.join("disk.img");
        let mut given = image.clone().into_os_string();
        given.push(":/a");
        // Without the image the first colon counts.
        assert_eq!(parsed(&given).0, place.path().join("odd"));
        fs::write(&image, "").unwrap();
        assert_eq!(parsed(&given), (image, "/a".to_owned()));
        // A folder is no image.
        fs::create_dir(place.path().join("odd")).unwrap();
        assert_eq!(parsed(&given).0, folder.join("disk.img"));
    }

    #[test]
    fn a_copy_gets_the_last_name_that_is_one() {
        let name = |path: &str| {
            let location = Location::parse(OsStr::new(&format!("i:{path}"))).unwrap();
            location.name().map(<[u8]>::to_vec)
        };
        assert_eq!(name("/a/b"), Some(b"b".to_vec()));
        assert_eq!(name("/a/b//."), Some(b"b".to_vec()));
        for path in ["/", "/.", "/a/..", "//"] {
            assert_eq!(name(path), None, "{path}");
        }
    }
}
