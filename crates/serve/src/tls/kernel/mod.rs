//! Kernel TLS: the kernel makes the records, so that `sendfile` works on the socket.
//!
//! An [`Offer`] has the cipher suites that this kernel supports, [`Offload`] chooses the connections for it, and each
//! connection reports its [`Path`] and the reason. A [`KernelSession`] handles the records of such a connection that are
//! not data, changes its keys, and counts records until the next change.

mod choice;
mod early;
mod handover;
mod keys;
mod offer;
mod session;
mod statistics;

pub use choice::{FallbackReason, Mode, Offload, OffloadError, PATHS, Path};
pub use handover::Outcome;
pub use offer::{Missing, Offer, SuiteOffer};
pub use scrim_sys::kernel_tls::{Cipher, Version};
pub use session::{KernelSession, Received, SendError};
pub use statistics::Statistics;

pub(crate) use handover::hand_over;
