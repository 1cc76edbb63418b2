//! A site, and its answers to requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::cache::Cache;
use super::error::SiteError;
use super::fallback::Fallback;
use super::folder_names::{FolderNames, archive_is_wanted};
use super::listing::{Form, Listing};
use super::node::{Folder, Node};
use super::page::{self, allow};
use super::path::FilePath;
use super::pattern::Pattern;
use super::reply::{CompressedReply, Reply};
use super::resource::{FieldDefaults, Resource, Variant};
use super::settings::Settings;
use super::setup::{ErrorPages, common_fields, error_pages, rules, with_common};
use super::text;
use super::tree::Tree;
use super::types::{Types, extension, is_compressible};
use crate::access::Access;
use crate::files::{OpenFile, StorageError};
use crate::http::{Answer, Body, Coding, Field, Method, Ranges, Request, Verdict};

/// Length in bytes of the shortest file that is compressed: shorter ones fit into a packet as they are.
const COMPRESS_MIN_BYTES: u64 = 1 << 10;

/// A virtual host: its files and settings.
#[derive(Debug)]
pub struct Site {
    /// Number that distinguishes the site in a [`Cache`].
    id: u64,
    tree: Tree,
    index: Vec<String>,
    fallback: Option<Fallback>,
    listings: bool,
    archives: bool,
    dot_files: bool,
    codings: Vec<Coding>,
    compress: Vec<Coding>,
    compress_max_bytes: u64,
    rules: Vec<(Pattern, HeaderValue)>,
    types: Types,
    detect_text: bool,
    /// Fields of every answer.
    common: Arc<[Field]>,
    /// Fields of pages of this server.
    page_fields: Arc<[Field]>,
    json_fields: Arc<[Field]>,
    errors: ErrorPages,
    access: Option<Box<Access>>,
}

/// Result of resolving a target. [`Site::find`] needs no [`Cache`], so that another thread can wait for the file system.
#[derive(Debug)]
pub enum Found {
    Resource(Arc<Resource>),
    /// The site's fallback, for a path that names no file.
    Fallback(Arc<Resource>),
    /// A folder of which the client wants an archive.
    Archive(FolderNames),
    /// An answer that is the same for all requests of this target.
    Answer(Box<Answer>),
}

