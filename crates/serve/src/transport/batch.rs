//! A batch of TLS records that are sent with one call: they are adjacent in one buffer and are filled in place. A file in
//! a folder is read straight into the payloads; the rest of this text is about volumes.
//!
//! Sectors of a file in a volume are decrypted into their place in a record just before the record is encrypted
//! ([`Batch::seal`]), so that both passes find the plaintext in the first-level cache. Only whole sectors can be
//! decrypted, so the record with the answer's head may end early, and the next one begins with a sector. The ciphertext
//! may stay in the page cache until then ([`FetchedCiphertext`]); where it was copied, it is in its record's place.

use std::io::{self, IoSliceMut};

use scrim_volume::FetchedCiphertext;
use zeroize::Zeroize;

use super::error::TransportError;
use crate::files::{Extent, OpenFile, ReadMode, VolumeFile};
use crate::tls::record::Layout;
use crate::tls::{PAYLOAD_MAX, Session};

/// Limit on the records of a batch: they stay in the second-level cache while they are read, encrypted and sent.
pub(super) const RECORDS: usize = 8;

/// A buffer for records, and the state of its filling.
pub(super) struct Batch {
    buffer: Vec<u8>,
    layout: Layout,
    records: usize,
    /// Payload length in bytes of each closed record.
    closed: [usize; RECORDS],
    /// Number of closed records, which is also the index of the record that is being filled.
    record: usize,
    /// Offset of the record that is being filled.
    start: usize,
    /// Payload length in bytes of the record that is being filled.
    used: usize,
    /// Fetched ciphertext, and its parts that are not decrypted yet, in the order of the buffer.
    fetched: Vec<FetchedCiphertext>,
    pending: Vec<Pending>,
    /// Length in bytes of the buffer's front that holds, or will hold, plaintext of a volume.
    plain: usize,
}

/// Sectors in a record whose ciphertext is fetched and not decrypted yet.
struct Pending {
    /// Offset in `buffer` at which their plaintext belongs.
    at: usize,
    len: usize,
    /// Offset of the sectors in the volume.
    offset: u64,
    /// Index of the fetch that they came with.
    fetch: usize,
}

