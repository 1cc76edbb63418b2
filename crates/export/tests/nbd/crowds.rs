//! Crowds that connect: clients that are served stay served, and others still get in.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use scrim_export::limits::{self, Limits};
use scrim_export::nbd::{Address, Incident};
use scrim_export::{Export, Listener};

use crate::common::*;

/// A server on TCP, for clients of any address of this machine.
fn on_tcp(limits: Limits) -> (Served, SocketAddr) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let Address::Tcp(address) = *listener.address() else {
        panic!("not TCP");
    };
    let exports: Vec<Export> = vec![export("disk", crypt_volume(MIB).0)];
    let directory = tempfile::tempdir().unwrap();
    (Served::start(directory, listener, exports, limits), address)
}

/// A connection from `127.0.0.HOST`.
fn from(host: u8, server: SocketAddr) -> Raw {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    connect(&stream, &server).unwrap();
    Raw::new(UnixStream::from(stream))
}

fn client(host: u8, server: SocketAddr) -> Raw {
    let mut raw = from(host, server);
    raw.greet(3);
    raw.go("disk");
    raw
}

/// A crowd that connects and says nothing yields to the clients that come after it.
#[test]
fn a_silent_crowd_keeps_nobody_out() {
    let (served, server) = on_tcp(Limits::default());
    let mut good = client(1, server);
    let crowd: Vec<Raw> = (0..3 * limits::NEWCOMERS)
        .map(|_| from(2, server))
        .collect();
    assert_eq!(good.write(0, &pattern(1, 4096)), 0);
    // The clients are of another address, and of the crowd's own.
    for host in [3, 2] {
        let mut several: Vec<Raw> = (0..16).map(|_| client(host, server)).collect();
        for raw in &mut several {
            assert_eq!(raw.read(0, 4096).unwrap(), pattern(1, 4096));
        }
    }
    // An old connection that speaks late has gone; what it did harms no other.
    assert_eq!(good.read(0, 4096).unwrap(), pattern(1, 4096));
    let status = served.server.status();
    assert!(status.displaced >= 2 * limits::NEWCOMERS as u64);
    assert!(status.clients.len() <= limits::NEWCOMERS + 33);
    assert!(status.events.len() <= limits::EVENTS);
    assert_eq!(status.turned_away, 0);
    drop(crowd);
    drop(good);
    served.wait_until_no_client();
}

/// Connections that begin a handshake and stop count as those do that say nothing.
#[test]
fn a_crowd_that_stops_within_the_handshake_keeps_nobody_out() {
    let (served, server) = on_tcp(Limits::default());
    let mut good = client(1, server);
    let mut crowd = Vec::new();
    for _ in 0..2 * limits::NEWCOMERS {
        let mut raw = from(2, server);
        raw.greet(3);
        let _ = std::io::Write::write_all(&mut raw.stream, b"IHAVEOPT\0\0");
        crowd.push(raw);
    }
    let mut late = client(3, server);
    assert!(late.read(0, 4096).is_ok());
    assert!(good.read(0, 4096).is_ok());
    assert!(served.server.status().displaced >= limits::NEWCOMERS as u64);
}

/// Connections that come and go.
#[test]
fn a_flood_of_connections_keeps_nobody_out() {
    let (served, server) = on_tcp(Limits::default());
    let mut good = client(1, server);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            for _ in 0..2000 {
                let stream = TcpStream::connect(server).unwrap();
                drop(OwnedFd::from(stream));
            }
        });
        while !flood.is_finished() {
            let mut next = client(2, server);
            assert!(next.read(0, 4096).is_ok());
            assert!(good.read(0, 4096).is_ok());
        }
    });
    drop(good);
    served.wait_until_no_client();
}

#[test]
fn one_address_cannot_take_every_place() {
    let limits = Limits {
        clients_of_peer: 3,
        ..Limits::default()
    };
    let (served, server) = on_tcp(limits);
    let mut greedy: Vec<Raw> = (0..3).map(|_| client(2, server)).collect();
    let mut refused = from(2, server);
    refused.greet(3);
    let replies = refused.option(7, &info_data("disk", &[]));
    assert_eq!(replies[0].0, ERR_POLICY);
    assert!(client(3, server).read(0, 512).is_ok());
    greedy.pop();
    while served.server.status().clients.len() > 3 {
        std::thread::yield_now();
    }
    refused.go("disk");
    assert!(refused.read(0, 512).is_ok());
    let events = served.server.status().events;
    assert!(matches!(events[0].incident, Incident::TooManyOfPeer));
}