impl Site {
    /// Opens a site's folder, and reads its error pages.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn open(settings: &Settings) -> Result<Self, SiteError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let tree = Tree::open(settings)?;
        for name in &settings.index {
            if matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\0']) {
                return Err(SiteError::Index { name: name.clone() });
            }
        }
        let fallback = settings.fallback.as_deref();
        let fallback = fallback.map(|path| Fallback::open(path, &tree, settings.dot_files));
        let common = common_fields(settings)?;
        let with = |fields: &[Field]| with_common(fields.to_vec(), &common);
        let [policy, referrer] = page::page_fields();
        let page_fields = with(&[page::html_type(), policy, referrer]);
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tree,
            index: settings.index.clone(),
            fallback: fallback.transpose()?,
            listings: settings.listings,
            archives: settings.archives,
            dot_files: settings.dot_files,
            codings: settings.precompressed.clone(),
            compress: settings.compress.clone(),
            compress_max_bytes: settings.compress_max_bytes,
            rules: rules(settings)?,
            types: Types::new(&settings.types)?,
            detect_text: settings.detect_text,
            errors: error_pages(
                &settings.error_pages,
                &page_fields,
                &with(&[page::html_type()]),
            )?,
            access: Access::new(&settings.access).map(Box::new),
            json_fields: with(&[page::json_type()]),
            page_fields,
            common,
        })
    }

    /// Restrictions on the clients; `None` if everybody may read everything.
    pub(crate) fn access(&self) -> Option<&Access> {
        self.access.as_deref()
    }

    /// Reads a little of the storage of the site's root and its mounts.
    ///
    /// # Errors
    /// The first folder or volume that cannot be read.
    pub(crate) fn check_storage(&self) -> Result<(), StorageError> {
        self.tree.check_storage()
    }

    /// Answers a request, from the cache or from the file system, without compressing or archiving anything.
    #[must_use]
    pub fn answer(&self, request: &Request<'_>, cache: &mut Cache) -> Answer {
        let reply = self.cached(request, cache).unwrap_or_else(|| {
            let form = Form::wanted(request.fields.accept.as_deref());
            self.answer_found(request, self.find(request.target, form), cache)
        });
        match reply {
            Reply::Answer(answer) => answer,
            Reply::Compress(reply) => self.answer_compressed(request, &reply, None),
            Reply::Archive(_) => self.error(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// Answers a request without resolving its target, if that is possible: from the cache, or because of its method. It
    /// checks whether the open file has changed, and may read a short file that is in memory.
    #[must_use]
    pub fn cached(&self, request: &Request<'_>, cache: &mut Cache) -> Option<Reply> {
        let status = match request.method {
            Method::Get | Method::Head => None,
            Method::Options => Some(StatusCode::NO_CONTENT),
            Method::Other => Some(StatusCode::METHOD_NOT_ALLOWED),
            Method::Unknown => Some(StatusCode::NOT_IMPLEMENTED),
        };
        if let Some(status) = status {
            return Some(Reply::Answer(self.with_allow(status)));
        }
        if self.archives && archive_is_wanted(request.target) {
            return None;
        }
        let target = without_query(request.target);
        let resource = cache.get(self.id, target, Instant::now())?;
        let chosen = resource.choose(request.fields.accept_encoding.as_deref());
        // A file that has changed since it was opened is opened again.
        if chosen.file.has_changed().unwrap_or(true) {
            cache.remove(self.id, target);
            return None;
        }
        if let Some(reply) = self.compress(request, &resource, chosen) {
            return Some(reply);
        }
        chosen.keep_content(&cache.content);
        Some(Reply::Answer(self.of_variant(request, chosen)))
    }

    /// Returns whether a target is resolved on another thread. Names in a volume are read from its storage each time;
    /// names in folders are usually in the kernel's cache. A folder may be listed, and a file without an extension may
    /// be read.
    #[must_use]
    pub fn takes_time(&self, target: &str) -> bool {
        self.tree.has_volumes()
            || FilePath::parse(target)
                .is_ok_and(|path| path.is_folder() || self.reads_beginning(&path))
            || (self.fallback.as_ref()).is_some_and(|file| self.reads_beginning(file.path()))
    }

    /// Returns whether a file's type is recognised by its beginning.
    fn reads_beginning(&self, path: &FilePath) -> bool {
        self.detect_text && extension(path.as_bytes()).is_none()
    }

    /// Resolves a target to a file or an answer.
    #[must_use]
    pub fn find(&self, target: &str, form: Form) -> Found {
        let answer = match FilePath::parse(target) {
            Err(_) => self.error(StatusCode::BAD_REQUEST),
            Ok(path) if path.is_hidden() && !self.dot_files => self.error(StatusCode::NOT_FOUND),
            Ok(path) => match self.look(target, &path, form) {
                Ok(Found::Answer(answer)) => *answer,
                Ok(found) => return found,
                Err(status) => match self.fall_back(status, &path) {
                    Some(resource) => return Found::Fallback(resource),
                    None => self.error(status),
                },
            },
        };
        Found::Answer(Box::new(answer))
    }

    /// Answers a request with the result of [`find`](Self::find) for its target.
    #[must_use]
    pub fn answer_found(&self, request: &Request<'_>, found: Found, cache: &mut Cache) -> Reply {
        match found {
            Found::Answer(answer) => Reply::Answer(*answer),
            Found::Archive(names) => Reply::Archive(names),
            Found::Resource(resource) => {
                let target = without_query(request.target);
                cache.put(self.id, target, &resource, Instant::now());
                self.of_resource(request, &resource)
            }
            // Clients choose the targets, so keeping the file open under each would use up the cache.
            Found::Fallback(resource) => self.of_resource(request, &resource),
        }
    }

    fn of_resource(&self, request: &Request<'_>, resource: &Arc<Resource>) -> Reply {
        let chosen = resource.choose(request.fields.accept_encoding.as_deref());
        self.compress(request, resource, chosen)
            .unwrap_or_else(|| Reply::Answer(self.of_variant(request, chosen)))
    }

    /// Answers a request with compressed content, or with the file as it is if there is none.
    #[must_use]
    pub fn answer_compressed(
        &self,
        request: &Request<'_>,
        reply: &CompressedReply,
        content: Option<&Bytes>,
    ) -> Answer {
        match content {
            Some(content) => reply.variant.with_content(content),
            None => {
                let accept_encoding = request.fields.accept_encoding.as_deref();
                let mut answer = self.of_variant(request, reply.resource.choose(accept_encoding));
                // The attempt has taken time.
                answer.body.mark_begun();
                answer
            }
        }
    }

    /// Replies with compressed content if the file as it is was `chosen` and the client prefers it compressed. A part
    /// of a file is not compressed.
    fn compress(
        &self,
        request: &Request<'_>,
        resource: &Arc<Resource>,
        chosen: &Variant,
    ) -> Option<Reply> {
        if chosen.coding.is_some() {
            return None;
        }
        let fields = &request.fields;
        let variant = resource.choose_compressed(fields.accept_encoding.as_deref())?;
        if request.method == Method::Get && fields.range.is_some() {
            return None;
        }
        match variant.validators().judge(request.method, fields) {
            Verdict::NotModified => Some(Reply::Answer(variant.not_modified())),
            // The condition may name the file as it is.
            Verdict::Failed => None,
            // So may this one: the client got it so while it could not be compressed.
            Verdict::Send => match chosen.validators().judge(request.method, fields) {
                Verdict::NotModified => None,
                Verdict::Send | Verdict::Failed => {
                    CompressedReply::new(self.id, resource, variant).map(Reply::Compress)
                }
            },
        }
    }

    /// Makes the answer for an error, with the site's page for the status.
    #[must_use]
    pub fn error(&self, status: StatusCode) -> Answer {
        let (shared, page) = match self.errors.get(&status) {
            Some((shared, page)) => (shared, page.clone()),
            None => (&self.page_fields, page::error_html(status)),
        };
        Answer {
            status,
            shared: Some(Arc::clone(shared)),
            fields: Vec::new(),
            body: Body::bytes(page),
        }
    }

    fn with_allow(&self, status: StatusCode) -> Answer {
        let mut answer = if status == StatusCode::NO_CONTENT {
            self.empty(status)
        } else {
            self.error(status)
        };
        answer.fields.push(allow());
        answer
    }

    /// Names of a folder for an archive.
    pub(super) fn folder_names(
        &self,
        folder: &Folder,
        path: &FilePath,
    ) -> Result<FolderNames, StatusCode> {
        FolderNames::read(&self.tree, folder, path)
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn empty(&self, status: StatusCode) -> Answer {
        Answer {
            status,
            shared: Some(Arc::clone(&self.common)),
            fields: Vec::new(),
            body: Body::default(),
        }
    }

    fn look(&self, target: &str, path: &FilePath, form: Form) -> Result<Found, StatusCode> {
        let folder = match (self.tree.find(path)?, path.is_folder()) {
            (Node::File(file), false) => return Ok(Found::Resource(self.resource(file, path))),
            (Node::File(_), true) => return Err(StatusCode::NOT_FOUND),
            (Node::Folder(_), false) => return self.redirect(target, path),
            (Node::Folder(folder), true) => folder,
        };
        if self.archives && archive_is_wanted(target) {
            return self.folder_names(&folder, path).map(Found::Archive);
        }
        for name in &self.index {
            let index = path.child(name);
            match self.tree.find(&index) {
                Ok(Node::File(file)) => return Ok(Found::Resource(self.resource(file, &index))),
                // If the index file is forbidden, the folder is not listed instead.
                Err(status) if status != StatusCode::NOT_FOUND => return Err(status),
                Ok(Node::Folder(_)) | Err(_) => {}
            }
        }
        if !self.listings {
            return Err(StatusCode::NOT_FOUND);
        }
        let listing = Listing::read(&self.tree, &folder, path)?;
        let (shared, text) = match form {
            Form::Html => (&self.page_fields, listing.html(path, self.archives)),
            Form::Json => {
                let json = listing.json(path);
                let text = json.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
                (&self.json_fields, text)
            }
        };
        Ok(Found::Answer(Box::new(Answer {
            status: StatusCode::OK,
            shared: Some(Arc::clone(shared)),
            fields: vec![
                (header::VARY, HeaderValue::from_static("accept")),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            ],
            body: Body::bytes(text.into()),
        })))
    }

    /// Opens the fallback for a path whose answer would be `status`, if it stands for that path.
    fn fall_back(&self, status: StatusCode, path: &FilePath) -> Option<Arc<Resource>> {
        let fallback = self.fallback.as_ref()?;
        if status != StatusCode::NOT_FOUND || !fallback.stands_for(path, &self.types) {
            return None;
        }
        match self.tree.find(fallback.path()) {
            Ok(Node::File(file)) => Some(self.resource(file, fallback.path())),
            _ => None,
        }
    }

    /// Redirects to the folder's URL with a slash at its end, so that relative links on its page work.
    fn redirect(&self, target: &str, path: &FilePath) -> Result<Found, StatusCode> {
        let mut location = path.folder_url();
        if let Some((_, query)) = target.split_once('?') {
            location.push('?');
            for sign in query.chars().filter(char::is_ascii_graphic) {
                location.push(sign);
            }
        }
        let location =
            HeaderValue::try_from(location).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        let mut answer = self.empty(StatusCode::MOVED_PERMANENTLY);
        answer.fields.push((header::LOCATION, location));
        Ok(Found::Answer(Box::new(answer)))
    }

    /// Makes a resource of a file and the coded files beside it, except those that are older.
    fn resource(&self, file: OpenFile, path: &FilePath) -> Arc<Resource> {
        let endings: Vec<_> = self
            .codings
            .iter()
            .map(|coding| coding.extension())
            .collect();
        let beside = self.tree.find_beside(path, &endings);
        let coded = self.codings.iter().copied().zip(beside);
        let coded = coded.filter_map(|(coding, other)| Some((coding, other?)));
        let coded = coded
            .filter(|(_, other)| other.modified() >= file.modified())
            .collect();
        let rule = self
            .rules
            .iter()
            .find(|(rule, _)| rule.fits(path.as_bytes()));
        let content_type = self.content_type(&file, path);
        let is_compressed = !self.compress.is_empty()
            && (COMPRESS_MIN_BYTES..=self.compress_max_bytes).contains(&file.size())
            && is_compressible(&content_type);
        let defaults = FieldDefaults {
            path: path.as_bytes(),
            compress: if is_compressed { &self.compress } else { &[] },
            content_type,
            cache_control: rule.map(|(_, value)| value.clone()),
            common: &self.common,
            now: SystemTime::now(),
        };
        Arc::new(Resource::new(file, coded, &defaults))
    }

    fn content_type(&self, file: &OpenFile, path: &FilePath) -> HeaderValue {
        let is_unnamed = self.reads_beginning(path);
        // A file that cannot be read now is of an unknown type, and its answer will end as an error.
        if is_unnamed && text::is_text_file(file).unwrap_or(false) {
            return text::TEXT;
        }
        self.types.of(path.as_bytes())
    }

    fn of_variant(&self, request: &Request<'_>, variant: &Variant) -> Answer {
        let validators = variant.validators();
        match validators.judge(request.method, &request.fields) {
            Verdict::Failed => return self.error(StatusCode::PRECONDITION_FAILED),
            Verdict::NotModified => return variant.not_modified(),
            Verdict::Send => {}
        }
        // Only GET has ranges (RFC 9110, 14.2).
        let size = variant.file.size();
        let ranges = match request.fields.range {
            Some(range)
                if request.method == Method::Get
                    && validators.is_range_of_this(request.fields.if_range) =>
            {
                Ranges::parse(range, size)
            }
            _ => Ranges::All,
        };
        match ranges {
            Ranges::All => variant.whole(StatusCode::OK),
            Ranges::One(range) => variant.part(range),
            Ranges::Several(ranges) => variant.parts(&ranges),
            Ranges::Unsatisfiable => {
                let mut answer = self.error(StatusCode::RANGE_NOT_SATISFIABLE);
                if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
                    answer.fields.push((header::CONTENT_RANGE, value));
                }
                answer
            }
        }
    }
}

fn without_query(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
