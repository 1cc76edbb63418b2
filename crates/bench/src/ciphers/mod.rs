//! Measures the speed of sector ciphers, and of records of AES-GCM, on this machine: MB/s and cycles a byte, beside
//! `memcpy` and the limit of this processor's AES units.
//!
//! [`measure`] takes a [`Plan`] and gives an [`Outcome`], whose parts are text for a terminal. Every
//! figure is a series of the [`Study`] too. A series is named
//! `SPECIFICATION_BITSb[_DRIVER]_sSECTOR_CALL_WARMTH_DIRECTION`, such as
//! `aes-xts-plain64_512b_s4096_64k_hot_encrypt`, with `_cycles` for its cycles a byte; what it is
//! compared with is `memcpy_CALL_WARMTH` and `aes256_limit`. Ratios are `…_hot_encrypt_of_bound`, the
//! limit's cycles over ours, `…_cold_encrypt_vs_memcpy`, `SPECIFICATION_BITSb[_DRIVER]_s4096_vs_s512_64k_hot_DIRECTION`
//! for sectors, and `SPECIFICATION_256b_vs_512b[_DRIVER]_64k_hot_DIRECTION` for keys, in the largest sectors measured.

mod choice;
mod conclusion;
mod error;
mod load;
mod outcome;
mod plan;
mod records;
mod text;
mod workload;

pub use choice::{MODES, OTHER_CIPHERS, Subject, all, usual};
pub use error::MeasureError;
pub use load::{Direction, Load, Warmth};
pub use outcome::{Limit, Outcome, RecordRow, Row, Speed, Speeds};
pub use plan::Plan;
pub use records::Records;

use crate::{Pinned, Study, Watch, turns};
use workload::Bench;

/// The size of the cold buffer in bytes, a multiple of 2 MiB: `chosen`, or 256 MiB, or twice the
/// largest cache where that is more; but at most half of what is `available`. With warnings, where it
/// is not what was chosen, and where it is too small to be cold.
#[must_use]
pub fn cold_bytes(chosen: Option<u64>, available: u64) -> (usize, Vec<String>) {
    choose_cold_bytes(chosen, available, crate::cache::largest())
}

const COLD: u64 = 256 << 20;

fn choose_cold_bytes(
    chosen: Option<u64>,
    available: u64,
    cache: Option<u64>,
) -> (usize, Vec<String>) {
    let needed = cache.map_or(0, |cache| cache.saturating_mul(2));
    let wanted = chosen.unwrap_or(COLD.max(needed));
    let unit = load::COLD_UNIT as u64;
    let most = available / 2;
    let bytes = wanted.min(most).max(unit) / unit * unit;
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let mut warnings = Vec::new();
    if wanted > most {
        warnings.push(format!(
            "little memory: the cold buffer has {} MiB instead of {}, half of what is free",
            mib(bytes),
            mib(wanted)
        ));
    }
    if bytes < needed {
        warnings.push(format!(
            "not cold: the buffer of {} MiB is less than twice the largest cache, of {} MiB; \
             figures called cold come from the cache in part",
            mib(bytes),
            mib(needed / 2)
        ));
    }
    (usize::try_from(bytes).unwrap_or(usize::MAX), warnings)
}

