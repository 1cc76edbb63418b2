//! Examination of what this machine offers Scrim. Each check asks the system for one thing, harmlessly and without
//! root, and says what its absence costs.

mod finding;
mod fuse;
mod kernel;
mod memory;
mod page;
mod processor;
mod serving;
mod tls;

use serde::Serialize;

use finding::{Finding, State};
pub(crate) use memory::{available_to_this_process, plain_swap};

/// All that was examined; also the output of `--json` (docs/doctor.schema.json).
#[derive(Serialize)]
pub(crate) struct Examination {
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

impl Examination {
    /// Looks at everything, in a few milliseconds.
    pub(crate) fn of_this_machine() -> Self {
        Self::new(
            Machine::describe(),
            [
                ("processor", processor::findings()),
                ("memory", memory::findings()),
                ("kernel", kernel::findings()),
                ("mounting", fuse::findings()),
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
}
