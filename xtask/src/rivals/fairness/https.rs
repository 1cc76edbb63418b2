//! Downloads from one address beside connections from another one that ask for a long file and read nothing.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use scrim_bench::web::{Identity, SlowCrowd, Trust, Url};
use scrim_bench::{Better, Peer, Report, Study, turns};

use super::super::options::{Common, Ours, announce};
use super::super::programs::machine;
use super::super::room::Room;
use super::super::scrim;
use super::super::server::Process;
use super::target::KEPT;
use crate::error::{Doing, Error};

const CURL: Peer = Peer {
    program: "curl",
    version_option: "--version",
    package: "curl",
};

/// Options of `cargo xtask rivals fairness https`.
#[derive(clap::Args)]
pub(in super::super) struct Args {
    #[command(flatten)]
    pub(in super::super) common: Common,
    #[command(flatten)]
    ours: Ours,
}

/// Connections of the greedy client: fewer than one address may have.
const GREEDY: usize = 900;
/// Bytes of the file that both ask for.
const LENGTH: u64 = 100_000_000;
/// Number of downloads of the file for one sample.
const DOWNLOADS: usize = 8;
/// Where the other client comes from; the greedy one is at 127.0.0.1.
const OTHER: &str = "127.0.0.2";
/// Time in which the kernel gets rid of connections that were closed.
const REST: Duration = Duration::from_millis(500);

/// Versions of HTTP: as in names, and curl's option.
const VERSIONS: [(&str, &str); 2] = [("http1", "--http1.1"), ("http2", "--http2")];

fn ratio(version: &str) -> String {
    format!("{version}_download_rate_under_greedy_client")
}

pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    VERSIONS
        .map(|(version, _)| (ratio(version), Some(KEPT)))
        .into_iter()
}

/// A server, and what its clients need.
struct Setting<'a> {
    room: &'a Room,
    url: Url,
    trust: Trust,
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let scrim = scrim::binary(args.ours.scrim.as_deref())?;
    let mut study = Study::new(machine(&[CURL], &[CURL])?, args.common.rounds);
    let room = Room::new()?;
    allow_open_files()?;
    let (setting, _server) = serve(&room, &scrim)?;
    let series = VERSIONS.map(|(version, _)| {
        let words = |beside: &str| {
            format!(
                "{DOWNLOADS} downloads of {LENGTH} bytes over TLS by curl from {OTHER}, one after the other, \
                 {beside}"
            )
        };
        let greedy =
            format!("beside {GREEDY} connections from 127.0.0.1 that ask for it and read nothing");
        [("beside_greedy", greedy), ("alone", "alone".to_owned())].map(|(end, beside)| {
            let name = format!("{version}_download_{end}");
            study.series(name, "MB/s", Better::Higher, words(&beside))
        })
    });
    for turn in turns(study.rounds(), VERSIONS.len(), 2) {
        announce(turn, study.rounds());
        room.check()?;
        let is_alone = turn.contender == 1;
        let greedy = match is_alone {
            true => None,
            false => Some(SlowCrowd::gather(
                &setting.url,
                Some(&setting.trust),
                GREEDY,
                1,
            )?),
        };
        let rate = setting.download(VERSIONS[turn.load].1)?;
        study.record(series[turn.load][turn.contender], rate);
        if greedy.is_some() {
            drop(greedy);
            std::thread::sleep(REST);
        }
    }
    for ((version, _), [beside, alone]) in VERSIONS.into_iter().zip(series) {
        study.ratio(&ratio(version), beside, alone, Some(KEPT));
    }
    Ok(study.finish())
}

fn serve<'a>(room: &'a Room, scrim: &Path) -> Result<(Setting<'a>, Process), Error> {
    room.reserve(LENGTH)?;
    let (root, identity) = (room.path("site"), Identity::make()?);
    let made = std::fs::create_dir(&root)
        .and_then(|()| File::create(root.join("file")))
        .and_then(|file| file.set_len(LENGTH));
    made.doing(|| format!("make {}", root.display()))?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address: SocketAddr = free.doing(|| "find a free port".to_owned())?;
    let mut command = room.command(scrim);
    command.arg("serve").arg(&root);
    command.args(["--listen", &address.to_string()]);
    let certificate = room.write("certificate.pem", &identity.certificate_pem)?;
    command.arg("--certificate").arg(certificate);
    command
        .arg("--key")
        .arg(room.write("key.pem", &identity.key_pem)?);
    let ready = || TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
    let process = Process::start(room, "fairness", &mut command, ready)?;
    let setting = Setting {
        room,
        url: Url::parse(&format!("https://{address}/file"))?,
        trust: identity.trust(None)?,
    };
    Ok((setting, process))
}

impl Setting<'_> {
    /// Downloads the file again and again by one connection; returns MB/s.
    fn download(&self, version: &str) -> Result<f64, Error> {
        let mut curl = self.room.command(CURL.program);
        curl.args([
            "-q",
            "--silent",
            "--show-error",
            "--fail",
            "--insecure",
            version,
        ]);
        curl.args(["--interface", OTHER, "--max-time", "600"]);
        curl.args(["--write-out", "%{size_download} %{time_total}\\n"]);
        let url = format!("https://{}/file", self.url.authority());
        for _ in 0..DOWNLOADS {
            curl.args(["--output", "/dev/null", &url]);
        }
        let output = curl.output().doing(|| "run curl".to_owned())?;
        let said = String::from_utf8_lossy(&output.stdout);
        let (mut bytes, mut seconds) = (0.0, 0.0);
        for line in said.lines() {
            let mut numbers = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
            bytes += numbers.next().unwrap_or(0.0);
            seconds += numbers.next().unwrap_or(0.0);
        }
        let is_whole = output.status.success() && bytes == (LENGTH * DOWNLOADS as u64) as f64;
        match is_whole && seconds > 0.0 {
            true => Ok(bytes / 1e6 / seconds),
            false => Err(Error::program(
                CURL.program,
                String::from_utf8_lossy(&output.stderr).trim(),
            )),
        }
    }
}

/// Has as many files open as this user may, for the server too.
fn allow_open_files() -> Result<(), Error> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).doing(|| "have more files open".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_http_has_a_promise() {
        let names: Vec<_> = promises().map(|(name, _)| name).collect();
        assert_eq!(names.len(), VERSIONS.len());
        assert!(names.contains(&"http2_download_rate_under_greedy_client".to_owned()));
    }
}
