//! Turns for expensive work: few at a time for the whole server, and one for each address.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Limit on the turns that are taken at a time.
pub(super) const RUNNING_MAX: usize = 2;
/// Limit on the requests of one address that wait.
const WAITING_MAX: usize = 32;
/// Limit on the addresses whose requests wait.
const ADDRESSES_MAX: usize = 1024;

/// Turns that are taken, and requests that wait for one.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    /// Addresses that have a turn.
    running: Vec<IpAddr>,
    /// Requests by address; the address that is served next comes first.
    waiting: VecDeque<(IpAddr, VecDeque<oneshot::Sender<Turn>>)>,
}

/// The right to do the work, until this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    client: IpAddr,
    /// Queue to which the turn is returned; `None` if it was not counted.
    turns: Option<Turns>,
}

impl Turns {
    /// Queues a request for a turn; `None` if too many wait already.
    pub(super) fn queue(&self, client: IpAddr) -> Option<oneshot::Receiver<Turn>> {
        let (sender, receiver) = oneshot::channel();
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = queue.waiting.iter_mut();
        match others.find(|(address, _)| *address == client) {
            Some((_, waiting)) => {
                if waiting.len() >= WAITING_MAX {
                    // Cancelled requests would otherwise stay until they reach the front.
                    waiting.retain(|sender| !sender.is_closed());
                }
                if waiting.len() >= WAITING_MAX {
                    return None;
                }
                waiting.push_back(sender);
            }
            None => {
                if queue.waiting.len() >= ADDRESSES_MAX {
                    let is_wanted = |sender: &oneshot::Sender<Turn>| !sender.is_closed();
                    queue
                        .waiting
                        .retain(|(_, waiting)| waiting.iter().any(is_wanted));
                }
                if queue.waiting.len() >= ADDRESSES_MAX {
                    return None;
                }
                queue.waiting.push_back((client, VecDeque::from([sender])));
            }
        }
        queue.hand_out(self);
        Some(receiver)
    }
}

impl Queue {
    /// Hands out free turns to the addresses that have none, one after the other.
    fn hand_out(&mut self, turns: &Turns) {
        while self.running.len() < RUNNING_MAX {
            let is_free = |(client, _): &(IpAddr, _)| !self.running.contains(client);
            let next = self.waiting.iter().position(is_free);
            let Some((client, mut waiting)) = next.and_then(|next| self.waiting.remove(next))
            else {
                return;
            };
            while let Some(sender) = waiting.pop_front() {
                let turn = Turn {
                    client,
                    turns: Some(turns.clone()),
                };
                match sender.send(turn) {
                    Ok(()) => {
                        self.running.push(client);
                        break;
                    }
                    // The request was cancelled, and the turn was not counted.
                    Err(mut turn) => turn.turns = None,
                }
            }
            if !waiting.is_empty() {
                self.waiting.push_back((client, waiting));
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.turns.take() else {
            return;
        };
        let mut queue = turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.running.retain(|client| *client != self.client);
        queue.hand_out(&turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    #[test]
    fn an_address_with_many_requests_leaves_turns_for_others() {
        let turns = Turns::default();
        let mut greedy: Vec<_> = (0..WAITING_MAX).map(|_| turns.queue(client(1))).collect();
        let mut first = greedy.remove(0).expect("a place");
        let first = first.try_recv().expect("a turn");
        assert!(
            greedy
                .iter_mut()
                .flatten()
                .all(|turn| turn.try_recv().is_err())
        );
        let mut other = turns.queue(client(2)).expect("a place");
        let other = other.try_recv().expect("a turn");
        let mut third = turns.queue(client(3)).expect("a place");
        assert!(third.try_recv().is_err(), "there are only {RUNNING_MAX}");
        // The greedy address is first in the queue, and the next turn is its own.
        drop(first);
        let of_greedy = greedy
            .iter_mut()
            .flatten()
            .filter_map(|turn| turn.try_recv().ok());
        assert_eq!(of_greedy.count(), 1);
        drop(other);
        assert!(third.try_recv().is_ok());
    }

    #[test]
    fn the_queue_is_limited_and_cancelled_requests_leave_it() {
        let turns = Turns::default();
        let held: Vec<_> = (1..3).map(|number| turns.queue(client(number))).collect();
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| turns.queue(client(1))).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(turns.queue(client(1)).is_none());
        drop(waiting);
        let mut next = turns.queue(client(1)).expect("a place");
        assert!(next.try_recv().is_err());
        drop(held);
        assert!(next.try_recv().is_ok());
        drop(next);
        let queue = turns.0.lock().expect("the queue");
        assert!(queue.running.is_empty() && queue.waiting.is_empty());
    }
}
