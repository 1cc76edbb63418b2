//! `scrim test-passphrase IMAGE`: checks a passphrase.

use scrim_backend::Backend;

use crate::args::{LuksType, TestArgs};
use crate::error::CliError;
use crate::luks::derivation::Guard;
use crate::luks::header::{check_type, read_header};
use crate::luks::kernel_key::{KeyTaker, link};
use crate::luks::reencryption;
use crate::luks::unlock::{Asking, OtherKeys, unlock};
use crate::terminal::note;

pub(crate) fn run(args: &TestArgs) -> Result<(), CliError> {
    check(args, LuksType::Luks, false)
}

/// Checks the passphrase of a header of the `wanted` version. One that a token names in a keyring in reach counts as given
/// if `tries_keyrings`.
pub(crate) fn check(
    args: &TestArgs,
    wanted: LuksType,
    tries_keyrings: bool,
) -> Result<(), CliError> {
    let key_taker = KeyTaker::asked_for(args.link_vk_to_keyring.as_ref())?;
    let (backend, luks) = read_header(&args.on)?;
    check_type(luks.header(), wanted, backend.path())?;
    let image = args.on.header_path().display().to_string();
    let asking = Asking {
        question: &format!("Enter passphrase for {image}: "),
        key: args.key.source(),
        tries: args.tries,
    };
    let data_len = args.on.header.is_none().then(|| backend.info().size);
    reencryption::refuse(luks.header(), data_len, &image)?;
    let others = OtherKeys {
        tries_keyrings,
        volume_key: &args.volume_key,
        token: &args.token,
    };
    if let Some(key) = others.find(&luks, &backend, &image, args.key_slot, &asking)? {
        note(format_args!("{image}: the volume key fits"));
        return link(key_taker, &key);
    }
    let (unlocked, _) = match (args.key_slot, args.unbound) {
        // Named, it may hold a key that is not the volume's.
        (Some(slot), _) => asking.until_it_fits(&backend, &image, |passphrase, guard| {
            luks.unlock_keyslot_guarded(&backend, slot, passphrase, guard)
        })?,
        (None, true) => asking.until_it_fits(&backend, &image, |passphrase, guard| {
            luks.unlock_any_keyslot_guarded(&backend, passphrase, guard)
        })?,
        (None, false) => unlock(&luks, &backend, &image, None, &asking)?,
    };
    note(format_args!("{image}: key slot {} unlocked", unlocked.slot));
    if key_taker.is_some() {
        // A slot may hold another key than the volume's.
        Guard::new(&image, &backend, asking.key.cost).verify(luks.header(), &unlocked.key)?;
    }
    link(key_taker, &unlocked.key)
}
