//! Roots of sites, as a configuration names them: folders, and folders in volumes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use scrim_backend::ServerProtocol;
use serde::Deserialize;

/// Another folder, or one in a volume, below a path of a site.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MountConfig {
    /// The path, such as `/backup`.
    pub at: String,
    /// The folder, or one in a volume.
    pub root: PathBuf,
    /// The file with the key of the volume that `root` names.
    pub key_file: Option<PathBuf>,
    /// Other options for opening that volume.
    pub volume: VolumeConfig,
}

/// Options for opening a volume, besides its key file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct VolumeConfig {
    /// Bytes to skip of the key file.
    pub keyfile_offset: u64,
    /// Bytes to take of it.
    pub keyfile_size: Option<usize>,
    /// The only key slot that is tried.
    pub key_slot: Option<u8>,
    /// The file with the header, where that is apart from the data.
    pub header: Option<PathBuf>,
    /// Data path, which decides where the work of a request is done: `auto`, `inline` or `queued`.
    pub data_path: Option<String>,
}

/// Path of a root that a configuration in `folder` names. A name that may be a running volume's stays as it is if there
/// is no such file.
pub(super) fn root_in(folder: &Path, root: &Path) -> PathBuf {
    let joined = folder.join(root);
    match VolumeRoot::of(root) {
        None => joined,
        Some(VolumeRoot { image, path }) => {
            let image_there = folder.join(&image);
            let is_a_name = image.components().count() == 1 && !image_there.exists();
            let image = match is_a_name || ServerProtocol::of(&image).is_some() {
                true => image,
                false => image_there,
            };
            let mut whole = image.into_os_string();
            whole.push("#");
            whole.push(OsStr::from_bytes(&path));
            whole.into()
        }
    }
}

/// A folder in a volume, as it is written: `IMAGE#/FOLDER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRoot {
    /// Location of the volume: a file, a device, an address, or the name of one that is open.
    pub image: PathBuf,
    /// The folder, from a slash on.
    pub path: Vec<u8>,
}

impl VolumeRoot {
    /// Reads a folder in a volume; `None` where a plain folder is meant, because the path has no `#/` or exists.
    #[must_use]
    pub fn of(root: &Path) -> Option<Self> {
        let bytes = root.as_os_str().as_bytes();
        let at = bytes.windows(2).position(|two| two == b"#/")?;
        if at == 0 || root.exists() {
            return None;
        }
        Some(Self {
            image: OsStr::from_bytes(&bytes[..at]).into(),
            path: bytes[at + 1..].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_root_is_a_folder_or_one_in_a_volume() {
        let of = |root: &str| VolumeRoot::of(Path::new(root));
        for (root, image, path) in [
            ("disk.img#/", "disk.img", "/"),
            ("/srv/disk.img#/a/b", "/srv/disk.img", "/a/b"),
            (
                "nbd://host:10809/export#/a#/b",
                "nbd://host:10809/export",
                "/a#/b",
            ),
        ] {
            let found = of(root).expect(root);
            assert_eq!(
                (found.image.as_path(), &*found.path),
                (Path::new(image), path.as_bytes())
            );
        }
        for root in ["site", "/srv/site", "a#b", "#/a", ""] {
            assert_eq!(of(root), None, "{root}");
        }
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("odd#/inner");
        fs::create_dir_all(&folder).expect("folders");
        assert_eq!(VolumeRoot::of(&folder), None, "it is there");
    }

    #[test]
    fn roots_are_taken_from_the_configurations_folder_but_for_names_and_addresses() {
        let place = tempfile::tempdir().expect("a folder");
        let here = place.path();
        fs::write(here.join("disk.img"), "").expect("a file");
        for (root, wanted) in [
            ("site", here.join("site")),
            ("/srv", "/srv".into()),
            ("disk.img#/a", here.join("disk.img#/a")),
            ("images/disk.img#/a", here.join("images/disk.img#/a")),
            ("secret#/a", "secret#/a".into()),
            ("nbd://host/x#/a", "nbd://host/x#/a".into()),
            ("nbd:unix:s/x#/a", "nbd:unix:s/x#/a".into()),
            ("odd://x#/a", here.join("odd://x#/a")),
            ("rbd:p/i@s?id=a#/a", "rbd:p/i@s?id=a#/a".into()),
        ] {
            let text = format!(
                "[[site]]\nroot = '{root}'\nkey-file = 'k'\n[[site.mount]]\nat = '/m'\nroot = '{root}'\n"
            );
            let config = Config::parse(&text, here).expect("a configuration");
            let site = &config.sites[0];
            assert_eq!((&site.root, &site.mounts[0].root), (&wanted, &wanted));
            assert_eq!(site.key_file.as_deref(), Some(&*here.join("k")));
        }
    }

    #[test]
    fn a_mount_says_what_is_there_and_nothing_unknown() {
        for mount in ["at = '/m'", "at = '/m'\nroot = 'a'\nkey = 'k'"] {
            let text = format!("[[site]]\nroot = 'a'\n[[site.mount]]\n{mount}\n");
            assert!(Config::parse(&text, Path::new("/")).is_err(), "{mount}");
        }
    }
}
