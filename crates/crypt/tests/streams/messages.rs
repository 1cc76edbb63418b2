//! Messages with one tag.

use std::cell::Cell;

use scrim_crypt::stream::{Aead, Message, MessageError, MessageKey, StreamError};
use scrim_seeded::Random;

use super::{IV, Sealed, key_of, part};

/// Longer than what is read once.
const LONG: usize = 100_000;
/// Parts in which a message of that length is read.
const WINDOW: usize = 16 << 10;

#[test]
fn messages_are_those_of_one_call() {
    let mut random = Random::new(11);
    let mut lens: Vec<_> = (0..200).collect();
    for edge in [4096, WINDOW, 2 * WINDOW, 20 << 20] {
        lens.extend([edge - 17, edge - 1, edge, edge + 1, edge + 16]);
    }
    lens.extend((0..20).map(|_| random.index(LONG)));
    for aead in Aead::ALL {
        for len in &lens {
            let sealed = Sealed::new(aead, *len, len % 50);
            let (emitted, opened) = sealed.open();
            assert_eq!(opened, Ok(()), "{aead}, {len} bytes");
            assert!(emitted == sealed.plain, "{aead}, {len} bytes");
        }
    }
}

#[test]
fn a_change_anywhere_is_noticed_before_anything_is_let_out() {
    let mut random = Random::new(12);
    for aead in Aead::ALL {
        for len in [0, 1, 100, LONG] {
            for what in 0..20 {
                let mut sealed = Sealed::new(aead, len, 20);
                let mask = 1 << random.index(8);
                match what {
                    0 => sealed.tag[random.index(16)] ^= mask,
                    1 => sealed.additional[random.index(20)] ^= mask,
                    2 => sealed.additional.push(0),
                    3 => sealed.bytes.push(0),
                    _ if len == 0 => continue,
                    4 => drop(sealed.bytes.pop()),
                    _ => sealed.bytes[random.index(len)] ^= mask,
                }
                let (emitted, opened) = sealed.open();
                assert_eq!(opened, Err(MessageError::Forged), "{aead}, {len}, {what}");
                assert!(emitted.is_empty());
            }
        }
    }
}

/// Changing the input after the first pass gains nothing, whatever byte of whatever window is changed,
/// and whatever follows.
#[test]
fn a_change_between_the_passes_is_noticed_before_it_is_let_out() {
    let mut random = Random::new(13);
    for aead in Aead::ALL {
        let sealed = Sealed::new(aead, LONG, 3);
        for window in 0..LONG.div_ceil(WINDOW) {
            let start = window * WINDOW;
            let end = LONG.min(start + WINDOW);
            for target in [start, start + random.index(end - start), end - 1] {
                let reads = Cell::new(0);
                let (emitted, opened) = sealed.open_with::<()>(|at, buffer| {
                    buffer.copy_from_slice(part(&sealed.bytes, at, buffer.len()));
                    let at = usize::try_from(at).unwrap();
                    reads.set(reads.get() + 1);
                    if reads.get() > LONG.div_ceil(WINDOW)
                        && (at..at + buffer.len()).contains(&target)
                    {
                        buffer[target - at] ^= 0x40;
                    }
                    Ok(())
                });
                let emitted_before = start as u64;
                assert_eq!(
                    opened,
                    Err(MessageError::Changed {
                        emitted: emitted_before
                    })
                );
                assert!(emitted == sealed.plain[..start]);
            }
        }
    }
}

/// Another message under the same key is also a change.
#[test]
fn messages_cannot_be_exchanged_between_the_passes() {
    for aead in Aead::ALL {
        let (one, other) = (Sealed::new(aead, LONG, 3), Sealed::new(aead, LONG, 4));
        assert!(one.bytes == other.bytes && one.tag != other.tag);
        assert_eq!(
            Sealed {
                tag: other.tag,
                ..one
            }
            .open()
            .1,
            Err(MessageError::Forged)
        );
    }
}

