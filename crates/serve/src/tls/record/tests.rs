//! Records against RFC 8448's, and those that must be refused.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::AlertDescription::{
    self, BadRecordMac, ProtocolVersion, RecordOverflow, UnexpectedMessage,
};
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::AeadKey;
use scrim_crypt::stream::Aead;

use super::*;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A direction as rustls gives it. The key's length comes from a private part of rustls, so AES-256 and
/// ChaCha20-Poly1305 are made of 32 bytes here, and AES-128 is tested where rustls makes the key.
fn direction(suite: usize, tls13: bool, sequence: u64) -> Direction {
    let (key, iv) = (AeadKey::from([0x42; 32]), [0x17; 12].into());
    let secrets = match suite {
        0 => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
        _ => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
    };
    Direction {
        sequence,
        secrets,
        tls13,
    }
}

/// All suites, by index, with each version.
const ALL: [(usize, bool); 4] = [(0, true), (1, true), (0, false), (1, false)];

fn sealed(sealer: &mut Sealer, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let layout = sealer.layout();
    let mut record = vec![0xEE; layout.record(payload.len())];
    record[layout.before..layout.before + payload.len()].copy_from_slice(payload);
    let len = sealer.seal(kind, &mut record, payload.len()).unwrap();
    assert_eq!(len, record.len());
    record
}

fn pair(suite: usize, tls13: bool) -> (Sealer, Opener) {
    let sealer = Sealer::new(direction(suite, tls13, 3), u64::MAX).unwrap();
    (sealer, Opener::new(direction(suite, tls13, 3)).unwrap())
}

/// Alert by which a record is refused.
fn refused(opener: &mut Opener, record: &[u8]) -> AlertDescription {
    opener.open(&mut record.to_vec()).unwrap_err().alert()
}

#[test]
fn what_was_sealed_is_opened_at_its_place() {
    for (suite, tls13) in ALL {
        let (mut sealer, mut opener) = pair(suite, tls13);
        for kind in [Kind::Data, Kind::Alert, Kind::Handshake] {
            for len in [0, 1, 2, 15, 16, 17, 255, 16_383, 16_384] {
                let payload: Vec<u8> = (0..=250).cycle().take(len).collect();
                let mut record = sealed(&mut sealer, kind, &payload);
                assert_eq!(opener.record_len(&record), Ok(Some(record.len())));
                let opened = opener.open(&mut record).unwrap();
                assert_eq!(opened.kind, kind);
                assert_eq!(opened.payload.start, sealer.layout().before);
                assert_eq!(record[opened.payload], payload);
            }
        }
    }
}

#[test]
fn a_record_lies_in_the_memory_that_its_layout_says() {
    let mut before_and_after = vec![];
    for (suite, tls13) in ALL {
        let (mut sealer, _) = pair(suite, tls13);
        let layout = sealer.layout();
        before_and_after.push((layout.before, layout.after));
        let mut record = vec![0xEE; layout.record(100) + 1];
        assert_eq!(
            sealer.seal(Kind::Data, &mut record, 100),
            Ok(layout.record(100))
        );
        assert_eq!(record[layout.record(100)], 0xEE);
        let mut short = vec![0; layout.record(100) - 1];
        assert_eq!(
            sealer.seal(Kind::Data, &mut short, 100),
            Err(SealFault::NoRoom)
        );
        let mut long = vec![0; 20_000];
        assert_eq!(
            sealer.seal(Kind::Data, &mut long, 16_385),
            Err(SealFault::TooLong)
        );
    }
    assert_eq!(before_and_after, [(5, 17), (5, 17), (13, 16), (5, 16)]);
}

#[test]
fn every_changed_byte_is_noticed() {
    for (suite, tls13) in ALL {
        let (mut sealer, mut opener) = pair(suite, tls13);
        let record = sealed(&mut sealer, Kind::Data, b"forty two");
        for at in 0..record.len() {
            let mut changed = record.clone();
            changed[at] ^= 1;
            // A record's minor version is not looked at in TLS 1.2, and means nothing.
            let ignored = at == 2 && !tls13;
            let (_, mut opener) = pair(suite, tls13);
            assert_eq!(opener.open(&mut changed).is_ok(), ignored, "{at}");
        }
        assert!(opener.open(&mut record.clone()).is_ok());
        // Again, or one too early: the numbers do not fit.
        assert_eq!(refused(&mut opener, &record), BadRecordMac);
        let (mut sealer, mut opener) = pair(suite, tls13);
        let _ = sealed(&mut sealer, Kind::Data, b"lost on the way");
        let next = sealed(&mut sealer, Kind::Data, b"the next");
        assert_eq!(refused(&mut opener, &next), BadRecordMac);
    }
}

