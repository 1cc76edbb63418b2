//! The folder with the state that has to outlive the process: the account, and the certificate with its key.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use rustix::fs::Access;
use rustix::process::geteuid;
use zeroize::Zeroizing;

use super::fault::StateError;
use crate::tls::{Certificate, FileError};
use crate::whole_file::{self, Former};

/// Longest account file, in bytes; an account takes a few hundred.
const ACCOUNT_MAX: usize = 16 << 10;
const ACCOUNT: &str = "account.json";
/// Key and chain are one file, so that there is never one without the other.
const CERTIFICATE: &str = "certificate.pem";

/// The folder of one directory, since an account with one is of no use at another.
#[derive(Debug)]
pub(super) struct State {
    folder: PathBuf,
}

impl State {
    /// Makes a folder within `state`, which only this user can look into, if it does not exist. An existing one is
    /// closed to others; `state` itself may have other things in it, and stays as it is.
    pub(super) fn open(state: &Path, directory: &str) -> Result<Self, StateError> {
        let (folder, found) = make(state, directory)?;
        if found.permissions().mode() & 0o077 != 0 {
            let closed = fs::set_permissions(&folder, Permissions::from_mode(0o700));
            closed.map_err(failed_at(&folder, "remove other users' access to"))?;
        }
        whole_file::remove_drafts(&folder).map_err(failed_at(&folder, "clear up"))?;
        Ok(Self { folder })
    }

    /// Tries what [`open`](Self::open) and later writes need, and reads the certificate. Folders that are made for it
    /// are removed again, and an existing one stays as it is.
    pub(super) fn check(state: &Path, directory: &str) -> Result<Option<FileError>, StateError> {
        let folder = state.join(folder_name(directory));
        let is_missing = |path: &&Path| {
            let found = fs::symlink_metadata(path);
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let missing: Vec<_> = folder.ancestors().take_while(is_missing).collect();
        let made = make(state, directory).and_then(|(folder, _)| {
            rustix::fs::access(&folder, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| failed_at(&folder, "write to")(error.into()))?;
            Ok(Self { folder }.certificate().err())
        });
        for path in missing {
            // A folder that another process uses by now is not empty, and stays.
            let _ = fs::remove_dir(path);
        }
        made
    }

    /// The certificate, if one is there.
    pub(super) fn certificate(&self) -> Result<Option<Certificate>, FileError> {
        let path = self.folder.join(CERTIFICATE);
        match path.try_exists() {
            Ok(false) => Ok(None),
            // Reading returns the reason if the metadata could not be read.
            _ => Certificate::load(&path, &path).map(Some),
        }
    }

    /// Keeps a private key and its chain, in PEM.
    pub(super) fn keep_certificate(&self, key_and_chain: &[u8]) -> Result<(), StateError> {
        self.keep(CERTIFICATE, key_and_chain)
    }

    /// The account, if one is there that can be read.
    pub(super) fn account(&self) -> Result<Option<AccountCredentials>, StateError> {
        let path = self.folder.join(ACCOUNT);
        let failed = |source| StateError {
            operation: "read",
            path: path.clone(),
            source,
        };
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        // All of it from the start, so that no copy of the key is left where it grew.
        let mut text = Zeroizing::new(Vec::with_capacity(ACCOUNT_MAX));
        let read = file.take(ACCOUNT_MAX as u64).read_to_end(&mut text);
        read.map_err(failed)?;
        // The file has a private key, so the error quotes nothing of it.
        let account = serde_json::from_slice(&text).map_err(|_| {
            let reason = "it is not a valid account file; remove it, and a new account is made";
            failed(io::Error::new(io::ErrorKind::InvalidData, reason))
        })?;
        Ok(Some(account))
    }

    pub(super) fn keep_account(&self, account: &AccountCredentials) -> Result<(), StateError> {
        let mut text = Zeroizing::new(Vec::with_capacity(ACCOUNT_MAX));
        serde_json::to_writer(&mut *text, account).map_err(|source| StateError {
            operation: "write",
            path: self.folder.join(ACCOUNT),
            source: source.into(),
        })?;
        self.keep(ACCOUNT, &text)
    }

    pub(super) fn forget_account(&self) -> Result<(), StateError> {
        let path = self.folder.join(ACCOUNT);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(StateError {
                operation: "remove",
                path,
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Writes a file so that, whatever happens, there is either the whole old file or the whole new one.
    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        let path = self.folder.join(name);
        let written = whole_file::write(&path, bytes, Former::Any);
        let written = written.and_then(|()| whole_file::sync_folder_of(&path));
        written.map_err(failed_at(&path, "write"))
    }
}

/// Makes the folder of a directory within `state`, and checks that no other user can exchange it.
fn make(state: &Path, directory: &str) -> Result<(PathBuf, Metadata), StateError> {
    let folder = state.join(folder_name(directory));
    let failed = |operation| failed_at(&folder, operation);
    let mut maker = DirBuilder::new();
    let made = maker.recursive(true).mode(0o700).create(&folder);
    made.map_err(failed("make the folder"))?;
    // A process that can write there could put another folder into its place.
    if mode(state).map_err(failed_at(state, "read the metadata of"))? & 0o002 != 0 {
        let reason = io::Error::other("its parent folder is writable by everyone");
        return Err(failed("use")(reason));
    }
    let found = fs::symlink_metadata(&folder).map_err(failed("read the metadata of"))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        let reason = io::Error::other("it is not a folder that this user owns: remove it");
        return Err(failed("use")(reason));
    }
    Ok((folder, found))
}

fn failed_at(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> StateError + use<> {
    let path = path.to_owned();
    move |source| StateError {
        operation,
        path,
        source,
    }
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// A directory's URL as the name of a folder: without characters of paths, and no longer than names may be.
fn folder_name(directory: &str) -> String {
    let address = directory.strip_prefix("https://").unwrap_or(directory);
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => c,
        _ => '_',
    };
    // It begins with a host's name, so that it is neither `.` nor `..`.
    format!(
        "acme-{}",
        address.chars().take(200).map(plain).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: &str = "https://ca.lan:9000/acme/directory";

    fn credentials(id: &str) -> AccountCredentials {
        let text = serde_json::json!({ "id": id, "key_pkcs8": "AAAA", "directory": DIRECTORY });
        serde_json::from_value(text).unwrap()
    }

    fn id(state: &State) -> Option<String> {
        let account = state.account().unwrap()?;
        let value = serde_json::to_value(&account).unwrap();
        Some(value["id"].as_str().unwrap().to_owned())
    }

    #[test]
    fn what_is_kept_is_there_again_and_nobody_elses_to_read() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        let state = State::open(&folder, DIRECTORY).unwrap();
        assert_eq!(id(&state), None);
        state.keep_account(&credentials("one")).unwrap();
        state.keep_account(&credentials("two")).unwrap();
        let again = State::open(&folder, DIRECTORY).unwrap();
        assert_eq!(id(&again).as_deref(), Some("two"));
        assert_eq!(mode(&folder).unwrap(), 0o700);
        assert_eq!(mode(&state.folder).unwrap(), 0o700);
        assert_eq!(mode(&state.folder.join(ACCOUNT)).unwrap(), 0o600);
        state.forget_account().unwrap();
        state.forget_account().unwrap();
        assert_eq!(id(&state), None);
    }

    #[test]
    fn an_open_folder_is_closed_an_open_file_replaced_and_a_draft_removed() {
        let place = tempfile::tempdir().unwrap();
        let open = Permissions::from_mode(0o755);
        let own = place.path().join(folder_name(DIRECTORY));
        fs::create_dir(&own).unwrap();
        for folder in [place.path(), &own] {
            fs::set_permissions(folder, open.clone()).unwrap();
        }
        fs::write(own.join(".account.json.01ab9f3c"), "half").unwrap();
        let state = State::open(place.path(), DIRECTORY).unwrap();
        assert_eq!(mode(&own).unwrap(), 0o700);
        // It may be /var/lib.
        assert_eq!(mode(place.path()).unwrap(), 0o755);
        let account = own.join(ACCOUNT);
        fs::write(&account, "half").unwrap();
        fs::set_permissions(&account, open).unwrap();
        state.keep_account(&credentials("one")).unwrap();
        assert_eq!(mode(&account).unwrap(), 0o600);
        let names = fs::read_dir(&own).unwrap();
        assert_eq!(names.count(), 1, "a draft is left");
    }

    #[test]
    fn a_place_where_everybody_can_write_is_none_for_keys() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
        let error = State::open(place.path(), DIRECTORY).unwrap_err();
        assert!(
            error.to_string().contains("writable by everyone"),
            "{error}"
        );
    }

    #[test]
    fn a_check_tries_the_folder_and_leaves_it_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        assert!(State::check(&folder, DIRECTORY).unwrap().is_none());
        assert!(!place.path().join("a").exists());
        // One that is there keeps its mode, and its certificate is read.
        let own = folder.join(folder_name(DIRECTORY));
        fs::create_dir_all(&own).unwrap();
        fs::set_permissions(&own, Permissions::from_mode(0o750)).unwrap();
        fs::write(own.join(CERTIFICATE), "none").unwrap();
        assert!(State::check(&folder, DIRECTORY).unwrap().is_some());
        assert_eq!(mode(&own).unwrap(), 0o750);
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let error = State::check(&folder, DIRECTORY).unwrap_err();
        assert!(
            error.to_string().contains("writable by everyone"),
            "{error}"
        );
        fs::write(place.path().join("file"), "").unwrap();
        let error = State::check(&place.path().join("file/b"), DIRECTORY).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot make the folder"),
            "{error}"
        );
    }

