//! Tests of what a handshake agrees on, leaves alone and refuses.

use std::io::Write;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, ClientConnection, HandshakeKind, ServerConfig};

use super::peer::{World, name, only, world, world_with};
use crate::tls::{
    Established, HANDSHAKE_MAX, Handshake, Opened, Protocol, Session, Settings, TlsError,
};

fn with_alpn(world: &World, protocols: &[&str]) -> ClientConfig {
    let mut config = world.client();
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    config
}

#[test]
fn a_browser_gets_the_hybrid_key_exchange_and_http2() {
    let world = world();
    let config = with_alpn(&world, &["h2", "http/1.1"]);
    let pair = world.connect_as(Arc::new(config), u64::MAX);
    let facts = pair.session.facts();
    assert_eq!(facts.version, "TLSv1.3");
    assert_eq!(facts.group, Some("X25519MLKEM768"));
    assert_eq!(facts.protocol, Protocol::Http2);
    assert!(!facts.resumed);
}

#[test]
fn a_client_that_guesses_another_key_exchange_is_asked_again() {
    let world = world();
    let provider = CryptoProvider {
        kx_groups: vec![kx_group::SECP256R1MLKEM768, kx_group::SECP384R1],
        ..aws_lc_rs::default_provider()
    };
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(Arc::clone(&world.roots))
        .with_no_client_auth();
    let pair = world.connect_as(Arc::new(config), u64::MAX);
    assert_eq!(pair.session.facts().group, Some("secp384r1"));
    let kind = pair.client.handshake_kind();
    assert_eq!(kind, Some(HandshakeKind::FullWithHelloRetryRequest));
}

#[test]
fn protocols_are_those_that_are_offered() {
    let world = world();
    for (offered, protocol) in [
        (&[][..], Protocol::Http11),
        (&["http/1.1"], Protocol::Http11),
        (&["http/1.1", "h2"], Protocol::Http2),
        (&["spdy/3", "http/1.1"], Protocol::Http11),
    ] {
        let config = with_alpn(&world, offered);
        let pair = world.connect_as(Arc::new(config), u64::MAX);
        assert_eq!(pair.session.facts().protocol, protocol);
    }
    let config = Arc::new(with_alpn(&world, &["spdy/3"]));
    let mut client = ClientConnection::new(config, name("files.example")).unwrap();
    assert!(world.perform_handshake(&mut client).is_err());
    let told = client.process_new_packets().unwrap_err();
    let alert = AlertDescription::NoApplicationProtocol;
    assert_eq!(told, rustls::Error::AlertReceived(alert));

    let without = world_with(&Settings {
        http2: false,
        ..Settings::default()
    });
    let config = with_alpn(&without, &["h2", "http/1.1"]);
    let pair = without.connect_as(Arc::new(config), u64::MAX);
    assert_eq!(pair.session.facts().protocol, Protocol::Http11);
}

#[test]
fn sessions_are_resumed_in_both_versions() {
    for version in [&TLS13, &TLS12] {
        let world = world();
        let mut config = world.client();
        if version == &TLS12 {
            config = ClientConfig::builder_with_protocol_versions(&[&TLS12])
                .with_root_certificates(Arc::clone(&world.roots))
                .with_no_client_auth();
        }
        let config = Arc::new(config);
        for resumed in [false, true, true] {
            let mut pair = world.connect_as(Arc::clone(&config), u64::MAX);
            assert_eq!(pair.session.facts().resumed, resumed);
            // The tickets were counted: the next record is the next.
            let layout = pair.session.layout();
            let mut record = vec![b'x'; layout.record(10)];
            pair.session.seal(&mut record, 10).unwrap();
            super::peer::feed(&mut pair.client, &record);
            let state = pair.client.process_new_packets().unwrap();
            assert_eq!(state.plaintext_bytes_to_read(), 10);
        }
    }
}

