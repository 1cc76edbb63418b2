//! The input is a key size, a driver, the length of the additional data, a bit of the tag that is altered, the number of
//! the record, and then additional data and content.

#![no_main]

use std::sync::LazyLock;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use libfuzzer_sys::fuzz_target;
use scrim_crypt::stream::{Aead, CONTENT_MAX, NONCE, Opener, Sealer, StreamError, TAG};
use scrim_crypt::{State, implementations};

/// Drivers that this processor can use.
static DRIVERS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let rows = implementations().iter();
    let ready = rows.filter(|row| row.name == "gcm(aes)" && row.state() == State::Ready);
    ready.map(|row| row.driver).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((&[size, driver, additional, bit, number], rest)) = input.split_first_chunk() else {
        return;
    };
    if DRIVERS.is_empty() {
        return;
    }
    let driver = DRIVERS[usize::from(driver) % DRIVERS.len()];
    let (aead, algorithm) = match size % 2 {
        0 => (Aead::Aes128Gcm, &AES_128_GCM),
        _ => (Aead::Aes256Gcm, &AES_256_GCM),
    };
    let key: Vec<u8> = (0..=u8::MAX)
        .map(|byte| byte ^ size)
        .take(aead.key_size())
        .collect();
    let (additional, content) = rest.split_at(rest.len().min(additional.into()));
    let content = &content[..content.len().min(CONTENT_MAX)];
    let mut nonce = [0; NONCE];
    nonce[NONCE - 1] = number;

    let theirs = LessSafeKey::new(UnboundKey::new(algorithm, &key).expect("a key of this size"));
    let mut expected = content.to_vec();
    let expected_tag = theirs
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(additional),
            &mut expected,
        )
        .expect("a record that is not too long");

    let number = number.into();
    let sealer = Sealer::new_with_driver(aead, driver, &key, &[0; NONCE], number);
    let (mut sealed, mut tag) = (content.to_vec(), [0; TAG]);
    let mut sealer = sealer.expect("a driver that is ready");
    let result = sealer.seal_in_place(additional, &mut sealed, &mut tag);
    assert_eq!(result, Ok(()));
    assert!(
        sealed == expected && tag == expected_tag.as_ref(),
        "{driver}"
    );

    let opener = || {
        let opener = Opener::new_with_driver(aead, driver, &key, &[0; NONCE], number);
        opener.expect("a driver that is ready")
    };
    let mut altered = tag;
    altered[usize::from(bit / 8) % TAG] ^= 1 << (bit % 8);
    let mut forged = sealed.clone();
    let result = opener().open_in_place(additional, &mut forged, &altered);
    assert_eq!(result, Err(StreamError::Forged { number }));
    assert!(forged.iter().all(|byte| *byte == 0));
    let result = opener().open_in_place(additional, &mut sealed, &tag);
    assert_eq!(result, Ok(()));
    assert!(sealed == content);
});
