//! The only crate, beside the cipher kernels, through which Scrim reaches what the compiler cannot check:
//! memory that is locked and undumpable, record locks, process isolation, io_uring, inherited sockets,
//! TLS in the kernel, data that TCP has not sent, memory on loan to other threads, clones of the FUSE device, the end of
//! another thread's wait, threads without the process's descriptors, device mapper, loop devices, keys in the kernel.
//!
//! Everything here is thin and without policy: a call, its checks, its `SAFETY`. A call that has a safe
//! wrapper in `rustix` is made by the crate that needs it, and not from here, but for [`file_system`], [`mounts`]
//! and [`program`], where several crates need the same answer.

pub mod activation;
pub mod apart;
pub mod device_mapper;
pub mod file_system;
pub mod fuse;
pub mod interrupt;
pub mod kernel_tls;
pub mod keyring;
pub mod loan;
pub mod lock;
pub mod loop_device;
pub mod memory;
pub mod mounts;
pub mod process;
pub mod program;
pub mod ring;
pub mod tcp;
pub mod udev_cookie;
