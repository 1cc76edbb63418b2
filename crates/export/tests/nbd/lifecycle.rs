//! Starting, limiting and stopping a server.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scrim_backend::Backend;
use scrim_export::limits::{self, Limits};
use scrim_export::nbd::{Address, Incident, Server};
use scrim_export::{BindErrorKind, Listener, StartError, Stopped};
use scrim_volume::{Change, CryptTable, DataPath};

use crate::common::*;

const CLEAN: Stopped = Stopped {
    cut_off: 0,
    stuck: 0,
};

fn bind_error(address: &Address) -> BindErrorKind {
    match Listener::bind(address) {
        Ok(_) => panic!("{address} could be bound"),
        Err(error) => {
            assert!(error.to_string().contains(&address.to_string()));
            error.kind
        }
    }
}

#[test]
fn the_socket_belongs_to_its_owner_and_goes_away() {
    let served = Served::new(crypt_volume(MIB).0);
    let mode = fs::metadata(served.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(served.server.stop(Duration::from_secs(5)), CLEAN);
    assert!(!served.directory.path().join("s").exists());
}

#[test]
fn a_living_socket_is_left_alone_and_a_dead_one_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let address = Address::Unix(path.clone());
    let first = Listener::bind(&address).unwrap();
    assert!(matches!(bind_error(&address), BindErrorKind::InUse));
    drop(first);
    assert!(!path.exists());

    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a dead socket");
    let second = Listener::bind(&address).unwrap();
    // A file that is not ours any more is not removed.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(matches!(bind_error(&address), BindErrorKind::NotASocket));
    drop(second);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn impossible_addresses_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let long = directory.path().join("x".repeat(120));
    assert!(matches!(
        bind_error(&Address::Unix(long)),
        BindErrorKind::PathTooLong
    ));
    let nowhere = directory.path().join("missing/s");
    assert!(matches!(
        bind_error(&Address::Unix(nowhere)),
        BindErrorKind::System(_)
    ));
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let address = Address::Tcp(address.parse().unwrap());
        assert!(matches!(bind_error(&address), BindErrorKind::NotLoopback));
    }
}

#[test]
fn loopback_tcp_is_served_too() {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let Address::Tcp(address) = *listener.address() else {
        panic!("not TCP");
    };
    assert_ne!(address.port(), 0);
    let in_use = bind_error(&Address::Tcp(address));
    assert!(matches!(in_use, BindErrorKind::InUse));
    let exports = vec![export("disk", crypt_volume(MIB).0)];
    let server = Server::start(exports, vec![listener], Limits::default()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    let stream = std::os::fd::OwnedFd::from(stream);
    let mut raw = Raw::new(UnixStream::from(stream));
    raw.greet(3);
    raw.go("disk");
    assert_eq!(raw.write(0, &pattern(1, 1 << 20)), 0);
    assert_eq!(raw.read(0, 1 << 20).unwrap(), pattern(1, 1 << 20));
    assert!(
        server.status().clients[0]
            .peer
            .to_string()
            .starts_with("tcp 127.0.0.1:")
    );
}

#[test]
fn a_server_needs_exports_with_good_names() {
    let start = |names: &[&str], listeners: Vec<Listener>| {
        let (volume, _) = crypt_volume(MIB);
        let exports = names
            .iter()
            .map(|name| export(name, Arc::clone(&volume)))
            .collect();
        Server::start(exports, listeners, Limits::default()).err()
    };
    let listener = || vec![Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap()];
    assert!(matches!(start(&[], listener()), Some(StartError::Nothing)));
    assert!(matches!(start(&["a"], vec![]), Some(StartError::Nothing)));
    for names in [&["a", "a"][..], &["a\0"], &[&"x".repeat(5000)]] {
        assert!(matches!(
            start(names, listener()),
            Some(StartError::Name(_))
        ));
    }
    let many = ["a"; limits::EXPORTS + 1];
    assert!(matches!(
        start(&many, listener()),
        Some(StartError::Nothing)
    ));
}

#[test]
fn clients_beyond_the_limit_are_turned_away() {
    let limits = Limits {
        clients: 2,
        ..Limits::default()
    };
    let served = Served::with(vec![export("disk", crypt_volume(MIB).0)], limits);
    let mut first = served.simple();
    let second = served.simple();
    // The client is told where the protocol has an answer, and disconnected where it has none.
    let mut third = served.connect();
    third.greet(3);
    let replies = third.option(7, &info_data("disk", &[]));
    assert_eq!(replies[0].0, ERR_POLICY);
    let mut fourth = served.connect();
    fourth.greet(3);
    fourth.send_option(1, b"disk");
    assert!(fourth.is_closed());
    assert!(first.read(0, 512).is_ok());
    assert_eq!(served.server.clients(), 2);
    drop(second);
    while served.server.clients() > 1 {
        std::thread::yield_now();
    }
    third.go("disk");
    assert!(third.read(0, 512).is_ok());
    let status = served.server.status();
    assert_eq!((status.accepted, status.turned_away), (4, 2));
    assert!(matches!(
        status.events[0].incident,
        Incident::TooManyClients
    ));
}

#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    let limits = Limits {
        handshake: Duration::from_millis(50),
        ..Limits::default()
    };
    let served = Served::with(vec![export("disk", crypt_volume(MIB).0)], limits);
    let mut silent = served.connect();
    let mut slow = served.connect();
    slow.greet(3);
    slow.send(b"IHAVE");
    assert!(silent.is_closed());
    assert!(slow.is_closed());
    served.wait_until_no_client();
    let status = served.server.status();
    assert_eq!(status.events.len(), 2);
    assert!(matches!(
        status.events[0].incident,
        Incident::HandshakeTimeout
    ));
}

