//! The table of connections, what they did, and what went wrong: shared by all threads of a server.
//!
//! A connection is a newcomer until its handshake is over. Newcomers have places of their own, where one yields to
//! another; no newcomer can take the place of a client that is served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

use crate::limits::{self, Limits};
use crate::meter::Meter;
use crate::status::{ClientStatus, Event, Incident, Origin, Peer, Status, Traffic};
use scrim_nbd::tls::Protection;

/// The table of clients. `E` is a breach of their protocol.
pub(crate) struct Registry<E> {
    limits: Limits,
    table: Mutex<Table<E>>,
    /// Notified whenever a client has left.
    left: Condvar,
}

struct Table<E> {
    clients: BTreeMap<u64, Client>,
    accepted: u64,
    turned_away: u64,
    displaced: u64,
    protocol_errors: u64,
    /// Traffic of clients that have left.
    past: Traffic,
    events: Events<E>,
}

struct Client {
    socket: Arc<OwnedFd>,
    peer: Peer,
    stage: Stage,
    since: SystemTime,
    entered: Instant,
    meter: Arc<Meter>,
}

/// Progress of a connection.
enum Stage {
    Newcomer,
    /// It yielded to another newcomer; its thread ends once it notices that.
    Displaced,
    Served {
        export: String,
        tls: Option<Protection>,
    },
}

