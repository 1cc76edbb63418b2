//! Open volumes: the process that serves one over NBD, and the commands' side of its control socket.

pub(crate) mod control;
pub(crate) mod device_size;
mod hold;
mod metrics;
mod mounts;
pub(crate) mod prometheus;
pub(crate) mod runtime;
pub(crate) mod served_header;
pub(crate) mod service;
pub(crate) mod serving;
