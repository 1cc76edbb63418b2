//! A tree that is mounted and served.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use scrim_fuse::reply::{Agreement, Terms, Wishes, agree};
use scrim_fuse::request::{Operation, Request};
use scrim_fuse::wire::{init, open};
use scrim_sys::fuse::clone_device;
use scrim_sys::interrupt::interrupt;

use super::buffer::Buffer;
use super::error::{MountError, UnmountError};
use super::guard::Guard;
use super::limits;
use super::mount::{Method, Place, Unmount, mount};
use super::options::{MountOptions, PageCache};
use super::session::{Failure, Session};
use super::stall::StallLimit;
use super::tree::FileTree;
use super::worker::{Worker, receive};
use crate::status::Traffic;

/// Terms under which the kernel can open files and folders by itself.
const OPENS_BY_ITSELF: u64 = init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT;

/// A mounted tree, with the threads that serve it. Dropping it is [`stop`](Self::stop).
///
/// A program that looks at the mount is served by these threads, so none of them, and no thread that they wait for, may
/// do so itself.
pub struct Mounted {
    session: Arc<Session>,
    place: Place,
    cache: PageCache,
    guard: Mutex<Option<Guard>>,
    threads: Vec<JoinHandle<()>>,
}

impl Mounted {
    /// Mounts `tree` on `directory`, an empty folder, and serves it.
    ///
    /// # Errors
    /// When the folder does not suit, the system refuses the mount, or gives no threads or memory for it. Nothing is
    /// mounted then.
    pub fn start(
        tree: Arc<dyn FileTree>,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let no_memory = || MountError::Session(Errno::NOMEM.into());
        let count = limits::threads();
        let buffers: Option<Vec<_>> = (0..count).map(|_| Buffer::new()).collect();
        let buffers = buffers.ok_or_else(no_memory)?;
        let (device, place) = mount(directory, options, tree.has_permissions())?;
        let guard = Guard::start(&place);
        let mut mounted = Self {
            session: Arc::new(Session::new(tree, open_flags(options), count)),
            place,
            cache: options.cache,
            guard: Mutex::new(guard),
            threads: Vec::new(),
        };
        // From here on an error drops `mounted`, which takes the mount away.
        mounted.serve(device, buffers, options)?;
        Ok(mounted)
    }

    /// Agrees with the kernel on the terms, and starts a thread for each buffer.
    fn serve(
        &mut self,
        device: OwnedFd,
        mut buffers: Vec<Buffer>,
        options: &MountOptions,
    ) -> Result<(), MountError> {
        let background = limits::background(buffers.len());
        for buffer in buffers.iter_mut().take(1) {
            let terms = negotiate(&device, buffer, options, background)?;
            if terms.flags & OPENS_BY_ITSELF == OPENS_BY_ITSELF
                && may_imply_open(&self.session, options)
            {
                self.session.imply_open();
            }
        }
        let device = Arc::new(device);
        let meters = self.session.meters.clone();
        for (index, (buffer, meter)) in buffers.into_iter().zip(meters).enumerate() {
            // A process that was handed its descriptor may not be able to open the device; then threads share it.
            let own = match index {
                0 => None,
                _ => clone_device(device.as_fd()).ok(),
            };
            let own = own.map_or_else(|| Arc::clone(&device), Arc::new);
            let worker = Worker::new(Arc::clone(&self.session), own, meter, buffer);
            let serving = self.session.enter();
            let thread = thread::Builder::new()
                .name(format!("fuse-{index}"))
                .stack_size(crate::limits::STACK)
                .spawn(move || {
                    worker.run();
                    drop(serving);
                })
                .map_err(MountError::Session)?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// The folder on which the tree is mounted: an absolute path without links.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.place.directory
    }

    /// The way in which it was mounted.
    #[must_use]
    pub fn method(&self) -> Method {
        self.place.method
    }

    /// Returns whether the mount goes away also if this process is killed.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        guard.is_some()
    }

