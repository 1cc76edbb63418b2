//! A LUKS1 header as text.

use std::fmt::{self, Write};

use scrim_foreign::Foreign;

use super::hex::Hex;
use crate::on_disk::luks1::Header;

pub(super) fn write(f: &mut impl Write, header: &Header, device: &str) -> fmt::Result {
    writeln!(f, "LUKS header information for {}\n", Foreign::new(device))?;
    writeln!(f, "Version:       \t1")?;
    writeln!(f, "Cipher name:   \t{}", header.cipher_name())?;
    writeln!(f, "Cipher mode:   \t{}", header.cipher_mode())?;
    writeln!(f, "Hash spec:     \t{}", header.hash_spec())?;
    writeln!(f, "Payload offset:\t{}", header.payload_offset())?;
    writeln!(f, "MK bits:       \t{}", 8 * header.key_bytes())?;
    writeln!(f, "MK digest:     \t{}", hex(header.digest(), 20))?;
    writeln!(f, "MK salt:       \t{}", hex(header.digest_salt(), 16))?;
    writeln!(f, "MK iterations: \t{}", header.digest_iterations())?;
    writeln!(f, "UUID:          \t{}\n", header.uuid())?;
    for (number, slot) in header.slots().iter().enumerate() {
        if !slot.active {
            writeln!(f, "Key Slot {number}: DISABLED")?;
            continue;
        }
        let salt = Hex {
            bytes: &slot.salt,
            per_line: 16,
            indent: "\t                      \t",
        };
        writeln!(f, "Key Slot {number}: ENABLED")?;
        writeln!(f, "\tIterations:         \t{}", slot.iterations)?;
        writeln!(f, "\tSalt:               \t{salt}")?;
        writeln!(f, "\tKey material offset:\t{}", slot.offset)?;
        writeln!(f, "\tAF stripes:            \t{}", slot.stripes)?;
    }
    Ok(())
}

/// cryptsetup breaks the salt after sixteen bytes, and the digest of twenty nowhere.
fn hex(bytes: &[u8], per_line: usize) -> Hex<'_> {
    Hex {
        bytes,
        per_line,
        indent: "               \t",
    }
}
