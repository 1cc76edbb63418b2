//! The volumes whose files are served.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use scrim_serve::config::{SiteConfig, VolumeConfig, VolumeRoot};
use scrim_serve::files::{VolumeFiles, VolumeIdentity};
use scrim_serve::site::{Root, Settings};
use scrim_sys::memory::{Locking, locking};
use scrim_volume::{DataPath, UnknownDataPath, Volume};

use crate::args::{KeyArgs, LuksArgs, LuksType, TokenKeyArgs, VolumeKeyArgs, WindowArgs};
use crate::error::{CliError, Exit};
use crate::files::running;
use crate::storage::{is_remote, is_snapshot};
use crate::terminal::note;
use crate::volume::opening::{NOT_LOCKED, Opened, Wanted, from_luks};

/// Hint in the error for an image that a process has open.
const RUNNING: &str = "; the files of a volume that scrim has open are served by its name: NAME#/";

/// Volumes by their images. Sites keep them open; one that no site has any more is closed.
#[derive(Default)]
pub(crate) struct Volumes {
    open: Mutex<Vec<(PathBuf, Weak<VolumeFiles>)>>,
    /// True if there is no user left to ask for a passphrase.
    asks_no_more: AtomicBool,
}

impl Volumes {
    /// Demands a key file for every volume that is opened from now on: clients are waiting, and no user is asked.
    pub(crate) fn ask_no_more(&self) {
        self.asks_no_more.store(true, Ordering::Relaxed);
    }

    /// Opens the volumes that a site names, where they are not open.
    pub(crate) fn put_into(
        &self,
        settings: &mut Settings,
        site: &SiteConfig,
    ) -> Result<(), CliError> {
        if let Some(root) = self.root(&site.root, site.key_file.as_deref(), &site.volume)? {
            settings.root = root;
        }
        for (mount, said) in settings.mounts.iter_mut().zip(&site.mounts) {
            if let Some(root) = self.root(&said.root, said.key_file.as_deref(), &said.volume)? {
                mount.root = root;
            }
        }
        Ok(())
    }

    fn root(
        &self,
        said: &Path,
        key_file: Option<&Path>,
        how: &VolumeConfig,
    ) -> Result<Option<Root>, CliError> {
        let Some(VolumeRoot { image, path }) = VolumeRoot::of(said) else {
            return Ok(None);
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, files)| files.strong_count() > 0);
        let known = open.iter().find(|(other, _)| *other == image);
        if let Some(files) = known.and_then(|(_, files)| files.upgrade()) {
            return Ok(Some(Root::Volume { files, path }));
        }
        let shown = image.display().to_string();
        let tell = |what: &str| note(format_args!("scrim: {what}"));
        let (volume, uuid, is_shared) = match running::named(&image) {
            Some(name) => (running::open(&name)?, String::new(), true),
            None => {
                let (volume, uuid) = self.of_image(&image, key_file, how)?;
                (volume, uuid, is_remote(&image) && !is_snapshot(&image))
            }
        };
        let identity = VolumeIdentity {
            name: shown.clone(),
            uuid,
            is_shared,
        };
        let files = VolumeFiles::open(volume, identity, Box::new(tell))
            .map_err(|error| CliError::new(Exit::WrongDevice, format!("{shown}: {error}")))?;
        let files = Arc::new(files);
        open.push((image, Arc::downgrade(&files)));
        Ok(Some(Root::Volume { files, path }))
    }

    /// Opens a LUKS volume, only to read it; tells its UUID.
    fn of_image(
        &self,
        image: &Path,
        key_file: Option<&Path>,
        how: &VolumeConfig,
    ) -> Result<(Volume, String), CliError> {
        let asks_no_more = self.asks_no_more.load(Ordering::Relaxed);
        if asks_no_more && key_file.is_none_or(|file| file == Path::new("-")) {
            return Err(CliError::usage(format!(
                "{}: a volume that is added while the server runs needs a key-file; give it one, or start \
                 the server again",
                image.display()
            )));
        }
        let path = how.data_path.as_deref().unwrap_or("auto");
        let data_path: DataPath = path.parse().map_err(|error: UnknownDataPath| {
            CliError::usage(format!("data-path {path:?}: {error}"))
        })?;
        let luks = LuksArgs {
            r#type: LuksType::Luks,
            header: how.header.clone(),
            window: WindowArgs::default(),
            key_slot: how.key_slot,
            tries: 3,
            key: KeyArgs {
                key_file: key_file.map(Path::to_owned),
                keyfile_offset: how.keyfile_offset,
                keyfile_size: how.keyfile_size,
                pbkdf_memory_limit: None,
                pbkdf_time_limit: None,
            },
            volume_key: VolumeKeyArgs::default(),
            token: TokenKeyArgs::default(),
        };
        let wanted = Wanted {
            data_path,
            ..Wanted::to_read(image, &luks)
        };
        let opened = from_luks(&wanted);
        let Opened { volume, origin, .. } = opened.map_err(|error| match error.exit {
            Exit::Busy => error.followed_by(RUNNING),
            _ => error,
        })?;
        if locking() == Locking::Incomplete {
            note(format_args!("scrim: warning: {NOT_LOCKED}"));
        }
        Ok((volume, origin.uuid))
    }
}
