//! `scrim serve` and clients that only use up its memory and its time: it goes on serving the others, and its
//! memory stays limited.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::server::{Server, Site};
use crate::support::{Background, have};
use crate::tls_client::{PREFACE, Tls, config, connect, frame, get_fields};

/// Bytes that a flood may send at most, if nobody stops it.
const FLOOD: usize = 64 << 20;
/// Bytes that the server may have more of after a flood.
const MORE: u64 = 48 << 20;

fn site() -> Option<Site> {
    if !have(&["curl"]) {
        return None;
    }
    let site = Site::new();
    site.write("index.html", "a page");
    Some(site)
}

/// Sends `next` again and again until the server ends the connection, or takes no more; returns whether it
/// ended it.
fn flood(tls: &mut Tls, mut next: impl FnMut(usize) -> Vec<u8>) -> bool {
    tls.write_all(PREFACE).unwrap();
    tls.flush().unwrap();
    let timeout = Some(Duration::from_secs(3));
    tls.sock.set_write_timeout(timeout).unwrap();
    let mut sent = 0;
    for turn in 0.. {
        let frames = next(turn);
        if sent > FLOOD {
            break;
        }
        sent += frames.len();
        match tls.write_all(&frames) {
            Ok(()) => {}
            // The server has stopped reading, since we read none of its answers: that is an end, too.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
    false
}

/// Floods a server by several connections, while others are served.
fn survive(server: &Server, site: &Site, next: fn(usize) -> Vec<u8>) -> Vec<bool> {
    let url = server.url("");
    assert_eq!(server.curl(&[&url]), "a page");
    let before = server.memory();
    let config = config(site, "h2");
    let ended = std::thread::scope(|scope| {
        let floods: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| flood(&mut connect(server, &config), next)))
            .collect();
        for http in ["--http1.1", "--http2", "--http1.1", "--http2"] {
            assert_eq!(server.curl(&[http, &url]), "a page");
        }
        floods
            .into_iter()
            .map(|flood| flood.join().unwrap())
            .collect()
    });
    let more = server.memory().saturating_sub(before);
    assert!(more < MORE, "{} MiB more", more >> 20);
    assert_eq!(server.curl(&["--http2", &url]), "a page");
    ended
}

/// The number of the client's `turn`th stream.
fn stream(turn: usize) -> u32 {
    u32::try_from(turn).unwrap() * 2 + 1
}

#[test]
fn streams_that_are_taken_back_end_their_connection() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    let ended = survive(&server, &site, |turn| {
        let mut frames = frame(1, 5, stream(turn), &get_fields());
        frames.extend(frame(3, 0, stream(turn), &8_u32.to_be_bytes()));
        frames
    });
    assert_eq!(ended, [true; 4]);
    server.stop();
}

#[test]
fn a_head_without_an_end_ends_its_connection() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    let ended = survive(&server, &site, |turn| match turn {
        0 => frame(1, 1, 1, &get_fields()),
        _ => {
            // A field of its own, not to be remembered.
            let mut fields = vec![0, 6];
            fields.extend(b"x-long");
            fields.extend([127, 128 + 1, 7]);
            fields.resize(fields.len() + 127 + 1 + 7 * 128, b'a');
            frame(9, 0, 1, &fields)
        }
    });
    assert_eq!(ended, [true; 4]);
    server.stop();
}

#[test]
fn empty_pieces_of_a_head_end_their_connection_or_cost_nothing() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    survive(&server, &site, |turn| match turn {
        0 => frame(1, 1, 1, &get_fields()),
        _ => frame(9, 0, 1, &[]).repeat(1000),
    });
    server.stop();
}

