//! `rivals fairness`: what is left of a client's rate while others take what they can. The rival is Scrim itself,
//! without the other clients, or another server with them.

mod https;
mod nbd;
mod neighbour;
mod target;

use scrim_bench::Report;

use crate::error::Error;

/// Options of `cargo xtask rivals fairness`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    server: Server,
}

#[derive(clap::Subcommand)]
enum Server {
    /// A volume served over NBD, while others connect and say nothing, or come and go
    Nbd(nbd::Args),
    /// A volume served over NBD, to a client with short requests and to one with long ones
    Neighbour(neighbour::Args),
    /// Files over HTTPS, while one address asks for a long file on many connections and reads nothing
    Https(https::Args),
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    let nbd = nbd::promises().chain(neighbour::promises());
    nbd.chain(https::promises())
}

/// The report, and whether it is to be printed as JSON.
pub(super) fn run(args: &Args) -> Result<(Report, bool), Error> {
    match &args.server {
        Server::Nbd(args) => Ok((nbd::run(args)?, args.common.json)),
        Server::Neighbour(args) => Ok((neighbour::run(args)?, args.common.json)),
        Server::Https(args) => Ok((https::run(args)?, args.common.json)),
    }
}
