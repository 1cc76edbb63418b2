//! `scrim ciphers`: the implementation that computes each cipher here, and the reason for it.

use std::fmt::Write as _;

use scrim_bench::ciphers::{MODES, OTHER_CIPHERS};
use scrim_crypt::{CipherSpec, Implementation, State, chosen, implementations, implementations_of};
use serde::{Serialize, Serializer};

use crate::args::CiphersArgs;
use crate::cipher::options::{self, alternatives};
use crate::cipher::self_tests::warn_of_failed_self_tests;
use crate::error::CliError;
use crate::terminal::{print, print_json};

/// One specification for each mode of each cipher.
fn usual() -> impl Iterator<Item = CipherSpec> {
    let specs = MODES.iter().chain(&OTHER_CIPHERS);
    let specs = specs.chain(&["cipher_null-ecb"]);
    specs.filter_map(|text| text.parse().ok())
}

pub(crate) fn run(args: &CiphersArgs) -> Result<(), CliError> {
    let (rows, specs) = match &args.spec {
        None => {
            let choices = usual().map(|spec| Choice::of(&spec, None)).collect();
            (implementations().iter().map(Row::of).collect(), choices)
        }
        Some(text) => {
            let spec = options::parse(text).map_err(|error| CliError::usage(error.to_string()))?;
            if args.key_size.is_some() {
                options::key_bytes(&spec, args.key_size)?;
            }
            // What cannot be used is an error here, and only here.
            chosen(&spec).map_err(|error| CliError::usage(error.to_string()))?;
            let rows: Vec<_> = implementations_of(&spec).map(Row::of).collect();
            (rows, vec![Choice::of(&spec, args.key_size)])
        }
    };
    let listing = Listing {
        implementations: rows,
        specifications: specs,
    };
    warn_of_failed_self_tests();
    if args.json {
        return print_json(&listing);
    }
    let text = match (&args.spec, &listing.specifications[..]) {
        (Some(_), [choice]) => describe(choice, &listing.implementations),
        _ => listing.table(),
    };
    print(text.as_bytes())
}

/// Output of the option `--json`.
#[derive(Serialize)]
struct Listing {
    implementations: Vec<Row>,
    specifications: Vec<Choice>,
}

/// An implementation, with the words of `/proc/crypto`. Sizes are in bytes.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    driver: &'static str,
    priority: u32,
    /// `ready`, `disabled`, `unavailable` or `failed`.
    #[serde(serialize_with = "in_one_word")]
    state: State,
    /// `passed`, `failed`, or `null` where it was not run.
    selftest: Option<&'static str>,
    r#async: bool,
    blocksize: usize,
    min_keysize: usize,
    max_keysize: usize,
    ivsize: usize,
    constant_time: bool,
    cpu_features: &'static [&'static str],
    missing_cpu_features: Vec<&'static str>,
    #[serde(skip)]
    key_sizes: &'static [usize],
}

fn in_one_word<S: Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.word())
}

/// A specification and the implementation that computes it here.
#[derive(Serialize)]
struct Choice {
    specification: String,
    /// The sizes that the volume key may have, or the one that was asked for, in bits.
    key_bits: Vec<usize>,
    /// Driver of the implementation; `null` where none can compute it.
    driver: Option<&'static str>,
    why: String,
    /// Reason to choose another specification.
    weakness: Option<&'static str>,
}

const TABLE_DRIVEN: &str = "table-driven, not constant time: it depends on key and data, which programs on the same \
     processor may learn from it";

fn selftest(state: State) -> Option<&'static str> {
    match state {
        State::Ready => Some("passed"),
        State::SelfTestFailed => Some("failed"),
        _ => None,
    }
}

impl Row {
    fn of(row: &Implementation) -> Self {
        let ends = |size: Option<&usize>| size.copied().unwrap_or_default();
        let state = row.state();
        Self {
            name: row.name,
            driver: row.driver,
            priority: row.priority,
            state,
            selftest: selftest(state),
            r#async: false,
            blocksize: row.block_size,
            min_keysize: ends(row.key_sizes.first()),
            max_keysize: ends(row.key_sizes.last()),
            ivsize: row.iv_size,
            constant_time: row.constant_time,
            cpu_features: row.features,
            missing_cpu_features: row.missing.clone(),
            key_sizes: row.key_sizes,
        }
    }

