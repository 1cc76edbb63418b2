//! The input is the bytes that an HTTP/1 client sends: a head, and the bytes after it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_serve::http::{Framing, Head, HeadLimits, Refusal, Skipper};

fuzz_target!(|bytes: &[u8]| {
    let limits = HeadLimits::default();
    match Head::parse(bytes, &limits) {
        Err(refusal) => assert!(refusal.status().as_u16() >= 400),
        Ok(None) => assert!(bytes.len() < limits.head),
        Ok(Some(head)) => {
            let (own, rest) = bytes.split_at(head.length);
            // The head is not complete before its last byte, and is the same without the bytes after it.
            assert!(matches!(
                Head::parse(&own[..own.len() - 1], &limits),
                Ok(None)
            ));
            let alone = Head::parse(own, &limits)
                .expect("it was accepted")
                .expect("it is whole");
            assert_eq!((alone.length, alone.framing), (head.length, head.framing));
            check(&head, own);
            skip(head.framing, rest);
        }
    }
});

/// Reads an accepted head again, line by line, as the simplest server would.
fn check(head: &Head<'_>, bytes: &[u8]) {
    assert!(head.request.target.starts_with('/') || head.request.target == "*");
    assert!(!head.request.target.contains(['#', ' ', '\r', '\n', '\0']));
    let start = bytes
        .iter()
        .position(|byte| !b"\r\n".contains(byte))
        .expect("a line");
    let lines = bytes[start..].strip_suffix(b"\r\n\r\n").expect("an end");
    let mut values = [const { Vec::new() }; 3];
    for line in lines.split(|&byte| byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(!line.contains(&b'\r') && !line.contains(&0) && !line.is_empty());
        let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
        assert!(line[..colon].iter().all(u8::is_ascii_graphic) && colon > 0);
        let name = line[..colon].to_ascii_lowercase();
        let names: [&[u8]; 3] = [b"host", b"content-length", b"transfer-encoding"];
        if let Some(at) = names.iter().position(|&it| it == name) {
            values[at].push(line[colon + 1..].trim_ascii());
        }
    }
    let [hosts, lengths, codings] = values;
    assert!(hosts.len() == 1 || (head.is_old && hosts.is_empty()));
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => assert_eq!(head.framing, Framing::None),
        ([length], []) => {
            let said: u64 = std::str::from_utf8(length)
                .expect("digits")
                .parse()
                .expect("a number");
            let wanted = if said == 0 {
                Framing::None
            } else {
                Framing::Length(said)
            };
            assert_eq!(head.framing, wanted);
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked"));
            assert_eq!(head.framing, Framing::Chunked);
        }
        _ => panic!("two readings of where it ends"),
    }
}

/// Checks that content ends at the same offset whether it arrives at once or byte by byte.
fn skip(framing: Framing, bytes: &[u8]) {
    let Ok(mut whole) = Skipper::new(framing, 4096) else {
        return;
    };
    let mut slow = whole.clone();
    let at_once = whole.skip(bytes);
    let mut skipped = 0;
    let mut failed: Option<Refusal> = None;
    for byte in bytes.chunks(1) {
        match slow.skip(byte) {
            Ok(one) if one.bytes == 1 => skipped += 1,
            Ok(_) => break,
            Err(refusal) => {
                failed = Some(refusal);
                break;
            }
        }
    }
    match at_once {
        Ok(all) => assert_eq!(
            (all.bytes, all.is_all, failed),
            (skipped, slow.is_done(), None)
        ),
        Err(refusal) => assert_eq!(failed, Some(refusal)),
    }
}
