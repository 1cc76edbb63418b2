//! Choice of the program or kernel code that mounts a file system.

use scrim_luks::Signature;

use super::program::{EXFAT_FUSE, FUSE2FS, NTFS_3G, Program, SQUASHFUSE};
use super::request::MountRequest;
use crate::args::MountMethod;
use crate::error::{CliError, Exit};
use crate::signature::Contents;

/// Way to mount a file system, and the reason for it as a clause.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) method: Method,
    pub(super) reason: String,
    /// Short name of the file system, such as `ext4`.
    pub(super) file_system: &'static str,
}

#[derive(Debug)]
pub(super) enum Method {
    /// Scrim's own reader of the ext family.
    Scrim,
    /// Something else, on the plaintext as one file.
    Driver(Driver),
}

/// Code that mounts the file system in a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Driver {
    /// The kernel's file system of this type, on a loop device.
    Kernel(&'static str),
    Program(&'static Program),
}

/// A kind of file system that can be mounted.
struct Kind {
    signature: Signature,
    /// Name of the file system in messages.
    name: &'static str,
    /// Type of the kernel's file system; the one for ext4 also mounts ext2 and ext3.
    kernel: &'static str,
    program: Option<&'static Program>,
}

impl Kind {
    /// Returns whether Scrim itself reads it.
    fn is_read_by_scrim(&self) -> bool {
        self.signature == Signature::Ext
    }
}

const KINDS: [Kind; 9] = [
    kind(Signature::Ext, "ext2, ext3 or ext4", "ext4", Some(&FUSE2FS)),
    kind(Signature::Ntfs, "NTFS", "ntfs3", Some(&NTFS_3G)),
    kind(Signature::ExFat, "exFAT", "exfat", Some(&EXFAT_FUSE)),
    kind(
        Signature::SquashFs,
        "SquashFS",
        "squashfs",
        Some(&SQUASHFUSE),
    ),
    kind(Signature::Xfs, "XFS", "xfs", None),
    kind(Signature::Btrfs, "Btrfs", "btrfs", None),
    kind(Signature::F2fs, "F2FS", "f2fs", None),
    kind(Signature::Fat, "FAT", "vfat", None),
    kind(Signature::Iso9660, "ISO 9660", "iso9660", None),
];

const fn kind(
    signature: Signature,
    name: &'static str,
    kernel: &'static str,
    program: Option<&'static Program>,
) -> Kind {
    Kind {
        signature,
        name,
        kernel,
        program,
    }
}

/// Rights of this process, and programs of this machine.
pub(super) struct Machine<'a> {
    pub(super) is_root: bool,
    /// Returns whether a command is installed.
    pub(super) has: &'a dyn Fn(&str) -> bool,
}

/// Chooses a way to mount what the volume contains.
pub(super) fn choose(
    contents: Contents,
    request: &MountRequest,
    machine: &Machine,
) -> Result<Choice, CliError> {
    let kind = kind_of(contents)?;
    let is_readable = kind.is_read_by_scrim() && request.read_only;
    let method = match (request.method, kind.program) {
        (MountMethod::Kernel, _) if !machine.is_root => return Err(kernel_needs_root(kind)),
        (MountMethod::Kernel, _) => Method::Driver(Driver::Kernel(kind.kernel)),
        (MountMethod::Scrim, _) if is_readable => Method::Scrim,
        (MountMethod::Scrim, _) => return Err(scrim_cannot(kind)),
        (MountMethod::Auto, _) if machine.is_root => Method::Driver(Driver::Kernel(kind.kernel)),
        (MountMethod::Auto, _) if is_readable => Method::Scrim,
        (MountMethod::Auto | MountMethod::Program, Some(program)) => {
            Method::Driver(Driver::Program(program))
        }
        (MountMethod::Auto, None) => return Err(no_program_without_root(kind)),
        (MountMethod::Program, None) => return Err(no_program(kind)),
    };
    if let Method::Driver(Driver::Program(program)) = &method
        && !(machine.has)(program.command)
    {
        return Err(is_missing(kind, program));
    }
    Ok(Choice {
        reason: reason(request, &method),
        method,
        file_system: kind.kernel,
    })
}

fn reason(request: &MountRequest, method: &Method) -> String {
    let reason = match (request.method, method) {
        (MountMethod::Auto, Method::Driver(Driver::Kernel(_))) => "root may mount with the kernel",
        (MountMethod::Auto, Method::Driver(Driver::Program(_))) => {
            "without root the kernel mounts no block device"
        }
        (MountMethod::Auto, Method::Scrim) => "reading needs neither root nor another program",
        (_, Method::Driver(Driver::Kernel(_))) => "--method kernel",
        (_, Method::Driver(Driver::Program(_))) => "--method program",
        (_, Method::Scrim) => "--method scrim",
    };
    match (method, request.allow_other) {
        // There is no way to keep them out.
        (Method::Driver(Driver::Kernel(_)), false) => {
            format!("{reason}; other users have what the modes allow")
        }
        _ => reason.to_owned(),
    }
}

