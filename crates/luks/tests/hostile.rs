//! Headers that lie: each is refused by name, before anything it says is used. What the LUKS2
//! specification says of each member is in `specification`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and a table of cases is long"
)]

mod common;

use common::{
    PASSPHRASE, attached, detached, edit, image, luks1_spec, luks2_spec, secret, set_checksum,
    set_json, small_luks2, volume_key,
};
use scrim_luks::luks1::Fault;
use scrim_luks::luks2::Problem;
use scrim_luks::{
    CopyFault, Header, HeaderError, Parsed, Placement, UnlockError, Unsupported, luks1, luks2,
};
use serde_json::{Value, json};

fn parse(image: &[u8]) -> Result<Parsed, HeaderError> {
    Header::parse(image, image.len() as u64)
}

/// Returns the fault of a header of which both copies have the same JSON.
fn json_fault(image: &[u8]) -> luks2::JsonFault {
    match parse(image).map(|_| ()) {
        Err(HeaderError::Luks2 {
            primary: CopyFault::Json(fault),
            secondary: Some(CopyFault::Json(other)),
        }) if fault == other => *fault,
        other => panic!("{other:?}"),
    }
}

fn set(document: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[name] = value;
}

#[test]
fn areas_and_segments_may_not_overlap() {
    let good = small_luks2(&volume_key(64));
    let add_slot = |offset: u64, digests: bool| {
        let mut image = good.clone();
        image.resize(2 << 20, 0);
        edit(&mut image, |document| {
            document["config"]["keyslots_size"] = json!("1048576");
            let mut slot = document["keyslots"]["0"].clone();
            slot["area"]["offset"] = json!(offset.to_string());
            document["keyslots"]["3"] = slot;
            document["digests"]["0"]["keyslots"] = json!(["0", "3"]);
            if digests {
                let mut digest = document["digests"]["0"].clone();
                digest["segments"] = json!([]);
                document["digests"]["1"] = digest;
            }
        });
        image
    };
    let (start, len) = (32768, 258_048);
    for offset in [start, start + 4096, start + len - 1] {
        let fault = json_fault(&add_slot(offset, false));
        assert_eq!(fault.path, "keyslots.3.area");
        assert_eq!(
            fault.problem,
            Problem::Overlaps {
                other: "keyslots.0.area".to_owned()
            }
        );
    }
    parse(&add_slot(start + len, false)).unwrap();
    let fault = json_fault(&add_slot(start + len, true)).to_string();
    assert_eq!(fault, "digests.1.keyslots repeats what digests.0 has");

    let with_segment = |offset: u64, size: &str, flags: Value| {
        let mut image = good.clone();
        edit(&mut image, |document| {
            let mut segment = document["segments"]["0"].clone();
            segment["offset"] = json!(offset.to_string());
            segment["flags"] = flags;
            document["segments"]["0"]["size"] = json!(size);
            document["segments"]["1"] = segment;
        });
        image
    };
    let fault = json_fault(&with_segment(512, "1024", json!([]))).to_string();
    assert_eq!(fault, "segments.1 overlaps segments.0");
    let refused = parse(&with_segment(1024, "1024", json!([])))
        .unwrap()
        .header;
    assert_eq!(
        refused.data_segment().unwrap_err(),
        Unsupported::SegmentCount(2)
    );
    let backup = parse(&with_segment(512, "1024", json!(["backup-final"])))
        .unwrap()
        .header;
    backup.data_segment().unwrap();
}

const SALT: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