#[test]
fn stopping_ends_idle_clients_and_releases_the_volume() {
    let (volume, _) = crypt_volume(MIB);
    let served = Served::new(Arc::clone(&volume));
    let mut idle = served.simple();
    let mut half_shaken = served.connect();
    half_shaken.greet(3);
    assert_eq!(idle.write(0, &[1; 512]), 0);
    assert_eq!(served.server.stop(Duration::from_secs(5)), CLEAN);
    assert!(idle.is_closed());
    assert!(half_shaken.is_closed());
    assert!(Arc::into_inner(volume).is_some(), "nobody else holds it");
}

#[test]
fn requests_that_were_sent_before_the_stop_are_answered() {
    let served = Served::new(crypt_volume(16 * MIB).0);
    let mut raw = served.simple();
    for cookie in 0..50 {
        raw.request(0, READ, cookie, cookie * 4096, 4096);
    }
    assert_eq!(served.server.stop(Duration::from_secs(5)), CLEAN);
    raw.reads_in_any_order(50, 4096);
    assert!(raw.is_closed());
}

/// A client in the middle of a request that it does not finish cannot keep a server from stopping.
#[test]
fn clients_that_do_not_finish_are_cut_off() {
    let served = Served::new(crypt_volume(16 * MIB).0);
    let mut writing = served.simple();
    writing.send(&request(0, WRITE, 1, 0, 4096));
    writing.send(&[0; 100]);
    let mut deaf = served.simple();
    for cookie in 0..50 {
        deaf.request(0, READ, cookie, 0, 1 << 20);
    }
    while served.server.status().traffic.read.requests < 1 {
        std::thread::yield_now();
    }
    let stopped = served.server.stop(Duration::from_millis(100));
    assert_eq!(stopped.stuck, 0);
    assert_eq!(stopped.cut_off, 2);
}

/// Storage that never answers cannot keep a server from stopping either; it is told.
#[test]
fn threads_that_wait_for_the_storage_are_counted() {
    let (volume, backend) = crypt_volume(MIB);
    let served = Served::new(volume);
    let mut raw = served.simple();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (enter, entered) = std::sync::mpsc::channel();
    let released = std::sync::Mutex::new(released);
    let hook = move || {
        enter.send(()).unwrap();
        assert!(released.lock().unwrap().recv().is_err());
    };
    assert!(backend.on_read.set(Box::new(hook)).is_ok());
    raw.request(0, READ, 1, 0, 512);
    entered.recv().unwrap();
    let stopped = served.server.stop(Duration::ZERO);
    assert_eq!((stopped.cut_off, stopped.stuck), (1, 1));
    drop(release);
    assert!(raw.is_closed());
}

/// The path is told, and removed in the end, as an absolute one.
#[test]
fn relative_paths_become_absolute() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let name = directory.path().file_name().unwrap();
    let relative = std::path::Path::new(name).join("s");
    let listener = Listener::bind(&Address::Unix(relative.clone())).unwrap();
    let Address::Unix(path) = listener.address() else {
        panic!("not a unix socket");
    };
    assert!(path.is_absolute());
    assert!(path.exists());
    assert!(relative.exists());
    drop(listener);
    assert!(!relative.exists());
}

/// A durable write is flushed while others of the same client are in flight, and an exchange of
/// tables waits for those.
#[test]
fn tables_are_exchanged_under_clients_that_write_durably() {
    const BATCH: u64 = 16;
    let (volume, backend) = crypt_volume(MIB);
    let served = Served::new(Arc::clone(&volume));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let mut raw = served.simple();
                scope.spawn({
                    let ended = &ended;
                    move || {
                        while !ended.load(Ordering::Relaxed) {
                            for cookie in 0..BATCH {
                                raw.write_request(FUA, cookie, cookie * 8192, &[7; 4096]);
                            }
                            let answered = (0..BATCH).map(|_| raw.simple_reply());
                            let answered: BTreeSet<_> = answered.collect();
                            let expected: BTreeSet<_> = (0..BATCH).map(|at| (0, at)).collect();
                            assert_eq!(answered, expected);
                        }
                        assert_eq!(raw.read(8192, 4096), Ok(vec![7; 4096]));
                    }
                })
            })
            .collect();
        for path in [DataPath::Queued, DataPath::Auto].repeat(20) {
            let table = CryptTable::parse(&crypt_table(MIB, "")).unwrap();
            let open = |_: &str| Ok(Arc::clone(&backend) as Arc<dyn Backend>);
            let loaded = volume.load(table, path, Change::OfService, open);
            loaded.unwrap();
            volume.resume(Duration::from_secs(10)).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        ended.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
}

/// Connections that wait for their clients, too, let go of a store that no table in use refers to.
#[test]
fn clients_that_wait_let_go_of_a_table_that_was_exchanged() {
    let (volume, old) = crypt_volume(MIB);
    let served = Served::new(Arc::clone(&volume));
    let mut client = served.simple();
    assert_eq!(client.write(0, &[7; 4096]), 0);
    let new = Counting::new(MIB);
    for _ in 0..2 {
        let line = crypt_table(MIB, "").replace("memory", "other");
        let table = CryptTable::parse(&line).unwrap();
        let open = |_: &str| Ok(Arc::clone(&new) as Arc<dyn Backend>);
        let (path, change) = (DataPath::default(), Change::OfMeaning);
        volume.load(table, path, change, open).unwrap();
        volume.resume(Duration::from_secs(20)).unwrap();
    }
    for _ in 0..1000 {
        if Arc::strong_count(&old) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(Arc::strong_count(&old), 1, "a client that waits has it");
    assert_eq!(client.write(0, &[8; 4096]), 0);
    assert_eq!(client.read(0, 4096).unwrap(), [8; 4096]);
}
