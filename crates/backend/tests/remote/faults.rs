//! Lost connections, dead and silent servers: what is repeated, what is written again, what is an error.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use scrim_backend::{Backend, Durability};
use scrim_nbd::wire::{cmd, flag};

use crate::server::{Asked, BOTH_WAYS, Fate, Server, USUAL, Way};

const LIMIT: Duration = Duration::from_secs(20);
/// Time limit of requests that are to fail.
const SOON: Duration = Duration::from_millis(300);

/// The first request of a kind meets this fate, all others are served.
fn once(kind: u16, fate: Fate) -> impl FnMut(Asked) -> Fate + Send + 'static {
    let mut fate = Some(fate);
    move |asked| match asked.kind == kind {
        true => fate.take().unwrap_or(Fate::Served),
        false => Fate::Served,
    }
}

/// Whatever happens to the first request of each kind, it is done in the end.
#[test]
fn a_request_that_is_lost_is_sent_again() {
    let fates = [
        Fate::LostBefore,
        Fate::LostAfter,
        Fate::Crash,
        Fate::CrashAfter,
        Fate::Error(108),
        Fate::Truncated(0),
        Fate::Truncated(7),
        Fate::Truncated(16),
        Fate::Truncated(300),
        Fate::Raw(vec![0; 64]),
        Fate::Raw(vec![0xff; 8]),
    ];
    let kinds = [
        cmd::READ,
        cmd::WRITE,
        cmd::FLUSH,
        cmd::WRITE_ZEROES,
        cmd::TRIM,
    ];
    for kind in kinds {
        for fate in &fates {
            // What such a reply breaks comes after it is complete, and this one is.
            if kind != cmd::READ && matches!(fate, Fate::Truncated(16 | 300)) {
                continue;
            }
            // Shorter than a reply: the rest never comes.
            if *fate == Fate::Raw(vec![0xff; 8]) {
                continue;
            }
            for way in BOTH_WAYS {
                lose_one(way, kind, fate);
            }
        }
    }
}

fn lose_one(way: Way, kind: u16, fate: &Fate) {
    let server = Server::start_by(way, 64 << 10, USUAL, once(kind, fate.clone()));
    let backend = server.open(LIMIT);
    backend.write_at(0, &[3; 4096], Durability::Cached).unwrap();
    backend
        .write_zeroes(8192..12288, Durability::Cached)
        .unwrap();
    backend.discard(16384..20480).unwrap();
    let mut read = [0; 4096];
    backend.read_at(0, &mut read).unwrap();
    assert_eq!(read, [3; 4096], "{kind} {fate:?}");
    backend.flush().unwrap();
    assert_eq!(server.disk().durable[..4096], [3; 4096], "{kind} {fate:?}");
    let status = backend.status();
    assert_eq!(status.reconnects, 1, "{kind} {fate:?}");
    assert_eq!(status.unflushed_bytes, 0, "{kind} {fate:?}");
}

#[test]
fn what_a_dead_server_forgot_is_written_again_in_order() {
    let server = Server::start(64 << 10, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    backend.write_at(0, &[1; 8192], Durability::Cached).unwrap();
    backend.flush().unwrap();
    backend.write_at(0, &[2; 4096], Durability::Cached).unwrap();
    backend
        .write_at(512, &[3; 512], Durability::Cached)
        .unwrap();
    backend
        .write_zeroes(1024..1536, Durability::Cached)
        .unwrap();
    // Durable by itself: nothing older would come over it.
    backend
        .write_at(4096, &[4; 512], Durability::Durable)
        .unwrap();
    let mut before = [0; 8192];
    backend.read_at(0, &mut before).unwrap();
    for _ in 0..3 {
        server.crash();
        let mut after = [0; 8192];
        backend.read_at(0, &mut after).unwrap();
        assert!(before == after);
    }
    let status = backend.status();
    assert_eq!(status.reconnects, 3);
    assert_eq!(status.replayed_bytes, 3 * (4096 + 2 * 512));
    backend.flush().unwrap();
    server.crash();
    assert!(server.disk().cached[..8192] == before);
    let mut after = [0; 8192];
    backend.read_at(0, &mut after).unwrap();
    assert_eq!(backend.status().replayed_bytes, status.replayed_bytes);
}

/// The journal keeps its entries while it is written again: a durable write that begins meanwhile is
/// added to it after the older write that it overlaps.
#[test]
fn a_durable_write_during_an_outage_is_not_undone_by_the_next() {
    let server = Server::start(64 << 10, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    backend.write_at(0, &[1; 4096], Durability::Cached).unwrap();
    let accepted = server.shared.accepted.load(Ordering::SeqCst);
    // Without them no client is greeted.
    let terms = server.shared.terms.lock().unwrap();
    server.crash();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| backend.read_at(8192, &mut [0; 512]));
        while server.shared.accepted.load(Ordering::SeqCst) == accepted {
            std::thread::sleep(Duration::from_millis(1));
        }
        let write = scope.spawn(|| backend.write_at(0, &[2; 4096], Durability::Durable));
        std::thread::sleep(Duration::from_millis(100));
        let unflushed = backend.status().unflushed_bytes;
        drop(terms);
        assert!(unflushed >= 4096, "{unflushed}");
        read.join().unwrap().unwrap();
        write.join().unwrap().unwrap();
    });
    server.crash();
    let mut read = [0; 4096];
    backend.read_at(0, &mut read).unwrap();
    assert_eq!(read, [2; 4096]);
}

