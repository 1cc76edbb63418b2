//! Scrim and its rivals on this machine, in turn, by the statistic of [`scrim_bench`].
//!
//! Peers run as their users run them. What a peer or Scrim cannot do here is a warning in the
//! report, and its ratios are left out.

mod ciphers;
mod contender;
mod dm_crypt;
mod fairness;
mod fio;
mod growth;
mod image;
mod memory;
mod nbd;
mod room;
mod scrim;
mod serve;
mod server;
mod unlock;

use std::path::PathBuf;

use scrim_bench::{Machine, Peer, Report, Turn};

use crate::error::Error;

const CRYPTSETUP: Peer = Peer {
    program: "cryptsetup",
    version_option: "--version",
    package: "cryptsetup-bin",
};
const QEMU_NBD: Peer = Peer {
    program: "qemu-nbd",
    version_option: "--version",
    package: "qemu-utils",
};
const NBDKIT: Peer = Peer {
    program: "nbdkit",
    version_option: "--version",
    package: "nbdkit",
};
const FIO: Peer = Peer {
    program: "fio",
    version_option: "--version",
    package: "fio",
};
const NBDCOPY: Peer = Peer {
    program: "nbdcopy",
    version_option: "--version",
    package: "libnbd-bin",
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
    /// Files over HTTPS and HTTP, beside nginx
    Serve(serve::Args),
    /// What a byte costs as the volume grows and as more requests are under way, beside the smallest
    Growth(growth::Args),
    /// What is left of a client's rate while others take what they can
    Fairness(fairness::Args),
    /// What an open volume keeps in memory, idle and with idle clients
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

/// Options that every comparison takes.
#[derive(clap::Args)]
struct Common {
    /// How many times each contender runs each load
    #[arg(long, default_value_t = scrim_bench::ROUNDS, value_parser = round_count)]
    rounds: usize,
    /// Print JSON on standard output, and the table on standard error
    #[arg(long)]
    json: bool,
}

/// Which `scrim` is measured.
#[derive(clap::Args)]
struct Ours {
    /// Measure this binary instead of building the workspace's
    #[arg(long, value_name = "FILE")]
    scrim: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.list {
        list();
    }
    let (report, json) = match &args.rival {
        Some(Rival::Unlock(args)) => (unlock::run(args)?, args.common.json),
        Some(Rival::Nbd(args)) => (nbd::run(args)?, args.common.json),
        Some(Rival::Serve(args)) => (serve::run(args)?, args.common.json),
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
    list_promises("serve", serve::promises());
    list_promises("growth", growth::promises());
    list_promises("fairness", fairness::promises());
    list_promises("memory", memory::promises());
    list_promises("ciphers", ciphers::promises());
    list_promises("illumos", ciphers::illumos::promises());
    list_promises("fused", ciphers::fused::promises());
    list_promises("dm-crypt", dm_crypt::promises());
    for peer in [CRYPTSETUP, QEMU_NBD, NBDKIT, FIO, NBDCOPY] {
        let found = peer
            .version()
            .unwrap_or_else(|| format!("missing; it is in the Debian package {}", peer.package));
        println!("{:<12} {found}", peer.program);
    }
    let (nginx, found) = serve::found();
    println!("{nginx:<12} {found}");
}

fn list_promises(rival: &str, promises: impl Iterator<Item = (String, Option<f64>)>) {
    println!("cargo xtask rivals {rival}");
    for (ratio, target) in promises {
        let target = target.map_or_else(String::new, |target| format!("≥ {target}"));
        println!("{}", format!("  {ratio:<44}{target}").trim_end());
    }
    println!();
}

fn round_count(text: &str) -> Result<usize, String> {
    let rounds = text.parse().map_err(|_| "not a number".to_owned())?;
    if (1..=1000).contains(&rounds) {
        Ok(rounds)
    } else {
        Err("between 1 and 1000".to_owned())
    }
}

/// Parses the time for which a load runs.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("between 0.1 and 600".to_owned())
    }
}

/// Prints the progress once in each round.
fn announce(turn: Turn, rounds: usize) {
    if (turn.load, turn.contender) == (0, 0) {
        eprintln!("round {} of {rounds}", turn.round + 1);
    }
}

/// The machine with these peers, all of which are named in the report's warnings when they are
/// missing; without `needed` there is nothing to measure.
fn machine(peers: &[Peer], needed: &[Peer]) -> Result<Machine, Error> {
    let machine = Machine::describe(peers);
    match needed.iter().find(|peer| !machine.has(peer.program)) {
        None => Ok(machine),
        Some(peer) => Err(Error::Missing {
            program: peer.program,
            package: peer.package,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(seconds("2.5"), Ok(2.5));
        for text in ["0", "-1", "1e9", "NaN", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
