//! The figures that are compared, their names, and the targets of the ratios.

use scrim_bench::Better;

use super::contender::{DEBIAN_NGINX, NGINX};
use super::load::{Load, Measured};
use super::site::Protocol;

/// Servers that Scrim is compared with: the end of the ratio's name, and the contender.
pub(super) const PEERS: [(&str, &str); 2] =
    [("vs_nginx", NGINX), ("vs_debian_nginx", DEBIAN_NGINX)];

/// A figure that is measured for a load: CPU seconds per GB, requests a second, MB/s, and latencies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Cpu,
    Rps,
    Rate,
    P50,
    P99,
}

impl Figure {
    pub(super) fn of(load: Load) -> &'static [Self] {
        match load {
            Load::Full(..) => &[Self::Cpu, Self::Rps, Self::Rate],
            Load::Half(..) | Load::BesideSlow(_) => &[Self::P50, Self::P99],
        }
    }

    /// The figures that are compared. MB/s is not: requests a second give the same ratio.
    pub(super) fn compared(load: Load) -> &'static [Self] {
        match load {
            Load::Full(..) => &[Self::Cpu, Self::Rps],
            Load::Half(..) => &[Self::P99],
            Load::BesideSlow(_) => &[Self::P50, Self::P99],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Rps => "rps",
            Self::Rate => "rate",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    pub(super) fn unit(self) -> (&'static str, Better) {
        match self {
            Self::Cpu => ("CPU s/GB", Better::Lower),
            Self::Rps => ("requests/s", Better::Higher),
            Self::Rate => ("MB/s", Better::Higher),
            Self::P50 | Self::P99 => ("µs", Better::Lower),
        }
    }
}

/// Name of a load's figure: `tls_cpu_10k`, `tls_p99_half_load`, `tls_fast_beside_slow_p99`.
pub(super) fn figure_name(load: Load, figure: Figure) -> String {
    let figure = figure.name();
    match load {
        Load::Full(Protocol { name, .. }, size) => format!("{name}_{figure}_{}", size.name),
        Load::Half(Protocol { name, .. }, _) => format!("{name}_{figure}_half_load"),
        Load::BesideSlow(_) => format!("{}_{figure}", load.name()),
    }
}

/// Minimum of the ratio `name`.
pub(super) fn target(name: &str) -> Option<f64> {
    let targets = [
        ("tls_cpu_10k_vs_nginx", 1.3),
        ("tls_cpu_100k_vs_nginx", 1.5),
        ("tls_cpu_1m_vs_nginx", 1.25),
        ("tls_rps_10k_vs_nginx", 1.2),
        ("http_cpu_1m_vs_nginx", 0.97),
        ("tls_p99_half_load_vs_nginx", 1.0),
    ];
    let mut targets = targets.into_iter();
    targets.find_map(|(one, target)| (one == name).then_some(target))
}

/// Each ratio with its target.
pub(in crate::rivals) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    PEERS.into_iter().flat_map(|(end, _)| {
        Load::all().into_iter().flat_map(move |load| {
            Figure::compared(load).iter().map(move |&figure| {
                let name = format!("{}_{end}", figure_name(load, figure));
                let target = target(&name);
                (name, target)
            })
        })
    })
}

impl Measured {
    pub(super) fn of(self, figure: Figure) -> Option<f64> {
        Some(match (self, figure) {
            (Self::Full { cpu, .. }, Figure::Cpu) => cpu,
            (Self::Full { rps, .. }, Figure::Rps) => rps,
            (Self::Full { rate, .. }, Figure::Rate) => rate,
            (Self::Latency { p50, .. }, Figure::P50) => p50,
            (Self::Latency { p99, .. }, Figure::P99) => p99,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_its_name_and_target() {
        let promises: Vec<_> = promises().collect();
        assert_eq!(promises.len(), 2 * (3 * 4 * 2 + 2 + 2));
        for (name, expected) in [
            ("tls_cpu_10k_vs_nginx", Some(1.3)),
            ("tls_cpu_100k_vs_nginx", Some(1.5)),
            ("tls_cpu_1m_vs_nginx", Some(1.25)),
            ("tls_rps_10k_vs_nginx", Some(1.2)),
            ("http_cpu_1m_vs_nginx", Some(0.97)),
            ("tls_p99_half_load_vs_nginx", Some(1.0)),
            ("tls256_p99_half_load_vs_nginx", None),
            ("tls256_cpu_100m_vs_debian_nginx", None),
            ("tls_fast_beside_slow_p99_vs_nginx", None),
        ] {
            let found = promises.iter().find(|(ratio, _)| ratio == name).unwrap();
            assert_eq!(found.1, expected, "{name}");
        }
    }
}