    fn timing(&self) -> &'static str {
        if self.constant_time {
            "constant time"
        } else {
            "table-driven"
        }
    }

    fn timing_at_length(&self) -> &'static str {
        if self.constant_time {
            self.timing()
        } else {
            TABLE_DRIVEN
        }
    }

    /// The CPU features that it needs; those that are missing in brackets.
    fn needs(&self) -> String {
        if self.cpu_features.is_empty() {
            return "none".to_owned();
        }
        let features = self.cpu_features.iter();
        let shown = features.map(|name| {
            if self.missing_cpu_features.contains(name) {
                format!("[{name}]")
            } else {
                (*name).to_owned()
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    /// Reason why an implementation of higher priority is not used; `None` if it could be.
    fn excuse(&self) -> Option<String> {
        let driver = self.driver;
        match self.state {
            State::Ready => None,
            State::Disabled => Some(format!("{driver} is disabled by SCRIM_DISABLE")),
            State::SelfTestFailed => Some(format!("{driver} failed its self-test")),
            _ if self.missing_cpu_features.is_empty() => Some(format!("{driver} cannot run here")),
            _ => Some(format!(
                "{driver} needs {}, which this processor lacks",
                self.missing_cpu_features.join(" and ")
            )),
        }
    }

    /// The sizes of a key, in bits.
    fn keys(&self) -> String {
        let bits: Vec<_> = self.key_sizes.iter().map(|bytes| bytes * 8).collect();
        keys(&bits)
    }
}

impl Choice {
    /// Describes a specification with a key of `key_bits`, or with keys of any size.
    fn of(spec: &CipherSpec, key_bits: Option<u32>) -> Self {
        let rows: Vec<_> = implementations_of(spec).map(Row::of).collect();
        let driver = chosen(spec).ok().map(|row| row.driver);
        Self {
            specification: spec.to_string(),
            key_bits: match key_bits {
                Some(bits) => vec![bits as usize],
                None => spec.key_sizes().iter().map(|bytes| bytes * 8).collect(),
            },
            driver,
            why: why(driver, spec.driver(), &rows),
            weakness: spec.weakness(),
        }
    }
}

/// Reason why `driver` is chosen among `rows`, which are in order of falling priority; `named` is the driver that the
/// specification names.
fn why(driver: Option<&str>, named: Option<&str>, rows: &[Row]) -> String {
    if named.is_some() && driver.is_some() {
        return "the specification names it".to_owned();
    }
    let Some(driver) = driver else {
        let excuses: Vec<_> = rows.iter().filter_map(Row::excuse).collect();
        return format!("nothing can compute it here: {}", excuses.join("; "));
    };
    let better = rows.iter().take_while(|row| row.driver != driver);
    let mut reasons = vec![match rows.len() {
        1 => "the only one there is".to_owned(),
        count => format!("highest priority that is ready, of {count}"),
    }];
    reasons.extend(better.filter_map(Row::excuse));
    reasons.join("; ")
}

impl Listing {
    /// The implementations by what they compute, and below what each usual specification gets.
    fn table(&self) -> String {
        let mut text = String::new();
        let driver_width = widest(self.implementations.iter().map(|row| row.driver));
        for rows in self.implementations.chunk_by(|a, b| a.name == b.name) {
            let [first, ..] = rows else { continue };
            let iv = match first.ivsize {
                0 => "no IV".to_owned(),
                bytes => format!("IV {bytes} bytes"),
            };
            let _ = writeln!(
                text,
                "{}: key {}, block {}, {iv}, synchronous",
                first.name,
                first.keys(),
                bytes(first.blocksize)
            );
            let _ = writeln!(
                text,
                "  {:<driver_width$}  priority  self-test    timing         CPU features",
                "driver"
            );
            for row in rows {
                let (driver, priority, timing, needs) =
                    (row.driver, row.priority, row.timing(), row.needs());
                // What was not tested is not used either.
                let test = row.selftest.unwrap_or(row.state.word());
                let _ = writeln!(
                    text,
                    "  {driver:<driver_width$}  {priority:>8}  {test:<11}  {timing:<13}  {needs}"
                );
            }
            text.push('\n');
        }
        let mut rows = self.implementations.iter();
        if rows.any(|row| !row.missing_cpu_features.is_empty()) {
            text.push_str("[feature]: this processor lacks it.\n\n");
        }
        let spec_width = widest(self.specifications.iter().map(|c| c.specification.as_str()));
        let _ = writeln!(
            text,
            "{:<spec_width$}  {:<driver_width$}  why",
            "specification", "driver"
        );
        for choice in &self.specifications {
            let (spec, why) = (&choice.specification, &choice.why);
            let driver = choice.driver.unwrap_or("none");
            let _ = writeln!(text, "{spec:<spec_width$}  {driver:<driver_width$}  {why}");
        }
        text
    }
}

fn keys(bits: &[usize]) -> String {
    match bits {
        [0] => "none".to_owned(),
        sizes => format!("{} bits", alternatives(sizes)),
    }
}

fn bytes(count: usize) -> String {
    match count {
        1 => "1 byte".to_owned(),
        count => format!("{count} bytes"),
    }
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(str::len).max().unwrap_or(0)
}

/// One specification at length. `rows` are its implementations.
fn describe(choice: &Choice, rows: &[Row]) -> String {
    let spec = &choice.specification;
    let taken = rows.iter().find(|row| Some(row.driver) == choice.driver);
    let Some(row) = taken else {
        return format!("{spec}: {}.\n", choice.why);
    };
    let mut lines = vec![
        ("why", choice.why.clone()),
        ("name", row.name.to_owned()),
        ("key size", keys(&choice.key_bits)),
        ("block size", bytes(row.blocksize)),
        ("IV size", bytes(row.ivsize)),
        ("synchronous", "yes".to_owned()),
        ("timing", row.timing_at_length().to_owned()),
        ("CPU features", row.needs()),
        ("self-test", row.selftest.unwrap_or("not run").to_owned()),
    ];
    let others = rows.iter().filter(|other| other.driver != row.driver);
    lines.extend(others.map(|other| {
        let text = format!(
            "{}, priority {}, {}",
            other.driver,
            other.priority,
            other.state.word()
        );
        ("beside it", text)
    }));
    lines.extend(choice.weakness.map(|reason| ("unwise", reason.to_owned())));
    let mut text = format!("{spec} is computed by {}.\n", row.driver);
    for (label, value) in lines {
        let _ = writeln!(text, "  {:<13} {value}", format!("{label}:"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(driver: &'static str, state: State, missing: &[&'static str]) -> Row {
        Row {
            name: "xts(aes)",
            driver,
            priority: 100,
            state,
            selftest: selftest(state),
            r#async: false,
            blocksize: 16,
            min_keysize: 32,
            max_keysize: 64,
            ivsize: 16,
            constant_time: true,
            cpu_features: &["aes", "avx512f", "vaes"],
            missing_cpu_features: missing.to_vec(),
            key_sizes: &[32, 48, 64],
        }
    }

    #[test]
    fn the_reason_names_what_is_better_and_cannot_be_used() {
        let rows = [
            row("a", State::Unavailable, &["avx512f", "vaes"]),
            row("b", State::SelfTestFailed, &[]),
            row("c", State::Disabled, &[]),
            row("d", State::Ready, &[]),
            row("e", State::Unavailable, &["sve2"]),
        ];
        assert_eq!(
            why(Some("d"), None, &rows),
            "highest priority that is ready, of 5; a needs avx512f and vaes, which this processor \
             lacks; b failed its self-test; c is disabled by SCRIM_DISABLE"
        );
        assert_eq!(
            why(Some("e"), Some("e"), &rows),
            "the specification names it"
        );
        assert_eq!(why(Some("d"), None, &rows[3..4]), "the only one there is");
        assert_eq!(
            why(None, None, &rows[1..3]),
            "nothing can compute it here: b failed its self-test; c is disabled by SCRIM_DISABLE"
        );
    }

    #[test]
    fn the_table_shows_every_state() {
        let listing = Listing {
            implementations: vec![
                row("xts-aes-wide", State::Unavailable, &["avx512f", "vaes"]),
                row("xts-aes-wrong", State::SelfTestFailed, &[]),
                row("xts-aes-off", State::Disabled, &[]),
                row("xts-aes-plain", State::Ready, &[]),
            ],
            specifications: vec![Choice {
                specification: "aes-xts-plain64".to_owned(),
                key_bits: vec![512],
                driver: Some("xts-aes-plain"),
                why: "reasons".to_owned(),
                weakness: None,
            }],
        };
        let wanted = "\
xts(aes): key 256, 384 or 512 bits, block 16 bytes, IV 16 bytes, synchronous
  driver         priority  self-test    timing         CPU features
  xts-aes-wide        100  unavailable  constant time  aes [avx512f] [vaes]
  xts-aes-wrong       100  failed       constant time  aes avx512f vaes
  xts-aes-off         100  disabled     constant time  aes avx512f vaes
  xts-aes-plain       100  passed       constant time  aes avx512f vaes

[feature]: this processor lacks it.

specification    driver         why
aes-xts-plain64  xts-aes-plain  reasons
";
        assert_eq!(listing.table(), wanted);
        let json = serde_json::to_value(&listing).unwrap();
        let states = json["implementations"].as_array().unwrap().iter();
        let states: Vec<_> = states.map(|row| row["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["unavailable", "failed", "disabled", "ready"]);
    }

    #[test]
    fn every_mode_is_among_the_usual() {
        let specs: Vec<_> = usual().collect();
        assert_eq!(specs.len(), MODES.len() + OTHER_CIPHERS.len() + 1);
        // No volume has AES-GCM: records of TLS do.
        let rows = implementations().iter();
        for row in rows.filter(|row| row.name != "gcm(aes)") {
            let mut names = specs.iter().flat_map(implementations_of);
            assert!(names.any(|other| other.name == row.name), "{}", row.name);
        }
    }
}
