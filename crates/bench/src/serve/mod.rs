//! Measures the cost of TLS when a file is served, as a report of 2021 has measured it for nginx: one file of
//! 1 GB from the page cache, downloaded again and again by one client over loopback.
//!
//! [`measure`] downloads from two places in turn: the program's own `scrim serve`, plain and over TLS, or
//! URLs of the user's. Each download is a new connection, as with `curl`, and is timed from before it is
//! made to the last byte. Series are named `serve_PLACE` for MB/s and `serve_PLACE_cpu` for the server's CPU
//! seconds per GB, where it is a process of ours; places are `http` and `tls`, or `url1` and `url2`. The
//! ratio `serve_tls_vs_http` is what TLS leaves of the plain rate, `serve_cpu_tls_vs_http` the same of
//! processor time; `serve_url2_vs_url1` compares what was given.

mod error;
pub mod latency;
mod outcome;
mod page;
mod plan;
mod server;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub use error::ServeError;
pub use outcome::{Outcome, Place};
pub use page::page;
pub use plan::{Content, Ours, Plan};

use self::server::Server;
use crate::process::cpu_time;
use crate::web::{Connection, Trust, Url};
use crate::{Better, Progress, SeriesId, Study, Watch, turns};

/// Downloads by default, as in the report.
pub const DOWNLOADS: usize = 10;

/// Series of a place's samples, and the way to reach it.
struct Target<'a> {
    url: Url,
    trust: &'a Trust,
    rate: SeriesId,
    cpu: Option<SeriesId>,
}

/// Measures in the rounds of `study`. `watch` hears how far it is before each download, and can end it; what
/// whole rounds have given is kept then.
///
/// # Errors
/// When nothing is served, or something other than the whole file.
pub fn measure(
    plan: &Plan,
    study: &mut Study,
    watch: &mut Watch<'_>,
) -> Result<Outcome, ServeError> {
    let server;
    let (places, trust, process) = match plan {
        Plan::Ours(ours) => {
            server = Server::start(ours, study)?;
            let places = vec![("http", server.http.clone()), ("tls", server.https.clone())];
            (places, &server.trust, Some(server.id()))
        }
        Plan::Theirs { urls, trust } => {
            let names = ["url1", "url2"];
            let urls = urls.iter().cloned();
            (names.into_iter().zip(urls).collect(), trust, None)
        }
    };
    let mut outcome = Outcome::default();
    let mut targets = Vec::new();
    for (name, url) in places {
        let (bytes, protection) = once(&url, trust)?;
        let workload = format!("{bytes} bytes, {protection}, one connection for each download");
        let series = format!("serve_{name}");
        targets.push(Target {
            url,
            trust,
            rate: study.series(&series, "MB/s", Better::Higher, workload.clone()),
            cpu: process.map(|_| {
                study.series(format!("{series}_cpu"), "CPU s/GB", Better::Lower, workload)
            }),
        });
        outcome.places.push(Place {
            name,
            protection,
            bytes,
            rates: Vec::new(),
            cpu: Vec::new(),
        });
    }
    rounds(study, &targets, process, &mut outcome, watch)?;
    if let [first, second] = &targets[..] {
        let [from, to] = [outcome.places[0].name, outcome.places[1].name];
        study.ratio(
            &format!("serve_{to}_vs_{from}"),
            second.rate,
            first.rate,
            None,
        );
        if let (Some(ours), Some(peer)) = (second.cpu, first.cpu) {
            study.ratio(&format!("serve_cpu_{to}_vs_{from}"), ours, peer, None);
        }
    }
    Ok(outcome)
}

/// Downloads once, so that all is there; returns the length and the protection of the download.
fn once(url: &Url, trust: &Trust) -> Result<(u64, String), ServeError> {
    let mut connection = Connection::open(url, Some(trust))?;
    let protection = connection.protection().map_or_else(
        || "plain HTTP".to_owned(),
        |found| format!("{} {}", found.version, found.suite),
    );
    let head = connection.download(url, &mut |_| {})?;
    if head.length == 0 {
        return Err(ServeError::Empty);
    }
    Ok((head.length, protection))
}

