//! `rivals nbds`: long reads and writes of one client under TLS, of an encrypted volume of Scrim and of a plain file
//! of nbdkit, which has its TLS from GnuTLS.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use scrim_bench::{Better, Peer, Report, SeriesId, Study, process, turns};

use super::image::{self, LUKS1, LUKS1_ROOM, Originals};
use super::options::{Common, Ours, announce};
use super::programs::{CRYPTSETUP, NBDCOPY, NBDKIT, machine};
use super::room::Room;
use super::scrim::{self, Contents, open_command};
use super::server::Server;
use crate::error::{Doing, Error};

/// Options of `cargo xtask rivals nbds`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    ours: Ours,
    /// Size of the data
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=65536))]
    size_mib: u64,
}

const OPENSSL: Peer = Peer {
    program: "openssl",
    version_option: "version",
    package: "openssl",
};

/// Leaves AES-128-GCM in TLS 1.3, which Scrim prefers; nbdkit would take AES-256-GCM.
const ONE_SUITE: &str = "[global]\noverride-mode = blocklist\n\n[overrides]\ntls-disabled-cipher = aes-256-gcm\n\
    tls-disabled-cipher = chacha20-poly1305\ntls-disabled-cipher = aes-128-ccm\ntls-disabled-cipher = aes-256-ccm\n";

/// A direction in which nbdcopy moves all data, by four requests of 1 MiB at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Read,
    Write,
}

impl Load {
    const ALL: [Self; 2] = [Self::Read, Self::Write];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read1m",
            Self::Write => "write1m",
        }
    }

    /// Least rate of Scrim in parts of that of nbdkit.
    fn target(self) -> Option<f64> {
        (self == Self::Read).then_some(1.5)
    }
}

/// A server, by the image that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    ScrimLuks,
    NbdkitPlain,
}

impl Side {
    const ALL: [Self; 2] = [Self::ScrimLuks, Self::NbdkitPlain];

    fn name(self) -> &'static str {
        match self {
            Self::ScrimLuks => "scrim_luks",
            Self::NbdkitPlain => "nbdkit_plain",
        }
    }
}

/// Ends of the ratios' names: of the rates, and of the processor time of the servers.
const ENDS: [&str; 2] = ["vs_nbdkit_tls", "cpu_vs_nbdkit_tls"];

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    Load::ALL.into_iter().flat_map(|load| {
        ENDS.map(|end| {
            let target = load.target().filter(|_| end == ENDS[0]);
            (format!("nbds_{}_{end}", load.name()), target)
        })
    })
}

/// Series of a load on a server.
#[derive(Clone, Copy)]
struct Series {
    rate: SeriesId,
    cpu: SeriesId,
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let needed = [CRYPTSETUP, NBDKIT, NBDCOPY, OPENSSL];
    let machine = machine(&needed, &needed)?;
    let mut study = Study::new(machine, args.common.rounds);
    let room = Room::new()?;
    if !room.in_memory {
        study.warn("no tmpfs: the images are on a disk, and the disk is measured too");
    }
    let stage = Stage::set(&room, scrim, args.size_mib << 20)?;
    let servers = [
        stage.start(Side::ScrimLuks)?,
        stage.start(Side::NbdkitPlain)?,
    ];
    let series = Load::ALL.map(|load| Side::ALL.map(|side| stage.series(&mut study, load, side)));
    eprintln!("warming up");
    for turn in turns(1, Load::ALL.len(), Side::ALL.len()) {
        stage.copy(Load::ALL[turn.load], &servers[turn.contender])?;
    }
    for turn in turns(study.rounds(), Load::ALL.len(), Side::ALL.len()) {
        announce(turn, study.rounds());
        room.check()?;
        let [rate, cpu] = stage.copy(Load::ALL[turn.load], &servers[turn.contender])?;
        let series = series[turn.load][turn.contender];
        study.record(series.rate, rate);
        study.record(series.cpu, cpu);
    }
    for ((name, target), at) in promises().zip(0..) {
        let [ours, peer] = series[at / ENDS.len()];
        let (ours, peer) = match at % ENDS.len() {
            0 => (ours.rate, peer.rate),
            _ => (ours.cpu, peer.cpu),
        };
        study.ratio(&name, ours, peer, target);
    }
    Ok(study.finish())
}

/// Images, certificates, and programs.
struct Stage<'a> {
    room: &'a Room,
    scrim: PathBuf,
    key_file: PathBuf,
    luks: PathBuf,
    plain: PathBuf,
    /// Data for nbdcopy to write.
    source: PathBuf,
    /// Settings of GnuTLS by which nbdcopy asks both servers for the same cipher suite.
    priorities: PathBuf,
    /// Directory of the certificates of both sides.
    certificates: PathBuf,
    size: u64,
}

