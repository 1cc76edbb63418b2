//! Examination of what this machine offers Scrim. Each check asks the system for one thing, harmlessly and without
//! root, and says what its absence costs.

mod kernel;
mod memory;
mod page;
mod processor;
mod serving;
mod tls;

use serde::Serialize;

/// All that was examined; also the output of `--json` (docs/doctor.schema.json).
#[derive(Serialize)]
pub(crate) struct Examination {
    /// Scrim's version.
    scrim: &'static str,
    machine: Machine,
    /// Number of findings that are `missing`.
    missing: usize,
    sections: Vec<Section>,
}

/// The machine that was examined. Values that it does not tell are `null`.
#[derive(Serialize)]
struct Machine {
    kernel: Option<String>,
    cpu: Option<String>,
    /// Processors that this process may use.
    cores: usize,
}

/// Findings about one part of the machine.
#[derive(Serialize)]
struct Section {
    name: &'static str,
    findings: Vec<Finding>,
}

/// One thing that Scrim can use.
#[derive(Serialize)]
struct Finding {
    /// Name of the finding, which stays the same from version to version.
    name: &'static str,
    state: State,
    /// Description of what was found.
    found: String,
    /// Consequence of its absence; only where it is missing.
    cost: Option<String>,
    /// Advice on how to get it; only where it is missing.
    remedy: Option<String>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The machine has it.
    Found,
    /// The machine does not have it, or not enough of it.
    Missing,
    /// The machine does not tell.
    Unknown,
}

impl Finding {
    fn found(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Found,
            found: found.into(),
            cost: None,
            remedy: None,
        }
    }

    fn missing(
        name: &'static str,
        found: impl Into<String>,
        cost: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            cost: Some(cost.into()),
            remedy: Some(remedy.into()),
            ..Self::found(name, found)
        }
    }

    fn unknown(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            state: State::Unknown,
            ..Self::found(name, found)
        }
    }
}

impl Examination {
    /// Looks at everything, in a few milliseconds.
    pub(crate) fn of_this_machine() -> Self {
        Self::new(
            Machine::describe(),
            [
                ("processor", processor::findings()),
                ("memory", memory::findings()),
                ("kernel", kernel::findings()),
                ("serving", serving::findings()),
                ("kernel TLS", tls::findings()),
            ],
        )
    }

    fn new<const N: usize>(machine: Machine, sections: [(&'static str, Vec<Finding>); N]) -> Self {
        let sections = sections.map(|(name, findings)| Section { name, findings });
        let sections = Vec::from(sections);
        let findings = sections.iter().flat_map(|section| &section.findings);
        let missing = findings.filter(|finding| finding.state == State::Missing);
        Self {
            scrim: env!("CARGO_PKG_VERSION"),
            machine,
            missing: missing.count(),
            sections,
        }
    }
}

impl Machine {
    fn describe() -> Self {
        let machine = scrim_bench::Machine::describe(&[]);
        Self {
            kernel: machine.kernel,
            cpu: machine.cpu,
            cores: machine.cores,
        }
    }
}

/// A file of the kernel's, without the end of its line; `None` where it is not there, or not for us.
fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

/// Bytes as the user would say them.
fn size(bytes: u64) -> String {
    let whole = |shift: u32| bytes >> shift;
    if whole(30) >= 10 {
        format!("{} GiB", whole(30))
    } else if whole(20) > 0 {
        format!("{} MiB", whole(20))
    } else {
        format!("{} KiB", whole(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_counted_and_says_what_it_costs() {
        let examination = Examination::of_this_machine();
        let findings = examination.sections.iter().flat_map(|s| &s.findings);
        let mut missing = 0;
        let mut names = Vec::new();
        for finding in findings {
            let lacks = finding.state == State::Missing;
            missing += usize::from(lacks);
            assert_eq!(finding.cost.is_some(), lacks, "{}", finding.name);
            assert_eq!(finding.remedy.is_some(), lacks, "{}", finding.name);
            assert!(!finding.found.is_empty(), "{}", finding.name);
            names.push(finding.name);
        }
        assert_eq!(missing, examination.missing);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is there twice");
    }

    #[test]
    fn sizes_are_in_words() {
        assert_eq!(size(0), "0 KiB");
        assert_eq!(size(65536), "64 KiB");
        assert_eq!(size(8 << 20), "8 MiB");
        assert_eq!(size(15 << 30), "15 GiB");
    }
}
