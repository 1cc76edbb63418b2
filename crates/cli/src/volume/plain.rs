//! Volumes of dm-crypt's plain format: data from the first sector on, and no header. Their key is made from a passphrase
//! as cryptsetup and, before it, hashalot make it (cryptsetup(8), "NOTES ON PASSPHRASE PROCESSING FOR PLAIN MODE").

use scrim_backend::Backend;
use scrim_crypt::CipherSpec;
use scrim_luks::VolumeKey;
use scrim_luks::kdf::Hash;
use scrim_sys::memory::SecretBytes;
use scrim_volume::{CryptOptions, CryptSpec, CryptTable, Line, OpenFlags, TargetSpec};

use crate::args::{EngineArg, PlainOpenArgs};
use crate::cipher::options::{for_header, key_bytes, sector_size};
use crate::error::{CliError, Exit};
use crate::luks::cost;
use crate::luks::key_source::{KeySource, exact_start, existing_passphrase};

/// A plain volume by its options; those that can be wrong are checked before any device is opened.
pub(crate) struct Plain<'a> {
    args: &'a PlainOpenArgs,
    cipher: CipherSpec,
    key_bytes: usize,
    derivation: Derivation,
    options: CryptOptions,
}

/// The way from what is entered to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Derivation {
    /// The start of a file, or a key in a keyring.
    None,
    /// The start of a passphrase, of this many bytes, and zeros.
    Cut(usize),
    /// This many bytes of hashes of a passphrase, and zeros.
    Hash(Hash, usize),
}

impl<'a> Plain<'a> {
    pub(crate) fn asked_for(args: &'a PlainOpenArgs) -> Result<Self, CliError> {
        let cipher = for_header("--cipher", &args.cipher)?;
        let key_bytes = key_bytes(&cipher, Some(args.key_size))?;
        let sector_size = sector_size(args.sector_size)?;
        if args.key.pbkdf_memory_limit.is_some() || args.key.pbkdf_time_limit.is_some() {
            return Err(CliError::usage(
                "a plain volume has no key derivation; leave --pbkdf-memory-limit and --pbkdf-time-limit out",
            ));
        }
        let flags: OpenFlags = args.perf.flags(args.allow_discards);
        Ok(Self {
            derivation: derivation(args, key_bytes)?,
            args,
            cipher,
            key_bytes,
            options: CryptOptions::new(sector_size).with_flags(flags),
        })
    }

    /// The table of the volume on `data`, which tables call `device`; asks for the passphrase.
    pub(crate) fn table(&self, data: &dyn Backend, device: &str) -> Result<CryptTable, CliError> {
        let len = self.sectors(data.info().size)?;
        let target = CryptSpec {
            cipher: self.cipher.clone(),
            key: VolumeKey::new(self.key()?),
            iv_offset: self.args.skip,
            device: device.to_owned(),
            offset: self.args.offset,
            options: self.options,
        };
        let line = Line {
            start: 0,
            len,
            target: TargetSpec::Crypt(Box::new(target)),
        };
        CryptTable::from_lines(vec![line]).map_err(|error| CliError::usage(error.to_string()))
    }

    /// Size of the volume, on a device of `size_bytes`.
    fn sectors(&self, size_bytes: u64) -> Result<u64, CliError> {
        let (offset, image) = (self.args.offset, self.args.image.display());
        let have = (size_bytes / 512)
            .checked_sub(offset)
            .filter(|have| *have > 0);
        let have = have.ok_or_else(|| {
            CliError::new(
                Exit::WrongDevice,
                format!("{image} ends before --offset {offset}: give a smaller one"),
            )
        })?;
        let unit = self.args.sector_size as u64 / 512;
        let len = self.args.size.unwrap_or(have - have % unit);
        if len > have {
            return Err(CliError::new(
                Exit::WrongDevice,
                format!(
                    "{image} has only {have} sectors from --offset {offset} on; --size asks for {len}"
                ),
            ));
        }
        Ok(len)
    }

