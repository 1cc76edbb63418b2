//! Options of cryptsetup, up to version 2.8, and their meaning here.

use super::options::Meaning::{Ignored, Missing, Own, Renamed, Same};

/// An option of cryptsetup.
pub(super) struct Known {
    pub(super) long: &'static str,
    pub(super) short: Option<u8>,
    pub(super) takes_value: bool,
    pub(super) meaning: Meaning,
}

/// The effect of an option. Where Scrim's command has an option of the same name, it is passed on, whatever is said here
/// of the other commands.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// As in cryptsetup; refused with an action that does not use it.
    Same,
    /// As in cryptsetup, under this name in Scrim's own commands.
    Renamed(&'static str),
    /// Handled before Scrim's command begins, in this way.
    Own(&'static str),
    /// Accepted with every action, without effect, for this reason.
    Ignored(&'static str),
    /// Refused, for this reason.
    Missing(&'static str),
}

const fn flag(long: &'static str, short: u8, meaning: Meaning) -> Known {
    let short = match short {
        0 => None,
        letter => Some(letter),
    };
    Known {
        long,
        short,
        takes_value: false,
        meaning,
    }
}

const fn value(long: &'static str, short: u8, meaning: Meaning) -> Known {
    Known {
        takes_value: true,
        ..flag(long, short, meaning)
    }
}

/// The option with this long name.
pub(super) fn by_name(name: &[u8]) -> Option<&'static Known> {
    OPTIONS.iter().find(|known| known.long.as_bytes() == name)
}

/// The option with this letter.
pub(super) fn by_letter(letter: u8) -> Option<&'static Known> {
    OPTIONS.iter().find(|known| known.short == Some(letter))
}

const REENCRYPTION: &str = "reencryption is not supported; use cryptsetup for it";
const INTEGRITY: &str =
    "integrity protection (dm-integrity) is not supported; use cryptsetup for it";
const TCRYPT: &str = "TrueCrypt and VeraCrypt volumes are not supported; use cryptsetup for them";
const OPAL: &str =
    "encryption by a drive's own hardware (OPAL) is not supported; use cryptsetup for it";
const TOKENS: &str = "the installed cryptsetup runs plugins of tokens, those that it finds";

/// All options, in the order of `cryptsetup --help`.
pub(super) const OPTIONS: [Known; 121] = [
    flag("help", b'?', Own("prints this front end's help")),
    flag("usage", 0, Own("prints one line of usage")),
    flag(
        "version",
        b'V',
        Own("prints the version of cryptsetup whose grammar this is, and Scrim's own"),
    ),
    value("active-name", 0, Missing(REENCRYPTION)),
    value("align-payload", 0, Same),
    flag("allow-discards", 0, Same),
    flag(
        "batch-mode",
        b'q',
        Own("answers all questions with yes; without a terminal, nothing is asked anyway"),
    ),
    flag("cancel-deferred", 0, Same),
    value("cipher", b'c', Same),
    flag("debug", 0, Ignored("there are no debug messages")),
    flag("debug-json", 0, Ignored("there are no debug messages")),
    flag("deferred", 0, Same),
    value(
        "device-size",
        0,
        Missing("only `resize` takes a size in bytes; give --size in sectors"),
    ),
    flag("decrypt", 0, Missing(REENCRYPTION)),
    flag(
        "disable-blkid",
        0,
        Ignored("no library looks for signatures of other formats"),
    ),
    flag(
        "disable-external-tokens",
        0,
        Ignored("without options of tokens no plugin is used"),
    ),
    flag(
        "disable-keyring",
        0,
        Ignored("outside `open` by the kernel's engine no key is put into a keyring"),
    ),
    flag(
        "disable-locks",
        0,
        Ignored("locks stay in use: they cost nothing and need no folder"),
    ),
    flag("disable-veracrypt", 0, Missing(TCRYPT)),
    flag("dump-json-metadata", 0, Same),
    flag("dump-volume-key", 0, Same),
    flag("encrypt", 0, Missing(REENCRYPTION)),
    value("external-tokens-path", 0, Missing(TOKENS)),
    flag(
        "force-password",
        0,
        Ignored("the quality of a passphrase is not checked"),
    ),
    flag("force-offline-reencrypt", 0, Missing(REENCRYPTION)),
    flag("force-no-keyslots", 0, Missing(REENCRYPTION)),
    value("hash", b'h', Same),
    value("header", 0, Same),
    value("header-backup-file", 0, Same),
    value("hotzone-size", 0, Missing(REENCRYPTION)),
    flag("hw-opal", 0, Missing(OPAL)),
    flag("hw-opal-factory-reset", 0, Missing(OPAL)),
    flag("hw-opal-only", 0, Missing(OPAL)),
    flag("init-only", 0, Missing(REENCRYPTION)),
    value("integrity", b'I', Missing(INTEGRITY)),
    value("integrity-key-size", 0, Missing(INTEGRITY)),
    flag("integrity-inline", 0, Missing(INTEGRITY)),
    flag("integrity-legacy-padding", 0, Missing(INTEGRITY)),
    flag("integrity-no-journal", 0, Missing(INTEGRITY)),
    flag("integrity-no-wipe", 0, Missing(INTEGRITY)),
    value("iter-time", b'i', Same),
    flag(
        "iv-large-sectors",
        0,
        Missing("IVs by larger sectors are for tables: give one to `scrim open --table`"),
    ),
    value("json-file", 0, Same),
    flag("keep-key", 0, Missing(REENCRYPTION)),
    value("key-description", 0, Same),
    value("key-file", b'd', Same),
    value("key-size", b's', Same),
    value("key-slot", b'S', Same),
    value("keyfile-offset", 0, Same),
    value("keyfile-size", b'l', Same),
    value("keyslot-cipher", 0, Same),
    value("keyslot-key-size", 0, Same),
    value("label", 0, Same),
    value("link-vk-to-keyring", 0, Same),
    value("luks2-keyslots-size", 0, Same),
    value("luks2-metadata-size", 0, Same),
    value("volume-key-file", 0, Same),
    value("volume-key-keyring", 0, Same),
    value("new-keyfile", 0, Same),
    value(
        "new-key-description",
        0,
        Missing("a new passphrase is not taken from a keyring: pipe it in, as from `keyctl pipe`"),
    ),
    value("new-key-size", 0, Missing(REENCRYPTION)),
    value("new-key-slot", 0, Same),
    value("new-keyfile-offset", 0, Same),
    value("new-keyfile-size", 0, Same),
    value(
        "new-token-id",
        0,
        Missing("a new key slot gets its token by `token add`"),
    ),
    value("new-volume-key-file", 0, Missing(REENCRYPTION)),
    value("new-volume-key-keyring", 0, Missing(REENCRYPTION)),
    value("offset", b'o', Same),
    value("pbkdf", 0, Same),
    value("pbkdf-force-iterations", 0, Same),
    value("pbkdf-memory", 0, Same),
    value("pbkdf-parallel", 0, Same),
    flag("perf-high_priority", 0, Same),
    flag("perf-no_read_workqueue", 0, Same),
    flag("perf-no_write_workqueue", 0, Same),
    flag("perf-same_cpu_crypt", 0, Same),
    flag("perf-submit_from_crypt_cpus", 0, Same),
    flag("persistent", 0, Same),
    value("priority", 0, Same),
    flag("progress-json", 0, Missing(REENCRYPTION)),
    value("progress-frequency", 0, Missing(REENCRYPTION)),
    flag("readonly", b'r', Same),
    value("reduce-device-size", 0, Missing(REENCRYPTION)),
    flag("refresh", 0, Own("makes `open` the action `refresh`")),
    value("resilience", 0, Missing(REENCRYPTION)),
    value("resilience-hash", 0, Missing(REENCRYPTION)),
    flag("resume-only", 0, Missing(REENCRYPTION)),
    value("sector-size", 0, Same),
    flag(
        "serialize-memory-hard-pbkdf",
        0,
        Ignored("key derivations of several processes do not wait for each other"),
    ),
    flag(
        "shared",
        0,
        Missing(
            "an image has one writer or any number of readers; `plainOpen` accepts the option, without effect",
        ),
    ),
    value("size", b'b', Same),
    value("skip", b'p', Same),
    value("subsystem", 0, Same),
    flag("tcrypt-backup", 0, Missing(TCRYPT)),
    flag("tcrypt-hidden", 0, Missing(TCRYPT)),
    flag("tcrypt-system", 0, Missing(TCRYPT)),
    flag(
        "test-args",
        0,
        Own("checks the command line, and carries out nothing"),
    ),
    flag("test-passphrase", 0, Same),
    value(
        "timeout",
        b't',
        Own("limits the time to enter a passphrase at the terminal, in seconds"),
    ),
    value("token-id", 0, Same),
    flag("token-only", 0, Same),
    flag("token-replace", 0, Same),
    value("token-type", 0, Same),
    value("tries", b'T', Same),
    value(
        "type",
        b'M',
        Own(
            "names the format: luks, luks1, luks2, and for `open` plain; others are refused by name",
        ),
    ),
    flag("unbound", 0, Same),
    flag(
        "use-random",
        0,
        Ignored(
            "the kernel's generator is the same for both once it is seeded, which is waited for",
        ),
    ),
    flag(
        "use-urandom",
        0,
        Ignored(
            "the kernel's generator is the same for both once it is seeded, which is waited for",
        ),
    ),
    value("uuid", 0, Same),
    flag("veracrypt", 0, Missing(TCRYPT)),
    value("veracrypt-pim", 0, Missing(TCRYPT)),
    flag("veracrypt-query-pim", 0, Missing(TCRYPT)),
    flag(
        "verbose",
        b'v',
        Own("prints at the end whether the command was successful, and its code"),
    ),
    flag(
        "verify-passphrase",
        b'y',
        Ignored("a new passphrase is always asked for twice at a terminal"),
    ),
    value("block-size", b'B', Missing(REENCRYPTION)),
    flag("new", b'N', Missing(REENCRYPTION)),
    flag("use-directio", 0, Missing(REENCRYPTION)),
    flag("use-fsync", 0, Missing(REENCRYPTION)),
    flag("write-log", 0, Missing(REENCRYPTION)),
    flag("dump-master-key", 0, Renamed("dump-volume-key")),
    value("master-key-file", 0, Renamed("volume-key-file")),
];
