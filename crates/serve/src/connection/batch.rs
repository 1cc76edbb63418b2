//! A batch of TLS records that go out with one send: they lie side by side and are filled in place.
//!
//! Records for a file in a volume have space for its sectors, and each sector is decrypted into that space just before
//! the record is sealed ([`Batch::seal`]), so that its plaintext is in the first cache for both. Only whole sectors can
//! be decrypted: so a record that began with something else may end before it is full, and the next one begins with a
//! sector.

use std::io::{self, IoSliceMut};

use scrim_volume::FetchedCiphertext;
use zeroize::Zeroize;

use super::broken::Broken;
use crate::site::{Lies, OpenFile, Patience, VolumeFile};
use crate::tls::record::Layout;
use crate::tls::{PAYLOAD_MAX, Session};

/// Most records in a batch: what stays in the second cache between reading, sealing and sending.
pub(super) const RECORDS: usize = 8;

/// Room for records, and what has been put there.
pub(super) struct Batch {
    room: Vec<u8>,
    layout: Layout,
    records: usize,
    /// Bytes of payload in each record that is closed.
    closed: [usize; RECORDS],
    /// Number of closed records; thus also the index of the record that is being filled.
    record: usize,
    /// Offset of the record that is being filled.
    start: usize,
    /// Bytes of payload in it.
    used: usize,
    /// Ciphertext that was fetched, and the parts of it that are still to be decrypted, from the front to the back.
    fetched: Vec<FetchedCiphertext>,
    pending: Vec<Pending>,
    /// Bytes at its front among which there is, or will be, plaintext of a volume.
    plain: usize,
}

/// Sectors in a record that are not decrypted yet.
struct Pending {
    /// Offset of the sectors in `room`.
    at: usize,
    len: usize,
    /// Offset of the sectors in the volume.
    offset: u64,
    /// Index of the fetch that they came with.
    fetch: usize,
}

impl Batch {
    /// An empty batch of `records` records, in memory that may have been another's.
    pub(super) fn new(mut room: Vec<u8>, layout: Layout, records: usize) -> Self {
        let len = records * layout.record(PAYLOAD_MAX);
        if room.len() < len {
            room.resize(len, 0);
        }
        Self {
            room,
            layout,
            records,
            closed: [0; RECORDS],
            record: 0,
            start: 0,
            used: 0,
            fetched: Vec::new(),
            pending: Vec::new(),
            plain: 0,
        }
    }

    /// Returns its memory, for another batch, without the plaintext that was sent as it was.
    pub(super) fn into_room(mut self) -> Vec<u8> {
        self.wipe();
        std::mem::take(&mut self.room)
    }

    fn wipe(&mut self) {
        self.room[..self.plain].zeroize();
        self.plain = 0;
    }

    pub(super) fn is_full(&self) -> bool {
        self.record == self.records
    }

