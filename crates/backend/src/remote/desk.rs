//! Who waits for which reply of a connection.

use std::io;
use std::sync::Arc;

use scrim_nbd::client::ReplyError;
use scrim_nbd::wire::WireError;

use super::connection::Wake;

/// The desk of a connection: one slot for each request under way.
#[derive(Default)]
pub(super) struct Desk {
    slots: Vec<Slot>,
    /// True if somebody receives.
    receiving: bool,
    /// Why the connection is lost.
    lost: Option<Arc<io::Error>>,
}

struct Slot {
    /// Counts its uses, so that a reply to an earlier one is not taken for that to a later one.
    serial: u32,
    state: State,
    wake: Wake,
}

enum State {
    Free,
    /// For a reply with so many bytes. It is parked once its request has been sent: only then does
    /// somebody listen to the slot's wake.
    Waiting {
        expected: usize,
        parked: bool,
    },
    Answered(Answer),
    /// Its owner has received the reply himself.
    Received,
}

/// A reply: its data, or why there is none.
type Answer = Result<Vec<u8>, WireError>;

/// The right to one reply.
pub(super) struct Ticket {
    slot: u32,
    serial: u32,
    pub(super) wake: Wake,
}

impl Ticket {
    /// What the server calls the request.
    pub(super) fn cookie(&self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.slot)
    }
}

/// What has become of a request.
pub(super) enum Collected {
    Reply(Answer),
    Lost(Arc<io::Error>),
}

impl Desk {
    /// A ticket for a reply with so many bytes.
    ///
    /// # Errors
    /// When the connection is lost.
    pub(super) fn register(&mut self, expected: usize) -> Result<Ticket, Arc<io::Error>> {
        if let Some(error) = &self.lost {
            return Err(Arc::clone(error));
        }
        let free = |slot: &Slot| matches!(slot.state, State::Free);
        let index = self.slots.iter().position(free).unwrap_or_else(|| {
            self.slots.push(Slot {
                serial: 0,
                state: State::Free,
                wake: Wake::default(),
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.serial = slot.serial.wrapping_add(1);
        slot.state = State::Waiting {
            expected,
            parked: false,
        };
        Ok(Ticket {
            // As many as threads that ask.
            slot: u32::try_from(index).unwrap_or(u32::MAX),
            serial: slot.serial,
            wake: Arc::clone(&slot.wake),
        })
    }

    /// How many bytes the reply with this cookie has.
    ///
    /// # Errors
    /// When nobody waits for it.
    pub(super) fn expected(&self, cookie: u64) -> Result<usize, ReplyError> {
        let slot = self.index(cookie).and_then(|index| self.slots.get(index));
        match slot.map(|slot| &slot.state) {
            Some(State::Waiting { expected, .. }) => Ok(*expected),
            _ => Err(ReplyError::Cookie(cookie)),
        }
    }

    /// Puts a reply down for whom it belongs to.
    pub(super) fn deliver(&mut self, cookie: u64, answer: Answer) {
        let index = self.index(cookie);
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)) {
            slot.state = State::Answered(answer);
            slot.wake.notify_one();
        }
    }

    /// What has become of a request, if that is known.
    pub(super) fn collect(&mut self, ticket: &Ticket) -> Option<Collected> {
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Answered(answer) => Some(Collected::Reply(answer)),
            waiting => match &self.lost {
                Some(error) => Some(Collected::Lost(Arc::clone(error))),
                None => {
                    slot.state = waiting;
                    None
                }
            },
        }
    }

    /// The caller is about to wait for its slot's wake.
    pub(super) fn park(&mut self, ticket: &Ticket) {
        let slot = self.slots.get_mut(ticket.slot as usize);
        if let Some(State::Waiting { parked, .. }) = slot.map(|slot| &mut slot.state) {
            *parked = true;
        }
    }

    /// Has the caller receive, unless somebody does.
    pub(super) fn begin_receiving(&mut self) -> bool {
        !std::mem::replace(&mut self.receiving, true)
    }

    /// The reply of the one who receives has come: a second one would be nobody's.
    pub(super) fn received(&mut self, ticket: &Ticket) {
        if let Some(slot) = self.slots.get_mut(ticket.slot as usize) {
            slot.state = State::Received;
        }
    }

    /// Ends both the receiving and the request for which it was done; another who waits goes on.
    pub(super) fn end_receiving(&mut self, ticket: &Ticket) {
        self.receiving = false;
        if let Some(slot) = self.slots.get_mut(ticket.slot as usize) {
            slot.state = State::Free;
        }
        let waits = |slot: &&Slot| matches!(slot.state, State::Waiting { parked: true, .. });
        if let Some(next) = self.slots.iter().find(waits) {
            next.wake.notify_one();
        }
    }

    /// The connection is lost, for this reason unless there was one before: everybody hears of it.
    pub(super) fn close(&mut self, why: io::Error) -> Arc<io::Error> {
        let error = self.lost.get_or_insert_with(|| Arc::new(why));
        for slot in &self.slots {
            slot.wake.notify_one();
        }
        Arc::clone(error)
    }

    /// The slot that a cookie names now.
    fn index(&self, cookie: u64) -> Option<usize> {
        let index = usize::try_from(cookie & u64::from(u32::MAX)).ok()?;
        let slot = self.slots.get(index)?;
        (u64::from(slot.serial) == cookie >> 32).then_some(index)
    }
}
