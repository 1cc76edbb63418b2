//! From a body to the memory from which it is sent.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::batch::{Batch, RECORDS};
use super::broken::Broken;
use super::pool::{Loan, Purse};
use super::send_file::is_intact;
use crate::http::{Body, Piece};
use crate::patience;
use crate::site::{OpenFile, Patience};
use crate::tls::record::Layout;

/// Of what is sent as it is, or sealed by the kernel: nothing is around it, and it lies side by side.
const BARE: Layout = Layout {
    before: 0,
    after: 0,
};

/// Puts as much of a head and of a body into memory of the pool's as it has room for, where nobody here seals it.
pub(super) async fn fill_bare<'a>(
    head: &mut &[u8],
    body: &mut Body,
    purse: Purse<'a>,
    records: usize,
) -> Result<(Batch, Loan<'a>), Broken> {
    let mut loan = purse.lend(records);
    let mut batch = Batch::new(loan.take(), BARE, loan.records());
    let copied = batch.put(head);
    *head = &head[copied..];
    Ok((fill(batch, body, purse).await?, loan))
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
    purse: Purse<'_>,
) -> Result<Batch, Broken> {
    while !batch.is_full() {
        let Some(piece) = body.front() else {
            break;
        };
        let put = match piece {
            Piece::Bytes(bytes) => batch.put(bytes) as u64,
            Piece::File(file, range) => {
                batch.make_room(file);
                if batch.is_full() {
                    break;
                }
                let read;
                let has_begun = body.has_begun();
                (batch, read) = read_file(batch, file, range.clone(), has_begun, purse).await?;
                read
            }
        };
        body.advance(put);
    }
    Ok(batch)
}

/// What is in memory is read at once. What has to come from a disk is waited for by another thread, and not
/// by all of this one's connections. The end of a file is handed on only if the file still has what it had when
/// the answer began; the site has looked just then, so that one that is read in one go is not looked at again.
async fn read_file(
    mut batch: Batch,
    file: &Arc<OpenFile>,
    range: Range<u64>,
    mut time_has_passed: bool,
    purse: Purse<'_>,
) -> Result<(Batch, u64), Broken> {
    let wanted = range.end - range.start;
    let mut read = batch.read(file, range.start, wanted, Patience::Now);
    if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        time_has_passed = true;
        let file = Arc::clone(file);
        let waited = patience::wait(Arc::clone(purse.address), move || {
            let read = batch.read(&file, range.start, wanted, Patience::Wait);
            (batch, read)
        });
        (batch, read) = waited.await.map_err(Broken::File)?;
    }
    let read = read.map_err(Broken::File)? as u64;
    if read == 0 {
        return Err(Broken::Changed);
    }
    if read == wanted && time_has_passed {
        is_intact(file).await?;
    }
    Ok((batch, read))
}
