//! Names for what is not a LUKS volume, each with the way to open it.

use scrim_backend::Backend;
use scrim_luks::Signature;

use crate::signature::{Contents, Survey};

/// Bytes of the start that are looked at.
const START: usize = 512;
/// Different bytes in 512 that are too many for text, code or a table. Of random ones 221 are different on average, and
/// fewer than 190 practically never.
const NOISE: usize = 190;

/// Describes a device without a LUKS header: what it holds, and what to do; `None` where that is not known.
pub(crate) fn describe(backend: &dyn Backend) -> Option<String> {
    let mut start = [0; START];
    backend.read_at(0, &mut start).ok()?;
    if is_core_storage(&start) {
        let next_step = open_by_cryptsetup("fvault2");
        return Some(format!(
            "it holds a FileVault volume (Core Storage){next_step}"
        ));
    }
    match Survey::of(backend).contents {
        Contents::Blank => None,
        Contents::Known(signature) => Some(format!("it holds {signature}{}", next_step(signature))),
        Contents::Unknown => is_noise(&start).then(|| LIKE_NOISE.to_owned()),
    }
}

const LIKE_NOISE: &str = "its start looks like noise. Plain, VeraCrypt and TrueCrypt volumes cannot be told from that (`scrim \
                          plainOpen`, `cryptsetup open --type tcrypt`), nor can a volume whose header is elsewhere (--header)";

/// The next step for a user who has named a device with this signature.
fn next_step(signature: Signature) -> String {
    match signature {
        Signature::BitLocker => open_by_cryptsetup("bitlk"),
        Signature::Lvm => {
            ": activate its volume group (`vgchange --activate y`) and name a logical volume"
                .to_owned()
        }
        Signature::Raid => {
            ": assemble it (`mdadm --assemble --scan`) and name the array".to_owned()
        }
        Signature::Gpt | Signature::Mbr => {
            ": name a partition, such as the first one by IMAGE#1".to_owned()
        }
        Signature::Qcow2 => {
            ": serve it (`qemu-nbd --socket PATH IMAGE`) and name nbd+unix:///?socket=PATH"
                .to_owned()
        }
        _ => ", which is not encrypted, or has its header elsewhere (--header)".to_owned(),
    }
}

fn open_by_cryptsetup(r#type: &str) -> String {
    format!(", which Scrim does not open: use `cryptsetup open --type {type}`")
}

/// Core Storage, in which FileVault 2 keeps its volumes: version 1 of a block at byte 8, and the magic at byte 88 (libfvde,
/// "FileVault Drive Encryption", 2.1).
fn is_core_storage(start: &[u8; START]) -> bool {
    start[8..10] == [1, 0] && start[88..90] == *b"CS"
}

fn is_noise(start: &[u8; START]) -> bool {
    let mut seen = [false; 256];
    start
        .iter()
        .for_each(|&byte| seen[usize::from(byte)] = true);
    seen.iter().filter(|seen| **seen).count() >= NOISE
}

#[cfg(test)]
mod tests {
    use scrim_backend::MemoryBackend;

    use super::*;

    fn described(place: usize, bytes: &[u8]) -> Option<String> {
        let mut device = vec![0; 1 << 20];
        device[place..place + bytes.len()].copy_from_slice(bytes);
        describe(&MemoryBackend::new(device))
    }

    #[test]
    fn each_format_is_named_with_a_next_step() {
        let mut boot = vec![0xeb, 0x58, 0x90];
        boot.extend(b"-FVE-FS-");
        boot.resize(512, 0);
        boot[510..].copy_from_slice(b"\x55\xaa");
        let mut core_storage = vec![0; 512];
        (core_storage[8], core_storage[10]) = (1, 0x10);
        core_storage[88..90].copy_from_slice(b"CS");
        for (place, bytes, said) in [
            (0, &boot[..], "BitLocker"),
            (0, &core_storage, "FileVault"),
            (512, b"LABELONE", "vgchange"),
            (0, b"QFI\xfb", "qemu-nbd"),
            (0x438, b"\x53\xef", "not encrypted"),
            (0, &scrim_seeded::Random::new(1).bytes(512), "VeraCrypt"),
        ] {
            let described = described(place, bytes).unwrap_or_default();
            assert!(described.contains(said), "{said}: {described}");
        }
        assert_eq!(described(0, b"text, not noise"), None);
        assert_eq!(described(0, b""), None);
        assert_eq!(describe(&MemoryBackend::new(vec![1; 100])), None);
    }
}
