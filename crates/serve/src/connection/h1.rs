//! HTTP/1.1: requests of a connection, one after the other.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::SystemTime;

use http::StatusCode;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::head::{self, BodyFraming, Ending};
use super::{paced, source};
use crate::client::Client;
use crate::http::{Answer, Body, Framing, Head, Method, Refusal, Skipper, as_newest_known};
use crate::listener::Service;
use crate::log::Entry;
use crate::site::error_page;
use crate::transport::{Transport, TransportError};
use crate::worker::{Answered, Worker};

/// Limit on the bytes of a request's content that are discarded so that the connection can be used again.
const SKIPPED_MAX: u64 = 64 << 10;

/// Continuation of a connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continuation {
    Next,
    Close,
}

/// A connection, with the received bytes that are not processed yet.
struct Http1Connection<'a> {
    worker: &'a Worker,
    client: Client,
    transport: Transport,
    inbox: Vec<u8>,
    /// Timer for idle connections. It is reset when it expires, and not for each request.
    idle: Pin<Box<Sleep>>,
    /// Completes when the worker accepts no more requests.
    draining: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Serves requests until either side ends the connection; `inbox` has the bytes that were received already.
pub(super) async fn serve(worker: &Worker, transport: Transport, client: Client, inbox: Vec<u8>) {
    let mut connection = Http1Connection {
        worker,
        client,
        transport,
        inbox,
        idle: Box::pin(sleep(worker.limits.idle)),
        draining: Box::pin(worker.draining()),
    };
    let ended = loop {
        match connection.next().await {
            Ok(Continuation::Next) => {}
            Ok(Continuation::Close) => break Ok(()),
            Err(broken) => break Err(broken),
        }
    };
    connection.transport.end(ended, &worker.limits).await;
}

impl Http1Connection<'_> {
    /// Receives and answers one request.
    async fn next(&mut self) -> Result<Continuation, TransportError> {
        if self.inbox.is_empty() && !self.first_bytes().await? {
            return Ok(Continuation::Close);
        }
        // Most requests arrive in one piece, and the clock is not read.
        let mut deadline = None;
        loop {
            match Head::parse(&self.inbox, &self.worker.limits.head) {
                Ok(Some(head)) => {
                    let (used, framing) = (head.length, head.framing);
                    let next =
                        answer(self.worker, &self.client, &mut self.transport, &head).await?;
                    self.inbox.drain(..used);
                    if !self.inbox.is_empty() {
                        // A client with pipelined requests yields to other connections after each.
                        tokio::task::yield_now().await;
                    }
                    return match next {
                        Continuation::Next if framing == Framing::None => Ok(next),
                        Continuation::Next => self.skip(framing).await,
                        Continuation::Close => Ok(next),
                    };
                }
                Ok(None) => {}
                Err(refusal) => {
                    if refusal == Refusal::Version && as_newest_known(&mut self.inbox) {
                        continue;
                    }
                    return self.refuse(refusal.status()).await;
                }
            }
            let until =
                *deadline.get_or_insert_with(|| Instant::now() + self.worker.limits.request);
            let receive = self.transport.receive(&mut self.inbox, &self.worker.limits);
            let Ok(received) = timeout_at(until, receive).await else {
                return self.refuse(StatusCode::REQUEST_TIMEOUT).await;
            };
            if received? == 0 {
                return Ok(Continuation::Close);
            }
        }
    }

    /// Waits for the first bytes of a request without holding a buffer; returns false if there is no further request.
    async fn first_bytes(&mut self) -> Result<bool, TransportError> {
        let Self {
            worker,
            transport,
            inbox,
            idle,
            draining,
            ..
        } = self;
        *inbox = Vec::new();
        let end = Instant::now() + worker.limits.idle;
        // The future is kept when the timer expires: to receive is also to answer, and an alert or a key update may be half
        // sent.
        let mut receive = pin!(transport.receive(inbox, &worker.limits));
        loop {
            tokio::select! {
                biased;
                received = receive.as_mut() => return Ok(received? > 0),
                () = draining.as_mut() => return Ok(false),
                () = idle.as_mut() => match Instant::now() < end {
                    true => idle.as_mut().reset(end),
                    false => return Ok(false),
                }
            }
        }
    }

    /// Discards the content of a request.
    async fn skip(&mut self, framing: Framing) -> Result<Continuation, TransportError> {
        let deadline = Instant::now() + self.worker.limits.request;
        let Ok(mut skipper) = Skipper::new(framing, SKIPPED_MAX) else {
            return Ok(Continuation::Close);
        };
        loop {
            // The framing is invalid, so that the start of the next request is unknown.
            let Ok(skipped) = skipper.skip(&self.inbox) else {
                return Ok(Continuation::Close);
            };
            self.inbox.drain(..skipped.bytes);
            if skipped.is_all {
                return Ok(Continuation::Next);
            }
            let receive = self.transport.receive(&mut self.inbox, &self.worker.limits);
            let Ok(received) = timeout_at(deadline, receive).await else {
                return Ok(Continuation::Close);
            };
            if received? == 0 {
                return Ok(Continuation::Close);
            }
        }
    }

    /// Answers a malformed request with an error and ends the connection: the start of the next request is unknown.
    async fn refuse(&mut self, status: StatusCode) -> Result<Continuation, TransportError> {
        let (at, began) = (SystemTime::now(), std::time::Instant::now());
        let (worker, transport) = (self.worker, &mut self.transport);
        let mut answered = Answered::from(error_page(status));
        let sent = send(
            worker,
            transport,
            &self.client,
            &mut answered,
            true,
            Manner {
                framing: BodyFraming::Length,
                ending: Ending::Close,
                at,
            },
        )
        .await;
        worker.record(&Entry {
            service: self.client.service,
            client: self.client.address.ip(),
            at,
            user: None,
            method: "-",
            target: "-",
            version: "HTTP/1.1",
            host: None,
            status: status.as_u16(),
            bytes: answered.answer.body.sent(),
            whole: sent.is_ok(),
            took: began.elapsed(),
            referer: None,
            user_agent: None,
            tls: self.client.tls,
        });
        sent.map(|()| Continuation::Close)
    }
}

