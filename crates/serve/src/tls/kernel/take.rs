//! Handing a connection over to the kernel after its handshake.

use std::os::fd::AsFd;

use rustix::io::Errno;
use scrim_sys::kernel_tls::{self, Direction as Way};
use tokio::net::TcpStream;

use super::Offer;
use super::choice::Why;
use super::early::Early;
use super::keys;
use super::session::{KernelSession, Receiving};
use crate::tls::accept::Shaken;
use crate::tls::error::TlsError;
use crate::tls::post_handshake::PostHandshake;

/// Result of giving a connection's keys to the kernel.
pub enum Outcome {
    /// The kernel has it.
    Kernel(Box<KernelSession>),
    /// The kernel did not take it, and nothing has been done to it.
    User(Box<Shaken>, Why),
}

/// Gives the kernel the keys of a connection: the one to send by now, the other one behind what was received with the
/// handshake, which the session opens itself.
///
/// # Errors
/// When the suite is none that [`Offer::takes`] knows.
pub(crate) fn take(
    socket: &TcpStream,
    shaken: Shaken,
    offer: &Offer,
    records_max: u64,
) -> Result<Outcome, TlsError> {
    if let Err(why) = give_key_to_send(socket, &shaken) {
        return Ok(Outcome::User(Box::new(shaken), why));
    }
    let Shaken {
        established,
        incoming,
    } = shaken;
    let (_, cipher) = keys::suite(&established.sending).ok_or(TlsError::Library)?;
    let early = Early::new(established.receiving, incoming).ok_or(TlsError::Library)?;
    Ok(Outcome::Kernel(Box::new(KernelSession {
        kernel: established.kernel,
        post_handshake: PostHandshake::new(established.facts.tls13()),
        facts: Box::new(established.facts),
        rekeys: offer.rekey,
        records_max: KernelSession::most(cipher, records_max),
        records: established.sending.sequence,
        owes_key_update: false,
        owes_refusal: false,
        goodbye: None,
        receiving: Receiving::Early(Box::new(early)),
        sending: true,
    })))
}

fn give_key_to_send(socket: &TcpStream, shaken: &Shaken) -> Result<(), Why> {
    let info = keys::info(&shaken.established.sending).ok_or(Why::Suite)?;
    let given = kernel_tls::attach(socket.as_fd())
        .and_then(|()| kernel_tls::install(socket.as_fd(), Way::Send, &info));
    given.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTCONN) => Why::NotEstablished,
        _ => Why::Refused,
    })
}
