//! One client's rate on a volume served over TCP, while a crowd from another address connects to the same server.
//!
//! The client connects anew for each measurement, so it also has to get in. All of it is on one machine: what the crowd
//! itself takes of the processors is taken from the client too, and counts against Scrim.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use scrim_bench::{Better, Report, SeriesId, Study, turns};

use super::super::contender::Target;
use super::super::fio::{Load, load};
use super::super::image::{self, LUKS1, PASSPHRASE};
use super::super::options::{Common, Ours, announce, seconds};
use super::super::programs::{CRYPTSETUP, FIO, machine};
use super::super::room::Room;
use super::super::scrim;
use super::super::server::Process;
use super::target::KEPT;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals fairness nbd`.
#[derive(clap::Args)]
pub(in super::super) struct Args {
    #[command(flatten)]
    pub(in super::super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Time for which each load runs, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Number of connections that send nothing
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=500))]
    silent: u16,
    /// Number of connections that open and close in a second
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connects: u32,
}

const LOADS: [Load; 2] = [
    load("randread4k_qd32", "randread", "4k", 32),
    load("write1m_qd4", "write", "1m", 4),
];

/// The other clients beside the one that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Crowd {
    Nobody,
    Silent,
    Connecting,
}

const CROWDS: [Crowd; 3] = [Crowd::Nobody, Crowd::Silent, Crowd::Connecting];

impl Crowd {
    /// As in the names of results.
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "alone",
            Self::Silent => "under_silent_clients",
            Self::Connecting => "under_connecting_clients",
        }
    }
}

/// Size of the payload, in bytes.
const PAYLOAD: u64 = 256 << 20;
/// Bytes of the image before the payload, for the header.
const HEADER: u64 = 4 << 20;
/// Address from which the crowd connects; the measured client has another one.
const CROWD_FROM: [u8; 4] = [127, 0, 0, 2];

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    LOADS.iter().flat_map(|load| {
        let crowds = CROWDS.into_iter().filter(|crowd| *crowd != Crowd::Nobody);
        crowds.map(|crowd| (series_name(load, crowd), Some(KEPT)))
    })
}

fn series_name(load: &Load, crowd: Crowd) -> String {
    format!("fairness_nbd_{}_{}", load.name, crowd.name())
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let machine = machine(&[CRYPTSETUP, FIO], &[CRYPTSETUP, FIO])?;
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the image is on a disk, and the disk is measured too");
    }
    room.reserve(PAYLOAD + HEADER)?;
    let key_file = room.write("key", PASSPHRASE)?;
    let image = image::noise(&room, "volume.img", PAYLOAD + HEADER)?;
    image::luks_format(&room, &image, &key_file, &LUKS1.map(str::to_owned))?;
    let address = free_port().doing(|| "find a port".to_owned())?;
    let mut command = room.command(&scrim);
    command.args(["open", "--foreground", "--insecure-plaintext", "--nbd"]);
    command.arg(format!("tcp:{address}"));
    command.arg("--key-file").arg(&key_file);
    command.arg(&image).arg("fairness");
    let greets = || greeted(TcpStream::connect(address)).is_ok();
    let server = Process::start(&room, "scrim", &mut command, greets)?;
    let series: Vec<[SeriesId; CROWDS.len()]> = LOADS
        .iter()
        .map(|load| CROWDS.map(|crowd| add_series(&mut study, load, crowd, args)))
        .collect();
    let client = Client {
        room: &room,
        target: Target::Uri(format!("nbd://{address}")),
        address,
        args,
    };
    let time = Duration::from_secs_f64(args.seconds);
    for turn in turns(1, LOADS.len(), CROWDS.len()) {
        let warm_up = Duration::from_millis(300);
        client.rate(&LOADS[turn.load], CROWDS[turn.contender], warm_up)?;
    }
    for turn in turns(study.rounds(), LOADS.len(), CROWDS.len()) {
        announce(turn, study.rounds());
        let (load, crowd) = (&LOADS[turn.load], CROWDS[turn.contender]);
        let rate = client.rate(load, crowd, time)?;
        study.record(series[turn.load][turn.contender], rate);
    }
    drop(server);
    for (load, [alone, others @ ..]) in LOADS.iter().zip(&series) {
        for (crowd, beside) in CROWDS[1..].iter().zip(others) {
            study.ratio(&series_name(load, *crowd), *beside, *alone, Some(KEPT));
        }
    }
    Ok(study.finish())
}

fn add_series(study: &mut Study, load: &Load, crowd: Crowd, args: &Args) -> SeriesId {
    let others = match crowd {
        Crowd::Nobody => "nobody else".to_owned(),
        Crowd::Silent => format!(
            "{} connections of one address that say nothing",
            args.silent
        ),
        Crowd::Connecting => format!(
            "{} connections of one address a second that come and go",
            args.connects
        ),
    };
    let workload = format!(
        "{}, {} MiB, TCP on loopback, {} s, {others}",
        load.workload(),
        PAYLOAD >> 20,
        args.seconds
    );
    let name = format!("{}_rate", series_name(load, crowd));
    study.series(name, "MB/s", Better::Higher, workload)
}

/// The client that is measured.
struct Client<'a> {
    room: &'a Room,
    target: Target,
    address: SocketAddr,
    args: &'a Args,
}

impl Client<'_> {
    /// MB/s while the crowd is there.
    fn rate(&self, load: &Load, crowd: Crowd, time: Duration) -> Result<f64, Error> {
        self.room.check()?;
        let measure = || load.run(self.room, &self.target, PAYLOAD, time, None);
        let moved = match crowd {
            Crowd::Nobody => measure()?,
            Crowd::Silent => {
                let silent = (0..self.args.silent).map(|_| connect_from_crowd(self.address));
                let silent = silent.collect::<io::Result<Vec<_>>>();
                let _silent = silent.doing(|| "connect many times".to_owned())?;
                measure()?
            }
            Crowd::Connecting => self.beside_a_flood(measure)?,
        };
        Ok(moved.bytes_per_second / 1e6)
    }

    fn beside_a_flood<T>(&self, measure: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let ended = AtomicBool::new(false);
        let made = AtomicU64::new(0);
        let pause = Duration::from_secs(1) / self.args.connects;
        let result = thread::scope(|scope| {
            let flood = scope.spawn(|| -> io::Result<()> {
                let mut next = Instant::now();
                while !ended.load(Ordering::Relaxed) {
                    drop(connect_from_crowd(self.address)?);
                    made.fetch_add(1, Ordering::Relaxed);
                    next += pause;
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                Ok(())
            });
            let measured = measure();
            ended.store(true, Ordering::Relaxed);
            let flooded = flood.join().unwrap_or(Ok(()));
            flooded.doing(|| "connect again and again".to_owned())?;
            measured
        })?;
        if made.load(Ordering::Relaxed) == 0 {
            return Err(Error::program("the flood", "did not connect at all"));
        }
        Ok(result)
    }
}

/// A connection that says nothing, and is closed by a reset: it leaves no port waiting.
fn connect_from_crowd(server: SocketAddr) -> io::Result<OwnedFd> {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let at_once = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, at_once)?;
    bind(&stream, &SocketAddr::from((CROWD_FROM, 0)))?;
    connect(&stream, &server)?;
    Ok(stream)
}

/// Checks whether an NBD server says its first word.
fn greeted(stream: io::Result<TcpStream>) -> io::Result<()> {
    let mut stream = stream?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.read_exact(&mut [0; 18])
}

/// An address of this machine on which nobody listens.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crowd_has_its_ratio_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 4);
        let name = "fairness_nbd_randread4k_qd32_under_silent_clients";
        assert!(promises.contains(&(name.to_owned(), Some(KEPT))));
    }
}