#[test]
fn no_record_is_opened_after_a_forged_one() {
    for (suite, tls13) in ALL {
        let (mut sealer, mut opener) = pair(suite, tls13);
        let genuine = sealed(&mut sealer, Kind::Data, b"genuine");
        let mut forged = genuine.clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(opener.open(&mut forged), Err(OpenFault::Mac));
        assert_eq!(opener.open(&mut genuine.clone()), Err(OpenFault::Mac));
        let (_, mut opener) = pair(suite, tls13);
        assert!(opener.open(&mut genuine.clone()).is_ok());
    }
}

#[test]
fn records_that_cannot_be_are_refused_by_their_headers() {
    for (suite, tls13) in ALL {
        let (_, opener) = pair(suite, tls13);
        let alert = |bytes: &[u8]| opener.record_len(bytes).map_err(OpenFault::alert);
        for len in 0..HEADER {
            assert_eq!(alert(&[23, 3, 3, 0, 40][..len]), Ok(None));
        }
        assert_eq!(alert(&[23, 3, 3, 0, 40]), Ok(Some(45)));
        assert_eq!(alert(b"GET / HTTP/1.1\r\n"), Err(ProtocolVersion));
        assert_eq!(alert(&[23, 2, 3, 0, 40]), Err(ProtocolVersion));
        // ChangeCipherSpec, an unknown kind, and a kind in the open in TLS 1.3.
        assert_eq!(alert(&[20, 3, 3, 0, 1, 1]), Err(UnexpectedMessage));
        assert_eq!(alert(&[99, 3, 3, 0, 40]), Err(UnexpectedMessage));
        let open = alert(&[21, 3, 3, 0, 40]);
        assert_eq!(open.is_err(), tls13);
        assert_eq!(alert(&[23, 3, 3, 0, 15]), Err(BadRecordMac));
        assert_eq!(alert(&[23, 3, 3, 0, 0]), Err(BadRecordMac));
        assert_eq!(alert(&[23, 3, 3, 0x41, 1]), Err(RecordOverflow));
        assert_eq!(alert(&[23, 3, 3, 255, 255]), Err(RecordOverflow));
    }
}

#[test]
fn a_record_that_is_cut_or_has_more_behind_is_not_opened() {
    for (suite, tls13) in ALL {
        let (mut sealer, mut opener) = pair(suite, tls13);
        let record = sealed(&mut sealer, Kind::Data, b"whole");
        let mut cut = record[..record.len() - 1].to_vec();
        assert_eq!(opener.open(&mut cut), Err(OpenFault::Cut));
        let mut long = [&record[..], &[0]].concat();
        assert_eq!(opener.open(&mut long), Err(OpenFault::Cut));
        assert!(opener.open(&mut record.clone()).is_ok());
    }
}

/// A record of TLS 1.3 with this content, its kind and its padding in it, under RFC 8448's client key.
fn raw(sequence: u8, inner: &[u8]) -> Vec<u8> {
    let key = UnboundKey::new(&AES_128_GCM, &unhex(CLIENT_KEY)).unwrap();
    let mut nonce: [u8; 12] = unhex(CLIENT_IV).try_into().unwrap();
    nonce[11] ^= sequence;
    let [high, low] = u16::try_from(inner.len() + 16).unwrap().to_be_bytes();
    let header = [23, 3, 3, high, low];
    let mut body = inner.to_vec();
    LessSafeKey::new(key)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(header),
            &mut body,
        )
        .unwrap();
    [&header[..], &body].concat()
}

const CLIENT_KEY: &str = "17 42 2d da 59 6e d5 d9 ac d8 90 e3 c6 3f 50 51";
const CLIENT_IV: &str = "5b 78 92 3d ee 08 57 90 33 e5 23 d9";
const SERVER_KEY: &str = "9f 02 28 3b 6c 9c 07 ef c2 6b b9 f2 ac 92 e3 56";
const SERVER_IV: &str = "cf 78 2b 88 dd 83 54 9a ad f1 e9 84";

