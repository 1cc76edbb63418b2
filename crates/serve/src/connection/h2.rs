//! HTTP/2 by hyper, with the time and memory limits of this server.

use std::cell::RefCell;
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

use super::activity::{Activity, InFlight, Pace};
use super::head::has_length;
use super::stream_body::{RequestContext, StreamBody};
use super::write_timeout::{SharedStream, WriteTimeout};
use crate::budget::ConnectionBudget;
use crate::client::Client;
use crate::http::{Answer, Body, HeadLimits, Method, Refusal, Request};
use crate::limits::Limits;
use crate::site::error_page;
use crate::tls::TlsStream;
use crate::transport::{
    DiscardLimit, LINGER_TIMEOUT, lingering_close, reset_on_close, unacknowledged_bytes,
};
use crate::worker::Worker;

/// Limit on the concurrent requests of a connection.
const STREAMS_MAX: u32 = 64;
/// Limit in bytes on what hyper buffers of one answer.
const SEND_BUFFER_MAX: usize = 32 << 10;
/// Limit in bytes on what hyper buffers of all answers of a connection.
const CONNECTION_BUFFER_MAX: usize = 256 << 10;
/// Limit on the requests that a client may reset before they are accepted; beyond it the connection ends.
const RESET_STREAMS_MAX: usize = 20;

/// hyper's executor: spawns tasks on the worker's thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        drop(spawn_local(async {
            task.await;
        }));
    }
}

/// Serves an HTTP/2 connection to its end.
pub(super) async fn serve(worker: Rc<Worker>, stream: TlsStream, client: Client) {
    let limits = worker.limits;
    let head_max = u32::try_from(limits.head.head).unwrap_or(u32::MAX);
    let activity = Rc::new(Activity::new());
    let budget = Rc::new(ConnectionBudget::of(
        worker.budget.clone(),
        Arc::clone(&client.holdings),
        CONNECTION_BUFFER_MAX,
    ));
    let service = service_fn({
        let (worker, activity) = (Rc::clone(&worker), Rc::clone(&activity));
        let budget = Rc::clone(&budget);
        move |request: http::Request<Incoming>| {
            let (parts, _) = request.into_parts();
            let (worker, budget, client) = (Rc::clone(&worker), Rc::clone(&budget), client.clone());
            let in_flight = activity.begin();
            async move {
                let answer = answer(&worker, client, parts, in_flight, budget).await;
                Ok::<_, Infallible>(answer)
            }
        }
    });
    let stream = Rc::new(RefCell::new(stream));
    let shared = WriteTimeout::new(SharedStream(Rc::clone(&stream)), limits.stall);
    let has_all = || {
        let is_answered = activity.in_flight() == 0 && budget.is_empty();
        is_answered && unacknowledged_bytes(stream.borrow().socket()) == 0
    };
    let ended = {
        let mut connection = pin!(
            Builder::new(LocalExecutor)
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(head_max)
                .max_send_buf_size(SEND_BUFFER_MAX)
                .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
                .serve_connection(TokioIo::new(shared), service)
        );
        match serve_until_draining(connection.as_mut(), &worker, &activity).await {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                serve_until_closed(connection, &worker, &activity, has_all).await
            }
        }
    };
    // hyper's connection is dropped, and with it the other reference to the stream.
    if let Some(stream) = Rc::into_inner(stream) {
        end(stream.into_inner(), ended, &limits).await;
    }
}

/// Serves until the connection has ended, or must accept no more requests: then it returns `None`.
async fn serve_until_draining(
    mut connection: Pin<&mut impl Future<Output = hyper::Result<()>>>,
    worker: &Worker,
    activity: &Activity,
) -> Option<Ended> {
    let limits = &worker.limits;
    loop {
        tokio::select! {
            biased;
            () = worker.draining() => return None,
            () = sleep(limits.idle.min(limits.stall)) => match activity.pace(limits) {
                Pace::Active => {}
                Pace::Idle => return None,
                Pace::Stalled => return Some(Ended::Stalled),
            },
            // Last, since a client that never stops sending uses up the task's budget, and timers need budget too.
            ended = connection.as_mut() => return Some(Ended::of(ended)),
        }
    }
}

/// Serves until a connection that accepts no more requests has ended. Requests that the client sent before it received
/// GOAWAY have the usual time limits, unless the server is draining.
async fn serve_until_closed(
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
            () = sleep(left.map_or(LINGER_TIMEOUT, |left| left.min(LINGER_TIMEOUT))) => {
                // hyper waits for an answer to its PING, which a client that has everything may never send.
                if has_all() {
                    return Ended::Complete;
                }
                let is_over = match deadline {
                    Some(deadline) => Instant::now() >= deadline,
                    None => activity.last().max(begun).elapsed() >= limits.stall,
                };
                if is_over {
                    return Ended::Stalled;
                }
            }
            ended = connection.as_mut() => return Ended::of(ended),
        }
    }
}

/// Result of a connection, as hyper reports it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Everything was sent, if only the error that the client made.
    Complete,
    /// The client does not accept what is to be sent.
    Stalled,
}

impl Ended {
    fn of(ended: hyper::Result<()>) -> Self {
        let error = ended.err();
        let source = error.as_ref().and_then(std::error::Error::source);
        let io = source.and_then(|source| source.downcast_ref::<io::Error>());
        match io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            true => Self::Stalled,
            false => Self::Complete,
        }
    }
}

/// Closes a connection so that the client receives what was sent, unless it stalls.
async fn end(mut stream: TlsStream, ended: Ended, limits: &Limits) {
    // No effect if hyper has already shut the stream down.
    let closed = async { ended == Ended::Complete && stream.shutdown().await.is_ok() };
    match timeout(limits.stall, closed).await {
        Ok(true) => lingering_close(stream.socket(), DiscardLimit::ControlFrames, limits).await,
        Ok(false) | Err(_) => reset_on_close(stream.socket()),
    }
}

/// Converts hyper's request, within the limits that apply to HTTP/1.1 too.
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
    in_flight: InFlight,
    budget: Rc<ConnectionBudget>,
) -> Response<StreamBody> {
    let (at, began) = (SystemTime::now(), Instant::now());
    let (answered, with_body) = match request(&parts, &worker.limits.head) {
        Ok(request) => {
            let with_body = request.method != Method::Head;
            (worker.answer(&client, &request).await, with_body)
        }
        Err(refusal) => (error_page(refusal.status()).into(), true),
    };
    let Answer {
        status,
        shared,
        fields,
        mut body,
    } = answered.answer;
    let (length, is_streamed) = (body.length(), body.is_streamed());
    if !with_body || !has_length(status) {
        body = Body::default();
    }
    if client.service.is_for_clients() {
        body.count_in(worker.meter());
    }
    let context = RequestContext {
        worker: Rc::clone(worker),
        client,
        user: answered.user,
        pace: answered.pace,
        parts,
        status,
        at,
        began,
        in_flight,
        budget: budget.stream(),
    };
    let mut response = Response::new(StreamBody::new(body, context));
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
    if has_length(status) && !is_streamed {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    response
}
