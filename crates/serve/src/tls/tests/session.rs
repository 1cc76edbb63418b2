//! Data, alerts and key updates after the handshake.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::AlertDescription;

use super::peer::{Pair, Rogue, SUITES, feed, only, world};
use crate::tls::record::{HEADER, Kind, SealFault};
use crate::tls::{Opened, Session, TlsError};

const TLS13: [&str; 3] = [SUITES[0], SUITES[1], SUITES[2]];
const TLS12: [&str; 3] = [SUITES[3], SUITES[4], SUITES[5]];

/// Seals a record, with what has to go before it.
fn send(session: &mut Session, data: &[u8], outgoing: &mut Vec<u8>) -> Result<(), TlsError> {
    if session.control_is_due() {
        session.control(outgoing)?;
    }
    let layout = session.layout();
    let start = outgoing.len();
    outgoing.resize(start + layout.record(data.len()), 0xEE);
    outgoing[start + layout.before..][..data.len()].copy_from_slice(data);
    session.seal(&mut outgoing[start..], data.len()).map(drop)
}

/// All data in `incoming`, which then is empty, and whether the client has closed.
fn receive(session: &mut Session, incoming: &mut Vec<u8>) -> Result<(Vec<u8>, bool), TlsError> {
    let mut data = Vec::new();
    loop {
        let taken = match session.open(incoming)? {
            Opened::Incomplete(_) => return Ok((data, false)),
            Opened::Closed => return Ok((data, true)),
            Opened::Nothing { taken } => taken,
            Opened::Data { at, taken } => {
                data.extend_from_slice(&incoming[at]);
                taken
            }
        };
        incoming.drain(..taken);
    }
}

impl Pair {
    fn client_reads(&mut self, records: &[u8], len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        let mut read = 0;
        for chunk in records.chunks(4096) {
            feed(&mut self.client, chunk);
            while let Ok(more) = self.client.reader().read(&mut data[read..]) {
                if more == 0 {
                    break;
                }
                read += more;
            }
        }
        data.truncate(read);
        data
    }