/// Sound headers that ask for what there is not.
#[test]
fn what_is_not_supported_is_refused_by_name() {
    let key = volume_key(64);
    let good = small_luks2(&key);
    let refusal = |pointer: &str, value: Value| {
        let mut image = good.clone();
        edit(&mut image, |document| set(document, pointer, value));
        let header = parse(&image).unwrap().header;
        let _ = scrim_luks::dump::text(&header, "x");
        let material = &image[32768..32768 + 256_000];
        let Err(error) = header.unlock(0, material, &secret(PASSPHRASE)) else {
            panic!("{pointer} was accepted");
        };
        error.to_string()
    };
    #[rustfmt::skip]
    let table = [
        ("/config/requirements", json!({"mandatory": ["new-thing"]}), "the header requires new-thing"),
        ("/segments/0/type", json!("linear"), "the data segment is of type linear"),
        ("/segments/0/type", json!("hw-opal"), "the data segment is of type hw-opal"),
        ("/segments/0/integrity", json!({"type": "hmac(sha256)"}), "(hmac(sha256))"),
        ("/segments/0/encryption", json!("rot13-xts-plain64"), "\"rot13\""),
        ("/digests/0/segments", json!([]), "segment 0 has no digest"),
        ("/digests/0/hash", json!("crc32"), "hash crc32 is not supported"),
        ("/keyslots/0/key_size", json!(40), "aes-xts-plain64 takes a volume key of 32, 48 or 64 bytes, not of 40"),
        ("/keyslots/0/area/key_size", json!(33), "not of 33"),
        ("/keyslots/0/area/encryption", json!("capi:xts(aes)-plain64"), "may not protect a key slot"),
        ("/keyslots/0/area/encryption", json!("aes-ctr-benbi"), "may not protect a key slot"),
        ("/keyslots/0/area/encryption", json!("cipher_null-ecb"), "key slot 0 has no cipher"),
        ("/keyslots/0/area/encryption", json!("null"), "key slot 0 has no cipher"),
        ("/keyslots/0/af/hash", json!("md4"), "hash md4 is not supported"),
        ("/keyslots/0/type", json!("reencrypt"), "key slot 0 is of type reencrypt"),
        ("/keyslots/0/kdf", json!({"type": "argon2id", "time": 4, "memory": u32::MAX, "cpus": 1, "salt": SALT}), "of memory"),
        ("/keyslots/0/kdf", json!({"type": "argon2i", "time": u32::MAX, "memory": 32, "cpus": 1, "salt": SALT}), "passes"),
        ("/keyslots/0/kdf", json!({"type": "pbkdf2", "hash": "sha256", "iterations": u32::MAX, "salt": SALT}), "iterations"),
    ];
    for (pointer, value, complaint) in table {
        let error = refusal(pointer, value);
        assert!(error.contains(complaint), "{pointer}: {error}");
    }
}

/// A null cipher protects nothing, and is accepted only where nobody was told that it does.
#[test]
fn a_null_cipher_opens_without_a_passphrase_only() {
    let key = volume_key(64);
    let mut image = small_luks2(&key);
    edit(&mut image, |document| {
        document["keyslots"]["0"]["area"]["encryption"] = json!("cipher_null-ecb");
    });
    let header = parse(&image).unwrap().header;
    let material = &image[32768..32768 + 256_000];
    let refused = header.unlock(0, material, &secret("x"));
    assert!(matches!(refused, Err(UnlockError::NullCipher { slot: 0 })));
    let noise = header.unlock(0, material, &secret(""));
    assert!(matches!(
        noise,
        Err(UnlockError::WrongPassphrase { slot: 0 })
    ));
}

#[test]
fn a_key_of_the_wrong_length_is_not_the_volume_key() {
    let key = volume_key(64);
    let image = small_luks2(&key);
    let header = parse(&image).unwrap().header;
    header.verify_volume_key(&key).unwrap();
    for len in [0, 32, 63, 65, 128] {
        let wrong = header.verify_volume_key(&volume_key(len));
        assert!(matches!(wrong, Err(UnlockError::WrongVolumeKey)), "{len}");
    }
    // A shorter HMAC key is padded with zeros: the digest alone does not tell them apart.
    let mut padded = [0; 64];
    padded[..32].copy_from_slice(&key.expose()[..32]);
    let make = |bytes: &[u8]| {
        scrim_luks::VolumeKey::new(scrim_sys::memory::SecretBytes::copied_from(bytes))
    };
    let image = small_luks2(&make(&padded));
    let header = parse(&image).unwrap().header;
    header.verify_volume_key(&make(&padded)).unwrap();
    assert!(header.verify_volume_key(&make(&padded[..32])).is_err());
}

#[test]
fn a_device_that_ends_within_the_key_slots_is_refused() {
    let luks2 = small_luks2(&volume_key(64));
    let luks1 = image(
        &luks1::format(
            &luks1_spec(detached(0)),
            &volume_key(64),
            &secret(PASSPHRASE),
        )
        .unwrap()
        .plan,
    );
    for image in [luks2, luks1] {
        let end = parse(&image).unwrap().header.header_end();
        for have in [1 << 16, end - 1] {
            let error = Header::parse(&image[..1 << 16], have).unwrap_err();
            assert_eq!(error, HeaderError::DeviceTooSmall { need: end, have });
        }
        Header::parse(&image[..1 << 16], end).unwrap();
    }
}

