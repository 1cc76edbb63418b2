//! A thread that reads a configuration again. Storage that does not answer keeps only this thread waiting, and no signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// Work on a thread of its own, which is not waited for when this is dropped.
pub(super) struct Reading<T> {
    /// End of a pair of sockets, which becomes readable when the thread ends.
    ended: UnixStream,
    result: Receiver<T>,
}

/// State of the work.
pub(super) enum Progress<T> {
    Running,
    Done(T),
    /// The thread has ended without a result.
    Lost,
}

impl<T: Send + 'static> Reading<T> {
    /// Starts the work.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub(super) fn start(read: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (ended, running) = UnixStream::pair()?;
        let (sender, result) = channel();
        thread::Builder::new()
            .name("serve-reload".into())
            .spawn(move || {
                // Dropped last, also by a panic: what wakes the other side comes after the result, or its absence.
                let _running = running;
                let sender = sender;
                let _ = sender.send(read());
            })?;
        Ok(Self { ended, result })
    }

    /// Takes the result, once it is there.
    pub(super) fn take(&self) -> Progress<T> {
        match self.result.try_recv() {
            Ok(done) => Progress::Done(done),
            Err(TryRecvError::Empty) => Progress::Running,
            Err(TryRecvError::Disconnected) => Progress::Lost,
        }
    }
}

impl<T> AsFd for Reading<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}
