//! Examination of limits and rights that `scrim serve` depends on: file descriptors and ports.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::finding::{Finding, read};

/// The port of HTTPS.
const HTTPS: u32 = 443;

pub(super) fn findings() -> Vec<Finding> {
    let privileged = capabilities(None)
        .is_ok_and(|mine| mine.effective.contains(CapabilitySet::NET_BIND_SERVICE));
    vec![
        descriptors(getrlimit(Resource::Nofile).maximum),
        ports(
            privileged,
            read("/proc/sys/net/ipv4/ip_unprivileged_port_start").as_deref(),
        ),
    ]
}

/// `most` is the hard limit, to which a server raises its own.
fn descriptors(most: Option<u64>) -> Finding {
    const NAME: &str = "open files";
    let Some(most) = most else {
        return Finding::found(NAME, "without limit");
    };
    let wanted = scrim_serve::Limits::default().connections as u64;
    let connections = most - most / 4;
    if connections >= wanted {
        return Finding::found(NAME, format!("{most}, enough for {wanted} connections"));
    }
    Finding::missing(
        NAME,
        most.to_string(),
        format!("`scrim serve` has at most {connections} connections at a time, and not {wanted}"),
        "for a service `LimitNOFILE=65536`, for a container `--ulimit nofile=65536`; for a user \
         `NAME hard nofile 65536` in /etc/security/limits.conf",
    )
}

/// `first` is the lowest port at which any process may listen.
fn ports(privileged: bool, first: Option<&str>) -> Finding {
    const NAME: &str = "port 443";
    let first: Option<u32> = first.and_then(|first| first.parse().ok());
    match first {
        _ if privileged => Finding::found(NAME, "allowed"),
        Some(first) if first <= HTTPS => Finding::found(NAME, "allowed"),
        None => Finding::unknown(NAME, "the kernel does not say"),
        Some(first) => Finding::missing(
            NAME,
            format!("only ports from {first} on are allowed"),
            "`scrim serve --listen 0.0.0.0:443` fails; a service manager may hand the socket on",
            "`sudo sysctl net.ipv4.ip_unprivileged_port_start=443`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn few_files_are_few_connections() {
        assert_eq!(descriptors(None).state, State::Found);
        assert_eq!(descriptors(Some(1 << 20)).state, State::Found);
        let few = descriptors(Some(1024));
        assert_eq!(few.state, State::Missing);
        assert!(few.cost.unwrap().contains("at most 768 connections"));
        assert_eq!(descriptors(Some(0)).state, State::Missing);
    }

    #[test]
    fn who_may_listen_at_443() {
        assert_eq!(ports(true, Some("1024")).state, State::Found);
        assert_eq!(ports(false, Some("443")).state, State::Found);
        assert_eq!(ports(false, Some("1024")).state, State::Missing);
        assert_eq!(ports(false, Some("x")).state, State::Unknown);
        assert_eq!(ports(false, None).state, State::Unknown);
    }
}
