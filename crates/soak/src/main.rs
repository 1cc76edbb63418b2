//! Histories and operations for as long as there is time: `cargo xtask soak`.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use clap::Parser;
use scrim_soak::{Broken, DATA_OPERATIONS, Effort, OPERATIONS, Tally, history, table};

/// Time between two reports of progress.
const TELL: Duration = Duration::from_secs(10);

/// Run volumes and headers on a simulated disk that loses power and fails, until something breaks
#[derive(Parser)]
#[command(name = "scrim-soak", bin_name = "cargo xtask soak")]
struct Args {
    /// The first history's seed; the next ones count on from it [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stop after so many histories
    #[arg(long, value_name = "N")]
    histories: Option<u64>,
    /// Stop after so many minutes
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Run the history of one seed so often: with threads, each run is another interleaving
    #[arg(long, value_name = "N", requires = "seed", conflicts_with_all = ["histories", "minutes"])]
    repeat: Option<u64>,
    /// Instead of histories, run the operations with this in their name ('' for all)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["histories", "minutes", "repeat"])]
    operation: Option<String>,
    /// Outcomes of each power cut in an operation
    #[arg(long, value_name = "N", default_value_t = 64, requires = "operation")]
    survivors: u64,
    /// Write the tables of docs/crash-safety.md
    #[arg(long, conflicts_with_all = ["seed", "histories", "minutes", "repeat", "operation"])]
    table: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    let done = if args.table {
        write_table()
    } else if let Some(name) = &args.operation {
        let effort = Effort {
            seed,
            survivors: args.survivors,
        };
        run_operations(name, effort).map_err(Into::into)
    } else {
        soak(&args, seed)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Failed = Box<dyn std::error::Error>;

/// A number that is easily typed again.
fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| u64::from(since.subsec_nanos()));
    nanos * 1_000_000
}

fn write_table() -> Result<(), Failed> {
    let page = table::page()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/crash-safety.md");
    std::fs::write(&path, page)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

fn run_operations(name: &str, effort: Effort) -> Result<(), Broken> {
    let Effort { seed, survivors } = effort;
    println!("seed {seed}, {survivors} outcomes of each power cut");
    for operation in OPERATIONS.iter().filter(|one| one.name.contains(name)) {
        println!("{}: {:?}", operation.name, operation.check(effort, None)?);
    }
    for operation in DATA_OPERATIONS.iter().filter(|one| one.name.contains(name)) {
        println!("{}: {:?}", operation.name, operation.check(effort)?);
    }
    Ok(())
}

/// Histories that several threads take from one list.
struct Soak {
    first: u64,
    count: u64,
    /// Every history has the first seed.
    same: bool,
    until: Option<Instant>,
    next: AtomicU64,
    stop: Arc<AtomicBool>,
    tally: Mutex<Tally>,
    broken: Mutex<Option<Broken>>,
}

fn soak(args: &Args, seed: u64) -> Result<(), Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let started = Instant::now();
    let soak = Soak {
        first: seed,
        count: args.repeat.or(args.histories).unwrap_or(u64::MAX),
        same: args.repeat.is_some(),
        until: args
            .minutes
            .map(|minutes| started + Duration::from_secs(minutes.saturating_mul(60))),
        next: AtomicU64::new(0),
        stop,
        tally: Mutex::default(),
        broken: Mutex::default(),
    };
    println!("from seed {seed}");
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| soak.work())).collect();
        let mut told = Instant::now();
        while !workers
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(Duration::from_millis(20));
            if told.elapsed() >= TELL {
                soak.tell(started);
                told = Instant::now();
            }
        }
    });
    soak.tell(started);
    match lock(&soak.broken).take() {
        Some(broken) => Err(broken.into()),
        None => Ok(()),
    }
}

impl Soak {
    fn work(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let over = self.until.is_some_and(|until| Instant::now() >= until);
            if number >= self.count || over || self.stop.load(Ordering::Relaxed) {
                return;
            }
            let further = if self.same { 0 } else { number };
            match history::run(self.first.wrapping_add(further), None) {
                Ok(tally) => lock(&self.tally).add(tally),
                Err(broken) => {
                    self.stop.store(true, Ordering::Relaxed);
                    lock(&self.broken).get_or_insert(broken);
                }
            }
        }
    }

    fn tell(&self, started: Instant) {
        let tally = *lock(&self.tally);
        let seconds = started.elapsed().as_secs().max(1);
        println!(
            "{} histories ({} a second), {} with threads, {} with LUKS; {} volumes on queues, {} tables \
             exchanged; {} requests, of them {} to change a header, {} split, {} failed; {} cuts in the \
             middle, {} disks read after a cut",
            tally.histories,
            tally.histories / seconds,
            tally.threaded,
            tally.luks,
            tally.queued,
            tally.exchanges,
            tally.requests,
            tally.changes,
            tally.split,
            tally.failures,
            tally.cuts,
            tally.survivors
        );
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
