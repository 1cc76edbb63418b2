//! Tests of the choice of certificates, and of files that cannot be used.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore};

use super::peer::{World, name, world};
use crate::tls::{Certificate, CertificateSet, Protocol};

/// A certificate and its key in PEM.
struct Pem {
    certificate: String,
    key: String,
}

fn pem(names: &[&str], valid: (i32, i32)) -> Pem {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(valid.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(valid.1, 7, 4);
    let der = params.self_signed(&key).unwrap();
    let block = |label: &str, der: &[u8]| {
        let text = base64(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    Pem {
        certificate: block("CERTIFICATE", der.der()),
        key: block("PRIVATE KEY", &key.serialize_der()),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            let digit = bits >> (18 - 6 * at) & 63;
            text.push(char::from(DIGITS[digit as usize]));
        }
        text.push_str(&"=="[..3 - group.len()]);
    }
    text
}

fn write(directory: &Path, pem: &Pem) -> Certificate {
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    fs::write(&certificate, &pem.certificate).unwrap();
    fs::write(&key, &pem.key).unwrap();
    Certificate::load(&certificate, &key).unwrap()
}

fn certificate(names: &[&str]) -> Certificate {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &pem(names, (2020, 2049)))
}

/// Certificate that a client is shown if it asks for `server`; or the alert that it gets.
fn shown(
    world: &World,
    config: &Arc<ClientConfig>,
    server: &'static str,
) -> Result<CertificateDer<'static>, rustls::Error> {
    let mut client = ClientConnection::new(Arc::clone(config), name(server)).unwrap();
    match world.perform_handshake(&mut client) {
        Ok(_) => Ok(client.peer_certificates().unwrap()[0].clone()),
        Err(_) => Err(client.process_new_packets().unwrap_err()),
    }
}

/// A client that believes these certificates.
fn believing(world: &World, certificates: &[&Certificate]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.chain()[0].clone()).unwrap();
    }
    let world = World {
        roots: Arc::new(roots),
        server: Arc::clone(&world.server),
        certificates: Arc::clone(&world.certificates),
    };
    let mut config = world.client();
    config.resumption = rustls::client::Resumption::disabled();
    config
}

#[test]
fn a_certificate_is_chosen_by_name_and_one_label_stands_for_a_star() {
    let world = world();
    let first = certificate(&["first.example", "a.b.wild.example", "other.example"]);
    let wild = certificate(&["*.wild.example", "OTHER.example"]);
    assert_eq!(
        wild.names().collect::<Vec<_>>(),
        ["*.wild.example", "other.example"]
    );
    world
        .certificates
        .exchange(CertificateSet::new(&[first.clone(), wild.clone()]));
    let config = Arc::new(believing(&world, &[&first, &wild]));
    for (server, expected) in [
        ("first.example", &first),
        ("x.wild.example", &wild),
        ("X.Wild.Example", &wild),
        ("a.b.wild.example", &first),
        ("other.example", &first),
    ] {
        assert_eq!(
            shown(&world, &config, server).unwrap(),
            expected.chain()[0],
            "{server}"
        );
    }
    // A name that nobody has, a star for no label or for two: the default is shown, and not believed.
    for server in ["nobody.example", "wild.example", "c.d.wild.example"] {
        assert!(matches!(
            shown(&world, &config, server),
            Err(rustls::Error::InvalidCertificate(_))
        ));
    }
}

#[test]
fn certificates_are_exchanged_while_connections_go_on() {
    let world = world();
    let mut before = world.connect();
    let new = certificate(&["files.example"]);
    world
        .certificates
        .exchange(CertificateSet::new(std::slice::from_ref(&new)));
    let config = Arc::new(believing(&world, &[&new]));
    assert_eq!(
        shown(&world, &config, "files.example").unwrap(),
        new.chain()[0]
    );
    let layout = before.session.layout();
    let mut record = vec![0; layout.record(5)];
    assert!(before.session.seal(&mut record, 5).is_ok());
    super::peer::feed(&mut before.client, &record);
    assert!(before.client.process_new_packets().is_ok());
}

