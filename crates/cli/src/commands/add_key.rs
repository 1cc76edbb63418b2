//! `scrim add-key IMAGE`: adds a passphrase or key file.

use scrim_luks::kdf::Hash;
use scrim_luks::{Header, KeyslotCipher, KeyslotError, NewDigest, NewKeyslot, VolumeKey};

use crate::args::{AddKeyArgs, SealArgs};
use crate::cipher::options::keyslot_cipher;
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit};
use crate::luks::cost;
use crate::luks::derivation::Guard;
use crate::luks::header_change::HeaderChange;
use crate::luks::key_source::{check_apart, new_passphrase};
use crate::luks::token_key::Tokens;
use crate::luks::unlock::{Asking, named_volume_key, unlock};
use crate::terminal::note;

/// Longest unbound key, in bytes.
const UNBOUND_KEY_MAX: u32 = 512;

pub(crate) fn run(args: &AddKeyArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let header = change.header();
    if args.unbound && header.version() == 1 {
        return Err(CliError::usage(
            "LUKS1 has no unbound key slots; convert the header to LUKS2 first",
        ));
    }
    let sealing = Sealing::check(&args.seal, header)?;
    let new_source = args.new.source();
    check_apart(&args.key.source(), &new_source)?;
    let names_volume_key = args.volume_key_file.is_some() || args.volume_key_keyring.is_some();
    let asks_for_existing = !names_volume_key && !args.unbound;
    if asks_for_existing && args.key_size.is_some() {
        return Err(CliError::usage(
            "the volume key has the size that it has; leave --key-size out, or name an unbound key or a \
             volume key file",
        ));
    }
    if !asks_for_existing && args.key_slot.is_some() && args.new_key_slot.is_some() {
        return Err(CliError::usage(
            "no existing key is needed, so --key-slot says nothing beside --new-key-slot; leave it out",
        ));
    }
    // As in cryptsetup: alone, --key-slot names the new one.
    let (slot, existing) = match args.new_key_slot {
        Some(slot) => (Some(slot), args.key_slot),
        None => (args.key_slot, None),
    };
    check_free(slot, &change)?;
    let key = key(args, &change, existing)?;
    let passphrase = new_passphrase(&new_source, "Enter new passphrase for key slot: ")?.secret;
    let new = sealing.keyslot(&args.seal, slot, key.len())?;
    let digest = match args.unbound {
        true => Some(NewDigest {
            hash: sealing.hash,
            iterations: args.seal.pbkdf.digest_iterations(sealing.hash)?,
        }),
        false => None,
    };
    let slot = change.carry_out(|header, _| {
        let added = match digest {
            Some(digest) => header.add_unbound_keyslot(&key, &passphrase, &new, digest)?,
            None => header.add_keyslot(&key, &passphrase, &new)?,
        };
        Ok::<_, KeyslotError>((added.slot, added.plan))
    })?;
    // With a volume key there was no slot to unlock.
    warn_of_failed_self_tests();
    note(format_args!("{}: key slot {slot} created", change.place));
    Ok(())
}

/// The key that goes into the new slot: the volume key, by an existing passphrase, by a token or from a file, or
/// an unbound one.
fn key(
    args: &AddKeyArgs,
    change: &HeaderChange,
    existing: Option<u8>,
) -> Result<VolumeKey, CliError> {
    let asked = match args.key_size {
        None => None,
        Some(bits) if bits > 0 && bits.is_multiple_of(8) && bits / 8 <= UNBOUND_KEY_MAX => {
            Some((bits / 8) as usize)
        }
        Some(bits) => {
            return Err(CliError::usage(format!(
                "--key-size: a key cannot have {bits} bits; give a multiple of 8 up to {}",
                UNBOUND_KEY_MAX * 8
            )));
        }
    };
    let (file, keyring) = (
        args.volume_key_file.as_deref(),
        args.volume_key_keyring.as_ref(),
    );
    if let Some(key) = named_volume_key(file, keyring, asked, change.header())? {
        if !args.unbound {
            // A wrong one is refused before a new passphrase is asked for.
            let cost = args.key.source().cost;
            Guard::new(&change.place, &*change.backend, cost).verify(change.header(), &key)?;
        }
        return Ok(key);
    }
    if let (true, Some(len)) = (args.unbound, asked) {
        return VolumeKey::generate(len)
            .map_err(|error| CliError::new(Exit::WrongDevice, error.to_string()));
    }
    let HeaderChange {
        backend,
        luks,
        place,
    } = change;
    let asking = Asking {
        question: "Enter any existing passphrase: ",
        key: args.key.source(),
        tries: args.tries,
    };
    let tokens = Tokens {
        args: &args.token,
        luks,
        backend: &**backend,
        image: place,
        cost: asking.key.cost,
    };
    if let Some(key) = tokens.asked_for()? {
        return Ok(key);
    }
    Ok(unlock(luks, &**backend, place, existing, &asking)?.0.key)
}

/// Refuses a key slot that is in use, before a passphrase is asked for.
fn check_free(slot: Option<u8>, change: &HeaderChange) -> Result<(), CliError> {
    let in_use = |slot: &u8| {
        change
            .header()
            .keyslots()
            .iter()
            .any(|used| used.id == *slot)
    };
    match slot.filter(in_use) {
        Some(slot) => Err(CliError::from(KeyslotError::InUse { slot }).within(&change.place)),
        None => Ok(()),
    }
}

/// Options for a new key slot that can be wrong, checked before the user is asked for anything.
pub(super) struct Sealing {
    pub(super) hash: Hash,
    luks1: bool,
    cipher: Option<KeyslotCipher>,
}

impl Sealing {
    pub(super) fn check(args: &SealArgs, header: &Header) -> Result<Self, CliError> {
        let luks1 = header.version() == 1;
        args.pbkdf.function(luks1)?;
        let hash = match &args.hash {
            Some(name) => cost::hash(name)?,
            None if luks1 => hash_of_luks1(header)?,
            None => Hash::Sha256,
        };
        let cipher = keyslot_cipher(&args.cipher)?;
        Ok(Self {
            hash,
            luks1,
            cipher,
        })
    }

    /// Returns the key slot for a key of `key_len` bytes, with a cost that is measured now.
    pub(super) fn keyslot(
        &self,
        args: &SealArgs,
        slot: Option<u8>,
        key_len: usize,
    ) -> Result<NewKeyslot, CliError> {
        let derived = self
            .cipher
            .as_ref()
            .map_or(key_len, |cipher| cipher.key_size);
        Ok(NewKeyslot {
            slot,
            kdf: args.pbkdf.kdf(self.luks1, self.hash, derived)?,
            af_hash: self.hash,
            cipher: self.cipher.clone(),
        })
    }
}

/// The one hash of a LUKS1 header.
fn hash_of_luks1(header: &Header) -> Result<Hash, CliError> {
    let name = header.digests().first().map_or("", |digest| &digest.hash);
    name.parse().map_err(|error| {
        CliError::new(
            Exit::WrongDevice,
            format!("the hash {name} of the header: {error}"),
        )
    })
}
