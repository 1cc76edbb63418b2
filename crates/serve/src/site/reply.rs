//! Result of a request to a site: an answer, or content that has to be compressed for one.

use std::sync::Arc;

use super::folder_names::FolderNames;
use super::resource::{Resource, Variant};
use crate::compression::Key;
use crate::files::OpenFile;
use crate::http::Answer;

/// An answer, or one that can be made when its content is compressed, or when a share of the worker is free.
#[derive(Debug)]
pub enum Reply {
    Answer(Answer),
    Compress(CompressedReply),
    /// A folder of which the client wants an archive.
    Archive(FolderNames),
}

/// A file whose content the client prefers compressed.
#[derive(Debug)]
pub struct CompressedReply {
    pub(super) resource: Arc<Resource>,
    pub(super) variant: Arc<Variant>,
    key: Key,
}

impl CompressedReply {
    /// Makes the reply with a compressed variant of a site's file; `None` for a variant without a coding.
    pub(super) fn new(site: u64, resource: &Arc<Resource>, variant: &Arc<Variant>) -> Option<Self> {
        Some(Self {
            resource: Arc::clone(resource),
            variant: Arc::clone(variant),
            key: Key {
                site,
                path: Arc::clone(&resource.path),
                coding: variant.coding?,
            },
        })
    }

    /// Key of the content among the results of compression.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Entity tag of the compressed content.
    pub(crate) fn tag(&self) -> &[u8] {
        self.variant.tag()
    }

    /// The file that is compressed.
    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.variant.file
    }
}
