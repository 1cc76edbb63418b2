//! The thread that accepts clients.
//!
//! A connection that has sent nothing yet costs a descriptor and an entry in the registry. It gets a thread and buffers
//! with its first byte. So any number of connections that stay silent takes neither memory nor time from clients that
//! are served.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use scrim_nbd::tls::ServerTls;

use crate::client::serve_client;
use crate::limits;
use crate::link::time_left;
use crate::listener::Listener;
use crate::protocol::Protocol;
use crate::registry::Entry;
use crate::shared::Shared;
use crate::status::{Incident, Peer};

pub(crate) struct Acceptor<'a, P: Protocol> {
    shared: &'a Arc<Shared<P::Error>>,
    listeners: &'a [Listener],
    /// Connections that have not answered the greeting, the oldest first.
    silent: Vec<Silent<P::Error>>,
    threads: Vec<JoinHandle<()>>,
}

/// A connection that has been greeted and has not answered.
struct Silent<E> {
    socket: Arc<OwnedFd>,
    tls: Option<ServerTls>,
    entry: Entry<E>,
    deadline: Instant,
}

/// State of a silent connection after a wait.
enum State {
    Silent,
    HasSent,
    Gone,
}

impl<'a, P: Protocol> Acceptor<'a, P> {
    pub(crate) fn new(shared: &'a Arc<Shared<P::Error>>, listeners: &'a [Listener]) -> Self {
        Self {
            shared,
            listeners,
            silent: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// Accepts clients until the server stops; returns their threads.
    pub(crate) fn run(mut self) -> Vec<JoinHandle<()>> {
        while let Some(ready) = self.wait() {
            self.threads.retain(|thread| !thread.is_finished());
            if let Err(error) = self.serve_ready(&ready) {
                // The connection is closed, and its descriptor has come back.
                self.fail(&error);
            }
            if let Err(error) = self.accept() {
                // Its descriptor comes back.
                self.shared.registry.displace();
                self.fail(&error);
            }
        }
        self.threads
    }

    /// Notes that a connection cannot be accepted. Without descriptors, threads or memory a listener stays ready, so
    /// the thread must not spin on it.
    fn fail(&self, error: &io::Error) {
        self.shared.registry.note(Incident::Accept {
            reason: error.to_string(),
        });
        self.pause();
    }

    /// Waits for a new client, for the first bytes of a silent one, or for a deadline; returns for each silent one
    /// whether its socket is ready, or `None` when the server stops.
    fn wait(&self) -> Option<Vec<bool>> {
        let listeners = self
            .listeners
            .iter()
            .map(|listener| PollFd::new(listener, PollFlags::IN));
        let silent = self
            .silent
            .iter()
            .map(|silent| PollFd::new(&silent.socket, PollFlags::IN));
        let mut sources: Vec<PollFd<'_>> = silent.chain(listeners).collect();
        sources.push(PollFd::new(&*self.shared.stop, PollFlags::IN));
        // The first of them has the first deadline.
        let nothing = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let deadline = self.silent.first().map(|oldest| oldest.deadline);
        let timeout = time_left(deadline).unwrap_or(Some(nothing));
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => self.pause(),
        }
        let ready = sources.iter().take(self.silent.len());
        let ready = ready.map(|source| !source.revents().is_empty()).collect();
        (!self.shared.stop.is_raised()).then_some(ready)
    }

    /// Gives a thread to each connection that has sent something, and drops those that have ended or were silent for
    /// too long.
    fn serve_ready(&mut self, ready: &[bool]) -> io::Result<()> {
        let now = Instant::now();
        let mut result = Ok(());
        for (silent, ready) in std::mem::take(&mut self.silent).into_iter().zip(ready) {
            match silent.state(*ready) {
                // It was displaced after it had sent something.
                State::HasSent if silent.entry.is_displaced() => {}
                State::HasSent => match self.serve(silent) {
                    Ok(thread) => self.threads.push(thread),
                    Err(error) => result = Err(error),
                },
                State::Silent if now < silent.deadline => self.silent.push(silent),
                State::Silent => silent.entry.note(Incident::HandshakeTimeout),
                State::Gone => {}
            }
        }
        result
    }

    fn serve(&self, silent: Silent<P::Error>) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self.shared);
        thread::Builder::new()
            .name(format!("{}-{}", P::NAME, silent.entry.id()))
            .stack_size(limits::STACK)
            .spawn(move || {
                let Silent {
                    socket,
                    tls,
                    entry,
                    deadline,
                } = silent;
                serve_client::<P>(shared, &socket, tls.as_ref(), entry, deadline);
            })
    }

    /// Accepts clients that have connected, only some at a time, so that silent ones are polled in between.
    fn accept(&mut self) -> io::Result<()> {
        if !self.shared.registry.has_room() {
            // The kernel keeps connections that come meanwhile.
            self.pause();
        }
        for listener in self.listeners {
            for _ in 0..limits::BACKLOG {
                if !self.shared.registry.has_room() {
                    return Ok(());
                }
                let Some((socket, peer)) = listener.accept()? else {
                    break;
                };
                let greeted = self.greet(socket, peer, listener.tls());
                self.silent.extend(greeted);
            }
        }
        Ok(())
    }

    /// Enters a client and sends the greeting; `None` if the client has gone.
    fn greet(
        &self,
        socket: OwnedFd,
        peer: Peer,
        tls: Option<&ServerTls>,
    ) -> Option<Silent<P::Error>> {
        let deadline = Instant::now().checked_add(self.shared.limits.handshake)?;
        let socket = Arc::new(socket);
        let entry = self.shared.registry.enter(Arc::clone(&socket), peer);
        // Nothing has been sent before, so it fits the send buffer.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = send(&socket, P::GREETING, flags).ok()?;
        entry.meter().sent(1);
        (sent == P::GREETING.len()).then_some(Silent {
            socket,
            tls: tls.cloned(),
            entry,
            deadline,
        })
    }

    fn pause(&self) {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: limits::ACCEPT_PAUSE.subsec_nanos().into(),
        };
        let mut sources = [PollFd::new(&*self.shared.stop, PollFlags::IN)];
        let _ = poll(&mut sources, Some(&timeout));
    }
}

impl<E> Silent<E> {
    fn state(&self, is_ready: bool) -> State {
        if !is_ready {
            return State::Silent;
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&self.socket, &mut [0; 1], flags) {
            Ok((_, 1..)) => State::HasSent,
            Err(Errno::AGAIN | Errno::INTR) => State::Silent,
            Ok(_) | Err(_) => State::Gone,
        }
    }
}
