//! Servers under TLS that are not what they have to be, and impostors between client and server.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose as Purpose;
use scrim_backend::{Access, Backend, BackendError, Durability, RemoteBackend, RemoteOptions};
use scrim_nbd::wire::{IHAVEOPT, NBDMAGIC, OPTION_REPLY_MAGIC, opt, rep};
use scrim_nbd::{Endpoint, Uri, UriTls};

use crate::certificates::Authority;
use crate::server::{Asked, Fate, Server, USUAL, Way, server_tls};

const LIMIT: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(400);

fn served(_: Asked) -> Fate {
    Fate::Served
}

fn open(uri: &Uri, limit: Duration) -> Result<RemoteBackend, BackendError> {
    let options = RemoteOptions {
        connections: 1,
        limit,
    };
    RemoteBackend::open(uri, Access::ReadWrite, options)
}

fn refusal(uri: &Uri, limit: Duration) -> String {
    open(uri, limit).err().unwrap().to_string()
}

fn with_tls(uri: Uri, tls: UriTls) -> Uri {
    Uri {
        tls: Some(tls),
        ..uri
    }
}

fn certificates(folder: &Path) -> UriTls {
    UriTls {
        certificates: Some(folder.to_owned()),
        ..UriTls::default()
    }
}

fn secured() -> Server {
    Server::start_by(Way::Tls, 64 << 10, USUAL, served)
}

#[test]
fn what_is_written_under_tls_is_read_back_and_status_says_how() {
    let server = secured();
    let backend = server.open(LIMIT);
    let data: Vec<u8> = (0..60_000u32).map(|i| (i / 7) as u8).collect();
    backend.write_at(100, &data, Durability::Durable).unwrap();
    let mut read = vec![0; data.len()];
    backend.read_at(100, &mut read).unwrap();
    assert!(read == data && server.disk().durable[100..60_100] == data);
    let protection = backend.status().protection.unwrap();
    assert_eq!(protection.version, "TLSv1.3");
    assert_eq!(protection.suite, "TLS_AES_128_GCM_SHA256");
    let plain = Server::start(64 << 10, USUAL, served);
    assert_eq!(plain.open(LIMIT).status().protection, None);
}

#[test]
fn a_server_has_to_be_the_one_that_is_meant() {
    let server = secured();
    let uri = server.uri();
    let ours = certificates(&server.certificates());
    let named = |name: &str| UriTls {
        hostname: Some(name.to_owned()),
        ..ours.clone()
    };
    for name in ["localhost", "127.0.0.1", "::1"] {
        open(&with_tls(uri.clone(), named(name)), LIMIT).unwrap();
    }
    let said = refusal(&with_tls(uri.clone(), named("example.org")), LIMIT);
    assert!(
        said.contains("example.org") && said.contains("tls-hostname="),
        "{said}"
    );
    let said = refusal(&with_tls(uri.clone(), named("no name")), LIMIT);
    assert!(said.contains("no DNS name or IP address"), "{said}");
    // By another authority.
    let folder = tempfile::tempdir().unwrap();
    Authority::new().fill(folder.path());
    let strangers = certificates(folder.path());
    let said = refusal(&with_tls(uri.clone(), strangers.clone()), LIMIT);
    assert!(said.contains("another CA has signed it"), "{said}");
    // No server is believed unless the URI names a certificate to trust.
    let said = refusal(&with_tls(uri.clone(), UriTls::default()), LIMIT);
    assert!(said.contains("?tls-certificates=FOLDER"), "{said}");
    assert_eq!(server.disk().served.len(), 0);
    // Whom it takes for the server is up to the user, whether it takes the user to the server.
    let anybody = UriTls {
        verify_peer: false,
        ..named("example.org")
    };
    open(&with_tls(uri.clone(), anybody), LIMIT).unwrap();
    let unknown = UriTls {
        verify_peer: false,
        ..strangers
    };
    let said = refusal(&with_tls(uri, unknown), LIMIT);
    assert!(said.contains("does not know this side's CA"), "{said}");
}