#[test]
fn a_challenge_is_answered_only_to_who_asks_for_nothing_else() {
    let world = world();
    let answer = certificate(&["files.example"]);
    let own = world.connect().session.facts().protocol;
    assert_eq!(own, Protocol::Http11);
    world
        .certificates
        .challenge("Files.Example", Some(Arc::clone(answer.certified())));
    world
        .certificates
        .exchange(CertificateSet::new(&[certificate(&["files.example"])]));

    let mut config = believing(&world, &[&answer]);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let config = Arc::new(config);
    let mut client = ClientConnection::new(Arc::clone(&config), name("files.example")).unwrap();
    let (established, _) = world.perform_handshake(&mut client).unwrap();
    assert_eq!(established.facts.protocol, Protocol::AcmeTls);
    assert_eq!(client.peer_certificates().unwrap()[0], answer.chain()[0]);

    let mut both = believing(&world, &[&answer]);
    both.alpn_protocols = vec![b"acme-tls/1".to_vec(), b"h2".to_vec()];
    assert!(matches!(
        shown(&world, &Arc::new(both), "files.example"),
        Err(rustls::Error::InvalidCertificate(_))
    ));
    world.certificates.challenge("files.example", None);
    let refused = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
    assert_eq!(shown(&world, &config, "files.example"), Err(refused));
}

#[test]
fn a_self_signed_certificate_is_for_the_machine_and_the_names_given() {
    let names = [
        "files.example".to_owned(),
        "192.0.2.7".to_owned(),
        "localhost".to_owned(),
    ];
    let certificate = Certificate::self_signed(&names).unwrap();
    assert_eq!(
        certificate.names().collect::<Vec<_>>(),
        ["localhost", "files.example"]
    );
    let day = Duration::from_secs(24 * 60 * 60);
    let now = SystemTime::now();
    assert!(!certificate.expiry().is_before(now + 89 * day));
    assert!(certificate.expiry().is_before(now + 91 * day));
    let world = world();
    world
        .certificates
        .exchange(CertificateSet::new(std::slice::from_ref(&certificate)));
    let config = Arc::new(believing(&world, &[&certificate]));
    for server in [
        "localhost",
        "127.0.0.1",
        "::1",
        "files.example",
        "192.0.2.7",
    ] {
        assert!(shown(&world, &config, server).is_ok(), "{server}");
    }
    let error = Certificate::self_signed(&["no name".to_owned()])
        .err()
        .unwrap();
    assert!(error.to_string().contains("\"no name\""));
}

#[test]
fn an_expired_certificate_is_used_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let old = write(directory.path(), &pem(&["files.example"], (2019, 2021)));
    assert!(old.expiry().is_before(SystemTime::now()));
    assert_eq!(old.expiry().to_string(), "2021-07-04 00:00 UTC");
    let late = write(directory.path(), &pem(&["files.example"], (2019, 2090)));
    assert!(!late.expiry().is_before(SystemTime::now()));
    assert_eq!(late.expiry().to_string(), "2090-07-04 00:00 UTC");
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = (
        directory.path().join("cert.pem"),
        directory.path().join("key.pem"),
    );
    let good = pem(&["files.example"], (2020, 2049));
    let other = pem(&["files.example"], (2020, 2049));
    let (broken, locked) = (
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let useless = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let long = "x".repeat(70 << 10);
    for (certificate, private, path, words) in [
        ("", &*good.key, &cert, "holds no certificate"),
        (&*good.key, &good.key, &cert, "holds no certificate"),
        (
            broken,
            &good.key,
            &cert,
            "the first certificate cannot be used",
        ),
        (&long, &good.key, &cert, "longer than 65536 bytes"),
        (&*good.certificate, "", &key, "holds no private key"),
        (
            &good.certificate,
            &good.certificate,
            &key,
            "holds no private key",
        ),
        (
            &good.certificate,
            locked,
            &key,
            "the private key is encrypted",
        ),
        (
            &good.certificate,
            useless,
            &key,
            "the private key cannot be used",
        ),
        (
            &good.certificate,
            &other.key,
            &key,
            "does not belong to the first certificate in",
        ),
    ] {
        fs::write(&cert, certificate).unwrap();
        fs::write(&key, private).unwrap();
        let error = Certificate::load(&cert, &key).err().unwrap().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains(words), "{error}");
    }
    fs::remove_file(&key).unwrap();
    let error = Certificate::load(&cert, &key).err().unwrap();
    assert!(error.to_string().contains("cannot be read"));
    // Both in one file.
    fs::write(&cert, good.key + &good.certificate).unwrap();
    assert!(Certificate::load(&cert, &cert).is_ok());
}
