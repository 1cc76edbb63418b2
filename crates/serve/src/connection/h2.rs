//! HTTP/2, by way of hyper.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

use http::request::Parts;
use http::{HeaderValue, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::Client;
use super::head::has_length;
use super::stall::Stall;
use super::stream_body::{StreamBody, Witness};
use crate::http::{Answer, Body, Method, Request};
use crate::site::error_page;
use crate::tls::TlsStream;
use crate::worker::Worker;

/// Requests at a time on one connection.
const STREAMS: u32 = 64;
/// Most bytes of an answer that wait for a client in hyper; it may have as many for each stream.
const WAITING: usize = 32 << 10;
/// Requests that a client may take back before anybody has looked at them; then its connection ends.
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
    let activity = Rc::new(Activity::default());
    let service = service_fn({
        let (worker, activity) = (Rc::clone(&worker), Rc::clone(&activity));
        move |request: http::Request<Incoming>| {
            let (parts, _) = request.into_parts();
            let (worker, under_way) = (Rc::clone(&worker), activity.begin());
            async move { Ok::<_, Infallible>(answer(&worker, client, parts, under_way).await) }
        }
    });
    let stream = TokioIo::new(Stall::new(stream, limits.stall));
    let mut connection = pin!(
        Builder::new(Here)
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(head_max)
            .max_send_buf_size(WAITING)
            .max_pending_accept_reset_streams(TAKEN_BACK)
            .serve_connection(stream, service)
    );
    loop {
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = worker.draining() => break,
            () = sleep(limits.idle) => if activity.was_idle() { break },
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(limits.drain, connection).await;
}

/// Whether a connection has had anything to do.
#[derive(Default)]
pub(super) struct Activity {
    under_way: Cell<usize>,
    begun: Cell<bool>,
}

impl Activity {
    fn begin(self: &Rc<Self>) -> UnderWay {
        self.begun.set(true);
        self.under_way.set(self.under_way.get() + 1);
        UnderWay(Rc::clone(self))
    }

    /// Whether there is no request, and was none since this was asked the last time.
    fn was_idle(&self) -> bool {
        !self.begun.replace(false) && self.under_way.get() == 0
    }
}

/// A request that has not been answered whole.
pub(super) struct UnderWay(Rc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let activity = &self.0;
        activity.under_way.set(activity.under_way.get() - 1);
    }
}

async fn answer(
    worker: &Rc<Worker>,
    client: Client,
    parts: Parts,
    under_way: UnderWay,
) -> Response<StreamBody> {
    let (at, began) = (SystemTime::now(), Instant::now());
    let (answer, with_body) = match Request::from_parts(&parts) {
        Ok(request) => {
            let with_body = request.method != Method::Head;
            (worker.answer(client.service, &request).await, with_body)
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
        _under_way: under_way,
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
