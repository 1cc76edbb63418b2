//! Apptainer's and Singularity's images (SIF): the place of the encrypted partition.
//!
//! A SIF has a header of 128 bytes, a list of descriptors of 585 bytes, and objects, of which one may be a LUKS2 volume
//! that holds squashfs. All numbers are little-endian. None is trusted: an image with one out of its bounds is refused.
//! This file is compiled into a fuzz target too, so it needs nothing else of the program.

use std::fmt;
use std::ops::Range;

use scrim_backend::{Backend, BackendError};

/// Length of the header, in bytes.
const HEADER: usize = 128;
/// Place of the magic, behind the line that starts the image as a script.
const MAGIC: Range<usize> = 32..42;
/// The only version, in two digits.
const VERSION: &[u8] = b"01\0";
/// Length of a descriptor, in bytes.
const DESCRIPTOR: usize = 585;
/// Most descriptors that are read; programs make 48.
const DESCRIPTORS_MAX: u64 = 4096;

/// Kind of the objects that hold a file system.
const PARTITION: u32 = 0x4004;
/// Kind of the objects that hold a key or a signature.
const CRYPTO_MESSAGE: u32 = 0x4008;
/// File system of a partition: squashfs in a LUKS volume.
const ENCRYPTED_SQUASHFS: u32 = 5;
/// Use of a partition: that of the container's system.
const PRIMARY: u32 = 2;
/// Format of a message that is text with a base64 block.
const PEM: u32 = 2;
/// Content of a message: bytes that are encrypted for an RSA key.
const RSA_OAEP: u32 = 0x200;

/// An encrypted partition of a SIF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncryptedPartition {
    /// Number of the object.
    pub(crate) id: u32,
    /// True for the partition of the container's system.
    pub(crate) is_primary: bool,
    /// Place in the image, in bytes.
    pub(crate) range: Range<u64>,
    /// Object with the passphrase, encrypted for an RSA key, and its place in bytes.
    pub(crate) sealed_key: Option<(u32, Range<u64>)>,
}

/// Reason for which a SIF's volume is not found.
#[derive(Debug)]
pub(crate) enum SifError {
    /// The image could not be read.
    Storage(BackendError),
    /// A field of the header has a value that it cannot have.
    Header(&'static str),
    /// A field of an object has a value that it cannot have.
    Object { index: usize, field: &'static str },
    /// Two objects share bytes.
    Overlap { id: u32, other: u32 },
    /// No partition is encrypted. `partitions` is the number of the others.
    NotEncrypted { partitions: usize },
    /// Several partitions are encrypted, and not exactly one is that of the system.
    Several(Vec<EncryptedPartition>),
}

impl fmt::Display for SifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Header(field) => write!(
                f,
                "the SIF image is damaged: the {field} in its header is out of bounds; get the image again"
            ),
            Self::Object { index, field } => write!(
                f,
                "the SIF image is damaged: the {field} of descriptor {index} is out of bounds; get the image again"
            ),
            Self::Overlap { id, other } => write!(
                f,
                "the SIF image is damaged: object {id} shares bytes with object {other}; get the image again"
            ),
            Self::NotEncrypted { partitions: 0 } => {
                f.write_str("the SIF image has no partition, so there is no volume to open")
            }
            Self::NotEncrypted { .. } => f.write_str(
                "the SIF image has no encrypted partition; what it has needs no key: squashfuse -o offset=BYTES mounts \
                 it",
            ),
            Self::Several(partitions) => {
                f.write_str("the SIF image has several encrypted partitions; name one by")?;
                for (index, partition) in partitions.iter().enumerate() {
                    let EncryptedPartition { id, range, .. } = partition;
                    let (start, len) = (range.start, range.end - range.start);
                    let comma = if index == 0 { "" } else { ", or" };
                    write!(f, "{comma} --image-offset {start} --image-size {len} (object {id})")?;
                }
                Ok(())
            }
        }
    }
}

/// Finds the encrypted partition of a SIF; `None` if the image is none.
///
/// # Errors
/// When it is damaged, or no encrypted partition can be chosen.
pub(crate) fn encrypted_partition(
    image: &dyn Backend,
) -> Result<Option<EncryptedPartition>, SifError> {
    let size = image.info().size;
    let mut header = [0; HEADER];
    if size < HEADER as u64 {
        return Ok(None);
    }
    image.read_at(0, &mut header).map_err(SifError::Storage)?;
    if &header[MAGIC] != b"SIF_MAGIC\0" {
        return Ok(None);
    }
    let header = Header::parse(&header, size)?;
    let mut descriptors = vec![0; header.count * DESCRIPTOR];
    let read = image.read_at(header.descriptors, &mut descriptors);
    read.map_err(SifError::Storage)?;
    let mut objects = Vec::new();
    for (index, bytes) in descriptors.chunks_exact(DESCRIPTOR).enumerate() {
        objects.extend(Object::parse(index, bytes, &header)?);
    }
    if objects.len() != header.used {
        return Err(SifError::Header("number of free descriptors"));
    }
    choose(&objects).map(Some)
}

