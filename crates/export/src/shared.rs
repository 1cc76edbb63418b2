//! State that the threads of a server share.

use std::io;
use std::sync::Arc;

use crate::budget::Budget;
use crate::export::Export;
use crate::limits::{self, Limits};
use crate::polling;
use crate::registry::Registry;
use crate::stop::Stop;

/// State that the threads of a server share. `E` is a breach of its protocol.
pub(crate) struct Shared<E> {
    pub(crate) exports: Vec<Arc<Export>>,
    pub(crate) limits: Limits,
    pub(crate) registry: Arc<Registry<E>>,
    pub(crate) stop: Arc<Stop>,
    /// Number of connections that may poll their sockets at a time.
    pub(crate) pollers: Arc<Budget>,
    /// Bytes left for reads of all connections that are collected before any of them is sent.
    pub(crate) read_buffers: Budget,
}

impl<E> Shared<E> {
    pub(crate) fn new(exports: Vec<Export>, limits: Limits) -> io::Result<Self> {
        Ok(Self {
            exports: exports.into_iter().map(Arc::new).collect(),
            limits,
            registry: Arc::new(Registry::new(limits)),
            stop: Arc::new(Stop::new()?),
            pollers: Arc::new(polling::pollers()),
            read_buffers: Budget::new(limits::READ_BUFFERS),
        })
    }
}
