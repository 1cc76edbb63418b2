//! The volume that files are read from.

use scrim_files::{Error, File, LastLink, Located, Tree};

use super::location::Location;
use super::running;
use crate::args::{FileArgs, VolumeName};
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit};
use crate::storage::is_remote;
use crate::volume::opening::{Opened, Wanted, from_luks, warn_of_unlocked_keys};

/// Hint in the error for an image that a process has open.
const RUNNING: &str = "; files of a volume that scrim has open are named by it: NAME:/path";

/// A place in a volume's file system, and all files of that.
pub(crate) struct Source {
    pub(crate) location: Location,
    pub(crate) tree: Tree,
    /// Name of the volume, if a process has it open.
    running: Option<VolumeName>,
}

impl Source {
    /// Opens a volume, only to read it, asking for its passphrase if it is not open already.
    pub(crate) fn open(args: &FileArgs) -> Result<Self, CliError> {
        let location = Location::parse(&args.file)?;
        let running = running::named(&location.image);
        let (volume, is_shared) = match &running {
            Some(name) => (running::open(name)?, true),
            None => {
                let opened =
                    from_luks(&Wanted::to_read(&location.image, &args.luks)).map_err(|error| {
                        match error.exit {
                            Exit::Busy => error.followed_by(RUNNING),
                            _ => error,
                        }
                    });
                let Opened { volume, .. } = opened?;
                warn_of_unlocked_keys();
                warn_of_failed_self_tests();
                (volume, is_remote(&location.image))
            }
        };
        let tree = Tree::open(volume, is_shared)
            .map_err(|error| CliError::from(error).within(location.image.display()))?;
        Ok(Self {
            location,
            tree,
            running,
        })
    }

    /// Finds the file or folder at the location.
    pub(crate) fn find(&self, last: LastLink) -> Result<Located, CliError> {
        let found = self.tree.find(&self.location.path, last);
        let found = found.map_err(|error| self.failed(b"", error))?;
        found.map_err(|missing| {
            CliError::new(Exit::WrongDevice, missing.to_string()).within(&self.location)
        })
    }

    /// Opens a file, which has this path below the location.
    pub(crate) fn file(&self, inode: scrim_files::Inode, below: &[u8]) -> Result<File, CliError> {
        self.tree
            .file(inode.into())
            .map_err(|error| self.failed(below, error))
    }

    /// An error of the file system at this path below the location.
    pub(crate) fn failed(&self, below: &[u8], error: Error) -> CliError {
        CliError::from(error).within(self.location.shown(below))
    }

    /// Refuses results of a file system that was mounted for writing while it was read.
    pub(crate) fn check_unchanged(&self) -> Result<(), CliError> {
        if let Some(name) = &self.running {
            running::refuse_if_written(name)?;
        }
        match self.tree.is_unchanged() {
            Ok(true) => Ok(()),
            Ok(false) => Err(CliError::new(
                Exit::WrongDevice,
                "the file system was mounted for writing meanwhile, so that what was read of it may be wrong; \
                 unmount it, and give the command again",
            )
            .within(self.location.image.display())),
            Err(error) => Err(self.failed(b"", error)),
        }
    }
}
