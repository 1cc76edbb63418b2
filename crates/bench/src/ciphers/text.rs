//! An outcome for a terminal: cryptsetup's table, all figures, a chart, and what to choose instead.

use std::fmt::Write as _;

use super::{Direction, Load, Outcome, RecordRow, Row, Speed, Speeds};
use crate::chart::{Ink, chart};

/// Said of every AES: its block is short, however long its key is.
const BIRTHDAY: &str = "\
Birthday bound: AES has blocks of 128 bits, so that among the 2^46 blocks of 1 PiB under one key two
are alike with a chance of 2^-37, and four times that with each doubling: divide larger volumes.
";

/// Above the columns of [`Outcome::detail`].
const COLUMNS: &str = "\
# sector     512 B   4 KiB  64 KiB   1 MiB   512 B   4 KiB  64 KiB   1 MiB  limit
";

impl Outcome {
    /// Returns whether there is not one figure of a cipher.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let rows = self.rows.iter().flat_map(|row| row.speeds);
        let records = self.records.iter().flat_map(|row| row.speeds);
        rows.chain(records).all(|speed| speed.is_none())
    }

    /// The table of `cryptsetup benchmark`: 64 KiB a call from the cache, in the largest sectors.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let largest = self.rows.iter().map(|row| row.sector_size).max();
        let mut pairs = self.pairs();
        pairs.retain(|(row, _)| Some(row.sector_size) == largest);
        let labels = pairs.iter().map(|(row, _)| row.marked());
        let width = labels.map(|label| label.len()).max().unwrap_or(0).max(15);
        let mut text = format!(
            "{:<width$} |       Key |      Encryption |      Decryption\n",
            "#     Algorithm"
        );
        for (encrypt, decrypt) in pairs {
            let key = format!("{}b", encrypt.key_bits);
            let rate = |row: &Row| match row.usual() {
                Some(rate) => format!("{rate:.1} MB/s"),
                None => "N/A".to_owned(),
            };
            let (label, there, back) = (encrypt.marked(), rate(encrypt), rate(decrypt));
            let _ = writeln!(text, "{label:>width$}{key:>12}{there:>18}{back:>18}");
        }
        text
    }

    /// Every figure: MB/s and below cycles a byte, by bytes a call and by where the data is; what part
    /// of the limit that is; and the references.
    #[must_use]
    pub fn detail(&self) -> String {
        let place = match self.cpu {
            Some(cpu) => format!("processor {cpu}"),
            None => "one thread".to_owned(),
        };
        let cold = format!("cold, from {} MiB of memory", self.cold_bytes >> 20);
        let mut text = format!(
            "# MB/s, and below them cycles a byte of the core, by bytes a call, in place on {place};\n\
             # limit: what part of this processor's AES limit 64 KiB a call from the cache are.\n\
             #           {:<32}{cold}\n{COLUMNS}",
            "hot, from the cache"
        );
        let same = |a: &Row, b: &Row| a.describe() == b.describe();
        for rows in self.rows.chunk_by(same) {
            let [first, ..] = rows else { continue };
            let _ = writeln!(text, "{}", first.describe());
            for row in rows {
                let label = label(row.sector_size, row.direction);
                text.push_str(&figures(&label, &row.speeds, row.of_limit));
            }
        }
        let same = |a: &RecordRow, b: &RecordRow| (a.key_bits, a.code) == (b.key_bits, b.code);
        for rows in self.records.chunk_by(same) {
            let [first, ..] = rows else { continue };
            let (bits, code) = (first.key_bits, first.code);
            let _ = writeln!(text, "aes-gcm, records, {bits}-bit key, by {code}");
            for row in rows {
                let label = label(row.bytes, row.direction);
                text.push_str(&figures(&label, &row.speeds, row.of_limit));
            }
        }
        text.push_str(&figures("memcpy", &self.memcpy, None));
        for limit in &self.limits {
            let Some(Speed { rate, cycles }) = limit.speed else {
                continue;
            };
            let cycles = cycles.map_or(String::new(), |c| format!(", {c:.3} cycles a byte"));
            let _ = writeln!(text, "AES-{} limit: {rate:.0} MB/s{cycles}", limit.bits);
        }
        text
    }

    /// A bar for each cipher, the slower direction of 64 KiB a call from the cache, beside the
    /// references.
    #[must_use]
    pub fn chart(&self, width: usize, ink: Ink) -> String {
        let mut bars = Vec::new();
        let memcpy = self.memcpy[Load::USUAL].map(|speed| speed.rate);
        bars.extend(memcpy.map(|rate| ("memcpy".to_owned(), rate)));
        let limits = self.limits.iter();
        bars.extend(limits.filter_map(|l| Some((format!("AES-{} limit", l.bits), l.speed?.rate))));
        let references = bars.len();
        for (encrypt, decrypt) in self.pairs() {
            // A null cipher has no rate to show.
            if let (Some(there), Some(back), false) =
                (encrypt.usual(), decrypt.usual(), encrypt.spec.is_null())
            {
                let (bits, sector) = (encrypt.key_bits, encrypt.sector_size);
                let label = format!("{} {bits}b {sector} B", encrypt.label());
                bars.push((label, there.min(back)));
            }
        }
        if bars.len() == references {
            return String::new();
        }
        format!(
            "# MB/s by cipher, key and sector: 64 KiB from the cache, the slower direction\n{}",
            chart(&bars, width, ink)
        )
    }

    /// One sentence for each cipher that should not be chosen where the choice is free, and the bound that all share.
    #[must_use]
    pub fn notes(&self) -> String {
        let mut specs: Vec<_> = self.rows.iter().map(|row| &row.spec).collect();
        specs.dedup();
        let mut text = String::new();
        for spec in &specs {
            if let Some(weakness) = spec.weakness() {
                let _ = writeln!(text, "* unwise: {spec}: {weakness}.");
            }
        }
        if specs.iter().any(|spec| spec.cipher() == "aes") {
            text.push_str(BIRTHDAY);
        }
        text
    }

    /// The rows that go together, encryption and decryption.
    fn pairs(&self) -> Vec<(&Row, &Row)> {
        let pairs = self.rows.as_chunks::<2>().0;
        pairs.iter().map(|[there, back]| (there, back)).collect()
    }
}

