//! Server name of a handshake (SNI), with the certificate that was chosen for it.
//!
//! An unbuffered connection of rustls does not return the name, and the certificate resolver, which gets the name, does not
//! know the connection. The resolver runs in a call to the connection, so a thread-local variable carries the name.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

/// Server name that a client sent.
#[derive(Debug, Clone)]
pub struct ServerName {
    /// The name as it was received.
    pub name: Box<str>,
    /// The certificate that was chosen; it may be for other names.
    pub certificate: Arc<CertifiedKey>,
}

thread_local! {
    static NOTE: RefCell<Option<ServerName>> = const { RefCell::new(None) };
}

/// Stores the name for the call to [`noted`] that is running on this thread.
pub(super) fn note(name: &str, certificate: &Arc<CertifiedKey>) {
    let noted = ServerName {
        name: name.into(),
        certificate: Arc::clone(certificate),
    };
    NOTE.with_borrow_mut(|note| *note = Some(noted));
}

/// Runs `call`; returns its result, and the name that it stored.
pub(super) fn noted<T>(call: impl FnOnce() -> T) -> (T, Option<ServerName>) {
    NOTE.take();
    let returned = call();
    (returned, NOTE.take())
}
