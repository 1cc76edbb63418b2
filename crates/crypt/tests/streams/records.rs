//! Sequences of records, whose numbers make the nonces.

use std::collections::HashSet;

use scrim_crypt::stream::{
    Aead, CONTENT_MAX, MessageSealer, NONCE, Opener, Sealer, StreamError, TAG,
};

use super::{IV, key_of, sealed};
use crate::common::plaintext;

fn sealer(aead: Aead, first: u64) -> Sealer {
    Sealer::new(aead, &key_of(aead), &IV, first).unwrap()
}

fn opener(aead: Aead, first: u64) -> Opener {
    Opener::new(aead, &key_of(aead), &IV, first).unwrap()
}

fn record(sealer: &mut Sealer, content: &[u8]) -> (Vec<u8>, [u8; TAG]) {
    let (mut content, mut tag) = (content.to_vec(), [0; TAG]);
    sealer.seal_in_place(b"", &mut content, &mut tag).unwrap();
    (content, tag)
}

/// The number, big endian, xored into the end of the IV.
fn nonce(number: u64) -> [u8; NONCE] {
    let number = u128::from(number) << 32;
    let mut iv = [0; 16];
    iv[..NONCE].copy_from_slice(&IV);
    let nonce = (u128::from_be_bytes(iv) ^ number).to_be_bytes();
    *nonce.first_chunk().unwrap()
}

#[test]
fn records_are_those_of_one_call_and_are_opened() {
    let plain = plaintext(CONTENT_MAX);
    let lens = (0..600).chain([4095, 16 << 10, CONTENT_MAX]);
    for aead in Aead::ALL {
        let (mut sealer, mut opener) = (sealer(aead, 7), opener(aead, 7));
        for (number, len) in (7..).zip(lens.clone()) {
            let (additional, content) = (&plain[..len % 40], &plain[..len]);
            let (mut here, mut tag) = (content.to_vec(), [0; TAG]);
            sealer
                .seal_in_place(additional, &mut here, &mut tag)
                .unwrap();
            let whole = sealed(aead, nonce(number), additional, content);
            assert!(whole == [&here[..], &tag].concat(), "{aead}, {len} bytes");

            opener.open_in_place(additional, &mut here, &tag).unwrap();
            assert!(here == content, "{aead}, {len} bytes");
        }
        assert_eq!((sealer.number(), opener.number()), (7 + 603, 7 + 603));
    }
}

#[test]
fn messages_may_be_longer_than_records() {
    let plain = plaintext(1 << 20);
    for aead in Aead::ALL {
        let mut sealer = MessageSealer::new(aead, &key_of(aead), &IV).unwrap();
        let mut opener = opener(aead, 0);
        for (number, len) in (0..).zip([0, CONTENT_MAX + 1, 128 << 10, plain.len()]) {
            assert_eq!(sealer.number(), number);
            let (mut here, mut tag) = (plain[..len].to_vec(), [0; TAG]);
            sealer.seal_in_place(b"name", &mut here, &mut tag).unwrap();
            let whole = sealed(aead, nonce(number), b"name", &plain[..len]);
            assert!(whole == [&here[..], &tag].concat(), "{aead}, {len} bytes");
            opener.open_in_place(b"name", &mut here, &tag).unwrap();
            assert!(here == plain[..len], "{aead}, {len} bytes");
        }
    }
}

/// AES-GCM in TLS 1.2: a part of the nonce travels, and need not be the number.
#[test]
fn explicit_nonces() {
    let aead = Aead::Aes256Gcm;
    let first = 0x01_0203;
    let salt = *b"salt\0\0\0\0\0\0\0\0";
    let mut sealer = Sealer::new(aead, &key_of(aead), &salt, first).unwrap();
    // Of its IV, an opener of such records takes the salt alone.
    let mut opener = Opener::new(aead, &key_of(aead), b"salt, others", 0).unwrap();
    for (number, content) in (first..).zip([&b"one"[..], b"", b"three"]) {
        let explicit = sealer.explicit_nonce();
        assert_eq!(explicit, number.to_be_bytes());
        let (mut here, mut tag) = (content.to_vec(), [0; TAG]);
        sealer
            .seal_in_place(b"header", &mut here, &mut tag)
            .unwrap();
        let nonce: [u8; NONCE] = [&b"salt"[..], &explicit].concat().try_into().unwrap();
        let whole = sealed(aead, nonce, b"header", content);
        assert_eq!(whole, [&here[..], &tag].concat());
        opener
            .open_in_place_with(explicit, b"header", &mut here, &tag)
            .unwrap();
        assert_eq!(here, content);
    }
    assert_eq!((sealer.number(), opener.number()), (first + 3, 3));
}

