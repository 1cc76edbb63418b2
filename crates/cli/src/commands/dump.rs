//! `scrim dump IMAGE`: shows a LUKS header, or a key that its slots hold.

use std::fmt::Write;
use std::path::Path;

use scrim_backend::Backend;
use scrim_luks::{Header, VolumeKey};
use scrim_sys::memory::SecretBytes;
use scrim_volume::{LuksDevice, LuksError};

use crate::args::DumpArgs;
use crate::error::CliError;
use crate::luks::header::{check_type, read_header};
use crate::luks::unlock::{Asking, unlock};
use crate::storage::new_file::{demand_new, write_new};
use crate::terminal::confirm::Question;
use crate::terminal::{note, print, print_json};

pub(crate) fn run(args: &DumpArgs) -> Result<(), CliError> {
    let (backend, luks) = read_header(&args.on)?;
    check_type(luks.header(), args.r#type, backend.path())?;
    let image = args.on.header_path().display().to_string();
    if args.dump_volume_key || args.unbound {
        return dump_key(args, &backend, &luks, &image);
    }
    if args.volume_key_file.is_some() {
        return Err(CliError::usage(
            "--volume-key-file is where a key goes: add --dump-volume-key",
        ));
    }
    if args.dump_json_metadata {
        return match luks.header() {
            Header::Luks2(header) => print_json(header.document()),
            Header::Luks1(_) => Err(CliError::usage(format!(
                "{image}: LUKS1 has no metadata in JSON; leave --dump-json-metadata out, or give --json"
            ))),
        };
    }
    if args.json {
        print_json(&scrim_luks::dump::json(luks.header()))
    } else {
        print(scrim_luks::dump::text(luks.header(), &image).as_bytes())
    }
}

const WARNING: &str = "The key opens the volume without a passphrase, whatever happens to the key slots later. Keep it as \
                       safe as the data.";

/// Prints the key of the volume, or of an unbound key slot, in the words of `cryptsetup luksDump`.
fn dump_key(
    args: &DumpArgs,
    backend: &dyn Backend,
    luks: &LuksDevice,
    image: &str,
) -> Result<(), CliError> {
    if let Some(file) = &args.volume_key_file {
        demand_new(file, "key")?;
    }
    let question = Question {
        warning: WARNING,
        unanswered: None,
    };
    question.ask(args.batch_mode)?;
    let asking = Asking {
        question: &format!("Enter passphrase for {image}: "),
        key: args.key.source(),
        tries: args.tries,
    };
    let key = match args.key_slot.filter(|_| args.unbound) {
        Some(slot) => unbound_key(backend, luks, image, slot, &asking)?,
        None => unlock(luks, backend, image, args.key_slot, &asking)?.0.key,
    };
    let mut text = format!("LUKS header information for {image}\n");
    let name = describe(args, luks.header(), &key, &mut text)
        .map_err(|error| CliError::from(LuksError::from(error)).within(image))?;
    match &args.volume_key_file {
        Some(file) => store(file, &key, &text),
        None => show(name, &key, &text),
    }
}

/// The key of a slot that holds none of the volume.
fn unbound_key(
    backend: &dyn Backend,
    luks: &LuksDevice,
    image: &str,
    slot: u8,
    asking: &Asking<'_>,
) -> Result<VolumeKey, CliError> {
    if luks.header().removal(&[slot]).lost.contains(&slot) {
        return Err(CliError::usage(format!(
            "{image}: key slot {slot} holds the volume key; leave --unbound out, and add --dump-volume-key"
        )));
    }
    let (unlocked, _) = asking.until_it_fits(backend, image, |passphrase, guard| {
        luks.unlock_keyslot_guarded(backend, slot, passphrase, guard)
    })?;
    Ok(unlocked.key)
}

/// Describes a key; returns the name of what follows.
fn describe(
    args: &DumpArgs,
    header: &Header,
    key: &VolumeKey,
    text: &mut String,
) -> Result<&'static str, scrim_luks::Unsupported> {
    let (uuid, bits) = (header.uuid(), key.len() * 8);
    if let Some(slot) = args.key_slot.filter(|_| args.unbound) {
        let _ = write!(
            text,
            "UUID:    \t{uuid}\nKeyslot: \t{slot}\nKey bits:\t{bits}\n"
        );
        return Ok("Unbound Key");
    }
    let segment = header.data_segment()?;
    let cipher = segment.cipher.to_string();
    let (name, mode) = cipher.split_once('-').unwrap_or((&cipher, ""));
    let offset = segment.offset / 512;
    let _ = write!(
        text,
        "Cipher name:   \t{name}\nCipher mode:   \t{mode}\nPayload offset:\t{offset}\nUUID:          \t{uuid}\n\
         MK bits:       \t{bits}\n"
    );
    Ok("MK dump")
}

fn store(file: &Path, key: &VolumeKey, text: &str) -> Result<(), CliError> {
    write_new(file, key.expose())?;
    print(text.as_bytes())?;
    note(format_args!("key stored in {}", file.display()));
    Ok(())
}

/// Prints a key in lines of 16 bytes. It is never on the heap.
fn show(name: &str, key: &VolumeKey, text: &str) -> Result<(), CliError> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    print(format!("{text}{name}:\t").as_bytes())?;
    let mut line = SecretBytes::zeroed(3 * 16 + 2);
    for (index, bytes) in key.expose().chunks(16).enumerate() {
        let out = line.expose_mut();
        let mut used = 0;
        let mut push = |byte| {
            out[used] = byte;
            used += 1;
        };
        if index > 0 {
            push(b'\t');
            push(b'\t');
        }
        for byte in bytes {
            push(DIGITS[usize::from(byte >> 4)]);
            push(DIGITS[usize::from(byte & 15)]);
            push(b' ');
        }
        print(&line.expose()[..used])?;
        print(b"\n")?;
    }
    Ok(())
}