fn kind_of(contents: Contents) -> Result<&'static Kind, CliError> {
    let found = match contents {
        Contents::Known(signature) => KINDS.iter().find(|kind| kind.signature == signature),
        Contents::Blank | Contents::Unknown => None,
    };
    found.ok_or_else(|| {
        let next = match contents {
            Contents::Known(Signature::Gpt | Signature::Mbr) => {
                "mount --raw shows it as one file, for tools that read partitions"
            }
            Contents::Known(_) => "mount --raw shows it as one file",
            // A new volume reads as noise.
            Contents::Blank | Contents::Unknown => {
                "a new volume has none: `scrim pack FOLDER IMAGE` makes one with a file system, and for this one \
                 `scrim mount --raw` shows a file for mkfs.ext4 -b 4096"
            }
        };
        CliError::new(
            Exit::WrongDevice,
            format!("the volume has no file system to mount, it has {contents}; {next}"),
        )
    })
}

fn kernel_needs_root(kind: &Kind) -> CliError {
    let next = match kind.program {
        Some(program) => format!("leave --method out to mount it with {}", program.command),
        None => "run scrim as root".to_owned(),
    };
    CliError::usage(format!("--method kernel needs root; {next}"))
}

fn no_program_without_root(kind: &Kind) -> CliError {
    CliError::new(
        Exit::WrongDevice,
        format!(
            "{} has no program that mounts it without root; run scrim mount as root, or use --raw for the plaintext \
             as one file",
            kind.name
        ),
    )
}

fn scrim_cannot(kind: &Kind) -> CliError {
    CliError::usage(match kind.is_read_by_scrim() {
        true => "--method scrim only reads; add --readonly, or leave --method out".to_owned(),
        false => format!(
            "--method scrim reads ext2, ext3 and ext4, and the volume has {}; leave --method out",
            kind.kernel
        ),
    })
}

fn no_program(kind: &Kind) -> CliError {
    CliError::usage(format!(
        "there is no program for {}; leave --method out",
        kind.name
    ))
}

fn is_missing(kind: &Kind, program: &Program) -> CliError {
    let next = match kind.is_read_by_scrim() {
        true => "mount it --readonly, which needs no program",
        false => "use --raw for the plaintext as one file",
    };
    CliError::new(
        Exit::WrongDevice,
        format!(
            "{} is mounted by {}, which is not installed; install the package {}, or {next}",
            kind.name, program.command, program.package
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn asked(method: MountMethod) -> MountRequest {
        MountRequest {
            directory: PathBuf::from("/mnt"),
            raw: false,
            method,
            read_only: false,
            allow_other: false,
            page_cache: false,
            discard_holes: false,
        }
    }

    fn chosen(signature: Signature, method: MountMethod, is_root: bool, has: bool) -> String {
        chosen_for(signature, &asked(method), is_root, has)
    }

    fn chosen_for(
        signature: Signature,
        request: &MountRequest,
        is_root: bool,
        has: bool,
    ) -> String {
        let machine = Machine {
            is_root,
            has: &|_| has,
        };
        match choose(Contents::Known(signature), request, &machine) {
            Ok(Choice { method, .. }) => match method {
                Method::Driver(Driver::Kernel(name)) => format!("kernel {name}"),
                Method::Driver(Driver::Program(program)) => program.command.to_owned(),
                Method::Scrim => "scrim".to_owned(),
            },
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_best_way_that_is_allowed_is_chosen() {
        use MountMethod::{Auto, Kernel, Program};
        assert_eq!(chosen(Signature::Ext, Auto, true, false), "kernel ext4");
        assert_eq!(chosen(Signature::Ext, Auto, false, true), "fuse2fs");
        assert_eq!(chosen(Signature::Ext, Program, true, true), "fuse2fs");
        assert_eq!(chosen(Signature::Ntfs, Auto, false, true), "ntfs-3g");
        assert_eq!(chosen(Signature::SquashFs, Auto, false, true), "squashfuse");
        assert!(chosen(Signature::Ext, Auto, false, false).contains("package fuse2fs"));
        assert!(chosen(Signature::Xfs, Auto, false, true).contains("as root"));
        assert!(chosen(Signature::Ext, Kernel, false, true).contains("needs root"));
        assert!(chosen(Signature::Xfs, Program, true, true).contains("no program"));
        assert!(chosen(Signature::Swap, Auto, true, true).contains("--raw"));
        let machine = Machine {
            is_root: true,
            has: &|_| true,
        };
        let none = choose(Contents::Unknown, &asked(Auto), &machine).unwrap_err();
        assert!(none.to_string().contains("scrim pack FOLDER"), "{none}");
    }

    #[test]
    fn scrim_reads_without_root_and_without_programs() {
        use MountMethod::{Auto, Program, Scrim};
        let read_only = |method| MountRequest {
            read_only: true,
            ..asked(method)
        };
        let chosen_for = |signature, method, is_root, has| {
            chosen_for(signature, &read_only(method), is_root, has)
        };
        for has in [false, true] {
            assert_eq!(chosen_for(Signature::Ext, Auto, false, has), "scrim");
            assert_eq!(chosen_for(Signature::Ext, Scrim, true, has), "scrim");
        }
        assert_eq!(chosen_for(Signature::Ext, Auto, true, true), "kernel ext4");
        assert_eq!(chosen_for(Signature::Ext, Program, false, true), "fuse2fs");
        assert_eq!(chosen_for(Signature::Ntfs, Auto, false, true), "ntfs-3g");
        assert!(chosen_for(Signature::Xfs, Scrim, true, true).contains("has xfs"));
        assert!(chosen(Signature::Ext, Scrim, false, true).contains("add --readonly"));
        assert!(chosen(Signature::Ext, Auto, false, false).contains("--readonly"));
    }
}
