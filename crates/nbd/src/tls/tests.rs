//! Both sides of TLS with each other.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ::aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rcgen::ExtendedKeyUsagePurpose as Purpose;
use rustls::client::UnbufferedClientConnection;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConnectionTrafficSecrets};

use super::*;

#[path = "../../../../tests/support/certificates.rs"]
mod certificates;

use certificates::Authority;
use scrim_seeded::Random;

/// A directory with certificates, as QEMU has it.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Authority::new().fill(directory.path());
    directory
}

fn server_tls(directory: &Path) -> ServerTls {
    ServerTls::load(&ServerFiles::in_directory(directory)).unwrap()
}

fn client_files(directory: &Path) -> ClientFiles {
    ClientFiles {
        ca: directory.join("ca-cert.pem"),
        own: Some((
            directory.join("client-cert.pem"),
            directory.join("client-key.pem"),
        )),
    }
}

fn client_tls(directory: &Path) -> ClientTls {
    ClientTls::load(&client_files(directory)).unwrap()
}

/// A server that sends back what it gets, until the client says goodbye; what it ended with.
fn echo(session: Session, socket: UnixStream) -> thread::JoinHandle<Result<Session, TlsError>> {
    let mut socket = socket;
    let mut session = session;
    thread::spawn(move || {
        let mut incoming = Wire::to_receive();
        let mut outgoing = Wire::to_send();
        let mut plain = vec![0; 64 << 10];
        loop {
            let opened = session.open(&mut incoming, &mut plain);
            while session.has_pending() {
                session.take_pending(&mut outgoing);
                flush(&mut outgoing, &mut socket);
            }
            let opened = opened?;
            let mut data = &plain[..opened];
            while !data.is_empty() {
                let sealed = session.seal(data, &mut outgoing)?;
                data = &data[sealed..];
                flush(&mut outgoing, &mut socket);
            }
            if session.peer_has_closed() {
                session.close();
                session.take_pending(&mut outgoing);
                flush(&mut outgoing, &mut socket);
                return Ok(session);
            }
            if opened > 0 {
                continue;
            }
            match socket.read(incoming.spare()) {
                Ok(0) | Err(_) => return Ok(session),
                Ok(len) => incoming.advance(len),
            }
        }
    })
}

fn flush(outgoing: &mut Wire, socket: &mut UnixStream) {
    // A client that has gone is not this test's affair.
    let _ = socket.write_all(outgoing.filled());
    outgoing.consume(outgoing.filled().len());
}

fn pair() -> (UnixStream, OwnedFd) {
    let (server, client) = UnixStream::pair().unwrap();
    (server, client.into())
}

#[test]
fn what_is_written_comes_back_and_both_sides_part_in_order() {
    let directory = directory();
    let (socket, client) = pair();
    let server = echo(server_tls(directory.path()).session().unwrap(), socket);
    let (mut reader, writer) = client_tls(directory.path())
        .handshake("localhost", client)
        .unwrap();
    let protection = reader.protection().unwrap();
    assert_eq!(protection.version, "TLSv1.3");
    assert_eq!(protection.suite, "TLS_AES_128_GCM_SHA256");
    let data: Vec<u8> = (0..3_000_000u32)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let sender = {
        let (writer, data) = (writer.clone(), data.clone());
        thread::spawn(move || {
            writer
                .write_all(&[&data[..7], &data[7..1_000_000]])
                .unwrap();
            writer.write_all(&[&data[1_000_000..], b""]).unwrap();
        })
    };
    let mut back = vec![0; data.len()];
    // Small pieces from the buffer, and large ones past it.
    reader.read_exact(&mut back[..10]).unwrap();
    reader.read_exact(&mut back[10..100_000]).unwrap();
    reader.read_exact(&mut back[100_000..]).unwrap();
    assert!(back == data);
    sender.join().unwrap();
    writer.shutdown().unwrap();
    assert_eq!(reader.read(&mut back).unwrap(), 0, "an end in order");
    assert!(server.join().unwrap().unwrap().peer_has_closed());
}

#[test]
fn several_writers_do_not_mix_their_messages() {
    let directory = directory();
    let (socket, client) = pair();
    let server = echo(server_tls(directory.path()).session().unwrap(), socket);
    let (mut reader, writer) = client_tls(directory.path())
        .handshake("localhost", client)
        .unwrap();
    let writers: Vec<_> = (1..=4u8)
        .map(|id| {
            let writer = writer.clone();
            thread::spawn(move || {
                for _ in 0..50 {
                    writer.write_all(&[&[id; 10], &[id; 29_990]]).unwrap();
                }
            })
        })
        .collect();
    let mut message = vec![0; 30_000];
    for _ in 0..200 {
        reader.read_exact(&mut message).unwrap();
        assert!(message.iter().all(|&byte| byte == message[0]));
    }
    for writer in writers {
        writer.join().unwrap();
    }
    drop((reader, writer));
    server.join().unwrap().unwrap();
}

