//! The handshake phase: options, in order and out of it, and their replies.

use scrim_export::limits::Limits;
use scrim_export::nbd::limits;

use crate::common::*;

const ERR_UNSUP: u32 = ERR | 1;
const ERR_POLICY: u32 = ERR | 2;
const ERR_INVALID: u32 = ERR | 3;
const ERR_UNKNOWN: u32 = ERR | 6;
const ERR_TOO_BIG: u32 = ERR | 9;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;

fn two_exports() -> Served {
    let (first, _) = crypt_volume(MIB);
    let backend = Counting::new(MIB);
    let table = crypt_table(MIB, "2 allow_discards sector_size:4096");
    let second = volume(&table, &backend);
    let exports = vec![export("first", first), export("second", second)];
    Served::with(exports, Limits::default())
}

fn kinds(replies: &[(u32, Vec<u8>)]) -> Vec<u32> {
    replies.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn export_name_enters_transmission_with_and_without_zeroes() {
    let served = two_exports();
    for (client_flags, padding) in [(1, 124), (3, 0), (0, 124)] {
        let mut raw = served.connect();
        raw.greet(client_flags);
        raw.send_option(EXPORT_NAME, b"first");
        assert_eq!(raw.receive_u64(), MIB);
        // HAS_FLAGS, SEND_FLUSH, SEND_FUA, WRITE_ZEROES, MULTI_CONN, CACHE, FAST_ZERO
        assert_eq!(raw.receive(2), 0b1101_0100_1101_u16.to_be_bytes());
        assert_eq!(raw.receive(padding), vec![0; padding]);
        assert_eq!(raw.read(0, 512).unwrap().len(), 512);
    }
}

#[test]
fn exports_are_listed_and_described() {
    let served = two_exports();
    let mut raw = served.connect();
    raw.greet(3);
    let replies = raw.option(LIST, b"");
    assert_eq!(kinds(&replies), [2, 2, ACK]);
    assert_eq!(replies[0].1, b"\0\0\0\x05firstthe export first");
    assert_eq!(replies[1].1, b"\0\0\0\x06secondthe export second");

    let size = MIB.to_be_bytes();
    let replies = raw.option(INFO, &info_data("second", &[3, 2, 1, 99]));
    assert_eq!(kinds(&replies), [3, 3, 3, 3, ACK]);
    assert_eq!(replies[0].1[..2], [0, 0]);
    assert_eq!(replies[0].1[2..10], size);
    // As above, with SEND_TRIM.
    assert_eq!(replies[0].1[10..], 0b1101_0110_1101_u16.to_be_bytes());
    assert_eq!(replies[1].1, b"\0\x01second");
    assert_eq!(replies[2].1, b"\0\x02the export second");
    assert_eq!(replies[3].1, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0");

    let replies = raw.option(INFO, &info_data("first", &[3]));
    assert_eq!(replies[1].1, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0");
}

#[test]
fn the_first_export_is_the_default_and_an_unknown_one_is_refused() {
    let served = two_exports();
    let mut raw = served.connect();
    raw.greet(3);
    let replies = raw.option(GO, &info_data("third", &[]));
    assert_eq!(kinds(&replies), [ERR_UNKNOWN]);
    let replies = raw.option(INFO, &info_data("", &[1]));
    assert_eq!(replies[1].1, b"\0\x01first");
    raw.go("");
    assert_eq!(raw.read(0, 512).unwrap().len(), 512);
    let client = &served.server.status().clients[0];
    assert_eq!(client.export.as_deref(), Some("first"));
}

#[test]
fn structured_replies_bring_dont_fragment() {
    let served = two_exports();
    let mut raw = served.connect();
    raw.greet(3);
    assert_eq!(raw.option(STRUCTURED_REPLY, b""), [(ACK, vec![])]);
    let replies = raw.option(GO, &info_data("first", &[]));
    assert_eq!(replies[0].1[10..], 0b1101_1100_1101_u16.to_be_bytes());
}

#[test]
fn metadata_contexts_are_listed_and_selected() {
    let served = two_exports();
    let mut raw = served.connect();
    raw.greet(3);
    for code in [LIST_META_CONTEXT, SET_META_CONTEXT] {
        let replies = raw.option(code, &meta_data("first", &["base:allocation"]));
        assert_eq!(kinds(&replies), [ERR_INVALID], "without structured replies");
    }
    raw.option(STRUCTURED_REPLY, b"");
    for (queries, found) in [
        (&[][..], true),
        (&["base:"], true),
        (&["qemu:", "base:allocation"], true),
        (&["base:other"], false),
        (&["qemu:allocation-depth"], false),
    ] {
        let replies = raw.option(LIST_META_CONTEXT, &meta_data("first", queries));
        let expected = if found { vec![4, ACK] } else { vec![ACK] };
        assert_eq!(kinds(&replies), expected, "{queries:?}");
    }
    for (queries, found) in [
        (&[][..], false),
        (&["base:"], false),
        (&["base:allocation", "base:allocation"], true),
    ] {
        let replies = raw.option(SET_META_CONTEXT, &meta_data("first", queries));
        let expected = if found { vec![4, ACK] } else { vec![ACK] };
        assert_eq!(kinds(&replies), expected, "{queries:?}");
    }
    let replies = raw.option(LIST_META_CONTEXT, &meta_data("third", &[]));
    assert_eq!(kinds(&replies), [ERR_UNKNOWN]);
}

/// A selection counts for the export it was made for, and until the next one, even a failing one.
#[test]
fn a_selection_is_replaced_by_the_next() {
    let served = two_exports();
    for (then, works) in [
        (None, true),
        (Some(meta_data("first", &["x:y"])), false),
        (Some(meta_data("third", &["base:allocation"])), false),
        (Some(meta_data("second", &["base:allocation"])), false),
        (Some(b"malformed".to_vec()), false),
    ] {
        let mut raw = served.connect();
        raw.structured = true;
        raw.greet(3);
        raw.option(STRUCTURED_REPLY, b"");
        raw.option(SET_META_CONTEXT, &meta_data("first", &["base:allocation"]));
        if let Some(data) = &then {
            raw.option(SET_META_CONTEXT, data);
        }
        raw.go("first");
        raw.request(0, BLOCK_STATUS, 1, 0, 4096);
        assert_eq!(raw.chunk().kind == 5, works, "{then:?}");
    }
}

#[test]
fn other_options_are_refused_and_the_handshake_goes_on() {
    let served = two_exports();
    let mut raw = served.connect();
    raw.greet(3);
    let long = vec![b'x'; limits::OPTION_DATA as usize + 1];
    for (code, data, expected) in [
        (STARTTLS, &b""[..], ERR_POLICY),
        (4, b"", ERR_UNSUP),
        (11, b"", ERR_UNSUP),
        (u32::MAX, b"some data", ERR_UNSUP),
        (LIST, b"x", ERR_INVALID),
        (STRUCTURED_REPLY, b"x", ERR_INVALID),
        (GO, b"", ERR_INVALID),
        (GO, b"\xff\xff\xff\xff\0\0", ERR_INVALID),
        (GO, b"\0\0\0\x01\xff\0\0", ERR_INVALID),
        (GO, &long, ERR_TOO_BIG),
        (12345, &long, ERR_TOO_BIG),
    ] {
        let replies = raw.option(code, data);
        assert_eq!(kinds(&replies), [expected], "option {code}");
        assert!(str::from_utf8(&replies[0].1).is_ok_and(|reason| !reason.is_empty()));
    }
    raw.go("second");
    assert_eq!(raw.read(0, 512).unwrap().len(), 512);
}

#[test]
fn abort_is_acknowledged() {
    let served = two_exports();
    let mut raw = served.connect();
    raw.greet(3);
    assert_eq!(raw.option(ABORT, b"ignored"), [(ACK, vec![])]);
    assert!(raw.is_closed());
    served.wait_until_no_client();
    assert!(served.server.status().events.is_empty());
}