#[test]
fn a_sealer_never_uses_a_nonce_twice() {
    for aead in Aead::ALL {
        let mut sealer = sealer(aead, 250);
        let mut seen = HashSet::new();
        for number in 250..70_000 {
            assert_eq!(sealer.number(), number);
            assert!(seen.insert(sealer.explicit_nonce()));
            // Empty records under one nonce would have one tag.
            let (_, tag) = record(&mut sealer, b"");
            assert!(seen.insert(*tag.first_chunk().unwrap()), "{aead}, {number}");
        }
    }
}

/// Records that a key has sealed elsewhere count.
#[test]
fn a_sealer_stops_at_its_limit() {
    for (aead, records) in [
        (Aead::Aes128Gcm, 1 << 24),
        (Aead::Aes256Gcm, 1 << 24),
        (Aead::ChaCha20Poly1305, u64::MAX),
    ] {
        assert_eq!(aead.records_max(), records);
        let mut sealer = sealer(aead, records - 2);
        record(&mut sealer, b"");
        record(&mut sealer, b"the last");
        for _ in 0..2 {
            let (mut content, mut tag) = ([5; 4], [6; TAG]);
            let refused = sealer.seal_in_place(b"", &mut content, &mut tag);
            assert_eq!(refused, Err(StreamError::KeyExhausted { records }));
            assert_eq!((content, tag), ([5; 4], [6; TAG]));
            assert_eq!(sealer.number(), records);
        }
    }
}

/// Without a limit of its own ChaCha20-Poly1305 ends where the numbers do, and never wraps.
#[test]
fn numbers_do_not_wrap() {
    let aead = Aead::ChaCha20Poly1305;
    let end = Err(StreamError::KeyExhausted { records: u64::MAX });
    let (mut content, tag) = record(&mut sealer(aead, u64::MAX - 1), b"last");

    let mut at_end = opener(aead, u64::MAX - 1);
    at_end.open_in_place(b"", &mut content, &tag).unwrap();
    assert_eq!((&content[..], at_end.number()), (&b"last"[..], u64::MAX));
    // The very last number is never used, also by a sender that would use it.
    let very_last = sealed(aead, nonce(u64::MAX), b"", b"!");
    let (content, tag) = very_last.split_last_chunk().unwrap();
    for _ in 0..2 {
        let opened = at_end.open_in_place(b"", &mut content.to_vec(), tag);
        assert_eq!((opened, at_end.number()), (end, u64::MAX));
    }
}

#[test]
fn a_record_has_no_more_content_than_the_limit_assumes() {
    let mut long = vec![1; CONTENT_MAX + 1];
    let mut sealer = sealer(Aead::Aes128Gcm, 0);
    let mut tag = [2; TAG];
    let too_long = StreamError::TooLong {
        bytes: CONTENT_MAX + 1,
    };
    let refused = sealer.seal_in_place(b"", &mut long, &mut tag);
    assert_eq!(refused, Err(too_long));
    assert!(long.iter().all(|byte| *byte == 1) && tag == [2; TAG]);
    assert_eq!(sealer.number(), 0);
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for aead in Aead::ALL {
        for bytes in (0..64).filter(|bytes| *bytes != aead.key_size()) {
            let refusal = Some(StreamError::KeySize { aead, bytes });
            let key = vec![0; bytes];
            assert_eq!(Sealer::new(aead, &key, &IV, 0).err(), refusal);
            assert_eq!(Opener::new(aead, &key, &IV, 0).err(), refusal);
        }
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (refusal, words) in [
        (
            StreamError::KeySize {
                aead: Aead::Aes128Gcm,
                bytes: 5,
            },
            "AES_128_GCM takes a key of 16 bytes, not of 5",
        ),
        (
            StreamError::TooLong { bytes: 20_000 },
            "a record of 20000 bytes, and 16385 is the most; send shorter records",
        ),
        (
            StreamError::MessageTooLong { bytes: 1 << 37 },
            "a message of 137438953472 bytes, and 68719476704 is the most; send several",
        ),
        (
            StreamError::Forged { number: 3 },
            "record 3 was not sealed with this key and this number, or changed on the way; end the \
             stream",
        ),
        (
            StreamError::KeyExhausted { records: 9 },
            "this key has sealed 9 records, as many as are safe; go on with a new key",
        ),
    ] {
        assert_eq!(refusal.to_string(), words);
    }
}