/// Entries that one attempt has written again and flushed need not be written by the next.
#[test]
fn a_journal_that_no_session_takes_whole_is_written_again_in_parts() {
    const PIECE: usize = 1 << 20;
    let server = Server::start(16 * PIECE, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    for number in 0..16u8 {
        let data = vec![number + 1; PIECE];
        let offset = u64::from(number) * PIECE as u64;
        backend.write_at(offset, &data, Durability::Cached).unwrap();
    }
    // They arrive in pieces of 256 KiB, and no session takes more than 6 MiB.
    let mut writes = 0;
    server.change_plan(move |asked| {
        writes += u32::from(asked.kind == cmd::WRITE);
        match asked.kind == cmd::WRITE && writes.is_multiple_of(25) {
            true => Fate::LostBefore,
            false => Fate::Served,
        }
    });
    server.crash();
    let mut read = vec![0; 16 * PIECE];
    backend.read_at(0, &mut read).unwrap();
    let pieces = read.chunks(PIECE).zip(1..);
    assert!(pieces.into_iter().all(|(piece, n)| piece == vec![n; PIECE]));
    backend.flush().unwrap();
    assert!(server.disk().durable == read);
}

/// As above, with a server that is too slow for one request's time.
#[test]
fn a_journal_that_takes_longer_than_a_request_may_is_written_again_in_parts() {
    const PIECE: usize = 256 << 10;
    let server = Server::start(12 * PIECE, USUAL, |_| Fate::Served);
    let backend = server.open(Duration::from_secs(1));
    for number in 0..12u8 {
        let data = vec![number + 1; PIECE];
        let offset = u64::from(number) * PIECE as u64;
        backend.write_at(offset, &data, Durability::Cached).unwrap();
    }
    server.change_plan(|asked| {
        if asked.kind == cmd::WRITE {
            std::thread::sleep(Duration::from_millis(100));
        }
        Fate::Served
    });
    server.crash();
    let mut read = vec![0; PIECE];
    let tries = (0..2000).position(|_| {
        std::thread::sleep(Duration::from_millis(10));
        backend.read_at(0, &mut read).is_ok()
    });
    assert!(tries.is_some(), "it never comes to an end");
    backend.flush().unwrap();
    let disk = server.disk();
    let pieces = disk.durable.chunks(PIECE).zip(1..);
    assert!(pieces.into_iter().all(|(piece, n)| piece == vec![n; PIECE]));
}

/// Progress is kept by the write: however few of them an attempt has time for, the next one goes on.
#[test]
fn a_journal_of_which_an_attempt_takes_a_few_writes_is_written_again_in_the_end() {
    const COUNT: u8 = 64;
    for way in BOTH_WAYS {
        let server = Server::start_by(way, usize::from(COUNT) * 512, USUAL, |_| Fate::Served);
        let backend = server.open(Duration::from_millis(600));
        for number in 0..COUNT {
            let offset = u64::from(number) * 512;
            backend
                .write_at(offset, &[number + 1; 512], Durability::Cached)
                .unwrap();
        }
        // All of them together take some four seconds.
        server.change_plan(|asked| {
            if asked.kind == cmd::WRITE {
                std::thread::sleep(Duration::from_millis(60));
            }
            Fate::Served
        });
        server.crash();
        let tries = (0..2000).position(|_| {
            std::thread::sleep(Duration::from_millis(10));
            backend.read_at(0, &mut [0; 512]).is_ok()
        });
        assert!(tries.is_some(), "it never comes to an end");
        backend.flush().unwrap();
        let disk = server.disk();
        let blocks = disk.durable.chunks(512).zip(1..);
        assert!(blocks.into_iter().all(|(block, n)| block == [n; 512]));
    }
}

/// A write that was reported as durable survives even when this process dies while it writes the older journal
/// again, and the server with it.
#[test]
fn a_durable_write_survives_a_loss_within_the_next_recovery() {
    const COUNT: usize = 64;
    let server = Server::start(COUNT * 512, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    let write = |value: u8, durability| {
        for number in 0..COUNT as u64 {
            backend
                .write_at(number * 512, &[value; 512], durability)
                .unwrap();
        }
    };
    write(1, Durability::Cached);
    write(2, Durability::Durable);
    assert_eq!(server.disk().durable, [2; COUNT * 512]);
    // All the older writes come again, and then the power goes.
    let mut writes = 0;
    server.change_plan(move |asked| match asked.kind {
        cmd::WRITE if writes == COUNT => Fate::LostBefore,
        cmd::WRITE => {
            writes += 1;
            match writes == COUNT {
                true => Fate::CrashAfter,
                false => Fate::Served,
            }
        }
        _ => Fate::Served,
    });
    let crashes = server.disk().crashes;
    server.crash();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| backend.read_at(0, &mut [0; 512]));
        while !read.is_finished() && server.disk().crashes < crashes + 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let durable = server.disk().durable.clone();
        server.change_plan(|_| Fate::Served);
        read.join().unwrap().unwrap();
        assert!(durable == [2; COUNT * 512]);
    });
}

