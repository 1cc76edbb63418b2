//! The servers that are compared, and the commands that start them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use scrim_bench::Pinned;
use scrim_bench::web::{Suite, Url};

use super::super::room::Room;
use super::super::server::Process;
use super::image::Image;
use super::nginx::Nginx;
use super::site::{PROTOCOLS, Protocol, Site, TLS, TLS256};
use crate::error::{Doing, Error};

/// A server of files.
pub(super) struct Contender {
    /// Name of the contender in names of results.
    pub(super) name: &'static str,
    pub(super) software: Software,
}

pub(super) enum Software {
    Scrim(PathBuf),
    Nginx(Nginx),
    /// Scrim with the same files in a volume, decrypted on this data path.
    Volume(PathBuf, Rc<Image>, &'static str),
}

pub(super) const SCRIM: &str = "scrim";
/// The newest nginx that is known.
pub(super) const NGINX: &str = "nginx";
/// The system's own nginx, if that is another one.
pub(super) const DEBIAN_NGINX: &str = "debian_nginx";

/// A contender's servers, one for each suite.
pub(super) struct Served {
    processes: Vec<Process>,
    places: Vec<(Protocol, Url, usize)>,
}

impl Contender {
    /// Starts its servers on `processor`.
    pub(super) fn start(
        &self,
        room: &Room,
        site: &Site,
        processor: usize,
    ) -> Result<Served, Error> {
        let _pinned =
            Pinned::on(processor).doing(|| format!("keep servers on processor {processor}"))?;
        let mut served = Served {
            processes: Vec::new(),
            places: Vec::new(),
        };
        for protocol in [TLS, TLS256] {
            let Some(suite) = protocol.suite else {
                continue;
            };
            let ports = free_ports()?;
            let name = format!("{}-{}", self.name, protocol.name);
            let mut command = match &self.software {
                Software::Scrim(program) => {
                    let mut command = serve(room, program);
                    command.arg(&site.root);
                    scrim(command, site, suite, ports)
                }
                Software::Volume(program, image, data_path) => {
                    let mut command = serve(room, program);
                    image.serve(&mut command, data_path);
                    scrim(command, site, suite, ports)
                }
                Software::Nginx(nginx) => nginx.serve(room, &name, site, suite, ports)?,
            };
            let ready = || ports.into_iter().all(answers);
            let process = Process::start(room, &name, &mut command, ready)?;
            let index = served.processes.len();
            served.processes.push(process);
            // Plain HTTP is the first one's.
            for (tls, port) in [(true, ports[0]), (false, ports[1])] {
                let scheme = if tls { "https" } else { "http" };
                let url = Url::parse(&format!("{scheme}://127.0.0.1:{port}/"))?;
                let carried = PROTOCOLS.into_iter().find(|one| match tls {
                    true => *one == protocol,
                    false => one.suite.is_none() && index == 0,
                });
                served
                    .places
                    .extend(carried.map(|protocol| (protocol, url, index)));
            }
        }
        Ok(served)
    }
}

impl Served {
    /// Where it carries files by `protocol`.
    pub(super) fn url(&self, protocol: Protocol) -> Option<&Url> {
        let mut places = self.places.iter();
        places.find_map(|(one, url, _)| (*one == protocol).then_some(url))
    }

    /// Processor time that has gone into `protocol` so far, with all that shares its process.
    pub(super) fn cpu_time(&self, protocol: Protocol) -> Result<Duration, Error> {
        let mut places = self.places.iter();
        let index = places.find_map(|(one, _, index)| (*one == protocol).then_some(*index));
        let process = index.and_then(|index| self.processes.get(index));
        process.map_or(Ok(Duration::ZERO), Process::cpu_time)
    }

    /// Checks that the server returns the right files.
    pub(super) fn check(&self, site: &Site) -> Result<(), Error> {
        let mut places = self.places.iter();
        places.try_for_each(|(protocol, url, _)| site.check(url, *protocol))
    }
}

fn serve(room: &Room, program: &Path) -> Command {
    let mut command = room.command(program);
    command.arg("serve");
    command
}

/// The interface of `scrim serve`, in one place.
fn scrim(mut command: Command, site: &Site, suite: Suite, [https, http]: [u16; 2]) -> Command {
    command.args(["--listen", &format!("127.0.0.1:{https}")]);
    command.arg("--certificate").arg(&site.certificate);
    command.arg("--key").arg(&site.key);
    command.args(["--threads", "1", "--tls-suite", suite.registered()]);
    command.args(["--plain-http", &format!("127.0.0.1:{http}")]);
    command
}

/// Finds two free ports of loopback: nginx cannot choose one itself and report it.
pub(super) fn free_ports() -> Result<[u16; 2], Error> {
    let listen = || TcpListener::bind("127.0.0.1:0").doing(|| "find a free port".to_owned());
    // Both at once, so that they differ.
    let listeners = [listen()?, listen()?];
    let mut ports = [0; 2];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        let address = listener.local_addr();
        *port = address.doing(|| "find a free port".to_owned())?.port();
    }
    Ok(ports)
}

pub(super) fn answers(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}
