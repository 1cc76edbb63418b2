//! What goes out over TLS with one send: records side by side, filled where they lie.

use std::io::{self, IoSliceMut};

use crate::site::{OpenFile, Patience};
use crate::tls::record::Layout;
use crate::tls::{PAYLOAD_MAX, Session, TlsError};

/// Most records in a batch: what stays in the second cache between reading, sealing and sending.
pub(super) const RECORDS: usize = 8;

/// Room for records, and what has been put there.
pub(super) struct Batch {
    room: Vec<u8>,
    layout: Layout,
    records: usize,
    /// Bytes of payload. All records but the last are full.
    used: usize,
}

impl Batch {
    /// An empty one of so many records, in memory that may have been another's.
    pub(super) fn new(mut room: Vec<u8>, layout: Layout, records: usize) -> Self {
        let len = records * stride(layout);
        if room.len() < len {
            room.resize(len, 0);
        }
        Self {
            room,
            layout,
            records,
            used: 0,
        }
    }

    /// Its memory, for another.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.room
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.records * PAYLOAD_MAX
    }

    /// Copies as much of `bytes` as there is room for; tells how much.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        for place in self.free(bytes.len()) {
            let len = place.len();
            place.copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
        self.used += done;
        done
    }

    /// Reads at most `wanted` bytes of a file to where they will be sealed; tells how many came.
    pub(super) fn read(
        &mut self,
        file: &OpenFile,
        offset: u64,
        wanted: u64,
        patience: Patience,
    ) -> io::Result<usize> {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let mut count = 0;
        let mut places: [IoSliceMut; RECORDS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (place, free) in places.iter_mut().zip(self.free(wanted)) {
            *place = IoSliceMut::new(free);
            count += 1;
        }
        let read = file.read_at(&mut places[..count], offset, patience)?;
        self.used += read;
        Ok(read)
    }

    /// The places where the next `wanted` bytes of payload belong, or as many as there is room for.
    fn free(&mut self, wanted: usize) -> impl Iterator<Item = &mut [u8]> {
        let (before, used) = (self.layout.before, self.used);
        let mut left = wanted.min(self.records * PAYLOAD_MAX - used);
        self.room
            .chunks_exact_mut(stride(self.layout))
            .take(self.records)
            .enumerate()
            .skip(used / PAYLOAD_MAX)
            .map_while(move |(index, record)| {
                let from = used.saturating_sub(index * PAYLOAD_MAX);
                let len = left.min(PAYLOAD_MAX - from);
                left -= len;
                (len > 0).then(|| &mut record[before + from..before + from + len])
            })
    }

    /// What it has, where a record is nothing but its payload.
    pub(super) fn bare(&self) -> &[u8] {
        &self.room[..self.used]
    }

    /// Makes records of what it has; they lie side by side, and this is all of them.
    pub(super) fn seal(&mut self, session: &mut Session) -> Result<&[u8], TlsError> {
        let mut len = 0;
        for record in self.room.chunks_exact_mut(stride(self.layout)) {
            let payload = self.used.min(PAYLOAD_MAX);
            if payload == 0 {
                break;
            }
            len += session.seal(record, payload)?;
            self.used -= payload;
        }
        Ok(&self.room[..len])
    }
}

/// From one record's first byte to the next one's.
fn stride(layout: Layout) -> usize {
    layout.record(PAYLOAD_MAX)
}
