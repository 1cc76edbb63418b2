//! Results of compression, shared by all workers, within a limit on their memory. Each result counts for the address
//! that asked for it first, until no client receives it any more. An address has at most half of the memory; if all of
//! it is used, the least recently used result of the address that holds most is dropped. So a client that asks for many
//! files drops its own results before those of others.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::watch;
use zeroize::Zeroize;

use crate::address::Held;
use crate::http::Coding;

/// Bytes that each result counts besides its content, which bounds the number of results.
const OVERHEAD: usize = 4 << 10;

/// Results of all workers.
#[derive(Debug)]
pub(crate) struct Results {
    /// Limit in bytes on all results.
    most: usize,
    /// Limit on the compressions that run at the same time.
    slots: usize,
    /// Bytes of results, and of those that are being made.
    held: Arc<Held>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    owners: HashMap<Option<IpAddr>, Weak<Owner>>,
    /// Number of compressions that run.
    running: usize,
    /// Count of uses, which orders the entries by their last use.
    uses: u64,
}

/// A file of a site in a coding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) site: u64,
    pub(crate) path: Arc<[u8]>,
    pub(crate) coding: Coding,
}

#[derive(Debug)]
struct Entry {
    /// Entity tag of the content that was compressed.
    tag: Box<[u8]>,
    value: Value,
    last_use: u64,
}

#[derive(Debug)]
enum Value {
    /// A compression that runs; the sender is dropped when it ends.
    Running(watch::Sender<()>),
    Compressed(Arc<Compressed>),
    /// The result would be hardly smaller than the file.
    NotSmaller(Reservation),
}

/// Resources that one client address holds on all workers.
#[derive(Debug, Default)]
struct Owner {
    bytes: Held,
    running: Held,
}

/// Compressed content of a file.
#[derive(Debug)]
struct Compressed {
    bytes: Vec<u8>,
    /// True if the file is in a volume, whose plaintext is erased.
    is_secret: bool,
    reservation: Reservation,
}

/// Bytes that count for an address until this is dropped.
#[derive(Debug)]
struct Reservation {
    len: usize,
    owner: Arc<Owner>,
    held: Arc<Held>,
}

/// Result of looking for compressed content.
#[derive(Debug)]
pub(crate) enum Lookup {
    Found(Bytes),
    /// The content is being compressed, until the sender of this is dropped.
    Running(watch::Receiver<()>),
    /// The caller has to compress the content, and others wait for it.
    Begin(Job),
    /// The content is sent as it is: compression is of no use, or there is no thread or memory for it.
    Unavailable,
}

/// Result of a compression.
#[derive(Debug)]
pub(crate) enum Outcome {
    Smaller(Vec<u8>),
    NotSmaller,
    /// The file could not be read, or has changed.
    Failed,
}

/// A compression that was begun; it fails if it is dropped.
#[derive(Debug)]
pub(crate) struct Job {
    results: Arc<Results>,
    key: Key,
    is_secret: bool,
    owner: Arc<Owner>,
    reservation: Option<Reservation>,
    /// True while it counts among the compressions that run.
    is_running: bool,
}