    /// Copies as much of `bytes` as there is room for; returns the number of bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() && !self.is_full() {
            let len = (PAYLOAD_MAX - self.used).min(bytes.len() - done);
            let at = self.start + self.layout.before + self.used;
            self.room[at..at + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
            self.add(len);
        }
        done
    }

    /// Closes the record if it has no room for a sector of the file, so that the next record begins with a sector.
    pub(super) fn make_room(&mut self, file: &OpenFile) {
        let least = file.in_volume().map_or(1, VolumeFile::sector);
        if PAYLOAD_MAX - self.used < least {
            self.close();
        }
    }

    /// Reads at most `wanted` bytes of a file to where they will be sealed; returns the number that came.
    pub(super) fn read(
        &mut self,
        file: &OpenFile,
        offset: u64,
        wanted: u64,
        patience: Patience,
    ) -> io::Result<usize> {
        let mut wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if let (Some(file), Patience::Now) = (file.in_volume(), patience) {
            match file.lies(offset)? {
                Lies::InSectors { at, len } => {
                    let len = usize::try_from(len).unwrap_or(usize::MAX);
                    let fetched = self.fetch(file, at, wanted.min(len));
                    self.note_plain(fetched.is_ok());
                    return fetched;
                }
                Lies::Apart(len) => {
                    wanted = wanted.min(usize::try_from(len).unwrap_or(usize::MAX));
                }
            }
        }
        let lens = self.lens(wanted, 1);
        let read = file.read_at(self.places(&lens).as_mut(), offset, patience);
        self.add_over_records(*read.as_ref().unwrap_or(&0), &lens);
        if file.in_volume().is_some() {
            self.note_plain(read.is_ok());
        }
        read
    }

    /// Notes that plaintext has come into the buffer, as far as it is used; or anywhere, if there was an error.
    fn note_plain(&mut self, is_read: bool) {
        let used = self.start + self.layout.before + self.used;
        self.plain = match is_read {
            true => used.min(self.room.len()),
            false => self.room.len(),
        };
    }

    /// Fetches whole sectors from `at` in the volume on, for at most `wanted` bytes; returns the number that came. A
    /// sector that is needed in part only is decrypted at once: the rest of its place is free, and something else may
    /// be put there.
    fn fetch(&mut self, file: &VolumeFile, at: u64, wanted: usize) -> io::Result<usize> {
        let sector = file.sector();
        let lens = self.lens(wanted, sector);
        let (read, stored) = file.fetch_now(at, self.places(&lens).as_mut())?;
        let (mut left, mut total) = (read, 0);
        for &len in lens.iter().take_while(|&&len| len > 0) {
            let fetched = len.min(left);
            if fetched == 0 {
                break;
            }
            left -= fetched;
            let (offset, payload) = (at + total as u64, fetched.min(wanted - total));
            let whole = payload / sector * sector;
            let start = self.start + self.layout.before + self.used;
            if whole < payload {
                let last = &mut self.room[start + whole..start + fetched];
                stored.decrypt(offset + whole as u64, last);
                // Behind the file's end there may be another's.
                last[payload - whole..].fill(0);
            }
            self.pending.push(Pending {
                at: start,
                len: whole,
                offset,
                fetch: self.fetched.len(),
            });
            total += payload;
            self.add(payload);
            if left > 0 && self.used > 0 {
                self.close();
            }
        }
        self.fetched.push(stored);
        Ok(total)
    }

    /// Spreads `wanted` bytes over the records that are free: in whole units, of which the last may be needed in part
    /// only.
    fn lens(&self, wanted: usize, unit: usize) -> [usize; RECORDS] {
        let mut lens = [0; RECORDS];
        let (mut left, mut used) = (wanted, self.used);
        for len in lens.iter_mut().take(self.records - self.record) {
            let room = (PAYLOAD_MAX - used) / unit * unit;
            *len = left.next_multiple_of(unit).min(room);
            left -= left.min(*len);
            used = 0;
        }
        lens
    }

    /// The places for `lens` bytes in the records that are free, one after the other.
    fn places(&mut self, lens: &[usize; RECORDS]) -> Places<'_> {
        let mut rest = &mut self.room[self.start..];
        let (layout, mut used, mut count) = (self.layout, self.used, 0);
        let slices = std::array::from_fn(|index| {
            let len = lens[index];
            if len == 0 {
                return IoSliceMut::new(&mut []);
            }
            count += 1;
            let all = std::mem::take(&mut rest);
            let (record, behind) = all.split_at_mut(layout.record(used + len));
            rest = behind;
            let from = layout.before + used;
            used = 0;
            IoSliceMut::new(&mut record[from..from + len])
        });
        Places { slices, count }
    }

    /// Counts `read` bytes that have come to their places.
    fn add_over_records(&mut self, mut read: usize, lens: &[usize; RECORDS]) {
        for &len in lens {
            let here = read.min(len);
            self.add(here);
            read -= here;
        }
    }

    fn add(&mut self, payload: usize) {
        self.used += payload;
        if self.used == PAYLOAD_MAX {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.is_full() {
            return;
        }
        self.closed[self.record] = self.used;
        self.start += self.layout.record(self.used);
        self.record += 1;
        self.used = 0;
    }

    /// Returns all its bytes, where a record is nothing but its payload.
    pub(super) fn bare(&mut self) -> Result<&[u8], Broken> {
        let len = self.start + self.used;
        for sectors in self.pending.drain(..) {
            sectors.decrypt(&self.fetched, &mut self.room);
        }
        self.check_fetched()?;
        (self.record, self.start, self.used) = (0, 0, 0);
        Ok(&self.room[..len])
    }

    /// Makes records of its bytes; returns them all, side by side.
    pub(super) fn seal(&mut self, session: &mut Session) -> Result<&[u8], Broken> {
        if self.used > 0 {
            self.close();
        }
        let mut pending = self.pending.drain(..).peekable();
        let mut at = 0;
        for &payload in &self.closed[..self.record] {
            let end = at + self.layout.record(payload);
            while let Some(sectors) = pending.next_if(|sectors| sectors.at < end) {
                sectors.decrypt(&self.fetched, &mut self.room);
            }
            at += session.seal(&mut self.room[at..], payload)?;
        }
        drop(pending);
        self.check_fetched()?;
        (self.record, self.start, self.plain) = (0, 0, 0);
        Ok(&self.room[..at])
    }

    /// Checks whether the ciphertext that was fetched stayed valid until it was decrypted: else nothing of it may be
    /// sent.
    fn check_fetched(&mut self) -> Result<(), Broken> {
        let mut fetched = self.fetched.drain(..);
        fetched
            .try_for_each(FetchedCiphertext::check)
            .map_err(Broken::File)
    }
}

impl Drop for Batch {
    /// A batch that is not sent, since its connection broke, leaves no plaintext behind either.
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Pending {
    /// Decrypts the sectors in place.
    fn decrypt(&self, fetched: &[FetchedCiphertext], room: &mut [u8]) {
        let place = &mut room[self.at..self.at + self.len];
        fetched[self.fetch].decrypt(self.offset, place);
    }
}

/// Places in records, in their order.
struct Places<'a> {
    slices: [IoSliceMut<'a>; RECORDS],
    count: usize,
}

impl<'a> Places<'a> {
    fn as_mut(&mut self) -> &mut [IoSliceMut<'a>] {
        &mut self.slices[..self.count]
    }
}
