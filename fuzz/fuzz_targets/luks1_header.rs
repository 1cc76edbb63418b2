//! The input is a LUKS1 header, starting with the first field after magic and version.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::header::{DEVICE, assert_printable, exercise};
use scrim_luks::{Header, HeaderError, KdfParameters, KeyslotKind};

fuzz_target!(|fields: &[u8]| {
    let area = [b"LUKS\xba\xbe\0\x01", fields].concat();
    match Header::parse(&area, DEVICE) {
        Ok(parsed) => {
            assert!(parsed.repair.is_none());
            assert_fields(&area, &parsed.header);
            exercise(&parsed);
        }
        Err(error @ HeaderError::Luks1(_)) => assert_printable(&error.to_string()),
        Err(other) => panic!("{other}"),
    }
});

/// Checks that the parsed header has the values at the offsets of the specification's table.
fn assert_fields(area: &[u8], header: &Header) {
    let Header::Luks1(luks1) = header else {
        panic!("another version");
    };
    let number = |at: usize| {
        let bytes = area[at..at + 4].try_into().expect("four bytes");
        u32::from_be_bytes(bytes)
    };
    let text = |at: usize, len: usize| {
        let field = &area[at..at + len];
        let end = field
            .iter()
            .position(|&byte| byte == 0)
            .expect("a NUL ends it");
        std::str::from_utf8(&field[..end]).expect("it is text")
    };
    assert_eq!(luks1.cipher_name(), text(8, 32));
    assert_eq!(luks1.cipher_mode(), text(40, 32));
    assert_eq!(luks1.hash_spec(), text(72, 32));
    assert_eq!(luks1.payload_offset(), number(104));
    assert_eq!(luks1.key_bytes(), number(108));
    assert_eq!(luks1.uuid().raw(), text(168, 40));
    let active = (0..8u8).filter(|slot| number(208 + 48 * usize::from(*slot)) == 0x00ac_71f3);
    let slots = header.keyslots();
    assert!(active.eq(slots.iter().map(|slot| slot.id)));
    for slot in slots {
        let at = 208 + 48 * usize::from(slot.id);
        let start = u64::from(number(at + 40)) * 512;
        // Key material takes whole sectors, because it is encrypted in sectors.
        let len = (u64::from(number(108)) * 4000).next_multiple_of(512);
        assert_eq!(slot.material(), start..start + len);
        let KeyslotKind::Passphrase(passphrase) = &slot.kind else {
            panic!("another kind of key slot");
        };
        assert_eq!(passphrase.salt, area[at + 8..at + 40]);
        assert!(matches!(
            &passphrase.kdf,
            KdfParameters::Pbkdf2 { iterations, .. } if *iterations == number(at + 4)
        ));
    }
}
