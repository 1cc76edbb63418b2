//! A process without descriptors to spare. It is a program of its own because the limit holds for
//! all of it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use scrim_export::limits::Limits;
use scrim_export::nbd::{Address, Incident, Server};
use scrim_export::{Export, Listener};
use scrim_volume::queue::Engine;
use scrim_volume::{CryptTable, DataPath, Volume};

/// A client that cannot be accepted for want of a descriptor waits, and is served later.
#[test]
fn clients_wait_while_descriptors_are_short() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = Listener::bind(&Address::Unix(path.clone())).unwrap();
    let table = CryptTable::parse("0 8 zero").unwrap();
    let volume = Volume::start(table, DataPath::default(), |_| unreachable!()).unwrap();
    let export = Export {
        name: "zero".to_owned(),
        description: String::new(),
        volume: Arc::new(volume),
        engine: Engine::Plain,
    };
    let server = Server::start(vec![export], vec![listener], Limits::default()).unwrap();

    let before = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: Some(64),
        ..before
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    // One descriptor for the client's end, none for the server's.
    drop(files.pop());
    let mut client = UnixStream::connect(&path).unwrap();
    let refused = |server: &Server| {
        let events = server.status().events;
        let accept = |incident: &Incident| matches!(incident, Incident::Accept { .. });
        events.iter().any(|event| accept(&event.incident))
    };
    while !refused(&server) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.connections(), 0);

    setrlimit(Resource::Nofile, before).unwrap();
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGIC");
}
