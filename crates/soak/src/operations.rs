//! The operations of the table in `docs/crash-safety.md`: one row each.

use scrim_backend::{Backend, Durability};
use scrim_crypt::SectorSize;

use crate::luks::{
    LUKS1_DATA, LUKS2_DATA, PASSPHRASES, Refused, add_key, format1, format2, refused,
};
use crate::operation::{Between, Operation};

const FIRST: &str = PASSPHRASES[0];
const SECOND: &str = PASSPHRASES[1];
const THIRD: &str = PASSPHRASES[2];

/// Bytes of one copy of a LUKS2 header by default.
const COPY: u64 = 16 << 10;

/// Every header operation.
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
        name: "repair an older secondary, LUKS2",
        data: LUKS2_DATA,
        prepare: |disk| {
            luks2(disk, 0, FIRST)?;
            let older = secondary(disk)?;
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
];

fn luks2(disk: &dyn Backend, number: u8, passphrase: &str) -> Result<(), Refused> {
    format2(disk, number, passphrase, SectorSize::S512, COPY)
}

fn repair(disk: &dyn Backend) -> Result<(), Refused> {
    match scrim_volume::LuksDevice::repair(disk).map_err(refused)? {
        true => Ok(()),
        false => Err("there was nothing to repair".to_owned()),
    }
}

fn secondary(disk: &dyn Backend) -> Result<Vec<u8>, Refused> {
    let mut bytes = vec![0; usize::try_from(COPY).map_err(refused)?];
    disk.read_at(COPY, &mut bytes).map_err(refused)?;
    Ok(bytes)
}

fn write(disk: &dyn Backend, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
    disk.write_at(offset, bytes, Durability::Cached)
        .and_then(|()| disk.flush())
        .map_err(refused)
}