#[test]
fn settings_and_pings_that_want_answers_pile_up_nowhere() {
    let floods: [fn(usize) -> Vec<u8>; 3] = [
        |_| frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(1000),
        |_| frame(6, 0, 0, b"12345678").repeat(1000),
        |turn| match turn {
            0 => frame(1, 4, 1, &get_fields()),
            _ => frame(0, 0, 1, &[]).repeat(1000),
        },
    ];
    // Each waits for most of its time.
    std::thread::scope(|scope| {
        for next in floods {
            scope.spawn(move || {
                let Some(site) = site() else { return };
                let server = site.serve(&[]);
                survive(&server, &site, next);
                server.stop();
            });
        }
    });
}

#[test]
fn answers_that_nobody_takes_wait_in_little_memory() {
    let Some(site) = site() else { return };
    site.place.sparse("www/index.html", 1 << 30);
    let server = site.serve_by(
        "",
        "[limits]\nstall-seconds = 300\n[[site]]\nroot = 'www'\n",
    );
    let before = server.memory();
    let config = config(&site, "h2");
    let mut connections: Vec<Tls> = (0..16).map(|_| connect(&server, &config)).collect();
    for tls in &mut connections {
        tls.write_all(PREFACE).unwrap();
        tls.write_all(&frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes()))
            .unwrap();
        for turn in 0..60 {
            tls.write_all(&frame(1, 5, stream(turn), &get_fields()))
                .unwrap();
        }
        tls.flush().unwrap();
        let mut some = [0; 4096];
        assert!(tls.read(&mut some).unwrap() > 0);
    }
    // By then the server has answered all that it will.
    let head = server.curl(&["--http2", "--head", &server.url("")]);
    assert!(head.contains(" 200"), "{head}");
    let more = server.memory().saturating_sub(before);
    assert!(more < 2 * (64 << 20), "{} MiB for 960 answers", more >> 20);
    drop(connections);
    server.stop();
}

#[test]
fn a_second_long_listing_of_an_address_waits_for_the_first() {
    let Some(site) = site() else { return };
    for number in 0..9_000 {
        site.write(&format!("folder/{number:05}.txt"), "");
    }
    let limits = "[limits]\nmemory-bytes = 3145728\n[[site]]\nroot = 'www'\nlistings = true\n";
    let server = site.serve_by("threads = 1", limits);
    let mut first = connect(&server, &config(&site, "http/1.1"));
    let ask = b"GET /folder/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    first.write_all(ask).unwrap();
    // Its head has come, and the rest waits.
    let mut page = vec![0; 1024];
    first.read_exact(&mut page).unwrap();
    let url = server.url("folder/");
    let mut curl = server.curl_command(&["--fail", "--output", "second.html", &url]);
    let mut second = Background::start(&mut curl);
    std::thread::sleep(Duration::from_secs(1));
    assert!(second.0.try_wait().unwrap().is_none(), "it did not wait");
    first.read_to_end(&mut page).unwrap();
    assert!(
        page.len() > 1 << 20,
        "{} bytes are no long page",
        page.len()
    );
    assert!(second.0.wait().unwrap().success());
    let second = std::fs::read(site.place.path("second.html")).unwrap();
    assert!(page.ends_with(&second));
    server.stop();
}

/// Asks for `/` by either version, with windows as large as they get, and reads nothing.
fn ask_and_take_nothing(server: &Server, site: &Site, count: usize) -> Vec<Tls> {
    let (http1, http2) = (config(site, "http/1.1"), config(site, "h2"));
    let ask = |turn| {
        let mut tls = connect(server, if turn % 2 == 0 { &http1 } else { &http2 });
        if turn % 2 == 0 {
            tls.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
        } else {
            let window = 0x7fff_0000_u32.to_be_bytes();
            let update = [
                frame(8, 0, 0, &window),
                frame(1, 5, 1, &get_fields()),
                frame(8, 0, 1, &window),
            ];
            tls.write_all(&[PREFACE, &update.concat()].concat())
                .unwrap();
        }
        tls.flush().unwrap();
        tls
    };
    (0..count).map(ask).collect()
}

