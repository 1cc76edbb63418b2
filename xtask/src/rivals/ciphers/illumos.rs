//! `rivals illumos`: what the illumos crypto framework gained in 2015, stage by stage, on this
//! machine and beside the figures that were published then.

use std::fmt::Write;

use scrim_bench::stat::median;
use scrim_bench::{Machine, Report, Study};

use super::samples::{Instrument, Recorded, Sampling};
use crate::error::Error;

/// Options of `cargo xtask rivals illumos`.
#[derive(clap::Args)]
pub(in crate::rivals) struct Args {
    #[command(flatten)]
    pub(in crate::rivals) sampling: Sampling,
}

/// Stages: the instrument's name of each, and a description.
const STAGES: [(&str, &str); 5] = [
    ("per_block", "each block"),
    ("chunks", "32 KiB chunks"),
    ("fast", "fast paths"),
    ("today", "today"),
    ("openssl", "OpenSSL"),
];

/// A row of the table.
struct Row {
    /// Cipher mode and direction, as the instrument names them.
    name: &'static str,
    /// MB/s with AES-128 on a 2.5 GHz laptop, in a virtual machine, at 128 KiB a call; OpenSSL is
    /// 1.0.1f at 8 KiB. What was not published is `None`; of decryption that is all but a part of
    /// CBC, for it was said to be like encryption where it is.
    published: [Option<f64>; 5],
}

const ROWS: [Row; 8] = [
    Row {
        name: "ecb_encrypt",
        published: [Some(117.0), Some(790.0), Some(3764.0), None, Some(3464.0)],
    },
    Row {
        name: "ecb_decrypt",
        published: [None; 5],
    },
    Row {
        name: "ctr_encrypt",
        published: [Some(110.0), Some(439.0), Some(3121.0), None, Some(3185.0)],
    },
    Row {
        name: "ctr_decrypt",
        published: [None; 5],
    },
    Row {
        name: "cbc_encrypt",
        published: [Some(112.0), Some(483.0), Some(691.0), None, Some(586.0)],
    },
    Row {
        name: "cbc_decrypt",
        published: [None, Some(627.0), Some(3011.0), None, None],
    },
    Row {
        name: "gcm_encrypt",
        published: [Some(56.0), Some(252.0), Some(1053.0), None, Some(1026.0)],
    },
    Row {
        name: "gcm_decrypt",
        published: [None; 5],
    },
];

/// Each ratio: a stage and the one before it, and today's code beside OpenSSL's.
pub(in crate::rivals) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    ROWS.iter().flat_map(|row| {
        pairs().map(|(stage, other)| (format!("illumos_{}_{stage}_vs_{other}", row.name), None))
    })
}

pub(in crate::rivals) fn run(args: &Args) -> Result<Report, Error> {
    let instrument = Instrument::build()?;
    let mut machine = Machine::describe(&[]);
    machine.versions = instrument.libraries()?.versions;
    let mut study = Study::new(machine, args.sampling.rounds());
    let mut samples = instrument.measure("illumos", &args.sampling, &[])?;
    samples.describe(|name, workload| {
        if let Some(published) = published(name) {
            // Writing to a string does not fail.
            let _ = write!(workload, "; published in 2015: {published} MB/s");
        }
    });
    let recorded = samples.record(&mut study);
    for row in &ROWS {
        for (stage, other) in pairs() {
            let find = |stage| recorded.find(&format!("illumos_{}_{stage}", row.name));
            if let (Some(stage_series), Some(other_series)) = (find(stage), find(other)) {
                let name = format!("illumos_{}_{stage}_vs_{other}", row.name);
                study.ratio(&name, stage_series.id, other_series.id, None);
            }
        }
    }
    eprint!("{}", table(&recorded));
    Ok(study.finish())
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let stages = STAGES.iter().map(|(stage, _)| *stage);
    let before = stages.clone().zip(stages.skip(1));
    before.map(|(before, stage)| match stage {
        "openssl" => (before, stage),
        _ => (stage, before),
    })
}

/// The figure that was published for a series of this name.
fn published(name: &str) -> Option<f64> {
    let name = name.strip_prefix("illumos_")?;
    let row = ROWS.iter().find(|row| name.starts_with(row.name))?;
    let stage = name[row.name.len()..].strip_prefix('_')?;
    let index = STAGES.iter().position(|(name, _)| *name == stage)?;
    row.published[index]
}

/// For each row a line of what was measured here and one of what was published.
fn table(recorded: &Recorded) -> String {
    let mut lines = vec![format!("{:<18}", "AES-128, MB/s")];
    lines[0].extend(STAGES.map(|(_, words)| format!("{words:>15}")));
    for row in &ROWS {
        let mut here = format!("{:<12}{:<6}", row.name.replace('_', " "), "here");
        let mut then = format!("{:<12}{:<6}", "", "2015");
        for ((stage, _), published) in STAGES.iter().zip(row.published) {
            let measured = recorded.find(&format!("illumos_{}_{stage}", row.name));
            here += &cell(measured.and_then(|measured| median(&measured.samples)));
            then += &cell(published);
        }
        lines.push(here);
        if row.published.iter().any(Option::is_some) {
            lines.push(then);
        }
    }
    let lines = lines.iter().map(|line| line.trim_end());
    lines.flat_map(|line| [line, "\n"]).chain(["\n"]).collect()
}

fn cell(rate: Option<f64>) -> String {
    rate.map_or_else(|| format!("{:>15}", ""), |rate| format!("{rate:>15.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_is_compared_with_the_one_before() {
        let pairs: Vec<_> = pairs().collect();
        let wanted = [
            ("chunks", "per_block"),
            ("fast", "chunks"),
            ("today", "fast"),
            ("today", "openssl"),
        ];
        assert_eq!(pairs, wanted);
        assert_eq!(promises().count(), 32);
    }

    #[test]
    fn published_figures_stand_beside_their_series() {
        assert_eq!(published("illumos_ecb_encrypt_per_block"), Some(117.0));
        assert_eq!(published("illumos_cbc_decrypt_fast"), Some(3011.0));
        assert_eq!(published("illumos_gcm_encrypt_openssl"), Some(1026.0));
        assert_eq!(published("illumos_ecb_decrypt_fast"), None);
        assert_eq!(published("illumos_cbc_encrypt_today"), None);
    }
}
