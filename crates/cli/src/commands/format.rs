//! `scrim format IMAGE`.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use scrim_backend::{Access, Backend, FileBackend};
use scrim_crypt::{CipherSpec, SectorSize};
use scrim_luks::kdf::{
    Argon2Cost, Argon2Kind, DIGEST_TIME, Hash, Kdf, KdfError, MachineLimits, calibrate_argon2,
    calibrate_pbkdf2,
};
use scrim_luks::{Formatted, Layout, NewKeyslot, Placement, VolumeKey, luks1, luks2};
use scrim_sys::memory::SecretBytes;
use scrim_volume::LuksDevice;

use super::{note, warn_of_failed_self_tests};
use crate::args::{FormatArgs, KeyArgs, LuksType, PbkdfType};
use crate::cipher::{key_bytes, sector_size};
use crate::daemon::defer_signals;
use crate::error::{CliError, Exit};
use crate::secret_input::{confirmed_in_capitals, new_passphrase};
use crate::signature::Contents;

/// Fewest iterations of a digest, as in cryptsetup.
const LEAST_ITERATIONS: u32 = 1000;
/// Bytes of the volume key's digest.
const DIGEST_LEN: usize = 32;

pub(crate) fn run(args: &FormatArgs) -> Result<(), CliError> {
    let request = Request::check(args)?;
    if let Some(weakness) = request.cipher.weakness() {
        let cipher = &request.cipher;
        note(format_args!("scrim: warning: {cipher}: {weakness}"));
    }
    warn_of_failed_self_tests();
    let image = Place::find(&args.image, args.size)?;
    let header = match &args.header {
        // A header file that does not exist is made, as large as it needs to be.
        Some(path) if path.symlink_metadata().is_err() => Some(Place::find(path, Some(0))?),
        Some(path) => Some(Place::find(path, None)?),
        None => None,
    };
    confirm(args, &image, header.as_ref(), &request)?;
    let key_args = KeyArgs {
        key_file: args.key.key_file.clone().or(args.positional_key.clone()),
        ..args.key.clone()
    };
    let shown = args.image.display().to_string();
    let passphrase = new_passphrase(&key_args, &shown)?;
    let key = VolumeKey::generate(request.key_bytes)
        .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))?;
    let formatted = request.make(args, &image, header.as_ref(), &key, &passphrase.secret)?;
    write(&formatted, &image, header.as_ref())?;
    note(format_args!(
        "{shown}: LUKS{} volume {} created",
        formatted.header.version(),
        formatted.header.uuid()
    ));
    Ok(())
}

/// The options that can be wrong, checked before anything is looked at.
struct Request {
    luks1: bool,
    cipher: CipherSpec,
    key_bytes: usize,
    hash: Hash,
    pbkdf: PbkdfType,
    sector_size: Option<SectorSize>,
    data_offset: Option<u64>,
}

impl Request {
    fn check(args: &FormatArgs) -> Result<Self, CliError> {
        let luks1 = args.r#type == LuksType::Luks1;
        let cipher = parse_cipher(&args.cipher)?;
        let hash: Hash = args
            .hash
            .parse()
            .map_err(|error| CliError::usage(format!("--hash: {error}")))?;
        let sector_size = args.sector_size.map(sector_size).transpose()?;
        let default = if luks1 {
            PbkdfType::Pbkdf2
        } else {
            PbkdfType::Argon2id
        };
        let pbkdf = args.pbkdf.unwrap_or(default);
        if luks1 && pbkdf != PbkdfType::Pbkdf2 {
            return Err(CliError::usage("LUKS1 has only --pbkdf pbkdf2"));
        }
        if luks1 && sector_size.is_some_and(|size| size.bytes() != 512) {
            return Err(CliError::usage("LUKS1 has only --sector-size 512"));
        }
        if luks1 && !(args.label.is_empty() && args.subsystem.is_empty()) {
            return Err(CliError::usage("LUKS1 has no --label and no --subsystem"));
        }
        let data_offset = match args.offset {
            None => None,
            Some(sectors) => Some(
                sectors
                    .checked_mul(512)
                    .ok_or_else(|| CliError::usage("--offset is larger than any device"))?,
            ),
        };
        Ok(Self {
            luks1,
            key_bytes: key_bytes(&cipher, args.key_size)?,
            cipher,
            hash,
            pbkdf,
            sector_size,
            data_offset,
        })
    }

