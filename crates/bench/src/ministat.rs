//! The statistic of a report that was made with `ministat(1)`, to compare with its figures.
//!
//! It stands apart from the one statistic of this crate ([`crate::stat`]) and decides nothing here: means
//! are moved by a single slow run, and two sets that were not measured in turn meet two machines. What it
//! prints is what Debian's `ministat` prints of the same figures, without the plot: its median of an even
//! number is the upper one of the two in the middle.

use std::fmt;

/// Degrees of freedom in ministat's table of Student's t.
const TABLE: usize = 100;
/// Student's t of 95 % confidence for any number of degrees beyond the table.
const T_INFINITE: f64 = 1.960;
/// Fewest figures that ministat takes.
pub const FEWEST: usize = 3;
/// Marks of the sets, in order.
const SYMBOLS: [char; 7] = ['x', '+', '*', '%', '#', '@', 'O'];

/// A set of figures.
#[derive(Clone, Debug)]
pub struct Set {
    /// Name of the set.
    pub name: String,
    /// The figures, of which there should be at least [`FEWEST`].
    pub samples: Vec<f64>,
}

/// Numbers that ministat prints of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vitals {
    /// Number of figures in it.
    pub n: usize,
    /// Least figure of the set.
    pub min: f64,
    /// Greatest figure of the set.
    pub max: f64,
    /// The figure in the middle, or the upper one of two.
    pub median: f64,
    /// Mean of the figures.
    pub avg: f64,
    /// The standard deviation of the sample.
    pub stddev: f64,
}

/// Difference of the means of two sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The second mean less the first.
    pub of: f64,
    /// Half the width of the 95 % confidence interval around `of`.
    pub give_or_take: f64,
    /// Mean of the first set.
    base: f64,
    pooled: f64,
}

impl Set {
    /// Computes the numbers of the set; `None` for fewer than [`FEWEST`] figures.
    #[must_use]
    pub fn vitals(&self) -> Option<Vitals> {
        let n = self.samples.len();
        if n < FEWEST {
            return None;
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let sum: f64 = sorted.iter().sum();
        let avg = sum / n as f64;
        let squares: f64 = sorted.iter().map(|x| (x - avg) * (x - avg)).sum();
        Some(Vitals {
            n,
            min: sorted[0],
            max: sorted[n - 1],
            median: sorted[n / 2],
            avg,
            stddev: (squares / (n - 1) as f64).sqrt(),
        })
    }
}

impl Vitals {
    /// Returns the difference of `self` from `base`, by Student's t.
    #[must_use]
    pub fn difference(&self, base: &Self) -> Difference {
        let degrees = self.n + base.n - 2;
        let squares = |one: &Self| (one.n - 1) as f64 * one.stddev * one.stddev;
        let pooled = ((squares(self) + squares(base)) / degrees as f64).sqrt();
        let spread = pooled * (1.0 / self.n as f64 + 1.0 / base.n as f64).sqrt();
        Difference {
            of: self.avg - base.avg,
            give_or_take: students_t(degrees) * spread,
            base: base.avg,
            pooled,
        }
    }
}

impl Difference {
    /// Returns whether it is more than chance would make of equal sets, 19 times of 20.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.of.abs() > self.give_or_take
    }

    /// Returns the difference and its confidence, in percent of the first mean.
    #[must_use]
    pub fn percent(&self) -> (f64, f64) {
        (
            self.of * 100.0 / self.base,
            self.give_or_take * 100.0 / self.base,
        )
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_proven() {
            return writeln!(f, "No difference proven at 95.0% confidence");
        }
        let six = |value| general(value, 6);
        let (percent, range) = self.percent();
        writeln!(f, "Difference at 95.0% confidence")?;
        writeln!(f, "\t{} +/- {}", six(self.of), six(self.give_or_take))?;
        writeln!(f, "\t{}% +/- {}%", six(percent), six(range))?;
        writeln!(f, "\t(Student's t, pooled s = {})", six(self.pooled))
    }
}

