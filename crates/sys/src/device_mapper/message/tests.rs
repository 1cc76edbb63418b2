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

/// Answers of real kernels: see `record.py` beside the recordings.
const RECORDED: [(&str, &str); 3] = [
    ("6.1", include_str!("../../../tests/device_mapper/6.1.txt")),
    (
        "6.12",
        include_str!("../../../tests/device_mapper/6.12.txt"),
    ),
    ("7.3", include_str!("../../../tests/device_mapper/7.3.txt")),
];

/// A recorded call: its name and device, the error or `ok`, and the buffer as the kernel has left it.
struct Recorded {
    call: &'static str,
    device: &'static str,
    said: &'static str,
    answer: Buffer,
}

fn recorded(lines: &'static str) -> Vec<Recorded> {
    let parse = |line: &'static str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [call, device, len, said, hex] = words[..] else {
            panic!("{line}");
        };
        let mut bytes = SecretBytes::zeroed(len.parse().unwrap());
        for (byte, digits) in bytes.expose_mut().iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
        }
        Recorded {
            call,
            device,
            said,
            answer: Buffer(bytes),
        }
    };
    lines.lines().map(parse).collect()
}

/// The text of a table; its key is no secret.
fn text_of(answer: &Buffer) -> String {
    let lines = answer.lines().unwrap();
    String::from_utf8(lines.expose().to_vec()).unwrap()
}

#[test]
fn answers_of_real_kernels_are_understood() {
    for (kernel, lines) in RECORDED {
        let calls = recorded(lines);
        let find = |call: &str, device: &str| {
            let mut calls = calls.iter();
            let found = calls.find(|one| one.call == call && one.device == device);
            found.unwrap_or_else(|| panic!("{kernel}: {call} {device}"))
        };
        let answer = |call, device| {
            let found = find(call, device);
            assert_eq!(found.said, "ok", "{kernel}: {call} {device}");
            &found.answer
        };

        assert_eq!(answer("no-devices", "-").names().unwrap(), [""; 0]);
        let mut names = answer("devices", "-").names().unwrap();
        names.sort();
        assert_eq!(names, ["empty", "sealed", "two"], "{kernel}");
        let targets = answer("targets", "-").versions().unwrap();
        let version = |name: &str| targets.iter().find(|one| one.name == name).unwrap().version;
        assert!(version("crypt") >= [1, 24, 0], "{kernel}: {targets:?}");
        assert!(version("linear") >= [1, 4, 0] && version("error") >= [1, 5, 0]);

        let empty = answer("state", "empty").state().unwrap();
        assert!(!empty.active_table && !empty.inactive_table && !empty.suspended);
        let two = answer("state", "two").state().unwrap();
        assert_eq!((two.name.as_str(), two.uuid.as_str()), ("two", "TEST-two"));
        assert!(two.active_table && two.suspended && !two.read_only);
        let sealed = answer("state", "sealed").state().unwrap();
        assert!(sealed.active_table && sealed.inactive_table && sealed.read_only);
        assert_eq!((sealed.open_count, sealed.deferred_remove), (0, false));
        assert_ne!(two.device, sealed.device);
        assert_eq!(find("state", "nobody").said, "No_such_device_or_address");

        assert_eq!(
            text_of(answer("table", "two")),
            "0 8 zero\n8 8 linear 1:0 24\n"
        );
        assert_eq!(text_of(answer("table", "empty")), "");
        let key = "5a".repeat(64);
        let flags = "2 no_read_workqueue no_write_workqueue";
        assert_eq!(
            text_of(answer("table", "sealed")),
            format!("0 16 crypt aes-xts-plain64 {key} 0 1:0 0 {flags}\n"),
            "{kernel}"
        );
        assert_eq!(text_of(answer("inactive-table", "sealed")), "0 16 error\n");
        assert_eq!(text_of(answer("inactive-table", "two")), "");
        for (call, device) in [("devices-too-long", "-"), ("table-too-long", "sealed")] {
            assert!(answer(call, device).was_too_small(), "{kernel}: {call}");
        }
    }
}

/// Reads an answer as each kind of answer, whatever it says.
fn read_every_way(answer: &Buffer) {
    let _ = (
        answer.names(),
        answer.versions(),
        answer.lines(),
        answer.state(),
    );
}

#[test]
fn real_answers_that_are_damaged_are_errors_or_other_answers() {
    for (_, lines) in RECORDED {
        for Recorded { mut answer, .. } in recorded(lines) {
            // Each number of head and data becomes small and large.
            for place in (0..answer.0.len().min(1200)).step_by(4) {
                let before = answer.u32(place).unwrap();
                for number in [0, 1, 7, before ^ 0x80, u32::MAX] {
                    answer.put_u32(place, number);
                    read_every_way(&answer);
                }
                answer.put_u32(place, before);
            }
            for len in (0..answer.0.len()).rev().step_by(3) {
                answer.0.truncate(len);
                read_every_way(&answer);
            }
        }
    }
}
