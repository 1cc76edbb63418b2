//! Every option of every command is read by the code of that command.
//!
//! Options come into a command in shared structs, and one that the command does not read would be accepted and
//! ignored. So the sources of each command are named here, and each of its options must be read in one of them.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::Cli;

const NEW_VOLUME: &[&str] = &["new_volume.rs", "cost.rs", "args/keys.rs"];
const CHANGE: &[&str] = &["header_change.rs", "args.rs"];
const SEALED: &[&str] = &["commands/add_key.rs", "cost.rs", "args/keys.rs"];
const NONE: &[&str] = &[];

/// Each command, the source that carries it out, and those that read options for it.
const READERS: &[(&str, &str, &[&[&str]])] = &[
    ("format", "commands/format.rs", &[NEW_VOLUME]),
    (
        "open",
        "commands/open.rs",
        &[&[
            "serving.rs",
            "args/storage.rs",
            "args/running.rs",
            "args/keys.rs",
        ]],
    ),
    ("import", "commands/import.rs", &[NEW_VOLUME]),
    ("export", "commands/export.rs", &[&["args/keys.rs"]]),
    ("encrypt", "commands/encrypt.rs", &[NEW_VOLUME]),
    ("close", "commands/close.rs", &[NONE]),
    ("status", "commands/status.rs", &[NONE]),
    ("resize", "commands/resize.rs", &[NONE]),
    ("table", "commands/table.rs", &[NONE]),
    ("reload", "commands/reload.rs", &[NONE]),
    ("suspend", "commands/reload.rs", &[NONE]),
    ("luksSuspend", "commands/resume.rs", &[NONE]),
    ("resume", "commands/resume.rs", &[&["args/keys.rs"]]),
    ("clear", "commands/reload.rs", &[NONE]),
    ("refresh", "commands/refresh.rs", &[&["args/running.rs"]]),
    ("stats", "commands/stats.rs", &[NONE]),
    ("list", "commands/list.rs", &[NONE]),
    ("serve", "commands/serve.rs", &[&["web/configuration.rs"]]),
    ("dump", "commands/dump.rs", &[&["args.rs"]]),
    (
        "test-passphrase",
        "commands/test_passphrase.rs",
        &[&["args.rs", "args/keys.rs"]],
    ),
    ("isLuks", "commands/is_luks.rs", &[&["args.rs"]]),
    ("luksUUID", "commands/luks_uuid.rs", &[CHANGE]),
    ("add-key", "commands/add_key.rs", &[CHANGE, SEALED]),
    ("change-key", "commands/change_key.rs", &[CHANGE, SEALED]),
    ("convert-key", "commands/change_key.rs", &[CHANGE, SEALED]),
    (
        "remove-key",
        "commands/remove_key.rs",
        &[CHANGE, &["args/keys.rs"]],
    ),
    (
        "kill-slot",
        "commands/remove_key.rs",
        &[CHANGE, &["args/keys.rs"]],
    ),
    ("erase", "commands/remove_key.rs", &[CHANGE]),
    (
        "header-backup",
        "commands/header_backup.rs",
        &[&["args.rs"]],
    ),
    (
        "header-restore",
        "commands/header_restore.rs",
        &[&["args.rs"]],
    ),
    ("repair", "commands/repair.rs", &[&["args.rs"]]),
    ("config", "commands/config.rs", &[CHANGE]),
    ("convert", "commands/convert.rs", &[CHANGE]),
    ("token add", "commands/token.rs", &[CHANGE]),
    ("token remove", "commands/token.rs", &[CHANGE]),
    ("token import", "commands/token.rs", &[CHANGE]),
    ("token export", "commands/token.rs", &[CHANGE]),
    ("token assign", "commands/token.rs", &[CHANGE]),
    ("token unassign", "commands/token.rs", &[CHANGE]),
    ("doctor", "commands/doctor.rs", &[NONE]),
    ("ciphers", "commands/ciphers.rs", &[NONE]),
    ("bench ciphers", "commands/bench.rs", &[NONE]),
    ("bench paths", "commands/bench_paths.rs", &[NONE]),
    ("bench serve", "commands/bench_serve.rs", &[NONE]),
    ("benchmark", "commands/bench.rs", &[NONE]),
    ("generate", "commands/generate.rs", &[NONE]),
];

