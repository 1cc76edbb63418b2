//! Options of what a volume lies on: a file, a device, or a server.

use clap::{Args, ValueEnum};

/// Most connections to one server.
const CONNECTIONS_MAX: i64 = 16;

#[derive(Args)]
pub(crate) struct StorageArgs {
    /// How requests reach the storage
    #[arg(long, value_enum, default_value = "auto", value_name = "ENGINE")]
    pub(crate) io_engine: IoEngine,
    /// Whether the page cache is passed by: always, never, or for block devices only
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) direct_io: DirectIo,
    /// Connections to the NBD server that has IMAGE, if it allows several (default: one for each
    /// processor, at most 4)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CONNECTIONS_MAX))]
    pub(crate) nbd_connections: Option<u8>,
    /// How long a request waits for the NBD server that has IMAGE, and for it to come back
    /// [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) nbd_timeout: Option<u16>,
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

/// Use of direct I/O, past the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectIo {
    /// For block devices
    Auto,
    /// Where the file system can do that
    On,
    /// Never
    #[default]
    Off,
}
