//! `scrim luksSuspend` and `resume`: an open volume that forgets its key, and gets it back.

use std::path::Path;

use scrim_backend::{Access, Backend};
use scrim_luks::VolumeKey;

use crate::args::{KeyAgainArgs, LuksResumeArgs, OpenNameArgs, ResumeArgs, VolumeName};
use crate::error::{CliError, Exit};
use crate::kernel::KeyQuestion;
use crate::luks::header::read_luks;
use crate::luks::kernel_key::{KeyTaker, link};
use crate::luks::unlock::Asking;
use crate::nbd::control::{Client, Request, Status};
use crate::nbd::runtime::RuntimeDir;
use crate::nbd::served_header::ServedHeader;
use crate::running_volume::RunningVolume;
use crate::storage::{Storage, is_remote};

pub(crate) fn luks_suspend(args: &OpenNameArgs) -> Result<(), CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client.ask(Request::Forget).map(drop),
        RunningVolume::Kernel(volume) => volume.forget_key(),
    }
}

/// Gives the key back that [`luks_suspend`] has destroyed, as cryptsetup's command does.
pub(crate) fn luks_resume(args: &LuksResumeArgs) -> Result<(), CliError> {
    let key_taker = KeyTaker::asked_for(args.link_vk_to_keyring.as_ref())?;
    let open = match RunningVolume::named(&args.on.name)? {
        RunningVolume::Scrim(client) => client.status()?,
        RunningVolume::Kernel(volume) => {
            let again = &args.on.again;
            let key = volume.recall_key(&KeyQuestion {
                header: args.header.as_deref(),
                key_slot: again.key_slot,
                tries: again.attempts(),
                key: again.key.source(),
                others: again.others(),
            })?;
            return link(key_taker, &key);
        }
    };
    if args.header.is_some() {
        return Err(knows_its_header(&args.on.name));
    }
    if open.key_forgotten {
        let key = with_key(&args.on, &open)?;
        return link(key_taker, &key);
    }
    let name = &open.name;
    Err(CliError::usage(match open.suspended {
        false => format!("{name} is not suspended"),
        true => format!("{name} has its key: `scrim resume {name}` lets its requests go on"),
    }))
}

/// Lets requests go on; where the key is forgotten, with the one that the passphrase opens.
pub(crate) fn run(args: &ResumeArgs) -> Result<(), CliError> {
    let client = match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) => client,
        RunningVolume::Kernel(volume) => {
            refuse_key_options(&args.again, &args.name)?;
            return volume.resume();
        }
    };
    let open = client.status()?;
    if open.key_forgotten {
        return with_key(args, &open).map(drop);
    }
    refuse_key_options(&args.again, &args.name)?;
    Client::connect(&RuntimeDir::locate(), &args.name)?.ask(Request::Resume)?;
    Ok(())
}

/// The error for a header that is named for a volume of a process of ours.
pub(super) fn knows_its_header(name: &VolumeName) -> CliError {
    CliError::usage(format!(
        "{} knows its header; leave --header out",
        name.as_str()
    ))
}

/// Refuses options about the key of a volume that has it.
pub(super) fn refuse_key_options(again: &KeyAgainArgs, name: &VolumeName) -> Result<(), CliError> {
    if !again.is_given() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{} has its key, and no passphrase is needed; leave out the options that say where one is",
        name.as_str()
    )))
}

/// Gives a process of ours the key that it has forgotten. Returns the key.
fn with_key(args: &ResumeArgs, open: &Status) -> Result<VolumeKey, CliError> {
    let path = Path::new(open.header.as_ref().unwrap_or(&open.device));
    let header: Box<dyn Backend> = match open.header.is_none() && is_remote(path) {
        true => Box::new(ServedHeader::of(args.name.clone(), open)),
        false => Box::new(Storage::open_shared(path, Access::ReadOnly)?),
    };
    let header = &*header;
    let luks = read_luks(header, path)?;
    if luks.header().uuid().raw() != open.uuid {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{}: this is the header of another volume than {} was opened from",
                path.display(),
                open.name
            ),
        ));
    }
    let shown = path.display().to_string();
    let asking = Asking {
        question: &format!("Enter passphrase for {shown}: "),
        key: args.again.key.source(),
        tries: args.again.attempts(),
    };
    let others = args.again.others();
    let key = others.find_or_ask(&luks, header, &shown, args.again.key_slot, &asking)?;
    let len = key.len();
    // The process is asked after the key is there: it would wait for it.
    let client = Client::connect(&RuntimeDir::locate(), &args.name)?;
    client.ask_with(Request::ResumeWithKey { len }, key.expose())?;
    Ok(key)
}