#[test]
fn too_little_key_material_is_said() {
    let image = small_luks2(&volume_key(64));
    let parsed = parse(&image).unwrap();
    for len in [0, 1, 255_999] {
        let short = parsed.header.unlock(0, &vec![0; len], &secret(PASSPHRASE));
        let Err(UnlockError::Material {
            slot: 0,
            need: 256_000,
            have,
        }) = short
        else {
            panic!("{len}");
        };
        assert_eq!(have, len as u64);
    }
}

#[test]
fn the_binary_header_is_checked() {
    let good = small_luks2(&volume_key(64));
    let with = |at: usize, bytes: &[u8]| {
        let mut image = good.clone();
        for copy in 0..2 {
            let whole = &mut image[copy * common::COPY..(copy + 1) * common::COPY];
            whole[at..at + bytes.len()].copy_from_slice(bytes);
            set_checksum(whole);
        }
        match parse(&image).map(|_| ()) {
            Err(HeaderError::Luks2 { primary, .. }) => primary,
            other => panic!("{other:?}"),
        }
    };
    for size in [0, 4096, 0x4001, 0xc000, 0x80_0000, u64::MAX] {
        assert_eq!(with(8, &size.to_be_bytes()), CopyFault::Size(size));
    }
    let offset = CopyFault::Offset { says: 512, lies: 0 };
    assert_eq!(with(256, &512u64.to_be_bytes()), offset);
    let unknown = CopyFault::ChecksumAlgorithm("crc32".to_owned());
    assert_eq!(with(72, b"crc32\0\0"), unknown);
    assert_eq!(with(72, &[b'x'; 32]), CopyFault::Text("checksum algorithm"));
    assert_eq!(with(24, &[b'x'; 48]), CopyFault::Text("label"));
    assert_eq!(with(24, b"\xff\0"), CopyFault::Text("label"));
    assert_eq!(with(168, &[b'x'; 40]), CopyFault::Text("UUID"));
    assert_eq!(with(208, &[b'x'; 48]), CopyFault::Text("subsystem"));

    for version in [0u16, 3, 0x0200] {
        let mut image = good.clone();
        for copy in 0..2 {
            image[copy * common::COPY + 6..][..2].copy_from_slice(&version.to_be_bytes());
        }
        let refused = parse(&image).map(|_| ());
        assert_eq!(refused, Err(HeaderError::Version(version)));
    }
    assert_eq!(parse(&[]).map(|_| ()), Err(HeaderError::NotLuks));
    assert_eq!(parse(&[0; 3 * 512]).map(|_| ()), Err(HeaderError::NotLuks));
}

#[test]
fn the_json_area_is_bounded() {
    let good = small_luks2(&volume_key(64));
    let fault = |json: &[u8]| {
        let mut image = good.clone();
        set_json(&mut image, 0, json);
        set_json(&mut image, 1, json);
        json_fault(&image).to_string()
    };
    let deep = format!("{{\"keyslots\":{}", "[".repeat(10_000));
    assert_eq!(
        fault(deep.as_bytes()),
        "the JSON area nests deeper than 32 levels"
    );
    assert_eq!(fault(&[b' '; 12288]), "the JSON area is not ended by a NUL");
    assert_eq!(fault(b"[]"), "the JSON area does not hold one object");
    assert_eq!(fault(b"{}\0{}"), "the JSON area holds bytes behind its end");
    assert_eq!(
        fault(b"{\"a\":1,\"a\":2}"),
        "the JSON area names a twice in one object"
    );
    assert_eq!(
        fault(b"{]"),
        "the JSON area is no valid JSON at line 1, column 2"
    );
}