    fn version(&self) -> &'static str {
        if self.luks1 { "LUKS1" } else { "LUKS2" }
    }

    /// Derives the key and lays out the header.
    fn make(
        &self,
        args: &FormatArgs,
        image: &Place,
        header: Option<&Place>,
        key: &VolumeKey,
        passphrase: &SecretBytes,
    ) -> Result<Formatted, CliError> {
        let device = header.unwrap_or(image);
        let layout = Layout {
            placement: match header {
                Some(_) => Placement::Detached,
                None => Placement::Attached,
            },
            device_len: device.size,
            grows: header.is_some() && device.created(),
            data_offset: self.data_offset,
        };
        let limits = MachineLimits::read();
        let kdf = self.kdf(args, &limits)?;
        // As cryptsetup: whoever forces the cost wants nothing measured.
        let digest_iterations = match args.pbkdf_force_iterations {
            Some(_) => LEAST_ITERATIONS,
            None => calibrate_pbkdf2(self.hash, DIGEST_LEN, DIGEST_TIME)?,
        };
        let formatted = if self.luks1 {
            let Kdf::Pbkdf2 { iterations, .. } = kdf else {
                return Err(CliError::usage("LUKS1 has only --pbkdf pbkdf2"));
            };
            let spec = luks1::FormatSpec {
                cipher: self.cipher.clone(),
                hash: self.hash,
                digest_iterations,
                iterations,
                slot: Some(args.key_slot),
                uuid: args.uuid.clone(),
                layout,
            };
            luks1::format(&spec, key, passphrase)
        } else {
            let spec = luks2::FormatSpec {
                cipher: self.cipher.clone(),
                sector_size: self.sector_size.unwrap_or_else(|| image.sector_size()),
                digest_hash: self.hash,
                digest_iterations,
                keyslot: NewKeyslot {
                    slot: Some(args.key_slot),
                    kdf,
                    af_hash: self.hash,
                },
                uuid: args.uuid.clone(),
                label: args.label.clone(),
                subsystem: args.subsystem.clone(),
                flags: Vec::new(),
                layout,
                metadata_size: None,
                keyslots_size: None,
            };
            luks2::format(&spec, key, passphrase)
        };
        formatted.map_err(|error| {
            let message = format!("{}: {error}", device.path.display());
            match memory_refused(&error) {
                true => CliError::new(Exit::OutOfMemory, message),
                false => CliError::usage(message),
            }
        })
    }

    /// The key derivation: as asked, or measured on this machine.
    fn kdf(&self, args: &FormatArgs, limits: &MachineLimits) -> Result<Kdf, CliError> {
        let target = Duration::from_millis(u64::from(args.iter_time));
        let kind = match self.pbkdf {
            PbkdfType::Pbkdf2 => {
                let iterations = match args.pbkdf_force_iterations {
                    Some(iterations) => iterations,
                    None => calibrate_pbkdf2(self.hash, self.key_bytes, target)?,
                };
                return Ok(Kdf::Pbkdf2 {
                    hash: self.hash,
                    iterations,
                });
            }
            PbkdfType::Argon2i => Argon2Kind::Argon2i,
            PbkdfType::Argon2id => Argon2Kind::Argon2id,
        };
        let memory_kib = args.pbkdf_memory.unwrap_or(limits.argon2_memory_kib());
        let lanes = args.pbkdf_parallel.unwrap_or(limits.argon2_lanes());
        let cost = match args.pbkdf_force_iterations {
            Some(time) => Argon2Cost {
                time,
                memory_kib,
                lanes,
            },
            None => calibrate_argon2(kind, lanes, memory_kib, target, limits)?,
        };
        Ok(match kind {
            Argon2Kind::Argon2i => Kdf::Argon2i { cost },
            Argon2Kind::Argon2id => Kdf::Argon2id { cost },
        })
    }
}

/// A cipher for a header, which knows more short forms than dm-crypt, and no drivers: what this
/// machine has may not be on the next.
fn parse_cipher(text: &str) -> Result<CipherSpec, CliError> {
    let text = match text {
        "null" | "cipher_null" => "cipher_null-ecb",
        other => other,
    };
    let cipher: CipherSpec = text
        .parse()
        .map_err(|error| CliError::usage(format!("--cipher: {error}")))?;
    match cipher.driver() {
        None => Ok(cipher),
        Some(driver) => Err(CliError::usage(format!(
            "--cipher: {driver} is a driver, which other machines may not have; write the cipher \
             like capi:xts(aes)-plain64"
        ))),
    }
}

/// A file or device that a header or its data goes to, or a file that is yet to be made.
struct Place {
    path: PathBuf,
    /// In bytes.
    size: u64,
    /// `None` when the file does not exist yet.
    backend: Option<FileBackend>,
}

