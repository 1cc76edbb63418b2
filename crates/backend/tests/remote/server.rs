//! The server: a disk with a cache in memory, and faults on demand.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use scrim_backend::{Access, RemoteBackend, RemoteOptions};
use scrim_nbd::tls::{ServerFiles, ServerTls};
use scrim_nbd::wire::{
    IHAVEOPT, NBDMAGIC, OPTION_REPLY_MAGIC, REQUEST_HEADER, SIMPLE_REPLY_MAGIC, cmd, cmd_flag,
    flag, info, opt, rep,
};
use scrim_nbd::{Endpoint, Uri, UriTls};
use scrim_seeded::Random;

use crate::certificates::Authority;
use crate::channel::Channel;

/// All that a usual server offers.
pub(crate) const USUAL: u16 = flag::HAS_FLAGS
    | flag::SEND_FLUSH
    | flag::SEND_FUA
    | flag::SEND_TRIM
    | flag::SEND_WRITE_ZEROES
    | flag::CAN_MULTI_CONN;

/// Fate of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    /// It is carried out.
    Served,
    /// It takes its time, and is then carried out.
    Watched,
    /// The connection ends before it is.
    LostBefore,
    /// It is carried out, and the connection ends without a reply.
    LostAfter,
    /// The server dies before it is.
    Crash,
    /// It is carried out, and then the server dies.
    CrashAfter,
    /// It is never answered.
    Silence,
    /// It is not carried out, and answered with this error.
    Error(u32),
    /// It is carried out, and answered with this number of bytes of the reply, and then the connection ends.
    Truncated(usize),
    /// It is answered with these bytes.
    Raw(Vec<u8>),
}

/// One request as the server sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

type Plan = Box<dyn FnMut(Asked) -> Fate + Send>;

pub(crate) struct Disk {
    /// Contents of the medium.
    pub(crate) durable: Vec<u8>,
    /// Contents that reads see: the cache over the medium.
    pub(crate) cached: Vec<u8>,
    /// Number of times the server has died.
    pub(crate) crashes: u64,
    /// Every request that was carried out.
    pub(crate) served: Vec<Asked>,
    random: Random,
}

impl Disk {
    /// Loses power: of the writes in the cache, a random part is on the medium.
    pub(crate) fn crash(&mut self) {
        self.crashes += 1;
        let blocks = self
            .cached
            .chunks_mut(512)
            .zip(self.durable.chunks_mut(512));
        for (cached, durable) in blocks {
            if self.random.one_in(2) {
                durable.copy_from_slice(cached);
            } else {
                cached.copy_from_slice(durable);
            }
        }
    }
}

pub(crate) struct Shared {
    disk: Mutex<Disk>,
    plan: Mutex<Plan>,
    stop: AtomicBool,
    connections: Mutex<Vec<UnixStream>>,
    pub(crate) accepted: AtomicU64,
    /// Writes that are with the server now, and whether two of them ever overlapped.
    writing: Mutex<Vec<Asked>>,
    pub(crate) overlapped: AtomicBool,
    pub(crate) terms: Mutex<Terms>,
    /// TLS that the server asks every client to begin; `None` if it offers none.
    pub(crate) tls: Mutex<Option<ServerTls>>,
}

/// Ways to reach a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Plain,
    Tls,
}

pub(crate) const BOTH_WAYS: [Way; 2] = [Way::Plain, Way::Tls];

/// Properties of the export.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) size: u64,
    pub(crate) flags: u16,
    pub(crate) blocks: Option<[u32; 3]>,
}

pub(crate) struct Server {
    folder: tempfile::TempDir,
    way: Way,
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(
        size: usize,
        flags: u16,
        plan: impl FnMut(Asked) -> Fate + Send + 'static,
    ) -> Self {
        Self::start_by(Way::Plain, size, flags, plan)
    }

