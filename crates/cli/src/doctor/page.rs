//! The examination as one page for people.

use std::fmt::Write as _;

use super::Examination;
use super::finding::{Finding, State};

/// Column at which the description of a finding begins.
const INDENT: usize = 18;
/// Longest line in columns, except for a command that must not be broken.
const WIDTH: usize = 90;

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

/// `text` behind `label`, its further lines below its first.
fn write_wrapped(page: &mut String, label: &str, text: &str) {
    let indent = label.chars().count();
    let mut column = indent;
    page.push_str(label);
    for (at, piece) in pieces(text).into_iter().enumerate() {
        let length = piece.chars().count();
        if at > 0 {
            if column + 1 + length > WIDTH {
                let _ = write!(page, "\n{:indent$}", "");
                column = indent;
            } else {
                page.push(' ');
                column += 1;
            }
        }
        page.push_str(piece);
        column += length;
    }
    page.push('\n');
}

/// Words; what stands between backticks, a command, is one of them.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    for (at, char) in text.char_indices() {
        if char == '`' {
            quoted = !quoted;
        } else if char == ' ' && !quoted {
            pieces.push(&text[start..at]);
            start = at + 1;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

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
    fn commands_are_not_broken() {
        assert_eq!(
            pieces("do `a b c`, then d"),
            ["do", "`a b c`,", "then", "d"]
        );
        assert_eq!(pieces(""), [""]);
        assert_eq!(pieces("an `open end"), ["an", "`open end"]);
    }

    #[test]
    fn this_machine_fits_the_page() {
        for line in Examination::of_this_machine().page().lines() {
            let length = line.chars().count();
            assert!(length <= WIDTH || line.contains('`'), "{line}");
        }
    }
}
