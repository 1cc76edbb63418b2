//! The storage that a command's IMAGE names: a file, a block device, an NBD export or an image of a Ceph cluster. Such a
//! name becomes a [`Backend`] only here.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scrim_backend::{
    Access, Backend, BackendError, Durability, FileBackend, HeaderLock, Info, LockKind, Medium,
    RemoteOptions,
};

use crate::args::{DirectIo, IoEngine, StorageArgs};
use crate::error::CliError;
use crate::storage::part::{Located, is_part, locate, name_of};
use crate::storage::server::{Server, ServerName, ServerState, is_remote};

/// An image that is open.
pub(crate) enum Storage {
    /// A file or a block device.
    Local(FileBackend),
    /// Storage on a server, and its name as it was given.
    Remote(Server, PathBuf),
}

/// Options for opening an image that holds a volume.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) direct_io: DirectIo,
    pub(crate) remote: RemoteOptions,
    /// Time limit of a request, if the user has given one.
    pub(crate) timeout: Option<Duration>,
}

impl StorageArgs {
    /// Plain calls read and write where the client's bytes lie, which the way past the page cache does
    /// not allow.
    pub(crate) fn manner(&self) -> Result<Manner, CliError> {
        let direct_io = match (self.io_engine, self.direct_io) {
            (IoEngine::Plain, DirectIo::On) => {
                return Err(CliError::usage(
                    "--io-engine plain goes through the page cache; leave out either that or \
                     --direct-io",
                ));
            }
            (IoEngine::Plain, _) => DirectIo::Off,
            (_, direct_io) => direct_io,
        };
        Ok(Manner {
            direct_io,
            remote: self.remote(),
            timeout: self.timeout(),
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.nbd_timeout.map(u64::from).map(Duration::from_secs)
    }

    fn remote(&self) -> RemoteOptions {
        let usual = RemoteOptions::default();
        let connections = self.nbd_connections.map(usize::from);
        RemoteOptions {
            connections: connections.unwrap_or(usual.connections),
            limit: self.timeout().unwrap_or(usual.limit),
        }
    }
}

impl Manner {
    /// Sets the direct I/O of a file that is open.
    fn applied_to(self, file: FileBackend) -> Result<FileBackend, BackendError> {
        match self.direct_io {
            DirectIo::On => file.past_the_cache(),
            DirectIo::Auto if file.is_device() => file.past_the_cache(),
            DirectIo::Auto | DirectIo::Off => Ok(file),
        }
    }
}

impl Storage {
    /// Opens an image for exclusive use, as far as that is possible: see [`FileBackend::open`].
    pub(crate) fn open(image: &Path, access: Access) -> Result<Self, BackendError> {
        match ServerName::of(image) {
            Some(name) => Self::connect(name, image, access, once()).and_then(Self::demand(access)),
            None => local(image, access).map(Self::Local),
        }
    }

    /// Opens an image without excluding other processes: see [`FileBackend::open_shared`].
    pub(crate) fn open_shared(image: &Path, access: Access) -> Result<Self, BackendError> {
        match ServerName::of(image) {
            Some(name) => Self::connect(name, image, access, once()).and_then(Self::demand(access)),
            None => {
                let Located { path, window } = locate(image)?;
                match window {
                    Some(window) => FileBackend::open_window_shared(&path, window, access),
                    None => FileBackend::open_shared(&path, access),
                }
                .map(Self::Local)
            }
        }
    }

    /// Opens an image for a volume. An export that its server offers as read-only, or a snapshot, becomes a read-only
    /// volume.
    pub(crate) fn open_for_volume(
        image: &Path,
        access: Access,
        manner: Manner,
    ) -> Result<Self, BackendError> {
        let Some(name) = ServerName::of(image) else {
            let file = local(image, access)?;
            return manner.applied_to(file).map(Self::Local);
        };
        let storage = Self::connect(name, image, access, manner.remote)?;
        if let Self::Remote(server, _) = &storage {
            server.check_data()?;
        }
        Ok(storage)
    }

    fn connect(
        name: ServerName<'_>,
        image: &Path,
        access: Access,
        options: RemoteOptions,
    ) -> Result<Self, BackendError> {
        let server = name.connect(access, options)?;
        Ok(Self::Remote(server, image.to_owned()))
    }

    /// Opens an image that is written from its start to its end, for exclusive use as far as that is possible.
    pub(crate) fn open_to_write(image: &Path, manner: Manner) -> Result<Self, BackendError> {
        let access = Access::ReadWrite;
        Self::open_for_volume(image, access, manner).and_then(Self::demand(access))
    }

    /// Refuses an image that its server lets only be read, if `access` demands writes.
    fn demand(access: Access) -> impl FnOnce(Self) -> Result<Self, BackendError> {
        move |storage| match &storage {
            Self::Remote(server, _) if access == Access::ReadWrite => {
                server.check_writable()?;
                Ok(storage)
            }
            _ => Ok(storage),
        }
    }

    /// Refuses an image that a new header would leave with data under several keys.
    pub(crate) fn check_new_header(&self) -> Result<(), BackendError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Remote(server, _) => server.check_new_header(),
        }
    }

