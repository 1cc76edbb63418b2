//! Helpers that the tests share: volumes in memory, a server in a temporary directory, and a client
//! that can send any bytes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use scrim_backend::Backend;
use scrim_export::limits::Limits;
use scrim_export::nbd::{Address, Server};
use scrim_export::{Export, Listener};
use scrim_luks::VolumeKey;
use scrim_seeded::Random;
use scrim_sys::memory::SecretBytes;
use scrim_volume::{CryptTable, Volume};

#[path = "../common/remote.rs"]
mod remote;
#[path = "../common/storage.rs"]
mod storage;

pub(crate) use storage::{Counting, crypt_table};

pub(crate) const MIB: u64 = 1 << 20;

/// The key of [`crypt_table`].
const KEY_BYTES: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 29, 30, 31,
];

/// Returns the storage as one of this machine, or of another one, as these tests are to have it.
pub(crate) fn placed(backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
    match crate::REMOTE {
        true => remote::remote(backend),
        false => backend,
    }
}

/// Runs a table whose devices are all `backend`.
pub(crate) fn volume(table: &str, backend: &Arc<Counting>) -> Arc<Volume> {
    let table = CryptTable::parse(table).unwrap_or_else(|error| panic!("{error}"));
    let backend = placed(Arc::clone(backend) as Arc<dyn Backend>);
    let open = |_: &str| Ok(Arc::clone(&backend));
    Arc::new(Volume::start(table, crate::PATH, open).unwrap_or_else(|error| panic!("{error}")))
}

/// Gives a volume with the key of these tests its key back.
pub(crate) fn recall(volume: &Volume) {
    let key = VolumeKey::new(SecretBytes::copied_from(&KEY_BYTES));
    let open = |name: &str| panic!("{name} is open");
    volume.recall_key(&key, open).unwrap();
}

/// An encrypted volume of `size` bytes with 512-byte sectors.
pub(crate) fn crypt_volume(size: u64) -> (Arc<Volume>, Arc<Counting>) {
    let backend = Counting::new(size);
    (volume(&crypt_table(size, ""), &backend), backend)
}

/// A server on a unix socket in a directory of its own.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) directory: tempfile::TempDir,
}

impl Served {
    pub(crate) fn new(volume: Arc<Volume>) -> Self {
        Self::with(vec![export("disk", volume)], Limits::default())
    }