impl<E> Registry<E> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            table: Mutex::new(Table::new()),
            left: Condvar::new(),
        }
    }

    /// Checks whether another newcomer can be entered: not while too many of those that yielded have not gone yet.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().count(|client| !client.is_served()) < 2 * self.limits.newcomers
    }

    /// Enters a newcomer; another one may have to go for it.
    pub(crate) fn enter(self: &Arc<Self>, socket: Arc<OwnedFd>, peer: Peer) -> Entry<E> {
        let mut table = self.lock();
        if table.count(|client| matches!(client.stage, Stage::Newcomer)) >= self.limits.newcomers {
            table.displace(Some(peer.origin()), self.limits.answer);
        }
        table.accepted += 1;
        let id = table.accepted;
        let meter = Arc::new(Meter::default());
        let client = Client {
            socket,
            peer,
            stage: Stage::Newcomer,
            since: SystemTime::now(),
            entered: Instant::now(),
            meter: Arc::clone(&meter),
        };
        table.clients.insert(id, client);
        Entry {
            registry: Arc::clone(self),
            id,
            meter,
        }
    }

    /// Disconnects the newcomer that has to go first, if there is any.
    pub(crate) fn displace(&self) {
        self.lock().displace(None, self.limits.answer);
    }

    /// Notes an incident that belongs to no connection.
    pub(crate) fn note(&self, incident: Incident<E>) {
        self.lock().note(None, incident);
    }

    /// Number of clients that are served.
    pub(crate) fn clients(&self) -> usize {
        self.lock().count(Client::is_served)
    }

    /// Number of all connections.
    pub(crate) fn connections(&self) -> usize {
        self.lock().clients.len()
    }

    /// Waits until no client is left, at most for `limit`; returns how many are left.
    pub(crate) fn wait_until_empty(&self, limit: Duration) -> usize {
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
    pub(crate) fn disconnect_all(&self) {
        for client in self.lock().clients.values() {
            // A socket that is not connected any more needs no disconnecting.
            let _ = shutdown(&*client.socket, Shutdown::Both);
        }
    }

    /// A panic while the lock is held leaves nothing half done: each change is one insertion,
    /// removal or addition.
    fn lock(&self) -> MutexGuard<'_, Table<E>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Clone> Registry<E> {
    pub(crate) fn status(&self) -> Status<E> {
        let table = self.lock();
        let mut traffic = table.past;
        let clients: Vec<_> = table
            .clients
            .iter()
            .map(|(&id, client)| ClientStatus {
                id,
                peer: client.peer,
                export: client.export().map(str::to_owned),
                tls: client.protection(),
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
            displaced: table.displaced,
            protocol_errors: table.protocol_errors,
            traffic,
            events: table.events.all(),
        }
    }
}

impl Client {
    fn is_served(&self) -> bool {
        matches!(self.stage, Stage::Served { .. })
    }

    /// Checks whether it has not answered the greeting within `limit`.
    fn is_silent(&self, limit: Duration) -> bool {
        !self.meter.has_received() && self.entered.elapsed() >= limit
    }

    /// Checks whether the other side has closed the connection; its thread may not have noticed yet.
    fn has_hung_up(&self) -> bool {
        let mut socket = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        matches!(poll(&mut socket, Some(&now)), Ok(1..))
    }

    fn export(&self) -> Option<&str> {
        match &self.stage {
            Stage::Served { export, .. } => Some(export),
            Stage::Newcomer | Stage::Displaced => None,
        }
    }

    fn protection(&self) -> Option<Protection> {
        match &self.stage {
            Stage::Served { tls, .. } => *tls,
            Stage::Newcomer | Stage::Displaced => None,
        }
    }
}

impl<E> Table<E> {
    fn new() -> Self {
        Self {
            clients: BTreeMap::new(),
            accepted: 0,
            turned_away: 0,
            displaced: 0,
            protocol_errors: 0,
            past: Traffic::default(),
            events: Events(VecDeque::new()),
        }
    }

    fn count(&self, of: impl Fn(&Client) -> bool) -> usize {
        self.clients.values().filter(|client| of(client)).count()
    }

    /// Disconnects a newcomer: of the origin that has the most of them, the one that comes included, the oldest that
    /// has said nothing for `silence`, or the oldest.
    fn displace(&mut self, coming: Option<Origin>, silence: Duration) {
        let newcomer = |client: &Client| matches!(client.stage, Stage::Newcomer);
        let mut held: HashMap<Origin, usize> = HashMap::new();
        let here = self.clients.values().filter(|client| newcomer(client));
        for origin in here.map(|client| client.peer.origin()).chain(coming) {
            *held.entry(origin).or_default() += 1;
        }
        let first = self
            .clients
            .iter_mut()
            .filter(|(_, client)| newcomer(client))
            .min_by_key(|(id, client)| {
                let held = held.get(&client.peer.origin()).copied();
                (Reverse(held), !client.is_silent(silence), **id)
            });
        let Some((&id, client)) = first else {
            return;
        };
        client.stage = Stage::Displaced;
        // One that has gone already needs no disconnecting.
        let _ = shutdown(&*client.socket, Shutdown::Both);
        self.displaced += 1;
        self.note(Some(id), Incident::Displaced);
    }

    /// The reason why a newcomer cannot be served now.
    fn refusal(&self, id: u64, limits: &Limits) -> Option<Incident<E>> {
        let client = self.clients.get(&id)?;
        let origin = client.peer.origin();
        let of_peer = |client: &Client| client.is_served() && client.peer.origin() == origin;
        if matches!(client.stage, Stage::Displaced) {
            Some(Incident::Displaced)
        } else if self.count(Client::is_served) >= limits.clients {
            Some(Incident::TooManyClients)
        } else if self.count(of_peer) >= limits.clients_of_peer {
            Some(Incident::TooManyOfPeer)
        } else {
            None
        }
    }

    fn note(&mut self, client: Option<u64>, incident: Incident<E>) {
        if matches!(incident, Incident::Protocol(_)) {
            self.protocol_errors += 1;
        }
        let served = client.and_then(|id| self.clients.get(&id));
        let cause = match served.is_some_and(Client::is_served) {
            true => Cause::Client,
            false => Cause::Newcomer,
        };
        self.events.add(
            cause,
            Event {
                time: SystemTime::now(),
                client,
                incident,
            },
        );
    }
}

/// The last events. Every client that connects can cause some, so these never push out more than half of those on
/// connections that are served.
struct Events<E>(VecDeque<(Cause, Event<E>)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Newcomer,
    Client,
}

impl<E> Events<E> {
    fn add(&mut self, cause: Cause, event: Event<E>) {
        if self.0.len() >= limits::EVENTS {
            let held = |cause| self.0.iter().filter(|(of, _)| *of == cause).count();
            let goes = match held(Cause::Newcomer).cmp(&held(Cause::Client)) {
                std::cmp::Ordering::Greater => Cause::Newcomer,
                std::cmp::Ordering::Less => Cause::Client,
                std::cmp::Ordering::Equal => cause,
            };
            if let Some(oldest) = self.0.iter().position(|(of, _)| *of == goes) {
                self.0.remove(oldest);
            }
        }
        self.0.push_back((cause, event));
    }

    fn all(&self) -> Vec<Event<E>>
    where
        E: Clone,
    {
        self.0.iter().map(|(_, event)| event.clone()).collect()
    }
}

/// A client's place in the registry, held by its thread. Dropping it, also by a panic, is how a
/// client leaves.
pub(crate) struct Entry<E> {
    registry: Arc<Registry<E>>,
    id: u64,
    meter: Arc<Meter>,
}

impl<E> Entry<E> {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Checks whether it has yielded to another newcomer.
    pub(crate) fn is_displaced(&self) -> bool {
        let table = self.registry.lock();
        let client = table.clients.get(&self.id);
        client.is_none_or(|client| matches!(client.stage, Stage::Displaced))
    }

    /// Notes something that happened on this connection.
    pub(crate) fn note(&self, incident: Incident<E>) {
        self.registry.lock().note(Some(self.id), incident);
    }
}

impl<E: Clone> Entry<E> {
    /// The client has chosen an export, on a connection that is protected like this, and is served from here on. Where
    /// all places are taken, but some by clients that have hung up, this waits for one of these to leave.
    ///
    /// # Errors
    /// The reason why it is not served.
    pub(crate) fn take_place(
        &self,
        export: &str,
        tls: Option<Protection>,
    ) -> Result<(), Incident<E>> {
        let deadline = Instant::now() + limits::DEPARTURE;
        let mut table = self.registry.lock();
        while let Some(refusal) = table.refusal(self.id, &self.registry.limits) {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_leaving = |client: &Client| client.is_served() && client.has_hung_up();
            let is_displaced = matches!(refusal, Incident::Displaced);
            if left.is_zero() || is_displaced || table.count(is_leaving) == 0 {
                table.turned_away += u64::from(!is_displaced);
                table.note(Some(self.id), refusal.clone());
                return Err(refusal);
            }
            let waited = self.registry.left.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(client) = table.clients.get_mut(&self.id) {
            let export = export.to_owned();
            client.stage = Stage::Served { export, tls };
        }
        Ok(())
    }
}

impl<E> Drop for Entry<E> {
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
    use std::net::SocketAddr;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    /// A breach of the protocol of these clients.
    #[derive(Debug, Clone)]
    struct Breach;

    fn socket() -> Arc<OwnedFd> {
        Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap())
    }

    fn registry(limits: Limits) -> Arc<Registry<Breach>> {
        Arc::new(Registry::new(limits))
    }

    fn at(address: &str) -> Peer {
        Peer::Tcp(SocketAddr::new(address.parse().unwrap(), 1))
    }

    /// Connections that have not been displaced.
    fn staying(registry: &Registry<Breach>) -> Vec<u64> {
        let table = registry.lock();
        let staying = |client: &Client| !matches!(client.stage, Stage::Displaced);
        let staying = table.clients.iter().filter(|(_, client)| staying(client));
        staying.map(|(id, _)| *id).collect()
    }

    #[test]
    fn clients_are_served_up_to_the_limit_and_leave_their_traffic_behind() {
        let registry = registry(Limits {
            clients: 1,
            ..Limits::default()
        });
        let enter = || registry.enter(socket(), Peer::Unix(1));
        let (first, second) = (enter(), enter());
        assert_eq!((registry.clients(), registry.connections()), (0, 2));
        first.take_place("secret", None).unwrap();
        let refused = second.take_place("secret", None);
        assert!(matches!(refused, Err(Incident::TooManyClients)));
        drop(second);
        first.meter().received();
        assert_eq!(
            registry.status().clients[0].export.as_deref(),
            Some("secret")
        );
        assert_eq!(registry.wait_until_empty(Duration::ZERO), 1);
        drop(first);
        assert_eq!(registry.wait_until_empty(Duration::MAX), 0);
        let status = registry.status();
        assert_eq!((status.accepted, status.turned_away), (2, 1));
        assert_eq!(status.traffic.receives, 1);
        assert!(enter().take_place("secret", None).is_ok());
    }

    #[test]
    fn one_address_is_served_up_to_its_own_limit() {
        let registry = registry(Limits {
            clients: 4,
            clients_of_peer: 2,
            ..Limits::default()
        });
        let served = |peer| {
            let entry = registry.enter(socket(), peer);
            entry.take_place("", None).map(|()| entry)
        };
        let network = ["2001:db8::1", "2001:db8::2", "2001:db8::3"];
        let [one, two, three] = network.map(|address| served(at(address)));
        assert!(one.is_ok() && two.is_ok());
        assert!(matches!(three, Err(Incident::TooManyOfPeer)));
        let others = [at("2001:db8:0:1::1"), Peer::Unix(1)].map(served);
        assert!(others.iter().all(Result::is_ok));
        assert!(matches!(
            served(at("192.0.2.1")),
            Err(Incident::TooManyClients)
        ));
    }

    /// The registry is as after a quick row of short connections on a busy machine.
    #[test]
    fn a_client_waits_for_the_place_of_one_that_has_hung_up() {
        let registry = registry(Limits {
            clients_of_peer: 1,
            ..Limits::default()
        });
        let (here, there) = UnixStream::pair().unwrap();
        let first = registry.enter(Arc::new(here.into()), Peer::Unix(1));
        first.take_place("", None).unwrap();
        let second = registry.enter(socket(), Peer::Unix(1));
        let refused = second.take_place("", None);
        assert!(matches!(refused, Err(Incident::TooManyOfPeer)));
        drop(there);
        thread::scope(|scope| {
            let taken = scope.spawn(|| second.take_place("", None));
            // However late its thread notices.
            thread::sleep(Duration::from_millis(50));
            drop(first);
            assert!(taken.join().unwrap().is_ok());
        });
    }

    #[test]
    fn a_displaced_newcomer_is_not_served() {
        let registry = registry(Limits::default());
        let entry = registry.enter(socket(), Peer::Unix(1));
        registry.displace();
        assert!(entry.is_displaced());
        let refused = entry.take_place("", None);
        assert!(matches!(refused, Err(Incident::Displaced)));
        assert_eq!(registry.clients(), 0);
    }

    #[test]
    fn a_newcomer_displaces_one_of_the_address_with_the_most() {
        let registry = registry(Limits {
            newcomers: 4,
            answer: Duration::ZERO,
            ..Limits::default()
        });
        let enter = |address| registry.enter(socket(), at(address));
        let alone = enter("192.0.2.1");
        let served = enter("192.0.2.2");
        served.take_place("", None).unwrap();
        let talks = enter("192.0.2.2");
        talks.meter().received();
        let _silent = [(); 2].map(|()| enter("::ffff:192.0.2.2"));
        assert_eq!(staying(&registry), [1, 2, 3, 4, 5]);
        let _next = [(); 2].map(|()| enter("192.0.2.2"));
        assert_eq!(staying(&registry), [1, 2, 3, 6, 7], "the silent ones first");
        let _other = enter("192.0.2.3");
        assert_eq!(staying(&registry), [1, 2, 3, 7, 8]);
        drop((alone, talks));
        assert_eq!(registry.status().displaced, 3);
        assert_eq!(registry.clients(), 1);
    }

    #[test]
    fn those_that_are_not_gone_yet_are_bounded() {
        let registry = registry(Limits {
            newcomers: 2,
            ..Limits::default()
        });
        let enter = || registry.enter(socket(), Peer::Unix(1));
        let mut entries: Vec<Entry<Breach>> = (0..3).map(|_| enter()).collect();
        assert!(registry.has_room());
        entries.push(enter());
        assert!(!registry.has_room());
        entries.clear();
        assert!(registry.has_room());
    }

    #[test]
    fn only_the_last_events_are_remembered() {
        let registry = registry(Limits::default());
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
    fn newcomers_do_not_push_out_what_happened_to_clients_that_are_served() {
        let registry = registry(Limits::default());
        let served = registry.enter(socket(), Peer::Unix(1));
        served.take_place("", None).unwrap();
        for _ in 0..limits::EVENTS {
            served.note(Incident::Panicked);
        }
        for _ in 0..10 * limits::EVENTS {
            registry.note(Incident::HandshakeTimeout);
        }
        let events = registry.status().events;
        let kept = events.iter().filter(|event| event.client.is_some());
        assert_eq!(
            (kept.count(), events.len()),
            (limits::EVENTS / 2, limits::EVENTS)
        );
    }

    #[test]
    fn a_panicking_thread_leaves_the_registry_in_order() {
        let registry = registry(Limits::default());
        let entry = registry.enter(socket(), Peer::Unix(1));
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
