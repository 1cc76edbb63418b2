//! `rivals compressed`: texts that Scrim and nginx compress with gzip or brotli when they are requested.
//!
//! Scrim keeps a compressed text in memory, and nginx compresses each answer. So there are two loads: texts of which
//! each is requested once, and one text that is requested again and again. The client speaks plain HTTP, so that the
//! figures are those of compression; server and client have a processor each.

mod client;
mod coding;
mod texts;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use scrim_bench::{Better, Machine, Pinned, Report, SeriesId, Study, apart, turns};

use super::super::options::{Common, Ours, announce};
use super::super::room::Room;
use super::super::scrim;
use super::super::server::Process;
use super::contender::{NGINX, SCRIM, Software, answers, free_ports};
use super::nginx::Nginx;
use super::{Peers, contenders};
use crate::error::{Doing, Error};
use client::Client;
use coding::Coding;

/// Options of `cargo xtask rivals compressed`.
#[derive(clap::Args)]
pub(in crate::rivals) struct Args {
    #[command(flatten)]
    pub(in crate::rivals) common: Common,
    #[command(flatten)]
    ours: Ours,
    #[command(flatten)]
    peers: Peers,
    /// Time for which one text is requested again and again, in seconds
    #[arg(long, default_value_t = 0.5, value_parser = super::super::options::seconds)]
    seconds: f64,
}

/// Texts that are requested once in each round.
const TEXTS: usize = 64;

/// Debian's packages of nginx's module for brotli, and of the program that unpacks its answers.
const BROTLI_PACKAGES: &str = "libnginx-mod-http-brotli-filter brotli";

/// A server that is compared.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    coding: Coding,
    level: u32,
    /// Name of the Scrim that an nginx is compared with.
    ours: Option<&'static str>,
}

impl Server {
    const fn scrim(name: &'static str, coding: Coding) -> Self {
        Self {
            name,
            coding,
            level: coding.level(),
            ours: None,
        }
    }

    const fn nginx(name: &'static str, coding: Coding, level: u32, ours: &'static str) -> Self {
        Self {
            name,
            coding,
            level,
            ours: Some(ours),
        }
    }
}

const SCRIM_BR: &str = "scrim_br";

/// The servers. `nginx_level_1` has nginx's default level.
const SERVERS: [Server; 5] = [
    Server::scrim(SCRIM, Coding::Gzip),
    Server::nginx(NGINX, Coding::Gzip, Coding::Gzip.level(), SCRIM),
    Server::nginx("nginx_level_1", Coding::Gzip, 1, SCRIM),
    Server::scrim(SCRIM_BR, Coding::Brotli),
    Server::nginx("nginx_br", Coding::Brotli, Coding::Brotli.level(), SCRIM_BR),
];
const LOADS: [&str; 2] = ["once", "again"];

/// Figures of a load: the name, the unit, and which values are better.
const FIGURES: [(&str, &str, Better); 3] = [
    ("cpu", "CPU s/GB", Better::Lower),
    ("size", "bytes sent/1000", Better::Lower),
    ("rps", "requests/s", Better::Higher),
];

/// Each ratio with its target.
pub(in crate::rivals) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    let peers = SERVERS.into_iter().filter(|server| server.ours.is_some());
    peers.flat_map(|Server { name: peer, .. }| {
        LOADS.into_iter().flat_map(move |load| {
            FIGURES
                .into_iter()
                .map(move |(figure, ..)| (ratio_name(load, figure, peer), None))
        })
    })
}

fn ratio_name(load: &str, figure: &str, peer: &str) -> String {
    format!("compressed_{load}_{figure}_vs_{peer}")
}

/// An nginx, and the module that it needs for a coding.
struct Peer {
    nginx: Nginx,
    module: Option<PathBuf>,
}

/// A server that runs, and where its samples go.
struct Side {
    server: Server,
    process: Process,
    client: Client,
    series: [[SeriesId; 3]; 2],
}

pub(in crate::rivals) fn run(args: &Args) -> Result<Report, Error> {
    let program = scrim::binary(args.ours.scrim.as_deref())?;
    let mut machine = Machine::describe(&[]);
    let (found, warning) = contenders(&args.peers, &program, &mut machine)?;
    let software = found.into_iter().filter_map(|one| match one.software {
        Software::Nginx(nginx) => Some(nginx),
        _ => None,
    });
    // The newest is the first.
    let found: Vec<Nginx> = software.collect();
    let mut study = Study::new(machine, args.common.rounds);
    if let Some(warning) = warning {
        study.warn(warning);
    }
    let room = Room::new()?;
    let root = texts::make(&room, TEXTS * args.common.rounds)?;
    let (processor, own) = apart();
    if processor == own {
        study.warn("one processor: server and client share it");
    }
    let brotli = with_brotli(&found, &mut study);
    let gzip = found.into_iter().next().map(|nginx| Peer {
        nginx,
        module: None,
    });
    let mut sides = Vec::new();
    for server in SERVERS {
        let peer = match server.coding {
            Coding::Gzip => gzip.as_ref(),
            Coding::Brotli => brotli.as_ref(),
        };
        let Some(peer) = peer else { continue };
        let peer = server.ours.map(|_| peer);
        let _pinned =
            Pinned::on(processor).doing(|| format!("keep servers on processor {processor}"))?;
        let (process, client) = start(&room, server, &root, &program, peer)?;
        let series = series(&mut study, server.name, args.seconds);
        sides.push(Side {
            server,
            process,
            client,
            series,
        });
    }
    let _pinned = Pinned::on(own).doing(|| format!("stay on processor {own}"))?;
    for side in &mut sides {
        let body = side.client.get(&texts::name(0))?.body;
        texts::check(&root, 0, side.server.coding, &body)?;
    }
    measure(&room, &mut study, &mut sides, args.seconds)?;
    compare(&mut study, &sides);
    Ok(study.finish())
}