    pub(crate) fn with(exports: Vec<Export>, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(directory.path().join("s"))).unwrap();
        Self::start(directory, listener, exports, limits)
    }

    /// As [`Served::with`], by another listener that has its files in `directory`.
    pub(crate) fn start(
        directory: tempfile::TempDir,
        listener: Listener,
        exports: Vec<Export>,
        limits: Limits,
    ) -> Self {
        let server = Server::start(exports, vec![listener], limits).unwrap();
        Self { server, directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn uri(&self) -> String {
        self.server.addresses()[0].uri("")
    }

    /// A connected client that has not said anything.
    pub(crate) fn connect(&self) -> Raw {
        Raw::new(UnixStream::connect(self.path()).unwrap())
    }

    /// A client in the transmission phase with simple replies.
    pub(crate) fn simple(&self) -> Raw {
        let mut raw = self.connect();
        raw.greet(3);
        raw.go("");
        raw
    }

    /// A client in the transmission phase with structured replies and `base:allocation`.
    pub(crate) fn structured(&self) -> Raw {
        let mut raw = self.connect();
        raw.greet(3);
        assert_eq!(raw.option(8, b""), [(ACK, vec![])]);
        let replies = raw.option(10, &meta_data("", &["base:allocation"]));
        assert_eq!(replies.last(), Some(&(ACK, vec![])));
        raw.go("");
        raw.structured = true;
        raw
    }

    /// Waits until the server has noticed that no client is left.
    pub(crate) fn wait_until_no_client(&self) {
        self.wait_until_clients(0);
    }

    /// Waits until the server has `expected` clients.
    pub(crate) fn wait_until_clients(&self, expected: usize) {
        for _ in 0..1000 {
            if self.server.connections() == expected {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("clients stay: {:?}", self.server.status().clients);
    }
}

pub(crate) fn export(name: &str, volume: Arc<Volume>) -> Export {
    Export {
        name: name.to_owned(),
        description: format!("the export {name}"),
        volume,
        engine: crate::ENGINE,
    }
}

pub(crate) const ACK: u32 = 1;
pub(crate) const ERR: u32 = 1 << 31;
pub(crate) const ERR_POLICY: u32 = ERR | 2;
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;
pub(crate) const FUA: u16 = 1;
pub(crate) const DF: u16 = 4;
pub(crate) const FAST_ZERO: u16 = 16;

/// A client that sends what it is told to, valid or not.
pub(crate) struct Raw {
    pub(crate) stream: UnixStream,
    pub(crate) structured: bool,
}

/// A structured reply chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) done: bool,
    pub(crate) kind: u16,
    pub(crate) cookie: u64,
    pub(crate) payload: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(stream: UnixStream) -> Self {
        // A server that hangs fails the test instead of hanging it.
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream.set_write_timeout(limit).unwrap();
        Self {
            stream,
            structured: false,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn receive_u16(&mut self) -> u16 {
        u16::from_be_bytes(self.receive(2).try_into().unwrap())
    }

    pub(crate) fn receive_u32(&mut self) -> u32 {
        u32::from_be_bytes(self.receive(4).try_into().unwrap())
    }

    pub(crate) fn receive_u64(&mut self) -> u64 {
        u64::from_be_bytes(self.receive(8).try_into().unwrap())
    }

    /// Returns whether the server has closed the connection, after no more than `most` unread bytes.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Receives the server's greeting and answers with `flags`.
    pub(crate) fn greet(&mut self, flags: u32) {
        assert_eq!(self.receive(18), b"NBDMAGICIHAVEOPT\0\x03");
        self.send(&flags.to_be_bytes());
    }

    pub(crate) fn send_option(&mut self, code: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(code.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        self.send(&bytes);
    }

    /// Sends an option and receives its replies, up to the acknowledgement or error.
    pub(crate) fn option(&mut self, code: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(code, data);
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.receive_u64(), 0x0003_e889_0455_65a9);
            assert_eq!(self.receive_u32(), code);
            let kind = self.receive_u32();
            let len = self.receive_u32();
            replies.push((kind, self.receive(len as usize)));
            if kind == ACK || kind & ERR != 0 {
                return replies;
            }
        }
    }

    /// Enters the transmission phase.
    pub(crate) fn go(&mut self, export: &str) {
        let replies = self.option(7, &info_data(export, &[]));
        assert_eq!(replies.last(), Some(&(ACK, vec![])));
    }

    pub(crate) fn request(&mut self, flags: u16, kind: u16, cookie: u64, offset: u64, len: u32) {
        let bytes = request(flags, kind, cookie, offset, len);
        self.send(&bytes);
    }

    pub(crate) fn write_request(&mut self, flags: u16, cookie: u64, offset: u64, data: &[u8]) {
        let mut bytes = request(
            flags,
            WRITE,
            cookie,
            offset,
            u32::try_from(data.len()).unwrap(),
        );
        bytes.extend(data);
        self.send(&bytes);
    }

    /// Receives a simple reply's error and cookie.
    pub(crate) fn simple_reply(&mut self) -> (u32, u64) {
        assert_eq!(self.receive_u32(), 0x6744_6698);
        (self.receive_u32(), self.receive_u64())
    }

    pub(crate) fn chunk(&mut self) -> Chunk {
        assert_eq!(self.receive_u32(), 0x668e_33ef);
        let flags = self.receive_u16();
        assert!(flags <= 1);
        let kind = self.receive_u16();
        let cookie = self.receive_u64();
        let len = self.receive_u32();
        Chunk {
            done: flags == 1,
            kind,
            cookie,
            payload: self.receive(len as usize),
        }
    }

    /// The error of the reply to any command but a read, 0 for success.
    pub(crate) fn status(&mut self, cookie: u64) -> u32 {
        if !self.structured {
            let (error, answered) = self.simple_reply();
            assert_eq!(answered, cookie);
            return error;
        }
        let chunk = self.chunk();
        assert_eq!((chunk.cookie, chunk.done), (cookie, true));
        match chunk.kind {
            0 => 0,
            0x8001 => u32::from_be_bytes(chunk.payload[..4].try_into().unwrap()),
            kind => panic!("unexpected chunk {kind}"),
        }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.write_request(0, 1, offset, data);
        self.status(1)
    }

    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.request(0, READ, 2, offset, len);
        self.read_reply(2, offset, len)
    }

    /// Receives the replies to successful reads of `len` bytes with the cookies below `count`.
    pub(crate) fn reads_in_any_order(&mut self, count: u64, len: usize) {
        let mut received = vec![0; usize::try_from(count).unwrap()];
        let mut done = 0;
        while done < count {
            let (cookie, bytes, last) = if self.structured {
                let chunk = self.chunk();
                assert!(chunk.kind <= 1);
                (
                    chunk.cookie,
                    chunk.payload.len().saturating_sub(8),
                    chunk.done,
                )
            } else {
                let (error, cookie) = self.simple_reply();
                assert_eq!(error, 0);
                (cookie, self.receive(len).len(), true)
            };
            received[usize::try_from(cookie).unwrap()] += bytes;
            done += u64::from(last);
        }
        assert!(received.iter().all(|bytes| *bytes == len), "{received:?}");
    }

    /// The data of a read, or its error.
    pub(crate) fn read_reply(
        &mut self,
        cookie: u64,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, u32> {
        if !self.structured {
            let (error, answered) = self.simple_reply();
            assert_eq!(answered, cookie);
            return if error == 0 {
                Ok(self.receive(len as usize))
            } else {
                Err(error)
            };
        }
        let mut data = vec![0; len as usize];
        let mut received = 0;
        let mut error = None;
        loop {
            let chunk = self.chunk();
            assert_eq!(chunk.cookie, cookie);
            match chunk.kind {
                0 => {}
                1 => {
                    let (at, part) = chunk.payload.split_first_chunk().unwrap();
                    let start = usize::try_from(u64::from_be_bytes(*at) - offset).unwrap();
                    data[start..start + part.len()].copy_from_slice(part);
                    received += part.len();
                }
                0x8001 | 0x8002 => {
                    error = Some(u32::from_be_bytes(chunk.payload[..4].try_into().unwrap()));
                }
                kind => panic!("unexpected chunk {kind}"),
            }
            if chunk.done {
                return match error {
                    Some(error) => Err(error),
                    None => {
                        assert_eq!(received, data.len());
                        Ok(data)
                    }
                };
            }
        }
    }

    pub(crate) fn command(&mut self, flags: u16, kind: u16, offset: u64, len: u32) -> u32 {
        self.request(flags, kind, 3, offset, len);
        self.status(3)
    }
}

pub(crate) fn request(flags: u16, kind: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

fn counted(text: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text.bytes());
    bytes
}

pub(crate) fn info_data(export: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = counted(export);
    data.extend(u16::try_from(kinds.len()).unwrap().to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

pub(crate) fn meta_data(export: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(export);
    data.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
    data.extend(queries.iter().flat_map(|query| counted(query)));
    data
}

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

/// Runs a program that may be missing here: then the test is skipped, unless `CI` is set.
pub(crate) fn tool(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none(), "{program} is missing");
            println!("skipped: {program} is missing");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}
