//! Measures the cost of TLS when a file is served, as a report of 2021 has measured it for nginx: one file of
//! 1 GB from the page cache, downloaded again and again by one client over loopback.
//!
//! [`measure`] downloads from two places in turn: the program's own `scrim serve`, plain and over TLS, or
//! URLs of the user's. Each download is a new connection, as with `curl`, and is timed from before it is
//! made to the last byte. Series are named `serve_PLACE` for MB/s and `serve_PLACE_cpu` for the server's CPU
//! seconds per GB, where it is a process of ours; places are `http` and `tls`, or `url1` and `url2`. The
//! ratio `serve_tls_vs_http` is what TLS leaves of the plain rate, `serve_cpu_tls_vs_http` the same of
//! processor time; `serve_url2_vs_url1` compares what was given.

pub mod latency;
mod outcome;
mod page;
mod server;

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use outcome::{Outcome, Place};
pub use page::page;

use self::server::Server;
use crate::process::cpu_time;
use crate::web::{Connection, Suite, Trust, Url, WebError};
use crate::{Better, Progress, SeriesId, Study, Watch, turns};

/// Name of the file.
const NAME: &str = "file";

/// Downloads by default, as in the report.
pub const DOWNLOADS: usize = 10;

/// Servers to download from.
pub enum Plan {
    /// A server of ours, plain and over TLS.
    Ours(Ours),
    /// Servers of the user's, at most [`Plan::MOST`].
    Theirs {
        /// URLs of the files, of which each is downloaded.
        urls: Vec<Url>,
        /// Certificates that the client believes.
        trust: Trust,
    },
}

/// A server of ours.
pub struct Ours {
    /// The program that serves, `scrim`.
    pub program: PathBuf,
    /// File that is served.
    pub content: Content,
    /// The one suite of TLS 1.3.
    pub suite: Suite,
}

/// A file that is served: made for the measurement, or the user's.
pub enum Content {
    /// A file that is made in memory.
    Made {
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// A file of the user's, by its absolute path. Nothing else of its folder is served.
    Users(PathBuf),
}

impl Plan {
    /// Most URLs that are compared.
    pub const MOST: usize = 2;
}

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

/// Reasons for which nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// A server was not reached, or not understood.
    Web(WebError),
    /// Something that is needed beside the server failed.
    System {
        /// In words, to follow "cannot".
        doing: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The program did not serve.
    Server {
        /// Words of the program.
        said: String,
    },
    /// A program that is needed is not there.
    Missing {
        /// Name of the program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// There is too little memory for the file.
    Room {
        /// Bytes of the file.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file is empty.
    Empty,
    /// The file has changed while it was measured.
    Changed {
        /// Length of the file at first, in bytes.
        before: u64,
        /// Length of the file later, in bytes.
        after: u64,
    },
}

impl ServeError {
    fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(error) => error.fmt(f),
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
            Self::Server { said } => write!(
                f,
                "the server to measure did not serve: {said}; `--url` measures one that runs already"
            ),
            Self::Missing { program, package } => write!(
                f,
                "a file system for the volume is made by {program}, which is not there; install it (Debian \
                 package {package}), or compare without a volume"
            ),
            Self::Room { wanted, free } => write!(
                f,
                "a file of {wanted} bytes does not fit into memory, of which {free} bytes are free; give a \
                 smaller --size, or a FILE"
            ),
            Self::Empty => {
                f.write_str("the file is empty; give one that takes a while, such as 1 GB")
            }
            Self::Changed { before, after } => write!(
                f,
                "the file had {before} bytes and then {after}; measure one that does not change"
            ),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Web(error) => Some(error),
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<WebError> for ServeError {
    fn from(error: WebError) -> Self {
        Self::Web(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
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
