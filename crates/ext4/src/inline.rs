//! Content in an inode ("Inline Data"): what has no room in its first 60 bytes is an extended attribute.

use crate::Error;
use crate::fields::{u16_at, u32_at};
use crate::layout::{EXTRA, ROOT, ROOT_LEN, extra_len};

/// Magic number before the attributes in an inode.
const MAGIC: u32 = 0xea02_0000;
/// Bytes of an attribute's entry before its name.
const ENTRY: usize = 16;
/// The prefix `system.`, by its number.
const SYSTEM: u8 = 7;

/// All content of the inode `number`, which is `size` bytes long. `bytes` is the whole inode.
pub(crate) fn data(
    number: u32,
    size: u64,
    is_folder: bool,
    bytes: &[u8],
) -> Result<Box<[u8]>, Error> {
    let mut data = bytes[ROOT..ROOT + ROOT_LEN].to_vec();
    if let Some(attributes) = attributes(bytes) {
        let wrong = || Error::corrupt("the attribute with its content", number);
        data.extend_from_slice(content(attributes).ok_or_else(wrong)?);
    }
    let Ok(size) = usize::try_from(size) else {
        return Err(Error::corrupt("the size of its inline content", number));
    };
    if size > data.len() {
        return Err(Error::corrupt("the size of its inline content", number));
    }
    // A folder's entries fill all of it.
    if !is_folder {
        data.truncate(size);
    }
    Ok(data.into())
}

/// Returns whether an inode holds extended attributes besides its content.
pub(crate) fn has_attributes(bytes: &[u8]) -> bool {
    let mut rest = attributes(bytes).unwrap_or_default();
    while u32_at(rest, 0) != 0 {
        match split_entry(rest) {
            Some((entry, next)) if is_content(entry) => rest = next,
            _ => return true,
        }
    }
    false
}

/// The attributes in an inode, from the first entry on.
fn attributes(bytes: &[u8]) -> Option<&[u8]> {
    let area = bytes.get(EXTRA + extra_len(bytes)..)?;
    let has_any = bytes.len() > EXTRA && u32_at(area, 0) == MAGIC;
    has_any.then(|| area.get(4..))?
}

/// The value of `system.data`, empty for an inode without it.
fn content(attributes: &[u8]) -> Option<&[u8]> {
    let mut rest = attributes;
    while u32_at(rest, 0) != 0 {
        let (entry, next) = split_entry(rest)?;
        if is_content(entry) {
            // A value may also have an inode of its own; this one never has.
            if u32_at(entry, 4) != 0 {
                return None;
            }
            let from = usize::from(u16_at(entry, 2));
            let len = usize::try_from(u32_at(entry, 8)).ok()?;
            return attributes.get(from..from.checked_add(len)?);
        }
        rest = next;
    }
    Some(&[])
}

/// The first entry, with its name, and the bytes behind it.
fn split_entry(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = ENTRY + usize::from(*rest.first()?);
    Some((
        rest.get(..len)?,
        rest.get(len.next_multiple_of(4)..).unwrap_or_default(),
    ))
}

/// Returns whether an entry is that of `system.data`.
fn is_content(entry: &[u8]) -> bool {
    entry.get(1) == Some(&SYSTEM) && entry.get(ENTRY..) == Some(b"data")
}

/// Entries of a folder in an inode, with their offsets: behind its parent's number, and in the attribute.
pub(crate) fn folder_parts(data: &[u8]) -> [(u64, &[u8]); 2] {
    let (first, second) = data.split_at(ROOT_LEN.min(data.len()));
    let behind = first.get(4..).unwrap_or_default();
    [(4, behind), (ROOT_LEN as u64, second)]
}
