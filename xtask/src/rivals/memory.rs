//! `rivals memory`: what an open volume keeps in memory, idle and with idle clients, for each engine.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use scrim_bench::{Better, Report, SeriesId, Study};

use super::image::{self, LUKS1, PASSPHRASE};
use super::options::{Common, Ours};
use super::programs::{CRYPTSETUP, machine};
use super::room::Room;
use super::scrim::{self, Contents, open_command};
use super::server::Server;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals memory`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Number of clients that connect
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
}

/// Size of the image, in bytes.
const IMAGE: u64 = 64 << 20;
/// Bytes of a request, and the number that each client has in flight once: all slots of a connection.
const REQUEST: u32 = 128 << 10;
const REQUESTS: u64 = 32;
/// A request's first four bytes.
const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Values of `NBD_CMD_READ` and `NBD_CMD_WRITE`.
const READ: u16 = 0;
const WRITE: u16 = 1;
/// Bytes of a reply without its data.
const SIMPLE_REPLY: u64 = 16;

/// An engine, and the name that its server has here.
const ENGINES: [(&str, &str); 3] = [
    ("plain", "memory_plain"),
    ("io_uring", "memory_io_uring"),
    ("threads", "memory_threads"),
];

/// Figures: the volume alone, each client that has connected, and each that has also sent requests.
const FOUND: [&str; 3] = ["idle", "client", "used_client"];

/// Name of each figure; none has a target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    ENGINES
        .iter()
        .flat_map(|(_, name)| FOUND.map(|what| (format!("{name}_{what}"), None)))
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let mut study = Study::new(machine(&[CRYPTSETUP], &[CRYPTSETUP])?, args.common.rounds);
    let room = Room::new()?;
    let image = room.path("image");
    let made = File::create(&image).and_then(|file| file.set_len(IMAGE));
    made.doing(|| format!("make {}", image.display()))?;
    let key_file = room.write("key", PASSPHRASE)?;
    image::luks_format(&room, &image, &key_file, &LUKS1.map(str::to_owned))?;

    for (engine, name) in ENGINES {
        let series = |study: &mut Study, what: &str, workload: &str| {
            let workload = format!("{workload}, --io-engine {engine}, resident memory");
            study.series(format!("{name}_{what}"), "KiB", Better::Lower, workload)
        };
        let clients = args.clients;
        let workloads = [
            "an open volume without clients".to_owned(),
            format!("a client that has connected, one of {clients}"),
            format!(
                "a client that has had {REQUESTS} reads of {} KiB under way, then as many writes, one of \
                 {clients}",
                REQUEST >> 10
            ),
        ];
        let found = [0, 1, 2].map(|at| series(&mut study, FOUND[at], &workloads[at]));
        for _ in 0..study.rounds() {
            let setting = Setting {
                room: &room,
                scrim: &scrim,
                image: &image,
                key_file: &key_file,
                engine,
                name,
                clients: args.clients,
            };
            if let Err(error) = setting.measure(&mut study, found) {
                if matches!(error, Error::Interrupted) {
                    return Err(error);
                }
                study.warn(format!("{engine}: {error}; it is left out"));
                break;
            }
        }
    }
    Ok(study.finish())
}

/// A server and its clients.
struct Setting<'a> {
    room: &'a Room,
    scrim: &'a Path,
    image: &'a Path,
    key_file: &'a Path,
    engine: &'a str,
    name: &'static str,
    clients: u32,
}

impl Setting<'_> {
    fn measure(&self, study: &mut Study, found: [SeriesId; 3]) -> Result<(), Error> {
        let socket = self.room.path("memory.sock");
        let contents = Contents::Luks(self.key_file);
        let mut command = open_command(self.room, self.scrim, &socket, self.image, &contents)?;
        command.args(["--io-engine", self.engine, self.name]);
        let server = Server::start(self.room, self.name, &socket, &mut command)?;
        let look = || {
            // Until threads of clients that left have gone.
            std::thread::sleep(Duration::from_millis(100));
            resident(&server).doing(|| format!("see what {} keeps", self.name))
        };
        let idle = look()?;
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            self.room.check()?;
            let client = connect(&socket);
            clients.push(client.doing(|| format!("connect to {}", self.name))?);
        }
        let connected = look()?;
        for client in &mut clients {
            self.room.check()?;
            work(client).doing(|| format!("read from and write to {}", self.name))?;
        }
        let used = look()?;
        let each = |now: f64| (now - idle) / f64::from(self.clients);
        for (series, sample) in found.into_iter().zip([idle, each(connected), each(used)]) {
            study.record(series, sample);
        }
        Ok(())
    }
}

/// Resident memory of the server, in KiB.
fn resident(server: &Server) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A client that may send requests.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.read_exact(&mut [0; 18])?;
    // No zeros, and NBD_OPT_GO for the export without a name.
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0")?;
    loop {
        let mut reply = [0; 20];
        stream.read_exact(&mut reply)?;
        let [.., k0, k1, k2, k3, l0, l1, l2, l3] = reply;
        let kind = u32::from_be_bytes([k0, k1, k2, k3]);
        let len = u32::from_be_bytes([l0, l1, l2, l3]);
        io::copy(&mut (&stream).take(len.into()), &mut io::sink())?;
        match kind {
            // NBD_REP_ACK
            1 => return Ok(stream),
            error if error >> 31 == 1 => return Err(io::ErrorKind::InvalidData.into()),
            _ => {}
        }
    }
}

/// Sends as many reads as a connection has slots for, and then as many writes.
fn work(client: &mut UnixStream) -> io::Result<()> {
    for (command, received) in [(READ, REQUEST), (WRITE, 0)] {
        let mut requests = Vec::new();
        for cookie in 0..REQUESTS {
            requests.extend(REQUEST_MAGIC.to_be_bytes());
            // Without flags.
            requests.extend(u32::from(command).to_be_bytes());
            requests.extend(cookie.to_be_bytes());
            requests.extend((cookie * u64::from(REQUEST)).to_be_bytes());
            requests.extend(REQUEST.to_be_bytes());
            if command == WRITE {
                requests.resize(requests.len() + REQUEST as usize, 0x5a);
            }
        }
        client.write_all(&requests)?;
        let replies = REQUESTS * (SIMPLE_REPLY + u64::from(received));
        if io::copy(&mut (&*client).take(replies), &mut io::sink())? < replies {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_looked_at_idle_and_with_clients() {
        let names: Vec<_> = promises().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 9);
        assert!(names.contains(&"memory_io_uring_client".to_owned()));
    }
}
