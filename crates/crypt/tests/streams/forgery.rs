//! Pieces that an attacker changed, swapped, repeated or kept back.

use scrim_crypt::stream::{Aead, Limits, Nonces, Opener, Sealer, StreamError, TAG};

use super::{IV, key_of};

const XOR: Nonces = Nonces::Xor(IV);
const CONTENT: [u8; 40] = *b"what must not be known before it is sure";

fn sealed(aead: Aead, pieces: usize) -> Vec<Vec<u8>> {
    let mut sealer = Sealer::new(aead, &key_of(aead), XOR, 0).unwrap();
    let mut piece = || {
        let mut piece = [&CONTENT[..], &[0; TAG]].concat();
        sealer.seal_in_place(b"header", &mut piece).unwrap();
        piece
    };
    (0..pieces).map(|_| piece()).collect()
}

fn opener(aead: Aead) -> Opener {
    Opener::new(aead, &key_of(aead), XOR, 0).unwrap()
}

const FORGED: StreamError = StreamError::Forged { number: 0 };

/// No bit can be changed, and no byte that cannot be trusted is shown.
#[test]
fn every_bit_counts() {
    for aead in Aead::ALL {
        let sealed = &sealed(aead, 1)[0];
        let mut opener = opener(aead);
        for bit in 0..8 * sealed.len() {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let mut there = [0xff; CONTENT.len()];
            assert_eq!(opener.open(b"header", &changed, &mut there), Err(FORGED));
            assert_eq!(there, [0; CONTENT.len()]);
            assert_eq!(opener.open_in_place(b"header", &mut changed), Err(FORGED));
            assert_eq!(changed[..CONTENT.len()], [0; CONTENT.len()]);
        }
        for additional in [&b"Header"[..], b"", b"header."] {
            let opened = opener.open_in_place(additional, &mut sealed.clone()).err();
            assert_eq!(opened, Some(FORGED));
        }
        for len in TAG..sealed.len() {
            let opened = opener
                .open_in_place(b"header", &mut sealed[..len].to_vec())
                .err();
            assert_eq!(opened, Some(FORGED));
        }
        // None of them has moved the number.
        assert!(opener.open_in_place(b"header", &mut sealed.clone()).is_ok());
    }
}

#[test]
fn pieces_have_their_places() {
    for aead in Aead::ALL {
        let mut opener = opener(aead);
        let mut open = |piece: &[u8]| opener.open_in_place(b"header", &mut piece.to_vec()).is_ok();
        let pieces = sealed(aead, 4);
        assert!(!open(&pieces[1]), "too early");
        assert!(open(&pieces[0]));
        assert!(!open(&pieces[0]), "again");
        assert!(!open(&pieces[2]), "one was left out");
        assert!(open(&pieces[1]));
        assert!(open(&pieces[2]));
        assert!(!open(&[&pieces[3][..], b"x"].concat()));
        assert!(open(&pieces[3]));
    }
}

#[test]
fn other_keys_and_ivs_open_nothing() {
    for aead in Aead::ALL {
        let piece = &sealed(aead, 1)[0];
        let mut key = key_of(aead);
        key[0] ^= 1;
        let mut iv = IV;
        iv[0] ^= 1;
        for (key, nonces) in [(key, XOR), (key_of(aead), Nonces::Xor(iv))] {
            let mut opener = Opener::new(aead, &key, nonces, 0).unwrap();
            let opened = opener.open_in_place(b"header", &mut piece.clone()).err();
            assert_eq!(opened, Some(FORGED));
        }
    }
}

#[test]
fn after_too_many_forgeries_a_key_opens_nothing() {
    let aead = Aead::ChaCha20Poly1305;
    let limits = Limits {
        pieces: u64::MAX,
        forgeries: 3,
    };
    let mut opener = opener(aead).with_limits(limits);
    let piece = &sealed(aead, 1)[0];
    for _ in 0..3 {
        assert_eq!(
            opener.open(b"", piece, &mut [0; CONTENT.len()]),
            Err(FORGED)
        );
    }
    let refused = Err(StreamError::TooManyForgeries { forgeries: 3 });
    let mut there = [0; CONTENT.len()];
    assert_eq!(opener.open(b"header", piece, &mut there), refused);
    assert_eq!(opener.open_at(0, b"header", piece, &mut there), refused);
}
