//! HTTP/2, by way of hyper.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::request::Parts;
use http::{HeaderValue, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::Client;
use super::farewell::{FAREWELL, Talk, abort, depart, unacknowledged};
use super::head::has_length;
use super::share::Share;
use super::stall::{Lent, Stall};
use super::stream_body::{StreamBody, Witness};
use crate::http::{Answer, Body, HeadLimits, Method, Refusal, Request};
use crate::limits::Limits;
use crate::site::error_page;
use crate::tls::TlsStream;
use crate::worker::Worker;

/// Requests at a time on one connection.
const STREAMS: u32 = 64;
/// Most bytes of one answer that wait for a client in hyper.
const WAITING: usize = 32 << 10;
/// Most bytes of all answers of a connection that wait so.
const SHARE: usize = 256 << 10;
/// Requests that a client may cancel before they are looked at; then its connection ends.
const TAKEN_BACK: usize = 20;

/// The thread's own tasks.
#[derive(Clone, Copy)]
struct Here;

impl<F: Future + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, task: F) {
        drop(spawn_local(async {
            task.await;
        }));
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(worker: Rc<Worker>, stream: TlsStream, client: Client) {
    let limits = worker.limits;
    let head_max = u32::try_from(limits.head.head).unwrap_or(u32::MAX);
    let activity = Rc::new(Activity::new());
    let share = Rc::new(Share::of(
        worker.budget.clone(),
        Arc::clone(&client.has),
        SHARE,
    ));
    let service = service_fn({
        let (worker, activity) = (Rc::clone(&worker), Rc::clone(&activity));
        let share = Rc::clone(&share);
        move |request: http::Request<Incoming>| {
            let (parts, _) = request.into_parts();
            let (worker, share, client) = (Rc::clone(&worker), Rc::clone(&share), client.clone());
            let under_way = activity.begin();
            async move {
                let answer = answer(&worker, client, parts, under_way, share).await;
                Ok::<_, Infallible>(answer)
            }
        }
    });
    let stream = Rc::new(RefCell::new(stream));
    let lent = Stall::new(Lent(Rc::clone(&stream)), limits.stall);
    let has_all = || {
        let is_answered = activity.under_way.get() == 0 && share.is_empty();
        is_answered && unacknowledged(stream.borrow().socket()) == 0
    };
    let ended = {
        let mut connection = pin!(
            Builder::new(Here)
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .max_header_list_size(head_max)
                .max_send_buf_size(WAITING)
                .max_pending_accept_reset_streams(TAKEN_BACK)
                .serve_connection(TokioIo::new(lent), service)
        );
        match until_called_off(connection.as_mut(), &worker, &activity).await {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                until_left(connection, &worker, &activity, has_all).await
            }
        }
    };
    // hyper has gone, and with it the other hand on the stream.
    if let Some(stream) = Rc::into_inner(stream) {
        end(stream.into_inner(), ended, &limits).await;
    }
}

/// Goes on until the connection has ended, or has to take no more requests: then it returns nothing.
async fn until_called_off(
    mut connection: Pin<&mut impl Future<Output = hyper::Result<()>>>,
    worker: &Worker,
    activity: &Activity,
) -> Option<Ended> {
    let limits = &worker.limits;
    loop {
        tokio::select! {
            biased;
            () = worker.draining() => return None,
            () = sleep(limits.idle.min(limits.stall)) => match activity.judge(limits) {
                Verdict::GoesOn => {}
                Verdict::Idle => return None,
                Verdict::Stalled => return Some(Ended::Stalled),
            },
            // Last: a client that never stops talking uses up the task's turn, which the clock needs too.
            ended = connection.as_mut() => return Some(Ended::of(ended)),
        }
    }
}

/// Goes on until a connection that takes no more requests has ended. Those that the client has sent before it heard of
/// that have as long as any others, unless the server ends.
async fn until_left(
    mut connection: Pin<&mut impl Future<Output = hyper::Result<()>>>,
    worker: &Worker,
    activity: &Activity,
    has_all: impl Fn() -> bool,
) -> Ended {
    let (limits, begun) = (&worker.limits, Instant::now());
    let mut deadline = None;
    loop {
        let left =
            deadline.map(|deadline: Instant| deadline.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            () = worker.draining(), if deadline.is_none() => {
                deadline = Some(Instant::now() + limits.drain);
            }
            () = sleep(left.map_or(FAREWELL, |left| left.min(FAREWELL))) => {
                // hyper waits for the client to say that it has heard. One that has everything may not.
                if has_all() {
                    return Ended::Said;
                }
                let is_over = match deadline {
                    Some(deadline) => Instant::now() >= deadline,
                    None => activity.last.get().max(begun).elapsed() >= limits.stall,
                };
                if is_over {
                    return Ended::Stalled;
                }
            }
            ended = connection.as_mut() => return Ended::of(ended),
        }
    }
}

