//! Bytes over a socket, with a client that blocks on a thread of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream as Blocking};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::peer::{SUITES, World, name, only, world};
use crate::tls::{TlsError, TlsStream, accept};

type Client = StreamOwned<ClientConnection, Blocking>;

/// Runs a client against a server, both in this process.
fn with<T: Send + 'static, F: Future>(
    world: &World,
    client: impl FnOnce(Client) -> T + Send + 'static,
    server: impl FnOnce(TcpStream, Arc<rustls::ServerConfig>) -> F,
) -> (T, F::Output) {
    let config = Arc::new(world.client());
    let settings = Arc::clone(&world.server);
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let thread = start(listener.local_addr().unwrap(), config, client);
        let (socket, _) = listener.accept().await.unwrap();
        let served = server(socket, settings).await;
        (thread.join().unwrap(), served)
    })
}

fn start<T: Send + 'static>(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    client: impl FnOnce(Client) -> T + Send + 'static,
) -> JoinHandle<T> {
    thread::spawn(move || {
        let connection = ClientConnection::new(config, name("files.example")).unwrap();
        client(StreamOwned::new(
            connection,
            Blocking::connect(address).unwrap(),
        ))
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

async fn stream(socket: TcpStream, config: Arc<rustls::ServerConfig>) -> TlsStream {
    let accepted = accept(&socket, config).await.unwrap();
    TlsStream::new(socket, accepted)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

#[test]
fn what_a_client_sends_comes_back_in_every_suite() {
    const LEN: usize = 1 << 20;
    for suite in SUITES {
        let echo = |mut client: Client| {
            let mut back = vec![0; LEN];
            client.write_all(&pattern(LEN)).unwrap();
            client.flush().unwrap();
            client.read_exact(&mut back).unwrap();
            client.conn.send_close_notify();
            client.flush().unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            (back == pattern(LEN), rest.len())
        };
        let (echoed, ()) = with(&only(suite), echo, |socket, config| async {
            let mut stream = stream(socket, config).await;
            let mut data = vec![0; LEN];
            stream.read_exact(&mut data).await.unwrap();
            stream.write_all(&data).await.unwrap();
            stream.flush().await.unwrap();
            assert_eq!(stream.read(&mut data).await.unwrap(), 0);
            stream.shutdown().await.unwrap();
        });
        assert_eq!(echoed, (true, 0), "{suite}");
    }
}

#[test]
fn writes_of_any_length_arrive_in_order_through_a_slow_reader() {
    const LEN: usize = 3 << 20;
    let slow = |mut client: Client| {
        client.write_all(b"go").unwrap();
        let mut data = Vec::new();
        let mut part = [0; 10_000];
        loop {
            match client.read(&mut part).unwrap() {
                0 => return data == pattern(LEN),
                len => data.extend_from_slice(&part[..len]),
            }
            thread::yield_now();
        }
    };
    let (whole, ()) = with(&world(), slow, |socket, config| async {
        let mut stream = stream(socket, config).await;
        let mut go = [0; 2];
        stream.read_exact(&mut go).await.unwrap();
        let data = pattern(LEN);
        let (mut at, mut len) = (0, 1);
        while at < LEN {
            let part = &data[at..LEN.min(at + len)];
            // A write that is dropped while it waits takes nothing, or says how much it took.
            let taken = tokio::select! {
                biased;
                taken = stream.write(part) => taken.unwrap(),
                () = tokio::task::yield_now() => 0,
            };
            at += taken;
            len = len * 5 % 70_001;
            if len % 7 == 0 {
                stream.flush().await.unwrap();
            }
        }
        stream.shutdown().await.unwrap();
    });
    assert!(whole);
}

#[test]
fn a_request_that_comes_with_the_handshake_is_read() {
    let pipelining = |mut client: Client| {
        // The client's last message of the handshake and this leave in one write.
        while client.conn.is_handshaking() && !client.conn.wants_write()
            || client.conn.wants_read() && client.conn.is_handshaking()
        {
            while client.conn.wants_write() {
                client.conn.write_tls(&mut client.sock).unwrap();
            }
            client.conn.read_tls(&mut client.sock).unwrap();
            client.conn.process_new_packets().unwrap();
        }
        client.conn.writer().write_all(b"GET /").unwrap();
        let mut flight = Vec::new();
        while client.conn.wants_write() {
            client.conn.write_tls(&mut flight).unwrap();
        }
        client.sock.write_all(&flight).unwrap();
        let mut answer = [0; 2];
        client.read_exact(&mut answer).unwrap();
        answer
    };
    let (answer, ()) = with(&world(), pipelining, |socket, config| async {
        let mut stream = stream(socket, config).await;
        let mut request = [0; 5];
        stream.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"GET /");
        stream.write_all(b"ok").await.unwrap();
        stream.flush().await.unwrap();
    });
    assert_eq!(&answer, b"ok");
}

#[test]
fn keys_change_while_data_flows() {
    let changing = |mut client: Client| {
        client.conn.complete_io(&mut client.sock).unwrap();
        for _ in 0..50 {
            client.conn.refresh_traffic_keys().unwrap();
            client.write_all(&[b'x'; 1000]).unwrap();
            let mut back = [0; 1000];
            client.read_exact(&mut back).unwrap();
        }
    };
    with(&world(), changing, |socket, config| async {
        let mut stream = stream(socket, config).await;
        let mut data = [0; 1000];
        for _ in 0..50 {
            stream.read_exact(&mut data).await.unwrap();
            stream.write_all(&data).await.unwrap();
            stream.flush().await.unwrap();
        }
    });
}

#[test]
fn a_client_that_breaks_the_protocol_is_told_and_the_error_stays() {
    let breaking = |mut client: Client| {
        client.write_all(b"good").unwrap();
        client.flush().unwrap();
        client.sock.write_all(&[23, 3, 3, 0, 20]).unwrap();
        client.sock.write_all(&[0; 20]).unwrap();
        client.read(&mut [0; 10]).unwrap_err().to_string()
    };
    let (told, ()) = with(&world(), breaking, |socket, config| async {
        let mut stream = stream(socket, config).await;
        let mut good = [0; 4];
        stream.read_exact(&mut good).await.unwrap();
        // Plaintext that was not sealed yet must not follow.
        stream.write_all(b"secret").await.unwrap();
        for _ in 0..2 {
            let error = stream.read(&mut good).await.unwrap_err();
            let reason = error.get_ref().and_then(|e| e.downcast_ref::<TlsError>());
            assert!(matches!(reason, Some(TlsError::Record(_))), "{error}");
        }
        assert!(stream.write(b"more").await.is_err());
    });
    assert!(told.contains("BadRecordMac"), "{told}");
}

#[test]
fn a_client_that_goes_is_an_end_and_in_a_record_an_error() {
    for cut in [false, true] {
        let going = move |mut client: Client| {
            client.write_all(b"bye").unwrap();
            client.flush().unwrap();
            if cut {
                client.sock.write_all(&[23, 3, 3, 0, 100, 1, 2, 3]).unwrap();
            }
            // With tickets unread, closing would be a reset.
            client.sock.shutdown(Shutdown::Write).unwrap();
            let _ = client.sock.read_to_end(&mut Vec::new());
        };
        let ((), ended) = with(&world(), going, |socket, config| async {
            let mut stream = stream(socket, config).await;
            let mut bye = [0; 3];
            stream.read_exact(&mut bye).await.unwrap();
            stream.read(&mut bye).await
        });
        match cut {
            false => assert_eq!(ended.unwrap(), 0),
            true => assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof),
        }
    }
}

#[test]
fn http_without_tls_is_told_apart() {
    let world = world();
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = Blocking::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let error = accept(&socket, Arc::clone(&world.server))
            .await
            .err()
            .unwrap();
        let reason = error.get_ref().and_then(|e| e.downcast_ref::<TlsError>());
        assert_eq!(reason, Some(&TlsError::NotTls { http: true }));
    });
}
