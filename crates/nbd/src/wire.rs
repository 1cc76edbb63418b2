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

/// Handshake flags, server to client.
pub mod handshake {
    /// `NBD_FLAG_FIXED_NEWSTYLE`
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// `NBD_FLAG_NO_ZEROES`
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Client flags, client to server.
pub mod client {
    /// `NBD_FLAG_C_FIXED_NEWSTYLE`
    pub const FIXED_NEWSTYLE: u32 = 1 << 0;
    /// `NBD_FLAG_C_NO_ZEROES`
    pub const NO_ZEROES: u32 = 1 << 1;
}

/// Transmission flags.
pub mod flag {
    /// `NBD_FLAG_HAS_FLAGS`
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// `NBD_FLAG_READ_ONLY`
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_FLAG_SEND_FLUSH`
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_FLAG_SEND_FUA`
    pub const SEND_FUA: u16 = 1 << 3;
    /// `NBD_FLAG_SEND_TRIM`
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_FLAG_SEND_WRITE_ZEROES`
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_FLAG_SEND_DF`
    pub const SEND_DF: u16 = 1 << 7;
    /// `NBD_FLAG_CAN_MULTI_CONN`
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `NBD_FLAG_SEND_CACHE`
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `NBD_FLAG_SEND_FAST_ZERO`
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Option types.
pub mod opt {
    /// `NBD_OPT_EXPORT_NAME`
    pub const EXPORT_NAME: u32 = 1;
    /// `NBD_OPT_ABORT`
    pub const ABORT: u32 = 2;
    /// `NBD_OPT_LIST`
    pub const LIST: u32 = 3;
    /// `NBD_OPT_STARTTLS`
    pub const STARTTLS: u32 = 5;
    /// `NBD_OPT_INFO`
    pub const INFO: u32 = 6;
    /// `NBD_OPT_GO`
    pub const GO: u32 = 7;
    /// `NBD_OPT_STRUCTURED_REPLY`
    pub const STRUCTURED_REPLY: u32 = 8;
    /// `NBD_OPT_LIST_META_CONTEXT`
    pub const LIST_META_CONTEXT: u32 = 9;
    /// `NBD_OPT_SET_META_CONTEXT`
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Option reply types.
pub mod rep {
    /// `NBD_REP_ACK`
    pub const ACK: u32 = 1;
    /// `NBD_REP_SERVER`
    pub const SERVER: u32 = 2;
    /// `NBD_REP_INFO`
    pub const INFO: u32 = 3;
    /// `NBD_REP_META_CONTEXT`
    pub const META_CONTEXT: u32 = 4;
    /// The bit that errors have.
    pub const ERROR: u32 = 1 << 31;
    /// `NBD_REP_ERR_UNSUP`
    pub const ERR_UNSUP: u32 = ERROR | 1;
    /// `NBD_REP_ERR_POLICY`
    pub const ERR_POLICY: u32 = ERROR | 2;
    /// `NBD_REP_ERR_INVALID`
    pub const ERR_INVALID: u32 = ERROR | 3;
    /// `NBD_REP_ERR_TLS_REQD`
    pub const ERR_TLS_REQD: u32 = ERROR | 5;
    /// `NBD_REP_ERR_UNKNOWN`
    pub const ERR_UNKNOWN: u32 = ERROR | 6;
    /// `NBD_REP_ERR_SHUTDOWN`
    pub const ERR_SHUTDOWN: u32 = ERROR | 7;
    /// `NBD_REP_ERR_TOO_BIG`
    pub const ERR_TOO_BIG: u32 = ERROR | 9;
}

/// Information types of `NBD_OPT_INFO` and `NBD_OPT_GO`.
pub mod info {
    /// `NBD_INFO_EXPORT`
    pub const EXPORT: u16 = 0;
    /// `NBD_INFO_NAME`
    pub const NAME: u16 = 1;
    /// `NBD_INFO_DESCRIPTION`
    pub const DESCRIPTION: u16 = 2;
    /// `NBD_INFO_BLOCK_SIZE`
    pub const BLOCK_SIZE: u16 = 3;
}

/// Request types.
pub mod cmd {
    /// `NBD_CMD_READ`
    pub const READ: u16 = 0;
    /// `NBD_CMD_WRITE`
    pub const WRITE: u16 = 1;
    /// `NBD_CMD_DISC`
    pub const DISC: u16 = 2;
    /// `NBD_CMD_FLUSH`
    pub const FLUSH: u16 = 3;
    /// `NBD_CMD_TRIM`
    pub const TRIM: u16 = 4;
    /// `NBD_CMD_CACHE`
    pub const CACHE: u16 = 5;
    /// `NBD_CMD_WRITE_ZEROES`
    pub const WRITE_ZEROES: u16 = 6;
    /// `NBD_CMD_BLOCK_STATUS`
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod cmd_flag {
    /// `NBD_CMD_FLAG_FUA`
    pub const FUA: u16 = 1 << 0;
    /// `NBD_CMD_FLAG_NO_HOLE`
    pub const NO_HOLE: u16 = 1 << 1;
    /// `NBD_CMD_FLAG_DF`
    pub const DF: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_REQ_ONE`
    pub const REQ_ONE: u16 = 1 << 3;
    /// `NBD_CMD_FLAG_FAST_ZERO`
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// The only flag of a structured reply chunk: it is the last of its reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;

/// Types of structured reply chunks.
pub mod chunk {
    /// `NBD_REPLY_TYPE_NONE`
    pub const NONE: u16 = 0;
    /// `NBD_REPLY_TYPE_OFFSET_DATA`
    pub const OFFSET_DATA: u16 = 1;
    /// `NBD_REPLY_TYPE_BLOCK_STATUS`
    pub const BLOCK_STATUS: u16 = 5;
    /// `NBD_REPLY_TYPE_ERROR`
    pub const ERROR: u16 = (1 << 15) | 1;
    /// `NBD_REPLY_TYPE_ERROR_OFFSET`
    pub const ERROR_OFFSET: u16 = (1 << 15) | 2;
}

/// The metadata context that this server has.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Number of this context in block status replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Error values, as replies carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WireError {
    /// `NBD_EPERM`
    Perm = 1,
    /// `NBD_EIO`
    Io = 5,
    /// `NBD_ENOMEM`
    NoMem = 12,
    /// `NBD_EINVAL`
    Inval = 22,
    /// `NBD_ENOSPC`
    NoSpc = 28,
    /// `NBD_ENOTSUP`
    NotSup = 95,
    /// `NBD_ESHUTDOWN`
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
