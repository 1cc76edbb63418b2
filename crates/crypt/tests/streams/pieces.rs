//! Sequences of pieces.

use scrim_crypt::stream::{
    Aead, Limits, NONCE, Nonces, Opener, PIECE_MAX, Sealer, StreamError, TAG,
};

use super::{IV, key_of, sealed};
use crate::common::plaintext;

const XOR: Nonces = Nonces::Xor(IV);

fn sealer(aead: Aead, first: u64) -> Sealer {
    Sealer::new(aead, &key_of(aead), XOR, first).unwrap()
}

fn opener(aead: Aead, first: u64) -> Opener {
    Opener::new(aead, &key_of(aead), XOR, first).unwrap()
}

fn piece(sealer: &mut Sealer, content: &[u8]) -> Vec<u8> {
    let mut sealed = vec![0; content.len() + TAG];
    sealer.seal(b"", content, b"", &mut sealed).unwrap();
    sealed
}

#[test]
fn in_place_and_out_of_place_give_the_same() {
    let plain = plaintext(PIECE_MAX);
    let lens = (0..600).chain([4095, 16 << 10, PIECE_MAX]);
    for aead in Aead::ALL {
        let (mut here, mut there) = (sealer(aead, 7), sealer(aead, 7));
        let (mut open_here, mut open_there) = (opener(aead, 7), opener(aead, 7));
        for (number, len) in (7..).zip(lens.clone()) {
            let (additional, content) = (&plain[..len % 40], &plain[..len]);
            let mut record = [content, &[0; TAG]].concat();
            here.seal_in_place(additional, &mut record).unwrap();
            let mut other = vec![0; len + TAG];
            let (start, trailer) = content.split_at(len - len % 3);
            there.seal(additional, start, trailer, &mut other).unwrap();
            assert!(record == other, "{aead}, {len} bytes");
            assert!(record == sealed(aead, XOR.nonce(number), additional, content));

            let mut opened = vec![0; len];
            open_there.open(additional, &other, &mut opened).unwrap();
            assert!(opened == content, "{aead}, {len} bytes");
            let opened = open_here.open_in_place(additional, &mut record).unwrap();
            assert!(opened == content, "{aead}, {len} bytes");
        }
        assert_eq!(here.number(), 7 + 603);
        assert_eq!(open_there.number(), Some(7 + 603));
    }
}

/// AES-GCM in TLS 1.2: the number travels, and need not start anywhere.
#[test]
fn explicit_nonces() {
    let aead = Aead::Aes256Gcm;
    let nonces = Nonces::Salt(*b"salt");
    let first = 0x01_0203;
    let mut sealer = Sealer::new(aead, &key_of(aead), nonces, first).unwrap();
    let opener = Opener::new(aead, &key_of(aead), nonces, 0).unwrap();
    for content in [&b"one"[..], b"", b"three"] {
        let explicit = sealer.number().to_be_bytes();
        let mut record = [content, &[0; TAG]].concat();
        sealer.seal_in_place(b"header", &mut record).unwrap();
        let nonce: [u8; NONCE] = [&b"salt"[..], &explicit].concat().try_into().unwrap();
        assert_eq!(record, sealed(aead, nonce, b"header", content));
        let number = u64::from_be_bytes(explicit);
        let opened = opener.open_in_place_at(number, b"header", &mut record);
        assert_eq!(opened.unwrap(), content);
    }
    assert_eq!(sealer.number(), first + 3);
    assert_eq!(opener.number(), Some(0));
}

/// Pieces can be opened like those of a file: in any order, by several threads.
#[test]
fn pieces_can_be_opened_by_number() {
    let aead = Aead::Aes128Gcm;
    let mut sealer = sealer(aead, 0);
    let pieces: Vec<_> = (0..20).map(|n| piece(&mut sealer, &[n; 100])).collect();
    let opener = opener(aead, 0);
    let check = || {
        for (number, sealed) in pieces.iter().enumerate().rev() {
            let number = number as u64;
            let mut opened = [0; 100];
            opener.open_at(number, b"", sealed, &mut opened).unwrap();
            assert!(opened.iter().all(|byte| u64::from(*byte) == number));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(check);
        check();
    });
}

#[test]
fn a_sealer_stops_at_its_limit() {
    for aead in Aead::ALL {
        let limits = Limits {
            pieces: 12,
            forgeries: u64::MAX,
        };
        let mut sealer = sealer(aead, 10).with_limits(limits);
        assert_eq!(sealer.remaining(), 2);
        piece(&mut sealer, b"");
        piece(&mut sealer, b"");
        let mut record = [5; 20];
        let exhausted = Err(StreamError::KeyExhausted { pieces: 12 });
        assert_eq!(sealer.seal_in_place(b"", &mut record), exhausted);
        assert_eq!(record, [5; 20]);
        assert_eq!(sealer.seal(b"", b"", b"", &mut [0; TAG]), exhausted);
        assert_eq!((sealer.remaining(), sealer.number()), (0, 12));
    }
}

