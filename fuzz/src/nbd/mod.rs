//! The NBD server as a client sees it over its socket, and the answers that it must give.
//!
//! Nothing inside the server is called: the whole path from the socket to the cipher and back is fuzzed.

pub mod handshake;
pub mod transmission;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use scrim_backend::{Backend, MemoryBackend};
use scrim_export::limits::Limits;
use scrim_export::nbd::{Address, Server};
use scrim_export::{Export, Listener};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTable, DataPath, Volume};
use tempfile::TempDir;

/// Bytes of each volume: more than the longest piece that the server handles at once.
pub const SIZE: usize = 320 << 10;
/// Names of the exports. The first one is the default.
pub const NAMES: [&str; 2] = ["plain", "large"];
/// Bytes that a socket buffers while nobody reads from it.
const FITS: usize = 96 << 10;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A server of two volumes: one with sectors of 512 bytes; one with sectors of 4096, which allows
/// discards.
pub struct Host {
    server: Server,
    path: PathBuf,
    /// The volumes, in the order of [`NAMES`].
    pub volumes: [Arc<Volume>; 2],
    _directory: TempDir,
}

impl Host {
    #[allow(clippy::new_without_default, reason = "it starts threads")]
    pub fn new() -> Self {
        let volumes = ["", "2 allow_discards sector_size:4096"].map(volume);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("s");
        let listener = Listener::bind(&Address::Unix(path.clone())).expect("a socket");
        let export = |(name, volume): (&str, &Arc<Volume>)| Export {
            name: name.to_owned(),
            description: format!("the {name} one"),
            volume: Arc::clone(volume),
            engine: Engine::Plain,
        };
        let exports = NAMES.into_iter().zip(&volumes).map(export).collect();
        let server = Server::start(exports, vec![listener], Limits::default());
        Self {
            server: server.expect("a server"),
            path,
            volumes,
            _directory: directory,
        }
    }

    /// Answer of the server to a client that sends `sent` and then shuts down its side.
    pub fn answer(&self, sent: &[u8]) -> Vec<u8> {
        let stream = UnixStream::connect(&self.path).expect("the server listens");
        let answer = if sent.len() <= FITS {
            send(&stream, sent);
            receive(&stream)
        } else {
            std::thread::scope(|scope| {
                scope.spawn(|| send(&stream, sent));
                receive(&stream)
            })
        };
        // The connection's thread ends before this input does, so that its cost is not counted for the next input.
        while self.server.clients() > 0 {
            std::thread::yield_now();
        }
        answer
    }
}

fn volume(options: &str) -> Arc<Volume> {
    let table = format!(
        "0 {} crypt aes-xts-plain64 {KEY} 0 memory 0 {options}",
        SIZE / 512
    );
    let table = CryptTable::parse(&table).expect("a table");
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new(vec![0; SIZE]));
    Arc::new(Volume::start(table, DataPath::default(), |_| Ok(backend.clone())).expect("a volume"))
}

/// Sends `bytes` and shuts down this side; the server may close before all is sent.
fn send(mut stream: &UnixStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
}

/// Reads until the server closes; if the server left bytes unread, the connection is reset.
fn receive(mut stream: &UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// Takes big-endian fields off the front.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.bytes(8)?.try_into().ok()?))
    }
}