    #[test]
    fn a_certificate_is_kept_with_its_key_and_broken_ones_are_errors() {
        let place = tempfile::tempdir().unwrap();
        let state = State::open(place.path(), DIRECTORY).unwrap();
        assert!(state.certificate().unwrap().is_none());
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        let made = params.self_signed(&key).unwrap();
        let chain = super::super::order::pem("CERTIFICATE", made.der());
        let secret = super::super::order::pem("PRIVATE KEY", &key.serialize_der());
        state
            .keep_certificate(format!("{}{}", &*secret, &*chain).as_bytes())
            .unwrap();
        let loaded = state.certificate().unwrap().unwrap();
        assert_eq!(loaded.names().collect::<Vec<_>>(), ["a.example"]);
        state.keep_certificate(chain.as_bytes()).unwrap();
        assert!(state.certificate().is_err());
    }

    #[test]
    fn an_account_that_is_none_is_an_error_without_its_text() {
        let place = tempfile::tempdir().unwrap();
        let state = State::open(place.path(), DIRECTORY).unwrap();
        fs::write(state.folder.join(ACCOUNT), "{\"key_pkcs8\":\"secret\"").unwrap();
        let error = state.account().err().unwrap().to_string();
        assert!(!error.contains("secret"), "{error}");
        assert!(error.contains("account.json"), "{error}");
    }

    #[test]
    fn each_directory_has_a_folder_of_its_own_below_the_state() {
        assert_eq!(folder_name(DIRECTORY), "acme-ca.lan_9000_acme_directory");
        assert_eq!(folder_name("https://../../x"), "acme-.._.._x");
        assert!(folder_name(&"x".repeat(1000)).len() < 255);
    }
}
