//! Files that the kernel cannot send by itself, without TLS: a piece at a time, through the pool's memory.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use tokio::net::TcpStream;

use super::broken::Broken;
use super::pool::Pool;
use super::socket::send_all;
use crate::limits::Limits;
use crate::site::{OpenFile, Patience};
use crate::tls::PAYLOAD_MAX;

/// Reads and sends at most `count` bytes of a file; tells how many, at least one.
pub(super) async fn send(
    socket: &TcpStream,
    (file, offset): (&Arc<OpenFile>, u64),
    count: u64,
    pool: &Pool,
    limits: &Limits,
) -> Result<u64, Broken> {
    let mut loan = pool.lend(super::batch::RECORDS);
    let len = loan.records() * PAYLOAD_MAX;
    let len = usize::try_from(count).map_or(len, |count| count.min(len));
    let mut room = loan.take();
    if room.len() < len {
        room.resize(len, 0);
    }
    let mut read = fill(file, offset, &mut room[..len], Patience::Now);
    if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        let file = Arc::clone(file);
        let waiting = tokio::task::spawn_blocking(move || {
            let read = fill(&file, offset, &mut room[..len], Patience::Wait);
            (room, read)
        });
        let waited = waiting.await;
        (room, read) = waited.map_err(|error| Broken::File(io::Error::other(error)))?;
    }
    let read = read.map_err(Broken::File)?;
    if read == 0 {
        return Err(Broken::Changed);
    }
    send_all(socket, &room[..read], (read as u64) < count, limits).await?;
    loan.give_back(room);
    Ok(read as u64)
}

fn fill(file: &OpenFile, offset: u64, room: &mut [u8], patience: Patience) -> io::Result<usize> {
    file.read_at(&mut [IoSliceMut::new(room)], offset, patience)
}
