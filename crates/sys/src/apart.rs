//! Threads that share no file descriptor with the rest of their process.
//!
//! A call such as `umount(2)` may wait, in a way that no signal ends, for a file system that this very process serves.
//! If the process is killed then, the waiting thread stays, and with it every descriptor that it shares with the others.
//! The kernel would fail the request that the thread waits for as soon as the last descriptor of the FUSE device is
//! closed, which the thread itself prevents: neither would ever end. A thread without those descriptors holds up nothing.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Flag of `close_range(2)` that gives the calling thread a descriptor table of its own first (`CLOSE_RANGE_UNSHARE`).
const UNSHARE: libc::c_uint = 1 << 1;

/// Starts a thread called `name` that runs `work` without any of the process's file descriptors.
///
/// `work` must not use a descriptor that was opened before, standard output and error included: it may only use those that
/// it opens. Before Linux 5.9 the thread shares its descriptors as every thread does.
///
/// # Errors
/// As those of starting a thread.
pub fn spawn_apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        close_all_of_this_thread();
        work()
    })
}

fn close_all_of_this_thread() {
    // SAFETY: with CLOSE_RANGE_UNSHARE the call gives this thread a descriptor table of its own and closes what is in it.
    // The descriptors of all other threads stay open. This thread has opened none yet, and what it runs uses none of those
    // that were open before.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, UNSHARE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_stay_open_elsewhere_and_are_closed_in_the_thread() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let look = || std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
        let here = look();
        let there = spawn_apart("apart", look).unwrap().join().unwrap();
        // The one of the directory itself.
        assert_eq!(there, 1);
        assert!(here > 2);
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(1));
    }
}
