//! UUIDs of dm-crypt devices, by which cryptsetup, udev and systemd know them: `CRYPT-LUKS2-<UUID of the header, without
//! dashes>-<name>`, `CRYPT-PLAIN-<name>` without a header.

use crate::args::VolumeName;

/// Prefix of a table that is not one crypt target, which cryptsetup must not take for a volume of its own.
const TABLE: &str = "SCRIM-TABLE-";

/// Longest UUID of a device, in bytes (`DM_UUID_LEN`, with the NUL).
const LEN_MAX: usize = 128;

/// Types of cryptsetup's volumes, as its UUIDs name them.
const TYPES: [&str; 7] = [
    "LUKS1", "LUKS2", "PLAIN", "LOOPAES", "TCRYPT", "BITLK", "FVAULT2",
];

/// Kind of volume that a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// `LUKS1`, `LUKS2`, `PLAIN`, or `TABLE`.
    pub(super) r#type: String,
    /// UUID of the header; empty if there is no header.
    pub(super) uuid: String,
}

impl Identity {
    /// Makes the UUID of a device.
    pub(super) fn to_device_uuid(&self, name: &VolumeName) -> String {
        let name = name.as_str();
        let mut uuid = match (&*self.r#type, &*self.uuid) {
            ("TABLE", _) => format!("{TABLE}{name}"),
            (kind, "") => format!("CRYPT-{kind}-{name}"),
            (kind, uuid) => format!("CRYPT-{kind}-{}-{name}", uuid.replace('-', "")),
        };
        // As cryptsetup does; names are ASCII.
        uuid.truncate(LEN_MAX);
        uuid
    }

    /// Reads the UUID of a device; `None` for one that is not an encrypted volume.
    pub(super) fn of_device(uuid: &str) -> Option<Self> {
        if uuid.starts_with(TABLE) {
            return Some(Self {
                r#type: "TABLE".to_owned(),
                uuid: String::new(),
            });
        }
        let (r#type, rest) = uuid.strip_prefix("CRYPT-")?.split_once('-')?;
        if !TYPES.contains(&r#type) {
            return None;
        }
        let header = rest.split_once('-').map_or("", |(uuid, _)| uuid);
        Some(Self {
            r#type: r#type.to_owned(),
            uuid: match r#type.starts_with("LUKS") {
                true => with_dashes(header),
                false => String::new(),
            },
        })
    }
}

/// Puts the dashes of a UUID back; empty for what is no UUID.
fn with_dashes(digits: &str) -> String {
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return String::new();
    }
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(r#type: &str, uuid: &str) -> Identity {
        Identity {
            r#type: r#type.to_owned(),
            uuid: uuid.to_owned(),
        }
    }

    #[test]
    fn devices_are_known_by_cryptsetups_form() {
        let name: VolumeName = "my-disk".parse().unwrap();
        let uuid = "d1a3f3e0-6e0d-4a2b-9f7a-0123456789ab";
        let cases = [
            (
                identity("LUKS2", uuid),
                "CRYPT-LUKS2-d1a3f3e06e0d4a2b9f7a0123456789ab-my-disk",
            ),
            (identity("PLAIN", ""), "CRYPT-PLAIN-my-disk"),
            (identity("TABLE", ""), "SCRIM-TABLE-my-disk"),
        ];
        for (identity, device) in cases {
            assert_eq!(identity.to_device_uuid(&name), device);
            assert_eq!(Identity::of_device(device), Some(identity));
        }
    }

    #[test]
    fn other_devices_are_not_volumes() {
        for uuid in [
            "",
            "LVM-abc",
            "CRYPT-VERITY-0123-x",
            "CRYPT-SUBDEV-x",
            "CRYPT-LUKS2",
        ] {
            assert_eq!(Identity::of_device(uuid), None, "{uuid}");
        }
        let odd = Identity::of_device("CRYPT-LUKS2-xyz-name").unwrap();
        assert_eq!(odd, identity("LUKS2", ""));
    }

    #[test]
    fn the_longest_name_fits() {
        let name: VolumeName = "x".repeat(64).parse().unwrap();
        let uuid = identity("LUKS2", "d1a3f3e0-6e0d-4a2b-9f7a-0123456789ab").to_device_uuid(&name);
        assert!(uuid.len() <= LEN_MAX);
        assert!(uuid.ends_with(name.as_str()));
    }
}
