//! Options of what a volume lies on: a file, a device, or a server.

use std::time::Duration;

use clap::{Args, ValueEnum};
use scrim_backend::RemoteOptions;

use crate::error::CliError;
use crate::storage::{DirectIo, Manner};

/// Most connections to one server.
const CONNECTIONS_MAX: i64 = 16;

#[derive(Args)]
pub(crate) struct StorageArgs {
    /// How requests reach the storage
    #[arg(long, value_enum, default_value = "auto", value_name = "ENGINE")]
    pub(crate) io_engine: IoEngine,
    /// Whether the page cache is passed by: always, never, or for block devices only
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    direct_io: DirectIo,
    /// Connections to the NBD server that has IMAGE, if it allows several (default: one for each
    /// processor, at most 4)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CONNECTIONS_MAX))]
    nbd_connections: Option<u8>,
    /// How long a request waits for the NBD server that has IMAGE, and for it to come back
    /// [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    nbd_timeout: Option<u16>,
}

/// How requests reach the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoEngine {
    /// By what the volume lies on
    Auto,
    /// Plain calls on each connection's thread: for what the page cache holds
    Plain,
    /// io_uring: for devices
    #[value(name = "io_uring")]
    IoUring,
    /// Plain calls on more threads: for devices where io_uring is forbidden
    Threads,
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
