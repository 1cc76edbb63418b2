use super::*;

/// A call's buffer with bytes put where the kernel puts them.
fn answer(len: usize, flags: u32, parts: &[(usize, &[u8])]) -> Buffer {
    let mut buffer = Buffer::new("", Flag(flags), len).unwrap();
    for (place, bytes) in parts {
        buffer.put(*place, bytes);
    }
    buffer
}

#[test]
fn a_table_is_laid_out_as_the_kernel_reads_it() {
    let targets = [
        Target {
            start: 0,
            len: 8,
            kind: "zero",
            arguments: b"",
        },
        Target {
            start: 8,
            len: 16,
            kind: "linear",
            arguments: b"7:0 24",
        },
    ];
    let len = targets.iter().map(Target::encoded_len).sum();
    let mut buffer = Buffer::new("name", Flag::NONE, len).unwrap();
    buffer.put_targets(&targets).unwrap();
    let bytes = buffer.0.expose();
    assert_eq!(bytes.len(), 312 + 48 + 48);
    assert_eq!(buffer.u32(at::TARGET_COUNT).unwrap(), 2);
    // The second target, 48 bytes behind the first.
    assert_eq!(buffer.u32(312 + 20).unwrap(), 48);
    assert_eq!(buffer.u64(312 + 48).unwrap(), 8);
    assert_eq!(buffer.u64(312 + 48 + 8).unwrap(), 16);
    assert_eq!(&bytes[312 + 48 + 24..][..7], b"linear\0");
    assert_eq!(&bytes[312 + 48 + 40..], b"7:0 24\0\0");
    // Every call wipes the kernel's copy.
    assert!(buffer.flags().contains(Flag::SECURE_DATA));
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(Buffer::new(&"x".repeat(127), Flag::NONE, 0).is_ok());
    assert!(Buffer::new(&"x".repeat(128), Flag::NONE, 0).is_err());
    assert!(Buffer::new("a\0b", Flag::NONE, 0).is_err());
    let mut buffer = Buffer::new("name", Flag::NONE, 64).unwrap();
    assert!(buffer.set_uuid(&"x".repeat(129)).is_err());
    let target = |kind, arguments| Target {
        start: 0,
        len: 1,
        kind,
        arguments,
    };
    assert!(
        buffer
            .put_targets(&[target("a-type-of-16-char", b"")])
            .is_err()
    );
    assert!(buffer.put_targets(&[target("crypt", b"a\0b")]).is_err());
}

#[test]
fn an_empty_list_has_no_names() {
    assert_eq!(answer(64, 0, &[]).names().unwrap(), [""; 0]);
}

#[test]
fn answers_that_are_cut_off_are_errors() {
    // A list whose second entry is behind the end, and a text without an end.
    let list = answer(
        16,
        0,
        &[(312, &1u64.to_ne_bytes()), (320, &8u32.to_ne_bytes())],
    );
    assert!(list.names().is_err());
    let text = answer(24, 0, &[(312, &1u64.to_ne_bytes()), (324, &[b'x'; 12])]);
    assert!(text.names().is_err());
    // More targets than have room.
    let mut table = answer(64, 0, &[]);
    table.put_u32(at::TARGET_COUNT, 1000);
    assert!(table.lines().is_err());
    // Data within the head.
    let mut head = answer(64, 0, &[]);
    head.put_u32(at::DATA_START, 8);
    assert!(head.names().is_err());
}
