//! A folder as one tar archive, made while it is sent: ustar, with pax headers for long names and large files. An
//! archive has what single requests would get: links to files are files in it. Links to folders are left out, since
//! they may lead in a circle.

use std::ffi::OsStr;
use std::io;
use std::mem::take;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Weak};

use http::{HeaderValue, StatusCode, header};

use super::answering::Site;
use super::folder_names::{FolderNames, NAME_OVERHEAD, WAITING_MAX};
use super::node::Node;
use super::path::FilePath;
use super::percent;
use crate::files::OpenFile;
use crate::http::{Answer, Body, Piece, PieceSource};

/// Limit on the entries that are opened at a time.
const ENTRIES_MAX: usize = 16;

/// Limit in bytes on a path, as the kernel has it.
const PATH_MAX: usize = 4096;

/// Length in bytes of a block, to a multiple of which all content is padded.
const BLOCK: usize = 512;

/// First size in bytes that the eleven octal digits of a ustar header cannot express.
const USTAR_SIZE_END: u64 = 8 << 30;

/// Name of the archive of a whole site, and of the folder in it.
const SITE_NAME: &[u8] = b"site";
const SITE_PREFIX: &[u8] = b"site/";

/// An archive that is being made.
pub(crate) struct Archive<S> {
    site: Arc<Site>,
    /// The folders on the way to the next entry.
    folders: Vec<FolderNames>,
    /// Beginning of names in the archive, in the place of the first `above` bytes of paths.
    prefix: &'static [u8],
    above: usize,
    /// Bytes that come before the next file: padding, and the entries of folders.
    bytes: Vec<u8>,
    /// The files of the pieces that were made last.
    files: Vec<(Weak<OpenFile>, FilePath)>,
    progress: Progress,
    /// The client's share of the limit on archives.
    _share: S,
}

/// Parts of an archive that are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Nothing,
    Some,
    All,
}

impl FolderNames {
    /// Makes the answer with an archive of this folder. `share` is dropped at its end.
    pub(crate) fn archive<S: Send + 'static>(self, site: &Arc<Site>, share: S) -> Answer {
        let is_site = self.path.as_bytes().is_empty();
        let name = self.path.names().last().unwrap_or(SITE_NAME).to_vec();
        let mut answer = site.empty(StatusCode::OK);
        answer.fields = vec![
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/x-tar"),
            ),
            (header::CONTENT_DISPOSITION, disposition(&name)),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        let of_site = answer.shared.as_deref().unwrap_or_default();
        (answer.fields).retain(|(name, _)| !of_site.iter().any(|(other, _)| other == name));
        answer.body = Body::streamed(Box::new(Archive {
            site: Arc::clone(site),
            prefix: if is_site { SITE_PREFIX } else { &[] },
            above: self.path.as_bytes().len().saturating_sub(name.len()),
            folders: vec![self],
            bytes: Vec::new(),
            files: Vec::new(),
            progress: Progress::Nothing,
            _share: share,
        }));
        answer
    }
}

/// Value of `Content-Disposition` for an archive of a folder with this name. The plain name is for old clients.
fn disposition(name: &[u8]) -> HeaderValue {
    let plain = |byte: &u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' => char::from(*byte),
        _ => '_',
    };
    let plain: String = name.iter().map(plain).collect();
    let mut encoded = String::new();
    percent::encode(name, &mut encoded);
    let value = format!("attachment; filename=\"{plain}.tar\"; filename*=UTF-8''{encoded}.tar");
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("attachment"))
}

impl<S: Send> PieceSource for Archive<S> {
    fn next(&mut self) -> io::Result<Option<Vec<Piece>>> {
        match (self.progress, self.folders.first()) {
            (Progress::All, _) => return Ok(None),
            (Progress::Nothing, Some(folder)) => {
                self.bytes = header_of(&self.name(&folder.path), None, folder.modified)?;
                self.progress = Progress::Some;
            }
            _ => {}
        }
        let mut pieces = Vec::new();
        self.files.clear();
        for _ in 0..ENTRIES_MAX {
            let Some(folder) = self.folders.last_mut() else {
                // Two empty blocks are the end.
                self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
                self.progress = Progress::All;
                break;
            };
            let Some(name) = folder.names.pop() else {
                self.folders.pop();
                continue;
            };
            folder.bytes -= name.len() + NAME_OVERHEAD;
            let path = folder.path.child(&name);
            self.entry(&path, &mut pieces).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", shown(&path)))
            })?;
        }
        pieces.push(Piece::Bytes(take(&mut self.bytes).into()));
        Ok(Some(pieces))
    }

    fn name_of(&self, file: &Arc<OpenFile>) -> Option<String> {
        let mut files = self.files.iter();
        let (_, path) = files.find(|(known, _)| known.as_ptr() == Arc::as_ptr(file))?;
        Some(shown(path))
    }
}