impl Results {
    /// Makes an empty store of at most `most` bytes, which lets `slots` compressions run at the same time.
    pub(crate) fn new(most: usize, slots: usize) -> Self {
        Self {
            most,
            slots,
            held: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Size in bytes of the longest file whose content can be kept in a store of `most` bytes: an address has half.
    pub(crate) fn longest_file(most: usize) -> usize {
        (most / 2).saturating_sub(OVERHEAD)
    }

    /// Returns the compressed content of a file, if it is there.
    pub(crate) fn find(&self, key: &Key, tag: &[u8]) -> Option<Bytes> {
        let mut state = self.lock();
        state.uses += 1;
        let last_use = state.uses;
        let entry = state
            .entries
            .get_mut(key)
            .filter(|entry| *entry.tag == *tag)?;
        entry.last_use = last_use;
        match &entry.value {
            Value::Compressed(content) => Some(Compressed::share(content)),
            Value::Running(_) | Value::NotSmaller(_) => None,
        }
    }

    /// Looks for the compressed content of a file of `size` bytes. If it is not there, begins its compression for
    /// `client`, within that client's share of threads and memory.
    pub(crate) fn look(
        self: &Arc<Self>,
        key: &Key,
        tag: &[u8],
        size: usize,
        is_secret: bool,
        client: Option<IpAddr>,
    ) -> Lookup {
        if let Some(found) = self.find(key, tag) {
            return Lookup::Found(found);
        }
        let mut state = self.lock();
        match state.entries.get(key) {
            Some(Entry {
                tag: has, value, ..
            }) if **has == *tag => match value {
                Value::Running(sender) => return Lookup::Running(sender.subscribe()),
                Value::NotSmaller(_) => return Lookup::Unavailable,
                // Another worker has completed it meanwhile.
                Value::Compressed(content) => return Lookup::Found(Compressed::share(content)),
            },
            Some(Entry {
                value: Value::Running(_),
                ..
            }) => return Lookup::Unavailable,
            // The file has changed since.
            Some(_) => drop(state.entries.remove(key)),
            None => {}
        }
        let owner = state.owner(client);
        let left = self.slots.saturating_sub(state.running);
        if !owner.running.may_grow(left, 0) {
            return Lookup::Unavailable;
        }
        let Some(reservation) = self.reserve(&mut state, &owner, size.saturating_add(OVERHEAD))
        else {
            return Lookup::Unavailable;
        };
        owner.running.add(1);
        state.running += 1;
        let entry = Entry {
            tag: tag.into(),
            value: Value::Running(watch::Sender::new(())),
            last_use: state.uses,
        };
        state.entries.insert(key.clone(), entry);
        Lookup::Begin(Job {
            results: Arc::clone(self),
            key: key.clone(),
            is_secret,
            owner,
            reservation: Some(reservation),
            is_running: true,
        })
    }

    /// Drops all results: the sites have been replaced.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state
            .entries
            .retain(|_, entry| matches!(entry.value, Value::Running(_)));
    }

    /// Reserves memory for an address, and drops results for that: its own, if it would have more than half, and then
    /// those of the address that holds most.
    fn reserve(&self, state: &mut State, owner: &Arc<Owner>, len: usize) -> Option<Reservation> {
        if len > self.most / 2 {
            return None;
        }
        let own = |of: &Arc<Owner>| Arc::ptr_eq(of, owner);
        state.evict_until(own, || {
            owner.bytes.get().saturating_add(len) <= self.most / 2
        })?;
        state.evict_until(
            |_| true,
            || self.held.get().saturating_add(len) <= self.most,
        )?;
        owner.bytes.add(len);
        self.held.add(len);
        Some(Reservation {
            len,
            owner: Arc::clone(owner),
            held: Arc::clone(&self.held),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Finds the resources of a client, and forgets clients that hold none.
    fn owner(&mut self, client: Option<IpAddr>) -> Arc<Owner> {
        if let Some(owner) = self.owners.get(&client).and_then(Weak::upgrade) {
            return owner;
        }
        self.owners.retain(|_, owner| owner.strong_count() > 0);
        let owner = Arc::default();
        self.owners.insert(client, Arc::downgrade(&owner));
        owner
    }

    /// Drops results of owners that `may_lose` them until there is enough memory; `None` if there is not. Results that
    /// a client is receiving stay, since dropping them would free nothing.
    fn evict_until(
        &mut self,
        may_lose: impl Fn(&Arc<Owner>) -> bool,
        is_enough: impl Fn() -> bool,
    ) -> Option<()> {
        if is_enough() {
            return Some(());
        }
        let entries = self.entries.iter();
        let mut unused: Vec<_> = entries
            .filter_map(|(key, entry)| {
                let owner = entry.value.unused().filter(|owner| may_lose(owner))?;
                Some((Reverse(owner.bytes.get()), entry.last_use, key.clone()))
            })
            .collect();
        unused.sort_unstable_by_key(|(bytes, last_use, _)| (*bytes, *last_use));
        let mut unused = unused.into_iter();
        while !is_enough() {
            let (_, _, key) = unused.next()?;
            self.entries.remove(&key);
        }
        Some(())
    }
}

impl Value {
    /// Owner of a result that no client is receiving.
    fn unused(&self) -> Option<&Arc<Owner>> {
        match self {
            Self::Running(_) => None,
            Self::NotSmaller(reservation) => Some(&reservation.owner),
            Self::Compressed(content) => {
                (Arc::strong_count(content) == 1).then_some(&content.reservation.owner)
            }
        }
    }
}

impl Job {
    /// Makes a receiver that notices the end of the job.
    pub(crate) fn subscribe(&self) -> Option<watch::Receiver<()>> {
        match &self.results.lock().entries.get(&self.key)?.value {
            Value::Running(sender) => Some(sender.subscribe()),
            Value::Compressed(_) | Value::NotSmaller(_) => None,
        }
    }

    /// Stores the result. Requests that wait for it go on.
    pub(crate) fn finish(mut self, outcome: Outcome) {
        let Some(mut reservation) = self.reservation.take() else {
            return;
        };
        let value = match outcome {
            Outcome::Failed => return,
            Outcome::NotSmaller => {
                reservation.shrink(OVERHEAD);
                Value::NotSmaller(reservation)
            }
            Outcome::Smaller(bytes) => {
                reservation.shrink(OVERHEAD + bytes.len());
                Value::Compressed(Arc::new(Compressed {
                    bytes,
                    is_secret: self.is_secret,
                    reservation,
                }))
            }
        };
        let results = Arc::clone(&self.results);
        let mut state = results.lock();
        // Before the sender is dropped, which wakes the clients: one of them may request the next file at once.
        self.stop_counting(&mut state);
        if let Some(entry) = state.entries.get_mut(&self.key) {
            entry.value = value;
        }
    }

    fn stop_counting(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_running) {
            state.running -= 1;
            self.owner.running.subtract(1);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let results = Arc::clone(&self.results);
        let mut state = results.lock();
        self.stop_counting(&mut state);
        let entry = state.entries.get(&self.key);
        if entry.is_some_and(|entry| matches!(entry.value, Value::Running(_))) {
            state.entries.remove(&self.key);
        }
    }
}

impl Reservation {
    fn shrink(&mut self, len: usize) {
        let more = self.len.saturating_sub(len);
        self.len -= more;
        self.owner.bytes.subtract(more);
        self.held.subtract(more);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.owner.bytes.subtract(self.len);
        self.held.subtract(self.len);
    }
}

impl Compressed {
    /// Bytes for an answer, which keep the content until they are dropped.
    fn share(content: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Shared(Arc::clone(content)))
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        if self.is_secret {
            self.bytes.zeroize();
        }
    }
}

/// Content that an answer sends.
struct Shared(Arc<Compressed>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

#[cfg(test)]
mod tests;