    pub(crate) fn start_by(
        way: Way,
        size: usize,
        flags: u16,
        plan: impl FnMut(Asked) -> Fate + Send + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tls = (way == Way::Tls).then(|| {
            let folder = folder.path().join("tls");
            Authority::new().fill(&folder);
            server_tls(&folder)
        });
        let shared = Arc::new(Shared {
            disk: Mutex::new(Disk {
                durable: vec![0; size],
                cached: vec![0; size],
                crashes: 0,
                served: Vec::new(),
                random: Random::new(1),
            }),
            plan: Mutex::new(Box::new(plan)),
            stop: AtomicBool::new(false),
            connections: Mutex::default(),
            accepted: AtomicU64::new(0),
            writing: Mutex::default(),
            overlapped: AtomicBool::new(false),
            terms: Mutex::new(Terms {
                size: size as u64,
                flags,
                blocks: Some([1, 4096, 1 << 25]),
            }),
            tls: Mutex::new(tls),
        });
        let mut server = Self {
            folder,
            way,
            shared,
            thread: None,
        };
        server.listen();
        server
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Listens, as after a start.
    pub(crate) fn listen(&mut self) {
        let listener = UnixListener::bind(self.path()).unwrap();
        let shared = Arc::clone(&self.shared);
        shared.stop.store(false, Ordering::SeqCst);
        self.thread = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                let kept = stream.try_clone().unwrap();
                shared.connections.lock().unwrap().push(kept);
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        }));
    }

    /// Makes the server die; it listens no more.
    pub(crate) fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(self.path());
        let _ = std::fs::remove_file(self.path());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.crash();
    }

    pub(crate) fn crash(&self) {
        let mut disk = self.disk();
        disk.crash();
        self.shared.cut();
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.shared.disk.lock().unwrap()
    }

    /// Sets the plan for all requests from now on.
    pub(crate) fn change_plan(&self, plan: impl FnMut(Asked) -> Fate + Send + 'static) {
        *self.shared.plan.lock().unwrap() = Box::new(plan);
    }

    pub(crate) fn uri(&self) -> Uri {
        Uri {
            endpoint: Endpoint::Unix(self.path()),
            tls: (self.way == Way::Tls).then(|| UriTls {
                certificates: Some(self.certificates()),
                ..UriTls::default()
            }),
            export: "disk".to_owned(),
        }
    }

    /// The folder with what clients and the server have.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.folder.path().join("tls")
    }

    pub(crate) fn open(&self, limit: Duration) -> RemoteBackend {
        let options = RemoteOptions {
            connections: 3,
            limit,
        };
        RemoteBackend::open(&self.uri(), Access::ReadWrite, options).unwrap()
    }
}

