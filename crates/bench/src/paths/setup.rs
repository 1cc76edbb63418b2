//! Set-ups that are compared: tables and data paths, by the names of the two reports.

use std::fmt::Write as _;

use scrim_crypt::{CipherError, CipherSpec, Geometry, SectorCipher, SectorSize};
use scrim_volume::{CryptTable, DataPath, TableError};

/// The data is read and written under this throw-away key, which is no secret.
const KEY_BYTES: usize = 64;

/// The name that tables have for their device, where it is no file.
pub(super) const DEVICE: &str = "/dev/ram0";

/// Layer between a request and the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// Nothing: a linear target.
    Plain,
    /// All of dm-crypt's queues.
    Queued,
    SameCpu,
    SubmitFromCrypt,
    NoRead,
    NoWrite,
    /// No queue at all.
    Inline,
    /// Scrim's own choice, where the user makes none.
    Auto,
}

impl SetUp {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Queued,
        Self::SameCpu,
        Self::SubmitFromCrypt,
        Self::NoRead,
        Self::NoWrite,
        Self::Inline,
        Self::Auto,
    ];

    /// Name of the set-up as a part of series' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Queued => "queued",
            Self::SameCpu => "same_cpu_crypt",
            Self::SubmitFromCrypt => "submit_from_crypt_cpus",
            Self::NoRead => "no_read_workqueue",
            Self::NoWrite => "no_write_workqueue",
            Self::Inline => "inline",
            Self::Auto => "auto",
        }
    }

    /// The data path of its requests.
    #[must_use]
    pub fn path(self) -> DataPath {
        match self {
            Self::Inline => DataPath::Inline,
            Self::Plain | Self::Auto => DataPath::Auto,
            _ => DataPath::Queued,
        }
    }

    /// The flag of its table.
    fn flag(self) -> Option<&'static str> {
        match self {
            Self::SameCpu | Self::SubmitFromCrypt | Self::NoRead | Self::NoWrite => {
                Some(self.name())
            }
            _ => None,
        }
    }
}

/// Cipher of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256 in XTS mode, as in the report of 2020.
    Aes,
    /// No cipher, so that only the path counts, as in the kernel patch.
    Null,
}

impl Cipher {
    /// Both ciphers: AES and the null cipher.
    pub const ALL: [Self; 2] = [Self::Aes, Self::Null];

    /// Name of the cipher as a part of series' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes => "aes",
            Self::Null => "null",
        }
    }

    /// Specification of the cipher in dm-crypt's words.
    #[must_use]
    pub fn specification(self) -> &'static str {
        match self {
            Self::Aes => "aes-xts-plain64",
            Self::Null => "capi:ecb(cipher_null)-null",
        }
    }

    fn key() -> Vec<u8> {
        (0..=u8::MAX).cycle().take(KEY_BYTES).collect()
    }

    fn key_text(self) -> String {
        if self == Self::Null {
            return "-".to_owned();
        }
        let mut text = String::new();
        for byte in Self::key() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Sets the cipher up as in the tables; `None` where there is nothing to compute.
    pub(super) fn set_up(self) -> Result<Option<SectorCipher>, CipherError> {
        if self == Self::Null {
            return Ok(None);
        }
        let spec: CipherSpec = self.specification().parse()?;
        let geometry = Geometry::new(SectorSize::S512);
        SectorCipher::new(&spec, &Self::key(), geometry).map(Some)
    }
}

/// One of the things that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Layer between a request and the storage.
    pub set_up: SetUp,
    /// Cipher of the volume; [`Cipher::Aes`] where nothing is encrypted.
    pub cipher: Cipher,
}

impl Contender {
    /// Every set-up with every cipher, and the plain one once.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let pairs = Cipher::ALL.into_iter().flat_map(|cipher| {
            let set_ups = SetUp::ALL.into_iter();
            set_ups.map(move |set_up| Self { set_up, cipher })
        });
        let once = |one: &Self| one.set_up != SetUp::Plain || one.cipher == Cipher::Aes;
        pairs.filter(once).collect()
    }

    /// Name of the contender as a part of series' names, such as `aes_inline` or `plain`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.set_up {
            SetUp::Plain => "plain".to_owned(),
            set_up => format!("{}_{}", self.cipher.name(), set_up.name()),
        }
    }

    /// Text of its table, for `sectors` sectors of 512 bytes from the start of `device`, which is a name as
    /// tables have them.
    pub(super) fn table_text(&self, device: &str, sectors: u64) -> String {
        if self.set_up == SetUp::Plain {
            return format!("0 {sectors} linear {device} 0\n");
        }
        let (cipher, key) = (self.cipher.specification(), self.cipher.key_text());
        let flags = match self.set_up.flag() {
            None => String::new(),
            Some(flag) => format!(" 1 {flag}"),
        };
        format!("0 {sectors} crypt {cipher} {key} 0 {device} 0{flags}\n")
    }

    pub(super) fn table(&self, bytes: u64) -> Result<CryptTable, TableError> {
        CryptTable::parse(&self.table_text(DEVICE, bytes / 512))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_a_name_and_a_table_that_parses() {
        let all = Contender::all();
        assert_eq!(all.len(), 15);
        let mut names: Vec<_> = all.iter().map(Contender::name).collect();
        assert!(names.contains(&"null_no_read_workqueue".to_owned()));
        for contender in &all {
            assert_eq!(contender.table(1 << 20).unwrap().len(), 2048);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn a_table_has_the_flag_that_its_set_up_is_named_after() {
        let contender = Contender {
            set_up: SetUp::NoWrite,
            cipher: Cipher::Null,
        };
        assert_eq!(
            contender.table_text("/dev/ram0", 8),
            "0 8 crypt capi:ecb(cipher_null)-null - 0 /dev/ram0 0 1 no_write_workqueue\n"
        );
    }
}
