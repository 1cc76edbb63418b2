//! Scrim and its rivals on this machine, in turn, by the statistic of [`scrim_bench`].
//!
//! Peers run as their users run them. What a peer or Scrim cannot do here is a warning in the
//! report, and its ratios are left out.

mod ceph;
mod ciphers;
mod contender;
mod dm_crypt;
mod fairness;
mod fio;
mod fuse;
mod growth;
mod image;
mod memory;
mod nbd;
mod nbds;
mod options;
mod programs;
mod remote;
mod room;
mod scrim;
mod serial;
mod serve;
mod server;
mod store;
mod transfer;
mod unlock;

use scrim_bench::Report;

use crate::error::Error;
use programs::{
    CRYPTSETUP, FIO, FUSE2FS, GOCRYPTFS, NBDCOPY, NBDFUSE, NBDKIT, QEMU_NBD, QEMU_STORAGE_DAEMON,
};

/// Options of `cargo xtask rivals`.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    /// List the comparisons, their targets, and the rivals found here
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    rival: Option<Rival>,
}

#[derive(clap::Subcommand)]
enum Rival {
    /// The time to unlock a key slot, beside cryptsetup
    Unlock(unlock::Args),
    /// Six loads on a volume served over NBD, beside qemu-nbd and nbdkit
    Nbd(nbd::Args),
    /// Long requests on a volume served over NBD under TLS, beside nbdkit
    Nbds(nbds::Args),
    /// Volumes on an NBD server, near and far, beside that server as it is
    Remote(remote::Args),
    /// Volumes on images of a Ceph cluster, beside the images as they are and librbd's own encryption
    Ceph(ceph::Args),
    /// `import` to an NBD server and `export` from one, beside nbdcopy
    Transfer(transfer::Args),
    /// Volumes as files over FUSE, beside qemu-storage-daemon, nbdfuse, fuse2fs and gocryptfs
    Fuse(fuse::Args),
    /// Files over HTTPS and HTTP, beside nginx
    Serve(serve::Args),
    /// Texts that are compressed when they are requested, beside nginx
    Compressed(serve::compressed::Args),
    /// Cost of a byte as the volume grows and as more requests are in flight
    Growth(growth::Args),
    /// Share of its rate that a client keeps beside greedy clients
    Fairness(fairness::Args),
    /// Memory of an open volume, idle and with idle clients
    Memory(memory::Args),
    /// Sector ciphers, beside eight libraries in one process
    Ciphers(ciphers::Args),
    /// The four stages of the illumos crypto framework, beside its published figures
    Illumos(ciphers::illumos::Args),
    /// Sectors that become records of TLS while they are in the cache, beside two passes over them
    Fused(ciphers::fused::Args),
    /// The real dm-crypt with its queues and without, beside the plain RAM disk, in an emulated guest
    DmCrypt(dm_crypt::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.list {
        list();
    }
    let (report, json) = match &args.rival {
        Some(Rival::Unlock(args)) => (unlock::run(args)?, args.common.json),
        Some(Rival::Nbd(args)) => (nbd::run(args)?, args.common.json),
        Some(Rival::Nbds(args)) => (nbds::run(args)?, args.common.json),
        Some(Rival::Remote(args)) => (remote::run(args)?, args.common.json),
        Some(Rival::Ceph(args)) => (ceph::run(args)?, args.common.json),
        Some(Rival::Transfer(args)) => (transfer::run(args)?, args.common.json),
        Some(Rival::Fuse(args)) => (fuse::run(args)?, args.common.json),
        Some(Rival::Serve(args)) => (serve::run(args)?, args.common.json),
        Some(Rival::Compressed(args)) => (serve::compressed::run(args)?, args.common.json),
        Some(Rival::Growth(args)) => (growth::run(args)?, args.common.json),
        Some(Rival::Fairness(args)) => fairness::run(args)?,
        Some(Rival::Memory(args)) => (memory::run(args)?, args.common.json),
        Some(Rival::Ciphers(args)) => (ciphers::run(args)?, args.sampling.json),
        Some(Rival::Illumos(args)) => (ciphers::illumos::run(args)?, args.sampling.json),
        Some(Rival::Fused(args)) => (ciphers::fused::run(args)?, args.sampling.json),
        Some(Rival::DmCrypt(args)) => (dm_crypt::run(args)?, args.common.json),
        None => return Ok(()),
    };
    print(&report, json);
    Ok(())
}

fn print(report: &Report, json: bool) {
    if json {
        eprint!("{report}");
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
}

fn list() {
    list_promises("unlock", unlock::promises());
    list_promises("nbd", nbd::promises());
    list_promises("nbds", nbds::promises());
    list_promises("remote", remote::promises());
    list_promises("ceph", ceph::promises());
    list_promises("transfer", transfer::promises());
    list_promises("fuse", fuse::promises());
    list_promises("serve", serve::promises());
    list_promises("compressed", serve::compressed::promises());
    list_promises("growth", growth::promises());
    list_promises("fairness", fairness::promises());
    list_promises("memory", memory::promises());
    list_promises("ciphers", ciphers::promises());
    list_promises("illumos", ciphers::illumos::promises());
    list_promises("fused", ciphers::fused::promises());
    list_promises("dm-crypt", dm_crypt::promises());
    let peers = [
        CRYPTSETUP,
        QEMU_NBD,
        NBDKIT,
        FIO,
        NBDCOPY,
        QEMU_STORAGE_DAEMON,
        NBDFUSE,
        FUSE2FS,
        GOCRYPTFS,
        ceph::RBD,
        ceph::CEPH_OSD,
    ];
    for peer in peers {
        let found = peer
            .version()
            .unwrap_or_else(|| format!("missing; it is in the Debian package {}", peer.package));
        println!("{:<20} {found}", peer.program);
    }
    let (nginx, found) = serve::found();
    println!("{nginx:<20} {found}");
}

fn list_promises(rival: &str, promises: impl Iterator<Item = (String, Option<f64>)>) {
    println!("cargo xtask rivals {rival}");
    for (ratio, target) in promises {
        let target = target.map_or_else(String::new, |target| format!("≥ {target}"));
        println!("{}", format!("  {ratio:<52}{target}").trim_end());
    }
    println!();
}