/// Loads the TLS settings of a server whose certificates are in this folder.
pub(crate) fn server_tls(folder: &Path) -> ServerTls {
    ServerTls::load(&ServerFiles::in_directory(folder)).unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn cut(&self) {
        for stream in self.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn serve(&self, stream: UnixStream) {
        let end = stream.try_clone().unwrap();
        let _ = self
            .shake(stream)
            .and_then(|mut stream| self.requests(&mut stream));
        let _ = end.shutdown(std::net::Shutdown::Both);
    }

    fn shake(&self, mut stream: UnixStream) -> io::Result<Channel> {
        let terms = *self.terms.lock().unwrap();
        stream.write_all(&NBDMAGIC.to_be_bytes())?;
        stream.write_all(&IHAVEOPT.to_be_bytes())?;
        stream.write_all(&[0, 3])?;
        stream.read_exact(&mut [0; 4])?;
        let tls = self.tls.lock().unwrap().clone();
        let mut stream = match tls {
            None => Channel::Plain(stream),
            Some(tls) => {
                assert_eq!(option(&mut stream)?, (opt::STARTTLS, Vec::new()));
                reply(&mut stream, opt::STARTTLS, rep::ACK, &[])?;
                Channel::secured(stream, tls.session().unwrap())?
            }
        };
        let (asked, data) = option(&mut stream)?;
        if asked == opt::STARTTLS {
            reply(&mut stream, opt::STARTTLS, rep::ERR_UNSUP, b"none here")?;
            // A client that wants TLS goes.
            assert_eq!(stream.read(&mut [0; 1])?, 0, "it asks in the clear");
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        assert_eq!(asked, opt::GO);
        assert_eq!(&data[4..8], b"disk");
        let mut export = info::EXPORT.to_be_bytes().to_vec();
        export.extend(terms.size.to_be_bytes());
        export.extend(terms.flags.to_be_bytes());
        let mut replies = vec![(rep::INFO, export)];
        if let Some(sizes) = terms.blocks {
            let mut blocks = info::BLOCK_SIZE.to_be_bytes().to_vec();
            blocks.extend(sizes.into_iter().flat_map(u32::to_be_bytes));
            replies.push((rep::INFO, blocks));
        }
        replies.push((rep::ACK, Vec::new()));
        for (kind, data) in replies {
            reply(&mut stream, opt::GO, kind, &data)?;
        }
        Ok(stream)
    }

    fn requests(&self, stream: &mut Channel) -> io::Result<()> {
        let born = self.disk.lock().unwrap().crashes;
        loop {
            let (asked, data) = self.receive(stream)?;
            if asked.kind == cmd::DISC {
                return Ok(());
            }
            let fate = (self.plan.lock().unwrap())(asked);
            if fate == Fate::Watched {
                self.watch(asked);
            }
            let mut disk = self.disk.lock().unwrap();
            if disk.crashes != born {
                // This server is dead.
                return Ok(());
            }
            if fate == Fate::Crash {
                disk.crash();
                self.cut();
                return Ok(());
            }
            let mut reply = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
            reply.extend([0; 4]);
            reply.extend(asked.cookie.to_be_bytes());
            match &fate {
                Fate::LostBefore => return Ok(()),
                Fate::Error(error) => reply[4..8].copy_from_slice(&error.to_be_bytes()),
                Fate::Silence | Fate::Raw(_) => {}
                _ => reply.extend(disk.carry_out(asked, &data)),
            }
            if fate == Fate::CrashAfter {
                disk.crash();
                self.cut();
                return Ok(());
            }
            drop(disk);
            match fate {
                Fate::LostAfter => return Ok(()),
                Fate::Silence => {}
                Fate::Truncated(len) => {
                    stream.write_all(&reply[..len.min(reply.len())])?;
                    return Ok(());
                }
                Fate::Raw(bytes) => stream.write_all(&bytes)?,
                _ => stream.write_all(&reply)?,
            }
        }
    }

    /// Notes a write for a while.
    fn watch(&self, asked: Asked) {
        let mut writing = self.writing.lock().unwrap();
        let end = |asked: &Asked| asked.offset + asked.len as u64;
        let meets = |other: &Asked| other.offset < end(&asked) && asked.offset < end(other);
        if writing.iter().any(meets) {
            self.overlapped.store(true, Ordering::SeqCst);
        }
        writing.push(asked);
        drop(writing);
        std::thread::sleep(Duration::from_micros(200));
        let mut writing = self.writing.lock().unwrap();
        writing.retain(|other| other.cookie != asked.cookie || other.offset != asked.offset);
    }

    fn receive(&self, stream: &mut Channel) -> io::Result<(Asked, Vec<u8>)> {
        let mut header = [0; REQUEST_HEADER];
        stream.read_exact(&mut header)?;
        let number = |range: std::ops::Range<usize>| {
            header[range]
                .iter()
                .fold(0u64, |n, &byte| n << 8 | u64::from(byte))
        };
        let asked = Asked {
            flags: u16::try_from(number(4..6)).unwrap(),
            kind: u16::try_from(number(6..8)).unwrap(),
            cookie: number(8..16),
            offset: number(16..24),
            len: usize::try_from(number(24..28)).unwrap(),
        };
        let mut data = Vec::new();
        if asked.kind == cmd::WRITE {
            data = vec![0; asked.len];
            stream.read_exact(&mut data)?;
        }
        Ok((asked, data))
    }
}

/// Reads a client's option and its data.
fn option(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 16];
    stream.read_exact(&mut header)?;
    assert_eq!(header[..8], IHAVEOPT.to_be_bytes());
    let [.., len] = header;
    let mut data = vec![0; usize::from(len)];
    stream.read_exact(&mut data)?;
    Ok((u32::from(header[11]), data))
}

fn reply(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for number in [option, kind, u32::try_from(data.len()).unwrap()] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(data);
    stream.write_all(&bytes)
}

impl Disk {
    fn carry_out(&mut self, asked: Asked, data: &[u8]) -> Vec<u8> {
        self.served.push(asked);
        let start = usize::try_from(asked.offset).unwrap();
        let range = start..start + asked.len;
        match asked.kind {
            cmd::READ => return self.cached[range].to_vec(),
            cmd::WRITE => {
                self.cached[range.clone()].copy_from_slice(data);
                if asked.flags & cmd_flag::FUA != 0 {
                    self.durable[range].copy_from_slice(data);
                }
            }
            cmd::FLUSH => self.durable.copy_from_slice(&self.cached),
            cmd::TRIM | cmd::WRITE_ZEROES => self.cached[range].fill(0),
            other => panic!("request {other}"),
        }
        Vec::new()
    }
}
