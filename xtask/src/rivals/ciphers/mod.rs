//! `rivals ciphers`: Scrim's sectors beside those of aws-lc, OpenSSL, RustCrypto, libgcrypt, GnuTLS,
//! Nettle, intel-ipsec-mb and ISA-L crypto, and beside the processor's limit.
//!
//! A separate program measures (the package `scrim-rivals`, which builds and loads the libraries). It runs
//! once with all instruction sets of the processor and once for each restriction. This module turns its
//! samples into ratios.

pub(super) mod fused;
pub(super) mod illumos;
mod libraries;
mod promise;
mod samples;

use scrim_bench::{Machine, Report, Study};

use promise::{PROMISES, Promise};
use samples::{Instrument, Samples, Sampling};

use crate::error::Error;

/// Options of `cargo xtask rivals ciphers`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) sampling: Sampling,
    /// Measure only these loads
    #[arg(long, value_delimiter = ',', value_name = "LOAD", value_parser = load_names())]
    loads: Vec<String>,
}

/// Instruction sets to which the instrument restricts every library: its name for the restriction, and
/// the prefix that the names of loads then have.
const RESTRICTIONS: [(&str, &str); 3] = [("none", ""), ("avx2", "avx2_"), ("aesni", "aesni_")];

/// Each ratio with its target.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    PROMISES
        .iter()
        .map(|promise| (promise.name.to_owned(), promise.target))
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let chosen: Vec<&Promise> = PROMISES
        .iter()
        .filter(|promise| {
            args.loads.is_empty() || args.loads.iter().any(|load| load == promise.load)
        })
        .collect();
    let instrument = Instrument::build()?;
    let found = instrument.libraries()?;
    let mut machine = Machine::describe(&[]);
    machine.versions = found.versions;
    let mut study = Study::new(machine, args.sampling.rounds());
    for (name, why) in &found.missing {
        study.warn(format!(
            "a peer is missing: {name} ({why}); the comparisons are without it"
        ));
    }
    let mut samples = Samples::default();
    for (restriction, prefix) in RESTRICTIONS {
        let loads = loads_of(&chosen, prefix);
        if !loads.is_empty() {
            let arguments = ["--restrict", restriction, "--loads", &loads.join(",")];
            samples.extend(instrument.measure("ciphers", &args.sampling, &arguments)?);
        }
    }
    let mut recorded = samples.record(&mut study);
    for promise in chosen {
        promise.compare(&mut study, &mut recorded);
    }
    Ok(study.finish())
}

/// The loads that these promises want under one restriction, by the instrument's names.
fn loads_of<'a>(promises: &[&'a Promise], prefix: &str) -> Vec<&'a str> {
    let mut loads = Vec::new();
    for promise in promises {
        let (own, load) = split(promise.load);
        if own == prefix && !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads
}

/// The restriction's prefix of a load, and the rest of its name.
fn split(load: &str) -> (&str, &str) {
    let prefixes = RESTRICTIONS.iter().map(|(_, prefix)| *prefix);
    let prefix = prefixes
        .filter(|prefix| load.starts_with(prefix))
        .max_by_key(|prefix| prefix.len())
        .unwrap_or_default();
    load.split_at(prefix.len())
}

fn load_names() -> clap::builder::PossibleValuesParser {
    let mut names: Vec<&str> = PROMISES.iter().map(|promise| promise.load).collect();
    names.dedup();
    names.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_measured_under_their_own_restriction() {
        let all: Vec<&Promise> = PROMISES.iter().collect();
        let without = loads_of(&all, "");
        assert!(without.contains(&"aes256xts_512b") && without.contains(&"aes128gcm_16k"));
        assert!(!without.iter().any(|load| load.starts_with("av")));
        let restricted = [
            "aes256xts_512b",
            "aes256xts_4k",
            "aes128gcm_16k",
            "aes256gcm_16k",
        ];
        assert_eq!(loads_of(&all, "aesni_"), restricted);
        let with_others = [
            "aes256xts_512b",
            "aes256xts_4k",
            "aes128ctr_4k",
            "serpent256xts_4k",
            "camellia256xts_4k",
            "adiantum_4k",
            "aes128gcm_16k",
            "aes256gcm_16k",
        ];
        assert_eq!(loads_of(&all, "avx2_"), with_others);
    }

    #[test]
    fn a_load_can_be_asked_for_by_one_name() {
        let mut names: Vec<&str> = PROMISES.iter().map(|promise| promise.load).collect();
        names.dedup();
        let once: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(
            once.len(),
            names.len(),
            "promises of one load stand together"
        );
    }
}
