//! Status of an open volume, as the control socket sends it.

use scrim_backend::RbdLock;
use serde::{Deserialize, Serialize};

use crate::mount::{MountStatus, Served};

/// Answer to the request `status`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Name of the volume.
    pub(crate) name: String,
    /// `LUKS1`, `LUKS2` or `TABLE`.
    pub(crate) r#type: String,
    /// UUID of the header; empty if there is no header.
    pub(crate) uuid: String,
    pub(crate) cipher: String,
    /// Size of the volume key in bits.
    pub(crate) key_bits: usize,
    /// Implementation of the cipher that runs.
    pub(crate) driver: String,
    /// Data path of requests: `auto`, `inline` or `queued`.
    pub(crate) data_path: String,
    /// Data path that reads take, by `data_path` and the table's flags.
    pub(crate) read_path: String,
    /// Data path that writes take, by `data_path` and the table's flags.
    pub(crate) write_path: String,
    /// True if requests are held.
    pub(crate) suspended: bool,
    /// True if a command has closed the volume, which waits for its users to leave.
    #[serde(default)]
    pub(crate) closes_when_unused: bool,
    /// True if the volume needs its key back, by its passphrase, before requests go on.
    #[serde(default)]
    pub(crate) key_forgotten: bool,
    /// State of the key: `held`, `being destroyed` while it is still in use in memory, or `forgotten`.
    #[serde(default)]
    pub(crate) key: String,
    /// True if a table is loaded beside the one at work.
    pub(crate) inactive_table: bool,
    /// Engine that carries requests to the storage: `plain`, `io_uring` or `threads`.
    pub(crate) engine: String,
    /// Device, file or export with the ciphertext.
    pub(crate) device: String,
    /// The detached header, if any.
    pub(crate) header: Option<String>,
    /// Encryption sector in bytes.
    pub(crate) sector_size: u32,
    /// Offset of the data on the device, in 512-byte sectors.
    pub(crate) offset_sectors: u64,
    /// Size of the plaintext in 512-byte sectors.
    pub(crate) size_sectors: u64,
    /// True if writes are refused.
    pub(crate) read_only: bool,
    pub(crate) flags: Vec<String>,
    /// True if every key is locked in memory.
    pub(crate) keys_locked: bool,
    /// Faults of the code that serves the volume, and the latest warnings of its process in the background, as sentences.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    /// Address of the plaintext device.
    pub(crate) address: String,
    /// TLS that clients must begin; `None` where they are served without.
    #[serde(default)]
    pub(crate) tls: Option<Tls>,
    /// URI at which its figures are served over HTTP.
    #[serde(default)]
    pub(crate) metrics: Option<String>,
    /// Process that serves it.
    pub(crate) pid: u32,
    /// Version of the program that this process runs; empty from a process of a version that did not tell.
    #[serde(default)]
    pub(crate) version: String,
    /// Clients that are served.
    pub(crate) clients: usize,
    /// Connections that have not finished their handshake.
    #[serde(default)]
    pub(crate) handshaking: usize,
    /// Clients that were refused because there were too many.
    #[serde(default)]
    pub(crate) turned_away: u64,
    /// Connections that were dropped in their handshake to make way for others.
    #[serde(default)]
    pub(crate) displaced: u64,
    /// The clients that are served.
    #[serde(default)]
    pub(crate) connections: Vec<Connection>,
    /// Requests and bytes of NBD clients since it was opened; each mount has its own.
    pub(crate) served: Served,
    /// Its mounts, in the order in which they were made.
    #[serde(default)]
    pub(crate) mounts: Vec<MountStatus>,
    /// The servers that have its devices, where they are NBD exports.
    #[serde(default)]
    pub(crate) servers: Vec<Server>,
    /// Those of its devices that are images of a Ceph cluster.
    #[serde(default)]
    pub(crate) cluster_images: Vec<ClusterImage>,
    /// The latest errors, oldest first.
    pub(crate) errors: Vec<String>,
}

impl Status {
    /// Advice, where the process that serves the volume runs another version than this program: an update of the program
    /// leaves it as it is.
    pub(crate) fn of_another_version(&self) -> Option<String> {
        const OWN: &str = env!("CARGO_PKG_VERSION");
        let theirs = match self.version.as_str() {
            OWN => return None,
            "" => "an earlier version",
            version => version,
        };
        Some(format!("{theirs}; close it and open it again to run {OWN}"))
    }
}

/// The connection to a server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Server {
    /// URI of the NBD export.
    pub(crate) address: String,
    /// Number of connections; 0 while the server cannot be reached.
    pub(crate) connections: usize,
    /// Protection of the connections; `None` where they are not encrypted, and while there is no connection.
    pub(crate) tls: Option<Protected>,
    /// Time after which the server answers a short request, in milliseconds; `None` before the first, and from a
    /// process of an earlier version.
    #[serde(default)]
    pub(crate) round_trip_ms: Option<f64>,
    /// Number of times that the connections were lost and made again.
    pub(crate) reconnects: u64,
    /// Bytes that were written again after reconnects.
    pub(crate) replayed_bytes: u64,
    /// Bytes that are kept until a flush, to be written again if the connections are lost.
    pub(crate) unflushed_bytes: usize,
}

/// An image of a Ceph cluster.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClusterImage {
    /// Name of the image, as `rbd:POOL/IMAGE`.
    pub(crate) image: String,
    /// Number by which the cluster knows this client, as in `client.4123`.
    pub(crate) client: u64,
    pub(crate) exclusive_lock: ExclusiveLock,
    /// Size in bytes of the objects that the image's data is cut into.
    pub(crate) object_size: u64,
}

/// State of the exclusive lock of an image.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExclusiveLock {
    Held,
    /// Lost to another client.
    Lost,
    /// Not taken, as the image is only read.
    Unneeded,
}

impl From<RbdLock> for ExclusiveLock {
    fn from(lock: RbdLock) -> Self {
        match lock {
            RbdLock::Held => Self::Held,
            RbdLock::Lost => Self::Lost,
            RbdLock::Unneeded => Self::Unneeded,
        }
    }
}

/// TLS, which every client must begin.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Tls {
    /// True if clients must show a certificate.
    pub(crate) client_certificates: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Address that the client comes from.
    pub(crate) peer: String,
    /// `None` without TLS, and before it is agreed.
    pub(crate) tls: Option<Protected>,
}

/// Protection of a connection by TLS.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Protected {
    pub(crate) version: String,
    pub(crate) cipher_suite: String,
}
