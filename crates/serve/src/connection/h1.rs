//! HTTP/1.1: one request after the other.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::client::Client;
use super::head::{self, Ending};
use crate::address::Address;
use crate::http::{Answer, Body, Framing, Head, Method, Refusal, Skipper, as_newest_known};
use crate::log::Entry;
use crate::site::error_page;
use crate::transport::{PoolHandle, Transport, TransportError};
use crate::worker::Worker;

/// Most bytes of a request's content that are received and thrown away, so that the next request can come by
/// the same connection.
const SKIPPED_MAX: u64 = 64 << 10;

/// Outcome of a request for its connection: it goes on, or it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Next,
    Close,
}

/// A connection, with the bytes that have come by it and are not answered yet.
struct Http1Connection<'a> {
    worker: &'a Worker,
    client: Client,
    transport: Transport,
    inbox: Vec<u8>,
    /// Timer that runs out when the connection may have been idle for too long. It is set again only then, and not by
    /// each request.
    idle: Pin<Box<Sleep>>,
    /// Ends when the worker takes no more requests.
    draining: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Serves requests until either side ends it; `inbox` has what has come already.
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
            Ok(Then::Next) => {}
            Ok(Then::Close) => break Ok(()),
            Err(broken) => break Err(broken),
        }
    };
    connection.transport.end(ended, &worker.limits).await;
}

impl Http1Connection<'_> {
    /// Receives and answers one request, from its first byte to the last one of its answer.
    async fn next(&mut self) -> Result<Then, TransportError> {
        if self.inbox.is_empty() && !self.first_bytes().await? {
            return Ok(Then::Close);
        }
        // Most requests come whole, so that there is no need to look at the clock.
        let mut deadline = None;
        loop {
            match Head::parse(&self.inbox, &self.worker.limits.head) {
                Ok(Some(head)) => {
                    let (used, framing) = (head.length, head.framing);
                    let then =
                        answer(self.worker, &self.client, &mut self.transport, &head).await?;
                    self.inbox.drain(..used);
                    if !self.inbox.is_empty() {
                        // A client that sends requests ahead takes a turn for each, as others do.
                        tokio::task::yield_now().await;
                    }
                    return match then {
                        Then::Next if framing == Framing::None => Ok(then),
                        Then::Next => self.skip(framing).await,
                        Then::Close => Ok(then),
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
                return Ok(Then::Close);
            }
        }
    }

    /// Waits for a request, without a buffer; false if none comes any more.
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
        // It is not begun again when the clock wakes us: it may be in the middle of sending something.
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

    /// Throws a request's content away, which nothing here has a use for.
    async fn skip(&mut self, framing: Framing) -> Result<Then, TransportError> {
        let deadline = Instant::now() + self.worker.limits.request;
        let Ok(mut skipper) = Skipper::new(framing, SKIPPED_MAX) else {
            return Ok(Then::Close);
        };
        loop {
            // It has its answer; where the next request begins cannot be told any more.
            let Ok(skipped) = skipper.skip(&self.inbox) else {
                return Ok(Then::Close);
            };
            self.inbox.drain(..skipped.bytes);
            if skipped.is_all {
                return Ok(Then::Next);
            }
            let receive = self.transport.receive(&mut self.inbox, &self.worker.limits);
            let Ok(received) = timeout_at(deadline, receive).await else {
                return Ok(Then::Close);
            };
            if received? == 0 {
                return Ok(Then::Close);
            }
        }
    }

    /// Answers something that was not understood, and ends the connection: the beginning of the next request is
    /// unknown.
    async fn refuse(&mut self, status: StatusCode) -> Result<Then, TransportError> {
        let (at, began) = (SystemTime::now(), std::time::Instant::now());
        let (worker, transport) = (self.worker, &mut self.transport);
        let mut answer = error_page(status);
        let length = answer.body.length();
        let sent = send(
            worker,
            transport,
            &self.client.holdings,
            &mut answer,
            true,
            Ending::Close,
            at,
        )
        .await;
        worker.record(&Entry {
            service: self.client.service,
            client: self.client.address.ip(),
            at,
            method: "-",
            target: "-",
            version: "HTTP/1.1",
            host: None,
            status: status.as_u16(),
            bytes: length - answer.body.length(),
            whole: sent.is_ok(),
            took: began.elapsed(),
            referer: None,
            user_agent: None,
            tls: self.client.tls,
        });
        sent.map(|()| Then::Close)
    }
}

/// Answers a request.
async fn answer(
    worker: &Worker,
    client: &Client,
    transport: &mut Transport,
    head: &Head<'_>,
) -> Result<Then, TransportError> {
    let (at, began) = (SystemTime::now(), std::time::Instant::now());
    let request = &head.request;
    let mut answer = worker
        .answer(client.service, &client.origin, &client.holdings, request)
        .await;
    let goes_on = head.keep_alive
        && !worker.is_draining()
        && !is_unsure(head)
        && transport.lasts(answer.body.length());
    let ending = match (goes_on, head.is_old) {
        (true, false) => Ending::Usual,
        (true, true) => Ending::KeepAlive,
        (false, _) => Ending::Close,
    };
    let with_body = request.method != Method::Head && head::has_length(answer.status);
    let length = answer.body.length();
    let sent = send(
        worker,
        transport,
        &client.holdings,
        &mut answer,
        with_body,
        ending,
        at,
    )
    .await;
    if let Err(broken) = &sent {
        worker.report_file(broken, request.target);
    }
    worker.record(&Entry {
        service: client.service,
        client: client.address.ip(),
        at,
        method: request.method_name,
        target: request.target,
        version: if head.is_old { "HTTP/1.0" } else { "HTTP/1.1" },
        host: request.host,
        status: answer.status.as_u16(),
        bytes: if with_body {
            length - answer.body.length()
        } else {
            0
        },
        whole: sent.is_ok(),
        took: began.elapsed(),
        referer: request.fields.referer,
        user_agent: request.fields.user_agent,
        tls: client.tls,
    });
    sent.map(|()| if goes_on { Then::Next } else { Then::Close })
}

/// Sends an answer. What is left of its body afterwards was not sent.
async fn send(
    worker: &Worker,
    transport: &mut Transport,
    address: &Arc<Address>,
    answer: &mut Answer,
    with_body: bool,
    ending: Ending,
    at: SystemTime,
) -> Result<(), TransportError> {
    let mut head = worker.scratch();
    head::write(&mut head, answer, &worker.date(at), ending);
    let mut nothing = Body::default();
    let body = if with_body {
        &mut answer.body
    } else {
        &mut nothing
    };
    let pool = PoolHandle {
        pool: &worker.pool,
        address,
    };
    let sent = transport.send(&head, body, pool, &worker.limits).await;
    worker.give_back(head);
    sent
}

/// Returns whether it cannot be said, or takes too long to find out, where the next request begins: a client that
/// waits to be told to send its content may send it or not, now that it has an answer.
fn is_unsure(head: &Head) -> bool {
    match head.framing {
        Framing::None => false,
        Framing::Length(length) if length > SKIPPED_MAX => true,
        Framing::Length(_) | Framing::Chunked => head.expects_continue,
    }
}