#[test]
fn a_connection_that_breaks_off_is_not_an_end_in_order() {
    let directory = directory();
    let (socket, client) = pair();
    let cut = socket.try_clone().unwrap();
    let server = echo(server_tls(directory.path()).session().unwrap(), socket);
    let (mut reader, _writer) = client_tls(directory.path())
        .handshake("localhost", client)
        .unwrap();
    cut.shutdown(std::net::Shutdown::Both).unwrap();
    let error = reader.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    server.join().unwrap().unwrap();
}

#[test]
fn strangers_are_refused_on_either_side() {
    let directory = directory();
    let other = self::directory();
    let handshake = |files: &ClientFiles, name: &str, server: &ServerTls| {
        let client = ClientTls::load(files).unwrap();
        let (socket, fd) = pair();
        let server = echo(server.session().unwrap(), socket);
        let mut said = None;
        match client.handshake(name, fd) {
            Err(error) => said = Some(error.to_string()),
            Ok((mut reader, writer)) => {
                // TLS 1.3 tells a client of its refusal after its own handshake.
                let _ = writer.shutdown();
                if let Err(error) = reader.read(&mut [0; 16]) {
                    said = Some(error.to_string());
                }
            }
        }
        (said, server.join().unwrap().err().map(|e| e.to_string()))
    };
    let ours = server_tls(directory.path());

    let stranger = ClientFiles {
        ca: directory.path().join("ca-cert.pem"),
        ..client_files(other.path())
    };
    let (client, server) = handshake(&stranger, "localhost", &ours);
    let client = client.unwrap();
    assert!(client.contains("does not know this side's CA"), "{client}");
    assert!(server.unwrap().contains("another CA has signed it"));

    let nobody = ClientFiles {
        own: None,
        ..client_files(directory.path())
    };
    let (client, server) = handshake(&nobody, "localhost", &ours);
    assert!(client.unwrap().contains("asks for a client certificate"));
    assert!(server.unwrap().contains("give the client a certificate"));

    let elsewhere = client_files(directory.path());
    let (client, _) = handshake(&elsewhere, "example.org", &ours);
    assert!(client.unwrap().contains("subjectAltName"));

    let (client, _) = handshake(&client_files(other.path()), "localhost", &ours);
    assert!(client.unwrap().contains("another CA has signed it"));

    let trusting = ServerFiles {
        client_ca: None,
        ..ServerFiles::in_directory(directory.path())
    };
    let trusting = ServerTls::load(&trusting).unwrap();
    assert!(!trusting.asks_for_certificates());
    assert_eq!(handshake(&nobody, "127.0.0.1", &trusting), (None, None));
}