impl Batch {
    /// An empty batch of at most `records` records, in a buffer from the pool.
    pub(super) fn new(mut buffer: Vec<u8>, layout: Layout, records: usize) -> Self {
        let len = records * layout.record(PAYLOAD_MAX);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        Self {
            buffer,
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

    /// Returns the buffer for another batch, after any plaintext of a volume in it is erased.
    pub(super) fn into_buffer(mut self) -> Vec<u8> {
        self.wipe();
        std::mem::take(&mut self.buffer)
    }

    /// Erases plaintext of a volume.
    fn wipe(&mut self) {
        self.buffer[..self.plain].zeroize();
        self.plain = 0;
    }

    pub(super) fn is_full(&self) -> bool {
        self.record == self.records
    }

    /// Copies as much of `bytes` as fits; returns the number of bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() && !self.is_full() {
            let len = (PAYLOAD_MAX - self.used).min(bytes.len() - done);
            let at = self.start + self.layout.before + self.used;
            self.buffer[at..at + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
            self.add(len);
        }
        done
    }

    /// Closes the record if a sector of the file does not fit, so that the next record begins with a sector.
    pub(super) fn start_record_for(&mut self, file: &OpenFile) {
        let least = file.in_volume().map_or(1, VolumeFile::sector);
        if PAYLOAD_MAX - self.used < least {
            self.close();
        }
    }

    /// Reads at most `wanted` bytes of a file into the payload of records; returns the number of bytes.
    pub(super) fn read(
        &mut self,
        file: &OpenFile,
        offset: u64,
        wanted: u64,
        mode: ReadMode,
    ) -> io::Result<usize> {
        let mut wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if let (Some(file), ReadMode::Now) = (file.in_volume(), mode) {
            match file.extent(offset)? {
                Extent::Sectors { at, len } => {
                    let len = usize::try_from(len).unwrap_or(usize::MAX);
                    let fetched = self.fetch(file, at, wanted.min(len));
                    self.note_plain(fetched.is_ok());
                    return fetched;
                }
                Extent::Unaligned(len) => {
                    wanted = wanted.min(usize::try_from(len).unwrap_or(usize::MAX));
                }
            }
        }
        let lens = self.lens(wanted, 1);
        let read = file.read_at(self.places(&lens).as_mut(), offset, mode);
        self.add_over_records(*read.as_ref().unwrap_or(&0), &lens);
        if file.in_volume().is_some() {
            self.note_plain(read.is_ok());
        }
        read
    }

    /// Notes that the used part of the buffer may hold plaintext; after an error, all of the buffer may.
    fn note_plain(&mut self, is_read: bool) {
        let used = self.start + self.layout.before + self.used;
        self.plain = match is_read {
            true => used.min(self.buffer.len()),
            false => self.buffer.len(),
        };
    }

    /// Fetches the ciphertext of whole sectors from `at` in the volume on, for at most `wanted` bytes; returns the number
    /// of bytes. A sector of which only the beginning is needed is decrypted at once: the rest of its place is reused.
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
                let last = &mut self.buffer[start + whole..start + fetched];
                stored.decrypt(offset + whole as u64, last);
                // Beyond the end of the file there may be data of another file.
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
            // What is left begins with a sector, and so does the next record.
            if left > 0 && self.used > 0 {
                self.close();
            }
        }
        self.fetched.push(stored);
        Ok(total)
    }

    /// Spreads `wanted` bytes over the records that are left, in whole units; only part of the last unit may be needed.
    fn lens(&self, wanted: usize, unit: usize) -> [usize; RECORDS] {
        let mut lens = [0; RECORDS];
        let (mut left, mut used) = (wanted, self.used);
        for len in lens.iter_mut().take(self.records - self.record) {
            let capacity = (PAYLOAD_MAX - used) / unit * unit;
            *len = left.next_multiple_of(unit).min(capacity);
            left -= left.min(*len);
            used = 0;
        }
        lens
    }

    /// The places for `lens` bytes in the records that are left.
    fn places(&mut self, lens: &[usize; RECORDS]) -> Places<'_> {
        let mut rest = &mut self.buffer[self.start..];
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

    /// Counts `read` bytes that were read into the places of `lens`.
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

    /// Decrypts what is pending and returns all bytes, for a layout without record headers.
    pub(super) fn bare(&mut self) -> Result<&[u8], TransportError> {
        let len = self.start + self.used;
        for sectors in self.pending.drain(..) {
            sectors.decrypt(&self.fetched, &mut self.buffer);
        }
        self.check_fetched()?;
        (self.record, self.start, self.used) = (0, 0, 0);
        Ok(&self.buffer[..len])
    }

    /// Decrypts what is pending, encrypts the records, and returns them.
    pub(super) fn seal(&mut self, session: &mut Session) -> Result<&[u8], TransportError> {
        if self.used > 0 {
            self.close();
        }
        let mut pending = self.pending.drain(..).peekable();
        let mut at = 0;
        for &payload in &self.closed[..self.record] {
            let end = at + self.layout.record(payload);
            while let Some(sectors) = pending.next_if(|sectors| sectors.at < end) {
                sectors.decrypt(&self.fetched, &mut self.buffer);
            }
            at += session.seal(&mut self.buffer[at..], payload)?;
        }
        drop(pending);
        self.check_fetched()?;
        (self.record, self.start, self.plain) = (0, 0, 0);
        Ok(&self.buffer[..at])
    }

    /// Checks that the fetched ciphertext did not change until it was decrypted; otherwise nothing of it may be sent.
    fn check_fetched(&mut self) -> Result<(), TransportError> {
        let mut fetched = self.fetched.drain(..);
        fetched
            .try_for_each(FetchedCiphertext::check)
            .map_err(TransportError::File)
    }
}

impl Drop for Batch {
    /// Erases plaintext also if the batch is not sent because its connection failed.
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Pending {
    fn decrypt(&self, fetched: &[FetchedCiphertext], buffer: &mut [u8]) {
        let place = &mut buffer[self.at..self.at + self.len];
        fetched[self.fetch].decrypt(self.offset, place);
    }
}

/// Places in consecutive records, for a vectored read.
struct Places<'a> {
    slices: [IoSliceMut<'a>; RECORDS],
    count: usize,
}

impl<'a> Places<'a> {
    fn as_mut(&mut self) -> &mut [IoSliceMut<'a>] {
        &mut self.slices[..self.count]
    }
}
