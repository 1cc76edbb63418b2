//! Names of storage on a server, and the protocols by which it is reached.

use std::path::Path;

use scrim_nbd::Uri;

use crate::rbd::RbdName;

/// Protocol by which storage on a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProtocol {
    /// An export of an NBD server.
    Nbd,
    /// An image of a Ceph cluster.
    Ceph,
}

impl ServerProtocol {
    /// The protocol that a name is meant for, well-formed or not; `None` for a file or a device.
    #[must_use]
    pub fn of(image: &Path) -> Option<Self> {
        let name = image.to_str()?;
        if Uri::is_meant(name) {
            return Some(Self::Nbd);
        }
        RbdName::is_meant(name).then_some(Self::Ceph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_a_server_or_a_path() {
        for (name, protocol) in [
            ("nbd://host/export", Some(ServerProtocol::Nbd)),
            ("nbds+unix:///?socket=s", Some(ServerProtocol::Nbd)),
            ("nbd:host:10809", Some(ServerProtocol::Nbd)),
            ("rbd:pool/image", Some(ServerProtocol::Ceph)),
            ("rbd:/file", None),
            ("/srv/disk.img", None),
            ("http://host/disk.img", None),
        ] {
            assert_eq!(ServerProtocol::of(Path::new(name)), protocol, "{name}");
        }
    }
}
