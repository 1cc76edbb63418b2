//! A LUKS2 header: two copies of a binary header and a JSON area, then the key slots area.

mod binary;
mod convert;
mod copies;
mod edit;
mod format;
mod keyslots;
mod limits;
mod metadata;
mod node;
mod restore;
mod text;
mod token;
mod write;

use scrim_foreign::Foreign;
use serde_json::{Map, Value};

use binary::Binary;
use metadata::Areas;

use crate::error::{CopyFault, WriteError};
use crate::header_copy::HeaderCopy;
use crate::metadata::Metadata;

pub(crate) use convert::CONVERTED_COPIES;
pub(crate) use copies::{Copies, has_secondary, parse_copies, remains};
pub use format::FormatSpec;
pub(crate) use format::make;

/// A checked LUKS2 header.
#[derive(Debug, Clone)]
pub struct Header {
    // Boxed, or else a header of either version would take the size of this one.
    binary: Box<Binary>,
    document: Map<String, Value>,
    metadata: Metadata,
    areas: Areas,
    /// The copy that an update overwrites first: the damaged or older one, if one is.
    worse: HeaderCopy,
}

impl Header {
    /// Reads and checks the copy at `offset`.
    fn read(area: &[u8], copy: HeaderCopy, offset: u64) -> Result<Self, CopyFault> {
        let (binary, json) = binary::read(area, copy, offset)?;
        let document = text::parse(json)?;
        let (metadata, areas) = metadata::parse(&document, binary.hdr_size)?;
        Ok(Self {
            binary: Box::new(binary),
            document,
            metadata,
            areas,
            worse: HeaderCopy::Primary,
        })
    }

    /// The sequence number, which `luksDump` calls epoch.
    #[must_use]
    pub fn seqid(&self) -> u64 {
        self.binary.seqid
    }

    /// Bytes of one copy, binary header and JSON area.
    #[must_use]
    pub fn metadata_size(&self) -> u64 {
        self.binary.hdr_size
    }

    /// Bytes of the key slots area, which starts behind both copies.
    #[must_use]
    pub fn keyslots_size(&self) -> u64 {
        self.areas.keyslots_size
    }

    /// The UUID as stored.
    #[must_use]
    pub fn uuid(&self) -> Foreign<&str> {
        Foreign::new(&self.binary.uuid)
    }

    /// The label, if it has one.
    #[must_use]
    pub fn label(&self) -> Option<Foreign<&str>> {
        not_empty(&self.binary.label)
    }

    /// The subsystem label, if it has one.
    #[must_use]
    pub fn subsystem(&self) -> Option<Foreign<&str>> {
        not_empty(&self.binary.subsystem)
    }

    /// The checksum algorithm of both copies.
    #[must_use]
    pub fn checksum_algorithm(&self) -> &str {
        &self.binary.checksum.name
    }

    /// The JSON metadata as stored.
    #[must_use]
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// The first byte behind the key slots area.
    #[must_use]
    pub fn header_end(&self) -> u64 {
        self.areas.keyslots().end
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Changes the document, if it would then still be accepted from a disk.
    pub(crate) fn change_document(
        &mut self,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), WriteError> {
        let mut document = self.document.clone();
        change(&mut document);
        self.set_document(document)
    }

    /// Takes a changed document, if it would be accepted from a disk.
    fn set_document(&mut self, document: Map<String, Value>) -> Result<(), WriteError> {
        let (metadata, areas) =
            metadata::parse(&document, self.binary.hdr_size).map_err(WriteError::Refused)?;
        self.document = document;
        self.metadata = metadata;
        self.areas = areas;
        Ok(())
    }
}

fn not_empty(text: &str) -> Option<Foreign<&str>> {
    (!text.is_empty()).then_some(Foreign::new(text))
}
