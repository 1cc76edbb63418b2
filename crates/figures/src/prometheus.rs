//! Prometheus's text format, version 0.0.4, which programs fetch over HTTP.

use std::fmt::{self, Display, Write as _};

/// Path at which programs look for figures.
pub const PATH: &str = "/metrics";
/// Value of `Content-Type` for a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only rises.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Counts of values up to some bounds, each with those below it.
    Histogram,
    /// Quantiles of values, which the program itself calculates.
    Summary,
}

/// Labels of a sample, in order: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics under construction.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// A metric on a page, to which samples are added.
#[derive(Debug)]
pub struct Metric<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

impl Page {
    /// A page without a metric yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a metric. All its samples follow before the next metric begins.
    pub fn metric<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Metric<'a> {
        let text = &mut self.text;
        // Writing to a String cannot fail.
        let _ = write!(text, "# HELP {name} ");
        escape(text, help, |sign| matches!(sign, '\\' | '\n'));
        let _ = writeln!(text, "\n# TYPE {name} {}", kind.name());
        Metric { text, name }
    }

    /// Adds a counter of one sample without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.metric(name, Kind::Counter, help).sample(&[], value);
    }

    /// Adds a gauge of one sample without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.metric(name, Kind::Gauge, help).sample(&[], value);
    }

    /// The finished page, for an answer with [`CONTENT_TYPE`].
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

impl Metric<'_> {
    /// Adds a sample of the metric itself.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.part("", labels, value);
    }

    /// Adds a sample whose name is the metric's with `suffix` behind it: a bucket, the sum or the count.
    pub fn part(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) {
        let text = &mut *self.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let mut opening = '{';
        for (name, label) in labels {
            text.push(opening);
            text.push_str(name);
            text.push_str("=\"");
            escape(text, label, |sign| matches!(sign, '\\' | '"' | '\n'));
            text.push('"');
            opening = ',';
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

/// Appends `words` with a backslash before what `is_special` finds; a line feed becomes `\n`.
fn escape(text: &mut String, words: &str, is_special: fn(char) -> bool) {
    for sign in words.chars() {
        if is_special(sign) {
            text.push('\\');
        }
        text.push(if sign == '\n' { 'n' } else { sign });
    }
}

/// A time in nanoseconds, shown exactly in seconds, Prometheus's unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds {
    nanoseconds: u64,
}

impl Seconds {
    /// A time as clocks of the system count it.
    #[must_use]
    pub const fn of_nanoseconds(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanoseconds / 1_000_000_000;
        let mut rest = self.nanoseconds % 1_000_000_000;
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let mut digits = 9;
        while rest.is_multiple_of(10) {
            rest /= 10;
            digits -= 1;
        }
        write!(f, "{whole}.{rest:0digits$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_its_help_its_type_and_its_samples() {
        let mut page = Page::new();
        page.counter("a_total", "Things.", 3);
        page.gauge("b", "Other things.", 0);
        let mut metric = page.metric("c_seconds", Kind::Summary, "Times.");
        metric.sample(&[("volume", "x"), ("quantile", "1")], 1.5);
        metric.part("_count", &[("volume", "x")], 2);
        let wanted = "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n\
             # HELP b Other things.\n# TYPE b gauge\nb 0\n\
             # HELP c_seconds Times.\n# TYPE c_seconds summary\n\
             c_seconds{volume=\"x\",quantile=\"1\"} 1.5\nc_seconds_count{volume=\"x\"} 2\n";
        assert_eq!(page.into_text(), wanted);
    }

    #[test]
    fn text_stays_on_its_line_and_within_its_quotes() {
        let mut page = Page::new();
        let mut metric = page.metric("a", Kind::Histogram, "a \"b\" \\ c\nd");
        metric.part("_bucket", &[("le", "\"}\\\n")], 1);
        let wanted =
            "# HELP a a \"b\" \\\\ c\\nd\n# TYPE a histogram\na_bucket{le=\"\\\"}\\\\\\n\"} 1\n";
        assert_eq!(page.into_text(), wanted);
    }

    #[test]
    fn seconds_are_exact() {
        for (nanoseconds, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1000, "0.000001"),
            (1_234_567, "0.001234567"),
            (100_000_000, "0.1"),
            (16_777_216_000, "16.777216"),
            (60_000_000_000, "60"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(Seconds::of_nanoseconds(nanoseconds).to_string(), text);
        }
    }
}
