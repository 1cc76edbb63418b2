//! The body of an answer as hyper polls it.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use http::uri::Authority;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::activity::InFlight;
use super::source::{Made, next_pieces, with_name};
use crate::access::{Grant, Pace};
use crate::address::Address;
use crate::blocking;
use crate::budget::StreamBudget;
use crate::client::Client;
use crate::files::{OpenFile, ReadMode, VolumeFile};
use crate::http::{Body, Piece};
use crate::log::Entry;
use crate::transport::{TransportError, check_intact};
use crate::worker::Worker;

/// Longest pause of a paced answer before it counts as in progress again: a pause is no fault of the client.
const PAUSE_MAX: Duration = Duration::from_secs(1);
type Making = Pin<Box<dyn Future<Output = Result<Made, TransportError>>>>;

type Granting = Pin<Box<dyn Future<Output = Grant>>>;
type Waiting = Pin<Box<dyn Future<Output = Result<Bytes, TransportError>>>>;

/// The part of a body that is not sent yet.
pub(super) struct StreamBody {
    body: Body,
    /// A piece that another thread reads, or the last piece, until its file is found unchanged.
    waiting: Option<Waiting>,
    /// Bytes that the client may have, and those that it waits for.
    grant: Option<Grant>,
    granting: Option<Granting>,
    /// Time until a pause counts as progress.
    pause: Option<Pin<Box<Sleep>>>,
    /// Pieces that the body's source makes.
    making: Option<Making>,
    context: RequestContext,
}

/// State of a request until its answer's body is dropped: facts for the access log, which is written then, and the
/// request's share of the connection's limits.
pub(super) struct RequestContext {
    pub(super) worker: Rc<Worker>,
    pub(super) client: Client,
    pub(super) user: Option<Arc<str>>,
    /// Pacing of the content; `None` if its rate has no limit.
    pub(super) pace: Option<Pace>,
    pub(super) parts: Parts,
    pub(super) status: StatusCode,
    pub(super) at: SystemTime,
    pub(super) began: Instant,
    pub(super) in_flight: InFlight,
    pub(super) budget: StreamBudget,
}

impl StreamBody {
    pub(super) fn new(body: Body, context: RequestContext) -> Self {
        Self {
            body,
            waiting: None,
            grant: None,
            granting: None,
            pause: None,
            making: None,
            context,
        }
    }

    /// Returns whether all of it is sent.
    fn is_complete(&self) -> bool {
        self.body.length() == 0 && !self.body.is_streamed() && self.making.is_none()
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TransportError>>> {
        let bytes = match ready!(self.piece(cx)) {
            None => return Poll::Ready(None),
            Some(Ok(bytes)) => bytes,
            Some(Err(broken)) => {
                let broken = match self.body.source() {
                    Some(source) => with_name(broken, source, &self.body),
                    None => broken,
                };
                let context = &self.context;
                context.worker.report_file(&broken, context.target());
                return Poll::Ready(Some(Err(broken)));
            }
        };
        self.body.advance(bytes.len() as u64);
        if let Some(grant) = &mut self.grant {
            grant.take(bytes.len() as u64);
        }
        self.context.in_flight.progressed();
        Poll::Ready(Some(Ok(self.context.budget.hold(bytes))))
    }

    /// Number of bytes that the client may have now, at least one.
    fn granted(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(pace) = &self.context.pace else {
            return Poll::Ready(usize::MAX);
        };
        if let Some(grant) = self.grant.as_ref().filter(|grant| grant.left() > 0) {
            return Poll::Ready(usize::try_from(grant.left()).unwrap_or(usize::MAX));
        }
        let (pace, length) = (pace.clone(), self.body.length());
        let wait = || -> Granting { Box::pin(async move { pace.grant(length).await }) };
        let granting = self.granting.get_or_insert_with(wait);
        loop {
            if let Poll::Ready(grant) = granting.as_mut().poll(cx) {
                let left = grant.left();
                self.grant = Some(grant);
                (self.granting, self.pause) = (None, None);
                return Poll::Ready(usize::try_from(left).unwrap_or(usize::MAX));
            }
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE_MAX)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            self.context.in_flight.progressed();
        }
    }