#[test]
fn long_messages_are_read_twice_and_in_order() {
    for (len, passes) in [(0, 0), (1, 1), (WINDOW, 1), (WINDOW + 1, 2), (LONG, 2)] {
        let sealed = Sealed::new(Aead::Aes256Gcm, len, 0);
        let mut read = Vec::new();
        let (_, opened) = sealed.open_with::<()>(|at, buffer| {
            read.push((at, buffer.len()));
            buffer.copy_from_slice(part(&sealed.bytes, at, buffer.len()));
            Ok(())
        });
        opened.unwrap();
        let once = (0..len)
            .step_by(WINDOW)
            .map(|at| (at as u64, WINDOW.min(len - at)));
        let expected: Vec<_> = (0..passes).flat_map(|_| once.clone()).collect();
        assert_eq!(read, expected);
    }
}

#[test]
fn failures_of_the_caller_are_handed_back() {
    let sealed = Sealed::new(Aead::ChaCha20Poly1305, LONG, 0);
    let windows = LONG.div_ceil(WINDOW);
    for failing in 0..2 * windows {
        let mut reads = 0;
        let (emitted, opened) = sealed.open_with(|at, buffer| {
            buffer.copy_from_slice(part(&sealed.bytes, at, buffer.len()));
            reads += 1;
            if reads > failing { Err("read") } else { Ok(()) }
        });
        assert_eq!(opened, Err(MessageError::Caller("read")));
        let emitted_windows = failing.saturating_sub(windows);
        assert!(emitted == sealed.plain[..emitted_windows * WINDOW]);
    }
    let key = MessageKey::new(sealed.aead, &key_of(sealed.aead)).unwrap();
    let read = |at, buffer: &mut [u8]| {
        buffer.copy_from_slice(part(&sealed.bytes, at, buffer.len()));
        Ok(())
    };
    let opened = key.open(&sealed.message(), read, |_| Err("emit"));
    assert_eq!(opened, Err(MessageError::Caller("emit")));
}

#[test]
fn lengths_beyond_the_limit_are_refused_unread() {
    let refused = |key: &MessageKey, bytes| {
        let message = Message {
            nonce: IV,
            additional: b"",
            bytes,
            tag: [0; 16],
        };
        let unread = |_, _: &mut [u8]| Err("read");
        key.open(&message, unread, |_| panic!("emitted"))
    };
    for (aead, most) in [
        (Aead::Aes128Gcm, (1 << 36) - 32),
        (Aead::Aes256Gcm, (1 << 36) - 32),
        (Aead::ChaCha20Poly1305, (1 << 38) - 64),
    ] {
        let key = MessageKey::new(aead, &key_of(aead)).unwrap();
        for bytes in [most + 1, u64::MAX] {
            let too_long = Err(MessageError::TooLong { bytes, most });
            assert_eq!(refused(&key, bytes), too_long);
        }
        assert_eq!(refused(&key, most), Err(MessageError::Caller("read")));

        let key = key.with_limit(1000).with_limit(u64::MAX);
        let too_long = MessageError::TooLong {
            bytes: 1001,
            most: 1000,
        };
        assert_eq!(refused(&key, 1001), Err(too_long));
        assert_eq!(refused(&key, 1000), Err(MessageError::Caller("read")));
    }
}

#[test]
fn after_too_many_forgeries_a_key_opens_nothing() {
    for aead in Aead::ALL {
        let key = MessageKey::new(aead, &key_of(aead))
            .unwrap()
            .with_forgeries(2)
            .with_forgeries(u64::MAX);
        let open = |tag: [u8; 16]| {
            let message = Message {
                nonce: IV,
                additional: b"",
                bytes: 5,
                tag,
            };
            let read = |_: u64, part: &mut [u8]| {
                part.fill(1);
                Ok::<_, ()>(())
            };
            key.open(&message, read, |_| panic!("emitted"))
        };
        assert_eq!(open([0; 16]), Err(MessageError::Forged));
        assert_eq!(open([1; 16]), Err(MessageError::Forged));
        let refused = MessageError::TooManyForgeries { forgeries: 2 };
        assert_eq!(open([2; 16]), Err(refused));
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for aead in Aead::ALL {
        for bytes in (0..64).filter(|bytes| *bytes != aead.key_size()) {
            let refusal = Some(StreamError::KeySize { aead, bytes });
            assert_eq!(MessageKey::new(aead, &vec![0; bytes]).err(), refusal);
        }
    }
}
