//! The conclusion of a benchmark about the choices of a volume: data path, encryption sector and key, each with the
//! figures that speak for it.

use std::fmt;

use scrim_foreign::Html;

use crate::report::{Ratio, Report, named};
use crate::stat::Interval;

/// Command that measures data paths.
const PATHS: &str = "scrim bench paths";
/// Command that measures encryption sectors and keys.
const CIPHERS: &str = "scrim benchmark";

/// Choices of a volume; `None` for one that was not measured. `Display` is one line for each.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// Data path, or flags of dm-crypt.
    pub data_path: Option<Choice>,
    /// Size of an encryption sector.
    pub sector_size: Option<Choice>,
    /// Size of the volume key.
    pub key_size: Option<Choice>,
}

/// A choice, the figures that speak for it, and whether they are certain.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The thing to use.
    pub take: String,
    /// The comparison by which it was chosen.
    pub because: String,
    /// True if every 95 % interval lies on one side of 1: another run would say the same.
    pub sure: bool,
}

/// Kinds of work, such as `reads`, each with its ratio.
pub(crate) type Works<'a> = Vec<(&'static str, &'a Ratio)>;

/// Two alternatives, compared by one ratio for each kind of work: that of the first one to the second.
pub(crate) struct Alternatives<'a> {
    pub(crate) first: &'a str,
    pub(crate) second: &'a str,
    pub(crate) works: Works<'a>,
}

impl Conclusion {
    /// Returns whether nothing was chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let choices = [&self.data_path, &self.sector_size, &self.key_size];
        choices.iter().all(|choice| choice.is_none())
    }

    /// The whole as a section of a page; nothing where nothing was chosen.
    pub(crate) fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut html = "<h2>What to use here</h2>\n<dl>\n".to_owned();
        for (name, choice, command) in self.lines() {
            let text = describe(choice, command);
            html.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", Html::new(&text)));
        }
        html + "</dl>\n"
    }

    fn lines(&self) -> [(&'static str, Option<&Choice>, &'static str); 3] {
        [
            ("data path", self.data_path.as_ref(), PATHS),
            ("sector size", self.sector_size.as_ref(), CIPHERS),
            ("key size", self.key_size.as_ref(), CIPHERS),
        ]
    }
}

impl fmt::Display for Conclusion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "# What to use here")?;
        for (name, choice, command) in self.lines() {
            writeln!(out, "{name:<13}{}", describe(choice, command))?;
        }
        Ok(())
    }
}

fn describe(choice: Option<&Choice>, command: &str) -> String {
    let Some(Choice {
        take,
        because,
        sure,
    }) = choice
    else {
        return format!("not measured here; `{command}` tells");
    };
    let how_sure = if *sure {
        "sure"
    } else {
        "not sure: an interval includes 1; give more --rounds"
    };
    format!("{take}: {because} ({how_sure})")
}

impl Alternatives<'_> {
    /// Logarithm of the product of all ratios: above 0 where the first one is better.
    pub(crate) fn gain(&self) -> f64 {
        self.works.iter().map(|(_, ratio)| ratio.value.ln()).sum()
    }

    /// The better one, by the geometric mean of all kinds of work. `None` without any.
    pub(crate) fn choose(&self) -> Option<Choice> {
        let first_is_better = self.gain() >= 0.0;
        let (take, other) = match first_is_better {
            true => (self.first, self.second),
            false => (self.second, self.first),
        };
        let factors = factors(&self.works, first_is_better)?;
        Some(Choice {
            take: take.to_owned(),
            because: format!("{factors} times as fast as {other}"),
            sure: (self.works.iter())
                .all(|(_, ratio)| is_above_one(ratio) == Some(first_is_better)),
        })
    }
}

/// The kinds of work whose ratios, of these names, a report has.
pub(crate) fn works<'a>(report: &'a Report, names: [(&'static str, String); 2]) -> Works<'a> {
    let found = names.map(|(work, name)| Some((work, named(&report.ratios, &name)?)));
    found.into_iter().flatten().collect()
}

/// The ratios of some kinds of work with their intervals, or the inverses: `reads 2.00 (1.90 to 2.10) and writes …`.
pub(crate) fn factors(works: &[(&'static str, &Ratio)], as_they_are: bool) -> Option<String> {
    let each = works.iter().map(|(work, ratio)| {
        let Interval { low, high } = ratio.interval;
        let [value, low, high] = match as_they_are {
            true => [ratio.value, low, high],
            false => [ratio.value.recip(), high.recip(), low.recip()],
        };
        format!("{work} {value:.2} ({low:.2} to {high:.2})")
    });
    let each: Vec<String> = each.collect();
    let (last, before) = each.split_last()?;
    Some(match before {
        [] => last.clone(),
        before => format!("{} and {last}", before.join(", ")),
    })
}

/// Returns on which side of 1 the whole interval of a ratio lies; `None` if it includes 1.
pub(crate) fn is_above_one(ratio: &Ratio) -> Option<bool> {
    let Interval { low, high } = ratio.interval;
    match (low > 1.0, high < 1.0) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, value: f64, high: f64) -> Ratio {
        Ratio {
            name: "a_vs_b".to_owned(),
            value,
            interval: Interval { low, high },
            target: None,
        }
    }

    fn choose(reads: &Ratio, writes: &Ratio) -> Choice {
        let alternatives = Alternatives {
            first: "inline",
            second: "queued",
            works: vec![("reads", reads), ("writes", writes)],
        };
        alternatives.choose().unwrap()
    }

    #[test]
    fn the_better_one_is_taken_with_its_figures() {
        let choice = choose(&ratio(1.9, 2.0, 2.1), &ratio(1.0, 1.5, 1.6));
        assert_eq!((choice.take.as_str(), choice.sure), ("inline", false));
        let choice = choose(&ratio(0.4, 0.5, 0.8), &ratio(0.5, 0.8, 0.9));
        assert_eq!((choice.take.as_str(), choice.sure), ("queued", true));
        let because =
            "reads 2.00 (1.25 to 2.50) and writes 1.25 (1.11 to 2.00) times as fast as inline";
        assert_eq!(choice.because, because);
    }

    #[test]
    fn without_figures_nothing_is_chosen() {
        let alternatives = Alternatives {
            first: "inline",
            second: "queued",
            works: Vec::new(),
        };
        assert_eq!(alternatives.choose(), None);
    }

    #[test]
    fn there_are_three_lines_whatever_was_measured() {
        let conclusion = Conclusion {
            data_path: Some(choose(&ratio(1.9, 2.0, 2.1), &ratio(1.2, 1.5, 1.6))),
            ..Conclusion::default()
        };
        let wanted = "\
# What to use here
data path    inline: reads 2.00 (1.90 to 2.10) and writes 1.50 (1.20 to 1.60) times as fast as queued (sure)
sector size  not measured here; `scrim benchmark` tells
key size     not measured here; `scrim benchmark` tells
";
        assert_eq!(conclusion.to_string(), wanted);
        assert!(
            conclusion
                .html()
                .contains("<dt>key size</dt><dd>not measured here")
        );
    }
}
