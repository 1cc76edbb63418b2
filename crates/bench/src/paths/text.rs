//! An outcome for a terminal.

use std::fmt::Write as _;

use super::load::Workload;
use super::outcome::{AutoCell, Outcome, Row, Switching, Venue};
use super::setup::Cipher;
use crate::chart::{Ink, chart};

/// Least width of the column of names.
const NAMES: usize = 30;
/// Figures of the time series that a terminal shows.
const SHOWN: usize = 24;

/// Explanation of the bounds.
const BOUND: &str = "\
# allowed: plain x cipher / (plain + cipher), of reads and writes together, since both wait for both.
";
/// Explanation of the bound by the arithmetic of the report of 2020.
const ONE_DIRECTION: &str = "\
# By the report of 2020, which puts one direction's plain rate in that place, it would be";

impl Outcome {
    /// Table of each set-up of a venue: MB/s, latencies and, where they are known, hand-overs.
    #[must_use]
    pub fn table(&self, venue: Venue) -> String {
        let workloads = self.workloads_of(venue);
        if workloads.is_empty() {
            return String::new();
        }
        let known = self
            .rows
            .iter()
            .any(|row| row.venue == venue && row.handovers.is_some());
        let extra = if known { "; hand-overs a request" } else { "" };
        let names = self.name_width(venue);
        let heading = names - 2;
        let mut text = format!(
            "# {}: MB/s, and mean and p99 latency in us{extra}\n# {:<heading$}",
            capital(venue.words()),
            ""
        );
        let width = if known { 33 } else { 27 };
        for workload in &workloads {
            let _ = write!(text, "{:>width$}", workload.name());
        }
        let _ = write!(text, "\n# {:<heading$}", "set-up");
        for _ in &workloads {
            let _ = write!(text, "{:>9}{:>9}{:>9}", "MB/s", "mean", "p99");
            if known {
                let _ = write!(text, "{:>6}", "hand");
            }
        }
        text.push('\n');
        let rows: Vec<Vec<&Row>> = workloads
            .iter()
            .map(|&workload| self.rows_of(venue, workload))
            .collect();
        for (index, first) in rows[0].iter().enumerate() {
            let _ = write!(text, "{:<names$}", first.contender.name());
            for row in rows.iter().filter_map(|rows| rows.get(index)) {
                text.push_str(&figures(row));
            }
            text.push('\n');
        }
        text.push_str(&self.allowed(venue, width));
        text
    }

    /// Width of the column of names.
    fn name_width(&self, venue: Venue) -> usize {
        let rows = self.rows.iter().filter(|row| row.venue == venue);
        let longest = rows.map(|row| row.contender.name().len()).max();
        longest.map_or(NAMES, |longest| NAMES.max(longest + 2))
    }

    /// One line with the rates that plain requests and the cipher allow together.
    fn allowed(&self, venue: Venue, width: usize) -> String {
        let bounds: Vec<_> = (self.bounds.iter())
            .filter(|(of, ..)| *of == venue)
            .collect();
        let names = self.name_width(venue);
        let mut text = format!("{:<names$}", "allowed with aes");
        for (_, _, both, _) in &bounds {
            let _ = write!(text, "{both:>9.0}{:<rest$}", "", rest = width - 9);
        }
        let mut text = text.trim_end().to_owned() + "\n";
        if let Some((encrypt, decrypt)) = self.cipher {
            let _ = writeln!(
                text,
                "# AES alone: {encrypt:.0} MB/s encrypting, {decrypt:.0} decrypting"
            );
        }
        text.push_str(BOUND);
        let one = bounds.iter().find_map(|(.., one)| *one);
        if let Some(one) = one {
            let _ = writeln!(text, "{ONE_DIRECTION} {one:.0} each way.");
        }
        text
    }

    /// A bar for each set-up with AES, of the last workload: MB/s.
    #[must_use]
    pub fn chart(&self, venue: Venue, width: usize, ink: Ink) -> String {
        let Some(&workload) = self.workloads_of(venue).last() else {
            return String::new();
        };
        let rows = self.rows_of(venue, workload).into_iter();
        let aes = rows.filter(|row| row.contender.cipher == Cipher::Aes);
        let bars: Vec<_> = aes.map(|row| (label(row), row.rate)).collect();
        let (venue, what) = (venue.words(), what(workload));
        format!(
            "# MB/s {venue}, {what}, by what is in the way\n{}",
            chart(&bars, width, ink)
        )
    }

