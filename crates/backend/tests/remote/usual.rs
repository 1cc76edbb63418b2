//! The backend with a server that behaves as it should.

use std::sync::atomic::Ordering;
use std::time::Duration;

use scrim_backend::{Access, Backend, Durability, LockKind, RemoteBackend, RemoteOptions};
use scrim_nbd::wire::{cmd, cmd_flag, flag};

use crate::server::{Asked, BOTH_WAYS, Fate, Server, USUAL};

const LIMIT: Duration = Duration::from_secs(20);

fn served(_: Asked) -> Fate {
    Fate::Served
}

fn kinds(server: &Server) -> Vec<(u16, u16, u64, usize)> {
    let mut disk = server.disk();
    let served = std::mem::take(&mut disk.served).into_iter();
    served.map(|a| (a.kind, a.flags, a.offset, a.len)).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let server = Server::start(1 << 20, USUAL, served);
    let backend = server.open(LIMIT);
    assert_eq!(backend.info().size, 1 << 20);
    assert!(!backend.info().read_only);
    backend
        .write_at(4096, &[5; 512], Durability::Durable)
        .unwrap();
    backend.write_at(0, &[6; 16], Durability::Cached).unwrap();
    assert_eq!(server.disk().durable[4096..4608], [5; 512]);
    assert_eq!(server.disk().durable[..16], [0; 16]);
    backend.flush().unwrap();
    assert_eq!(server.disk().durable[..16], [6; 16]);
    backend.write_zeroes(0..8192, Durability::Durable).unwrap();
    assert!(server.disk().durable.iter().all(|&byte| byte == 0));
    backend.discard(0..4096).unwrap();
    let mut read = [1; 5000];
    backend.read_at(4000, &mut read).unwrap();
    assert_eq!(read, [0; 5000]);
    assert_eq!(backend.status().reconnects, 0);
}

#[test]
fn nothing_passes_the_end() {
    let server = Server::start(4096, USUAL, served);
    let backend = server.open(LIMIT);
    assert!(backend.write_at(4096, &[0], Durability::Cached).is_err());
    assert!(
        backend
            .write_at(u64::MAX, &[0], Durability::Cached)
            .is_err()
    );
    assert!(backend.write_zeroes(0..4097, Durability::Cached).is_err());
    assert!(backend.discard(512..8192).is_err());
    let error = backend.read_at(4000, &mut [0; 97]).unwrap_err();
    assert!(error.to_string().contains("ends before"), "{error}");
    assert_eq!(kinds(&server), []);
}

#[test]
fn a_durable_write_is_one_request_unless_it_overtakes_an_older_one() {
    let server = Server::start(1 << 20, USUAL, served);
    let backend = server.open(LIMIT);
    let write = |offset, durability| backend.write_at(offset, &[1; 1024], durability).unwrap();
    write(0, Durability::Cached);
    write(1024, Durability::Durable);
    write(512, Durability::Durable);
    write(0, Durability::Durable);
    let expected = [
        (cmd::WRITE, 0, 0, 1024),
        (cmd::WRITE, cmd_flag::FUA, 1024, 1024),
        (cmd::WRITE, 0, 512, 1024),
        (cmd::FLUSH, 0, 0, 0),
        (cmd::WRITE, cmd_flag::FUA, 0, 1024),
    ];
    assert_eq!(kinds(&server), expected);
    assert_eq!(backend.status().unflushed_bytes, 0);
}

#[test]
fn large_requests_are_cut_and_made_durable_by_one_flush() {
    let server = Server::start(1 << 20, USUAL, served);
    server.shared.terms.lock().unwrap().blocks = Some([512, 4096, 64 << 10]);
    let backend = server.open(LIMIT);
    let data: Vec<u8> = (0..150u32 << 10).map(|i| (i / 7) as u8).collect();
    backend.write_at(512, &data, Durability::Durable).unwrap();
    let expected = [
        (cmd::WRITE, 0, 512, (64 << 10) - 512),
        (cmd::WRITE, 0, 64 << 10, 64 << 10),
        (cmd::WRITE, 0, 128 << 10, (22 << 10) + 512),
        (cmd::FLUSH, 0, 0, 0),
    ];
    assert_eq!(kinds(&server), expected);
    let mut read = vec![0; data.len()];
    backend.read_at(512, &mut read).unwrap();
    assert!(read == data);
    assert_eq!(kinds(&server).len(), 3);
}

/// A server that takes only whole blocks of 4 KiB still stores sectors of any size.
#[test]
fn parts_of_blocks_are_read_and_written_with_the_rest() {
    let server = Server::start(1 << 20, USUAL, served);
    {
        let mut terms = server.shared.terms.lock().unwrap();
        terms.blocks = Some([4096, 4096, 64 << 10]);
        terms.size = (1 << 20) - 100;
    }
    let backend = server.open(LIMIT);
    assert_eq!(backend.info().size, (1 << 20) - 4096, "whole blocks");
    server.disk().cached.fill(9);
    backend
        .write_at(5000, &[1; 512], Durability::Durable)
        .unwrap();
    let all_of = [
        (cmd::READ, 0, 4096, 4096),
        (cmd::WRITE, cmd_flag::FUA, 4096, 4096),
    ];
    assert_eq!(kinds(&server), all_of);
    backend
        .write_zeroes(4000..12300, Durability::Cached)
        .unwrap();
    let middle = (cmd::WRITE_ZEROES, 0, 4096, 8192);
    assert!(kinds(&server).contains(&middle));
    let mut read = [7; 12400];
    backend.read_at(0, &mut read).unwrap();
    assert!(read[..4000].iter().all(|&byte| byte == 9));
    assert!(read[4000..12300].iter().all(|&byte| byte == 0));
    assert!(read[12300..].iter().all(|&byte| byte == 9));
    kinds(&server);
    backend.discard(1..8192).unwrap();
    assert_eq!(kinds(&server), [(cmd::TRIM, 0, 4096, 4096)]);
}

