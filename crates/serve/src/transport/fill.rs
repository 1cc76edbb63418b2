//! Reads a body into batches.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::batch::{Batch, RECORDS};
use super::error::TransportError;
use super::pool::{Lease, PoolHandle};
use super::send_file::check_intact;
use crate::blocking;
use crate::files::{OpenFile, ReadMode};
use crate::http::{Body, Piece};
use crate::tls::record::Layout;

/// Layout of bytes that are sent as they are, or encrypted by the kernel: without header and tag.
const BARE: Layout = Layout {
    before: 0,
    after: 0,
};

/// Fills a buffer of the pool with as much of a head and of a body as fits, for a connection without records made here.
pub(super) async fn fill_bare<'a>(
    head: &mut &[u8],
    body: &mut Body,
    pool: PoolHandle<'a>,
    records: usize,
) -> Result<(Batch, Lease<'a>), TransportError> {
    let mut lease = pool.lend(records);
    let mut batch = Batch::new(lease.take(), BARE, lease.records());
    let copied = batch.put(head);
    *head = &head[copied..];
    Ok((fill(batch, body, pool).await?, lease))
}

/// Number of records to read next: a slow client gets one at a time, since its unsent bytes occupy the pool's memory.
pub(super) fn next_records(records: usize, was_sent_at_once: bool) -> usize {
    match was_sent_at_once {
        true => (records * 2).min(RECORDS),
        false => 1,
    }
}

/// Reads as much of a body into a batch as fits.
pub(super) async fn fill(
    mut batch: Batch,
    body: &mut Body,
    pool: PoolHandle<'_>,
) -> Result<Batch, TransportError> {
    while !batch.is_full() {
        let Some(piece) = body.front() else {
            break;
        };
        let put = match piece {
            Piece::Bytes(bytes) => batch.put(bytes) as u64,
            Piece::File(file, range) => {
                batch.start_record_for(file);
                if batch.is_full() {
                    break;
                }
                let read;
                let has_begun = body.has_begun();
                (batch, read) = read_file(batch, file, range.clone(), has_begun, pool).await?;
                read
            }
        };
        body.advance(put);
    }
    Ok(batch)
}

/// Reads without blocking; if the bytes are not in memory, the batch moves to a thread that may wait for the disk
/// ([`blocking::run`]), so that this thread's other connections do not wait. The end of a file is sent only if the file has not changed since the answer began. If no time has passed since
/// then, because the whole file is read at once, the site's own check is enough.
async fn read_file(
    mut batch: Batch,
    file: &Arc<OpenFile>,
    range: Range<u64>,
    mut time_has_passed: bool,
    pool: PoolHandle<'_>,
) -> Result<(Batch, u64), TransportError> {
    let wanted = range.end - range.start;
    let mut read = batch.read(file, range.start, wanted, ReadMode::Now);
    if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        time_has_passed = true;
        let file = Arc::clone(file);
        let waited = blocking::run(Arc::clone(pool.address), move || {
            let read = batch.read(&file, range.start, wanted, ReadMode::Wait);
            (batch, read)
        });
        (batch, read) = waited.await.map_err(TransportError::File)?;
    }
    let read = read.map_err(TransportError::File)? as u64;
    if read == 0 {
        return Err(TransportError::Changed);
    }
    if read == wanted && time_has_passed {
        check_intact(file).await?;
    }
    Ok((batch, read))
}