    /// `auto` over the better of the other two.
    #[must_use]
    pub fn auto_table(&self) -> String {
        if self.auto.is_empty() {
            return String::new();
        }
        let mut text =
            "# Auto beside the better of inline and queued of the same round, in process: MB/s\n\
             # size    depth  direction    inline    queued      auto   to the better\n"
                .to_owned();
        for cell in &self.auto {
            let AutoCell {
                block,
                depth,
                workload,
                rates: [inline, queued, auto],
                ratio,
            } = cell;
            let _ = writeln!(
                text,
                "{block:>8}{depth:>7}  {:<9}{inline:>10.0}{queued:>10.0}{auto:>10.0}{ratio:>16.2}",
                workload.name()
            );
        }
        text
    }

    /// One sentence on the latency of short requests beside long ones; empty where that was not measured.
    #[must_use]
    pub fn neighbour_text(&self) -> String {
        self.neighbour.map_or_else(String::new, |one| {
            format!(
                "# Short reads now and then, 99 of 100, on one processor: {:.0} us alone, {:.0} us beside reads \
                 of {} MiB\n",
                one.alone,
                one.beside,
                one.long >> 20
            )
        })
    }

    /// The load while the table is exchanged.
    #[must_use]
    pub fn switching_chart(&self, width: usize, ink: Ink) -> String {
        let Some(switching) = &self.switching else {
            return String::new();
        };
        let Switching {
            bucket,
            rates,
            switches,
            took,
            worst,
            worst_without,
        } = switching;
        let bars = rates.iter().enumerate().take(SHOWN).map(|(index, rate)| {
            let at = index as u64 * u64::from(*bucket);
            let switch = switches.iter().find(|(place, _)| *place == index);
            let word = match switch {
                None => "",
                Some((_, true)) => " to inline",
                Some((_, false)) => " to queued",
            };
            (format!("{at:>5} ms{word}"), *rate)
        });
        let bars: Vec<_> = bars.collect();
        format!(
            "# MB/s in {bucket} ms while the table is exchanged under load\n{}\
             # {} exchanges, each in {took:.0} us; longest request with one {worst:.0} us, without \
             {worst_without:.0} us (medians)\n",
            chart(&bars, width, ink),
            switches.len()
        )
    }
}

fn what(workload: Workload) -> &'static str {
    match workload {
        Workload::Read => "reads",
        Workload::Write => "writes",
        Workload::Mixed => "reads and writes mixed",
    }
}

fn figures(row: &Row) -> String {
    let Row {
        rate,
        mean,
        p99,
        handovers,
        ..
    } = row;
    let handovers = handovers.map_or(String::new(), |count| format!("{count:>6.1}"));
    format!("{rate:>9.0}{mean:>9.1}{p99:>9.1}{handovers}")
}

/// Label of a bar among those with the same cipher.
pub(super) fn label(row: &Row) -> String {
    match row.venue {
        Venue::Device => row.contender.name(),
        _ => row.contender.set_up.name().to_owned(),
    }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{Contender, SetUp};

    fn outcome() -> Outcome {
        let row = |set_up, workload, rate| Row {
            venue: Venue::InProcess,
            contender: Contender::scrim(set_up, Cipher::Aes),
            workload,
            rate,
            mean: 1.25,
            p50: 1.0,
            p99: 9.0,
            handovers: Some(3.0),
        };
        Outcome {
            rows: vec![
                row(SetUp::Plain, Workload::Read, 4000.0),
                row(SetUp::Inline, Workload::Read, 2000.0),
            ],
            bounds: vec![(Venue::InProcess, Workload::Read, 2900.0, None)],
            cipher: Some((9000.0, 9100.0)),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_set_up() {
        let wanted = "\
# In process: MB/s, and mean and p99 latency in us; hand-overs a request
#                                                          read
# set-up                           MB/s     mean      p99  hand
plain                              4000      1.2      9.0   3.0
aes_inline                         2000      1.2      9.0   3.0
allowed with aes                   2900
# AES alone: 9000 MB/s encrypting, 9100 decrypting
# allowed: plain x cipher / (plain + cipher), of reads and writes together, since both wait for both.
";
        assert_eq!(outcome().table(Venue::InProcess), wanted);
        assert_eq!(outcome().table(Venue::Served), "");
        let chart = outcome().chart(Venue::InProcess, 40, Ink::Ascii);
        assert!(chart.lines().count() == 3, "{chart}");
        assert!(outcome().auto_table().is_empty());
        assert!(outcome().switching_chart(80, Ink::Ascii).is_empty());
    }

    #[test]
    fn exchanges_are_marked_in_time() {
        let outcome = Outcome {
            switching: Some(Switching {
                bucket: 50,
                rates: vec![10.0, 20.0],
                switches: vec![(1, true)],
                took: 80.0,
                worst: 900.0,
                worst_without: 700.0,
            }),
            ..Outcome::default()
        };
        let chart = outcome.switching_chart(60, Ink::Ascii);
        assert!(chart.contains("   50 ms to inline  ##"), "{chart}");
        assert!(chart.contains("# 1 exchanges, each in 80 us"), "{chart}");
    }
}