#[test]
fn what_a_server_cannot_do_is_done_without_it() {
    let bare = flag::HAS_FLAGS | flag::SEND_FLUSH;
    let server = Server::start(1 << 20, bare, served);
    let backend = server.open(LIMIT);
    server.disk().cached.fill(9);
    backend
        .write_zeroes(0..100_000, Durability::Durable)
        .unwrap();
    assert!(
        server.disk().durable[..100_000]
            .iter()
            .all(|&byte| byte == 0)
    );
    backend.write_at(0, &[1; 512], Durability::Durable).unwrap();
    assert_eq!(server.disk().durable[..512], [1; 512]);
    backend.discard(0..4096).unwrap();
    assert!(!kinds(&server).iter().any(|asked| asked.0 == cmd::TRIM));
    assert_eq!(backend.status().connections, 1, "no multi-conn");
    // One that forgets nothing is not asked to remember.
    let server = Server::start(1 << 20, flag::HAS_FLAGS, served);
    let backend = server.open(LIMIT);
    backend.write_at(0, &[1; 512], Durability::Durable).unwrap();
    backend.flush().unwrap();
    assert_eq!(kinds(&server), [(cmd::WRITE, 0, 0, 512)]);
    assert_eq!(backend.status().unflushed_bytes, 0);
}

/// A flush that is not there cannot make earlier writes durable, so each of them is.
#[test]
fn every_write_is_durable_where_there_is_no_flush_but_durable_writes() {
    let flags = USUAL & !flag::SEND_FLUSH;
    let server = Server::start(1 << 20, flags, served);
    let backend = server.open(LIMIT);
    server.disk().cached.fill(9);
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    let long = vec![2; 200 << 10];
    backend.write_at(4096, &long, Durability::Cached).unwrap();
    backend
        .write_zeroes(300 << 10..400 << 10, Durability::Cached)
        .unwrap();
    backend.flush().unwrap();
    let asked = kinds(&server);
    assert!(
        asked
            .iter()
            .all(|asked| (asked.0, asked.1) == (cmd::WRITE, cmd_flag::FUA)),
        "{asked:?}"
    );
    let disk = server.disk();
    assert_eq!(disk.durable[..512], [1; 512]);
    assert!(disk.durable[4096..][..long.len()] == long);
    let zeroed = &disk.durable[300 << 10..400 << 10];
    assert!(zeroed.iter().all(|&byte| byte == 0));
}

#[test]
fn a_zeroing_that_the_server_refuses_is_done_by_hand() {
    let server = Server::start(1 << 20, USUAL, |asked| match asked.kind {
        cmd::WRITE_ZEROES => Fate::Error(95),
        _ => Fate::Served,
    });
    let backend = server.open(LIMIT);
    server.disk().cached.fill(9);
    backend.write_zeroes(0..4096, Durability::Cached).unwrap();
    assert!(server.disk().cached[..4096].iter().all(|&byte| byte == 0));
}

#[test]
fn several_connections_are_used_where_the_server_allows_them() {
    for way in BOTH_WAYS {
        let server = Server::start_by(way, 1 << 20, USUAL, served);
        let backend = server.open(LIMIT);
        assert_eq!(backend.status().connections, 3);
        assert_eq!(server.shared.accepted.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn a_read_only_export_is_a_read_only_store() {
    let server = Server::start(4096, USUAL | flag::READ_ONLY, served);
    let backend = server.open(LIMIT);
    assert!(backend.info().read_only);
    let error = backend
        .write_at(0, &[1; 512], Durability::Cached)
        .unwrap_err();
    assert!(error.to_string().contains("it can only be read"), "{error}");
    backend.flush().unwrap();
    let server = Server::start(4096, USUAL, served);
    let options = RemoteOptions::default();
    let backend = RemoteBackend::open(&server.uri(), Access::ReadOnly, options).unwrap();
    assert!(backend.write_at(0, &[1; 512], Durability::Cached).is_err());
    assert_eq!(kinds(&server), []);
}

/// Replies come in the order of the requests, so that the receiving thread has to hand out those of others.
#[test]
fn many_threads_share_one_connection() {
    for way in BOTH_WAYS {
        let flags = USUAL & !flag::CAN_MULTI_CONN;
        let server = Server::start_by(way, 1 << 20, flags, served);
        share(&server.open(LIMIT));
    }
}

fn share(backend: &RemoteBackend) {
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            scope.spawn(move || {
                for round in 0..200u64 {
                    let offset = u64::from(thread) * (128 << 10) + round % 16 * 4096;
                    let value = thread ^ round as u8;
                    let len = 512 << (round % 8);
                    backend
                        .write_at(offset, &vec![value; len], Durability::Cached)
                        .unwrap();
                    let mut read = vec![0; len];
                    backend.read_at(offset, &mut read).unwrap();
                    assert!(read.iter().all(|&byte| byte == value));
                }
            });
        }
    });
    assert_eq!(backend.status().reconnects, 0);
}

#[test]
fn the_header_lock_is_between_threads() {
    let server = Server::start(4096, USUAL, served);
    let backend = server.open(LIMIT);
    let reader = backend.lock_header(LockKind::Read).unwrap();
    drop(backend.lock_header(LockKind::Read).unwrap());
    drop(reader);
    drop(backend.lock_header(LockKind::Write).unwrap());
}
