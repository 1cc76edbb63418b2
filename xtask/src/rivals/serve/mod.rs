//! `rivals serve`: files over HTTPS and HTTP by Scrim and by nginx, the newest and the system's, from files
//! in memory; and, where it is asked for, by Scrim out of an encrypted volume.
//!
//! Each server has one processor, and this process, which is the client, another. All servers stay up, and
//! in each round each of them has each load in turn.

pub(super) mod compressed;
mod contender;
mod figure;
mod image;
mod load;
mod nginx;
mod running;
mod site;
mod volume;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use scrim_bench::{Machine, Pinned, Report, Study, apart, turns};

use super::options::{Common, Ours, announce};
use super::room::Room;
use super::scrim;
use crate::error::{Doing, Error};
use contender::{Contender, DEBIAN_NGINX, NGINX, SCRIM, Software};
use figure::{Figure, PEERS, figure_name, target};
use image::Image;
use load::{Load, Measured, allow_open_files};
use nginx::{Nginx, PACKAGE};
use running::{Running, series};
use site::{SIZES, Site};

/// Options of `cargo xtask rivals serve`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Measure only these loads
    #[arg(long, value_delimiter = ',', value_name = "LOAD", value_parser = load_name)]
    loads: Vec<String>,
    /// Time for which each load runs, in seconds
    #[arg(long, default_value_t = 1.0, value_parser = super::options::seconds)]
    seconds: f64,
    #[command(flatten)]
    peers: Peers,
    /// Also the same files out of an encrypted volume; without --loads only the loads that this is about
    #[arg(long)]
    volume: bool,
}

/// The nginx that is the peer.
#[derive(clap::Args)]
struct Peers {
    /// Where a newer Debian's nginx and its libraries are unpacked; by default they are fetched, once
    #[arg(long, value_name = "FOLDER")]
    newer_nginx: Option<PathBuf>,
    /// Compare with this system's nginx alone, and fetch nothing
    #[arg(long, conflicts_with = "newer_nginx")]
    no_newer_nginx: bool,
}

/// Each server has each load for this long before the first round.
const WARM_UP: Duration = Duration::from_millis(300);

/// Part of its processor that a server uses at least if it is the server that limits the rate.
const BUSY: f64 = 0.9;

/// The peer as `--list` shows it: what was found, or what is missing.
pub(super) fn found() -> (&'static str, String) {
    let version = Nginx::of_this_system().and_then(|nginx| nginx.version());
    let missing = || format!("missing; it is in the Debian package {PACKAGE}");
    (NGINX, version.unwrap_or_else(missing))
}

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    figure::promises().chain(volume::promises())
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let mut machine = Machine::describe(&[]);
    let (mut contenders, warning) = contenders(&args.peers, &scrim, &mut machine)?;
    let room = Room::new()?;
    allow_open_files()?;
    let mut study = Study::new(machine, args.common.rounds);
    if let Some(warning) = warning {
        study.warn(warning);
    }
    if !room.in_memory {
        study.warn("no tmpfs: the files are on a disk");
    }
    let site = Site::make(&room)?;
    if args.volume {
        let image = Rc::new(Image::make(&room, &site, &scrim)?);
        for (name, data_path) in [(volume::INLINE, "inline"), (volume::QUEUED, "queued")] {
            let image = Rc::clone(&image);
            let software = Software::Volume(scrim.clone(), image, data_path);
            contenders.push(Contender { name, software });
        }
    }
    let (server, client) = apart();
    if server == client {
        study.warn("one processor: server and client share it");
    }
    let mut running = Vec::new();
    for contender in contenders {
        room.check()?;
        eprintln!("starting {}", contender.name);
        let started = contender.start(&room, &site, server).and_then(|served| {
            served.check(&site)?;
            Ok(served)
        });
        match started {
            Ok(served) => running.push(Running::new(contender.name, served)),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => study.warn(format!(
                "{}: {error}; its ratios are left out",
                contender.name
            )),
        }
    }
    let _pinned = Pinned::on(client).doing(|| format!("stay on processor {client}"))?;
    let mut loads = args.loads();
    halve(&room, &site, &mut study, &mut running, &mut loads)?;
    measure(&room, &site, &mut study, &mut running, &loads, args)?;
    say_who_waited(&mut study, &running, &loads);
    compare(&mut study, &running, &loads);
    volume::compare(&mut study, &running, &loads);
    Ok(study.finish())
}

impl Args {
    /// Loads that were asked for.
    fn loads(&self) -> Vec<Load> {
        let is_wanted = |load: &Load| match (self.loads.is_empty(), self.volume) {
            (true, false) => true,
            (true, true) => volume::LOADS.contains(&load.name().as_str()),
            (false, _) => self.loads.contains(&load.name()),
        };
        Load::all().into_iter().filter(is_wanted).collect()
    }
}