/// Calls `with` with a key and an IV of the RFC.
fn of_rfc<T>(key: &str, iv: &str, with: impl FnOnce(keys::Parts<'_>) -> Option<T>) -> T {
    with(keys::Parts {
        aead: Aead::Aes128Gcm,
        key: &unhex(key),
        iv: unhex(iv)[..].try_into().unwrap(),
        form: form::Form::Tls13,
    })
    .unwrap()
}

fn opener_of_client() -> Opener {
    of_rfc(CLIENT_KEY, CLIENT_IV, |parts| Opener::of(parts, 0))
}

fn sealer_of_rfc(key: &str, iv: &str) -> Sealer {
    of_rfc(key, iv, |parts| Sealer::of(parts, 0, u64::MAX))
}

#[test]
fn the_records_of_rfc_8448_are_opened_and_made() {
    let payload: Vec<u8> = (0..50).collect();
    let of_client = unhex(
        "17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab
         3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d
         ea e6 3a ee bb 21 69 49 15 e4",
    );
    let of_server = unhex(
        "17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25 d0 5f 82 aa 1b
         36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2 1c 00 47 c2 ab f3
         32 54 0d d0 32 e1 67 c2 95 5d",
    );
    let goodbye = unhex("17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3");

    let mut opener = opener_of_client();
    let mut record = of_client.clone();
    let opened = opener.open(&mut record).unwrap();
    assert_eq!(
        (opened.kind, &record[opened.payload]),
        (Kind::Data, &payload[..])
    );
    let mut record = goodbye.clone();
    let opened = opener.open(&mut record).unwrap();
    assert_eq!(
        (opened.kind, &record[opened.payload]),
        (Kind::Alert, &[1, 0][..])
    );

    let mut sealer = sealer_of_rfc(CLIENT_KEY, CLIENT_IV);
    assert_eq!(sealed(&mut sealer, Kind::Data, &payload), of_client);
    assert_eq!(sealed(&mut sealer, Kind::Alert, &[1, 0]), goodbye);
    // The server has sent a ticket before.
    let mut sealer = sealer_of_rfc(SERVER_KEY, SERVER_IV);
    let _ = sealed(&mut sealer, Kind::Handshake, b"ticket");
    assert_eq!(sealed(&mut sealer, Kind::Data, &payload), of_server);
}

#[test]
fn padding_is_taken_off_and_content_without_a_kind_refused() {
    let client = opener_of_client;
    let mut inner = b"padded\x17".to_vec();
    inner.resize(1000, 0);
    let mut record = raw(0, &inner);
    let opened = client().open(&mut record).unwrap();
    assert_eq!(record[opened.payload], *b"padded");

    // Zeros of the content stay where the kind is behind them.
    let mut record = raw(0, &[0, 0, 0, 23, 0]);
    assert_eq!(client().open(&mut record).unwrap().payload, 5..8);

    for len in [0, 1, 2, 16_385] {
        assert_eq!(
            refused(&mut client(), &raw(0, &vec![0; len])),
            UnexpectedMessage
        );
    }
    // Kinds that do not exist inside, ChangeCipherSpec among them.
    for kind in [1, 20, 24, 255] {
        assert_eq!(
            refused(&mut client(), &raw(0, &[b'x', kind])),
            UnexpectedMessage
        );
    }
    let mut longest = vec![b'x'; 16_384];
    longest.push(23);
    assert!(client().open(&mut raw(0, &longest)).is_ok());
    longest.push(0);
    assert_eq!(refused(&mut client(), &raw(0, &longest)), RecordOverflow);
}

#[test]
fn data_ends_before_the_key_does_and_alerts_still_go() {
    let mut sealer = Sealer::new(direction(0, false, 0), 3).unwrap();
    for left in (0..3).rev() {
        let _ = sealed(&mut sealer, Kind::Data, b"x");
        assert_eq!(sealer.records_left(), left);
    }
    let mut record = [0; 64];
    assert_eq!(
        sealer.seal(Kind::Data, &mut record, 1),
        Err(SealFault::Spent)
    );
    assert!(sealer.seal(Kind::Alert, &mut record, 2).is_ok());

    let last = (1 << 24) - 16;
    let mut sealer = Sealer::new(direction(0, true, last), u64::MAX).unwrap();
    assert_eq!(sealer.records_left(), 0);
    for _ in 0..16 {
        assert!(sealer.seal(Kind::Alert, &mut record, 2).is_ok());
    }
    assert_eq!(
        sealer.seal(Kind::Alert, &mut record, 2),
        Err(SealFault::Spent)
    );
}

#[test]
fn the_count_ends_at_its_end() {
    // ChaCha20-Poly1305 has no other limit.
    let mut sealer = Sealer::new(direction(1, true, u64::MAX - 1), u64::MAX).unwrap();
    let mut record = [0; 64];
    assert_eq!(
        sealer.seal(Kind::Data, &mut record, 1),
        Err(SealFault::Spent)
    );
    assert!(sealer.seal(Kind::Alert, &mut record, 1).is_ok());
    for _ in 0..2 {
        assert_eq!(
            sealer.seal(Kind::Alert, &mut record, 1),
            Err(SealFault::Spent)
        );
    }
    let mut sealer = Sealer::new(direction(1, true, u64::MAX - 1), u64::MAX).unwrap();
    let mut record = sealed(&mut sealer, Kind::Alert, b"!");
    let mut opener = Opener::new(direction(1, true, u64::MAX - 1)).unwrap();
    assert!(opener.open(&mut record.clone()).is_ok());
    assert_eq!(opener.open(&mut record), Err(OpenFault::Spent));
}
