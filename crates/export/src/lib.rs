//! Carries a volume to a client: one protocol a module.
//!
//! [`nbd`] serves volumes over the Network Block Device protocol, which qemu, libnbd, fio and the
//! Linux kernel speak.

#![forbid(unsafe_code)]

pub mod nbd;
