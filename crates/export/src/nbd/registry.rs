//! Who is connected, what they did, and what went wrong: shared by all threads of a server.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::net::{Shutdown, shutdown};

use super::limits;
use super::meter::Meter;
use super::status::{ClientStatus, Event, Incident, Peer, Status, Traffic};
use scrim_nbd::tls::Protection;

/// The table of clients.
#[derive(Default)]
pub(super) struct Registry {
    table: Mutex<Table>,
    /// Told whenever a client has left.
    left: Condvar,
}

#[derive(Default)]
struct Table {
    clients: BTreeMap<u64, Client>,
    accepted: u64,
    turned_away: u64,
    protocol_errors: u64,
    /// Traffic of clients that have left.
    past: Traffic,
    events: VecDeque<Event>,
}

struct Client {
    socket: Arc<OwnedFd>,
    peer: Peer,
    export: Option<String>,
    tls: Option<Protection>,
    since: SystemTime,
    meter: Arc<Meter>,
}

impl Registry {
    /// Enters a client; `None` when `most` are here already.
    pub(super) fn enter(
        self: &Arc<Self>,
        socket: Arc<OwnedFd>,
        peer: Peer,
        most: usize,
    ) -> Option<Entry> {
        let mut table = self.lock();
        if table.clients.len() >= most {
            table.turned_away += 1;
            table.note(None, Incident::TooManyClients);
            return None;
        }
        table.accepted += 1;
        let id = table.accepted;
        let meter = Arc::new(Meter::default());
        let client = Client {
            socket,
            peer,
            export: None,
            tls: None,
            since: SystemTime::now(),
            meter: Arc::clone(&meter),
        };
        table.clients.insert(id, client);
        Some(Entry {
            registry: Arc::clone(self),
            id,
            meter,
        })
    }

    /// Notes something that no client is to blame for.
    pub(super) fn note(&self, incident: Incident) {
        self.lock().note(None, incident);
    }

    pub(super) fn clients(&self) -> usize {
        self.lock().clients.len()
    }

    /// Waits until no client is left, at most for `limit`; tells how many are.
    pub(super) fn wait_until_empty(&self, limit: Duration) -> usize {
        let deadline = Instant::now().checked_add(limit);
        let mut table = self.lock();
        while !table.clients.is_empty() {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            let waited = self.left.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        table.clients.len()
    }

    /// Ends every client's socket calls, present and future.
    pub(super) fn disconnect_all(&self) {
        for client in self.lock().clients.values() {
            // A socket that is not connected any more needs no disconnecting.
            let _ = shutdown(&*client.socket, Shutdown::Both);
        }
    }

    pub(super) fn status(&self) -> Status {
        let table = self.lock();
        let mut traffic = table.past;
        let clients: Vec<_> = table
            .clients
            .iter()
            .map(|(&id, client)| ClientStatus {
                id,
                peer: client.peer,
                export: client.export.clone(),
                tls: client.tls,
                since: client.since,
                traffic: client.meter.snapshot(),
            })
            .collect();
        for client in &clients {
            traffic.add(&client.traffic);
        }
        Status {
            clients,
            accepted: table.accepted,
            turned_away: table.turned_away,
            protocol_errors: table.protocol_errors,
            traffic,
            events: table.events.iter().cloned().collect(),
        }
    }

    /// A panic while the lock is held leaves nothing half done: each change is one insertion,
    /// removal or addition.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn note(&mut self, client: Option<u64>, incident: Incident) {
        if matches!(incident, Incident::Protocol(_)) {
            self.protocol_errors += 1;
        }
        if self.events.len() >= limits::EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            time: SystemTime::now(),
            client,
            incident,
        });
    }
}

/// A client's place in the registry, held by its thread. Dropping it, also by a panic, is how a
/// client leaves.
pub(super) struct Entry {
    registry: Arc<Registry>,
    id: u64,
    meter: Arc<Meter>,
}

impl Entry {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// The client has chosen an export, on a connection that is protected like this.
    pub(super) fn chose(&self, export: &str, tls: Option<Protection>) {
        if let Some(client) = self.registry.lock().clients.get_mut(&self.id) {
            client.export = Some(export.to_owned());
            client.tls = tls;
        }
    }

    /// Notes something that happened on this connection.
    pub(super) fn note(&self, incident: Incident) {
        self.registry.lock().note(Some(self.id), incident);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.registry.lock();
        if std::thread::panicking() {
            table.note(Some(self.id), Incident::Panicked);
        }
        table.clients.remove(&self.id);
        table.past.add(&self.meter.snapshot());
        drop(table);
        self.registry.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn socket() -> Arc<OwnedFd> {
        Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap())
    }

    #[test]
    fn clients_enter_up_to_the_limit_and_leave_their_traffic_behind() {
        let registry = Arc::new(Registry::default());
        let first = registry.enter(socket(), Peer::Unix, 1).unwrap();
        assert!(registry.enter(socket(), Peer::Unix, 1).is_none());
        first.chose("secret", None);
        first.meter().received();
        assert_eq!(
            registry.status().clients[0].export.as_deref(),
            Some("secret")
        );
        assert_eq!(registry.wait_until_empty(Duration::ZERO), 1);
        drop(first);
        assert_eq!(registry.wait_until_empty(Duration::MAX), 0);
        let status = registry.status();
        assert_eq!((status.accepted, status.turned_away), (1, 1));
        assert_eq!(status.traffic.receives, 1);
        assert!(registry.enter(socket(), Peer::Unix, 1).is_some());
    }

    #[test]
    fn only_the_last_events_are_remembered() {
        let registry = Registry::default();
        for _ in 0..limits::EVENTS {
            registry.note(Incident::TooManyClients);
        }
        registry.note(Incident::HandshakeTimeout);
        let events = registry.status().events;
        assert_eq!(events.len(), limits::EVENTS);
        let last = &events.last().unwrap().incident;
        assert!(matches!(last, Incident::HandshakeTimeout));
    }

    #[test]
    fn a_panicking_thread_leaves_the_registry_in_order() {
        let registry = Arc::new(Registry::default());
        let entry = registry.enter(socket(), Peer::Unix, 1).unwrap();
        let thread = std::thread::spawn(move || {
            let _entry = entry;
            panic!("expected by this test");
        });
        assert!(thread.join().is_err());
        let status = registry.status();
        assert!(status.clients.is_empty());
        assert!(matches!(status.events[0].incident, Incident::Panicked));
    }
}