#[test]
fn a_name_that_is_asked_for_is_told_with_its_certificate_also_on_resumption() {
    let world = world();
    let shown = world.certificates.now();
    for version in [&TLS13, &TLS12] {
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(Arc::clone(&world.roots))
            .with_no_client_auth();
        let config = Arc::new(config);
        for resumed in [false, true] {
            let client = ClientConnection::new(Arc::clone(&config), name("files.example"));
            let mut client = client.unwrap();
            let (established, _) = world.perform_handshake(&mut client).unwrap();
            assert_eq!(established.facts.resumed, resumed);
            let asked = established.server_name.unwrap();
            assert_eq!(&*asked.name, "files.example");
            let wanted = shown.find(None).unwrap();
            assert!(Arc::ptr_eq(&asked.certificate, wanted));
            // Tickets come behind the handshake.
            let mut session = Session::new(Established {
                server_name: None,
                ..established
            });
            let session = session.as_mut().unwrap();
            let mut record = vec![b'x'; session.layout().record(1)];
            session.seal(&mut record, 1).unwrap();
            super::peer::feed(&mut client, &record);
        }
    }
}

/// All that a client sends in its first flight, and then in its second with a request behind.
fn two_flights(world: &World, config: ClientConfig) -> (Handshake, Vec<u8>, Vec<u8>) {
    let config = Arc::new(config);
    let mut client = ClientConnection::new(config, name("files.example")).unwrap();
    let mut server = Handshake::new(Arc::clone(&world.server)).unwrap();
    let mut first = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut first).unwrap();
    }
    let mut outgoing = Vec::new();
    let progress = server.advance(&mut first.clone(), &mut outgoing).unwrap();
    assert_eq!((progress.taken, progress.done), (first.len(), false));
    super::peer::feed(&mut client, &outgoing);
    let mut second = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut second).unwrap();
    }
    client.writer().write_all(b"GET / HTTP/1.1\r\n").unwrap();
    while client.wants_write() {
        client.write_tls(&mut second).unwrap();
    }
    (server, first, second)
}

#[test]
fn a_request_right_behind_the_handshake_is_left_where_it_is() {
    let world = only("TLS_AES_128_GCM_SHA256");
    let (mut server, _, mut second) = two_flights(&world, world.client());
    let progress = server.advance(&mut second, &mut Vec::new()).unwrap();
    assert!(progress.done && progress.taken < second.len());
    let again = server.advance(&mut second[progress.taken..], &mut Vec::new());
    assert_eq!(again, Ok(done()));
    let mut session = Session::new(server.finish().unwrap()).unwrap();
    let request = &mut second[progress.taken..];
    let Ok(Opened::Data { at, taken }) = session.open(request) else {
        panic!("no data");
    };
    assert_eq!(
        (&request[at], taken),
        (&b"GET / HTTP/1.1\r\n"[..], request.len())
    );
}

#[test]
fn a_handshake_may_come_in_any_pieces() {
    let world = only("TLS_AES_128_GCM_SHA256");
    for fragment in [None, Some(64)] {
        let mut config = world.client();
        config.max_fragment_size = fragment;
        let mut client = ClientConnection::new(Arc::new(config), name("files.example")).unwrap();
        let mut server = Handshake::new(Arc::clone(&world.server)).unwrap();
        let mut incoming = Vec::new();
        let mut done = false;
        while !done {
            let mut flight = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut flight).unwrap();
            }
            let mut outgoing = Vec::new();
            for byte in flight {
                incoming.push(byte);
                let progress = server.advance(&mut incoming, &mut outgoing).unwrap();
                incoming.drain(..progress.taken);
                done = progress.done;
            }
            super::peer::feed(&mut client, &outgoing);
        }
        assert!(incoming.is_empty());
        assert!(server.finish().is_ok());
    }
}

#[test]
fn what_is_not_tls_is_told_from_http() {
    let world = world();
    let refused = |bytes: &[u8]| {
        let mut server = Handshake::new(Arc::clone(&world.server)).unwrap();
        let mut outgoing = Vec::new();
        let refused = server.advance(&mut bytes.to_vec(), &mut outgoing);
        let told = outgoing.clone();
        assert!(server.advance(&mut [], &mut outgoing) != Ok(done()));
        assert_eq!(outgoing, told);
        (refused, told)
    };
    let http = refused(b"GET / HTTP/1.1\r\n");
    assert_eq!(http, (Err(TlsError::NotTls { http: true }), vec![]));
    for bytes in [
        &b"\0\0\0"[..],
        b"\x80\x2e\x01",
        b"\x16\x02\x00\x00\x05",
        b"\x16\x03\x01\xff\xff",
    ] {
        let (error, told) = refused(bytes);
        assert_eq!(error, Err(TlsError::NotTls { http: false }), "{bytes:?}");
        assert_eq!(told, [21, 3, 3, 0, 2, 2, 70], "{bytes:?}");
    }
    // A record of data, an empty one, a message that is none.
    for bytes in [
        &b"\x17\x03\x03\x00\x01x"[..],
        b"\x16\x03\x03\0\0",
        b"\x16\x03\x03\0\x04\x02\0\0\0",
    ] {
        assert!(
            matches!(refused(bytes).0, Err(TlsError::Handshake(_))),
            "{bytes:?}"
        );
    }
}

