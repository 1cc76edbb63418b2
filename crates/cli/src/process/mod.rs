//! The process that runs a command: the background, signals, and the service manager that started it.

pub(crate) mod child;
pub(crate) mod daemon;
pub(crate) mod interruption;
pub(crate) mod program;
pub(crate) mod service_manager;
pub(crate) mod signals;