/// Fields of the header that are used.
struct Header {
    /// Number of descriptors, in use or not.
    count: usize,
    /// Number of descriptors in use.
    used: usize,
    /// Place of the descriptors.
    descriptors: u64,
    /// Place of the objects.
    data: Range<u64>,
}

impl Header {
    fn parse(bytes: &[u8; HEADER], size: u64) -> Result<Self, SifError> {
        if &bytes[42..45] != VERSION {
            return Err(SifError::Header("version"));
        }
        let [free, total, descriptors, descriptors_len, data, data_len] =
            [80, 88, 96, 104, 112, 120].map(|at| le64(bytes, at));
        let count = total.filter(|total| (1..=DESCRIPTORS_MAX).contains(total));
        let count = count.ok_or(SifError::Header("number of descriptors"))?;
        let used = free.and_then(|free| count.checked_sub(free));
        let used = used.ok_or(SifError::Header("number of free descriptors"))?;
        let descriptors = descriptors.filter(|&at| at >= HEADER as u64);
        let descriptors = descriptors.ok_or(SifError::Header("place of the descriptors"))?;
        let end = descriptors_len
            .filter(|&len| len >= count * DESCRIPTOR as u64)
            .and_then(|len| descriptors.checked_add(len))
            .filter(|&end| end <= size)
            .ok_or(SifError::Header("length of the descriptors"))?;
        let data = data.filter(|&data| data >= end && data <= size);
        let data = data.ok_or(SifError::Header("place of the data"))?;
        let data_end = data_len
            .and_then(|len| data.checked_add(len))
            .filter(|&end| end <= size)
            .ok_or(SifError::Header("length of the data"))?;
        let number =
            |number| usize::try_from(number).map_err(|_| SifError::Header("number of descriptors"));
        Ok(Self {
            count: number(count)?,
            used: number(used)?,
            descriptors,
            data: data..data_end,
        })
    }
}

/// An object of the image.
struct Object {
    kind: u32,
    id: u32,
    /// Object to which it belongs.
    link: u32,
    range: Range<u64>,
    /// The first two numbers of what only its kind has.
    extra: [u32; 2],
}

impl Object {
    /// Parses a descriptor; `None` if it is not in use.
    fn parse(index: usize, bytes: &[u8], header: &Header) -> Result<Option<Self>, SifError> {
        let wrong = |field| SifError::Object { index, field };
        match bytes[4] {
            0 => return Ok(None),
            1 => {}
            _ => return Err(wrong("mark of use")),
        }
        let number = |at: usize| le32(bytes, at).ok_or(wrong("length"));
        let (kind, id, link) = (number(0)?, number(5)?, number(13)?);
        // More kinds are added to the list from time to time.
        if !(0x4001..0x4100).contains(&kind) {
            return Err(wrong("kind"));
        }
        if id == 0 {
            return Err(wrong("number"));
        }
        let [start, len, padded] = [17, 25, 33].map(|at| le64(bytes, at));
        let len = len.ok_or(wrong("size"))?;
        let start = start
            .filter(|start| header.data.contains(start) || (len == 0 && *start == header.data.end));
        let start = start.ok_or(wrong("place"))?;
        let end = start.checked_add(len).filter(|&end| end <= header.data.end);
        let end = end.ok_or(wrong("size"))?;
        if padded.is_none_or(|padded| padded < len) {
            return Err(wrong("size with padding"));
        }
        let extra = [number(201)?, number(205)?];
        if kind == PARTITION && !(1..=0xff).contains(&extra[0]) {
            return Err(wrong("file system"));
        }
        if kind == PARTITION && !(1..=0xff).contains(&extra[1]) {
            return Err(wrong("use of the partition"));
        }
        let range = start..end;
        Ok(Some(Self {
            kind,
            id,
            link,
            range,
            extra,
        }))
    }

    fn is_encrypted(&self) -> bool {
        self.kind == PARTITION && self.extra[0] == ENCRYPTED_SQUASHFS
    }
}