/// The end of a connection, for hyper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All that was to be said is said, if only what the client did wrong.
    Said,
    /// The client does not take what is there to be sent.
    Stalled,
}

impl Ended {
    fn of(ended: hyper::Result<()>) -> Self {
        let error = ended.err();
        let source = error.as_ref().and_then(std::error::Error::source);
        let io = source.and_then(|source| source.downcast_ref::<io::Error>());
        match io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            true => Self::Stalled,
            false => Self::Said,
        }
    }
}

/// Closes a connection, so that what was sent arrives unless the client does not take it.
async fn end(mut stream: TlsStream, ended: Ended, limits: &Limits) {
    // Of no effect where hyper has done it.
    let said = async { ended == Ended::Said && stream.shutdown().await.is_ok() };
    match timeout(limits.stall, said).await {
        Ok(true) => depart(stream.socket(), Talk::Frames, limits).await,
        Ok(false) | Err(_) => abort(stream.socket()),
    }
}

/// Requests of a connection, and the time of the last sign of life.
pub(super) struct Activity {
    under_way: Cell<usize>,
    /// Last time when a request was begun or ended, or something of an answer was taken.
    last: Cell<Instant>,
}

enum Verdict {
    GoesOn,
    Idle,
    Stalled,
}

impl Activity {
    fn new() -> Self {
        Self {
            under_way: Cell::new(0),
            last: Cell::new(Instant::now()),
        }
    }

    fn begin(self: &Rc<Self>) -> UnderWay {
        self.last.set(Instant::now());
        self.under_way.set(self.under_way.get() + 1);
        UnderWay(Rc::clone(self))
    }

    fn judge(&self, limits: &Limits) -> Verdict {
        let still = self.last.get().elapsed();
        match self.under_way.get() {
            0 if still >= limits.idle => Verdict::Idle,
            1.. if still >= limits.stall => Verdict::Stalled,
            _ => Verdict::GoesOn,
        }
    }
}

/// A request that has not been answered whole.
pub(super) struct UnderWay(Rc<Activity>);

impl UnderWay {
    /// Something of its answer was taken.
    pub(super) fn moved(&self) {
        self.0.last.set(Instant::now());
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.moved();
        self.0.under_way.set(self.0.under_way.get() - 1);
    }
}

/// The request that hyper has read, if it is within the limits that HTTP/1.1 has too.
fn request<'a>(parts: &'a Parts, limits: &HeadLimits) -> Result<Request<'a>, Refusal> {
    let target = parts
        .uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if target > limits.target {
        return Err(Refusal::TargetTooLong);
    }
    if parts.headers.len() > limits.fields {
        return Err(Refusal::HeadTooLarge);
    }
    Request::from_parts(parts)
}

async fn answer(
    worker: &Rc<Worker>,
    client: Client,
    parts: Parts,
    under_way: UnderWay,
    share: Rc<Share>,
) -> Response<StreamBody> {
    let (at, began) = (SystemTime::now(), Instant::now());
    let (answer, with_body) = match request(&parts, &worker.limits.head) {
        Ok(request) => {
            let with_body = request.method != Method::Head;
            let answer = worker
                .answer(client.service, &client.origin, &client.has, &request)
                .await;
            (answer, with_body)
        }
        Err(refusal) => (error_page(refusal.status()), true),
    };
    let Answer {
        status,
        shared,
        fields,
        mut body,
    } = answer;
    let length = body.length();
    if !with_body || !has_length(status) {
        body = Body::default();
    }
    let witness = Witness {
        worker: Rc::clone(worker),
        client,
        parts,
        status,
        at,
        began,
        under_way,
        part: share.part(),
    };
    let mut response = Response::new(StreamBody::new(body, witness));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("scrim"));
    headers.insert(header::DATE, worker.date(at));
    for (name, value) in shared.iter().flat_map(|shared| shared.iter()) {
        headers.append(name.clone(), value.clone());
    }
    for (name, value) in fields {
        headers.append(name, value);
    }
    if has_length(status) {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    response
}
