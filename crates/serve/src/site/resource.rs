//! A served file, with the header fields of its answers prepared.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::content::Memory;
use crate::files::OpenFile;
use crate::http::{
    Acceptable, Answer, Body, Coding, Etag, Field, Multipart, Piece, Validators, content_range,
};

/// Time after a change in which a file may change again with the same time of modification, since file systems have
/// coarse clocks.
const SETTLING: Duration = Duration::from_secs(2);

/// Length in bytes of the parts in which compressed content is sent.
const COMPRESSED_PART: usize = 256 << 10;

/// First second that HTTP cannot express, since its years have four digits.
const END_OF_DATES: u64 = 253_402_300_800;

/// A file, with the same content in other codings.
#[derive(Debug)]
pub struct Resource {
    /// The file without a coding.
    plain: Variant,
    coded: Vec<Variant>,
    /// Codings in which the file is compressed when it is requested, in the order of preference.
    compressed: Vec<Arc<Variant>>,
    /// Path of the file on its site.
    pub(super) path: Arc<[u8]>,
}

/// A file in one coding.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) file: Arc<OpenFile>,
    pub(super) coding: Option<Coding>,
    pub(super) content_type: HeaderValue,
    /// The fields of an answer with its content.
    pub(super) full: Arc<[Field]>,
    /// Fields of an answer without content, such as 304.
    pub(super) bare: Arc<[Field]>,
    etag: Box<[u8]>,
    is_weak: bool,
    modified: Option<u64>,
    /// Content of a short file, read when the file is requested again.
    content: OnceLock<Option<Bytes>>,
}

/// Values for a resource's fields that do not come from its files.
pub(super) struct FieldDefaults<'a> {
    pub(super) path: &'a [u8],
    /// Codings in which the file is compressed; empty if it is not.
    pub(super) compress: &'a [Coding],
    pub(super) content_type: HeaderValue,
    pub(super) cache_control: Option<HeaderValue>,
    /// Fields of every answer of the site.
    pub(super) common: &'a [Field],
    pub(super) now: SystemTime,
}

impl Resource {
    /// A file, and files with the same content in codings.
    pub(super) fn new(
        plain: OpenFile,
        coded: Vec<(Coding, OpenFile)>,
        defaults: &FieldDefaults<'_>,
    ) -> Self {
        let varies = !coded.is_empty() || !defaults.compress.is_empty();
        let plain = Variant::new(Arc::new(plain), VariantForm::Plain, varies, defaults);
        // The tag of a file that may change again with the same time does not tell its contents apart.
        let compress = match plain.is_weak {
            true => &[],
            false => defaults.compress,
        };
        let compressed = compress.iter().map(|&coding| {
            let (file, form) = (Arc::clone(&plain.file), VariantForm::Compressed(coding));
            Arc::new(Variant::new(file, form, varies, defaults))
        });
        let compressed = compressed.collect();
        let coded = coded.into_iter().map(|(coding, file)| {
            let form = VariantForm::Precompressed(coding);
            Variant::new(Arc::new(file), form, varies, defaults)
        });
        let coded = coded.collect();
        Self {
            plain,
            coded,
            compressed,
            path: defaults.path.into(),
        }
    }

    /// Number of files that it has open.
    pub(super) fn files(&self) -> usize {
        1 + self.coded.len()
    }

    /// Chooses the variant that the client prefers.
    pub(super) fn choose(&self, accept_encoding: Option<&[u8]>) -> &Variant {
        if self.coded.is_empty() {
            return &self.plain;
        }
        let find = |coding| {
            let mut coded = self.coded.iter();
            coded.find(|variant| variant.coding == Some(coding))
        };
        let mut there = Coding::ALL
            .into_iter()
            .filter(|&coding| find(coding).is_some());
        let chosen = Acceptable::parse(accept_encoding).choose(&mut there);
        chosen.and_then(find).unwrap_or(&self.plain)
    }

    /// Chooses the coding to compress the file in; `None` if the client prefers it as it is.
    pub(super) fn choose_compressed(
        &self,
        accept_encoding: Option<&[u8]>,
    ) -> Option<&Arc<Variant>> {
        if self.compressed.is_empty() {
            return None;
        }
        let acceptable = Acceptable::parse(accept_encoding);
        let there = self.compressed.iter().filter_map(|variant| variant.coding);
        let chosen = acceptable.choose(there)?;
        let mut compressed = self.compressed.iter();
        compressed.find(|variant| variant.coding == Some(chosen))
    }
}

/// VariantForm in which a variant's content is stored.
#[derive(Debug, Clone, Copy)]
enum VariantForm {
    Plain,
    Precompressed(Coding),
    /// The content is the plain file, and is compressed for the answer.
    Compressed(Coding),
}

