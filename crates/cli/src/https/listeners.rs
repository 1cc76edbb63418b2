//! Sockets and addresses at which `scrim serve` serves.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use scrim_serve::config::Config;
use scrim_serve::{Listener, Service};

use super::machine;
use crate::error::CliError;

/// Port of HTTPS if none is configured.
const USUAL_PORT: u16 = 8443;

/// Listens at all configured addresses; for HTTPS on the sockets that were `handed_on`, if there are any.
pub(crate) fn listeners(
    config: &Config,
    handed_on: Vec<OwnedFd>,
) -> Result<Vec<Listener>, CliError> {
    let mut listeners = match (handed_on.is_empty(), config.listen.as_slice()) {
        (false, _) => inherited(handed_on)?,
        (true, []) => local()?,
        (true, places) => {
            let bind = |&at| bind(at, Service::Https);
            places.iter().map(bind).collect::<Result<_, _>>()?
        }
    };
    let port = match listeners.first().map(Listener::address) {
        Some(Ok(address)) => address.port(),
        _ => USUAL_PORT,
    };
    let redirect = Service::Redirect { port: Some(port) };
    let plain = config.plain_http.iter().map(|&at| {
        let local = at.ip().is_loopback();
        (at, Service::Http { local })
    });
    let places = plain
        .chain(config.redirect_http.iter().map(|&at| (at, redirect)))
        .chain(config.status.iter().map(|&at| (at, Service::Status)))
        .chain(config.health.iter().map(|&at| (at, Service::Health)));
    for (at, service) in places {
        listeners.push(bind(at, service)?);
    }
    Ok(listeners)
}

fn bind(at: SocketAddr, service: Service) -> Result<Listener, CliError> {
    Listener::bind(at, service).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need CAP_NET_BIND_SERVICE, or a socket that a service manager hands on"
            }
            io::ErrorKind::AddrInUse => "; end what serves there, or name another place with --listen",
            io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
            _ => "",
        };
        CliError::io(format_args!("listen at {at}"), &error).followed_by(hint)
    })
}

/// This machine, by both versions of IP, as far as it has them.
fn local() -> Result<Vec<Listener>, CliError> {
    let first = bind((Ipv4Addr::LOCALHOST, USUAL_PORT).into(), Service::Https)?;
    let second = Listener::bind((Ipv6Addr::LOCALHOST, USUAL_PORT).into(), Service::Https);
    Ok(std::iter::once(first).chain(second.ok()).collect())
}

fn inherited(sockets: Vec<OwnedFd>) -> Result<Vec<Listener>, CliError> {
    let inherit = |socket| Listener::from_socket(socket, Service::Https);
    let listeners: io::Result<_> = sockets.into_iter().map(inherit).collect();
    listeners
        .map_err(|error| CliError::io("serve on a socket that the service manager passed", &error))
}

/// The URLs of all that is served. A loopback address goes by the name that its certificate has, and a socket for all
/// addresses by each that the machine has.
pub(crate) fn addresses(listeners: &[Listener]) -> Result<Vec<String>, CliError> {
    let mut urls = Vec::new();
    for listener in listeners {
        let at = address(listener)?;
        let scheme = match listener.service() {
            Service::Https => "https",
            Service::Http { .. } | Service::Redirect { .. } | Service::Status | Service::Health => {
                "http"
            }
        };
        for host in hosts(at.ip()) {
            let url = format!("{scheme}://{host}:{}/", at.port());
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
    }
    Ok(urls)
}

/// Returns whether other machines can reach what is served.
pub(crate) fn is_for_others(listeners: &[Listener]) -> Result<bool, CliError> {
    for listener in listeners {
        if listener.service().is_for_clients() && !address(listener)?.ip().is_loopback() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn address(listener: &Listener) -> Result<SocketAddr, CliError> {
    let at = listener.address();
    at.map_err(|error| CliError::io("find out where it listens", &error))
}

/// The hosts of URLs at an address; the last one is for this machine itself where the address stands for all.
fn hosts(ip: IpAddr) -> Vec<String> {
    let host = |ip| match ip {
        IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => "localhost".into(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    if !ip.is_unspecified() {
        return vec![host(ip)];
    }
    let all = machine::addresses().into_iter();
    let of_its_kind = all.filter(|other| other.is_ipv4() == ip.is_ipv4());
    let own = std::iter::once("localhost".to_owned());
    of_its_kind.map(host).chain(own).collect()
}
