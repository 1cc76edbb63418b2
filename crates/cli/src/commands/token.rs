//! `scrim token add|remove|import|export|assign|unassign IMAGE`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use scrim_luks::{Edit, EditError, Header, Token};

use crate::args::{
    NewTokenArgs, TokenAction, TokenAddArgs, TokenArgs, TokenExportArgs, TokenImportArgs,
};
use crate::error::CliError;
use crate::luks::header::read_header;
use crate::luks::header_change::HeaderChange;
use crate::luks::key_source::standard_input;
use crate::storage::new_file::write_new;
use crate::terminal::{note, print};

/// More than any header has room for, in bytes.
const JSON_MAX: u64 = 4 << 20;

pub(crate) fn run(args: &TokenArgs) -> Result<(), CliError> {
    match &args.action {
        TokenAction::Add(args) => add(args),
        TokenAction::Import(args) => import(args),
        TokenAction::Export(args) => export(args),
        TokenAction::Remove(args) => {
            let id = args.token_id;
            let change = HeaderChange::begin(&args.on)?;
            edit(&change, id, "removed", Edit::RemoveToken { id })
        }
        TokenAction::Assign(args) => {
            let (id, slot) = (args.token_id, args.key_slot);
            let done = format!("assigned to key slot {slot}");
            let change = HeaderChange::begin(&args.on)?;
            edit(&change, id, &done, Edit::AssignToken { id, slot })
        }
        TokenAction::Unassign(args) => {
            let (id, slot) = (args.token_id, args.key_slot);
            let done = format!("no longer assigned to key slot {slot}");
            let change = HeaderChange::begin(&args.on)?;
            let mut tokens = change.header().tokens().iter();
            let token = tokens.find(|token| token.id == id);
            if token.is_some_and(|token| !token.keyslots.contains(&slot)) {
                return Err(CliError::usage(format!(
                    "{}: token {id} is not assigned to key slot {slot}",
                    change.place
                )));
            }
            edit(&change, id, &done, Edit::UnassignToken { id, slot })
        }
    }
}

fn add(args: &TokenAddArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let slots = match args.key_slot {
        Some(slot) => {
            change.check_in_use(slot)?;
            vec![slot]
        }
        None if args.unbound => Vec::new(),
        None => change.header().removal(&[]).left,
    };
    let token = Token::keyring(&args.key_description, &slots);
    let (id, put) = place(&args.new, change.header())?;
    edit(&change, id, "added", put(token))
}

fn import(args: &TokenImportArgs) -> Result<(), CliError> {
    let change = HeaderChange::begin(&args.on)?;
    let (text, shown) = read_json(args.json_file.as_deref())?;
    let token = Token::parse(&text)
        .map_err(|fault| CliError::from(EditError::Token(fault)).within(&shown))?;
    let (id, put) = place(&args.new, change.header())?;
    let mut edits = vec![put(token)];
    edits.extend(args.key_slot.map(|slot| Edit::AssignToken { id, slot }));
    change.edit(&edits)?;
    note(format_args!("{}: token {id} imported", change.place));
    Ok(())
}

fn export(args: &TokenExportArgs) -> Result<(), CliError> {
    let (backend, luks) = read_header(&args.on)?;
    let id = args.token_id;
    let mut tokens = luks.header().tokens().iter();
    let Some(token) = tokens.find(|token| token.id == id) else {
        let error = CliError::from(EditError::NoSuchToken { id });
        return Err(error.within(backend.path().display()));
    };
    let json = token.json.by_ref().raw();
    let text = scrim_foreign::json(&json.to_string()).into_owned();
    match &args.json_file {
        Some(path) => write_new(path, text.as_bytes()),
        // As in cryptsetup, without a newline: the bytes are those of a file.
        None => print(text.as_bytes()),
    }
}

/// The number of a new token, and what puts it there.
fn place(
    args: &NewTokenArgs,
    header: &Header,
) -> Result<(u8, impl Fn(serde_json::Value) -> Edit), CliError> {
    let replace = args.token_replace;
    let id = match args.token_id {
        Some(id) => id,
        None if header.version() == 1 => 0,
        None => header.free_token().ok_or_else(|| {
            CliError::usage("every token is in use: remove one first, or replace one")
        })?,
    };
    // To replace a token that is not there is to add it, as in cryptsetup.
    let there = header.tokens().iter().any(|token| token.id == id);
    Ok((id, move |token| match replace && there {
        true => Edit::ReplaceToken { id, token },
        false => Edit::AddToken { id, token },
    }))
}

fn edit(change: &HeaderChange, id: u8, done: &str, edit: Edit) -> Result<(), CliError> {
    change.edit(&[edit])?;
    note(format_args!("{}: token {id} {done}", change.place));
    Ok(())
}

/// Reads a token from a file, or from standard input; returns it with the name to show in messages.
fn read_json(path: Option<&Path>) -> Result<(Vec<u8>, String), CliError> {
    let mut text = Vec::new();
    let (shown, file) = match path {
        None => ("standard input".to_owned(), standard_input()?),
        Some(path) if path == Path::new("-") => ("standard input".to_owned(), standard_input()?),
        Some(path) => {
            let shown = path.display().to_string();
            let file = File::open(path)
                .map_err(|error| CliError::usage(format!("cannot open {shown}: {error}")))?;
            (shown, file)
        }
    };
    // One byte more is read, so that a longer token is refused and not cut.
    let read = file.take(JSON_MAX + 1).read_to_end(&mut text);
    read.map_err(|error: io::Error| CliError::io(format_args!("read {shown}"), &error))?;
    if text.len() as u64 > JSON_MAX {
        return Err(CliError::usage(format!(
            "{shown} is too large for a token; name the file that holds its JSON"
        )));
    }
    Ok((text, shown))
}