fn rounds(
    study: &mut Study,
    targets: &[Target<'_>],
    process: Option<u32>,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), ServeError> {
    let count = study.rounds();
    for (step, turn) in turns(count, 1, targets.len()).enumerate() {
        let (target, place) = (&targets[turn.contender], &outcome.places[turn.contender]);
        let progress = Progress {
            what: place.protection.clone(),
            round: turn.round + 1,
            rounds: count,
            part: step as f64 / (count * targets.len()) as f64,
        };
        if let ControlFlow::Break(()) = watch(&progress) {
            let series: Vec<_> = targets
                .iter()
                .flat_map(|target| std::iter::once(target.rate).chain(target.cpu))
                .collect();
            study.end_after(turn.round, &series);
            for place in &mut outcome.places {
                place.rates.truncate(turn.round);
                place.cpu.truncate(turn.round);
            }
            return Ok(());
        }
        let bytes = place.bytes;
        let (took, used) = download(target, process, bytes)?;
        let rate = bytes as f64 / 1e6 / took.as_secs_f64();
        study.record(target.rate, rate);
        let place = &mut outcome.places[turn.contender];
        place.rates.push(rate);
        if let (Some(series), Some(used)) = (target.cpu, used) {
            let per_gb = used.as_secs_f64() / (bytes as f64 / 1e9);
            study.record(series, per_gb);
            place.cpu.push(per_gb);
        }
    }
    Ok(())
}

/// Times one download, with the processor time that the server has used for it.
fn download(
    target: &Target<'_>,
    process: Option<u32>,
    bytes: u64,
) -> Result<(Duration, Option<Duration>), ServeError> {
    let used = || {
        let looked = process.map(cpu_time).transpose();
        looked.map_err(ServeError::system("see what the server has used"))
    };
    let before = used()?;
    let start = Instant::now();
    let mut connection = Connection::open(&target.url, Some(target.trust))?;
    let head = connection.download(&target.url, &mut |_| {})?;
    let took = start.elapsed();
    if head.length != bytes {
        return Err(ServeError::Changed {
            before: bytes,
            after: head.length,
        });
    }
    let used = used()?
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    Ok((took, used))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Machine;
    use crate::web::Suite;
    use crate::web::testing::{answer, server};

    fn measured(rounds: usize, stop_after: usize) -> (Outcome, crate::Report) {
        let plan = Plan::Theirs {
            urls: vec![
                server(answer(&[1; 100_000]), 99),
                server(answer(&[2; 5000]), 99),
            ],
            trust: Trust::in_anyone(None).unwrap(),
        };
        let mut study = Study::new(Machine::default(), rounds);
        let mut steps = 0;
        let outcome = measure(&plan, &mut study, &mut |_| {
            steps += 1;
            match steps > stop_after {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        (outcome.unwrap(), study.finish())
    }

    #[test]
    fn two_urls_are_compared_in_turn() {
        let (outcome, report) = measured(4, 100);
        assert_eq!(report.ratios[0].name, "serve_url2_vs_url1");
        assert_eq!(report.results.len(), 2);
        assert!(report.results.iter().all(|one| one.samples.len() == 4));
        assert_eq!(outcome.places[0].bytes, 100_000);
        let text = outcome.text();
        assert!(
            text.contains("\nx   4") && text.contains("\n+   4"),
            "{text}"
        );
    }

    #[test]
    fn an_interruption_keeps_whole_rounds() {
        let (outcome, report) = measured(9, 2 * 3 + 1);
        assert!(report.results.iter().all(|one| one.samples.len() == 3));
        assert!(outcome.places.iter().all(|place| place.rates.len() == 3));
    }

    #[test]
    fn a_program_that_does_not_serve_is_named() {
        let plan = Plan::Ours(Ours {
            program: PathBuf::from("/bin/false"),
            content: Content::Made { bytes: 1000 },
            suite: Suite::Aes256,
        });
        let mut study = Study::new(Machine::default(), 1);
        let error = measure(&plan, &mut study, &mut |_| ControlFlow::Continue(()));
        let said = error.unwrap_err().to_string();
        assert!(said.contains("ended without a word"), "{said}");
    }
}
