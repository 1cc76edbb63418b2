//! Tables as the kernel has them: text, as its targets may be of kinds that Scrim does not run, and a key may be in a
//! keyring.

use scrim_sys::device_mapper::Target;
use scrim_sys::memory::SecretBytes;
use scrim_volume::{Keys, OpenFlags};

use crate::error::CliError;

/// A table, one line for each target.
pub(super) struct KernelTable {
    text: SecretBytes,
}

/// A line `start length kind arguments`.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) kind: &'a str,
    pub(super) arguments: &'a str,
}

/// Arguments of a crypt target: `cipher key iv_offset device offset [count options]`.
#[derive(Clone)]
pub(super) struct CryptArguments<'a> {
    pub(super) cipher: &'a str,
    pub(super) key: &'a str,
    pub(super) iv_offset: &'a str,
    pub(super) device: &'a str,
    pub(super) offset: u64,
    pub(super) options: Vec<&'a str>,
}

/// A key in a keyring, as tables name it: `:size:type:description`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyReference<'a> {
    /// Size of the key in bytes.
    pub(super) size: usize,
    pub(super) r#type: &'a str,
    pub(super) description: &'a str,
}

impl KernelTable {
    /// Takes a table that the kernel has printed, or that is to be loaded.
    pub(super) fn new(text: SecretBytes) -> Result<Self, CliError> {
        let table = Self { text };
        match std::str::from_utf8(table.text.expose()) {
            Ok(_) => Ok(table),
            Err(_) => Err(CliError::usage("the table is not text")),
        }
    }

    /// The lines, in order. What is no line is passed over: the kernel's are.
    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        let text = std::str::from_utf8(self.text.expose()).unwrap_or_default();
        text.lines().filter_map(Line::parse).collect()
    }

    /// The arguments of the table's only target, if that is a crypt target.
    pub(super) fn crypt(&self) -> Option<CryptArguments<'_>> {
        match self.lines()[..] {
            [line] if line.kind == "crypt" => CryptArguments::parse(line.arguments),
            _ => None,
        }
    }

    /// Length in 512-byte sectors.
    pub(super) fn sectors(&self) -> u64 {
        let lines = self.lines();
        lines.last().map_or(0, |line| line.start + line.len)
    }

    /// The table as `dmsetup table` prints it: with zeros for a key, unless it is to be shown.
    pub(super) fn printed(&self, keys: Keys) -> SecretBytes {
        let mut text = SecretBytes::copied_from(self.text.expose());
        if keys == Keys::Masked {
            for line in self.lines().iter().filter(|line| line.kind == "crypt") {
                let key = CryptArguments::parse(line.arguments).map_or("", |crypt| crypt.key);
                if KeyReference::parse(key).is_none() && key != "-" {
                    let at = key.as_ptr().addr() - self.text.expose().as_ptr().addr();
                    text.expose_mut()[at..at + key.len()].fill(b'0');
                }
            }
        }
        text
    }

    /// The targets, to be loaded.
    pub(super) fn targets(&self) -> Vec<Target<'_>> {
        let lines = self.lines().into_iter();
        lines
            .map(|line| Target {
                start: line.start,
                len: line.len,
                kind: line.kind,
                arguments: line.arguments.as_bytes(),
            })
            .collect()
    }

    /// The table with a key in a keyring in place of its own, of the same size; `None` if it is not that of a crypt target.
    pub(super) fn with_key_of_keyring(&self, kind: &str, description: &str) -> Option<Self> {
        let crypt = self.crypt()?;
        let key = format!(":{}:{kind}:{description}", crypt.key_len());
        let named = CryptArguments { key: &key, ..crypt };
        Some(Self::of_crypt(self.sectors(), &named))
    }

    /// Makes a table of one crypt target.
    pub(super) fn of_crypt(len: u64, crypt: &CryptArguments<'_>) -> Self {
        let CryptArguments {
            cipher,
            key,
            iv_offset,
            device,
            offset,
            ref options,
        } = *crypt;
        let count = match options.len() {
            0 => String::new(),
            count => format!(" {count} {}", options.join(" ")),
        };
        let tail = format!(" {iv_offset} {device} {offset}{count}\n");
        let head = format!("0 {len} crypt {cipher} ");
        let mut text = SecretBytes::zeroed(head.len() + key.len() + tail.len());
        let mut place = 0;
        for part in [&head, key, &tail] {
            text.expose_mut()[place..place + part.len()].copy_from_slice(part.as_bytes());
            place += part.len();
        }
        Self { text }
    }
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (start, rest) = line.split_once(' ')?;
        let (len, rest) = rest.split_once(' ')?;
        let (kind, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self {
            start: start.parse().ok()?,
            len: len.parse().ok()?,
            kind,
            arguments: arguments.trim_ascii_end(),
        })
    }
}

impl<'a> CryptArguments<'a> {
    pub(super) fn parse(arguments: &'a str) -> Option<Self> {
        let mut words = arguments.split_ascii_whitespace();
        Some(Self {
            cipher: words.next()?,
            key: words.next()?,
            iv_offset: words.next()?,
            device: words.next()?,
            offset: words.next()?.parse().ok()?,
            options: words.skip(1).collect(),
        })
    }

    /// Size of the key in bytes.
    pub(super) fn key_len(&self) -> usize {
        match (KeyReference::parse(self.key), self.key) {
            (Some(reference), _) => reference.size,
            (None, "-") => 0,
            (None, digits) => digits.len() / 2,
        }
    }