#[test]
fn expired_certificates_and_those_for_another_purpose_are_refused() {
    let directory = directory();
    let authority = Authority::new();
    fs::write(directory.path().join("ca-cert.pem"), authority.pem()).unwrap();
    for ((certificate, key), reason) in [
        (
            authority.sign(&["localhost"], Purpose::ServerAuth, 2002),
            "set the clock",
        ),
        (
            authority.sign(&["localhost"], Purpose::ClientAuth, 2100),
            "serverAuth",
        ),
    ] {
        fs::write(directory.path().join("server-cert.pem"), certificate).unwrap();
        fs::write(directory.path().join("server-key.pem"), key).unwrap();
        let (socket, client) = pair();
        let server = echo(server_tls(directory.path()).session().unwrap(), socket);
        let refused = client_tls(directory.path())
            .handshake("localhost", client)
            .err()
            .unwrap();
        assert!(refused.to_string().contains(reason), "{refused}");
        assert!(server.join().unwrap().is_err());
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let (_, other_key) = Authority::new().sign(&["localhost"], Purpose::ServerAuth, 2100);
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let wrong = "-----BEGIN PRIVATE KEY-----\nMAAA\n-----END PRIVATE KEY-----\n";
    let not = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n";
    let long = "#\n".repeat(30_000);
    let good = fs::read_to_string(path("server-key.pem")).unwrap();
    for (file, text, said) in [
        ("server-cert.pem", "", "holds no certificate"),
        ("server-cert.pem", good.as_str(), "holds no certificate"),
        ("server-cert.pem", &long, "longer than"),
        ("server-cert.pem", not, "cannot be used"),
        ("server-key.pem", "nonsense", "holds no private key"),
        ("server-key.pem", encrypted, "is encrypted"),
        ("server-key.pem", wrong, "cannot be used"),
        ("server-key.pem", &other_key, "does not belong to the first"),
        ("ca-cert.pem", "\0\0", "holds no certificate"),
        ("ca-cert.pem", not, "cannot be used"),
    ] {
        let before = fs::read(path(file)).unwrap();
        fs::write(path(file), text).unwrap();
        let error = ServerTls::load(&ServerFiles::in_directory(directory.path()));
        let error = error.err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
        assert!(error.starts_with(&path(file).display().to_string()));
        fs::write(path(file), before).unwrap();
    }
    fs::remove_file(path("server-key.pem")).unwrap();
    let error = ServerTls::load(&ServerFiles::in_directory(directory.path()));
    assert!(matches!(error.err().unwrap().fault, FileFault::Read(_)));
    let client = client_tls(directory.path());
    let error = client.session("not a name").err().unwrap();
    assert!(error.to_string().contains("no DNS name"), "{error}");
}

/// So short that every handshake message comes in many records.
const MANY: Option<usize> = Some(64);

/// A client of rustls alone, whose keys can be taken out after the handshake. Its records have `fragment` bytes at most.
fn open_client(
    directory: &Path,
    provider: Arc<CryptoProvider>,
    tls12: bool,
    fragment: Option<usize>,
) -> UnbufferedClientConnection {
    let own = rustls::sign::SingleCertAndKey::from(
        files::certified_key(
            &directory.join("client-cert.pem"),
            &directory.join("client-key.pem"),
        )
        .unwrap(),
    );
    let version = if tls12 { &TLS12 } else { &TLS13 };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(files::roots(&directory.join("ca-cert.pem")).unwrap())
        .with_client_cert_resolver(Arc::new(own));
    config.enable_secret_extraction = true;
    config.max_fragment_size = fragment;
    UnbufferedClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

/// Carries the handshake of both sides, without a socket.
fn carry(client: &mut Session, server: &mut Session) {
    let mut to_client = Wire::to_receive();
    let mut to_server = Wire::to_receive();
    let mut plain = vec![0; 64 << 10];
    while client.is_handshaking() || server.is_handshaking() {
        client.open(&mut to_client, &mut plain).unwrap();
        client.take_pending(&mut to_server);
        server.open(&mut to_server, &mut plain).unwrap();
        server.take_pending(&mut to_client);
    }
    client.open(&mut to_client, &mut plain).unwrap();
}

#[test]
fn handshakes_in_small_pieces_work_in_both_versions() {
    let directory = directory();
    for (tls12, version, suite) in [
        (false, "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (true, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ] {
        let mut client = Session::client(open_client(directory.path(), provider(), tls12, MANY));
        let mut server = server_tls(directory.path()).session().unwrap();
        assert_eq!(server.protection(), None);
        carry(&mut client, &mut server);
        let agreed = Protection { version, suite };
        assert_eq!(client.protection(), Some(agreed));
        assert_eq!(server.protection(), Some(agreed));
    }
}

/// Carries `data` from one side to the other, and returns what arrives; `change` has the records between them.
fn send(
    from: &mut Session,
    to: &mut Session,
    data: &[u8],
    change: impl Fn(&mut [u8]),
) -> Result<Vec<u8>, TlsError> {
    let (mut outgoing, mut incoming) = (Wire::to_send(), Wire::to_receive());
    let (mut arrived, mut plain) = (Vec::new(), vec![0; 64 << 10]);
    let mut rest = data;
    while !rest.is_empty() {
        let sealed = from.seal(rest, &mut outgoing)?;
        rest = &rest[sealed..];
        while !outgoing.filled().is_empty() {
            let spare = incoming.spare();
            let len = outgoing.filled().len().min(spare.len());
            spare[..len].copy_from_slice(&outgoing.filled()[..len]);
            change(&mut spare[..len]);
            incoming.advance(len);
            outgoing.consume(len);
            loop {
                let opened = to.open(&mut incoming, &mut plain)?;
                arrived.extend(&plain[..opened]);
                if opened == 0 {
                    break;
                }
            }
        }
    }
    Ok(arrived)
}

/// A side of AWS-LC alone, with one suite of AES-GCM after the other, for which the certificates have a key.
#[test]
fn each_suite_agrees_with_aws_lc_and_refuses_changed_records() {
    let directory = directory();
    let theirs = aws_lc_rs::default_provider();
    let suites = theirs.cipher_suites.iter().filter(|suite| {
        let name = format!("{:?}", suite.suite());
        name.contains("GCM") && !name.contains("RSA")
    });
    let mut seen = 0;
    for &suite in suites {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![suite],
            ..theirs.clone()
        });
        let connect = || {
            let tls12 = suite.tls13().is_none();
            let connection = open_client(directory.path(), Arc::clone(&provider), tls12, None);
            let mut client = Session::client(connection);
            let mut server = server_tls(directory.path()).session().unwrap();
            carry(&mut client, &mut server);
            let agreed = server.protection().unwrap().suite;
            assert!(format!("{:?}", suite.suite()).ends_with(agreed.trim_start_matches("TLS")));
            (client, server)
        };
        let (mut client, mut server) = connect();
        let mut random = Random::new(seen);
        for len in [1, 15, 16, 17, 1000, 16_384, 16_385, 100_000] {
            let mut data = vec![0; len];
            random.fill(&mut data);
            assert!(send(&mut client, &mut server, &data, |_| {}).unwrap() == data);
            assert!(send(&mut server, &mut client, &data, |_| {}).unwrap() == data);
        }
        // Any byte behind the header of a record, the part of the nonce that is sent among them.
        for at in [5, 12, 13, 40, 110] {
            let (mut client, mut server) = connect();
            let data = vec![7; 100];
            let refused = send(&mut client, &mut server, &data, |records| records[at] ^= 1);
            assert!(refused.is_err(), "{suite:?}, byte {at}");
            let (mut client, mut server) = connect();
            let answered = send(&mut server, &mut client, &data, |records| records[at] ^= 1);
            assert!(answered.is_err(), "{suite:?}, byte {at}");
        }
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn numbers_are_left_for_the_message_that_changes_a_key() {
    for suite in suites::tls13().chain(suites::tls12()) {
        let limit = match suite {
            rustls::SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            rustls::SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        };
        assert!(limit > 1 << 23);
        assert!(limit < scrim_crypt::stream::Aead::Aes128Gcm.records_max());
    }
}

/// Part of a handshake message after the handshake: rustls would look for the rest in a buffer that
/// is not there any more.
#[test]
fn a_message_in_pieces_after_the_handshake_ends_the_connection() {
    let directory = directory();
    let mut client = Session::client(open_client(directory.path(), provider(), false, MANY));
    let mut server = server_tls(directory.path()).session().unwrap();
    carry(&mut client, &mut server);
    let session::Side::Client(client) = client.side else {
        panic!("made as a client");
    };
    let (secrets, _) = client.dangerous_into_kernel_connection().unwrap();
    let (sequence, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets.tx else {
        panic!("another suite than the first");
    };
    // The start of a KeyUpdate, and the type that TLS 1.3 hides: a handshake message.
    let mut record = vec![24, 0, 0, 22];
    let len = u16::try_from(record.len() + 16).unwrap().to_be_bytes();
    let header = [23, 3, 3, len[0], len[1]];
    let mut nonce: [u8; 12] = iv.as_ref().try_into().unwrap();
    for (byte, counter) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= counter;
    }
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap());
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(header),
        &mut record,
    )
    .unwrap();
    let mut incoming = Wire::to_receive();
    for bytes in [&header[..], &record] {
        incoming.spare()[..bytes.len()].copy_from_slice(bytes);
        incoming.advance(bytes.len());
    }
    let mut plain = vec![0; 64 << 10];
    let opened = server.open(&mut incoming, &mut plain);
    assert_eq!(opened, Err(TlsError::Fragments));
    // Nothing asks rustls for more.
    server.close();
    assert!(server.seal(b"data", &mut Wire::to_send()).is_err());
    assert!(server.open(&mut incoming, &mut plain).is_err());
}

#[test]
fn what_is_not_tls_is_refused_with_an_alert_and_never_panics() {
    let directory = directory();
    let tls = server_tls(directory.path());
    let mut incoming = Wire::to_receive();
    let mut plain = vec![0; PLAINTEXT_MAX];
    let mut random = Random::new(1);
    for round in 0..500 {
        let mut server = tls.session().unwrap();
        incoming.consume(usize::MAX);
        // Half of them look like records of a handshake.
        let head: &[u8] = match round % 4 {
            0 => &[22, 3, 1, 0, 40, 1, 0, 0, 36],
            1 => &[22, 3, 3, 0, 3, 1, 0, 0],
            _ => b"",
        };
        let spare = incoming.spare();
        spare[..head.len()].copy_from_slice(head);
        random.fill(&mut spare[head.len()..200]);
        incoming.advance(200);
        let refused = server.open(&mut incoming, &mut plain);
        if let Err(error) = refused {
            assert!(!error.to_string().is_empty());
        }
        server.close();
    }
}