    fn client_writes(&mut self, data: &[u8]) {
        self.client.writer().write_all(data).unwrap();
        while self.client.wants_write() {
            self.client.write_tls(&mut self.incoming).unwrap();
        }
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

#[test]
fn every_suite_carries_every_length_both_ways() {
    for suite in SUITES {
        let mut pair = only(suite).connect();
        assert_eq!(pair.session.facts().suite, suite);
        for len in [0, 1, 2, 100, 5_000, 16_383, 16_384] {
            let data = pattern(len);
            let mut records = Vec::new();
            send(&mut pair.session, &data, &mut records).unwrap();
            assert_eq!(pair.client_reads(&records, len), data, "{suite} {len}");

            pair.client_writes(&data);
            let received = receive(&mut pair.session, &mut pair.incoming).unwrap();
            assert_eq!(received, (data, false), "{suite} {len}");
        }
        pair.client_writes(&pattern(60_000));
        let (data, _) = receive(&mut pair.session, &mut pair.incoming).unwrap();
        assert_eq!(data, pattern(60_000));
    }
}

#[test]
fn both_sides_say_goodbye() {
    for suite in SUITES {
        let mut pair = only(suite).connect();
        pair.client.send_close_notify();
        pair.client_writes(b"");
        let (_, closed) = receive(&mut pair.session, &mut pair.incoming).unwrap();
        assert!(closed);
        // What comes behind does not count, whatever it is.
        assert_eq!(pair.session.open(&mut [0; 100]), Ok(Opened::Closed));

        let mut records = Vec::new();
        send(&mut pair.session, b"still", &mut records).unwrap();
        pair.session.close(&mut records);
        pair.session.close(&mut records);
        assert_eq!(
            send(&mut pair.session, b"x", &mut Vec::new()),
            Err(TlsError::Ended)
        );
        feed(&mut pair.client, &records);
        let state = pair.client.process_new_packets().unwrap();
        assert!(state.peer_has_closed());
        assert_eq!(state.plaintext_bytes_to_read(), 5);
    }
}

#[test]
fn a_client_changes_its_key_and_gets_a_new_one_of_ours() {
    for suite in TLS13 {
        let mut pair = only(suite).connect();
        for round in 0..70 {
            pair.client.refresh_traffic_keys().unwrap();
            pair.client_writes(&pattern(300));
            let (data, _) = receive(&mut pair.session, &mut pair.incoming).unwrap();
            assert_eq!(data, pattern(300));
            // Not before data is sent, and then at once.
            assert!(pair.session.control_is_due());
            let mut record = [0; 100];
            assert_eq!(
                pair.session.seal(&mut record, 5),
                Err(TlsError::ControlFirst)
            );
            let mut records = Vec::new();
            send(&mut pair.session, b"new key", &mut records).unwrap();
            assert_eq!(pair.client_reads(&records, 100), b"new key", "{round}");
            assert!(!pair.session.control_is_due());
        }
    }
}

#[test]
fn a_key_is_changed_before_its_limit() {
    for suite in TLS13 {
        let world = only(suite);
        // Two tickets are among the first five.
        let mut pair = world.connect_as(Arc::new(world.client()), 5);
        let (mut records, mut sent) = (Vec::new(), Vec::new());
        for len in 0..100 {
            send(&mut pair.session, &pattern(len), &mut records).unwrap();
            sent.extend(pattern(len));
            assert!(pair.session.records_left() < 5);
        }
        assert_eq!(pair.client_reads(&records, sent.len()), sent);
    }
}

#[test]
fn without_key_changes_a_connection_ends_before_its_limit() {
    for suite in TLS12 {
        let world = only(suite);
        let mut pair = world.connect_as(Arc::new(world.client()), 5);
        let mut records = Vec::new();
        let ended = (0..10).find_map(|_| send(&mut pair.session, b"abc", &mut records).err());
        let ended = ended.unwrap();
        assert_eq!(ended, TlsError::Seal(SealFault::Spent));
        pair.session.fail(&ended, &mut records);
        // The handshake's last message was the first record.
        assert_eq!(pair.client_reads(&records, 100), b"abcabcabcabc");
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn a_record_that_comes_in_pieces_is_waited_for() {
    for suite in SUITES {
        let mut rogue = Rogue::new(suite);
        let mut record = rogue.record(Kind::Data, b"hello");
        for len in 0..record.len() {
            let whole = if len < HEADER { HEADER } else { record.len() };
            let opened = rogue.session.open(&mut record[..len]);
            assert_eq!(opened, Ok(Opened::Incomplete(whole)));
        }
        let Ok(Opened::Data { at, taken }) = rogue.session.open(&mut record) else {
            panic!("no data");
        };
        assert_eq!((&record[at], taken), (&b"hello"[..], record.len()));
    }
}

#[test]
fn changed_records_end_the_connection_with_the_right_alert() {
    for suite in SUITES {
        let mut rogue = Rogue::new(suite);
        let mut record = rogue.record(Kind::Data, b"hello");
        *record.last_mut().unwrap() ^= 1;
        let error = rogue.session.open(&mut record).unwrap_err();
        assert_eq!(error.alert(), Some(AlertDescription::BadRecordMac));
        let mut told = Vec::new();
        rogue.session.fail(&error, &mut told);
        assert_eq!(rogue.hear(&mut told), [(Kind::Alert, vec![2, 20])]);
        assert_eq!(rogue.session.open(&mut record), Err(TlsError::Ended));
        assert_eq!(
            send(&mut rogue.session, b"x", &mut told),
            Err(TlsError::Ended)
        );
    }
}

#[test]
fn change_cipher_spec_after_the_handshake_is_refused() {
    for suite in SUITES {
        let mut rogue = Rogue::new(suite);
        let error = rogue.session.open(&mut [20, 3, 3, 0, 1, 1]).unwrap_err();
        assert_eq!(error.alert(), Some(AlertDescription::UnexpectedMessage));
    }
}

#[test]
fn messages_without_a_place_are_refused() {
    use AlertDescription::{DecodeError, IllegalParameter, UnexpectedMessage};
    let in_tls13: [(Kind, &[u8], AlertDescription); 10] = [
        (Kind::Handshake, &[], UnexpectedMessage),
        (Kind::Handshake, &[24, 0, 0, 1, 2], IllegalParameter),
        (Kind::Handshake, &[24, 0, 0, 2, 0, 0], UnexpectedMessage),
        (Kind::Handshake, &[24, 0, 0], UnexpectedMessage),
        // Two in one record: the second would be under the next key.
        (
            Kind::Handshake,
            &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0],
            UnexpectedMessage,
        ),
        (Kind::Handshake, &[1, 0, 0, 0], UnexpectedMessage),
        (Kind::Handshake, &[13, 0, 0, 0], UnexpectedMessage),
        (Kind::Alert, &[], UnexpectedMessage),
        (Kind::Alert, &[2], DecodeError),
        (Kind::Alert, &[1, 0, 0], DecodeError),
    ];
    for (kind, message, alert) in in_tls13 {
        let error = Rogue::new(TLS13[0]).say(kind, message).unwrap_err();
        assert_eq!(error.alert(), Some(alert), "{message:?}");
    }
    for (kind, message, alert) in [
        (Kind::Handshake, &[24, 0, 0, 1, 0][..], UnexpectedMessage),
        (Kind::Handshake, &[20, 0, 0, 12], UnexpectedMessage),
        (Kind::Alert, &[], UnexpectedMessage),
        (Kind::Alert, &[3, 70], IllegalParameter),
    ] {
        let error = Rogue::new(TLS12[0]).say(kind, message).unwrap_err();
        assert_eq!(error.alert(), Some(alert), "{message:?}");
    }
}

#[test]
fn an_alert_ends_the_connection_and_is_not_answered() {
    for suite in SUITES {
        let mut rogue = Rogue::new(suite);
        let error = rogue.say(Kind::Alert, &[2, 48]).unwrap_err();
        assert_eq!(error, TlsError::Alert(AlertDescription::UnknownCA));
        let mut told = Vec::new();
        rogue.session.fail(&error, &mut told);
        assert!(told.is_empty());
    }
    // In TLS 1.3 the level means nothing; in TLS 1.2 a warning is one.
    let warning = [1, 48];
    assert!(Rogue::new(TLS13[0]).say(Kind::Alert, &warning).is_err());
    assert!(Rogue::new(TLS12[0]).say(Kind::Alert, &warning).is_ok());
    assert!(Rogue::new(TLS13[0]).say(Kind::Alert, &[1, 90]).is_ok());
}

#[test]
fn nothing_is_negotiated_again() {
    for suite in TLS12 {
        let mut rogue = Rogue::new(suite);
        let hello = [1, 0, 0, 2, 3, 3];
        assert!(matches!(
            rogue.say(Kind::Handshake, &hello),
            Ok(Opened::Nothing { .. })
        ));
        let mut records = Vec::new();
        send(&mut rogue.session, b"data", &mut records).unwrap();
        let heard = rogue.hear(&mut records);
        assert_eq!(
            heard,
            [(Kind::Alert, vec![1, 100]), (Kind::Data, b"data".to_vec())]
        );
        assert!(rogue.say(Kind::Handshake, &hello).is_err());
    }
}

#[test]
fn records_without_data_are_taken_32_times_in_a_row() {
    let key_update = [24, 0, 0, 1, 0];
    for (suite, kind, content) in [
        (TLS13[0], Kind::Data, &[][..]),
        (TLS13[0], Kind::Alert, &[1, 90]),
        (TLS13[0], Kind::Handshake, &key_update),
        (TLS12[0], Kind::Data, &[]),
        (TLS12[0], Kind::Alert, &[1, 41]),
    ] {
        let mut rogue = Rogue::new(suite);
        if kind != Kind::Handshake {
            for round in 0..100 {
                assert!(rogue.say(kind, content).is_ok());
                if round % 32 == 31 {
                    assert!(rogue.say(Kind::Data, b"x").is_ok());
                }
            }
            for _ in 0..28 {
                assert!(rogue.say(kind, content).is_ok());
            }
            assert_eq!(rogue.say(kind, content), Err(TlsError::Flooded));
        }
    }
    let mut pair = world().connect();
    let mut refused = 0;
    for _ in 0..40 {
        pair.client.refresh_traffic_keys().unwrap();
        pair.client_writes(b"");
        refused += usize::from(receive(&mut pair.session, &mut pair.incoming).is_err());
        pair.incoming.clear();
    }
    assert_eq!(refused, 8);
}