#[test]
fn the_journal_is_bounded_by_flushing() {
    let server = Server::start(1 << 20, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    let data = vec![7; 256 << 10];
    for _ in 0..600 {
        backend.write_at(0, &data, Durability::Cached).unwrap();
        assert!(backend.status().unflushed_bytes < 65 << 20);
    }
    let served = &server.disk().served;
    let flushes = served.iter().filter(|asked| asked.kind == cmd::FLUSH);
    assert_eq!(flushes.count(), 2);
}

#[test]
fn an_error_is_told_and_the_connection_stays() {
    let server = Server::start(64 << 10, USUAL, |asked| match asked.offset {
        4096 => Fate::Error(5),
        8192 => Fate::Error(28),
        12288 => Fate::Error(1),
        _ => Fate::Served,
    });
    let backend = server.open(LIMIT);
    let error = backend.read_at(4096, &mut [0; 512]).unwrap_err();
    assert!(error.to_string().contains("see its log"), "{error}");
    let error = backend
        .write_at(8192, &[0; 512], Durability::Cached)
        .unwrap_err();
    assert_eq!(error.source.kind(), std::io::ErrorKind::StorageFull);
    assert!(
        backend
            .write_at(12288, &[0; 512], Durability::Cached)
            .is_err()
    );
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    backend.flush().unwrap();
    assert_eq!(backend.status().reconnects, 0);
}

/// As for a file: the server may say it once and forget.
#[test]
fn a_flush_that_the_server_fails_fails_for_good() {
    for kind in [cmd::FLUSH, cmd::WRITE] {
        let server = Server::start(64 << 10, USUAL, |_| Fate::Served);
        let backend = server.open(LIMIT);
        backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
        server.change_plan(once(kind, Fate::Error(5)));
        let first = match kind {
            cmd::FLUSH => backend.flush(),
            _ => backend.write_at(512, &[1; 512], Durability::Durable),
        };
        first.unwrap_err();
        let error = backend.flush().unwrap_err();
        assert!(error.to_string().contains("may be lost"), "{error}");
        assert!(backend.write_at(0, &[1; 512], Durability::Durable).is_err());
        backend.write_at(0, &[2; 512], Durability::Cached).unwrap();
        backend.read_at(0, &mut [0; 512]).unwrap();
        assert_eq!(backend.status().unflushed_bytes, 0);
    }
}

#[test]
fn a_server_that_will_not_take_lost_data_again_fails_every_flush() {
    let server = Server::start(64 << 10, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    server.change_plan(once(cmd::WRITE, Fate::Error(28)));
    server.crash();
    backend.read_at(0, &mut [0; 512]).unwrap();
    assert!(backend.flush().is_err());
    assert!(backend.flush().is_err());
}

#[test]
fn a_server_that_comes_back_in_time_is_waited_for() {
    let mut server = Server::start(64 << 10, USUAL, |_| Fate::Served);
    let backend = server.open(LIMIT);
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    server.stop();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| backend.flush());
        let read = scope.spawn(|| backend.read_at(0, &mut [0; 512]));
        std::thread::sleep(Duration::from_millis(200));
        server.listen();
        flush.join().unwrap().unwrap();
        read.join().unwrap().unwrap();
    });
    assert_eq!(server.disk().durable[..512], [1; 512]);
    assert_eq!(backend.status().reconnects, 1);
}

