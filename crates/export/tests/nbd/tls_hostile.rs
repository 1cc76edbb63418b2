//! Clients that mean harm before, during and after the handshake of TLS.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use scrim_export::limits::Limits;
use scrim_export::nbd::{Incident, ProtocolError};

use crate::common::*;
use crate::tls::{STARTTLS, acknowledged, halves, secured, served, served_with};

fn option(code: u32) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(code.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// The only thing that went wrong so far.
fn incident(served: &Served) -> Incident {
    served.wait_until_no_client();
    let events = served.server.status().events;
    assert_eq!(events.len(), 1, "{events:?}");
    events[0].incident.clone()
}

/// Bytes that an attacker puts behind the client's `NBD_OPT_STARTTLS` would count as sent by the
/// client under TLS if they were carried over.
#[test]
fn bytes_behind_starttls_are_not_carried_over() {
    let served = served();
    let mut raw = served.connect();
    raw.greet(3);
    raw.send(&[option(STARTTLS), option(3)].concat());
    assert!(raw.is_closed());
    let Incident::Protocol(ProtocolError::BeforeTls) = incident(&served) else {
        panic!("another reason");
    };
}

#[test]
fn plaintext_in_the_place_of_the_handshake_is_refused() {
    for bytes in [
        &option(3)[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 1000],
        // Records that look right: an alert, data, a handshake message of no known kind.
        &[21, 3, 3, 0, 2, 2, 40],
        &[23, 3, 3, 0, 5, 1, 2, 3, 4, 5],
        &[22, 3, 1, 0, 4, 2, 0, 0, 0],
    ] {
        let served = served();
        let mut raw = acknowledged(&served);
        raw.send(bytes);
        assert!(raw.is_closed());
        let Incident::Tls(error) = incident(&served) else {
            panic!("another reason");
        };
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn a_handshake_that_stalls_or_trickles_is_cut_off_and_holds_up_nobody() {
    let limits = Limits {
        handshake: Duration::from_millis(300),
        ..Limits::default()
    };
    let served = served_with(vec![export("disk", crypt_volume(MIB).0)], limits);
    let mut silent = acknowledged(&served);
    let mut trickling = acknowledged(&served);
    let mut good = secured(&served);
    good.go("disk");
    // A ClientHello that never ends.
    let _ = trickling
        .stream
        .write_all(&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]);
    for _ in 0..2000 {
        if served.server.connections() == 1 {
            break;
        }
        let _ = trickling.stream.write_all(&[0]);
        assert_eq!(good.read(0, 4096).unwrap().len(), 4096);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(silent.is_closed());
    assert_eq!(served.server.connections(), 1);
    let events = served.server.status().events;
    assert_eq!(events.len(), 2);
    for event in events {
        assert!(matches!(event.incident, Incident::HandshakeTimeout));
    }
    assert_eq!(good.read(0, 4096).unwrap().len(), 4096);
}

/// A handshake message of 64 KiB in records of one byte: more than a buffer, and no end.
#[test]
fn an_endless_handshake_message_is_refused() {
    let served = served();
    let mut raw = acknowledged(&served);
    let _ = raw.stream.write_all(&[22, 3, 1, 0, 4, 1, 0, 0xff, 0xfb]);
    let record = [22, 3, 1, 0, 1, 0];
    for _ in 0..200_000 {
        if raw.stream.write_all(&record).is_err() {
            break;
        }
    }
    assert!(raw.is_closed());
    assert!(matches!(incident(&served), Incident::Tls(_)));
}

#[test]
fn records_that_are_too_long_or_forged_end_the_connection() {
    let mut forged = vec![23, 3, 3, 0, 100];
    forged.extend([7; 100]);
    for bytes in [&[23, 3, 3, 0xff, 0xff, 1, 2, 3][..], &forged] {
        let served = served();
        let (mut reader, _writer, mut socket) = halves(&served);
        socket.write_all(bytes).unwrap();
        assert!(reader.read(&mut [0; 16]).is_err());
        assert!(matches!(incident(&served), Incident::Tls(_)));
    }
}

#[test]
fn a_client_that_goes_away_at_any_moment_leaves_nothing_behind() {
    let served = served();
    // In the handshake, after it, in the middle of a record, in the middle of a request.
    drop(acknowledged(&served));
    let mut raw = acknowledged(&served);
    raw.send(&[22, 3, 1]);
    drop(raw);
    let (_reader, _writer, socket) = halves(&served);
    socket.shutdown(Shutdown::Both).unwrap();
    let (_reader, _writer, mut socket) = halves(&served);
    socket.write_all(&[23, 3, 3, 1, 0, 9, 9]).unwrap();
    socket.shutdown(Shutdown::Both).unwrap();
    let mut raw = secured(&served);
    raw.go("disk");
    raw.send(&request(0, WRITE, 1, 0, 1 << 20));
    raw.send(&[1; 1000]);
    drop(raw);
    served.wait_until_no_client();
    assert!(served.server.status().events.is_empty());
    let mut good = secured(&served);
    good.go("disk");
    assert_eq!(good.read(0, 4096).unwrap().len(), 4096);
}

#[test]
fn a_client_that_does_not_read_holds_up_only_itself() {
    let served = served();
    let (_reader, writer, _socket) = halves(&served);
    let data = info_data("disk", &[]);
    let mut go = option(7);
    go[15] = u8::try_from(data.len()).unwrap();
    writer.write_all(&[&go, &data]).unwrap();
    for cookie in 0..8 {
        let read = request(0, READ, cookie, 0, 32 << 20);
        writer.write_all(&[&read]).unwrap();
    }
    let mut good = secured(&served);
    good.go("disk");
    let data = pattern(9, 3 << 20);
    for _ in 0..5 {
        assert_eq!(good.write(MIB, &data), 0);
        assert!(good.read(MIB, 3 << 20).unwrap() == data);
    }
    assert_eq!(served.server.connections(), 2);
    assert_eq!(served.server.stop(Duration::from_millis(100)).stuck, 0);
}

/// Broken requests are answered under TLS as they are without.
#[test]
fn protocol_errors_under_tls_end_the_connection_in_order() {
    let served = served();
    let mut raw = secured(&served);
    raw.go("disk");
    let magic = *b"nonsense of 28 bytes at leas";
    raw.send(&magic);
    assert!(raw.is_closed());
    let Incident::Protocol(ProtocolError::RequestMagic(_)) = incident(&served) else {
        panic!("another reason");
    };
}