/// The newest nginx that has a module for brotli. Without one, or without the program that unpacks answers, the study
/// has a warning.
fn with_brotli(found: &[Nginx], study: &mut Study) -> Option<Peer> {
    let unpacker = Command::new(Coding::Brotli.program())
        .arg("--version")
        .output();
    let mut peers = found.iter().filter_map(|nginx| {
        let module = Some(nginx.brotli_module()?);
        let nginx = nginx.clone();
        Some(Peer { nginx, module })
    });
    let peer = peers.next().filter(|_| unpacker.is_ok());
    match &peer {
        None => study.warn(format!(
            "brotli is left out: it needs the Debian packages {BROTLI_PACKAGES}"
        )),
        Some(peer) => {
            let version = peer.nginx.version().unwrap_or_default();
            study.warn(format!("brotli is that of {version}"));
        }
    }
    peer
}

/// Starts a server, Scrim unless there is a peer, and connects to it.
fn start(
    room: &Room,
    server: Server,
    root: &Path,
    program: &Path,
    peer: Option<&Peer>,
) -> Result<(Process, Client), Error> {
    let [https, http] = free_ports()?;
    let Server {
        name,
        coding,
        level,
        ..
    } = server;
    let mut command = match peer {
        Some(Peer { nginx, module }) => {
            let directives = coding.directives(level);
            nginx.compress(room, name, root, module.as_deref(), &directives, http)?
        }
        None => {
            // The one connection occupies one thread. How many files may be compressed at a time follows from the number of
            // threads, and an address may not have the last of these places.
            let text = format!(
                "listen = [\"127.0.0.1:{https}\"]\nplain-http = [\"127.0.0.1:{http}\"]\nthreads = 3\n\
                 [[site]]\nroot = {:?}\ncompress = [\"{}\"]\n",
                root.display().to_string(),
                coding.token()
            );
            let file = room.write(&format!("{name}.toml"), &text)?;
            let mut command = room.command(program);
            command.args(["serve", "--config"]).arg(file);
            command
        }
    };
    let process = Process::start(room, name, &mut command, || answers(http))?;
    Ok((process, Client::open(http, coding)?))
}

fn series(study: &mut Study, name: &str, seconds: f64) -> [[SeriesId; 3]; 2] {
    let workloads = [
        format!("HTTP, {TEXTS} texts of {} bytes, each once", texts::BYTES),
        format!(
            "HTTP, a text of {} bytes, again and again, {seconds} s",
            texts::BYTES
        ),
    ];
    let mut index = 0;
    LOADS.map(|load| {
        let workload = &workloads[index];
        index += 1;
        FIGURES.map(|(figure, unit, better)| {
            let series = format!("compressed_{load}_{figure}_{name}");
            study.series(series, unit, better, workload.clone())
        })
    })
}

fn measure(room: &Room, study: &mut Study, sides: &mut [Side], seconds: f64) -> Result<(), Error> {
    let time = Duration::from_secs_f64(seconds);
    for turn in turns(study.rounds(), LOADS.len(), sides.len()) {
        announce(turn, study.rounds());
        room.check()?;
        let side = &mut sides[turn.contender];
        let first = turn.round * TEXTS;
        let before = side.process.cpu_time()?;
        let start = Instant::now();
        let (mut answers, mut sent) = (0_u32, 0);
        while match turn.load {
            0 => (answers as usize) < TEXTS,
            _ => start.elapsed() < time,
        } {
            let number = if turn.load == 0 {
                first + answers as usize
            } else {
                0
            };
            sent += side.client.get(&texts::name(number))?.sent;
            answers += 1;
        }
        let wall = start.elapsed().as_secs_f64();
        let used = side
            .process
            .cpu_time()?
            .saturating_sub(before)
            .as_secs_f64();
        let content = f64::from(answers) * texts::BYTES as f64;
        let samples = [
            used / (content / 1e9),
            sent as f64 * 1000.0 / content,
            f64::from(answers) / wall,
        ];
        for (id, sample) in side.series[turn.load].into_iter().zip(samples) {
            study.record(id, sample);
        }
    }
    Ok(())
}

fn compare(study: &mut Study, sides: &[Side]) {
    for peer in sides {
        let ours = sides
            .iter()
            .find(|side| Some(side.server.name) == peer.server.ours);
        let Some(ours) = ours else { continue };
        for (load, name) in LOADS.into_iter().enumerate() {
            for (figure, (figure_name, ..)) in FIGURES.into_iter().enumerate() {
                let name = ratio_name(name, figure_name, peer.server.name);
                study.ratio(
                    &name,
                    ours.series[load][figure],
                    peer.series[load][figure],
                    None,
                );
            }
        }
    }
}
