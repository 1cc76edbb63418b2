//! Ratios of files out of an encrypted volume.

use scrim_bench::Study;

use super::contender::{NGINX, SCRIM};
use super::figure::Figure;
use super::load::Load;
use super::running::{Running, series};

/// Scrim with data decrypted by the thread that serves.
pub(super) const INLINE: &str = "scrim_volume";
/// Scrim with data decrypted through the queues of dm-crypt.
pub(super) const QUEUED: &str = "scrim_volume_queued";

/// Loads that the ratios come from.
pub(super) const LOADS: [&str; 3] = ["tls_100k", "tls_1m", "tls_half_load"];

/// A ratio: its name, load, figure, our contender, the peer, and the minimum.
type Ratio = (
    &'static str,
    &'static str,
    Figure,
    &'static str,
    &'static str,
    Option<f64>,
);

const RATIOS: [Ratio; 5] = [
    (
        "volume_tls_cpu_100k_vs_nginx_dir_tls",
        LOADS[0],
        Figure::Cpu,
        INLINE,
        NGINX,
        Some(1.25),
    ),
    (
        "volume_tls_cpu_1m_vs_nginx_dir_tls",
        LOADS[1],
        Figure::Cpu,
        INLINE,
        NGINX,
        Some(1.1),
    ),
    (
        "volume_vs_dir_cpu_1m",
        LOADS[1],
        Figure::Cpu,
        INLINE,
        SCRIM,
        Some(0.88),
    ),
    (
        "volume_inline_vs_dir_p99",
        LOADS[2],
        Figure::P99,
        INLINE,
        SCRIM,
        Some(0.9),
    ),
    (
        "volume_queued_vs_dir_p99",
        LOADS[2],
        Figure::P99,
        QUEUED,
        SCRIM,
        None,
    ),
];

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    RATIOS
        .into_iter()
        .map(|(name, .., target)| (name.to_owned(), target))
}

/// Adds the ratios of the volume to a folder that Scrim serves, and to one that nginx serves.
pub(super) fn compare(study: &mut Study, running: &[Running], loads: &[Load]) {
    for (name, load, figure, ours, peer, target) in RATIOS {
        let Some(index) = loads.iter().position(|one| one.name() == load) else {
            continue;
        };
        let find = |side| series(running, side, loads[index], index, figure);
        if let (Some(ours), Some(peer)) = (find(ours), find(peer)) {
            study.ratio(name, ours, peer, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_is_of_a_figure_that_is_measured() {
        for (name, load, figure, ..) in RATIOS {
            let found = Load::all().into_iter().find(|one| one.name() == load);
            assert!(Figure::of(found.unwrap()).contains(&figure), "{name}");
        }
    }
}
