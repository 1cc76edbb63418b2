//! `scrim luksSuspend` and `resume`: an open volume that forgets its key, and gets it back.

use std::path::Path;

use scrim_backend::{Access, Backend};

use crate::args::{OpenNameArgs, ResumeArgs};
use crate::error::{CliError, Exit};
use crate::luks::header::read_luks;
use crate::luks::unlock::{Asking, unlock};
use crate::nbd::control::{Client, Request, Status};
use crate::nbd::runtime::RuntimeDir;
use crate::nbd::served_header::ServedHeader;
use crate::storage::{Storage, is_remote};

pub(crate) fn luks_suspend(args: &OpenNameArgs) -> Result<(), CliError> {
    Client::connect(&RuntimeDir::locate(), &args.name)?.ask(Request::Forget)?;
    Ok(())
}

/// Gives the key back that [`luks_suspend`] has destroyed, as cryptsetup's command does.
pub(crate) fn luks_resume(args: &ResumeArgs) -> Result<(), CliError> {
    let open = Client::connect(&RuntimeDir::locate(), &args.name)?.status()?;
    if open.key_forgotten {
        return with_passphrase(args, &open);
    }
    let name = &open.name;
    Err(CliError::usage(match open.suspended {
        false => format!("{name} is not suspended"),
        true => format!("{name} has its key: `scrim resume {name}` lets its requests go on"),
    }))
}

/// Lets requests go on; where the key is forgotten, with the one that the passphrase opens.
pub(crate) fn run(args: &ResumeArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    let open = Client::connect(&runtime, &args.name)?.status()?;
    if open.key_forgotten {
        return with_passphrase(args, &open);
    }
    if args.asks_for_key() {
        return Err(CliError::usage(format!(
            "{} has its key, and no passphrase is needed; leave out the options that say where one is",
            open.name
        )));
    }
    Client::connect(&runtime, &args.name)?.ask(Request::Resume)?;
    Ok(())
}

fn with_passphrase(args: &ResumeArgs, open: &Status) -> Result<(), CliError> {
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
        key: args.key.source(),
        tries: args.tries.unwrap_or(3),
    };
    let (unlocked, _) = unlock(&luks, header, &shown, args.key_slot, &asking)?;
    let len = unlocked.key.len();
    // The process is asked after the key is there: it would wait for it.
    let client = Client::connect(&RuntimeDir::locate(), &args.name)?;
    client.ask_with(Request::ResumeWithKey { len }, unlocked.key.expose())?;
    Ok(())
}
