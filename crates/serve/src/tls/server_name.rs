//! The server name that a client asks for, on its way from rustls to whoever asks for it.
//!
//! An unbuffered connection of rustls does not tell it, and whom it tells, the resolver of certificates,
//! does not know the connection. Both happen in one call on one thread, so a note of the thread's is
//! enough.

use std::cell::RefCell;

thread_local! {
    static NOTE: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// Notes the name, while a handshake is in [`noted`] on this thread.
pub(super) fn note(name: &str) {
    NOTE.with_borrow_mut(|note| *note = Some(name.into()));
}

/// What `call` returns, and the name that was noted meanwhile.
pub(super) fn noted<T>(call: impl FnOnce() -> T) -> (T, Option<Box<str>>) {
    NOTE.take();
    let returned = call();
    (returned, NOTE.take())
}
