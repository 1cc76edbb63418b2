//! Unlocking of a volume key: asks for a passphrase until a key slot opens.

use std::io::{self, IsTerminal};
use std::path::Path;

use scrim_backend::Backend;
use scrim_luks::{Header, VolumeKey};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{LuksDevice, LuksError, Unlocked};

use crate::args::{KernelKey, KeyAgainArgs, TokenKeyArgs, VolumeKeyArgs};
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::{CliError, Exit};
use crate::luks::derivation::{CostLimits, Guard};
use crate::luks::key_source::{
    KeySource, Source, exact_key, existing_passphrase, standard_passphrase,
};
use crate::luks::token_key::Tokens;
use crate::terminal::note;

/// Question for the passphrase of a key slot.
pub(crate) struct Asking<'a> {
    pub(crate) question: &'a str,
    pub(crate) key: KeySource<'a>,
    /// Number of times that the question is asked at a terminal.
    pub(crate) tries: u32,
}

/// Unlocks the given key slot, or the first that opens, for the volume key.
pub(crate) fn unlock(
    luks: &LuksDevice,
    backend: &dyn Backend,
    image: &str,
    slot: Option<u8>,
    asking: &Asking<'_>,
) -> Result<(Unlocked, SecretBytes), CliError> {
    // A volume that no passphrase can open is reported before one is asked for.
    let within = |error: LuksError| CliError::from(error).within(image);
    let header = luks.header();
    header
        .keyslots_to_try(slot)
        .map_err(|error| within(error.into()))?;
    header
        .data_segment()
        .map_err(|error| within(error.into()))?;
    asking.until_it_fits(backend, image, |passphrase, guard| {
        luks.unlock_guarded(backend, slot, passphrase, guard)
    })
}

/// The volume key from the file that options name, if they name one; it must be that of the header on `backend`.
fn by_volume_key(
    args: &VolumeKeyArgs,
    luks: &LuksDevice,
    backend: &dyn Backend,
    image: &str,
    cost: CostLimits,
) -> Result<Option<VolumeKey>, CliError> {
    let asked = args.key_size.map(|bits| (bits / 8) as usize);
    let (file, keyring) = (
        args.volume_key_file.as_deref(),
        args.volume_key_keyring.as_ref(),
    );
    let Some(key) = named_volume_key(file, keyring, asked, luks.header())? else {
        return match args.key_size {
            None => Ok(None),
            Some(_) => Err(CliError::usage(
                "--key-size is about the volume key that --volume-key-file or --volume-key-keyring names; leave it out \
                 for a passphrase",
            )),
        };
    };
    Guard::new(image, backend, cost).verify(luks.header(), &key)?;
    Ok(Some(key))
}

/// The volume key in a file or in a keyring of the kernel, if one of them is named.
pub(crate) fn named_volume_key(
    file: Option<&Path>,
    keyring: Option<&KernelKey>,
    asked: Option<usize>,
    header: &Header,
) -> Result<Option<VolumeKey>, CliError> {
    match (file, keyring) {
        (Some(file), _) => read_volume_key(file, asked, header).map(Some),
        (None, Some(name)) => name.volume_key(asked).map(Some),
        (None, None) => Ok(None),
    }
}

/// Reads a volume key of the length that was `asked` for, in bytes, or else of the one that `header` tells.
fn read_volume_key(
    file: &Path,
    asked: Option<usize>,
    header: &Header,
) -> Result<VolumeKey, CliError> {
    let segment = header.data_segment().ok();
    let told = segment.and_then(|segment| segment.key_size);
    let len = asked.or(told).ok_or_else(|| {
        CliError::usage("no key slot tells how long the volume key is: say so with --key-size BITS")
    })?;
    Ok(VolumeKey::new(exact_key(file, len, "--key-size")?))
}

/// Keys that options name in place of a passphrase.
#[derive(Clone, Copy)]
pub(crate) struct OtherKeys<'a> {
    /// True if a passphrase that a token names in a keyring in reach is tried unasked, as cryptsetup's `open` does; not
    /// where a passphrase is to be judged, or more than one is read.
    pub(crate) tries_keyrings: bool,
    pub(crate) volume_key: &'a VolumeKeyArgs,
    pub(crate) token: &'a TokenKeyArgs,
}

impl KeyAgainArgs {
    /// Keys that options name in place of a passphrase.
    pub(crate) fn others(&self) -> OtherKeys<'_> {
        OtherKeys {
            tries_keyrings: true,
            volume_key: &self.volume_key,
            token: &self.token,
        }
    }
}

impl OtherKeys<'_> {
    /// The volume key, if one of them gives it.
    pub(crate) fn find(
        &self,
        luks: &LuksDevice,
        backend: &dyn Backend,
        image: &str,
        slot: Option<u8>,
        asking: &Asking<'_>,
    ) -> Result<Option<VolumeKey>, CliError> {
        let cost = asking.key.cost;
        if let Some(key) = by_volume_key(self.volume_key, luks, backend, image, cost)? {
            return Ok(Some(key));
        }
        let tokens = Tokens {
            args: self.token,
            luks,
            backend,
            image,
            cost,
        };
        if self.token.is_given() {
            return tokens.asked_for();
        }
        match self.tries_keyrings && asking.key.file.is_none() {
            true => Ok(tokens.in_reach(slot)),
            false => Ok(None),
        }
    }

    /// The volume key, if one of them gives it, or else by a passphrase.
    pub(crate) fn find_or_ask(
        &self,
        luks: &LuksDevice,
        backend: &dyn Backend,
        image: &str,
        slot: Option<u8>,
        asking: &Asking<'_>,
    ) -> Result<VolumeKey, CliError> {
        match self.find(luks, backend, image, slot, asking)? {
            Some(key) => Ok(key),
            None => Ok(unlock(luks, backend, image, slot, asking)?.0.key),
        }
    }
}

impl Asking<'_> {
    /// The passphrase on standard input, if there is one; at a terminal the user is not asked.
    pub(crate) fn unasked(&self) -> Result<Option<SecretBytes>, CliError> {
        if io::stdin().is_terminal() {
            return Ok(None);
        }
        let passphrase = standard_passphrase(&self.key)?;
        Ok(passphrase.filter(|passphrase| !passphrase.is_empty()))
    }

    /// Asks for the passphrase as often as is allowed, until `attempt` takes it, for the
    /// header on `backend`.
    pub(crate) fn until_it_fits<T>(
        &self,
        backend: &dyn Backend,
        image: &str,
        mut attempt: impl FnMut(&SecretBytes, &Guard<'_>) -> Result<T, LuksError>,
    ) -> Result<(T, SecretBytes), CliError> {
        let mut left = self.tries.max(1);
        loop {
            let passphrase = existing_passphrase(&self.key, self.question)?;
            left -= 1;
            let guard = Guard::new(image, backend, self.key.cost);
            let result = attempt(&passphrase.secret, &guard);
            warn_of_failed_self_tests();
            match result {
                Ok(unlocked) => return Ok((unlocked, passphrase.secret)),
                Err(error @ LuksError::NoKey { .. }) => {
                    let message = format!("{image}: {error}; {}", passphrase.hint());
                    if passphrase.source != Source::Terminal || left == 0 {
                        return Err(CliError::new(Exit::NoKey, message));
                    }
                    note(format_args!("scrim: {message}"));
                }
                Err(error) => return Err(CliError::from(error).within(image)),
            }
        }
    }
}