impl Variant {
    fn new(
        file: Arc<OpenFile>,
        form: VariantForm,
        varies: bool,
        defaults: &FieldDefaults<'_>,
    ) -> Self {
        let (seconds, _) = file.modified();
        let (coding, suffix) = match form {
            VariantForm::Plain => (None, ""),
            VariantForm::Precompressed(coding) => (Some(coding), ""),
            VariantForm::Compressed(coding) => (Some(coding), coding.extension()),
        };
        let (etag, is_weak) = (tag(&file, suffix), !has_settled(&file, defaults.now));
        let now = defaults.now.duration_since(SystemTime::UNIX_EPOCH);
        let latest = now.map_or(0, |now| now.as_secs()).min(END_OF_DATES - 1);
        // A modification time in the future is not sent (RFC 9110, 8.8.2.1).
        let modified = u64::try_from(seconds).ok().filter(|&time| time <= latest);

        let mut bare = Vec::new();
        let weak = if is_weak { "W/" } else { "" };
        if let Ok(value) = HeaderValue::try_from(format!("{weak}{etag}")) {
            bare.push((header::ETAG, value));
        }
        if let Some(time) = modified {
            let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(time));
            if let Ok(value) = HeaderValue::try_from(date) {
                bare.push((header::LAST_MODIFIED, value));
            }
        }
        if let Some(value) = &defaults.cache_control {
            bare.push((header::CACHE_CONTROL, value.clone()));
        }
        if varies {
            bare.push((header::VARY, HeaderValue::from_static("accept-encoding")));
        }
        bare.extend_from_slice(defaults.common);

        let mut full = vec![(header::CONTENT_TYPE, defaults.content_type.clone())];
        if let Some(coding) = coding {
            let name = HeaderValue::from_static(coding.name());
            full.push((header::CONTENT_ENCODING, name));
        }
        if !matches!(form, VariantForm::Compressed(_)) {
            full.push((header::ACCEPT_RANGES, HeaderValue::from_static("bytes")));
        }
        full.extend_from_slice(&bare);
        Self {
            file,
            coding,
            content_type: defaults.content_type.clone(),
            full: full.into(),
            bare: bare.into(),
            etag: etag.into_bytes().into(),
            is_weak,
            modified,
            content: OnceLock::new(),
        }
    }

    /// Keeps the content of a short file in memory, unless the file may change again with the same time of modification.
    pub(super) fn keep_content(&self, memory: &Memory) {
        self.content.get_or_init(|| match self.is_weak {
            true => None,
            false => memory.read(&self.file),
        });
    }

    pub(super) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Etag {
                opaque: &self.etag,
                is_weak: self.is_weak,
            },
            modified: self.modified,
        }
    }

    /// Makes the answer with the whole content.
    pub(super) fn whole(&self, status: StatusCode) -> Answer {
        let body = match self.content.get() {
            Some(Some(content)) => Body::bytes(content.clone()),
            _ => Body::file(Arc::clone(&self.file), 0..self.file.size()),
        };
        Answer {
            status,
            shared: Some(Arc::clone(&self.full)),
            fields: Vec::new(),
            body,
        }
    }

    /// Makes the answer for a client that has this content.
    pub(super) fn not_modified(&self) -> Answer {
        let mut answer = self.whole(StatusCode::NOT_MODIFIED);
        answer.shared = Some(Arc::clone(&self.bare));
        answer
    }

    /// Makes the answer with content that was compressed, in parts between which other connections get their turn.
    pub(super) fn with_content(&self, content: &Bytes) -> Answer {
        let mut answer = self.whole(StatusCode::OK);
        answer.body = Body::default();
        for start in (0..content.len()).step_by(COMPRESSED_PART) {
            let end = content.len().min(start + COMPRESSED_PART);
            answer.body.push(Piece::Bytes(content.slice(start..end)));
        }
        answer
    }

    /// Entity tag of the content, with its quotation marks.
    pub(super) fn tag(&self) -> &[u8] {
        &self.etag
    }

    /// Makes an answer with a range of the content, which is not empty.
    pub(super) fn part(&self, range: Range<u64>) -> Answer {
        let mut answer = self.whole(StatusCode::PARTIAL_CONTENT);
        let value = content_range(&range, self.file.size());
        if let Ok(value) = HeaderValue::try_from(value) {
            answer.fields.push((header::CONTENT_RANGE, value));
        }
        answer.body = Body::file(Arc::clone(&self.file), range);
        answer
    }

    /// Makes an answer with several ranges, or with the whole content of a coded file: for that, `multipart/byteranges` is
    /// ambiguous about what is coded.
    pub(super) fn parts(&self, ranges: &[Range<u64>]) -> Answer {
        let multipart = if self.coding.is_none() {
            Multipart::new()
        } else {
            None
        };
        let Some((multipart, content_type)) =
            multipart.and_then(|parts| parts.content_type().map(|value| (parts, value)))
        else {
            return self.whole(StatusCode::OK);
        };
        Answer {
            status: StatusCode::PARTIAL_CONTENT,
            shared: Some(Arc::clone(&self.bare)),
            fields: vec![
                (header::CONTENT_TYPE, content_type),
                (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
            ],
            body: multipart.body(&self.file, &self.content_type, ranges),
        }
    }
}

/// Makes an entity tag that differs for any other content of this name, as far as the file system's metadata differ.
fn tag(file: &OpenFile, suffix: &str) -> String {
    let (seconds, nanoseconds) = file.modified();
    let time = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    format!("\"{time:x}-{:x}-{}{suffix}\"", file.size(), file.identity())
}

/// Returns whether the last modification is old enough that another one would have a different time.
fn has_settled(file: &OpenFile, now: SystemTime) -> bool {
    let (seconds, nanoseconds) = file.settled_from();
    let Ok(seconds) = u64::try_from(seconds) else {
        return true;
    };
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::new(seconds, nanoseconds))
        .and_then(|changed| changed.checked_add(SETTLING))
        .is_some_and(|settled| settled <= now)
}
