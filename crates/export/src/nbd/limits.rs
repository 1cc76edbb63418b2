//! Limits of the protocol, beside [those of every server](crate::limits).

/// Options a client may send in one handshake.
pub const OPTIONS: u32 = 256;

/// Bytes of data that an option may carry to be looked at. The longest useful one, `NBD_OPT_GO`,
/// carries a name of 4096 bytes and a few numbers.
pub const OPTION_DATA: u32 = 16 << 10;

/// Bytes of data that an option may carry to be skipped and refused with `NBD_REP_ERR_TOO_BIG`; a
/// client that announces more is disconnected.
pub const OPTION_SKIPPED: u32 = 1 << 20;

/// Bytes one `NBD_CMD_READ` or `NBD_CMD_WRITE` may carry: what the protocol asks of every server,
/// and what is advertised as the maximum block size. Other commands carry no data and may cover any
/// 32-bit length.
pub const PAYLOAD: u32 = 32 << 20;