impl Row {
    /// MB/s of the load that stands for the cipher.
    fn usual(&self) -> Option<f64> {
        Some(self.speeds[Load::USUAL]?.rate)
    }

    /// The specification, and the driver where that was asked for.
    fn label(&self) -> String {
        if self.driver_was_asked_for {
            format!("{} {}", self.spec, self.driver)
        } else {
            self.spec.to_string()
        }
    }

    /// Label of the cipher, with a mark where it is unwise.
    fn marked(&self) -> String {
        let mark = if self.spec.weakness().is_some() {
            "* "
        } else {
            ""
        };
        format!("{mark}{}", self.label())
    }

    /// Names cipher, key size and driver, without sectors and direction.
    fn describe(&self) -> String {
        let Self {
            spec,
            key_bits,
            driver,
            ..
        } = self;
        format!("{spec}, {key_bits}-bit key, by {driver}")
    }
}

/// The length of a sector or record, and the direction.
fn label(bytes: usize, direction: Direction) -> String {
    let way = match direction {
        Direction::Encrypt => "enc",
        Direction::Decrypt => "dec",
    };
    format!("{bytes:>6} {way}")
}

/// A line of [`Outcome::detail`] with rates, and below one with cycles where there are any.
fn figures(label: &str, speeds: &Speeds, of_limit: Option<f64>) -> String {
    let rates = speeds.map(|speed| speed.map(|speed| whole(speed.rate)));
    let cycles = speeds.map(|speed| Some(format!("{:.3}", speed?.cycles?)));
    let of_limit = of_limit.map_or(String::new(), |part| format!("{:.0} %", part * 100.0));
    let mut text = String::new();
    for (label, cells, last) in [(label, rates, of_limit.as_str()), ("", cycles, "")] {
        let mut line = format!("{label:<10}");
        for cell in &cells {
            let _ = write!(line, "{:>8}", cell.as_deref().unwrap_or_default());
        }
        let _ = write!(line, "{last:>7}");
        let line = line.trim_end();
        if !line.is_empty() {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// A rate without decimals; with a power of ten where it is that of doing nothing.
fn whole(rate: f64) -> String {
    if rate < 1e7 {
        format!("{rate:.0}")
    } else {
        format!("{rate:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limit;
    use super::*;

    fn speed(rate: f64) -> Option<Speed> {
        Some(Speed {
            rate,
            cycles: Some(2000.0 / rate),
        })
    }

    fn row(spec: &str, sector_size: usize, direction: Direction, rate: f64) -> Row {
        let mut speeds = [0.5, 1.0, 2.0, 2.0, 0.5, 1.0, 1.5, 1.5].map(|part| speed(rate * part));
        if sector_size > 512 {
            (speeds[0], speeds[4]) = (None, None);
        }
        Row {
            spec: spec.parse().unwrap(),
            key_bits: 256,
            driver: "some-driver",
            driver_was_asked_for: false,
            sector_size,
            direction,
            speeds,
            of_limit: Some(0.624),
        }
    }

    fn outcome() -> Outcome {
        let mut rows = Vec::new();
        for spec in ["aes-xts-plain64", "aes-ecb"] {
            for sector in [512, 4096] {
                rows.push(row(spec, sector, Direction::Encrypt, sector as f64));
                rows.push(row(spec, sector, Direction::Decrypt, 4000.0));
            }
        }
        Outcome {
            rows,
            records: Vec::new(),
            memcpy: [25e3, 40e3, 50e3, 25e3, 8e3, 9e3, 9e3, 9e3].map(speed),
            limits: vec![Limit {
                bits: 128,
                speed: speed(24_000.0),
            }],
            cold_bytes: 256 << 20,
            cpu: Some(1),
        }
    }

    #[test]
    fn the_table_of_cryptsetup() {
        let wanted = "\
#     Algorithm |       Key |      Encryption |      Decryption
aes-xts-plain64        256b       8192.0 MB/s       8000.0 MB/s
      * aes-ecb        256b       8192.0 MB/s       8000.0 MB/s
";
        assert_eq!(outcome().summary(), wanted);
    }

    #[test]
    fn all_figures() {
        let wanted = "\
# MB/s, and below them cycles a byte of the core, by bytes a call, in place on processor 1;
# limit: what part of this processor's AES limit 64 KiB a call from the cache are.
#           hot, from the cache             cold, from 256 MiB of memory
# sector     512 B   4 KiB  64 KiB   1 MiB   512 B   4 KiB  64 KiB   1 MiB  limit
aes-xts-plain64, 256-bit key, by some-driver
   512 enc     256     512    1024    1024     256     512     768     768   62 %
             7.812   3.906   1.953   1.953   7.812   3.906   2.604   2.604
   512 dec    2000    4000    8000    8000    2000    4000    6000    6000   62 %
             1.000   0.500   0.250   0.250   1.000   0.500   0.333   0.333
  4096 enc            4096    8192    8192            4096    6144    6144   62 %
                     0.488   0.244   0.244           0.488   0.326   0.326
  4096 dec            4000    8000    8000            4000    6000    6000   62 %
                     0.500   0.250   0.250           0.500   0.333   0.333
memcpy       25000   40000   50000   25000    8000    9000    9000    9000
             0.080   0.050   0.040   0.080   0.250   0.222   0.222   0.222
AES-128 limit: 24000 MB/s, 0.083 cycles a byte
";
        let mut outcome = outcome();
        outcome.rows.truncate(4);
        assert_eq!(outcome.detail(), wanted);
    }

    #[test]
    fn figures_of_records() {
        let wanted = "\
aes-gcm, records, 128-bit key, by some-driver
 16384 enc                    8192    8192                    6144    6144   62 %
                             0.244   0.244                   0.326   0.326
 16384 dec                    4000    4000                                   62 %
                             0.500   0.500
";
        let mut outcome = outcome();
        outcome.rows.clear();
        let row = |direction, speeds: [f64; 4]| RecordRow {
            key_bits: 128,
            code: "some-driver",
            bytes: 16384,
            direction,
            speeds: [2, 3, 6, 7].into_iter().zip(speeds).fold(
                [None; Load::COUNT],
                |mut all, (load, rate)| {
                    all[load] = speed(rate).filter(|_| rate > 0.0);
                    all
                },
            ),
            of_limit: Some(0.624),
        };
        outcome.records = vec![
            row(Direction::Encrypt, [8192.0, 8192.0, 6144.0, 6144.0]),
            row(Direction::Decrypt, [4000.0, 4000.0, 0.0, 0.0]),
        ];
        assert!(outcome.detail().contains(wanted), "{}", outcome.detail());
    }

    #[test]
    fn a_chart_shows_the_slower_direction() {
        let wanted = "\
# MB/s by cipher, key and sector: 64 KiB from the cache, the slower direction
memcpy                       ####################  50000
AES-128 limit                ##########            24000
aes-xts-plain64 256b 512 B   #                      1024
aes-xts-plain64 256b 4096 B  ####                   8000
aes-ecb 256b 512 B           #                      1024
aes-ecb 256b 4096 B          ####                   8000
";
        assert_eq!(outcome().chart(56, Ink::Ascii), wanted);
    }

    #[test]
    fn what_is_unwise_has_a_mark_and_a_sentence() {
        let notes = outcome().notes();
        let lines: Vec<_> = notes.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("* unwise: aes-ecb: ECB encrypts equal blocks alike"));
        assert!(lines[1].starts_with("Birthday bound: "));
    }

    #[test]
    fn what_was_not_measured_is_not_shown() {
        let mut outcome = outcome();
        for row in &mut outcome.rows {
            row.speeds = [None; Load::COUNT];
        }
        assert!(
            outcome
                .summary()
                .ends_with("               N/A               N/A\n")
        );
        assert_eq!(outcome.chart(80, Ink::Blocks), "");
        assert!(outcome.is_empty());
    }

    #[test]
    fn without_a_clock_there_are_no_cycles() {
        let speeds = [Some(Speed {
            rate: 3e9,
            cycles: None,
        }); Load::COUNT];
        let wanted = format!("null      {}\n", "   3.0e9".repeat(Load::COUNT));
        assert_eq!(figures("null", &speeds, None), wanted);
    }
}
