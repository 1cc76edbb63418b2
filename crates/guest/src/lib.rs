//! Real Linux kernels under QEMU's emulation, as judges for what a user-space program cannot be
//! judged by alone: dm-crypt, the kernel's NBD client, its TLS.
//!
//! A [`Cache`] fetches the parts of a guest with Debian's own package client: a stock kernel and
//! a few dozen packages of user land. [`Guest::boot`] starts them, [`Guest::run`] runs a script in
//! there and streams what it prints. No root is needed, and nothing of the host is changed but the
//! cache.
//!
//! ```no_run
//! use std::time::Duration;
//! use scrim_guest::{Cache, Guest, Kernel, Machine, Version};
//!
//! # fn main() -> Result<(), scrim_guest::Error> {
//! let cache = Cache::open()?;
//! let parts = cache.parts(Kernel::V6_12, Version::Cached, &mut |step| eprintln!("{step}"))?;
//! let mut guest = Guest::boot(&parts, &Machine::default())?;
//! let code = guest.run("uname -r", Duration::from_secs(60), &mut |_, bytes| {
//!     print!("{}", String::from_utf8_lossy(bytes));
//! })?;
//! assert_eq!(code, 0);
//! guest.power_off()
//! # }
//! ```
//!
//! # Rooms
//!
//! `mirror` knows where this system's packages come from, `apt` fetches them, `kernel` and
//! `userland` make of them what boots, `programs` what runs on the host, `cache` keeps that; `machine`
//! says what is booted, `guest` talks through `channel` to `init.sh`, the guest's first process; `host`
//! runs the host's programs.

#![forbid(unsafe_code)]

mod apt;
mod cache;
mod channel;
mod error;
mod guest;
mod host;
mod kernel;
mod machine;
mod mirror;
mod programs;
mod userland;

pub use cache::{Cache, Cached, Parts, Version};
pub use error::Error;
pub use guest::{Guest, Stream};
pub use host::check_tools;
pub use kernel::Kernel;
pub use machine::{Console, Machine};
