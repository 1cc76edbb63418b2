//! The files that are served, and the server's certificate.

use std::fs;
use std::path::PathBuf;

use scrim_bench::web::{Connection, Identity, Suite, Trust, Url};
use scrim_seeded::Random;

use super::super::room::Room;
use crate::error::{Doing, Error};

/// Protocol by which a file is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocol {
    /// Prefix of the names of results.
    pub(super) name: &'static str,
    /// `None` is plain HTTP.
    pub(super) suite: Option<Suite>,
}

pub(super) const TLS: Protocol = Protocol {
    name: "tls",
    suite: Some(Suite::Aes128),
};
pub(super) const TLS256: Protocol = Protocol {
    name: "tls256",
    suite: Some(Suite::Aes256),
};
pub(super) const HTTP: Protocol = Protocol {
    name: "http",
    suite: None,
};
pub(super) const PROTOCOLS: [Protocol; 3] = [TLS, TLS256, HTTP];

impl Protocol {
    /// Description for the report.
    pub(super) fn words(self) -> String {
        self.suite.map_or_else(
            || "plain HTTP".to_owned(),
            |suite| format!("HTTPS, TLS 1.3, {suite}"),
        )
    }
}

/// A file that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Name of the file, also used in names of results.
    pub(super) name: &'static str,
    pub(super) bytes: usize,
}

pub(super) const SIZES: [Size; 4] = [
    size("10k", 10_000),
    size("100k", 100_000),
    size("1m", 1_000_000),
    LONG,
];
/// The file that slow clients take.
pub(super) const LONG: Size = size("100m", 100_000_000);

const fn size(name: &'static str, bytes: usize) -> Size {
    Size { name, bytes }
}

impl Size {
    /// URL of the file on a server.
    pub(super) fn on(self, server: &Url) -> Url {
        server.at(&format!("/{}", self.name))
    }
}

/// The files, and a certificate for this run.
pub(super) struct Site {
    pub(super) root: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    identity: Identity,
    /// The longest file; the others are its start.
    content: Vec<u8>,
}

impl Site {
    pub(super) fn make(room: &Room) -> Result<Self, Error> {
        let longest = SIZES.map(|size| size.bytes).into_iter().max().unwrap_or(0);
        room.reserve(SIZES.map(|size| size.bytes as u64).iter().sum())?;
        let content = Random::new(1).bytes(longest);
        let root = room.path("site");
        fs::create_dir(&root).doing(|| format!("make {}", root.display()))?;
        for size in SIZES {
            let path = root.join(size.name);
            fs::write(&path, &content[..size.bytes])
                .doing(|| format!("write {}", path.display()))?;
        }
        let identity = Identity::make()?;
        Ok(Self {
            root,
            certificate: room.write("certificate.pem", &identity.certificate_pem)?,
            key: room.write("key.pem", &identity.key_pem)?,
            identity,
            content,
        })
    }

    /// Certificate that clients of a protocol trust, and the suite that they offer.
    pub(super) fn trust(&self, protocol: Protocol) -> Result<Option<Trust>, Error> {
        let trust = |suite| self.identity.trust(Some(suite));
        Ok(protocol.suite.map(trust).transpose()?)
    }

    /// Checks that a server returns every file unchanged, over the suite that is asked for.
    pub(super) fn check(&self, server: &Url, protocol: Protocol) -> Result<(), Error> {
        let trust = self.trust(protocol)?;
        for size in SIZES {
            let url = size.on(server);
            let mut connection = Connection::open(&url, trust.as_ref())?;
            let suite = connection.protection().map(|found| found.suite);
            if suite != protocol.suite.map(Suite::registered) {
                let said = format!("speaks {suite:?} where {protocol:?} was asked for");
                return Err(Error::program(server.authority(), said));
            }
            let (mut at, mut same) = (0, true);
            let head = connection.download(&url, &mut |bytes| {
                same &= self.content.get(at..at + bytes.len()) == Some(bytes);
                at += bytes.len();
            })?;
            if !same || head.length != size.bytes as u64 {
                let said = format!("does not serve {} as it is", size.name);
                return Err(Error::program(server.authority(), said));
            }
        }
        Ok(())
    }
}
