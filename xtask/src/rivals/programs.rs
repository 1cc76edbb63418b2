//! Programs that Scrim is compared with.

use scrim_bench::{Machine, Peer};

use crate::error::Error;

pub(super) const CRYPTSETUP: Peer = Peer {
    program: "cryptsetup",
    version_option: "--version",
    package: "cryptsetup-bin",
};
pub(super) const QEMU_NBD: Peer = Peer {
    program: "qemu-nbd",
    version_option: "--version",
    package: "qemu-utils",
};
pub(super) const NBDKIT: Peer = Peer {
    program: "nbdkit",
    version_option: "--version",
    package: "nbdkit",
};
pub(super) const FIO: Peer = Peer {
    program: "fio",
    version_option: "--version",
    package: "fio",
};
pub(super) const NBDCOPY: Peer = Peer {
    program: "nbdcopy",
    version_option: "--version",
    package: "libnbd-bin",
};
pub(super) const QEMU_STORAGE_DAEMON: Peer = Peer {
    program: "qemu-storage-daemon",
    version_option: "--version",
    package: "qemu-utils",
};
pub(super) const NBDFUSE: Peer = Peer {
    program: "nbdfuse",
    version_option: "--version",
    package: "libnbd-bin",
};
pub(super) const MKE2FS: Peer = Peer {
    program: "mke2fs",
    version_option: "-V",
    package: "e2fsprogs",
};
pub(super) const TAR: Peer = Peer {
    program: "tar",
    version_option: "--version",
    package: "tar",
};
pub(super) const FUSE2FS: Peer = Peer {
    program: "fuse2fs",
    version_option: "-V",
    package: "fuse2fs",
};
pub(super) const GOCRYPTFS: Peer = Peer {
    program: "gocryptfs",
    version_option: "-version",
    package: "gocryptfs",
};

/// The machine with these peers, all of which are named in the report's warnings when they are
/// missing; without `needed` there is nothing to measure.
pub(super) fn machine(peers: &[Peer], needed: &[Peer]) -> Result<Machine, Error> {
    let machine = Machine::describe(peers);
    match needed.iter().find(|peer| !machine.has(peer.program)) {
        None => Ok(machine),
        Some(peer) => Err(Error::Missing {
            program: peer.program,
            package: peer.package,
        }),
    }
}
