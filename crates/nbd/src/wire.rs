//! The numbers of the NBD protocol, by the names its specification gives them (`doc/proto.md`,
//! section "Values"). All of them travel in network byte order.

/// `NBDMAGIC`, the first eight bytes a server sends.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// `cliserv_magic`, which servers of before 2011 send in the place of [`IHAVEOPT`].
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// `IHAVEOPT`, before the handshake flags and before each option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before each request of the transmission phase.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before each structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Longest name of an export, in bytes (the specification's limit for strings).
pub const EXPORT_NAME_MAX: usize = 4096;

/// Bytes of a request header.
pub const REQUEST_HEADER: usize = 28;
/// Bytes of a simple reply without its data.
pub const SIMPLE_HEADER: usize = 16;
/// Bytes of a structured reply chunk without its payload.
pub const CHUNK_HEADER: usize = 20;
/// Bytes of an option header.
pub const OPTION_HEADER: usize = 16;
/// Reserved zeros after the reply to `NBD_OPT_EXPORT_NAME`.
pub const EXPORT_NAME_PADDING: usize = 124;

/// Handshake flags that a server sends: `NBD_FLAG_…`.
pub mod handshake {
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Handshake flags that a client sends: `NBD_FLAG_C_…`.
pub mod client {
    pub const FIXED_NEWSTYLE: u32 = 1 << 0;
    pub const NO_ZEROES: u32 = 1 << 1;
}

/// Transmission flags, properties of an export: `NBD_FLAG_…`.
pub mod flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Types of options: `NBD_OPT_…`.
pub mod opt {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options: `NBD_REP_…`.
pub mod rep {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    /// The bit that errors have.
    pub const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR | 1;
    pub const ERR_POLICY: u32 = ERROR | 2;
    pub const ERR_INVALID: u32 = ERROR | 3;
    pub const ERR_TLS_REQD: u32 = ERROR | 5;
    pub const ERR_UNKNOWN: u32 = ERROR | 6;
    pub const ERR_SHUTDOWN: u32 = ERROR | 7;
    pub const ERR_TOO_BIG: u32 = ERROR | 9;
}

/// Information types of `NBD_OPT_INFO` and `NBD_OPT_GO`: `NBD_INFO_…`.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Types of requests: `NBD_CMD_…`.
pub mod cmd {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests: `NBD_CMD_FLAG_…`.
pub mod cmd_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// `NBD_REPLY_FLAG_DONE`, the only flag of a structured reply chunk: it is the last of its reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;

/// Types of structured reply chunks: `NBD_REPLY_TYPE_…`.
pub mod chunk {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) | 1;
    pub const ERROR_OFFSET: u16 = (1 << 15) | 2;
}

/// The metadata context that this server has.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Number of this context in block status replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Error values as replies carry them: `NBD_E…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WireError {
    Perm = 1,
    Io = 5,
    NoMem = 12,
    Inval = 22,
    NoSpc = 28,
    NotSup = 95,
    Shutdown = 108,
}

impl WireError {
    /// The error that a reply carries; `None` for success. An unknown value counts as `NBD_EIO`, as the
    /// specification has it for clients.
    #[must_use]
    pub fn from_wire(value: u32) -> Option<Self> {
        Some(match value {
            0 => return None,
            1 => Self::Perm,
            12 => Self::NoMem,
            22 => Self::Inval,
            28 => Self::NoSpc,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            _ => Self::Io,
        })
    }
}