#[test]
fn limits_can_only_be_lowered() {
    let none = Limits {
        pieces: u64::MAX,
        forgeries: u64::MAX,
    };
    let sealer = sealer(Aead::Aes128Gcm, 0).with_limits(none);
    assert_eq!(sealer.remaining(), 23_726_566);
}

/// Pieces that a key has sealed elsewhere count.
#[test]
fn a_key_handed_over_late_is_exhausted_early() {
    let mut sealer = sealer(Aead::Aes128Gcm, 23_726_565);
    piece(&mut sealer, b"the last");
    let refused = sealer.seal_in_place(b"", &mut [0; TAG]);
    let pieces = 23_726_566;
    assert_eq!(refused, Err(StreamError::KeyExhausted { pieces }));
}

/// Without a limit of its own ChaCha20-Poly1305 ends where the numbers do, and never wraps.
#[test]
fn numbers_do_not_wrap() {
    let aead = Aead::ChaCha20Poly1305;
    let end = StreamError::KeyExhausted { pieces: u64::MAX };
    let mut sealer = sealer(aead, u64::MAX - 1);
    let last = piece(&mut sealer, b"last");
    assert_eq!(sealer.seal_in_place(b"", &mut [0; TAG]), Err(end));

    let mut at_end = opener(aead, u64::MAX - 1);
    at_end.open(b"", &last, &mut [0; 4]).unwrap();
    assert_eq!(at_end.number(), Some(u64::MAX));
    let mut very_last = sealed(aead, XOR.nonce(u64::MAX), b"", b"!");
    assert_eq!(at_end.open_in_place(b"", &mut very_last).unwrap(), b"!");
    assert_eq!(at_end.number(), None);
    assert_eq!(at_end.open(b"", &last, &mut [0; 4]), Err(end));
}

#[test]
fn pieces_have_a_tag_and_no_more_than_fits() {
    let aead = Aead::Aes128Gcm;
    let mut long = vec![1; PIECE_MAX + 1 + TAG];
    let too_long = StreamError::TooLong {
        bytes: PIECE_MAX + 1,
    };
    let mut sealer = sealer(aead, 0);
    assert_eq!(sealer.seal_in_place(b"", &mut long), Err(too_long));
    assert!(long.iter().all(|byte| *byte == 1));
    let content = vec![0; PIECE_MAX];
    assert_eq!(sealer.seal(b"", &content, b"x", &mut long), Err(too_long));
    assert_eq!(sealer.number(), 0);

    let mut opener = opener(aead, 0);
    assert_eq!(opener.open_in_place(b"", &mut long), Err(too_long));
    for bytes in 0..TAG {
        let too_short = StreamError::TooShort { bytes };
        let short = &mut long[..bytes];
        assert_eq!(sealer.seal_in_place(b"", short), Err(too_short));
        assert_eq!(opener.open(b"", short, &mut []), Err(too_short));
        assert_eq!(opener.open_in_place(b"", short), Err(too_short));
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for aead in Aead::ALL {
        for bytes in (0..64).filter(|bytes| *bytes != aead.key_size()) {
            let refusal = Some(StreamError::KeySize { aead, bytes });
            let key = vec![0; bytes];
            assert_eq!(Sealer::new(aead, &key, XOR, 0).err(), refusal);
            assert_eq!(Opener::new(aead, &key, XOR, 0).err(), refusal);
        }
    }
}

#[test]
#[should_panic(expected = "4 bytes and a tag for a destination of 4")]
fn a_destination_has_room_for_the_tag() {
    let _ = sealer(Aead::Aes128Gcm, 0).seal(b"", b"thre", b"", &mut [0; 4]);
}

#[test]
#[should_panic(expected = "a piece of 4 bytes for a destination of 5")]
fn a_destination_is_as_long_as_the_content() {
    let _ = opener(Aead::Aes128Gcm, 0).open(b"", &[0; 20], &mut [0; 5]);
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
            "a piece of 20000 bytes, and 16385 is the most; cut the stream smaller",
        ),
        (
            StreamError::Forged { number: 3 },
            "piece 3 was not sealed with this key and this number, or changed on the way; end the \
             stream",
        ),
        (
            StreamError::KeyExhausted { pieces: 9 },
            "this key has sealed 9 pieces, as many as are safe; go on with a new key",
        ),
    ] {
        assert_eq!(refusal.to_string(), words);
    }
}
