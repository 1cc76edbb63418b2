//! The input is a suite, and the data that a client sends after its handshake: records under the right key
//! with any content, and bytes that no key has sealed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::tls::Client;
use scrim_serve::tls::record::Kind;
use scrim_serve::tls::{Opened, TlsError};

/// Records without data that a client may send in a row.
const DATALESS_MAX: usize = 32;

/// Data records that each key of the server seals, so that it is changed while a target runs.
const RECORDS_MAX: u64 = 8;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, mut rest)) = input.split_first() else {
        return;
    };
    let mut client = Client::connect(choice, RECORDS_MAX);
    let mut dataless = 0;
    while let Some((&[action, len], after)) = rest.split_first_chunk() {
        let len = after.len().min(len.into());
        let (inside, after) = after.split_at(len);
        rest = after;
        let mut record = match action {
            0..0x40 => client.record(23, inside),
            0x40..0x80 => client.record(20 + action % 5, inside),
            // Full records, and records that are longer than allowed.
            0x80..0xA0 => client.record(23, &inside.repeat(16_640 / inside.len().max(1))),
            _ => inside.to_vec(),
        };
        let opened = client.session.open(&mut record);
        match &opened {
            Ok(Opened::Data { at, taken }) => {
                // What was under the key: all of it, but for kind and padding.
                assert_eq!(*taken, record.len());
                assert!(at.len() <= 16_384 && !at.is_empty());
                dataless = 0;
            }
            Ok(Opened::Nothing { taken }) => {
                assert!(*taken <= record.len());
                dataless += 1;
                assert!(dataless <= DATALESS_MAX);
                let changed = client.tls13() && record[5..].starts_with(&[24, 0, 0, 1]);
                if changed && record.get(10) == Some(&22) {
                    client.next_key();
                }
            }
            Ok(Opened::Incomplete(whole)) => assert!(*whole > record.len()),
            Ok(Opened::Closed) => break,
            Err(_) => {}
        }
        answer(&mut client, opened.err());
    }
});

/// Checks that the client can open a record that the server has sealed.
fn answer(client: &mut Client, error: Option<TlsError>) {
    let mut sent = Vec::new();
    let session = &mut client.session;
    let spent = session.control_is_due() && session.control(&mut sent).is_err();
    let layout = session.layout();
    let start = sent.len();
    sent.resize(start + layout.record(9), 0);
    if session.seal(&mut sent[start..], 9).is_err() {
        sent.truncate(start);
    }
    if let Some(error) = &error {
        assert!(!error.to_string().contains(char::is_control));
        session.fail(error, &mut sent);
        assert_eq!(session.open(&mut [0; 64]), Err(TlsError::Ended));
    } else if spent {
        session.close(&mut sent);
    }
    let mut rest = &mut sent[..];
    while let Some(len) = client.opener.record_len(rest).unwrap() {
        let (record, after) = rest.split_at_mut(len);
        let opened = client.opener.open(record).unwrap();
        match (opened.kind, &record[opened.payload]) {
            (Kind::Handshake, message) => {
                assert_eq!(message, [24, 0, 0, 1, 0]);
                client.next_key_of_server();
            }
            (Kind::Alert, alert) => assert_eq!(alert.len(), 2),
            (Kind::Data, data) => assert_eq!(data, [0; 9]),
        }
        rest = after;
    }
    assert!(rest.is_empty());
}