/// The table that ministat prints of `sets`, without its plot: each set's vitals, and how each but the
/// first differs from the first. Empty where a set has too few figures.
#[must_use]
pub fn table(sets: &[Set]) -> String {
    let vitals: Option<Vec<Vitals>> = sets.iter().map(Set::vitals).collect();
    let Some(vitals) = vitals.filter(|vitals| !vitals.is_empty()) else {
        return String::new();
    };
    let mut text = String::new();
    for (set, symbol) in sets.iter().zip(SYMBOLS) {
        text.push_str(&format!("{symbol} {}\n", set.name));
    }
    text.push_str("    N           Min           Max        Median           Avg        Stddev\n");
    for (one, symbol) in vitals.iter().zip(SYMBOLS) {
        text.push_str(&format!("{symbol} {:3}", one.n));
        for figure in [one.min, one.max, one.median, one.avg, one.stddev] {
            text.push_str(&format!(" {:>13}", general(figure, 8)));
        }
        text.push('\n');
        if let Some(base) = vitals.first().filter(|base| !std::ptr::eq(*base, one)) {
            text.push_str(&one.difference(base).to_string());
        }
    }
    text
}

/// The two-sided quantile of Student's t for 95 %, with three decimals as ministat's table has it.
fn students_t(degrees: usize) -> f64 {
    if degrees > TABLE {
        return T_INFINITE;
    }
    let (mut low, mut high) = (0.0, 13.0);
    // Sixty halvings leave nothing of the first interval.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if between(middle, degrees) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * 1000.0).round() / 1000.0
}

/// The probability that Student's t lies between `-t` and `t` (Abramowitz and Stegun 26.7.3, 26.7.4).
fn between(t: f64, degrees: usize) -> f64 {
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    let mut power = if odd { 3 } else { 2 };
    while power + 1 < degrees {
        term *= cosine * cosine * (power - 1) as f64 / power as f64;
        sum += term;
        power += 2;
    }
    match odd {
        true => (angle + sine * sum) * std::f64::consts::FRAC_2_PI,
        false => sine * sum,
    }
}

/// Formats as C's `%g` with `digits` digits.
fn general(value: f64, digits: usize) -> String {
    let exponential = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = exponential.split_once('e') else {
        return exponential;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, samples: &[f64]) -> Set {
        Set {
            name: name.to_owned(),
            samples: samples.to_vec(),
        }
    }

    /// As Debian's ministat printed it.
    #[test]
    fn the_table_is_ministats() {
        let one = set("a", &[1.0, 2.0, 3.0, 4.0]);
        let ten = set("b", &[10.0, 20.0, 30.0, 40.0]);
        let wanted = "\
x a
+ b
    N           Min           Max        Median           Avg        Stddev
x   4             1             4             3           2.5     1.2909944
+   4            10            40            30            25     12.909944
Difference at 95.0% confidence
\t22.5 +/- 15.8741
\t900% +/- 634.964%
\t(Student's t, pooled s = 9.17424)
";
        assert_eq!(table(&[one.clone(), ten.clone()]), wanted);
        let third = set("c", &[11.0, 12.0, 13.5, 40.0, 50.0]);
        let text = table(&[ten, third]);
        assert!(text.ends_with("18.349387\nNo difference proven at 95.0% confidence\n"));
        assert_eq!(table(&[one, set("d", &[1.0, 2.0])]), "");
    }

    #[test]
    fn students_t_is_that_of_the_tables() {
        for (degrees, wanted) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (10, 2.228),
            (18, 2.101),
            (30, 2.042),
            (99, 1.984),
            (100, 1.984),
            (101, 1.96),
        ] {
            assert_eq!(students_t(degrees), wanted, "{degrees}");
        }
    }

    #[test]
    fn figures_are_printed_as_c_does() {
        for (value, digits, wanted) in [
            (0.0, 8, "0"),
            (555_616.0, 8, "555616"),
            (554_282.739_9, 8, "554282.74"),
            (-37_320.74, 6, "-37320.7"),
            (1_234_567.0, 6, "1.23457e+06"),
            (999_999.96, 6, "1e+06"),
            (0.000_012_3, 6, "1.23e-05"),
            (0.535_761, 6, "0.535761"),
            (100.0, 6, "100"),
        ] {
            assert_eq!(general(value, digits), wanted);
        }
    }
}
