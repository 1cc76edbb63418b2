//! A new volume by its options: the steps that `format`, `import` and `encrypt` have in common.

use std::path::Path;

use scrim_backend::Backend;
use scrim_crypt::{CipherSpec, SectorSize, chosen};
use scrim_luks::kdf::{Hash, Kdf};
use scrim_luks::{
    FormatError, Formatted, KeyslotCipher, Layout, NewKeyslot, VolumeKey, luks1, luks2,
};
use scrim_sys::memory::SecretBytes;

use crate::args::{FormatArgs, LuksType};
use crate::cipher::options::{for_header, key_bytes, keyslot_cipher, sector_size};
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit, memory_refused};
use crate::luks::cost;
use crate::luks::key_source::{Passphrase, exact_key, new_passphrase};
use crate::signature::Survey;
use crate::terminal::note;

/// The options of a new volume; those that can be wrong are checked before any device is read.
pub(crate) struct NewVolume<'a> {
    args: &'a FormatArgs,
    luks1: bool,
    cipher: CipherSpec,
    key_bytes: usize,
    hash: Hash,
    /// Encryption sector that was asked for, if any.
    pub(crate) sector_size: Option<SectorSize>,
    /// Cipher of the first key slot, if it is not to be that of the data.
    keyslot_cipher: Option<KeyslotCipher>,
    /// Offset of the data in bytes; `None` is the default.
    pub(crate) data_offset: Option<u64>,
}

impl<'a> NewVolume<'a> {
    pub(crate) fn asked_for(args: &'a FormatArgs) -> Result<Self, CliError> {
        let luks1 = args.r#type == LuksType::Luks1;
        if args.key.pbkdf_memory_limit.is_some() || args.key.pbkdf_time_limit.is_some() {
            return Err(CliError::usage(
                "--pbkdf-memory-limit and --pbkdf-time-limit are for a header that is there already; \
                 say with --pbkdf-memory and --iter-time what the new one may cost",
            ));
        }
        let cipher = for_header("--cipher", &args.cipher)?;
        let hash = cost::hash(&args.hash)?;
        let sector_size = args.sector_size.map(sector_size).transpose()?;
        args.pbkdf.function(luks1)?;
        if luks1 && sector_size.is_some_and(|size| size.bytes() != 512) {
            return Err(CliError::usage("LUKS1 has only --sector-size 512"));
        }
        if luks1 && !(args.label.is_empty() && args.subsystem.is_empty()) {
            return Err(CliError::usage("LUKS1 has no --label and no --subsystem"));
        }
        let keyslot_cipher = keyslot_cipher(&args.keyslot_cipher)?;
        let has_sizes = args.luks2_metadata_size.is_some() || args.luks2_keyslots_size.is_some();
        if luks1 && (has_sizes || keyslot_cipher.is_some()) {
            return Err(CliError::usage(
                "LUKS1 has no --luks2-metadata-size, --luks2-keyslots-size and --keyslot-cipher",
            ));
        }
        let key_bytes = key_bytes(&cipher, args.key_size)?;
        Ok(Self {
            args,
            luks1,
            data_offset: data_offset(args, luks1, key_bytes)?,
            key_bytes,
            keyslot_cipher,
            cipher,
            hash,
            sector_size,
        })
    }

    /// Prints warnings about options that are unwise.
    pub(crate) fn warn(&self) {
        if let Some(weakness) = self.cipher.weakness() {
            let cipher = &self.cipher;
            note(format_args!("scrim: warning: {cipher}: {weakness}"));
        }
        if let Ok(row) = chosen(&self.cipher)
            && !row.constant_time
        {
            let (cipher, driver) = (&self.cipher, row.driver);
            note(format_args!(
                "scrim: warning: {cipher}: {driver} looks up tables by key and data, and programs on the same \
                 processor may learn the key from its timing; Scrim computes AES, Serpent and Adiantum in constant time"
            ));
        }
        warn_of_failed_self_tests();
    }

    /// The encryption sector for data that is there already: 4096 bytes only where the data is known
    /// to be written in such blocks, since a volume with larger ones than that cannot be mounted.
    pub(crate) fn sector_size_for(
        &self,
        data: &dyn Backend,
        path: &Path,
        found: &Survey,
    ) -> SectorSize {
        let blocks = found.blocks();
        let size = data.info().size;
        let fits = |sector: u64| blocks.fit(sector) && size.is_multiple_of(sector);
        match self.sector_size {
            Some(asked) => {
                let bytes = asked.bytes() as u64;
                if let Some((signature, blocks)) = found.known_blocks()
                    && !blocks.fit(bytes)
                {
                    let refused = match bytes > 512 {
                        true => ", and smaller writes are refused",
                        false => "",
                    };
                    note(format_args!(
                        "scrim: warning: {} holds {signature} with {blocks}, which --sector-size {bytes} does not \
                         fit: no kernel can use it so{refused}; leave that option out",
                        path.display()
                    ));
                }
                asked
            }
            None if fits(4096) => SectorSize::S4096,
            None => SectorSize::S512,
        }
    }

    pub(crate) fn version(&self) -> u16 {
        if self.luks1 { 1 } else { 2 }
    }

    /// Asks for the passphrase of the first key slot.
    pub(crate) fn ask(&self) -> Result<Passphrase, CliError> {
        let source = (self.args.key).source_or(self.args.positional_key.as_deref());
        let shown = self.args.image.display();
        new_passphrase(&source, &format!("Enter passphrase for {shown}: "))
    }

