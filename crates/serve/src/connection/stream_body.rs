//! A body on its way through hyper.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use http_body::{Frame, SizeHint};

use super::Client;
use super::broken::Broken;
use super::h2::UnderWay;
use super::send_file::is_intact;
use super::share::Share;
use crate::http::{Body, Piece};
use crate::log::Entry;
use crate::patience;
use crate::site::{OpenFile, Patience, VolumeFile};
use crate::tls::PAYLOAD_MAX;
use crate::worker::Worker;

/// Bytes that are read and handed on at a time: with a frame's head, which has 9, one full TLS record.
const PIECE: usize = PAYLOAD_MAX - 9;

type Waiting = Pin<Box<dyn Future<Output = io::Result<io::Result<Vec<u8>>>>>>;

/// What is left of a body.
pub(super) struct StreamBody {
    body: Body,
    sent: u64,
    /// A piece that another thread waits for.
    waiting: Option<Waiting>,
    witness: Witness,
}

/// What will be said of the request, once its body has gone.
pub(super) struct Witness {
    pub(super) worker: Rc<Worker>,
    pub(super) client: Client,
    pub(super) parts: Parts,
    pub(super) status: StatusCode,
    pub(super) at: SystemTime,
    pub(super) began: Instant,
    pub(super) under_way: UnderWay,
    pub(super) share: Rc<Share>,
}

impl StreamBody {
    pub(super) fn new(body: Body, witness: Witness) -> Self {
        Self {
            body,
            sent: 0,
            waiting: None,
            witness,
        }
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let Some(piece) = self.body.front() else {
            return Poll::Ready(None);
        };
        if self.waiting.is_none() && !self.witness.share.has_room(context) {
            return Poll::Pending;
        }
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes.slice(..bytes.len().min(PIECE)),
            Piece::File(file, range) => {
                let read = match &mut self.waiting {
                    None => match read(file, range, Patience::Now) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            let (file, range) = (Arc::clone(file), range.clone());
                            let address = Arc::clone(&self.witness.client.has);
                            let patient = move || read(&file, &range, Patience::Wait);
                            self.waiting = Some(Box::pin(patience::wait(address, patient)));
                            return self.next(context);
                        }
                        read => read,
                    },
                    Some(waiting) => {
                        let read = ready!(waiting.as_mut().poll(context));
                        self.waiting = None;
                        read.flatten()
                    }
                };
                match sound(file, range, read) {
                    Ok(bytes) => bytes,
                    Err(broken) => {
                        let target = self.witness.parts.uri.path();
                        self.witness.worker.tell_of(&broken, target);
                        return Poll::Ready(Some(Err(broken)));
                    }
                }
            }
        };
        self.body.advance(bytes.len() as u64);
        self.sent += bytes.len() as u64;
        self.witness.under_way.moved();
        Poll::Ready(Some(Ok(self.witness.share.hold(bytes))))
    }
}

fn read(file: &OpenFile, range: &Range<u64>, patience: Patience) -> io::Result<Vec<u8>> {
    let wanted = usize::try_from(range.end - range.start)
        .unwrap_or(PIECE)
        .min(most(file, range.start));
    let mut bytes = vec![0; wanted];
    let read = file.read_at(&mut [IoSliceMut::new(&mut bytes)], range.start, patience)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Bytes of the longest piece from `start` on: of a file in a volume one that ends where a sector does, so that none
/// is decrypted twice.
fn most(file: &OpenFile, start: u64) -> usize {
    let sector = file.in_volume().map_or(1, VolumeFile::sector) as u64;
    let end = start.saturating_add(PIECE as u64);
    usize::try_from(end - end % sector - start).map_or(PIECE, |most| most.min(PIECE))
}

/// What was read, if the file still has what it had when the answer began.
fn sound(file: &OpenFile, range: &Range<u64>, read: io::Result<Vec<u8>>) -> Result<Bytes, Broken> {
    let bytes = read.map_err(Broken::File)?;
    if bytes.is_empty() {
        return Err(Broken::Changed);
    }
    if bytes.len() as u64 == range.end - range.start {
        is_intact(file)?;
    }
    Ok(bytes.into())
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.next(context).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.body.length() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.length())
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let Witness {
            worker,
            client,
            parts,
            ..
        } = &self.witness;
        let field = |name| parts.headers.get(name).map(http::HeaderValue::as_bytes);
        worker.note(&Entry {
            service: client.service,
            client: client.address.ip(),
            at: self.witness.at,
            method: parts.method.as_str(),
            target: parts
                .uri
                .path_and_query()
                .map_or("*", |target| target.as_str()),
            version: "HTTP/2.0",
            host: parts.uri.authority().map(http::uri::Authority::as_str),
            status: self.witness.status.as_u16(),
            bytes: self.sent,
            whole: self.body.length() == 0,
            took: self.witness.began.elapsed(),
            referer: field(http::header::REFERER),
            user_agent: field(http::header::USER_AGENT),
            tls: client.tls,
        });
    }
}
