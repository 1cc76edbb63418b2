//! Filling of buffers from a body, for sending.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::batch::{Batch, RECORDS};
use super::error::TransportError;
use super::pool::{Lease, PoolHandle};
use super::send_file::check_intact;
use crate::blocking;
use crate::files::{OpenFile, Patience};
use crate::http::{Body, Piece};
use crate::tls::record::Layout;

/// Layout of bytes that are sent as they are, or sealed by the kernel: nothing is around them, and they lie side by
/// side.
const BARE: Layout = Layout {
    before: 0,
    after: 0,
};

/// Puts as much of a head and of a body into a buffer of the pool as fits, where it is not sealed here.
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

/// Records' worth to read the next time: less for a client that is slow to take it, since what it has not taken waits
/// in the pool's memory.
pub(super) fn next_records(records: usize, went_at_once: bool) -> usize {
    match went_at_once {
        true => (records * 2).min(RECORDS),
        false => 1,
    }
}

/// Puts as much of a body into a batch as there is room for.
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

/// Reads at once what is in memory. For bytes that have to come from a disk another thread waits, not this one with all
/// its connections. The end of a file is handed on only if the file still has the content that it had when the answer
/// began; the site has looked just then, so that a file that is read in one go is not looked at again.
async fn read_file(
    mut batch: Batch,
    file: &Arc<OpenFile>,
    range: Range<u64>,
    mut time_has_passed: bool,
    pool: PoolHandle<'_>,
) -> Result<(Batch, u64), TransportError> {
    let wanted = range.end - range.start;
    let mut read = batch.read(file, range.start, wanted, Patience::Now);
    if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        time_has_passed = true;
        let file = Arc::clone(file);
        let waited = blocking::run(Arc::clone(pool.address), move || {
            let read = batch.read(&file, range.start, wanted, Patience::Wait);
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