/// Bytes that wait in the kernel to be sent or acknowledged, on each connection of a server's ports.
fn queued(ports: &[u16]) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let queued = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state, queues) = (words.next()?, words.next()?, words.next()?, words.next());
        let port = u16::from_str_radix(local.split_once(':')?.1, 16).ok()?;
        let is_ours = state == "01" && ports.contains(&port);
        let (sent, _) = queues?.split_once(':')?;
        is_ours.then(|| u64::from_str_radix(sent, 16).unwrap())
    };
    table.lines().filter_map(queued).collect()
}

#[test]
fn an_address_that_reads_nothing_leaves_others_their_downloads() {
    const COUNT: usize = 200;
    let Some(site) = site() else { return };
    site.place.sparse("www/index.html", 1 << 30);
    let other = vec![7; 32 << 20];
    site.write("other.bin", &other);
    let limits = "[limits]\nstall-seconds = 300\n[[site]]\nroot = 'www'\n";
    let server = site.serve_by("plain-http = ['127.0.0.1:0']", limits);
    let before = server.memory();
    let mut plain: Vec<_> = (0..COUNT)
        .map(|_| TcpStream::connect(("127.0.0.1", crate::server::port(&server.urls[1]))).unwrap())
        .collect();
    for socket in &mut plain {
        socket
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
    }
    let greedy = ask_and_take_nothing(&server, &site, COUNT);
    for (way, address) in [("--http1.1", 0), ("--http2", 0), ("--http1.1", 1)] {
        let url = format!("{}other.bin", server.urls[address]);
        let from = ["--interface", "127.0.0.2", "--output", "got"];
        server.curl(&[&[way, &url], &from[..]].concat());
        let got = std::fs::read(site.place.path("got")).unwrap();
        assert!(got == other, "{way}");
    }
    let ports = [server.port(), crate::server::port(&server.urls[1])];
    let queued = queued(&ports);
    assert!(queued.len() >= 2 * COUNT, "{} connections", queued.len());
    // What may wait unsent, what the client's own buffer has taken, and some.
    let most = queued.iter().max().unwrap();
    assert!(*most < 1 << 20, "{most} bytes wait in the kernel for one");
    let more = server.memory().saturating_sub(before);
    assert!(more < 2 * (64 << 20), "{} MiB more", more >> 20);
    drop((greedy, plain));
    server.stop();
}

#[test]
fn ten_thousand_idle_connections_take_less_than_200_mib() {
    let Some(site) = site() else { return };
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    // Other tests of this process need some, too.
    let room = files
        .maximum
        .map_or(usize::MAX, |most| usize::try_from(most).unwrap() - 600);
    let count = room.min(10_000);
    if count < 10_000 {
        assert!(
            std::env::var_os("CI").is_none(),
            "too few files for 10,000 connections in CI"
        );
        println!("skipped in part: this user may have too few files, so it is {count} connections");
    }
    let limits = "[limits]\nconnections = 20000\nconnections-per-client = 20000\nidle-seconds = 600\n\
                  handshake-seconds = 60\nrequest-seconds = 60\n[[site]]\nroot = 'www'\n";
    let server = site.serve_by("", limits);
    let config = config(&site, "http/1.1");
    let sockets: Mutex<Vec<TcpStream>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..count / 4 {
                    let mut tls = connect(&server, &config);
                    tls.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        .unwrap();
                    let mut got = Vec::new();
                    while !got.ends_with(b"a page") {
                        let mut some = [0; 1024];
                        let length = tls.read(&mut some).unwrap();
                        assert!(length > 0, "the server ended a connection");
                        got.extend(&some[..length]);
                    }
                    // Its keys are not needed any more, only its place at the server.
                    sockets.lock().unwrap().push(tls.sock);
                }
            });
        }
    });
    assert!(sockets.lock().unwrap().len() >= count - 4);
    let memory = server.memory();
    println!("{count} idle connections: {} MiB", memory >> 20);
    assert!(memory < 200 << 20, "{} MiB", memory >> 20);
    assert_eq!(server.curl(&[&server.url("")]), "a page");
    drop(sockets);
    server.stop();
}
