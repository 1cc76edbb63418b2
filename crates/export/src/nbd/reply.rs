//! Encoding of replies of the transmission phase (specification, sections "Simple reply message"
//! and "Structured reply chunk message").

use crate::range::Range;
use scrim_nbd::wire::{
    BASE_ALLOCATION_ID, CHUNK_HEADER, REPLY_FLAG_DONE, SIMPLE_HEADER, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, WireError, chunk,
};

/// Bytes of a content chunk before its data: header and offset.
pub(super) const DATA_HEADER: usize = CHUNK_HEADER + 8;

/// Most bytes any reply here takes, data aside: an error chunk with the longest reason.
pub(super) const REPLY_MAX: usize = 256;

/// A simple reply; the data of a successful read follows it.
pub(super) fn simple(cookie: u64, error: Option<WireError>) -> [u8; SIMPLE_HEADER] {
    let code = error.map_or(0, |error| error as u32);
    join([
        &SIMPLE_REPLY_MAGIC.to_be_bytes(),
        &code.to_be_bytes(),
        &cookie.to_be_bytes(),
    ])
}

/// The chunk that ends a reply and says no more.
pub(super) fn done(cookie: u64) -> [u8; CHUNK_HEADER] {
    chunk_header(Last::Yes, chunk::NONE, cookie, 0)
}

/// The beginning of a content chunk; the data of `range` follows it.
pub(super) fn data(last: Last, cookie: u64, range: Range) -> [u8; DATA_HEADER] {
    // A read is at most 32 MiB long.
    let len = range.len.saturating_add(8);
    let header = chunk_header(last, chunk::OFFSET_DATA, cookie, len);
    join([&header, &range.offset.to_be_bytes()])
}

/// One extent from the request's offset on, allocated and not known to be zero: an encrypted hole
/// reads as noise, so holes are never told.
pub(super) fn allocated(cookie: u64, len: u32) -> [u8; CHUNK_HEADER + 12] {
    let header = chunk_header(Last::Yes, chunk::BLOCK_STATUS, cookie, 12);
    join([
        &header,
        &BASE_ALLOCATION_ID.to_be_bytes(),
        &len.to_be_bytes(),
        &0u32.to_be_bytes(),
    ])
}

/// An error chunk that ends a reply; `offset` is where a read failed after data had been sent.
pub(super) fn error(cookie: u64, error: WireError, reason: &str, offset: Option<u64>) -> Vec<u8> {
    let mut payload = Vec::with_capacity(REPLY_MAX);
    let reason = &reason.as_bytes()[..reason.len().min(REPLY_MAX / 2)];
    payload.extend((error as u32).to_be_bytes());
    payload.extend(u16::try_from(reason.len()).unwrap_or(0).to_be_bytes());
    payload.extend(reason);
    let kind = match offset {
        Some(offset) => {
            payload.extend(offset.to_be_bytes());
            chunk::ERROR_OFFSET
        }
        None => chunk::ERROR,
    };
    let len = u32::try_from(payload.len()).unwrap_or(0);
    let mut reply = chunk_header(Last::Yes, kind, cookie, len).to_vec();
    reply.append(&mut payload);
    reply
}

/// Tells whether a chunk is the last of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Yes,
    No,
}

fn chunk_header(last: Last, kind: u16, cookie: u64, len: u32) -> [u8; CHUNK_HEADER] {
    let flags = match last {
        Last::Yes => REPLY_FLAG_DONE,
        Last::No => 0,
    };
    join([
        &STRUCTURED_REPLY_MAGIC.to_be_bytes(),
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &len.to_be_bytes(),
    ])
}

/// Joins fields whose lengths add up to `N`.
fn join<const N: usize, const M: usize>(fields: [&[u8]; M]) -> [u8; N] {
    let mut joined = [0; N];
    let mut rest = joined.as_mut_slice();
    for field in fields {
        let (now, later) = rest.split_at_mut(field.len());
        now.copy_from_slice(field);
        rest = later;
    }
    debug_assert!(rest.is_empty());
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_layout_of_the_specification() {
        assert_eq!(
            simple(0x0102_0304_0506_0708, Some(WireError::NoSpc)),
            *b"\x67\x44\x66\x98\0\0\0\x1c\x01\x02\x03\x04\x05\x06\x07\x08"
        );
        assert_eq!(simple(9, None)[4..8], [0; 4]);
        assert_eq!(
            done(7),
            *b"\x66\x8e\x33\xef\0\x01\0\0\0\0\0\0\0\0\0\x07\0\0\0\0"
        );
        assert_eq!(
            data(
                Last::No,
                7,
                Range {
                    offset: 0x1000,
                    len: 512
                }
            ),
            *b"\x66\x8e\x33\xef\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\x02\x08\0\0\0\0\0\0\x10\0"
        );
        assert_eq!(
            allocated(7, 4096),
            *b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x07\0\0\0\x0c\
               \0\0\0\x01\0\0\x10\0\0\0\0\0"
        );
        assert_eq!(
            error(7, WireError::Io, "no", None),
            b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x07\0\0\0\x08\0\0\0\x05\0\x02no"
        );
        assert_eq!(
            error(7, WireError::Io, "", Some(3)),
            b"\x66\x8e\x33\xef\0\x01\x80\x02\0\0\0\0\0\0\0\x07\0\0\0\x0e\
              \0\0\0\x05\0\0\0\0\0\0\0\0\0\x03"
        );
    }

    #[test]
    fn a_long_reason_is_cut() {
        let reply = error(7, WireError::Io, &"x".repeat(5000), Some(3));
        assert!(reply.len() <= REPLY_MAX);
    }
}