#[test]
fn an_expired_certificate_is_refused() {
    let server = secured();
    let authority = Authority::new();
    let folder = server.certificates();
    std::fs::write(folder.join("ca-cert.pem"), authority.pem()).unwrap();
    let (certificate, key) = authority.sign(&["localhost"], Purpose::ServerAuth, 2002);
    std::fs::write(folder.join("server-cert.pem"), certificate).unwrap();
    std::fs::write(folder.join("server-key.pem"), key).unwrap();
    *server.shared.tls.lock().unwrap() = Some(server_tls(&folder));
    let said = refusal(&server.uri(), LIMIT);
    assert!(
        said.contains("expired") && said.contains("set the clock"),
        "{said}"
    );
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_one_or_says_so() {
    let server = secured();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str| {
        std::fs::copy(server.certificates().join(name), folder.path().join(name)).unwrap();
    };
    put("ca-cert.pem");
    let uri = with_tls(server.uri(), certificates(folder.path()));
    let said = refusal(&uri, LIMIT);
    assert!(said.contains("asks for a client certificate"), "{said}");
    put("client-cert.pem");
    let said = refusal(&uri, LIMIT);
    assert!(said.contains("client-key.pem: cannot be read"), "{said}");
    put("client-key.pem");
    open(&uri, LIMIT).unwrap();
    std::fs::write(folder.path().join("client-key.pem"), "secret words").unwrap();
    let said = refusal(&uri, LIMIT);
    assert!(said.contains("holds no private key"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

/// The server asserts that nothing is asked in the clear after it has declined.
#[test]
fn without_tls_nothing_is_said_and_a_lost_one_is_not_replaced_by_none() {
    let plain = Server::start(64 << 10, USUAL, served);
    let folder = tempfile::tempdir().unwrap();
    Authority::new().fill(folder.path());
    let said = refusal(&with_tls(plain.uri(), certificates(folder.path())), LIMIT);
    assert!(
        said.contains("does not offer an encrypted connection"),
        "{said}"
    );
    assert!(said.contains("none here"), "{said}");

    let server = secured();
    let backend = server.open(SOON);
    backend.write_at(0, &[1; 512], Durability::Cached).unwrap();
    let tls = server.shared.tls.lock().unwrap().take();
    server.crash();
    let error = backend.read_at(0, &mut [0; 512]).unwrap_err().to_string();
    assert!(error.contains("does not offer"), "{error}");
    assert_eq!(backend.status().protection, None);
    *server.shared.tls.lock().unwrap() = tls;
    while backend.read_at(0, &mut [0; 512]).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    backend.flush().unwrap();
    assert_eq!(server.disk().durable[..512], [1; 512]);
}

/// A server that agrees to TLS and then does something else with each connection.
fn impostor(
    folder: &Path,
    then: impl Fn(UnixStream, usize) + Send + 'static,
    connections: usize,
) -> (Uri, JoinHandle<()>) {
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = std::thread::spawn(move || {
        for number in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&NBDMAGIC.to_be_bytes()).unwrap();
            stream.write_all(&IHAVEOPT.to_be_bytes()).unwrap();
            stream.write_all(&[0, 3]).unwrap();
            stream.read_exact(&mut [0; 4 + 16]).unwrap();
            then(stream, number);
        }
    });
    let uri = Uri {
        endpoint: Endpoint::Unix(path),
        tls: Some(certificates(&folder.join("tls"))),
        export: "disk".to_owned(),
    };
    (uri, thread)
}

fn agreement() -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for number in [opt::STARTTLS, rep::ACK, 0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes
}

#[test]
fn what_is_put_behind_the_agreement_in_the_clear_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new().fill(&folder.path().join("tls"));
    // The export, as a server describes it within TLS.
    let mut injected = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for number in [opt::GO, rep::ACK, 0] {
        injected.extend(number.to_be_bytes());
    }
    let (uri, thread) = impostor(
        folder.path(),
        move |mut stream, number| {
            let at_once = match number {
                0 => [agreement(), injected.clone()].concat(),
                1 => [agreement(), vec![0]].concat(),
                _ => agreement(),
            };
            stream.write_all(&at_once).unwrap();
            let mut heard = [0; 1];
            match number {
                0 | 1 => assert_eq!(stream.read(&mut heard).unwrap_or(0), 0, "TLS begins"),
                _ => {
                    // Only when TLS has begun.
                    stream.read_exact(&mut heard).unwrap();
                    assert_eq!(heard, [22], "a handshake record");
                    stream.write_all(&injected).unwrap();
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            }
        },
        3,
    );
    for expected in ["came in the clear", "came in the clear", "not TLS"] {
        let said = refusal(&uri, LIMIT);
        assert!(said.contains(expected), "{said}");
    }
    thread.join().unwrap();
}

/// Silence, an end, and a byte now and then.
#[test]
fn a_tls_handshake_that_does_not_come_to_an_end_holds_nobody() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new().fill(&folder.path().join("tls"));
    let (uri, thread) = impostor(
        folder.path(),
        |mut stream, number| {
            stream.write_all(&agreement()).unwrap();
            match number {
                0 => return,
                1 => {}
                // The beginning of a long record, when TLS has begun.
                _ => {
                    stream.read_exact(&mut [0; 1]).unwrap();
                    stream.write_all(&[22, 3, 3, 0x3f, 0xff]).unwrap();
                }
            }
            stream
                .set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
            // Until the client has gone.
            loop {
                match stream.read(&mut [0; 1024]) {
                    Ok(0) => return,
                    _ if number == 1 => {}
                    _ if stream.write_all(&[2]).is_err() => return,
                    _ => {}
                }
            }
        },
        3,
    );
    let said = refusal(&uri, SOON);
    assert!(said.contains("closed the connection"), "{said}");
    for _ in 0..2 {
        let error = open(&uri, SOON).err().unwrap();
        assert_eq!(error.source.kind(), std::io::ErrorKind::TimedOut, "{error}");
    }
    thread.join().unwrap();
}
