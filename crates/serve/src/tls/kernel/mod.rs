//! TLS records made by the kernel: `sendfile` goes to the socket, and files do not pass through here.
//!
//! An [`Offer`] says what this kernel takes, [`Offload`] which connections it is to have, and each connection which
//! [`Path`] it took, and why. A [`KernelSession`] does the work that is left for a connection that the kernel has: it
//! understands records that are not data, changes keys, and counts towards the next one.

mod choice;
mod early;
mod keys;
mod offer;
mod session;
mod statistics;
mod take;

pub use choice::{Mode, Offload, OffloadError, PATHS, Path, Why};
pub use offer::{Missing, Offer, SuiteOffer};
pub use scrim_sys::kernel_tls::{Cipher, Version};
pub use session::{KernelSession, Received, SendError};
pub use statistics::Statistics;
pub use take::Outcome;

pub(crate) use take::take;
