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

    /// Flags of its table in an engine. Scrim has a data path without queues, and needs no flags for that.
    fn flags(self, engine: Engine) -> Vec<&'static str> {
        match self {
            Self::SameCpu | Self::SubmitFromCrypt | Self::NoRead | Self::NoWrite => {
                vec![self.name()]
            }
            Self::Inline if engine == Engine::Kernel => {
                vec![Self::NoRead.name(), Self::NoWrite.name()]
            }
            _ => Vec::new(),
        }
    }
}

/// Implementation of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Scrim's volumes, in this process or a served one.
    Scrim,
    /// The kernel's dm-crypt, through device mapper.
    Kernel,
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
    /// Implementation of the layer; [`Engine::Scrim`] where nothing is encrypted.
    pub engine: Engine,
    /// Layer between a request and the storage.
    pub set_up: SetUp,
    /// Cipher of the volume; [`Cipher::Aes`] where nothing is encrypted.
    pub cipher: Cipher,
}

impl Contender {
    /// A set-up on one of Scrim's data paths.
    pub(super) fn scrim(set_up: SetUp, cipher: Cipher) -> Self {
        Self {
            engine: Engine::Scrim,
            set_up,
            cipher,
        }
    }

    /// A set-up of dm-crypt, whose data path its flags make.
    pub(super) fn kernel(set_up: SetUp, cipher: Cipher) -> Self {
        Self {
            engine: Engine::Kernel,
            set_up,
            cipher,
        }
    }

    /// Every set-up of Scrim's with every cipher, and the plain one once.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let pairs = Cipher::ALL.into_iter().flat_map(|cipher| {
            let set_ups = SetUp::ALL.into_iter();
            set_ups.map(move |set_up| Self::scrim(set_up, cipher))
        });
        let once = |one: &Self| one.set_up != SetUp::Plain || one.cipher == Cipher::Aes;
        pairs.filter(once).collect()
    }

    /// Those that are compared on a block device: the device itself, the kernel's set-ups, and two of Scrim's beside them.
    #[must_use]
    pub fn on_device() -> Vec<Self> {
        const KERNELS: [SetUp; 6] = [
            SetUp::Queued,
            SetUp::SameCpu,
            SetUp::SubmitFromCrypt,
            SetUp::NoRead,
            SetUp::NoWrite,
            SetUp::Inline,
        ];
        let mut all = vec![Self::scrim(SetUp::Plain, Cipher::Aes)];
        for cipher in Cipher::ALL {
            all.extend(KERNELS.map(|set_up| Self::kernel(set_up, cipher)));
            all.extend([SetUp::Queued, SetUp::Inline].map(|set_up| Self::scrim(set_up, cipher)));
        }
        all
    }

    /// Name of the contender as a part of series' names, such as `aes_inline`, `kernel_aes_queued` or `plain`.
    #[must_use]
    pub fn name(&self) -> String {
        let (cipher, set_up) = (self.cipher.name(), self.set_up.name());
        match (self.set_up, self.engine) {
            (SetUp::Plain, _) => set_up.to_owned(),
            (_, Engine::Scrim) => format!("{cipher}_{set_up}"),
            (_, Engine::Kernel) => format!("kernel_{cipher}_{set_up}"),
        }
    }

    /// Text of its table, for `sectors` sectors of 512 bytes from the start of `device`, which is a name as
    /// tables have them.
    pub(super) fn table_text(&self, device: &str, sectors: u64) -> String {
        if self.set_up == SetUp::Plain {
            return format!("0 {sectors} linear {device} 0\n");
        }
        let arguments = self.arguments(device);
        format!("0 {sectors} crypt {arguments}\n")
    }

    /// Arguments of its `crypt` target.
    pub(super) fn arguments(&self, device: &str) -> String {
        let (cipher, key) = (self.cipher.specification(), self.cipher.key_text());
        let flags = self.set_up.flags(self.engine);
        let flags = match flags.len() {
            0 => String::new(),
            count => format!(" {count} {}", flags.join(" ")),
        };
        format!("{cipher} {key} 0 {device} 0{flags}")
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
        let on_device = Contender::on_device();
        assert_eq!(on_device.len(), 17);
        names.extend(on_device.iter().map(Contender::name));
        for contender in all.iter().chain(&on_device) {
            assert_eq!(contender.table(1 << 20).unwrap().len(), 2048);
        }
        names.sort();
        names.dedup();
        // Those of the kernel are more.
        assert_eq!(names.len(), all.len() + 12);
    }

    #[test]
    fn a_table_has_the_flag_that_its_set_up_is_named_after() {
        let text = |contender: Contender| contender.table_text("/dev/ram0", 8);
        assert_eq!(
            text(Contender::scrim(SetUp::NoWrite, Cipher::Null)),
            "0 8 crypt capi:ecb(cipher_null)-null - 0 /dev/ram0 0 1 no_write_workqueue\n"
        );
        assert_eq!(
            text(Contender::kernel(SetUp::Inline, Cipher::Null)),
            "0 8 crypt capi:ecb(cipher_null)-null - 0 /dev/ram0 0 2 no_read_workqueue no_write_workqueue\n"
        );
    }
}