/// Requests fail when the limit has passed, and the next ones at once; nothing is lost by that.
#[test]
fn a_server_that_stays_away_fails_requests_until_it_is_back() {
    let mut server = Server::start(64 << 10, USUAL, |_| Fate::Served);
    let backend = server.open(SOON);
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    server.stop();
    let error = backend.flush().unwrap_err();
    assert!(error.to_string().contains("flush"), "{error}");
    let error = backend.read_at(0, &mut [0; 512]).unwrap_err();
    assert!(
        error.to_string().contains("see that the server runs"),
        "{error}"
    );
    let many = Instant::now();
    for _ in 0..1000 {
        assert!(backend.read_at(0, &mut [0; 512]).is_err());
    }
    assert!(many.elapsed() < SOON * 100, "most of them without waiting");
    assert_eq!(backend.status().connections, 0);
    server.listen();
    while backend.read_at(0, &mut [0; 512]).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    backend.flush().unwrap();
    assert_eq!(server.disk().durable[..512], [1; 512]);
}

/// Silence is not waited for beyond the limit, and the next request has a connection of its own.
#[test]
fn a_silent_server_is_left_after_the_limit() {
    for (kind, way) in [
        (cmd::READ, Way::Plain),
        (cmd::FLUSH, Way::Plain),
        (cmd::READ, Way::Tls),
    ] {
        let server = Server::start_by(way, 64 << 10, USUAL, once(kind, Fate::Silence));
        let backend = server.open(SOON);
        let call = || match kind {
            cmd::READ => backend.read_at(0, &mut [0; 512]),
            _ => backend.flush(),
        };
        let error = call().unwrap_err();
        let said = error.source.to_string();
        assert!(
            said.contains("does not answer") || said.contains("timed out"),
            "{said}"
        );
        call().unwrap();
        assert_eq!(backend.status().reconnects, 1);
    }
}

#[test]
fn another_export_in_its_place_is_not_used() {
    let server = Server::start(64 << 10, USUAL, |_| Fate::Served);
    let backend = server.open(SOON);
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    server.shared.terms.lock().unwrap().size = 32 << 10;
    server.crash();
    let error = backend.read_at(0, &mut [0; 512]).unwrap_err().to_string();
    assert!(error.contains("had 65536 bytes and has 32768"), "{error}");
    {
        let mut terms = server.shared.terms.lock().unwrap();
        terms.size = 64 << 10;
        terms.flags |= flag::READ_ONLY;
    }
    std::thread::sleep(SOON);
    let error = backend.read_at(0, &mut [0; 512]).unwrap_err().to_string();
    assert!(error.contains("another export"), "{error}");
    assert_eq!(server.disk().durable[..512], [0; 512]);
}

/// Two writes of the same place are never with the server at the same time: of two that have returned,
/// the one that is read is also the one that is written again.
#[test]
fn overlapping_writes_take_turns() {
    let server = Server::start(64 << 10, USUAL, |asked| match asked.kind {
        cmd::WRITE => Fate::Watched,
        _ => Fate::Served,
    });
    let backend = server.open(LIMIT);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let backend = &backend;
            scope.spawn(move || {
                for round in 0..20 {
                    let offset = 512 * (round % 3);
                    let data = [thread; 4096];
                    backend.write_at(offset, &data, Durability::Cached).unwrap();
                }
            });
        }
    });
    assert!(!server.shared.overlapped.load(Ordering::SeqCst));
}