/// Chooses the encrypted partition of the system, or the only one.
fn choose(objects: &[Object]) -> Result<EncryptedPartition, SifError> {
    let mut encrypted = Vec::new();
    for object in objects.iter().filter(|object| object.is_encrypted()) {
        let sector = 512;
        if object.range.is_empty() || !object.range.start.is_multiple_of(sector) {
            let index = objects.iter().position(|other| std::ptr::eq(other, object));
            let (index, field) = (index.unwrap_or(0), "place");
            return Err(SifError::Object { index, field });
        }
        let shares = |other: &&Object| {
            !std::ptr::eq(*other, object)
                && other.range.start < object.range.end
                && object.range.start < other.range.end
        };
        if let Some(other) = objects.iter().find(shares) {
            let (id, other) = (object.id, other.id);
            return Err(SifError::Overlap { id, other });
        }
        let is_key = |other: &&Object| {
            other.kind == CRYPTO_MESSAGE
                && other.link == object.id
                && other.extra == [PEM, RSA_OAEP]
        };
        let key = objects.iter().find(is_key);
        encrypted.push(EncryptedPartition {
            id: object.id,
            is_primary: object.extra[1] == PRIMARY,
            range: object.range.clone(),
            sealed_key: key.map(|key| (key.id, key.range.clone())),
        });
    }
    let mut primary = encrypted.iter().filter(|partition| partition.is_primary);
    match (primary.next(), primary.next(), &encrypted[..]) {
        (Some(one), None, _) | (None, _, [one]) => Ok(one.clone()),
        (_, _, []) => Err(SifError::NotEncrypted {
            partitions: objects
                .iter()
                .filter(|object| object.kind == PARTITION)
                .count(),
        }),
        _ => Err(SifError::Several(encrypted)),
    }
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// A number that is stored with a sign; `None` if it is negative.
fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    u64::try_from(i64::from_le_bytes(*bytes)).ok()
}

#[cfg(test)]
mod tests {
    use scrim_backend::MemoryBackend;

    use super::*;

    /// Fields of a descriptor: kind, number, link, place, size, and the first two numbers of its kind.
    type Fields = (u32, u32, u32, u64, u64, [u32; 2]);

    const SYSTEM: Fields = (PARTITION, 2, 0, 36_864, 8192, [ENCRYPTED_SQUASHFS, PRIMARY]);
    const DEFINITION: Fields = (0x4001, 1, 0, 32_768, 100, [0, 0]);
    const SEALED: Fields = (CRYPTO_MESSAGE, 3, 2, 45_056, 500, [PEM, RSA_OAEP]);