impl<'a> Stage<'a> {
    fn set(room: &'a Room, scrim: PathBuf, size: u64) -> Result<Self, Error> {
        room.reserve((size + LUKS1_ROOM) * 3)?;
        let Originals {
            plain,
            luks,
            key_file,
        } = image::originals(room, size, LUKS1_ROOM, &LUKS1)?;
        Ok(Self {
            room,
            scrim,
            key_file,
            luks,
            source: image::copy(room, &plain, "source")?,
            plain,
            priorities: room.write("gnutls", ONE_SUITE)?,
            certificates: certificates(room)?,
            size,
        })
    }

    fn series(&self, study: &mut Study, load: Load, side: Side) -> Series {
        let name = format!("nbds_{}_{}", load.name(), side.name());
        let workload = format!(
            "nbdcopy, one connection with 4 requests of 1 MiB, {} MiB, TLS 1.3 with AES-128-GCM on a Unix socket",
            self.size >> 20
        );
        Series {
            rate: study.series(name.clone(), "MB/s", Better::Higher, &workload),
            cpu: study.series(format!("{name}_cpu"), "CPU s/GB", Better::Lower, workload),
        }
    }

    fn start(&self, side: Side) -> Result<Server, Error> {
        let name = side.name();
        let socket = self.room.path(&format!("{name}.sock"));
        let mut command = match side {
            Side::ScrimLuks => self.scrim(&socket)?,
            Side::NbdkitPlain => self.nbdkit(&socket),
        };
        Server::start(self.room, name, &socket, &mut command)
    }

    fn scrim(&self, socket: &Path) -> Result<Command, Error> {
        let contents = Contents::Luks(&self.key_file);
        let mut command = open_command(self.room, &self.scrim, socket, &self.luks, &contents)?;
        command.arg("--tls-cert").arg(&self.certificates);
        command.arg(Side::ScrimLuks.name());
        Ok(command)
    }

    fn nbdkit(&self, socket: &Path) -> Command {
        let mut command = self.room.command(NBDKIT.program);
        command.args(["--foreground", "--exit-with-parent", "--tls=require"]);
        command.args(["--tls-verify-peer", "--unix"]).arg(socket);
        let certificates = self.certificates.display();
        command.arg(format!("--tls-certificates={certificates}"));
        command.arg("file").arg(&self.plain);
        command
    }

    /// Moves all data once: MB/s, and the server's processor seconds per GB.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    fn copy(&self, load: Load, server: &Server) -> Result<[f64; 2], Error> {
        let uri = format!(
            "nbds+unix:///?socket={}&tls-certificates={}",
            server.socket().display(),
            self.certificates.display()
        );
        let mut command = self.room.command(NBDCOPY.program);
        command.args(["--connections=1", "--requests=4", "--request-size=1048576"]);
        command.env("GNUTLS_SYSTEM_PRIORITY_FILE", &self.priorities);
        match load {
            Load::Read => command.arg(uri).arg("null:"),
            Load::Write => command.arg(&self.source).arg(uri),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let before = server.cpu_time()?;
        let ran = process::run(&mut command).doing(|| "run nbdcopy".to_owned())?;
        if !ran.status.success() {
            return Err(Error::program(NBDCOPY.program, "cannot copy under TLS"));
        }
        let used: Duration = server.cpu_time()?.saturating_sub(before);
        let gigabytes = self.size as f64 / 1e9;
        let rate = gigabytes * 1e3 / ran.wall.as_secs_f64();
        Ok([rate, used.as_secs_f64() / gigabytes])
    }
}

/// Makes an authority and certificates of a server and a client, as docs/manual/network.md does. Returns their
/// directory.
fn certificates(room: &Room) -> Result<PathBuf, Error> {
    let folder = room.path("tls");
    std::fs::create_dir(&folder).doing(|| format!("create {}", folder.display()))?;
    let make = |name: &str, options: &str| {
        let mut command = room.command(OPENSSL.program);
        let words = "req -x509 -newkey ed25519 -noenc -days 2 -subj /CN=localhost";
        command.args(words.split(' ')).args(options.split(' '));
        command.arg("-keyout").arg(format!("{name}-key.pem"));
        command.arg("-out").arg(format!("{name}-cert.pem"));
        let output = command.current_dir(&folder).output();
        let output = output.doing(|| "run openssl".to_owned())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::program(
                OPENSSL.program,
                String::from_utf8_lossy(&output.stderr),
            )),
        }
    };
    make("ca", "-batch")?;
    for name in ["server", "client"] {
        make(
            name,
            "-CA ca-cert.pem -CAkey ca-key.pem -addext subjectAltName=DNS:localhost \
             -addext basicConstraints=CA:FALSE",
        )?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 4);
        let read = ("nbds_read1m_vs_nbdkit_tls".to_owned(), Some(1.5));
        assert_eq!(promises[0], read);
        assert!(promises[1..].iter().all(|(_, target)| target.is_none()));
    }
}
