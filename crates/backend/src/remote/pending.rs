//! The pending replies of a connection, and the threads that wait for them.

use std::io;
use std::sync::{Arc, Condvar};

use scrim_nbd::client::ReplyError;
use scrim_nbd::wire::WireError;

/// Most bytes of the reply buffers that the slots keep together: fresh memory costs more than the copy out of it.
const KEPT: usize = 8 << 20;

/// Condition variable that wakes the thread that waits for a reply.
type Wake = Arc<Condvar>;

/// The pending replies of a connection: one slot for each request in flight.
#[derive(Default)]
pub(super) struct PendingReplies {
    slots: Vec<Slot>,
    /// Number of bytes of the buffers in the slots.
    kept: usize,
    /// True if a thread receives.
    receiving: bool,
    /// Error by which the connection was lost.
    lost: Option<Arc<io::Error>>,
}

struct Slot {
    /// Counts its uses, so that a reply to an earlier one is not taken for that to a later one.
    serial: u32,
    state: State,
    wake: Wake,
    /// Buffer of an earlier reply, for the next.
    buffer: Vec<u8>,
}

enum State {
    Free,
    /// Waiting for a reply with `expected` bytes. The slot is parked once its request has been sent: only
    /// then does a thread wait on the slot's condition variable.
    Waiting {
        expected: usize,
        parked: bool,
    },
    Answered(Answer),
    /// Its owner has received the reply itself.
    Received,
}

/// A reply: its data, or the server's error.
type Answer = Result<Vec<u8>, WireError>;

/// The right to one reply.
pub(super) struct ReplyHandle {
    slot: u32,
    serial: u32,
    pub(super) wake: Wake,
}

impl ReplyHandle {
    /// Returns the cookie that names the request to the server.
    pub(super) fn cookie(&self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.slot)
    }
}

/// Outcome of a request.
pub(super) enum Collected {
    Reply(Answer),
    Lost(Arc<io::Error>),
}

impl PendingReplies {
    /// Returns a handle for a reply with `expected` bytes.
    ///
    /// # Errors
    /// When the connection is lost.
    pub(super) fn register(&mut self, expected: usize) -> Result<ReplyHandle, Arc<io::Error>> {
        if let Some(error) = &self.lost {
            return Err(Arc::clone(error));
        }
        let free = |slot: &Slot| matches!(slot.state, State::Free);
        let index = self.slots.iter().position(free).unwrap_or_else(|| {
            self.slots.push(Slot {
                serial: 0,
                state: State::Free,
                wake: Wake::default(),
                buffer: Vec::new(),
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.serial = slot.serial.wrapping_add(1);
        slot.state = State::Waiting {
            expected,
            parked: false,
        };
        Ok(ReplyHandle {
            // There are as many slots as threads that make requests.
            slot: u32::try_from(index).unwrap_or(u32::MAX),
            serial: slot.serial,
            wake: Arc::clone(&slot.wake),
        })
    }

    /// Returns the number of data bytes of the reply with this cookie.
    ///
    /// # Errors
    /// When no thread waits for it.
    pub(super) fn expected(&self, cookie: u64) -> Result<usize, ReplyError> {
        let slot = self.index(cookie).and_then(|index| self.slots.get(index));
        match slot.map(|slot| &slot.state) {
            Some(State::Waiting { expected, .. }) => Ok(*expected),
            _ => Err(ReplyError::Cookie(cookie)),
        }
    }

    /// Returns a buffer for the data of the reply with this cookie; its bytes are anything.
    ///
    /// # Errors
    /// As for [`PendingReplies::expected`].
    pub(super) fn buffer(&mut self, cookie: u64) -> Result<Vec<u8>, ReplyError> {
        let expected = self.expected(cookie)?;
        let slot = self.index(cookie).and_then(|at| self.slots.get_mut(at));
        let mut buffer = slot.map_or_else(Vec::new, |slot| std::mem::take(&mut slot.buffer));
        self.kept -= buffer.capacity();
        buffer.resize(expected, 0);
        Ok(buffer)
    }

    /// Takes back the buffer of a reply that has been collected.
    pub(super) fn give_back(&mut self, handle: &ReplyHandle, buffer: Vec<u8>) {
        if self.kept + buffer.capacity() > KEPT {
            return;
        }
        if let Some(slot) = self.slots.get_mut(handle.slot as usize) {
            self.kept += buffer.capacity();
            self.kept -= std::mem::replace(&mut slot.buffer, buffer).capacity();
        }
    }

    /// Stores a reply for the thread that waits for it, and wakes that thread.
    pub(super) fn deliver(&mut self, cookie: u64, answer: Answer) {
        let index = self.index(cookie);
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)) {
            slot.state = State::Answered(answer);
            slot.wake.notify_one();
        }
    }

    /// Returns the outcome of a request, if that is known.
    pub(super) fn collect(&mut self, handle: &ReplyHandle) -> Option<Collected> {
        let slot = self.slots.get_mut(handle.slot as usize)?;
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

    /// Records that the caller is about to wait on its slot's condition variable.
    pub(super) fn park(&mut self, handle: &ReplyHandle) {
        let slot = self.slots.get_mut(handle.slot as usize);
        if let Some(State::Waiting { parked, .. }) = slot.map(|slot| &mut slot.state) {
            *parked = true;
        }
    }

    /// Makes the caller the receiver, unless another thread is.
    pub(super) fn begin_receiving(&mut self) -> bool {
        !std::mem::replace(&mut self.receiving, true)
    }

    /// Records that the receiver's own reply has come: a second one with its cookie would belong to no request.
    pub(super) fn received(&mut self, handle: &ReplyHandle) {
        if let Some(slot) = self.slots.get_mut(handle.slot as usize) {
            slot.state = State::Received;
        }
    }

    /// Ends both the receiving and the request for which it was done, and wakes another waiting thread to receive.
    pub(super) fn end_receiving(&mut self, handle: &ReplyHandle) {
        self.receiving = false;
        if let Some(slot) = self.slots.get_mut(handle.slot as usize) {
            slot.state = State::Free;
        }
        let waits = |slot: &&Slot| matches!(slot.state, State::Waiting { parked: true, .. });
        if let Some(next) = self.slots.iter().find(waits) {
            next.wake.notify_one();
        }
    }

    /// Records that the connection is lost, for this reason unless there was one before, and wakes every
    /// waiting thread.
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