impl Place {
    fn find(path: &Path, size: Option<u64>) -> Result<Self, CliError> {
        let exists = path.symlink_metadata().is_ok();
        let shown = path.display();
        match (exists, size) {
            (true, Some(_)) => Err(CliError::new(
                Exit::Busy,
                format!("{shown} exists already; leave --size out to overwrite what it holds"),
            )),
            (false, None) => Err(CliError::new(
                Exit::WrongDevice,
                format!("{shown} does not exist; say with --size how large to make it"),
            )),
            (false, Some(size)) => Ok(Self {
                path: path.to_owned(),
                size,
                backend: None,
            }),
            (true, None) => {
                let backend = FileBackend::open(path, Access::ReadWrite)?;
                Ok(Self {
                    path: path.to_owned(),
                    size: backend.info().size,
                    backend: Some(backend),
                })
            }
        }
    }

    fn created(&self) -> bool {
        self.backend.is_none()
    }

    fn contents(&self) -> Contents {
        self.backend
            .as_ref()
            .map_or(Contents::Blank, |backend| Contents::of(backend))
    }

    /// The encryption sector where nobody asks for one: 4096 bytes, unless the device is no
    /// multiple of that.
    fn sector_size(&self) -> SectorSize {
        if self.size.is_multiple_of(4096) {
            SectorSize::S4096
        } else {
            SectorSize::S512
        }
    }
}

/// Says what will be lost, and asks at a terminal. Where nobody can answer, only what is blank is
/// overwritten without `--batch-mode`.
fn confirm(
    args: &FormatArgs,
    image: &Place,
    header: Option<&Place>,
    request: &Request,
) -> Result<(), CliError> {
    if args.batch_mode {
        return Ok(());
    }
    let version = request.version();
    let device = header.unwrap_or(image);
    let path = device.path.display();
    let contents = device.contents();
    let question = if device.created() && header.is_some() {
        let image = image.path.display();
        format!("This creates {path} as the detached {version} header of {image}.")
    } else if device.created() {
        format!(
            "This creates {path}, {}, as a {version} volume.",
            human(device.size)
        )
    } else {
        format!(
            "This will overwrite {path} irrevocably. It holds {}.",
            contents.describe()
        )
    };
    if io::stdin().is_terminal() {
        let confirmed = confirmed_in_capitals(&question)
            .map_err(|error| CliError::io("ask at the terminal", &error))?;
        return if confirmed {
            Ok(())
        } else {
            Err(CliError::usage("not confirmed; nothing was changed"))
        };
    }
    if contents == Contents::Blank {
        return Ok(());
    }
    Err(CliError::new(
        Exit::Busy,
        format!(
            "{path} holds {}, and nobody is at a terminal to confirm that it may be overwritten; \
             nothing was changed: add --batch-mode to overwrite it",
            contents.describe()
        ),
    ))
}

/// Writes the header, whole: signals wait until it is done. What was made for it goes again when it
/// cannot be finished: half a volume is of no use to anybody.
fn write(formatted: &Formatted, image: &Place, header: Option<&Place>) -> Result<(), CliError> {
    defer_signals()?;
    let end = formatted.plan.end();
    let mut made = Vec::new();
    let written = match header {
        // The data's file comes first: without it no header is touched.
        Some(header) => image
            .create(image.size, &mut made)
            .and_then(|_| header.write(formatted, end, &mut made)),
        None => image.write(formatted, image.size.max(end), &mut made),
    };
    if written.is_err() {
        for path in made {
            let _ = std::fs::remove_file(path);
        }
    }
    written
}

impl Place {
    /// Makes the file if it does not exist; notes that it did.
    fn create(&self, size: u64, made: &mut Vec<PathBuf>) -> Result<Option<FileBackend>, CliError> {
        if self.backend.is_some() {
            return Ok(None);
        }
        let backend = FileBackend::create(&self.path, size)?;
        made.push(self.path.clone());
        Ok(Some(backend))
    }

    fn write(
        &self,
        formatted: &Formatted,
        size: u64,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), CliError> {
        let created = self.create(size, made)?;
        if let Some(backend) = created.as_ref().or(self.backend.as_ref()) {
            backend.reserve(formatted.plan.end())?;
            LuksDevice::write(&formatted.plan, backend)?;
        }
        Ok(())
    }
}

/// Whether an error comes of too little memory for the key derivation.
fn memory_refused(error: &(dyn Error + 'static)) -> bool {
    let refused = matches!(
        error.downcast_ref(),
        Some(KdfError::Memory { .. } | KdfError::MemoryRefused { .. })
    );
    refused || error.source().is_some_and(memory_refused)
}

/// A size for people, in binary units.
fn human(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    #[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_binary_units() {
        assert_eq!(human(0), "0 bytes");
        assert_eq!(human(1023), "1023 bytes");
        assert_eq!(human(1 << 30), "1.0 GiB");
        assert_eq!(human(1_610_612_736), "1.5 GiB");
    }
}