/// Answers a request and logs it.
async fn answer(
    worker: &Worker,
    client: &Client,
    transport: &mut Transport,
    head: &Head<'_>,
) -> Result<Continuation, TransportError> {
    let (at, began) = (SystemTime::now(), std::time::Instant::now());
    let request = &head.request;
    let mut answered = worker.answer(client, request).await;
    let (framing, longest) = framing(&answered.answer, head);
    let keeps_alive = head.keep_alive
        && client.service != Service::Health
        && framing != BodyFraming::UntilClose
        && !worker.is_draining()
        && !has_unknown_end(head)
        && transport.can_continue_after(longest);
    let ending = match (keeps_alive, head.is_old) {
        (true, false) => Ending::Usual,
        (true, true) => Ending::KeepAlive,
        (false, _) => Ending::Close,
    };
    let status = answered.answer.status;
    let with_body = request.method != Method::Head && head::has_length(status);
    let manner = Manner {
        framing,
        ending,
        at,
    };
    let mut sent = send(worker, transport, client, &mut answered, with_body, manner).await;
    let body = &mut answered.answer.body;
    if with_body && sent.is_ok() {
        let (pool, limits) = (worker.pool_for(&client.holdings), &worker.limits);
        let (is_chunked, pace) = (framing == BodyFraming::Chunked, answered.pace.as_ref());
        sent = source::send(body, is_chunked, transport, pool, limits, pace).await;
    }
    if let Err(broken) = &sent {
        worker.report_file(broken, request.target);
    }
    worker.record(&Entry {
        service: client.service,
        client: client.address.ip(),
        at,
        user: answered.user.as_deref(),
        method: request.method_name,
        target: request.target,
        version: if head.is_old { "HTTP/1.0" } else { "HTTP/1.1" },
        host: request.host,
        status: status.as_u16(),
        bytes: answered.answer.body.sent(),
        whole: sent.is_ok(),
        took: began.elapsed(),
        referer: request.fields.referer,
        user_agent: request.fields.user_agent,
        tls: client.tls,
    });
    sent.map(|()| {
        if keeps_alive {
            Continuation::Next
        } else {
            Continuation::Close
        }
    })
}

/// Framing of an answer's content, and its length in bytes, or the longest possible one.
fn framing(answer: &Answer, head: &Head<'_>) -> (BodyFraming, u64) {
    match (answer.body.is_streamed(), head.is_old) {
        (false, _) => (BodyFraming::Length, answer.body.length()),
        (true, false) => (BodyFraming::Chunked, u64::MAX),
        (true, true) => (BodyFraming::UntilClose, u64::MAX),
    }
}

/// Manner in which an answer is sent.
#[derive(Clone, Copy)]
struct Manner {
    framing: BodyFraming,
    ending: Ending,
    /// Time of the answer.
    at: SystemTime,
}

/// Sends an answer, except what a source will make of it. After an error, the rest of its body is what no batch has
/// taken; up to one batch before it may be unsent.
async fn send(
    worker: &Worker,
    transport: &mut Transport,
    client: &Client,
    answered: &mut Answered,
    with_body: bool,
    manner: Manner,
) -> Result<(), TransportError> {
    let mut head = worker.scratch();
    let date = worker.date(manner.at);
    head::write(
        &mut head,
        &answered.answer,
        &date,
        manner.framing,
        manner.ending,
    );
    let mut nothing = Body::default();
    if client.service.is_for_clients() {
        answered.answer.body.count_in(worker.meter());
    }
    let body = if with_body {
        &mut answered.answer.body
    } else {
        &mut nothing
    };
    let pool = worker.pool_for(&client.holdings);
    let pace = answered.pace.as_ref();
    let sent = paced::send(transport, &head, body, pool, &worker.limits, pace).await;
    worker.give_back(head);
    sent
}

/// Returns whether the start of the next request is unknown or too far away. With `Expect: 100-continue` the client may
/// or may not send the content, now that it has an answer.
fn has_unknown_end(head: &Head) -> bool {
    match head.framing {
        Framing::None => false,
        Framing::Length(length) if length > SKIPPED_MAX => true,
        Framing::Length(_) | Framing::Chunked => head.expects_continue,
    }
}