    /// Lets the body's source make pieces, if there are none; returns false at the end of the content.
    fn make(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, TransportError>> {
        while self.body.length() == 0 {
            let making = match &mut self.making {
                Some(making) => making,
                none => {
                    let Some(source) = self.body.take_source() else {
                        return Poll::Ready(Ok(false));
                    };
                    let address = Arc::clone(&self.context.client.holdings);
                    none.insert(Box::pin(next_pieces(source, address)))
                }
            };
            let made = ready!(making.as_mut().poll(cx));
            self.making = None;
            let (source, Some(pieces)) = made? else {
                return Poll::Ready(Ok(false));
            };
            self.body.set_source(source);
            pieces.into_iter().for_each(|piece| self.body.push(piece));
        }
        Poll::Ready(Ok(true))
    }

    /// The next piece, no longer than the budget allows.
    fn piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TransportError>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                let piece = ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
                return Poll::Ready(Some(piece));
            }
            match ready!(self.make(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            let granted = ready!(self.granted(cx));
            let Some(piece) = self.body.front() else {
                return Poll::Ready(None);
            };
            let Some(most) = self.context.budget.capacity(cx) else {
                return Poll::Pending;
            };
            let most = most.min(granted);
            match piece {
                Piece::Bytes(bytes) => {
                    let bytes = bytes.slice(..bytes.len().min(most));
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Piece::File(file, range) => match read(file, range, most, ReadMode::Now) {
                    Ok(bytes) if (1..range.end - range.start).contains(&(bytes.len() as u64)) => {
                        return Poll::Ready(Some(Ok(bytes.into())));
                    }
                    read => {
                        let address = Arc::clone(&self.context.client.holdings);
                        let rest = rest(Arc::clone(file), range.clone(), most, address, read);
                        self.waiting = Some(Box::pin(rest));
                    }
                },
            }
        }
    }
}

impl RequestContext {
    /// The target with its query, as HTTP/1 has it.
    fn target(&self) -> &str {
        let target = self.parts.uri.path_and_query();
        target.map_or("*", |target| target.as_str())
    }
}

/// Host and port of an authority. What stands before them may be a password, which no log should have.
fn without_user(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

fn read(file: &OpenFile, range: &Range<u64>, most: usize, mode: ReadMode) -> io::Result<Vec<u8>> {
    let wanted = usize::try_from(range.end - range.start)
        .unwrap_or(most)
        .min(longest(file, range.start, most));
    let mut bytes = vec![0; wanted];
    let read = file.read_at(&mut [IoSliceMut::new(&mut bytes)], range.start, mode)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Length of the longest piece from `start` on. In a volume, a piece ends at the end of a sector, so that no sector is
/// decrypted twice, unless `most` is less than a sector.
fn longest(file: &OpenFile, start: u64, most: usize) -> usize {
    let sector = file.in_volume().map_or(1, VolumeFile::sector) as u64;
    let end = start.saturating_add(most as u64);
    match usize::try_from((end - end % sector).saturating_sub(start)) {
        Ok(whole @ 1..) => whole.min(most),
        _ => most,
    }
}

/// Reads a piece on another thread if it is not in memory, and checks the file after the last piece: the end is sent only
/// if the file has not changed since the answer began.
async fn rest(
    file: Arc<OpenFile>,
    range: Range<u64>,
    most: usize,
    address: Arc<Address>,
    read_now: io::Result<Vec<u8>>,
) -> Result<Bytes, TransportError> {
    let bytes = match read_now {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let (file, range) = (Arc::clone(&file), range.clone());
            let read = move || read(&file, &range, most, ReadMode::Wait);
            blocking::run(address, read).await.flatten()
        }
        read => read,
    };
    let bytes = bytes.map_err(TransportError::File)?;
    if bytes.is_empty() {
        return Err(TransportError::Changed);
    }
    if bytes.len() as u64 == range.end - range.start {
        check_intact(&file).await?;
    }
    Ok(bytes.into())
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        self.next(cx).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.is_streamed() || self.making.is_some() {
            true => SizeHint::default(),
            false => SizeHint::with_exact(self.body.length()),
        }
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let RequestContext {
            worker,
            client,
            user,
            parts,
            ..
        } = &self.context;
        let field = |name| parts.headers.get(name).map(http::HeaderValue::as_bytes);
        worker.record(&Entry {
            service: client.service,
            client: client.address.ip(),
            user: user.as_deref(),
            at: self.context.at,
            method: parts.method.as_str(),
            target: self.context.target(),
            version: "HTTP/2.0",
            host: parts.uri.authority().map(without_user),
            status: self.context.status.as_u16(),
            bytes: self.body.sent(),
            whole: self.is_complete(),
            took: self.context.began.elapsed(),
            referer: field(http::header::REFERER),
            user_agent: field(http::header::USER_AGENT),
            tls: client.tls,
        });
    }
}
