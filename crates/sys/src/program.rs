//! Search for installed programs by their names.

use std::path::PathBuf;

/// Folders with programs for root, which users often do not have in their `PATH`.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Finds a program in `PATH`, or else in the folders with programs for root.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_their_names() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh") && path.is_absolute()));
        assert_eq!(find("scrim-no-such-program"), None);
    }
}
