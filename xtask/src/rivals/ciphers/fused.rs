//! `rivals fused`: sectors decrypted and sealed as records while they are in the cache, beside two passes.

use scrim_bench::{Machine, Report, Study};

use super::samples::{Instrument, Sampling};
use crate::error::Error;

/// Options of `cargo xtask rivals fused`.
#[derive(clap::Args)]
pub(in crate::rivals) struct Args {
    #[command(flatten)]
    pub(in crate::rivals) sampling: Sampling,
}

/// A ratio: its name, our side and the peer as the instrument names them, and its target.
const RATIOS: [(&str, &str, &str, Option<f64>); 2] = [
    ("fused_vs_two_pass", "fused", "two_pass", Some(1.3)),
    ("fused_vs_pieces_1m", "fused", "pieces_1m", None),
];

/// Each ratio with its target.
pub(in crate::rivals) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    let ratios = RATIOS.into_iter();
    ratios.map(|(name, _, _, target)| (name.to_owned(), target))
}

pub(in crate::rivals) fn run(args: &Args) -> Result<Report, Error> {
    let instrument = Instrument::build()?;
    let mut study = Study::new(Machine::describe(&[]), args.sampling.rounds());
    let samples = instrument.measure("fused", &args.sampling, &[])?;
    let recorded = samples.record(&mut study);
    for (name, ours, peer, target) in RATIOS {
        if let (Some(ours), Some(peer)) = (recorded.find(ours), recorded.find(peer)) {
            study.ratio(name, ours.id, peer.id, target);
        }
    }
    Ok(study.finish())
}