/// Text of a path from the site's root on, for messages.
fn shown(path: &FilePath) -> String {
    let text = String::from_utf8_lossy(path.as_bytes());
    text.escape_debug().to_string()
}

impl<S> Archive<S> {
    /// Adds a file, or a folder whose names come next.
    fn entry(&mut self, path: &FilePath, pieces: &mut Vec<Piece>) -> io::Result<()> {
        if path.as_bytes().len() > PATH_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        match self.site.tree().find(path) {
            Ok(Node::File(file)) => self.file(file, path, pieces),
            Ok(Node::Folder(folder)) => {
                let names = self.site.folder_names(&folder, path).map_err(refused)?;
                let waiting: usize = self.folders.iter().map(|folder| folder.bytes).sum();
                if waiting + names.bytes > WAITING_MAX {
                    return Err(refused(StatusCode::SERVICE_UNAVAILABLE));
                }
                let header = header_of(&self.name(path), None, names.modified)?;
                self.bytes.extend_from_slice(&header);
                self.folders.push(names);
                Ok(())
            }
            // It has gone, or a request for it would be refused too.
            Err(StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) => Ok(()),
            Err(status) => Err(refused(status)),
        }
    }

    fn file(&mut self, file: OpenFile, path: &FilePath, pieces: &mut Vec<Piece>) -> io::Result<()> {
        let size = file.size();
        let header = header_of(&self.name(path), Some(size), file.modified().0)?;
        self.bytes.extend_from_slice(&header);
        pieces.push(Piece::Bytes(take(&mut self.bytes).into()));
        let file = Arc::new(file);
        self.files.push((Arc::downgrade(&file), path.clone()));
        pieces.push(Piece::File(file, 0..size));
        let beyond = usize::try_from(size % BLOCK as u64).unwrap_or(0);
        self.bytes.resize((BLOCK - beyond) % BLOCK, 0);
        Ok(())
    }

    /// Name of an entry in the archive, which begins with the name of the archive's folder.
    fn name(&self, path: &FilePath) -> Vec<u8> {
        [
            self.prefix,
            path.as_bytes().get(self.above..).unwrap_or_default(),
        ]
        .concat()
    }
}

fn refused(status: StatusCode) -> io::Error {
    let reason = status.canonical_reason().unwrap_or("error");
    io::Error::other(format!("an archive cannot be completed: {reason}"))
}

/// Makes the header of a file of `size` bytes, or of a folder.
fn header_of(name: &[u8], size: Option<u64>, modified: i64) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    let (kind, mode) = match size {
        Some(_) => (tar::EntryType::Regular, 0o644),
        None => (tar::EntryType::Directory, 0o755),
    };
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(u64::try_from(modified).unwrap_or(0));
    let (mut name, is_folder, size) = (name.to_vec(), size.is_none(), size.unwrap_or(0));
    if is_folder && !name.ends_with(b"/") {
        name.push(b'/');
    }
    let digits = size.to_string();
    let mut records = Vec::new();
    header.set_size(if size < USTAR_SIZE_END { size } else { 0 });
    if size >= USTAR_SIZE_END {
        records.push(("size", digits.as_bytes()));
    }
    if header
        .set_path(Path::new(OsStr::from_bytes(&name)))
        .is_err()
    {
        // Only programs that do not know pax see this name.
        header.set_path("long-name")?;
        records.push(("path", name.as_slice()));
    }
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    if !records.is_empty() {
        builder.append_pax_extensions(records)?;
    }
    let mut bytes = take(builder.get_mut());
    bytes.extend_from_slice(header.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests;
