//! Options of the storage of a volume: a file, a device, or an NBD server.

use clap::{Args, ValueEnum};

use super::numbers::parse_size;

/// Maximum number of connections to one server.
const CONNECTIONS_MAX: i64 = 16;

/// Part of IMAGE that holds the volume.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct WindowArgs {
    /// Start of the volume in IMAGE, in bytes; K, M, G and T stand for powers of 1024. Partition N of a disk image is
    /// IMAGE#N
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub(crate) image_offset: Option<u64>,
    /// Size of the volume in IMAGE, in bytes (default: to the end of IMAGE)
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub(crate) image_size: Option<u64>,
}

impl WindowArgs {
    pub(crate) fn is_given(self) -> bool {
        self.image_offset.is_some() || self.image_size.is_some()
    }
}

#[derive(Args)]
pub(crate) struct StorageArgs {
    /// I/O engine for requests to the storage
    #[arg(long, value_enum, default_value = "auto", value_name = "ENGINE")]
    pub(crate) io_engine: IoEngine,
    /// Use direct I/O, which bypasses the page cache
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) direct_io: DirectIo,
    /// Number of connections to the NBD server of IMAGE, if it allows several (default: one per
    /// processor, at most 4)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CONNECTIONS_MAX))]
    pub(crate) nbd_connections: Option<u8>,
    /// Timeout in seconds of requests to the NBD server of IMAGE, including reconnection, and of connecting to the
    /// cluster of rbd:POOL/IMAGE [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) nbd_timeout: Option<u16>,
}

/// I/O engines: ways to read and write the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoEngine {
    /// The best engine for the storage of the volume
    Auto,
    /// System calls on each client's thread: for data in the page cache
    Plain,
    /// Linux io_uring: for block devices
    #[value(name = "io_uring")]
    IoUring,
    /// System calls on additional threads: for block devices where io_uring is forbidden
    Threads,
}

/// Modes of direct I/O, which bypasses the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectIo {
    /// For block devices only
    Auto,
    /// Always; fails if the file system does not support it
    On,
    /// Never; use the page cache
    #[default]
    Off,
}
