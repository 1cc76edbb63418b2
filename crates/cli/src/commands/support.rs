//! `scrim support`: what helps to find a fault, in one document without secrets.

use std::path::Path;
use std::process::{Command, Stdio};

use scrim_backend::Access;
use serde_json::{Map, Value, json};

use super::list;
use crate::args::SupportArgs;
use crate::doctor::Examination;
use crate::error::CliError;
use crate::luks::header::read_luks;
use crate::storage::Storage;
use crate::terminal::{note, print_json};
use crate::versions::Versions;

/// Most lines of the log.
const LINES: &str = "200";

/// Endings of the names of a header's members on which a guess of a passphrase or of a key could be tried.
const OF_GUESSES: [&str; 2] = ["salt", "digest"];

pub(crate) fn run(args: &SupportArgs) -> Result<(), CliError> {
    let headers: Map<String, Value> = (args.images.iter())
        .map(|image| (image.display().to_string(), header(image)))
        .collect();
    let document = json!({
        "versions": Versions::of_this_program(),
        "doctor": Examination::of_this_machine(),
        "open": list::all()?,
        "headers": headers,
        "log": log(),
    });
    note(
        "scrim: this has names of files, volumes and servers, and no key, passphrase or content; read it before you \
         give it to others",
    );
    print_json(&document)
}

/// A header without salts, digests and the contents of tokens; or the reason why it cannot be read.
fn header(image: &Path) -> Value {
    let read = || -> Result<Value, CliError> {
        let storage = Storage::open_shared(image, Access::ReadOnly)?;
        let luks = read_luks(&storage, image)?;
        Ok(without_secrets(scrim_luks::dump::json(luks.header())))
    };
    read().unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// Takes out what passphrases and keys could be tried on, and of tokens all but their types and key slots: those of a TPM
/// or of Clevis have sealed keys.
fn without_secrets(mut header: Value) -> Value {
    take_out(&mut header);
    header
}

fn take_out(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !OF_GUESSES.iter().any(|ending| name.ends_with(ending)));
            if let Some(Value::Object(tokens)) = members.get_mut("tokens") {
                for token in tokens.values_mut().filter_map(Value::as_object_mut) {
                    token.retain(|name, _| name == "type" || name == "keyslots");
                }
            }
            members.values_mut().for_each(take_out);
        }
        Value::Array(values) => values.iter_mut().for_each(take_out),
        _ => {}
    }
}

/// The latest lines that units of Scrim's have written to the journal; none without a journal, or without the right to
/// read it.
fn log() -> Vec<String> {
    let mut journalctl = Command::new("journalctl");
    journalctl.args([
        "--no-pager",
        "--quiet",
        "--output=short-iso",
        "--lines",
        LINES,
    ]);
    journalctl.args([
        "--unit=scrim@*",
        "--unit=scrim-serve.service",
        "--user-unit=scrim-mount@*",
    ]);
    journalctl.stdin(Stdio::null()).stderr(Stdio::null());
    let text = journalctl.output().map(|output| output.stdout);
    let text = text.unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::without_secrets;

    #[test]
    fn salts_digests_and_contents_of_tokens_are_taken_out() {
        let luks2 = json!({ "metadata": {
            "keyslots": { "0": { "kdf": { "type": "argon2id", "salt": "SECRET" }, "area": { "offset": "32768" } } },
            "digests": { "0": { "type": "pbkdf2", "salt": "SECRET", "digest": "SECRET" } },
            "tokens": { "0": { "type": "clevis", "keyslots": ["0"], "jwe": { "ciphertext": "SECRET" } } },
        } });
        let expected = json!({ "metadata": {
            "keyslots": { "0": { "kdf": { "type": "argon2id" }, "area": { "offset": "32768" } } },
            "digests": { "0": { "type": "pbkdf2" } },
            "tokens": { "0": { "type": "clevis", "keyslots": ["0"] } },
        } });
        assert_eq!(without_secrets(luks2), expected);
        let luks1 =
            json!({ "mk_digest": "SECRET", "mk_digest_salt": "SECRET", "mk_digest_iterations": 1 });
        assert_eq!(without_secrets(luks1), json!({ "mk_digest_iterations": 1 }));
    }
}