    /// The volume key: that of a file, or a random one.
    pub(crate) fn key(&self) -> Result<VolumeKey, CliError> {
        if let Some(file) = &self.args.volume_key_file {
            let key = exact_key(file, self.key_bytes, "--key-size")?;
            return Ok(VolumeKey::new(key));
        }
        VolumeKey::generate(self.key_bytes)
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()))
    }

    /// Derives the key and lays out the header, which is to lie at `place`. LUKS1 has no `sector_size`.
    pub(crate) fn make(
        &self,
        place: &Path,
        layout: Layout,
        sector_size: SectorSize,
        key: &VolumeKey,
        passphrase: &SecretBytes,
    ) -> Result<Formatted, CliError> {
        let made = if self.luks1 {
            luks1::format(&self.luks1_spec(layout)?, key, passphrase)
        } else {
            luks2::format(&self.luks2_spec(layout, sector_size)?, key, passphrase)
        };
        made.map_err(|error| refused(&error, place))
    }

    fn luks1_spec(&self, layout: Layout) -> Result<luks1::FormatSpec, CliError> {
        let Kdf::Pbkdf2 { iterations, .. } = self.kdf()? else {
            return Err(CliError::usage("LUKS1 has only --pbkdf pbkdf2"));
        };
        Ok(luks1::FormatSpec {
            cipher: self.cipher.clone(),
            hash: self.hash,
            digest_iterations: self.args.pbkdf.digest_iterations(self.hash)?,
            iterations,
            slot: Some(self.args.key_slot),
            uuid: self.args.uuid.clone(),
            layout,
        })
    }

    pub(crate) fn luks2_spec(
        &self,
        layout: Layout,
        sector_size: SectorSize,
    ) -> Result<luks2::FormatSpec, CliError> {
        Ok(luks2::FormatSpec {
            cipher: self.cipher.clone(),
            sector_size,
            digest_hash: self.hash,
            keyslot: NewKeyslot {
                slot: Some(self.args.key_slot),
                kdf: self.kdf()?,
                af_hash: self.hash,
                cipher: self.keyslot_cipher.clone(),
            },
            digest_iterations: self.args.pbkdf.digest_iterations(self.hash)?,
            uuid: self.args.uuid.clone(),
            label: self.args.label.clone(),
            subsystem: self.args.subsystem.clone(),
            flags: Vec::new(),
            layout,
            metadata_size: self.args.luks2_metadata_size,
            keyslots_size: self.keyslots_size(),
        })
    }

    /// Size of the area of the key slots that is asked for. As in cryptsetup, it does not grow with an alignment.
    fn keyslots_size(&self) -> Option<u64> {
        let copies = 2 * self.args.luks2_metadata_size.unwrap_or(LUKS2_METADATA_SIZE);
        let aligned = alignment(self.args).is_some() && self.args.header.is_none();
        let usual = LUKS2_HEADER_END.checked_sub(copies).filter(|_| aligned);
        self.args.luks2_keyslots_size.or(usual)
    }

    fn kdf(&self) -> Result<Kdf, CliError> {
        let cipher = self.keyslot_cipher.as_ref();
        let derived = cipher.map_or(self.key_bytes, |cipher| cipher.key_size);
        (self.args.pbkdf).kdf(self.luks1, self.hash, derived)
    }
}

/// The end of a LUKS2 header with the usual sizes, and the size of one of its copies, in bytes.
const LUKS2_HEADER_END: u64 = 16 << 20;
const LUKS2_METADATA_SIZE: u64 = 16 << 10;

/// The end of a LUKS1 header in bytes: eight key slots of 4000 stripes each, from byte 4096 on, in blocks of 4096 bytes
/// (LUKS1 specification, figure 1).
fn luks1_header_end(key_bytes: usize) -> u64 {
    let area = (key_bytes as u64 * 4000).next_multiple_of(4096);
    4096 + 8 * area
}

/// The alignment of the data in bytes that options ask for.
fn alignment(args: &FormatArgs) -> Option<u64> {
    let sectors = args.align_payload.filter(|&sectors| sectors > 0);
    sectors.map(|sectors| u64::from(sectors) * 512)
}

/// The offset of the data in bytes that options ask for; `None` is the default.
fn data_offset(args: &FormatArgs, luks1: bool, key_bytes: usize) -> Result<Option<u64>, CliError> {
    let too_large = |option| CliError::usage(format!("{option} is larger than any device"));
    if let Some(sectors) = args.offset {
        let offset = sectors.checked_mul(512);
        let offset = offset.ok_or_else(|| too_large("--offset"))?;
        // As in cryptsetup, which takes any alignment.
        if !offset.is_multiple_of(4096) {
            return Err(CliError::usage(format!(
                "--offset {sectors}: data cannot start at byte {offset}: choose a multiple of 8 sectors"
            )));
        }
        return Ok(Some(offset));
    }
    let Some(alignment) = alignment(args) else {
        return Ok(None);
    };
    if args.header.is_some() {
        return Ok(Some(alignment));
    }
    let header_end = match (luks1, args.luks2_keyslots_size) {
        (true, _) => luks1_header_end(key_bytes),
        (false, None) => LUKS2_HEADER_END,
        (false, Some(keyslots)) => {
            let metadata = args.luks2_metadata_size.unwrap_or(LUKS2_METADATA_SIZE);
            let end = metadata
                .checked_mul(2)
                .and_then(|copies| copies.checked_add(keyslots));
            end.ok_or_else(|| too_large("--luks2-keyslots-size"))?
        }
    };
    Ok(Some(header_end.next_multiple_of(alignment)))
}

/// Error for a place for which there is no header.
pub(crate) fn refused(error: &FormatError, place: &Path) -> CliError {
    let message = format!("{}: {error}", place.display());
    match memory_refused(error) {
        true => CliError::new(Exit::OutOfMemory, message),
        false => CliError::usage(message),
    }
}