/// Measures `plan` in the rounds of `study`, on one thread that stays on its processor. `watch` hears
/// how far it is, several times a second, and can end it; what whole rounds have given is kept then.
///
/// # Errors
/// [`MeasureError`], before anything is measured.
pub fn measure(
    plan: &Plan,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<Outcome, MeasureError> {
    let pinned = Pinned::here();
    if pinned.is_err() {
        study.warn(Pinned::MISSING);
    }
    let mut bench = Bench::prepare(plan, study)?;
    let steps = study.rounds() * bench.slices();
    let mut step = 0;
    if bench.calibrate(watch).is_break() {
        study.end_after(0, &bench.series());
    } else {
        for turn in turns(study.rounds(), Load::COUNT, bench.contenders()) {
            let progress = bench.progress(turn, study.rounds(), step as f64 / steps.max(1) as f64);
            if watch(&progress).is_break() {
                study.end_after(turn.round, &bench.series());
                break;
            }
            step += usize::from(bench.run(turn, study));
        }
    }
    let mut outcome = bench.outcome(study);
    outcome.cpu = pinned.ok().map(|pinned| pinned.cpu());
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::time::Duration;

    use scrim_crypt::SectorSize;

    use super::*;
    use crate::Machine;

    const MIB: u64 = 1 << 20;

    fn plan() -> Plan {
        Plan {
            subjects: vec![Subject {
                spec: "aes-xts-plain64".parse().unwrap(),
                key_bytes: 32,
                driver: None,
            }],
            sector_sizes: vec![SectorSize::S512, SectorSize::S4096],
            records: Vec::new(),
            slice: Duration::from_micros(100),
            cold_bytes: load::COLD_UNIT,
        }
    }

    fn measured(stop_at: Option<usize>) -> (Outcome, crate::Report) {
        let mut study = Study::new(Machine::default(), 3);
        let mut calls = 0;
        let outcome = measure(&plan(), &mut study, &mut |progress| {
            assert!((0.0..1.0).contains(&progress.part), "{progress:?}");
            calls += usize::from(progress.round > 0);
            if stop_at.is_some_and(|stop| calls > stop) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        (outcome.unwrap(), study.finish())
    }

    /// Number of figures in each row.
    fn counts(outcome: &Outcome) -> Vec<usize> {
        let rows = outcome.rows.iter();
        rows.map(|row| row.speeds.iter().flatten().count())
            .collect()
    }

    #[test]
    fn each_figure_is_a_series_with_a_sample_a_round() {
        let (outcome, report) = measured(None);
        assert_eq!(outcome.rows.len(), 4);
        assert_eq!(counts(&outcome), [8, 8, 6, 6]);
        let series = |name: &str| report.results.iter().find(|series| series.name == name);
        for name in [
            "aes-xts-plain64_256b_s512_512_hot_encrypt",
            "aes-xts-plain64_256b_s4096_1m_cold_decrypt",
            "memcpy_64k_cold",
        ] {
            let series = series(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(series.samples.len(), 3, "{name}");
        }
        let shorter_than_a_sector = "aes-xts-plain64_256b_s4096_512_hot_encrypt";
        assert!(series(shorter_than_a_sector).is_none());
        let names: Vec<_> = report.results.iter().map(|series| &series.name).collect();
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        let cold = "aes-xts-plain64_256b_s4096_4k_cold_decrypt_vs_memcpy";
        assert!(report.ratios.iter().any(|ratio| ratio.name == cold));
        // A ratio is only missing where what it compares with is.
        let left_out = report.warnings.iter().find(|w| w.contains("left out"));
        assert_eq!(left_out, None);
    }

    #[test]
    fn every_driver_has_ratios_of_its_own() {
        let mut plan = plan();
        plan.subjects = plan.subjects[0].every();
        let mut study = Study::new(Machine::default(), 1);
        let outcome = measure(&plan, &mut study, &mut |_| ControlFlow::Continue(())).unwrap();
        let report = study.finish();
        let names: Vec<_> = report.ratios.iter().map(|ratio| &ratio.name).collect();
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        let conclusion = outcome.conclusion(&report);
        assert!(conclusion.sector_size.is_some() && conclusion.key_size.is_some());
    }

    #[test]
    fn records_are_sealed_and_opened() {
        let mut plan = plan();
        plan.subjects.clear();
        plan.records = Records::usual();
        let mut all = Records::all();
        all.retain(|records| !plan.records.contains(records));
        plan.records.extend(all);
        let mut study = Study::new(Machine::default(), 2);
        let outcome = measure(&plan, &mut study, &mut |_| ControlFlow::Continue(())).unwrap();
        let report = study.finish();
        assert_eq!(outcome.records.len(), 4 * plan.records.len());
        let rows = outcome.records.iter();
        let figures = rows.map(|row| row.speeds.iter().flatten().count());
        // Calls of 4 KiB and more, or of 64 KiB and more; nothing is opened cold.
        let wanted = [6, 3, 4, 2].repeat(plan.records.len());
        assert_eq!(figures.collect::<Vec<_>>(), wanted);
        let name = "aes-gcm_128b_r16384_64k_hot_decrypt";
        let series = report.results.iter().find(|series| series.name == name);
        assert_eq!(series.unwrap().samples.len(), 2);
        let portable = "aes-gcm_256b_gcm-aes-portable_r1024_1m_cold_encrypt_vs_memcpy";
        assert!(report.ratios.iter().any(|ratio| ratio.name == portable));
        assert!(outcome.summary().is_empty() && !outcome.is_empty());
        let failed = report
            .warnings
            .iter()
            .find(|said| said.starts_with("no figures"));
        assert_eq!(failed, None);
    }

    #[test]
    fn an_interruption_keeps_whole_rounds() {
        // 8 loads of 6 contenders, with nothing to do for some, are a round of 48.
        let (outcome, report) = measured(Some(60));
        assert!(
            report
                .results
                .iter()
                .all(|series| series.samples.len() <= 1)
        );
        assert_eq!(counts(&outcome), [8, 8, 6, 6]);
        let (outcome, report) = measured(Some(0));
        assert_eq!(counts(&outcome), [0; 4]);
        assert!(report.ratios.is_empty());
    }

    #[test]
    fn the_cold_buffer_is_larger_than_the_cache_and_smaller_than_memory() {
        let choose = |chosen: Option<u64>, available, cache| {
            let (bytes, warnings) = choose_cold_bytes(chosen, available, cache);
            (bytes as u64 / MIB, warnings.len())
        };
        let plenty = 64 << 30;
        assert_eq!(choose(None, plenty, Some(105 * MIB)), (256, 0));
        assert_eq!(choose(None, plenty, Some(384 * MIB)), (768, 0));
        assert_eq!(choose(None, plenty, None), (256, 0));
        assert_eq!(choose(Some(100 * MIB), plenty, Some(64 * MIB)), (100, 1));
        assert_eq!(choose(None, 300 * MIB, Some(32 * MIB)), (150, 1));
        assert_eq!(choose(None, 300 * MIB, Some(105 * MIB)), (150, 2));
        assert_eq!(choose(None, u64::MAX, Some(32 * MIB)), (256, 0));
        // At least two of the longest calls, and always whole ones.
        assert_eq!(choose(Some(0), 0, None), (2, 0));
        assert_eq!(choose(Some(9_000_000), plenty, None), (8, 0));
    }
}
