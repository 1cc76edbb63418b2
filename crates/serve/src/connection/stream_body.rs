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
use super::share::Part;
use crate::address::Address;
use crate::http::{Body, Piece};
use crate::log::Entry;
use crate::patience;
use crate::site::{OpenFile, Patience, VolumeFile};
use crate::worker::Worker;

type Waiting = Pin<Box<dyn Future<Output = Result<Bytes, Broken>>>>;

/// The rest of a body.
pub(super) struct StreamBody {
    body: Body,
    sent: u64,
    /// A piece that another thread waits for, or the last one, while its file is looked at.
    waiting: Option<Waiting>,
    witness: Witness,
}

/// Facts for the access log, once the body has gone.
pub(super) struct Witness {
    pub(super) worker: Rc<Worker>,
    pub(super) client: Client,
    pub(super) parts: Parts,
    pub(super) status: StatusCode,
    pub(super) at: SystemTime,
    pub(super) began: Instant,
    pub(super) under_way: UnderWay,
    pub(super) part: Part,
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
        let bytes = match ready!(self.piece(context)) {
            None => return Poll::Ready(None),
            Some(Ok(bytes)) => bytes,
            Some(Err(broken)) => {
                let target = self.witness.parts.uri.path();
                self.witness.worker.tell_of(&broken, target);
                return Poll::Ready(Some(Err(broken)));
            }
        };
        self.body.advance(bytes.len() as u64);
        self.sent += bytes.len() as u64;
        self.witness.under_way.moved();
        Poll::Ready(Some(Ok(self.witness.part.hold(bytes))))
    }

    /// The next piece, as long as may be held.
    fn piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                let piece = ready!(waiting.as_mut().poll(context));
                self.waiting = None;
                return Poll::Ready(Some(piece));
            }
            let Some(piece) = self.body.front() else {
                return Poll::Ready(None);
            };
            let Some(most) = self.witness.part.capacity(context) else {
                return Poll::Pending;
            };
            match piece {
                Piece::Bytes(bytes) => {
                    let bytes = bytes.slice(..bytes.len().min(most));
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Piece::File(file, range) => match read(file, range, most, Patience::Now) {
                    Ok(bytes) if (1..range.end - range.start).contains(&(bytes.len() as u64)) => {
                        return Poll::Ready(Some(Ok(bytes.into())));
                    }
                    read => {
                        let address = Arc::clone(&self.witness.client.has);
                        let rest = rest(Arc::clone(file), range.clone(), most, address, read);
                        self.waiting = Some(Box::pin(rest));
                    }
                },
            }
        }
    }
}

fn read(
    file: &OpenFile,
    range: &Range<u64>,
    most: usize,
    patience: Patience,
) -> io::Result<Vec<u8>> {
    let wanted = usize::try_from(range.end - range.start)
        .unwrap_or(most)
        .min(longest(file, range.start, most));
    let mut bytes = vec![0; wanted];
    let read = file.read_at(&mut [IoSliceMut::new(&mut bytes)], range.start, patience)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Bytes of the longest piece from `start` on: of a file in a volume one that ends where a sector does, so that none
/// is decrypted twice, unless `most` is within a sector.
fn longest(file: &OpenFile, start: u64, most: usize) -> usize {
    let sector = file.in_volume().map_or(1, VolumeFile::sector) as u64;
    let end = start.saturating_add(most as u64);
    match usize::try_from((end - end % sector).saturating_sub(start)) {
        Ok(whole @ 1..) => whole.min(most),
        _ => most,
    }
}

/// A piece that has to be waited for, or the last one, if the file still has what it had when the answer began.
async fn rest(
    file: Arc<OpenFile>,
    range: Range<u64>,
    most: usize,
    address: Arc<Address>,
    read_now: io::Result<Vec<u8>>,
) -> Result<Bytes, Broken> {
    let bytes = match read_now {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let (file, range) = (Arc::clone(&file), range.clone());
            let patient = move || read(&file, &range, most, Patience::Wait);
            patience::wait(address, patient).await.flatten()
        }
        read => read,
    };
    let bytes = bytes.map_err(Broken::File)?;
    if bytes.is_empty() {
        return Err(Broken::Changed);
    }
    if bytes.len() as u64 == range.end - range.start {
        is_intact(&file).await?;
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
