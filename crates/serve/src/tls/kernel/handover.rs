//! Hand-over of a connection to the kernel after its handshake.

use std::os::fd::AsFd;

use rustix::io::Errno;
use scrim_sys::kernel_tls::{self, Direction as Way};
use tokio::net::TcpStream;

use super::Offer;
use super::choice::FallbackReason;
use super::early::Early;
use super::keys;
use super::session::{KernelSession, Receiving};
use crate::tls::accept::CompletedHandshake;
use crate::tls::error::TlsError;
use crate::tls::post_handshake::PostHandshake;

/// Owner of the keys after an attempt to give a connection to the kernel.
pub enum Outcome {
    /// The kernel has the keys.
    Kernel(Box<KernelSession>),
    /// The kernel refused the keys, and the connection is unchanged.
    User(Box<CompletedHandshake>, FallbackReason),
}

/// Gives the keys of a connection to the kernel: the one for sending now, the one for receiving after the records that were
/// received with the handshake, which the session decrypts itself.
///
/// # Errors
/// If [`Offer::takes`] does not know the cipher suite.
pub(crate) fn hand_over(
    socket: &TcpStream,
    completed: CompletedHandshake,
    offer: &Offer,
    records_max: u64,
) -> Result<Outcome, TlsError> {
    if let Err(why) = install_send_key(socket, &completed) {
        return Ok(Outcome::User(Box::new(completed), why));
    }
    let CompletedHandshake {
        established,
        incoming,
    } = completed;
    let (_, cipher) = keys::suite(&established.sending).ok_or(TlsError::Library)?;
    let early = Early::new(established.receiving, incoming).ok_or(TlsError::Library)?;
    Ok(Outcome::Kernel(Box::new(KernelSession {
        kernel: established.kernel,
        post_handshake: PostHandshake::new(established.facts.tls13()),
        facts: Box::new(established.facts),
        rekeys: offer.rekey,
        records_max: KernelSession::max_records(cipher, records_max),
        records: established.sending.sequence,
        key_update_due: false,
        renegotiation_refusal_due: false,
        closing_alert: None,
        receiving: Receiving::Early(Box::new(early)),
        sending: true,
    })))
}

fn install_send_key(
    socket: &TcpStream,
    completed: &CompletedHandshake,
) -> Result<(), FallbackReason> {
    let info = keys::info(&completed.established.sending).ok_or(FallbackReason::Suite)?;
    let given = kernel_tls::attach(socket.as_fd())
        .and_then(|()| kernel_tls::install(socket.as_fd(), Way::Send, &info));
    given.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTCONN) => FallbackReason::NotEstablished,
        _ => FallbackReason::Refused,
    })
}
