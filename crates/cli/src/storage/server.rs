//! Storage on a server: an NBD export, or an image of a Ceph cluster.

use std::path::{Path, PathBuf};

use scrim_backend::{
    Access, Backend, BackendError, RbdBackend, RbdName, RbdNameError, RbdStatus, RemoteBackend,
    RemoteOptions, RemoteStatus, ServerProtocol,
};
use scrim_nbd::{Endpoint, Uri};

use crate::error::{CliError, Exit};
use crate::terminal::note;

/// Name of storage on a server, well-formed or not.
#[derive(Clone, Copy)]
pub(super) enum ServerName<'a> {
    /// URI of an NBD export.
    Nbd(&'a str),
    /// Image of a Ceph cluster: `rbd:POOL/IMAGE`.
    Ceph(&'a str),
}

/// Storage on a server that is open.
pub(crate) enum Server {
    Nbd(Box<RemoteBackend>),
    Ceph(Box<RbdBackend>),
}

/// State of storage on a server.
pub(crate) enum ServerState {
    Nbd(RemoteStatus),
    Ceph(RbdStatus),
}

impl<'a> ServerName<'a> {
    /// The name of an image, if it means storage on a server, and not a file or a device.
    pub(super) fn of(image: &'a Path) -> Option<Self> {
        let name = image.to_str()?;
        Some(match ServerProtocol::of(image)? {
            ServerProtocol::Nbd => Self::Nbd(name),
            ServerProtocol::Ceph => Self::Ceph(name),
        })
    }

    /// Number of bytes before the name of the server or the pool, which may have a colon and slashes.
    fn scheme_len(self) -> usize {
        match self {
            Self::Nbd(name) => name.find("://").map_or(0, |at| at + 3),
            Self::Ceph(name) => name.find(':').map_or(0, |at| at + 1),
        }
    }

    pub(super) fn connect(
        self,
        access: Access,
        options: RemoteOptions,
    ) -> Result<Server, BackendError> {
        let name = match self {
            Self::Nbd(name) => name,
            Self::Ceph(name) => {
                let image = RbdBackend::open_named(name, access, options.limit)?;
                return Ok(Server::Ceph(Box::new(image)));
            }
        };
        let remote = RemoteBackend::open_named(name, access, options)?;
        if remote.believes_anyone() {
            note(format_args!(
                "scrim: warning: {name}: tls-verify-peer=0 turns off the check of the server's certificate, so \
                 anyone on the network path can act as the server"
            ));
        }
        Ok(Server::Nbd(Box::new(remote)))
    }

    /// The same name, with paths from the root on.
    pub(super) fn absolute(self) -> Result<PathBuf, CliError> {
        let fail = |name: &str, error: &dyn std::fmt::Display| {
            CliError::new(Exit::WrongDevice, format!("cannot open {name}: {error}"))
        };
        match self {
            Self::Nbd(name) => {
                let mut uri: Uri = name.parse().map_err(|error| fail(name, &error))?;
                let socket = match &mut uri.endpoint {
                    Endpoint::Unix(path) => Some(path),
                    Endpoint::Tcp { .. } => None,
                };
                let folder = uri.tls.as_mut().and_then(|tls| tls.certificates.as_mut());
                for path in socket.into_iter().chain(folder) {
                    from_root(path)?;
                }
                Ok(PathBuf::from(uri.to_string()))
            }
            Self::Ceph(name) => {
                let parsed: Result<RbdName, RbdNameError> = name.parse();
                let mut image = parsed.map_err(|error| fail(name, &error))?;
                image.conf.as_mut().map_or(Ok(()), from_root)?;
                Ok(PathBuf::from(image.to_string()))
            }
        }
    }
}

fn from_root(path: &mut PathBuf) -> Result<(), CliError> {
    *path = std::path::absolute(&*path)
        .map_err(|error| CliError::io(format_args!("find {}", path.display()), &error))?;
    Ok(())
}

/// Returns whether an image is storage on a server, not a file or a device.
pub(crate) fn is_remote(image: &Path) -> bool {
    ServerName::of(image).is_some()
}

/// Returns whether an image is a snapshot on a server, whose content never changes.
pub(crate) fn is_snapshot(image: &Path) -> bool {
    let Some(ServerName::Ceph(name)) = ServerName::of(image) else {
        return false;
    };
    let parsed: Result<RbdName, _> = name.parse();
    parsed.is_ok_and(|image| image.snapshot.is_some())
}

/// Number of bytes of an image's name before which no path in a volume begins; `None` for a file or a device.
pub(crate) fn scheme_len(image: &Path) -> Option<usize> {
    ServerName::of(image).map(ServerName::scheme_len)
}

/// The name that an image has on its server, where it can be the name of a volume.
pub(crate) fn name_on_server(image: &Path) -> Option<String> {
    match ServerName::of(image)? {
        ServerName::Nbd(_) => None,
        ServerName::Ceph(name) => Some(name.parse::<RbdName>().ok()?.image),
    }
}

impl Server {
    /// Refuses storage that can only be read.
    pub(super) fn check_writable(&self) -> Result<(), BackendError> {
        match self {
            Self::Nbd(remote) => remote.check_writable(),
            Self::Ceph(image) => image.check_writable(),
        }
    }

    /// Refuses storage whose parts are under several keys.
    pub(super) fn check_data(&self) -> Result<(), BackendError> {
        match self {
            Self::Nbd(_) => Ok(()),
            Self::Ceph(image) => image.check_parent(),
        }
    }

    /// Refuses storage whose parts would be under several keys if it had a new header.
    pub(super) fn check_new_header(&self) -> Result<(), BackendError> {
        match self {
            Self::Nbd(_) => Ok(()),
            Self::Ceph(image) => image.check_new_header(),
        }
    }

    pub(super) fn state(&self) -> ServerState {
        match self {
            Self::Nbd(remote) => ServerState::Nbd(remote.status()),
            Self::Ceph(image) => ServerState::Ceph(image.status()),
        }
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        match self {
            Self::Nbd(remote) => &**remote,
            Self::Ceph(image) => &**image,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absolute(image: &str) -> Result<PathBuf, CliError> {
        ServerName::of(Path::new(image)).unwrap().absolute()
    }

    #[test]
    fn a_name_has_its_paths_from_the_root() {
        let name = |image: &str| absolute(image).unwrap();
        let here = std::env::current_dir().unwrap();
        let here = here.display();
        assert_eq!(name("NBD://h/e"), Path::new("nbd://h:10809/e"));
        let socket = name("nbd+unix:///?socket=s");
        assert_eq!(
            socket,
            PathBuf::from(format!("nbd+unix:///?socket={here}/s"))
        );
        let secured = name("nbds+unix:///?tls-certificates=tls&socket=s");
        let expected = format!("nbds+unix:///?socket={here}/s&tls-certificates={here}/tls");
        assert_eq!(secured, PathBuf::from(expected));
        let wrong = absolute("nbd+unix:///e").unwrap_err();
        assert!(wrong.to_string().contains("name the socket"), "{wrong}");
        assert_eq!(name("rbd:p/i@s"), Path::new("rbd:p/i@s"));
        let image = name("rbd:p/i?id=a&conf=c.conf");
        assert_eq!(
            image,
            PathBuf::from(format!("rbd:p/i?conf={here}/c.conf&id=a"))
        );
        let wrong = absolute("rbd:i").unwrap_err();
        assert!(wrong.to_string().contains("rbd:POOL/IMAGE"), "{wrong}");
    }

    #[test]
    fn only_the_name_of_a_server_is_remote() {
        assert!(is_remote(Path::new("nbd://h/")) && is_remote(Path::new("rbd:p/i")));
        for local in ["./nbd://h/", "./rbd:p/i", "rbd:/a", "rbd"] {
            assert!(!is_remote(Path::new(local)), "{local}");
        }
        assert_eq!(
            name_on_server(Path::new("rbd:p/n/i@s?id=a")).as_deref(),
            Some("i")
        );
        assert_eq!(name_on_server(Path::new("nbd://h/e")), None);
    }
}
