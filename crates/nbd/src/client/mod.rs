//! Messages of an NBD client and their answers: the [`handshake`], and requests and replies.
//!
//! Every byte that a server sends is untrusted: what breaks the protocol becomes an error that names
//! it, and every length that a server names has a limit here.

mod error;
pub mod handshake;
mod transmission;

pub use error::{HandshakeError, ReplyError};
pub use handshake::{BlockSizes, Export, Greeting};
pub use transmission::{Command, Reply, Request};
