//! Records that an attacker changed, swapped, repeated or kept back.

use scrim_crypt::stream::{Aead, NONCE, Opener, Sealer, StreamError, TAG};

use super::{IV, key_of};

const CONTENT: [u8; 40] = *b"what must not be known before it is sure";
const FORGED: Result<(), StreamError> = Err(StreamError::Forged { number: 0 });

fn sealed(aead: Aead, records: usize) -> Vec<Vec<u8>> {
    let mut sealer = Sealer::new(aead, &key_of(aead), &IV, 0).unwrap();
    let mut record = || {
        let (mut content, mut tag) = (CONTENT, [0; TAG]);
        sealer
            .seal_in_place(b"header", &mut content, &mut tag)
            .unwrap();
        [&content[..], &tag].concat()
    };
    (0..records).map(|_| record()).collect()
}

fn opener(aead: Aead) -> Opener {
    Opener::new(aead, &key_of(aead), &IV, 0).unwrap()
}

/// Opens content and tag; also returns what was left in the place of the content.
fn open(
    opener: &mut Opener,
    additional: &[u8],
    record: &[u8],
) -> (Result<(), StreamError>, Vec<u8>) {
    let (content, tag) = record.split_last_chunk().unwrap();
    let mut content = content.to_vec();
    let opened = opener.open_in_place(additional, &mut content, tag);
    (opened, content)
}

/// No bit can be changed, and no byte that cannot be trusted is shown.
#[test]
fn every_bit_counts() {
    for aead in Aead::ALL {
        let sealed = &sealed(aead, 1)[0];
        let mut opener = opener(aead);
        for bit in 0..8 * sealed.len() {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let opened = open(&mut opener, b"header", &changed);
            assert_eq!(opened, (FORGED, vec![0; CONTENT.len()]));
        }
        for additional in [&b"Header"[..], b"", b"header."] {
            assert_eq!(open(&mut opener, additional, sealed).0, FORGED);
        }
        for len in TAG..sealed.len() {
            let opened = open(&mut opener, b"header", &sealed[..len]);
            assert_eq!(opened, (FORGED, vec![0; len - TAG]));
        }
        // None of them has moved the number.
        let opened = open(&mut opener, b"header", sealed);
        assert_eq!(opened, (Ok(()), CONTENT.to_vec()));
    }
}

#[test]
fn records_have_their_places() {
    for aead in Aead::ALL {
        let mut opener = opener(aead);
        let mut open = |record: &[u8]| open(&mut opener, b"header", record).0.is_ok();
        let records = sealed(aead, 4);
        assert!(!open(&records[1]), "too early");
        assert!(open(&records[0]));
        assert!(!open(&records[0]), "again");
        assert!(!open(&records[2]), "one was left out");
        assert!(open(&records[1]));
        assert!(open(&records[2]));
        assert!(!open(&[&records[3][..], b"x"].concat()));
        assert!(open(&records[3]));
    }
}

#[test]
fn other_keys_and_ivs_open_nothing() {
    for aead in Aead::ALL {
        let record = &sealed(aead, 1)[0];
        let mut key = key_of(aead);
        key[0] ^= 1;
        let mut iv = IV;
        iv[0] ^= 1;
        let mut end = IV;
        end[NONCE - 1] ^= 1;
        for (key, iv) in [(key, IV), (key_of(aead), iv), (key_of(aead), end)] {
            let mut opener = Opener::new(aead, &key, &iv, 0).unwrap();
            assert_eq!(open(&mut opener, b"header", record).0, FORGED);
        }
    }
}

/// An explicit nonce replaces the end of the IV, and nothing else.
#[test]
fn other_explicit_nonces_and_salts_open_nothing() {
    let aead = Aead::Aes128Gcm;
    let record = &sealed(aead, 1)[0];
    let (content, tag) = record.split_last_chunk().unwrap();
    let (_, explicit) = IV.split_last_chunk().unwrap();
    let mut other = *explicit;
    other[7] ^= 1;
    let mut salt = IV;
    salt[0] ^= 1;
    for (iv, explicit, opens) in [
        (IV, *explicit, true),
        (IV, other, false),
        (salt, *explicit, false),
    ] {
        let mut opener = Opener::new(aead, &key_of(aead), &iv, 0).unwrap();
        let mut content = content.to_vec();
        let opened = opener.open_in_place_with(explicit, b"header", &mut content, tag);
        assert_eq!(opened.is_ok(), opens);
        assert_eq!(opener.number(), u64::from(opens));
    }
}