fn done() -> crate::tls::Progress {
    crate::tls::Progress {
        taken: 0,
        done: true,
    }
}

#[test]
fn a_handshake_without_end_is_refused() {
    let world = world();
    let mut server = Handshake::new(Arc::clone(&world.server)).unwrap();
    // A ClientHello of 16 MiB less one, in records as short as can be.
    let mut incoming = b"\x16\x03\x01\0\x04\x01\xff\xff\xff".to_vec();
    let mut outgoing = Vec::new();
    let error = loop {
        match server.advance(&mut incoming, &mut outgoing) {
            Ok(progress) => {
                assert!(!progress.done);
                incoming.drain(..progress.taken);
            }
            Err(error) => break error,
        }
        assert!(incoming.len() < HANDSHAKE_MAX + 100);
        incoming.extend_from_slice(b"\x16\x03\x01\0\x08abcdefgh");
    };
    assert!(matches!(
        error,
        TlsError::HandshakeTooLong(_) | TlsError::Handshake(_)
    ));
}

/// A server that remembers sessions itself, as one must that takes early data.
#[derive(Debug)]
struct WithoutTickets;

impl ProducesTickets for WithoutTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn early_data_of_a_client_that_had_been_promised_to_send_it_is_passed_over() {
    let world = only("TLS_AES_128_GCM_SHA256");
    let mut config = ServerConfig::clone(&world.server);
    config.max_early_data_size = 16 << 10;
    config.ticketer = Arc::new(WithoutTickets);
    config.session_storage = ServerSessionMemoryCache::new(8);
    let other = World {
        server: Arc::new(config),
        certificates: Arc::clone(&world.certificates),
        roots: Arc::clone(&world.roots),
    };
    let mut config = world.client();
    config.enable_early_data = true;
    let config = Arc::new(config);
    let connect = || ClientConnection::new(Arc::clone(&config), name("files.example")).unwrap();
    other.perform_handshake(&mut connect()).unwrap();

    let mut client = connect();
    let mut early = client.early_data().expect("a promise");
    for _ in 0..10 {
        assert_eq!(early.write(&[b'e'; 1000]).unwrap(), 1000);
    }
    let (established, mut incoming) = world.perform_handshake(&mut client).unwrap();
    assert!(!client.is_early_data_accepted());
    let mut session = Session::new(established).unwrap();
    client.writer().write_all(b"late").unwrap();
    while client.wants_write() {
        client.write_tls(&mut incoming).unwrap();
    }
    let Ok(Opened::Data { at, taken }) = session.open(&mut incoming) else {
        panic!("no data");
    };
    assert_eq!((&incoming[at], taken), (&b"late"[..], incoming.len()));
}

#[test]
fn an_old_client_is_told_that_its_version_is_too_old() {
    let world = world();
    let mut server = Handshake::new(Arc::clone(&world.server)).unwrap();
    // TLS 1.0, one suite, no extensions.
    let mut hello = b"\x16\x03\x01\0\x2d\x01\0\0\x29\x03\x01".to_vec();
    hello.extend([7; 32]);
    hello.extend(b"\0\0\x02\0\x2f\x01\0");
    let mut outgoing = Vec::new();
    assert!(server.advance(&mut hello, &mut outgoing).is_err());
    assert_eq!(outgoing.len(), 7);
    assert_eq!((outgoing[0], outgoing[5]), (21, 2));
}

#[test]
fn an_unfinished_handshake_has_no_keys() {
    let server = Handshake::new(Arc::clone(&world().server)).unwrap();
    assert!(server.finish().is_err());
}
