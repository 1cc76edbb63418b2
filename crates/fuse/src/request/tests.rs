use scrim_seeded::Random;

use super::*;

/// A request of `kind` with `body`, under a sound header.
fn request(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(u32::try_from(IN_HEADER + body.len()).unwrap().to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(0x1122_3344_5566_7788u64.to_ne_bytes());
    bytes.extend(9u64.to_ne_bytes());
    for field in [1000u32, 100, 4242, 0] {
        bytes.extend(field.to_ne_bytes());
    }
    bytes.extend(body);
    bytes
}

/// A body of fields, each 32 or 64 bits.
fn body(fields: &[(u64, usize)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(value, len) in fields {
        match len {
            4 => bytes.extend(u32::try_from(value).unwrap().to_ne_bytes()),
            _ => bytes.extend(value.to_ne_bytes()),
        }
    }
    bytes
}

#[test]
fn a_header_is_read_at_the_offsets_of_the_kernel() {
    let header = Header::parse(&request(opcode::STATFS, &[])).unwrap();
    assert_eq!(
        header,
        Header {
            opcode: opcode::STATFS,
            unique: 0x1122_3344_5566_7788,
            node: 9,
            uid: 1000,
            gid: 100,
            pid: 4242,
        }
    );
}

#[test]
fn a_header_announces_the_length_that_was_read() {
    let whole = request(opcode::STATFS, &[]);
    for len in 0..whole.len() {
        let cut = Header::parse(&whole[..len]);
        assert_eq!(cut, Err(Malformed::Header { len }));
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert_eq!(
        Header::parse(&longer),
        Err(Malformed::Length {
            announced: 40,
            len: 41
        })
    );
}

#[test]
fn a_write_keeps_its_payload_in_place() {
    let mut fields = body(&[(3, 8), (4096, 8), (5, 4), (1, 4), (0, 8), (0o1, 4), (0, 4)]);
    fields.extend(b"hello");
    let mut bytes = request(opcode::WRITE, &fields);
    let start = bytes.as_ptr() as usize;
    let parsed = Request::parse(&mut bytes).unwrap();
    let Operation::Write(write, payload) = parsed.operation else {
        panic!("{parsed:?}");
    };
    assert_eq!(
        write,
        Write {
            handle: 3,
            offset: 4096,
            write_flags: 1,
            flags: 1
        }
    );
    assert_eq!(payload, b"hello");
    assert_eq!(payload.as_ptr() as usize, start + IN_HEADER + WRITE_IN);
}

#[test]
fn a_write_does_not_announce_more_than_there_is() {
    for size in [6, u32::MAX] {
        let mut fields = body(&[
            (3, 8),
            (0, 8),
            (size.into(), 4),
            (0, 4),
            (0, 8),
            (0, 4),
            (0, 4),
        ]);
        fields.extend(b"hello");
        let mut bytes = request(opcode::WRITE, &fields);
        assert_eq!(
            Request::parse(&mut bytes),
            Err(Malformed::Body {
                opcode: opcode::WRITE
            })
        );
    }
}

fn operation(bytes: &mut [u8]) -> Operation<'_> {
    Request::parse(bytes).unwrap().operation
}

#[test]
fn names_end_with_nul_and_have_none_inside() {
    let parse = |name: &[u8]| match Request::parse(&mut request(opcode::LOOKUP, name)) {
        Ok(Request {
            operation: Operation::Lookup { name },
            ..
        }) => Some(name.to_vec()),
        _ => None,
    };
    assert_eq!(parse(b"disk\0"), Some(b"disk".to_vec()));
    assert_eq!(parse(b"\xff\n\0"), Some(b"\xff\n".to_vec()));
    for wrong in [&b""[..], b"\0", b"disk", b"di\0sk\0", b"a/b\0"] {
        assert_eq!(parse(wrong), None, "{wrong:?}");
    }
    let long = |len: usize| [vec![b'x'; len], vec![0]].concat();
    assert!(parse(&long(NAME_MAX)).is_some());
    assert!(parse(&long(NAME_MAX + 1)).is_none());
}

#[test]
fn a_batch_of_forgets_is_as_long_as_it_says() {
    let list = body(&[(2, 4), (0, 4), (7, 8), (1, 8), (8, 8), (3, 8)]);
    let mut bytes = request(opcode::BATCH_FORGET, &list);
    let Operation::BatchForget(forgets) = operation(&mut bytes) else {
        panic!("not a batch");
    };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [(7, 1), (8, 3)]);
    for count in [3, u32::MAX] {
        let mut wrong = list.clone();
        wrong[..4].copy_from_slice(&count.to_ne_bytes());
        assert!(Request::parse(&mut request(opcode::BATCH_FORGET, &wrong)).is_err());
    }
}

#[test]
fn an_offer_has_its_second_flags_only_if_it_says_so() {
    let ext = crate::wire::init::INIT_EXT;
    let parse = |flags: u64, more: &[(u64, usize)]| {
        let fields = [&[(7, 4), (45, 4), (131_072, 4), (flags, 4)], more].concat();
        match Request::parse(&mut request(opcode::INIT, &body(&fields))) {
            Ok(Request {
                operation: Operation::Init(init),
                ..
            }) => Some(init.flags),
            _ => None,
        }
    };
    assert_eq!(parse(1, &[]), Some(1));
    assert_eq!(parse(1, &[(0x10, 4)]), Some(1));
    assert_eq!(parse(ext, &[(0x10, 4)]), Some(ext | 1 << 36));
    assert_eq!(parse(ext, &[]), None);
}

#[test]
fn attributes_are_changed_only_where_their_bit_is_set() {
    let fields = |valid: u32| {
        body(&[
            (valid.into(), 4),
            (0, 4),
            (1, 8),
            (4096, 8),
            (0, 8),
            (10, 8),
            (u64::MAX, 8),
            (12, 8),
            (100, 4),
            (u64::from(u32::MAX), 4),
            (300, 4),
            (0o100_644, 4),
            (0, 4),
            (1000, 4),
            (100, 4),
            (0, 4),
        ])
    };
    let parse = |valid| match operation(&mut request(opcode::SETATTR, &fields(valid))) {
        Operation::SetAttributes(changes) => changes,
        other => panic!("{other:?}"),
    };
    assert_eq!(parse(0), SetAttributes::default());
    // `FATTR_FH`: the request names an open file, which changes nothing.
    assert_eq!(parse(1 << 6), SetAttributes::default());
    assert_eq!(parse(set::SIZE).size, Some(4096));
    assert_eq!(parse(set::MODE).permissions, Some(0o644));
    assert_eq!(
        (parse(set::UID).uid, parse(set::GID).gid),
        (Some(1000), Some(100))
    );
    let accessed = Time {
        seconds: 10,
        nanoseconds: 100,
    };
    assert_eq!(parse(set::ATIME).accessed, Some(NewTime::At(accessed)));
    let modified = Time {
        seconds: -1,
        nanoseconds: 999_999_999,
    };
    assert_eq!(parse(set::MTIME).modified, Some(NewTime::At(modified)));
    let now = parse(set::MTIME | set::MTIME_NOW).modified;
    assert_eq!(now, Some(NewTime::Now));
}

#[test]
fn modes_of_fallocate_and_lseek_are_known_or_other() {
    let mode = |mode| {
        let fields = body(&[(1, 8), (2, 8), (3, 8), (mode, 4), (0, 4)]);
        match operation(&mut request(opcode::FALLOCATE, &fields)) {
            Operation::Allocate(allocate) => allocate.mode,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(mode(0), AllocateMode::Reserve { keep_size: false });
    assert_eq!(mode(1), AllocateMode::Reserve { keep_size: true });
    assert_eq!(mode(3), AllocateMode::PunchHole);
    assert_eq!(mode(0x10), AllocateMode::ZeroRange { keep_size: false });
    assert_eq!(mode(0x11), AllocateMode::ZeroRange { keep_size: true });
    for other in [2, 4, 8, 0x13, 0x40, u32::MAX] {
        assert_eq!(mode(other.into()), AllocateMode::Other(other));
    }
    let whence = |whence| {
        let fields = body(&[(1, 8), (2, 8), (whence, 4), (0, 4)]);
        match operation(&mut request(opcode::LSEEK, &fields)) {
            Operation::Seek(seek) => seek.whence,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(whence(3), Whence::Data);
    assert_eq!(whence(4), Whence::Hole);
    assert_eq!(whence(5), Whence::Other(5));
}

/// Every kind with a body of every length up to that of the longest structure: a request or an error.
#[test]
fn no_length_of_any_kind_panics() {
    let mut random = Random::new(1);
    for kind in 0..=60 {
        for len in 0..=120 {
            let mut body = vec![0; len];
            random.fill(&mut body);
            let mut bytes = request(kind, &body);
            let parsed = Request::parse(&mut bytes);
            if let Ok(Request {
                operation: Operation::BatchForget(forgets),
                ..
            }) = &parsed
            {
                assert!(forgets.iter().count() <= len / 16);
            }
            assert!(
                parsed.is_ok()
                    || matches!(parsed, Err(Malformed::Body { opcode }) if opcode == kind)
            );
        }
    }
}