    /// Encryption sector in bytes.
    pub(super) fn sector_size(&self) -> u32 {
        let mut words = self.options.iter();
        let size = words.find_map(|word| word.strip_prefix("sector_size:"));
        size.and_then(|size| size.parse().ok()).unwrap_or(512)
    }

    /// The flags that are set, in the kernel's words and order.
    pub(super) fn flags(&self) -> Vec<&'a str> {
        let flags = self.options.iter().copied();
        flags.filter(|word| !is_geometry(word)).collect()
    }

    /// Sets the flags, and keeps what says how the data are encrypted.
    pub(super) fn with_flags(mut self, flags: OpenFlags) -> Self {
        self.options.retain(|word| is_geometry(word));
        let mut options = words_of(flags);
        options.append(&mut self.options);
        self.options = options;
        self
    }
}

/// Returns whether an option says how the data are encrypted, and so is none of the flags of [`OpenFlags`].
fn is_geometry(word: &str) -> bool {
    !words_of(OpenFlags {
        allow_discards: true,
        same_cpu_crypt: true,
        submit_from_crypt_cpus: true,
        no_read_workqueue: true,
        no_write_workqueue: true,
        high_priority: true,
    })
    .contains(&word)
}

/// The flags that a crypt target's options set.
pub(super) fn flags_of(crypt: &CryptArguments<'_>) -> OpenFlags {
    let has = |word| crypt.options.contains(&word);
    OpenFlags {
        allow_discards: has("allow_discards"),
        same_cpu_crypt: has("same_cpu_crypt"),
        submit_from_crypt_cpus: has("submit_from_crypt_cpus"),
        no_read_workqueue: has("no_read_workqueue"),
        no_write_workqueue: has("no_write_workqueue"),
        high_priority: has("high_priority"),
    }
}

/// The options of a crypt target that set flags.
pub(crate) fn words_of(flags: OpenFlags) -> Vec<&'static str> {
    let sector_size = scrim_crypt::SectorSize::S512;
    scrim_volume::CryptOptions::new(sector_size)
        .with_flags(flags)
        .flags()
}

impl<'a> KeyReference<'a> {
    pub(super) fn parse(key: &'a str) -> Option<Self> {
        let (size, rest) = key.strip_prefix(':')?.split_once(':')?;
        let (r#type, description) = rest.split_once(':')?;
        Some(Self {
            size: size.parse().ok()?,
            r#type,
            description,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> KernelTable {
        KernelTable::new(SecretBytes::copied_from(text.as_bytes())).unwrap()
    }

    fn shown(table: &KernelTable, keys: Keys) -> String {
        String::from_utf8(table.printed(keys).expose().to_vec()).unwrap()
    }

    const HEX: &str = "0 64 crypt aes-xts-plain64 00ff11ee 8 7:0 32768 3 allow_discards sector_size:4096 iv_large_sectors\n";
    const KEYRING: &str = "0 64 crypt aes-xts-plain64 :64:logon:cryptsetup:d1a3-d0 0 254:1 32768 1 no_read_workqueue\n";

    #[test]
    fn a_key_is_masked_and_its_name_in_a_keyring_is_not() {
        let hex = table(HEX);
        assert_eq!(
            shown(&hex, Keys::Masked),
            HEX.replace("00ff11ee", "00000000")
        );
        assert_eq!(shown(&hex, Keys::Shown), HEX);
        for text in [
            KEYRING,
            "0 8 linear 7:0 8\n8 8 crypt cipher_null-ecb - 0 7:0 0\n",
        ] {
            assert_eq!(shown(&table(text), Keys::Masked), text);
        }
    }

    #[test]
    fn flags_change_and_the_rest_stays() {
        let hex = table(HEX);
        let crypt = hex.crypt().unwrap();
        assert_eq!(
            (crypt.sector_size(), crypt.key_len(), crypt.flags()),
            (4096, 4, vec!["allow_discards"])
        );
        let flags = OpenFlags {
            no_read_workqueue: true,
            no_write_workqueue: true,
            ..OpenFlags::default()
        };
        let changed = KernelTable::of_crypt(64, &crypt.with_flags(flags));
        let expected = "0 64 crypt aes-xts-plain64 00ff11ee 8 7:0 32768 4 no_read_workqueue no_write_workqueue \
                        sector_size:4096 iv_large_sectors\n";
        assert_eq!(shown(&changed, Keys::Shown), expected);
        let none = KernelTable::of_crypt(
            64,
            &table(KEYRING)
                .crypt()
                .unwrap()
                .with_flags(OpenFlags::default()),
        );
        assert_eq!(
            shown(&none, Keys::Shown),
            KEYRING.replace(" 1 no_read_workqueue", "")
        );
    }

    #[test]
    fn a_key_in_a_keyring_is_known_by_its_name() {
        let table = table(KEYRING);
        let key = table.crypt().unwrap().key;
        let reference = KeyReference {
            size: 64,
            r#type: "logon",
            description: "cryptsetup:d1a3-d0",
        };
        assert_eq!(KeyReference::parse(key), Some(reference));
        assert_eq!(KeyReference::parse("00ff"), None);
        assert_eq!(table.crypt().unwrap().key_len(), 64);
    }

    #[test]
    fn targets_are_loaded_as_they_are_written() {
        let table = table("0 8 zero\n8 16 linear 7:0 24\n");
        let targets = table.targets();
        let parts: Vec<_> = targets
            .iter()
            .map(|target| (target.start, target.len, target.kind, target.arguments))
            .collect();
        assert_eq!(
            parts,
            [(0, 8, "zero", &b""[..]), (8, 16, "linear", &b"7:0 24"[..])]
        );
        assert_eq!(table.sectors(), 24);
        assert!(table.crypt().is_none());
    }
}
