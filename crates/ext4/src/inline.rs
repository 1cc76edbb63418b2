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
    let start = EXTRA + extra_len(bytes);
    let attributes = bytes.get(start..).unwrap_or_default();
    if bytes.len() > EXTRA && u32_at(attributes, 0) == MAGIC {
        let wrong = || Error::corrupt("the attribute with its content", number);
        data.extend_from_slice(attribute(&attributes[4..]).ok_or_else(wrong)?);
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

/// The value of `system.data`, empty for an inode without it.
fn attribute(attributes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        let entry = attributes.get(at..)?;
        if u32_at(entry, 0) == 0 {
            return Some(&[]);
        }
        let &[name_len, prefix, ..] = entry else {
            return None;
        };
        let name_len = usize::from(name_len);
        if prefix == SYSTEM && entry.get(ENTRY..ENTRY + name_len)? == b"data" {
            // A value may also have an inode of its own; this one never has.
            if u32_at(entry, 4) != 0 {
                return None;
            }
            let from = usize::from(u16_at(entry, 2));
            let len = usize::try_from(u32_at(entry, 8)).ok()?;
            return attributes.get(from..from.checked_add(len)?);
        }
        at += (ENTRY + name_len).next_multiple_of(4);
    }
}

/// Entries of a folder in an inode: behind its parent's number, and in the attribute.
pub(crate) fn folder_parts(data: &[u8]) -> [&[u8]; 2] {
    let (first, second) = data.split_at(ROOT_LEN.min(data.len()));
    [first.get(4..).unwrap_or_default(), second]
}
