//! `scrim stats NAME`: shows request counts and latencies.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::args::StatsArgs;
use crate::error::CliError;
use crate::kernel::{KernelFigures, KernelTraffic};
use crate::nbd::control::{Client, Figures, Times, Traffic};
use crate::nbd::prometheus;
use crate::nbd::runtime::RuntimeDir;
use crate::running_volume::RunningVolume;
use crate::terminal::{Cursor, print, print_json, print_over};

/// Figures that can be shown once, or again and again with rates.
trait Shown: Serialize + Sized {
    /// Describes the figures, with rates since those in `since`.
    fn describe(&self, since: Option<(Duration, &Self)>) -> String;

    /// Describes the work since the figures in `since`, in one line.
    fn rates(&self, since: (Duration, &Self)) -> String;
}

pub(crate) fn run(args: &StatsArgs) -> Result<(), CliError> {
    match RunningVolume::named(&args.name)? {
        RunningVolume::Scrim(client) if args.prometheus => {
            print(prometheus::text(&client.figures()?).as_bytes())
        }
        RunningVolume::Scrim(client) => {
            // The process hears one client at a time, so this one must not be kept while others connect.
            let mut first = Some(client);
            let connect = || Client::connect(&RuntimeDir::locate(), &args.name);
            show(args, || first.take().map_or_else(connect, Ok)?.figures())
        }
        RunningVolume::Kernel(_) if args.prometheus => Err(CliError::usage(format!(
            "{}: the kernel runs it, and Prometheus's node_exporter has its figures (node_disk_*); leave --prometheus out",
            args.name.as_str()
        ))),
        RunningVolume::Kernel(volume) => show(args, || volume.figures()),
    }
}

fn show<T: Shown>(
    args: &StatsArgs,
    figures: impl FnMut() -> Result<T, CliError>,
) -> Result<(), CliError> {
    let mut figures = figures;
    match args.watch {
        Some(seconds) => watch(args, Duration::from_secs_f64(seconds), figures),
        None if args.json => print_json(&figures()?),
        None => print(figures()?.describe(None).as_bytes()),
    }
}

/// Prints figures until the volume is closed, the reader has gone, or the command is interrupted.
fn watch<T: Shown>(
    args: &StatsArgs,
    interval: Duration,
    mut figures: impl FnMut() -> Result<T, CliError>,
) -> Result<(), CliError> {
    let redraws = io::stdout().is_terminal() && !args.json;
    let mut before: Option<(Instant, T)> = None;
    let mut drawn = 0;
    loop {
        let figures = figures()?;
        let now = Instant::now();
        let since = before.as_ref();
        let since = since.map(|(then, figures)| (now.duration_since(*then), figures));
        let mut cursor = Cursor::Stay;
        let text = if args.json {
            let line = serde_json::to_string(&figures)
                .map_err(|error| CliError::io("write JSON", &error.into()))?;
            format!("{line}\n")
        } else if redraws {
            let text = figures.describe(since);
            cursor = Cursor::EraseLines(drawn);
            drawn = text.lines().count();
            text
        } else {
            since.map(|since| figures.rates(since)).unwrap_or_default()
        };
        if !print_over(cursor, text.as_bytes())? {
            return Ok(());
        }
        before = Some((now, figures));
        thread::sleep(interval);
    }
}

impl Shown for Figures {
    fn describe(&self, since: Option<(Duration, &Self)>) -> String {
        describe(self, since)
    }

    fn rates(&self, since: (Duration, &Self)) -> String {
        rates(self, since)
    }
}

impl Shown for KernelFigures {
    fn describe(&self, since: Option<(Duration, &Self)>) -> String {
        let state = if self.suspended { ", SUSPENDED" } else { "" };
        let mut text = format!(
            "{}, run by the kernel, since it was opened{state}\n  {:<13}{:>14}{:>18}{:>12}{:>24}\n",
            self.name, "", "requests", "bytes", "mean", "now"
        );
        let before = since.map(|(time, before)| (time, before.kinds()));
        for (index, (kind, traffic)) in self.kinds().into_iter().enumerate() {
            let mean = traffic
                .mean_ms()
                .map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2} ms"));
            let now = before.as_ref().map_or_else(String::new, |(time, kinds)| {
                kernel_rate(traffic, kinds[index].1, *time)
            });
            let KernelTraffic {
                requests, bytes, ..
            } = traffic;
            let _ = writeln!(
                text,
                "  {:<13}{requests:>14}{bytes:>18}{mean:>12}{now:>24}",
                format!("{kind}:")
            );
        }
        let _ = writeln!(
            text,
            "  {:<13}{}\n  {:<13}{} ms\n  not known of the kernel's engine: {}",
            "in flight:",
            self.in_flight,
            "busy:",
            self.busy_ms,
            self.not_known.join("; ")
        );
        text
    }

    fn rates(&self, (time, before): (Duration, &Self)) -> String {
        let kinds = self.kinds().into_iter().zip(before.kinds());
        let parts: Vec<String> = kinds
            .take(2)
            .map(|((kind, now), (_, before))| format!("{kind}: {}", kernel_rate(now, before, time)))
            .collect();
        format!("{}; {} in flight\n", parts.join("; "), self.in_flight)
    }
}

fn kernel_rate(now: &KernelTraffic, before: &KernelTraffic, time: Duration) -> String {
    rate(
        now.requests.saturating_sub(before.requests),
        now.bytes.saturating_sub(before.bytes),
        time,
    )
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
            traffic_rate(now, before, time),
            now.in_flight,
            duration(now.latency.p50_ns),
            duration(now.latency.p99_ns)
        );
    }
    text + "\n"
}

fn traffic_rate(now: &Traffic, before: &Traffic, time: Duration) -> String {
    rate(
        now.requests.saturating_sub(before.requests),
        now.bytes.saturating_sub(before.bytes),
        time,
    )
}

/// Describes the rate of requests and bytes in a time.
#[allow(clippy::cast_precision_loss, reason = "shown with few digits")]
fn rate(requests: u64, bytes: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    format!(
        "{:.0}/s, {:.1} MiB/s",
        requests as f64 / seconds,
        bytes as f64 / seconds / f64::from(1 << 20)
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
            traffic_rate(read, &before.read, time),
            traffic_rate(write, &before.write, time),
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