    /// The path by which it was opened, or its name on a server.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Local(file) => file.path(),
            Self::Remote(_, name) => name,
        }
    }

    /// Makes sure that the first `len` bytes can be written; for a server this cannot be known.
    pub(crate) fn reserve(&self, len: u64) -> Result<(), BackendError> {
        match self {
            Self::Local(file) => file.reserve(len),
            Self::Remote(..) => Ok(()),
        }
    }

    /// Returns whether it is a regular file, not a device, a part of either or on a server.
    pub(crate) fn is_whole_file(&self) -> bool {
        self.whole_file().is_some()
    }

    /// The regular file that it is; `None` for a device, a part of either and storage on a server.
    pub(crate) fn whole_file(&self) -> Option<&FileBackend> {
        match self {
            Self::Local(file) if file.is_whole_file() => Some(file),
            _ => None,
        }
    }

    /// Makes a whole file at least `len` bytes long; other storage keeps its size.
    pub(crate) fn grow_to(&self, len: u64) -> Result<(), BackendError> {
        match self {
            Self::Local(file) if file.is_whole_file() && file.info().size < len => {
                file.grow(len - 1, &[0])
            }
            _ => Ok(()),
        }
    }

    /// State of storage on a server; `None` for local storage.
    pub(crate) fn server_state(&self) -> Option<ServerState> {
        match self {
            Self::Local(_) => None,
            Self::Remote(server, _) => Some(server.state()),
        }
    }

    fn backend(&self) -> &dyn Backend {
        match self {
            Self::Local(file) => file,
            Self::Remote(server, _) => server.backend(),
        }
    }
}

/// Opens a file, a device or a part of one for exclusive use, as far as that is possible.
fn local(image: &Path, access: Access) -> Result<FileBackend, BackendError> {
    let Located { path, window } = locate(image)?;
    match window {
        Some(window) => FileBackend::open_window(&path, window, access),
        None => FileBackend::open(&path, access),
    }
}

/// Options with a single connection, which is enough for a header.
fn once() -> RemoteOptions {
    RemoteOptions {
        connections: 1,
        ..RemoteOptions::default()
    }
}

/// Refuses a part of a file where only a whole file or device will do.
pub(crate) fn demand_whole(image: &Path, command: &str) -> Result<(), CliError> {
    if !is_named_part(image) {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{}: {command} takes whole images and devices only; `scrim format` makes a volume there, and \
         `scrim open` opens it, then copy with nbdcopy",
        image.display()
    )))
}

/// The file or device that an image is, or is a part of.
pub(crate) fn file_of(image: &Path) -> Result<PathBuf, CliError> {
    Ok(locate(image)?.path)
}

/// Refuses storage on a server where only a file or device will do.
pub(crate) fn demand_local(image: &Path, command: &str) -> Result<(), CliError> {
    if !is_remote(image) {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{}: {command} takes files and devices only; open the volume there (a new one is made with \
         `scrim format`), and copy with nbdcopy",
        image.display()
    )))
}

/// Returns whether a name means a part of a file or device.
pub(crate) fn is_named_part(image: &Path) -> bool {
    !is_remote(image) && is_part(image)
}

/// Name of an image that the table shows, and that stays valid when the process has left its folder.
pub(crate) fn absolute(image: &Path) -> Result<PathBuf, CliError> {
    let fail = |error| CliError::io(format_args!("find {}", image.display()), &error);
    if let Some(name) = ServerName::of(image) {
        return name.absolute();
    }
    if !is_part(image) {
        return std::path::absolute(image).map_err(fail);
    }
    // A partition by its place, whatever the table says later.
    let Located { path, window } = locate(image)?;
    let path = std::path::absolute(path).map_err(fail)?;
    Ok(match window {
        Some(window) => name_of(&path, &window),
        None => path,
    })
}

impl Backend for Storage {
    fn info(&self) -> Info {
        self.backend().info()
    }

    fn measure(&self) -> Result<Info, BackendError> {
        self.backend().measure()
    }

    fn medium(&self) -> Medium<'_> {
        self.backend().medium()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackendError> {
        self.backend().read_at(offset, buffer)
    }

    fn write_at(
        &self,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), BackendError> {
        self.backend().write_at(offset, data, durability)
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.backend().flush()
    }

    fn discard(&self, range: Range<u64>) -> Result<(), BackendError> {
        self.backend().discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Result<(), BackendError> {
        self.backend().write_zeroes(range, durability)
    }

    fn lock_header(&self, kind: LockKind) -> Result<HeaderLock, BackendError> {
        self.backend().lock_header(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_from_the_root() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            absolute(Path::new("disk.img")).unwrap(),
            here.join("disk.img")
        );
        let server = Path::new("rbd:p/i");
        assert_eq!(absolute(server).unwrap(), server);
    }

    #[test]
    fn a_server_is_refused_where_only_a_file_will_do() {
        for server in ["nbd://h/", "rbd:p/i"] {
            let refused = demand_local(Path::new(server), "pack").unwrap_err();
            assert!(refused.to_string().contains("nbdcopy"), "{refused}");
        }
    }
}
