//! Actions of cryptsetup, up to version 2.8, with their older names.

/// An action of cryptsetup.
pub(super) struct Action {
    /// Its name, and older ones.
    pub(super) names: &'static [&'static str],
    /// Its arguments, as cryptsetup's help shows them.
    pub(super) arguments: &'static str,
    /// Number of arguments that it needs.
    pub(super) needed: usize,
    pub(super) becomes: Becomes,
    /// Difference from cryptsetup; empty if there is none.
    pub(super) differs: &'static str,
}

/// The effect of an action.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Becomes {
    /// This command of Scrim's, with the same arguments.
    Command(&'static str),
    /// This command of Scrim's, whose only argument is the name of an open volume.
    OnOpen(&'static str),
    /// `open`, `refresh` or `open --test-passphrase` by its options, for volumes of this type if the name says it.
    Open(Option<&'static str>),
    /// `open` of a plain volume, with name and device in the other order.
    Create,
    /// `refresh`, whose name comes last.
    Refresh,
    /// `token`, whose first argument is an action of its own.
    Token,
    /// Refused, for this reason.
    Missing(&'static str),
}

const fn same(
    names: &'static [&'static str],
    arguments: &'static str,
    command: &'static str,
) -> Action {
    Action {
        names,
        arguments,
        needed: 1,
        becomes: Becomes::Command(command),
        differs: "",
    }
}

const fn on_open(names: &'static [&'static str], command: &'static str) -> Action {
    Action {
        becomes: Becomes::OnOpen(command),
        ..same(names, "<name>", command)
    }
}

const fn missing(names: &'static [&'static str], reason: &'static str) -> Action {
    Action {
        names,
        arguments: "",
        needed: 0,
        becomes: Becomes::Missing(reason),
        differs: reason,
    }
}

/// Names of the actions that are refused.
pub(in crate::args) fn refused_actions() -> impl Iterator<Item = &'static str> {
    let refused = ACTIONS
        .iter()
        .filter(|action| matches!(action.becomes, Becomes::Missing(_)));
    refused.flat_map(|action| action.names.iter().copied())
}

/// The action of this name.
pub(super) fn by_name(name: &str) -> Option<&'static Action> {
    ACTIONS.iter().find(|action| action.names.contains(&name))
}

const OPEN: Action = Action {
    names: &["open"],
    arguments: "<device> [<name>]",
    needed: 1,
    becomes: Becomes::Open(None),
    differs: "as root with device mapper the kernel runs the volume; otherwise Scrim does, and prints its NBD address",
};

const PLAIN: &str = "cipher, key size and, for a passphrase, hash must be given: cryptsetup's defaults differ between its versions";

pub(super) const TCRYPT: &str =
    "TrueCrypt and VeraCrypt volumes are not supported; use cryptsetup for them";
pub(super) const BITLOCKER: &str = "BitLocker volumes are not supported; use cryptsetup for them";
pub(super) const FILEVAULT: &str = "FileVault volumes are not supported; use cryptsetup for them";
pub(super) const LOOP_AES: &str = "loop-AES volumes are not supported; use cryptsetup for them";
const REENCRYPTION: &str = "reencryption is not supported; use cryptsetup for it";

pub(super) const ACTIONS: [Action; 32] = [
    OPEN,
    Action {
        names: &["luksOpen"],
        becomes: Becomes::Open(Some("luks")),
        ..OPEN
    },
    Action {
        names: &["plainOpen"],
        becomes: Becomes::Open(Some("plain")),
        differs: PLAIN,
        ..OPEN
    },
    Action {
        names: &["create"],
        arguments: "<name> <device>",
        needed: 2,
        becomes: Becomes::Create,
        differs: PLAIN,
    },
    missing(&["loopaesOpen", "loopaesClose"], LOOP_AES),
    missing(&["tcryptOpen", "tcryptClose", "tcryptDump"], TCRYPT),
    missing(&["bitlkOpen", "bitlkClose", "bitlkDump"], BITLOCKER),
    missing(&["fvault2Open", "fvault2Close", "fvault2Dump"], FILEVAULT),
    on_open(&["close", "luksClose", "plainClose", "remove"], "close"),
    on_open(&["resize"], "resize"),
    Action {
        differs: "also shows data path, engine and clients",
        ..on_open(&["status"], "status")
    },
    Action {
        needed: 0,
        differs: "measures Scrim's ciphers, not the kernel's",
        ..same(&["benchmark"], "", "benchmark")
    },
    same(&["repair"], "<device>", "repair"),
    missing(&["reencrypt", "luksReencrypt"], REENCRYPTION),
    same(&["erase", "luksErase"], "<device>", "erase"),
    same(&["convert"], "<device>", "convert"),
    same(&["config", "luksConfig"], "<device>", "config"),
    Action {
        differs: "sectors of 4096 bytes where the size allows it",
        ..same(&["luksFormat"], "<device> [<new key file>]", "format")
    },
    same(&["luksAddKey"], "<device> [<new key file>]", "add-key"),
    same(&["luksRemoveKey"], "<device> [<key file>]", "remove-key"),
    same(&["luksChangeKey"], "<device> [<key file>]", "change-key"),
    same(&["luksConvertKey"], "<device>", "convert-key"),
    Action {
        needed: 2,
        ..same(
            &["luksKillSlot", "luksDelKey"],
            "<device> <key slot>",
            "kill-slot",
        )
    },
    same(&["luksUUID"], "<device>", "luksUUID"),
    same(&["isLuks"], "<device>", "isLuks"),
    same(&["luksDump"], "<device>", "dump"),
    on_open(&["luksSuspend"], "luksSuspend"),
    on_open(&["luksResume"], "luksResume"),
    same(&["luksHeaderBackup"], "<device>", "header-backup"),
    Action {
        differs: "keeps a copy of the header that it replaces",
        ..same(&["luksHeaderRestore"], "<device>", "header-restore")
    },
    Action {
        names: &["token"],
        arguments: "<add|remove|import|export|unassign> <device>",
        needed: 2,
        becomes: Becomes::Token,
        differs: "",
    },
    Action {
        names: &["refresh"],
        arguments: "[<device>] <name>",
        needed: 1,
        becomes: Becomes::Refresh,
        differs: "asks for the passphrase only where the key is out of reach",
    },
];