/// Options that are taken for cryptsetup's sake, or by commands that have no question: what they ask for is so
/// anyway.
const ALWAYS_SO: &[(&str, &str)] = &[
    ("batch_mode", "add-key"),
    ("batch_mode", "config"),
    ("batch_mode", "header-backup"),
    ("batch_mode", "token add"),
    ("batch_mode", "token remove"),
    ("batch_mode", "token import"),
    ("batch_mode", "token assign"),
    ("batch_mode", "token unassign"),
    ("in_place", "encrypt"),
    ("verify_passphrase", "add-key"),
    ("verify_passphrase", "change-key"),
    ("force_password", "add-key"),
    ("force_password", "change-key"),
];

/// Options of structs whose readers are methods, and how a command calls them.
const METHODS: &[(&str, &[&str])] = &[
    (
        "key_file",
        &[
            "key.source",
            "args.key).source_or",
            "key: &args.key",
            "volume.key_file",
        ],
    ),
    ("new_keyfile", &["new.source"]),
    ("io_engine", &["storage.manner"]),
    ("same_cpu_crypt", &["perf.flags"]),
    ("nbd", &["Serving::by"]),
    ("keyslot_cipher", &["Sealing::check"]),
];

/// The commands that have no commands of their own.
fn leaves(command: &Command, name: &str, into: &mut Vec<(String, Vec<String>)>) {
    let mut has_commands = false;
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        has_commands = true;
        leaves(sub, format!("{name} {}", sub.get_name()).trim(), into);
    }
    if !has_commands {
        let ids = command.get_arguments().map(|arg| arg.get_id().to_string());
        into.push((
            name.to_owned(),
            ids.filter(|id| id != "help" && id != "version").collect(),
        ));
    }
}

/// Whether a source reads a field of this name.
fn reads(source: &str, field: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    // By its name behind a dot, or taken out of its struct.
    let read = |before: &str| {
        let found = format!("{before}{field}");
        source
            .match_indices(&found)
            .any(|(at, _)| is_end(&source[at + found.len()..]))
    };
    read(".") || read(".r#") || (source.contains("} = ") && read("            "))
}

#[test]
fn every_option_is_read_by_the_command_that_takes_it() {
    let mut command = Cli::command();
    command.build();
    let mut found = Vec::new();
    leaves(&command, "", &mut found);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let source = |name: &str| {
        let text = std::fs::read_to_string(sources.join(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let mut unread = Vec::new();
    for (name, options) in &found {
        let reader = READERS.iter().find(|(verb, _, _)| verb == name);
        let Some((_, own, shared)) = reader else {
            panic!("{name}: name the sources that read its options");
        };
        let own = source(own);
        let shared: Vec<String> = shared.concat().iter().map(|name| source(name)).collect();
        for option in options {
            if ALWAYS_SO.contains(&(option, name)) {
                continue;
            }
            let mut all = std::iter::once(&own).chain(&shared);
            if !all.any(|source| reads(source, option)) {
                unread.push(format!("{name}: {option}"));
            }
            let method = METHODS.iter().find(|(id, _)| id == option);
            let is_called = |calls: &[&str]| {
                let mut all = std::iter::once(&own).chain(&shared);
                all.any(|source| calls.iter().any(|call| source.contains(call)))
            };
            if method.is_some_and(|(_, calls)| !is_called(calls)) {
                unread.push(format!("{name}: {option}, by its method"));
            }
        }
    }
    assert!(unread.is_empty(), "accepted and not read: {unread:#?}");
    let verbs: BTreeSet<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    for (verb, _, _) in READERS {
        assert!(verbs.contains(verb), "{verb} is no command");
    }
}
