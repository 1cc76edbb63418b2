//! The operations of the table in `docs/crash-safety.md`: one row each.

use scrim_crypt::SectorSize;
use scrim_luks::{Edit, Flag, InPlace, Priority};

use crate::changes::{
    ARGON2ID, MORE_ITERATIONS, ROOMY_LUKS2_DATA, Version, add_unbound_key, change_key, convert,
    convert_key, edit, erase, remove_key, repair, restore, write, write_saved,
};
use crate::luks::{COPY, LUKS1_DATA, LUKS2_DATA, PASSPHRASES, add_key, format1, format2};
use crate::operation::Operation;
use crate::prepared::{
    boot_sector, copy_at, differing_copies, full1, label, luks2, new_token, new_uuid, two_keys1,
    two_keys2,
};
use crate::transition::Between;

const FIRST: &str = PASSPHRASES[0];
const SECOND: &str = PASSPHRASES[1];
const THIRD: &str = PASSPHRASES[2];

/// Offset at which a LUKS1 header says whether slot 3 is in use.
const MARKER_OF_SLOT_3: u64 = 208 + 3 * 48;

const PREFER: Edit = Edit::Priority {
    slot: 0,
    priority: Priority::Prefer,
};

/// Operations on headers, each with its outcomes.
pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "format LUKS1",
        data: LUKS1_DATA,
        prepare: |_| Ok(()),
        run: |disk| format1(disk, 1, FIRST),
        between: &[],
    },
    Operation {
        name: "format LUKS2",
        data: LUKS2_DATA,
        prepare: |_| Ok(()),
        run: |disk| luks2(disk, 1, FIRST),
        between: &[],
    },
    Operation {
        name: "format LUKS1 over LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| format1(disk, 0, FIRST),
        run: |disk| format1(disk, 1, SECOND),
        between: &[Between::NoHeader],
    },
    Operation {
        name: "format LUKS2 over LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| luks2(disk, 1, SECOND),
        between: &[Between::NoHeader],
    },
    Operation {
        name: "format LUKS2 over LUKS2 with other sizes",
        data: LUKS2_DATA + COPY * 2,
        prepare: |disk| format2(disk, 0, FIRST, SectorSize::S512, 2 * COPY),
        run: |disk| luks2(disk, 1, SECOND),
        between: &[Between::NoHeader],
    },
    Operation {
        name: "format LUKS2 over LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| format1(disk, 0, FIRST),
        run: |disk| luks2(disk, 1, SECOND),
        between: &[Between::NoHeader],
    },
    Operation {
        name: "format LUKS1 over LUKS2",
        data: LUKS1_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| format1(disk, 1, SECOND),
        between: &[Between::NoHeader],
    },
    Operation {
        name: "add a key, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| format1(disk, 0, FIRST),
        run: |disk| add_key(disk, 0, SECOND, None),
        between: &[],
    },
    Operation {
        name: "add a key whose slot lies across two sectors, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| format1(disk, 0, FIRST),
        run: |disk| add_key(disk, 0, SECOND, Some(6)),
        between: &[],
    },
    Operation {
        name: "add a key, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| add_key(disk, 0, SECOND, None),
        between: &[],
    },
    Operation {
        name: "add two keys, one after the other, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| format1(disk, 0, FIRST),
        run: |disk| {
            add_key(disk, 0, SECOND, None)?;
            add_key(disk, 0, THIRD, None)
        },
        between: &[Between::OtherKeys],
    },
    Operation {
        name: "add an unbound key, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| add_unbound_key(disk, SECOND),
        between: &[],
    },
    Operation {
        name: "change a key, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 1),
        run: |disk| change_key(disk, 0, THIRD, None, InPlace::Refuse),
        between: &[Between::OtherKeys],
    },
    Operation {
        name: "change a key, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| change_key(disk, 0, THIRD, None, InPlace::Refuse),
        between: &[],
    },
    Operation {
        name: "change a key that keeps its slot, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 1),
        run: |disk| change_key(disk, 0, THIRD, Some(0), InPlace::Refuse),
        between: &[Between::OtherKeys],
    },
    Operation {
        name: "change a key in place (asks first), LUKS1",
        data: LUKS1_DATA,
        prepare: full1,
        run: |disk| change_key(disk, 0, THIRD, None, InPlace::Allow),
        between: &[Between::Lost(0)],
    },
    Operation {
        name: "change a key in place (asks first), LUKS2",
        data: LUKS2_DATA,
        prepare: two_keys2,
        run: |disk| change_key(disk, 0, THIRD, None, InPlace::Allow),
        between: &[Between::Lost(0)],
    },
    Operation {
        name: "convert a key to more iterations, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 1),
        run: |disk| convert_key(disk, MORE_ITERATIONS),
        between: &[Between::OtherKeys],
    },
    Operation {
        name: "convert a key to Argon2id, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| convert_key(disk, ARGON2ID),
        between: &[],
    },
    Operation {
        name: "remove a key, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 1),
        run: |disk| remove_key(disk, 1),
        between: &[Between::KeysGoing],
    },
    Operation {
        name: "remove a key whose slot lies across two sectors, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 6),
        run: |disk| remove_key(disk, 6),
        between: &[Between::KeysGoing],
    },
    Operation {
        name: "remove a key, LUKS2",
        data: LUKS2_DATA,
        prepare: two_keys2,
        run: |disk| remove_key(disk, 1),
        between: &[Between::KeysGoing],
    },
    Operation {
        name: "erase, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 1),
        run: erase,
        between: &[Between::KeysGoing],
    },
    Operation {
        name: "erase, LUKS2",
        data: LUKS2_DATA,
        prepare: two_keys2,
        run: erase,
        between: &[Between::KeysGoing],
    },
    Operation {
        name: "set a UUID, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| format1(disk, 0, FIRST),
        run: |disk| edit(disk, &[new_uuid()]),
        between: &[],
    },
    Operation {
        name: "set a UUID, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| edit(disk, &[new_uuid()]),
        between: &[],
    },
    Operation {
        name: "set label and subsystem, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| {
            edit(
                disk,
                &[label("a label"), Edit::Subsystem("some".to_owned())],
            )
        },
        between: &[],
    },
    Operation {
        name: "set persistent flags, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| edit(disk, &[Edit::Flags(Flag::ALL.to_vec())]),
        between: &[],
    },
    Operation {
        name: "set a key slot's priority, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| edit(disk, &[PREFER]),
        between: &[],
    },
    Operation {
        name: "add a token, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| luks2(disk, 0, FIRST),
        run: |disk| edit(disk, &[new_token()]),
        between: &[],
    },
    Operation {
        name: "remove a token, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            edit(disk, &[new_token()])
        },
        run: |disk| edit(disk, &[Edit::RemoveToken { id: 3 }]),
        between: &[],
    },
    Operation {
        name: "convert LUKS1 to LUKS2",
        data: LUKS1_DATA,
        prepare: |disk| two_keys1(disk, 1),
        run: convert,
        between: &[],
    },
    Operation {
        name: "convert LUKS2 to LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| {
            two_keys1(disk, 1)?;
            convert(disk)
        },
        run: convert,
        between: &[],
    },
    Operation {
        name: "restore a header with a changed key, LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| {
            write_saved(disk, Version::Luks1)?;
            change_key(disk, 0, THIRD, None, InPlace::Refuse)
        },
        run: |disk| restore(disk, Version::Luks1),
        between: &[],
    },
    Operation {
        name: "restore a header with a changed key, LUKS2",
        data: ROOMY_LUKS2_DATA,
        prepare: |disk| {
            write_saved(disk, Version::Luks2)?;
            change_key(disk, 0, THIRD, None, InPlace::Refuse)
        },
        run: |disk| restore(disk, Version::Luks2),
        between: &[],
    },
    Operation {
        name: "restore a header with another key in its place (asks first), LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| {
            write_saved(disk, Version::Luks1)?;
            change_key(disk, 0, THIRD, Some(0), InPlace::Refuse)
        },
        run: |disk| restore(disk, Version::Luks1),
        between: &[Between::Lost(0)],
    },
    Operation {
        name: "restore a header with another key in its place, LUKS2",
        data: ROOMY_LUKS2_DATA,
        prepare: |disk| {
            write_saved(disk, Version::Luks2)?;
            // To a free area, and back.
            change_key(disk, 0, FIRST, None, InPlace::Refuse)?;
            change_key(disk, 0, THIRD, None, InPlace::Refuse)
        },
        run: |disk| restore(disk, Version::Luks2),
        between: &[],
    },
    Operation {
        name: "restore a header, LUKS1 over LUKS2",
        data: LUKS1_DATA,
        prepare: |disk| {
            write_saved(disk, Version::Luks1)?;
            convert(disk)
        },
        run: |disk| restore(disk, Version::Luks1),
        between: &[Between::NoHeader],
    },
    Operation {
        name: "restore a header onto a blank device, LUKS1",
        data: LUKS1_DATA,
        prepare: |_| Ok(()),
        run: |disk| restore(disk, Version::Luks1),
        between: &[],
    },
    Operation {
        name: "restore a header onto a blank device, LUKS2",
        data: ROOMY_LUKS2_DATA,
        prepare: |_| Ok(()),
        run: |disk| restore(disk, Version::Luks2),
        between: &[],
    },
    Operation {
        name: "repair an older primary, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            let older = copy_at(disk, 0)?;
            add_key(disk, 0, SECOND, None)?;
            write(disk, 0, &older)
        },
        run: repair,
        between: &[],
    },
    Operation {
        name: "repair an older secondary, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            let older = copy_at(disk, COPY)?;
            add_key(disk, 0, SECOND, None)?;
            write(disk, COPY, &older)
        },
        run: repair,
        between: &[],
    },
    Operation {
        name: "repair a torn primary, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            write(disk, 4096, &[0; 512])
        },
        run: repair,
        between: &[],
    },
    Operation {
        name: "repair a torn secondary, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            write(disk, COPY + 4096, &[0; 512])
        },
        run: repair,
        between: &[],
    },
    Operation {
        name: "repair a primary that is a boot sector (asks first), LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            write(disk, 0, &boot_sector())
        },
        run: repair,
        between: &[],
    },
    Operation {
        name: "repair copies that differ under one id (asks first), LUKS2",
        data: LUKS2_DATA,
        prepare: differing_copies,
        run: repair,
        between: &[],
    },
    Operation {
        name: "repair a field (asks first), LUKS1",
        data: LUKS1_DATA,
        prepare: |disk| {
            format1(disk, 0, FIRST)?;
            write(disk, MARKER_OF_SLOT_3, b"bad!")
        },
        run: repair,
        between: &[],
    },
];
