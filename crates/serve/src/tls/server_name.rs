//! The server name that a client asks for, and the certificate that is for it, on their way from rustls to the code
//! that needs them.
//!
//! An unbuffered connection of rustls does not tell the name, and the resolver of certificates, which is told it, does
//! not know the connection. Both happen in one call on one thread, so a thread-local note is enough.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

/// A name that a client has asked for.
#[derive(Debug, Clone)]
pub struct ServerName {
    /// The name, as it came.
    pub name: Box<str>,
    /// The certificate that was chosen for it, which may be for others.
    pub certificate: Arc<CertifiedKey>,
}

thread_local! {
    static NOTE: RefCell<Option<ServerName>> = const { RefCell::new(None) };
}

/// Notes the name, while a handshake is in [`noted`] on this thread.
pub(super) fn note(name: &str, certificate: &Arc<CertifiedKey>) {
    let noted = ServerName {
        name: name.into(),
        certificate: Arc::clone(certificate),
    };
    NOTE.with_borrow_mut(|note| *note = Some(noted));
}

/// Runs `call`; returns its result, and the name that was noted meanwhile.
pub(super) fn noted<T>(call: impl FnOnce() -> T) -> (T, Option<ServerName>) {
    NOTE.take();
    let returned = call();
    (returned, NOTE.take())
}