    /// An image with these objects, as Apptainer lays it out.
    fn image(objects: &[Fields]) -> Vec<u8> {
        let mut bytes = vec![0; 65_536];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, b"#!/usr/bin/env run-singularity\n");
        put(32, b"SIF_MAGIC\x0001\x0002\x00");
        let numbers = [
            48 - objects.len() as u64,
            48,
            4096,
            48 * 585,
            32_768,
            32_768,
        ];
        for (index, number) in numbers.into_iter().enumerate() {
            put(80 + 8 * index, &number.to_le_bytes());
        }
        for (index, &(kind, id, link, start, len, extra)) in objects.iter().enumerate() {
            let at = 4096 + DESCRIPTOR * index;
            put(at, &kind.to_le_bytes());
            put(at + 4, &[1]);
            put(at + 5, &id.to_le_bytes());
            put(at + 13, &link.to_le_bytes());
            for (field, number) in [(17, start), (25, len), (33, len + 4000)] {
                put(at + field, &number.to_le_bytes());
            }
            put(at + 201, &extra[0].to_le_bytes());
            put(at + 205, &extra[1].to_le_bytes());
        }
        bytes
    }

    fn found(bytes: Vec<u8>) -> Result<Option<EncryptedPartition>, SifError> {
        encrypted_partition(&MemoryBackend::new(bytes))
    }

    fn refused(bytes: Vec<u8>) -> String {
        found(bytes).unwrap_err().to_string()
    }

    #[test]
    fn the_encrypted_partition_is_found_with_its_key() {
        let system = found(image(&[DEFINITION, SYSTEM, SEALED]))
            .unwrap()
            .unwrap();
        let expected = EncryptedPartition {
            id: 2,
            is_primary: true,
            range: 36_864..45_056,
            sealed_key: Some((3, 45_056..45_556)),
        };
        assert_eq!(system, expected);
        // Beside another one; and one that is not of the system, alone.
        let data = (PARTITION, 4, 0, 49_152, 4096, [ENCRYPTED_SQUASHFS, 3]);
        assert_eq!(found(image(&[data, SYSTEM])).unwrap().unwrap().id, 2);
        assert_eq!(found(image(&[data])).unwrap().unwrap().id, 4);
        // A message for another partition, or in another format, is not its key.
        let others = [
            (SEALED.0, 3, 9, 45_056, 500, SEALED.5),
            (SEALED.0, 5, 2, 46_000, 5, [1, 0x100]),
        ];
        let system = found(image(&[SYSTEM, others[0], others[1]]))
            .unwrap()
            .unwrap();
        assert_eq!(system.sealed_key, None);
    }

    #[test]
    fn what_is_no_sif_is_left_alone() {
        for bytes in [
            vec![],
            vec![0; 127],
            vec![0; 4096],
            b"LUKS\xba\xbe\0\x02".repeat(600),
        ] {
            assert!(matches!(found(bytes), Ok(None)));
        }
        let mut bytes = image(&[SYSTEM]);
        bytes[41] = 1;
        assert!(matches!(found(bytes), Ok(None)));
    }

    #[test]
    fn an_image_without_a_volume_and_one_with_several_say_so() {
        let plain = (PARTITION, 1, 0, 32_768, 4096, [1, PRIMARY]);
        assert!(refused(image(&[])).contains("has no partition"));
        assert!(refused(image(&[plain, DEFINITION])).contains("no encrypted partition"));
        let data = |id, start| (PARTITION, id, 0, start, 4096, [ENCRYPTED_SQUASHFS, 3]);
        let said = refused(image(&[data(4, 49_152), data(5, 57_344)]));
        assert!(
            said.contains(
                "--image-offset 49152 --image-size 4096 (object 4), or --image-offset 57344"
            ),
            "{said}"
        );
        let second = (PARTITION, 7, 0, 49_152, 4096, SYSTEM.5);
        assert!(refused(image(&[SYSTEM, second])).contains("several"));
    }

    /// Every field that is used, with values that it cannot have.
    #[test]
    fn every_field_out_of_its_bounds_is_refused() {
        let (far, negative) = (1u64 << 40, u64::MAX);
        let header: [(usize, &[u64], &str); 6] = [
            (80, &[0, 46, 49, negative], "number of free descriptors"),
            (88, &[0, 1, 4097, far, negative], "descriptors"),
            (96, &[0, 127, 65_536, far, negative], "descriptors"),
            (
                104,
                &[0, 584, 48 * 585 - 1, far, negative],
                "length of the descriptors",
            ),
            (
                112,
                &[0, 4096 + 48 * 585 - 1, 65_537, far, negative],
                "place of the data",
            ),
            (120, &[32_769, far, negative], "length of the data"),
        ];
        for (at, values, expected) in header {
            for value in values {
                let mut bytes = image(&[DEFINITION, SYSTEM, SEALED]);
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
                let said = refused(bytes);
                assert!(said.contains(expected), "{at} {value}: {said}");
            }
        }
        for version in [b"00\0", b"02\0", b"011"] {
            let mut bytes = image(&[SYSTEM]);
            bytes[42..45].copy_from_slice(version);
            assert!(refused(bytes).contains("version"));
        }
        let descriptor = 4096 + DESCRIPTOR;
        let wide: [(usize, &[u64], &str); 3] = [
            (
                17,
                &[0, 32_767, 36_865, 36_864 - 512 * 8, 65_536, far, negative],
                "place",
            ),
            (25, &[0, 28_673, far, negative], ""),
            (33, &[0, 8191, negative], "size with padding"),
        ];
        for (at, values, expected) in wide {
            for value in values {
                let mut bytes = image(&[DEFINITION, SYSTEM, SEALED]);
                let at = descriptor + at;
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
                let said = refused(bytes);
                let is_overlap = said.contains("shares bytes");
                assert!(
                    is_overlap || said.contains(expected),
                    "{at} {value}: {said}"
                );
                assert!(said.contains("damaged"), "{said}");
            }
        }
        let narrow: [(usize, &[u32], &str); 4] = [
            (0, &[0, 0x4000, 0x4100, u32::MAX], "kind"),
            (5, &[0], "number"),
            (201, &[0, 256, u32::MAX], "file system"),
            (205, &[0, 256, u32::MAX], "use of the partition"),
        ];
        for (at, values, expected) in narrow {
            for value in values {
                let mut bytes = image(&[DEFINITION, SYSTEM, SEALED]);
                let at = descriptor + at;
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                let said = refused(bytes);
                assert!(
                    said.contains(expected) && said.contains("descriptor 1"),
                    "{said}"
                );
            }
        }
        let mut bytes = image(&[DEFINITION, SYSTEM]);
        bytes[descriptor + 4] = 2;
        assert!(refused(bytes).contains("mark of use"));
    }

    #[test]
    fn an_image_that_was_cut_short_is_refused_and_never_read_behind_its_end() {
        let whole = image(&[DEFINITION, SYSTEM, SEALED]);
        for len in (128..whole.len()).step_by(509) {
            let said = refused(whole[..len].to_vec());
            assert!(said.contains("damaged"), "{len}: {said}");
        }
    }
}
