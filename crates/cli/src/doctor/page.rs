//! The examination as one page for people.

use std::fmt::Write as _;

use super::Examination;
use super::finding::{Finding, State};
use crate::terminal::wrap::write_wrapped;

/// Column at which the description of a finding begins.
const INDENT: usize = 18;

impl Examination {
    /// The page, with lines of at most 90 columns unless a command is longer.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        let unknown = || "unknown".to_owned();
        let kernel = self.machine.kernel.clone().unwrap_or_else(unknown);
        let cpu = self.machine.cpu.clone();
        let cpu = cpu.map(|cpu| format!("{cpu}, ")).unwrap_or_default();
        let processors = match self.machine.cores {
            1 => "1 processor".to_owned(),
            cores => format!("{cores} processors"),
        };
        let _ = writeln!(
            page,
            "Scrim {} on Linux {kernel}, {cpu}{processors}",
            self.scrim
        );
        for section in &self.sections {
            let _ = writeln!(page, "\n{}", section.name);
            for finding in &section.findings {
                finding.write_to(&mut page);
            }
        }
        let sum = match self.missing {
            0 => "Nothing is missing.".to_owned(),
            1 => {
                "One thing, marked !, is missing: Scrim works without it, at the cost that is said."
                    .to_owned()
            }
            n => format!(
                "{n} things, marked !, are missing: Scrim works without them, at the cost that is said."
            ),
        };
        let _ = writeln!(page, "\n{sum}");
        page
    }
}

impl Finding {
    fn write_to(&self, page: &mut String) {
        let mark = match self.state {
            State::Found => ' ',
            State::Missing => '!',
            State::Unknown => '?',
        };
        let label = format!("{mark} {:<width$}", self.name, width = INDENT - 2);
        write_wrapped(page, &label, &self.found);
        for (word, text) in [("cost:   ", &self.cost), ("remedy: ", &self.remedy)] {
            if let Some(text) = text {
                write_wrapped(page, &format!("{:INDENT$}{word}", ""), text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;
    use crate::terminal::wrap::WIDTH;

    fn machine() -> Machine {
        Machine {
            kernel: Some("6.12.1".to_owned()),
            cpu: None,
            cores: 1,
        }
    }

    #[test]
    fn what_is_missing_is_marked_and_explained() {
        let kernel = vec![
            Finding::found("openat2", "there"),
            Finding::missing(
                "io_uring",
                "forbidden",
                "volumes on devices are served by threads, of which there are up to sixteen a client",
                "ask somebody who knows what a filter is, and then type \
                 `sudo sysctl kernel.io_uring_disabled=0`",
            ),
            Finding::unknown("tape", "nobody says"),
        ];
        let examination = Examination::new(machine(), [("kernel", kernel)]);
        let version = env!("CARGO_PKG_VERSION");
        let wanted = format!(
            "\
Scrim {version} on Linux 6.12.1, 1 processor

kernel
  openat2         there
! io_uring        forbidden
                  cost:   volumes on devices are served by threads, of which there are up
                          to sixteen a client
                  remedy: ask somebody who knows what a filter is, and then type
                          `sudo sysctl kernel.io_uring_disabled=0`
? tape            nobody says

One thing, marked !, is missing: Scrim works without it, at the cost that is said.
"
        );
        assert_eq!(examination.page(), wanted);
    }

    #[test]
    fn this_machine_fits_the_page() {
        for line in Examination::of_this_machine().page().lines() {
            let length = line.chars().count();
            assert!(length <= WIDTH || line.contains('`'), "{line}");
        }
    }
}