    fn key(&self) -> Result<SecretBytes, CliError> {
        if let Some(name) = &self.args.volume_key_keyring {
            return match self.args.engine {
                // The kernel takes it from the keyring, and may be the only one that can.
                EngineArg::Kernel => Ok(SecretBytes::zeroed(self.key_bytes)),
                _ => name.exact(self.key_bytes),
            };
        }
        let source = self.args.key.source();
        if let (Derivation::None, Some(file)) = (self.derivation, source.file) {
            return exact_start(file, source.offset, self.key_bytes);
        }
        let question = format!("Enter passphrase for {}: ", self.args.image.display());
        let passphrase = existing_passphrase(&source, &question)?.secret;
        derive(self.derivation, passphrase.expose(), self.key_bytes)
    }
}

fn derivation(args: &PlainOpenArgs, key_bytes: usize) -> Result<Derivation, CliError> {
    if args.volume_key_keyring.is_some() {
        return Ok(Derivation::None);
    }
    let source: KeySource<'_> = args.key.source();
    if source.file.is_some() && !source.is_standard_input() {
        return match &args.hash {
            None => Ok(Derivation::None),
            // cryptsetup ignores it.
            Some(_) => Err(CliError::usage(
                "a key file of a plain volume holds the key itself, which no hash changes; leave --hash out",
            )),
        };
    }
    let Some(hash) = &args.hash else {
        return Err(CliError::usage(
            "--hash is needed to make the key from a passphrase: cryptsetup's default was ripemd160 up to 2.6, and is \
             sha256 since",
        ));
    };
    let (name, len) = match hash.split_once(':') {
        None => (hash.as_str(), key_bytes),
        Some((name, len)) => {
            let len = len.parse().ok().filter(|len| (1..=key_bytes).contains(len));
            let len = len.ok_or_else(|| {
                CliError::usage(format!(
                    "--hash {hash}: give a length from 1 to {key_bytes} bytes"
                ))
            })?;
            (name, len)
        }
    };
    match name {
        "plain" => Ok(Derivation::Cut(len)),
        name => Ok(Derivation::Hash(cost::hash(name)?, len)),
    }
}

/// Makes a key of `key_bytes` bytes.
fn derive(
    derivation: Derivation,
    passphrase: &[u8],
    key_bytes: usize,
) -> Result<SecretBytes, CliError> {
    let mut key = SecretBytes::zeroed(key_bytes);
    match derivation {
        Derivation::None | Derivation::Cut(_) => {
            let len = match derivation {
                Derivation::Cut(len) => len,
                _ => key_bytes,
            };
            let start = passphrase.get(..len).ok_or_else(|| {
                CliError::new(
                    Exit::NoKey,
                    format!(
                        "the passphrase is shorter than the {len} bytes of the key; give a hash"
                    ),
                )
            })?;
            key.expose_mut()[..len].copy_from_slice(start);
        }
        Derivation::Hash(hash, len) => {
            // Each further digest has one letter more before the passphrase.
            let pieces = key.expose_mut()[..len].chunks_mut(hash.digest_len());
            for (index, piece) in pieces.enumerate() {
                hash.digest(&[&b"A".repeat(index), passphrase], piece);
            }
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(derivation: Derivation, passphrase: &str, key_bytes: usize) -> String {
        let key = derive(derivation, passphrase.as_bytes(), key_bytes).unwrap();
        key.expose()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// cryptsetup's own vector, in its test `password-hash-test`: two digests, of which the second is cut.
    #[test]
    fn keys_are_those_of_cryptsetup() {
        let key = "aeb26d1f69eb6dddfb9381eed4d7299f091e99aa5d3ff06866d4ce9f620f7aca";
        for bytes in [32, 16] {
            let derivation = Derivation::Hash(Hash::Ripemd160, bytes);
            assert_eq!(made(derivation, "xxx", bytes), key[..2 * bytes]);
        }
        let cut = made(Derivation::Hash(Hash::Ripemd160, 20), "xxx", 32);
        assert_eq!(cut, key[..40].to_owned() + &"0".repeat(24));
    }

    #[test]
    fn a_passphrase_without_a_hash_is_the_start_of_the_key() {
        assert_eq!(made(Derivation::Cut(2), "abc", 4), "61620000");
        assert!(derive(Derivation::Cut(4), b"abc", 4).is_err());
    }
}
