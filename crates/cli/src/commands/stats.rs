//! `scrim stats NAME`: shows request counts and latencies.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::StatsArgs;
use crate::error::CliError;
use crate::nbd::control::{Client, Figures, Times, Traffic};
use crate::nbd::prometheus;
use crate::nbd::runtime::RuntimeDir;
use crate::terminal::{Cursor, print, print_json, print_over};

pub(crate) fn run(args: &StatsArgs) -> Result<(), CliError> {
    if let Some(seconds) = args.watch {
        return watch(args, Duration::from_secs_f64(seconds));
    }
    let figures = client(args)?.figures()?;
    if args.json {
        return print_json(&figures);
    }
    if args.prometheus {
        return print(prometheus::text(&figures).as_bytes());
    }
    print(describe(&figures, None).as_bytes())
}

fn client(args: &StatsArgs) -> Result<Client, CliError> {
    Client::connect(&RuntimeDir::locate(), &args.name)
}

/// Prints figures until the volume is closed, the reader has gone, or the command is interrupted.
fn watch(args: &StatsArgs, interval: Duration) -> Result<(), CliError> {
    let redraws = io::stdout().is_terminal() && !args.json;
    let mut before: Option<(Instant, Figures)> = None;
    let mut drawn = 0;
    loop {
        let figures = client(args)?.figures()?;
        let now = Instant::now();
        let since = before.as_ref();
        let since = since.map(|(then, figures)| (now.duration_since(*then), figures));
        let mut cursor = Cursor::Stay;
        let text = if args.json {
            let line = serde_json::to_string(&figures)
                .map_err(|error| CliError::io("write JSON", &error.into()))?;
            format!("{line}\n")
        } else if redraws {
            let text = describe(&figures, since);
            cursor = Cursor::EraseLines(drawn);
            drawn = text.lines().count();
            text
        } else {
            since
                .map(|since| rates(&figures, since))
                .unwrap_or_default()
        };
        if !print_over(cursor, text.as_bytes())? {
            return Ok(());
        }
        before = Some((now, figures));
        thread::sleep(interval);
    }
}

/// Describes the work since the figures in `before`, in one line.
fn rates(now: &Figures, (time, before): (Duration, &Figures)) -> String {
    let mut text = String::new();
    let directions = now.directions().into_iter().zip(before.directions());
    for (place, ((name, now), (_, before))) in directions.enumerate() {
        let between = if place > 0 { "; " } else { "" };
        let _ = write!(
            text,
            "{between}{name}s: {}, {} in flight, p50 {}, p99 {}",
            rate(now, before, time),
            now.in_flight,
            duration(now.latency.p50_ns),
            duration(now.latency.p99_ns)
        );
    }
    text + "\n"
}

#[allow(clippy::cast_precision_loss, reason = "shown with few digits")]
fn rate(now: &Traffic, before: &Traffic, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    format!(
        "{:.0}/s, {:.1} MiB/s",
        per_second(now.requests, before.requests),
        per_second(now.bytes, before.bytes) / f64::from(1 << 20)
    )
}

fn describe(figures: &Figures, since: Option<(Duration, &Figures)>) -> String {
    let (read, write) = (&figures.read, &figures.write);
    let state = if figures.suspended { ", SUSPENDED" } else { "" };
    let mut text = format!(
        "{}, since it was opened; tables exchanged: {}{state}\n",
        figures.name, figures.exchanges
    );
    row(&mut text, "", ["reads".to_owned(), "writes".to_owned()]);
    let mut counts = |label: &str, of: fn(&Traffic) -> String| {
        row(&mut text, label, [of(read), of(write)]);
    };
    counts("requests", |traffic| traffic.requests.to_string());
    counts("failed", |traffic| traffic.failed.to_string());
    counts("in flight", |traffic| traffic.in_flight.to_string());
    counts("bytes", |traffic| traffic.bytes.to_string());
    counts("hand-overs", |traffic| {
        format!("{:.2} a request", traffic.handovers_per_request)
    });
    counts("copied", |traffic| {
        format!("{:.2} a byte", traffic.copied_per_byte)
    });
    counts("split", |traffic| traffic.split.to_string());
    if let Some((time, before)) = since {
        let rates = [
            rate(read, &before.read, time),
            rate(write, &before.write, time),
        ];
        row(&mut text, "now", rates);
    }
    let _ = writeln!(
        text,
        "  time, of one request in {:<12}{:>9}{:>9}{:>9}{:>9}",
        figures.timed_one_in, "p50", "p99", "p99.9", "max"
    );
    for (direction, traffic) in figures.directions() {
        for (stage, times) in traffic.stages() {
            let label = match stage {
                "total" => format!("{direction}s ({})", times.count),
                stage => format!("  {stage}"),
            };
            times_row(&mut text, &label, times);
        }
    }
    text
}

fn row(text: &mut String, label: &str, [read, write]: [String; 2]) {
    let label = match label {
        "" => String::new(),
        label => format!("{label}:"),
    };
    let _ = writeln!(text, "  {label:<13}{read:>24}{write:>24}");
}

fn times_row(text: &mut String, label: &str, times: &Times) {
    let shown = [times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns];
    let _ = write!(text, "    {label:<34}");
    for nanos in shown {
        let shown = match times.count {
            0 => "-".to_owned(),
            _ => duration(nanos),
        };
        let _ = write!(text, "{shown:>9}");
    }
    text.push('\n');
}

/// A duration in three digits.
#[allow(clippy::cast_precision_loss, reason = "shown with few digits")]
fn duration(nanos: u64) -> String {
    let nanos = nanos as f64;
    let (value, unit) = match nanos {
        n if n < 1e3 => return format!("{n:.0} ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (nanos, shown) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (12_345, "12.3 µs"),
            (123_456, "123 µs"),
            (9_996_000, "10.0 ms"),
            (2_500_000_000, "2.50 s"),
        ] {
            assert_eq!(duration(nanos), shown);
        }
    }
}