/// Scrim and each nginx that was found, and what is missing.
fn contenders(
    peers: &Peers,
    scrim: &Path,
    machine: &mut Machine,
) -> Result<(Vec<Contender>, Option<String>), Error> {
    let mut contenders = vec![Contender {
        name: SCRIM,
        software: Software::Scrim(scrim.to_owned()),
    }];
    let newer = match peers.no_newer_nginx {
        true => Err("as was asked for".to_owned()),
        false => Nginx::newer(peers.newer_nginx.as_deref())
            .and_then(|nginx| match nginx.version() {
                Some(version) => Ok((nginx, version)),
                None => Err(Error::program(NGINX, "the newer one does not run here")),
            })
            .map_err(|error| error.to_string()),
    };
    let system = Nginx::of_this_system();
    let system = system.and_then(|nginx| Some((nginx.version()?, nginx)));
    let mut nginx = |name, nginx, version| {
        machine.versions.push((name, version));
        let software = Software::Nginx(nginx);
        contenders.push(Contender { name, software });
    };
    let warning = match (newer, system) {
        (Ok((newer, version)), system) => {
            nginx(NGINX, newer, version);
            match system {
                Some((version, system)) => {
                    nginx(DEBIAN_NGINX, system, version);
                    None
                }
                None => Some(format!(
                    "a peer is missing: nginx (Debian package {PACKAGE}); what is compared with it is left out"
                )),
            }
        }
        (Err(why), Some((version, system))) => {
            let warning = format!(
                "no newer nginx ({why}): this system's, {version}, is the newest at hand, and easier to be \
                 ahead of"
            );
            nginx(NGINX, system, version);
            Some(warning)
        }
        (Err(_), None) => {
            return Err(Error::Missing {
                program: NGINX,
                package: PACKAGE,
            });
        }
    };
    Ok((contenders, warning))
}

/// Warms everything up, and finds half of the slowest server's rate.
fn halve(
    room: &Room,
    site: &Site,
    study: &mut Study,
    running: &mut [Running],
    loads: &mut [Load],
) -> Result<(), Error> {
    eprintln!("warming up");
    for load in loads.iter().filter(|load| matches!(load, Load::Full(..))) {
        for side in &mut *running {
            side.take_turn(room, site, study, *load, WARM_UP)?;
        }
    }
    for load in loads {
        if let Load::Half(protocol, rate) = load {
            let full = Load::Full(*protocol, SIZES[0]);
            let mut slowest = f64::INFINITY;
            for side in &mut *running {
                let measured = side.take_turn(room, site, study, full, WARM_UP * 3)?;
                if let Some(Measured::Full { rps, .. }) = measured {
                    slowest = slowest.min(rps);
                }
            }
            *rate = slowest.min(1e6) / 2.0;
        }
    }
    Ok(())
}

fn measure(
    room: &Room,
    site: &Site,
    study: &mut Study,
    running: &mut [Running],
    loads: &[Load],
    args: &Args,
) -> Result<(), Error> {
    for side in &mut *running {
        side.series = loads
            .iter()
            .map(|&load| {
                let figures = Figure::of(load).iter().map(|&figure| {
                    let name = format!("serve_{}_{}", figure_name(load, figure), side.name);
                    let (unit, better) = figure.unit();
                    let workload = load.workload(args.seconds);
                    (figure, study.series(name, unit, better, workload))
                });
                figures.collect()
            })
            .collect();
    }
    let time = Duration::from_secs_f64(args.seconds);
    for turn in turns(study.rounds(), loads.len(), running.len()) {
        announce(turn, study.rounds());
        let side = &mut running[turn.contender];
        let measured = side.take_turn(room, site, study, loads[turn.load], time)?;
        if let Some(measured) = measured {
            for &(figure, id) in &side.series[turn.load] {
                if let Some(sample) = measured.of(figure) {
                    study.record(id, sample);
                }
            }
        }
    }
    Ok(())
}

/// Warns where a server had time left: then the client, or something else that ran, limited its rate.
fn say_who_waited(study: &mut Study, running: &[Running], loads: &[Load]) {
    let mut waited = Vec::new();
    for side in running {
        for (load, series) in loads.iter().zip(&side.series) {
            let median = |figure| {
                let found = series.iter().find(|(one, _)| *one == figure);
                found.and_then(|&(_, id)| study.median(id))
            };
            if let (Some(cpu), Some(rate)) = (median(Figure::Cpu), median(Figure::Rate)) {
                let busy = cpu * rate / 1e3;
                if busy < BUSY {
                    waited.push(format!(
                        "{} {} {:.0} %",
                        side.name,
                        load.name(),
                        busy * 100.0
                    ));
                }
            }
        }
    }
    if !waited.is_empty() {
        study.warn(format!(
            "servers waited: so much of their processor they used where the client or others held them up, \
             so that requests a second say less than CPU seconds: {}",
            waited.join(", ")
        ));
    }
}

fn compare(study: &mut Study, running: &[Running], loads: &[Load]) {
    for (end, peer) in PEERS {
        for (index, &load) in loads.iter().enumerate() {
            for &figure in Figure::compared(load) {
                let find = |name| series(running, name, load, index, figure);
                if let (Some(ours), Some(peer)) = (find(SCRIM), find(peer)) {
                    let name = format!("{}_{end}", figure_name(load, figure));
                    study.ratio(&name, ours, peer, target(&name));
                }
            }
        }
    }
}

fn load_name(text: &str) -> Result<String, String> {
    let names: Vec<String> = Load::all().into_iter().map(Load::name).collect();
    match names.iter().any(|name| name == text) {
        true => Ok(text.to_owned()),
        false => Err(format!("there are {}", names.join(", "))),
    }
}