/// The same for LUKS1, byte by byte.
#[test]
fn luks1_fields_are_checked() {
    let spec = luks1_spec(attached(3 << 20));
    let made = luks1::format(&spec, &volume_key(64), &secret(PASSPHRASE)).unwrap();
    let good = image(&made.plan);
    parse(&good).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut image = good.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        match parse(&image).map(|_| ()) {
            Err(HeaderError::Luks1(fault)) => fault,
            other => panic!("{at}: {other:?}"),
        }
    };
    let slot = |slot: usize| 208 + 48 * slot;
    assert_eq!(with(8, &[b'a'; 32]), Fault::Text("cipher name"));
    assert_eq!(with(8, b"\0"), Fault::Text("cipher name"));
    assert_eq!(with(40, b"a b\0"), Fault::Text("cipher mode"));
    assert_eq!(with(72, b"\xc3\x28\0"), Fault::Text("hash"));
    assert_eq!(with(168, b"\x1b[2J\0"), Fault::Text("UUID"));
    assert_eq!(with(104, &[0, 0, 0, 1]), Fault::InsidePayload { slot: 0 });
    assert_eq!(
        with(104, &4035u32.to_be_bytes()),
        Fault::InsidePayload { slot: 7 }
    );
    assert_eq!(with(108, &[0; 4]), Fault::KeyBytes(0));
    assert_eq!(with(108, &[255; 4]), Fault::KeyBytes(u32::MAX));
    assert_eq!(
        with(108, &[0, 0, 0, 65]),
        Fault::Overlap { slot: 1, other: 0 }
    );
    assert_eq!(with(164, &[0; 4]), Fault::DigestIterations);
    let marker = Fault::Marker { slot: 2, marker: 0 };
    assert_eq!(with(slot(2), &[0; 4]), marker);
    assert_eq!(with(slot(0) + 4, &[0; 4]), Fault::Iterations { slot: 0 });
    assert_eq!(
        with(slot(1) + 40, &[0, 0, 0, 1]),
        Fault::InsideHeader { slot: 1 }
    );
    assert_eq!(
        with(slot(1) + 40, &[0, 0, 0, 9]),
        Fault::Overlap { slot: 1, other: 0 }
    );
    assert_eq!(
        with(slot(5) + 40, &[255; 4]),
        Fault::InsidePayload { slot: 5 }
    );
    // In a detached header no payload bounds the areas.
    let mut far = good.clone();
    far[104..108].fill(0);
    far[slot(5) + 40..slot(5) + 44].fill(255);
    let far = parse(&far).map(|_| ());
    assert!(
        matches!(far, Err(HeaderError::Luks1(Fault::TooFar { slot: 5 }))),
        "{far:?}"
    );
    assert_eq!(
        with(slot(3) + 44, &[0, 0, 0, 1]),
        Fault::Stripes {
            slot: 3,
            stripes: 1
        }
    );
    for len in 8..592 {
        let cut = parse(&good[..len]).map(|_| ());
        let expected = Fault::Truncated {
            need: 592,
            have: len,
        };
        assert_eq!(cut, Err(HeaderError::Luks1(expected)));
    }
    for len in 0..8 {
        assert_eq!(parse(&good[..len]).map(|_| ()), Err(HeaderError::NotLuks));
    }
}

/// Data of a detached header does not lie on the header's own device.
#[test]
fn a_detached_header_is_not_its_own_data_device() {
    let key = volume_key(64);
    let headers = [
        luks1::format(&luks1_spec(detached(0)), &key, &secret(PASSPHRASE))
            .unwrap()
            .header,
        luks2::format(&luks2_spec(detached(0)), &key, &secret(PASSPHRASE))
            .unwrap()
            .header,
    ];
    for header in headers {
        let segment = header.data_segment().unwrap();
        assert!(segment.extent(Placement::Attached, 64 << 20).is_err());
        let extent = segment.extent(Placement::Detached, 64 << 20);
        assert_eq!(extent, Ok(0..64 << 20));
    }
}

/// Not even in a detached header do the key slots reach behind the start of the data.
#[test]
fn a_detached_header_ends_before_its_data() {
    for (data_offset, fits) in [(4096, false), (290_816 - 4096, false), (290_816, true)] {
        let mut layout = detached(0);
        layout.data_offset = Some(data_offset);
        let made = luks2::format(&luks2_spec(layout), &volume_key(64), &secret(PASSPHRASE));
        match made {
            Ok(made) => assert!(fits && made.header.header_end() <= data_offset),
            Err(error) => assert!(!fits && error.to_string().contains("inside the header")),
        }
    }
}