    /// Returns whether serving has ended, because somebody has unmounted the tree.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.session.has_ended()
    }

    /// Waits until somebody has unmounted the tree, and nothing uses it any more.
    pub fn wait(&self) {
        self.session.wait();
    }

    /// Counts of requests and of calls on the device so far. Requests that are about no data count as received only.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.session.traffic()
    }

    /// The last requests that the storage failed, and requests of the kernel that could not be read.
    #[must_use]
    pub fn failures(&self) -> Vec<Failure> {
        self.session.failures()
    }

    /// Number of writes that the storage failed.
    #[must_use]
    pub fn failed_writes(&self) -> u64 {
        self.session.failed_writes()
    }

    /// Unmounts the tree, unless a program uses it. The kernel writes back before what it still has. Afterwards
    /// [`wait`](Self::wait) returns at once, except where another mount namespace still has the mount.
    ///
    /// # Errors
    /// [`UnmountError::Busy`] if it is in use; it is then served as before. [`UnmountError::Stalled`] if the storage has
    /// answered nothing for a while (45 s); the mount goes away once it answers.
    pub fn unmount(&self) -> Result<(), UnmountError> {
        self.unmount_within(&mut self.stall_limit(limits::STALL))
    }

    /// As [`unmount`](Self::unmount), with another limit.
    ///
    /// # Errors
    /// As for [`unmount`](Self::unmount).
    pub fn unmount_within(&self, stall_limit: &mut StallLimit) -> Result<(), UnmountError> {
        if self.has_mount() {
            self.place.unmount(Unmount::InOrder, stall_limit)?;
        } else if self.cache == PageCache::WriteBack {
            self.wait_for_write_back(stall_limit)?;
        }
        self.dismiss_guard();
        Ok(())
    }

    /// Waits for an unmount by somebody else, which takes the mount out of the kernel's table before it writes back.
    fn wait_for_write_back(&self, stall_limit: &mut StallLimit) -> Result<(), UnmountError> {
        while self.session.wait_until(Instant::now() + limits::PAUSE) > 0 {
            if stall_limit.is_over() {
                let path = self.place.directory.clone();
                return Err(UnmountError::Stalled { path });
            }
        }
        Ok(())
    }

    /// Begins a wait that ends when no request was answered for `limit`.
    #[must_use]
    pub fn stall_limit(&self, limit: Duration) -> StallLimit {
        StallLimit::new(&self.session, limit)
    }

    /// Takes the mount away, also while it is in use, and ends serving. Programs that have files open get errors from
    /// then on. Data in the page cache is written back first, while the storage answers.
    ///
    /// Returns the number of threads that still wait for the storage after that limit. Each keeps the tree until then.
    #[must_use = "threads that are left keep the volume open"]
    pub fn stop(mut self) -> usize {
        self.end()
    }

    fn end(&mut self) -> usize {
        if self.has_mount() {
            self.detach();
        }
        self.session.stop();
        let deadline = Instant::now() + limits::END;
        // A thread that is just about to read notices no signal, so it is repeated.
        let threads = std::mem::take(&mut self.threads);
        while !threads.is_empty() && !self.session.has_ended() && Instant::now() < deadline {
            for thread in threads.iter().filter(|thread| !thread.is_finished()) {
                // Without the signal the thread ends with its next request.
                let _ = interrupt(thread);
            }
            self.session.wait_until(Instant::now() + limits::PAUSE);
        }
        let stuck = self.session.wait_until(Instant::now());
        if stuck == 0 {
            for thread in threads {
                // A panic ends only a request.
                let _ = thread.join();
            }
        }
        self.dismiss_guard();
        stuck
    }

    /// Returns whether the mount is still there, also if nothing serves it any more.
    fn has_mount(&self) -> bool {
        !self.place.is_gone()
    }

    /// Detaches the mount, and fails the requests that then still wait.
    fn detach(&self) {
        if self.cache == PageCache::WriteBack {
            // Data that the storage refuses is reported to the program, at its next fsync at the latest.
            self.place
                .write_back_files(&mut self.stall_limit(limits::END));
        }
        // It is gone, or the guard tries again. After the limit the end of the threads ends that call too.
        let mut stall_limit = self.stall_limit(limits::END);
        let _ = self.place.unmount(Unmount::Abort, &mut stall_limit);
    }

    fn dismiss_guard(&self) {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.place.is_gone() {
            // It takes the mount away when this process ends.
            return;
        }
        if let Some(guard) = guard.take() {
            guard.dismiss();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}

/// Flags in replies to opening a file and a folder.
fn open_flags(options: &MountOptions) -> (u32, u32) {
    let (mut file, directory) = match options.cache {
        PageCache::Bypass => (open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES, 0),
        PageCache::WriteBack => (open::KEEP_CACHE, open::KEEP_CACHE | open::CACHE_DIR),
    };
    if options.read_only {
        // A close has no error of a write to report.
        file |= open::NOFLUSH;
    }
    (file, directory)
}

/// Answers the kernel's first request, which has come by the time that mounting has returned.
fn negotiate(
    device: &OwnedFd,
    buffer: &mut Buffer,
    options: &MountOptions,
    background: u16,
) -> Result<Terms, MountError> {
    let wishes = Wishes {
        flags: wished_flags(options),
        max_write: u32::try_from(limits::PAYLOAD).unwrap_or(u32::MAX),
        page_size: u32::try_from(rustix::param::page_size()).unwrap_or(4096),
        max_background: background,
    };
    let refused = |reason: String| MountError::Protocol { reason };
    loop {
        let len = match receive(device, buffer) {
            Err(Errno::INTR) => continue,
            read => read.map_err(|error| MountError::Session(error.into()))?,
        };
        let request = Request::parse(buffer.request(len)).map_err(|e| refused(e.to_string()))?;
        let Operation::Init(offer) = request.operation else {
            let kind = request.header.opcode;
            return Err(refused(format!("it begins with a request of kind {kind}")));
        };
        let send = |reply: &[u8]| {
            rustix::io::write(device, reply)
                .map_err(|error| MountError::Session(io::Error::from(error)))
        };
        match agree(request.header.unique, &offer, &wishes) {
            Agreement::Older(reply) => send(&reply)?,
            Agreement::Agreed(terms, reply) => {
                send(&reply)?;
                return Ok(terms);
            }
            Agreement::TooOld => {
                let (major, minor) = (offer.major, offer.minor);
                return Err(refused(format!("it has version {major}.{minor}")));
            }
        };
    }
}

/// Returns whether nothing would be lost if the kernel opened files and folders by itself. Its own flags of open files
/// then count: data stays in the page cache.
fn may_imply_open(session: &Session, options: &MountOptions) -> bool {
    options.read_only && options.cache == PageCache::WriteBack && !session.tree.has_handles()
}

fn wished_flags(options: &MountOptions) -> u64 {
    let mut flags = init::ASYNC_READ
        | init::BIG_WRITES
        | init::DO_READDIRPLUS
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        | init::MAX_PAGES
        | init::INIT_EXT
        | init::DIRECT_IO_ALLOW_MMAP
        | OPENS_BY_ITSELF;
    if options.cache != PageCache::Bypass {
        flags |= init::CACHE_SYMLINKS;
    }
    if options.cache == PageCache::WriteBack && !options.read_only {
        flags |= init::WRITEBACK_CACHE;
    }
    flags
}
