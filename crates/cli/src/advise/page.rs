//! Advice as one page for people.

use std::fmt::Write as _;

use super::Advice;
use super::measure::{Figures, Rates};
use crate::terminal::wrap::write_wrapped;

/// Column at which descriptions begin.
const INDENT: usize = 18;

impl Advice {
    /// The page, in lines of at most 90 columns unless a command is longer.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        write_wrapped(&mut page, "", &self.place.describe());
        page.push_str("\nmeasured\n");
        for (label, value) in self.figures.rows() {
            write_wrapped(&mut page, &label_of(label), &value);
        }
        page.push_str("\nrecommended\n");
        for line in &self.recommendations {
            write_wrapped(&mut page, &label_of(line.subject), &line.choice);
            let word = |word: &str| format!("{:INDENT$}{word:<9}", "");
            write_wrapped(&mut page, &word("because:"), &line.evidence);
            for other in &line.alternatives {
                let text = format!("{}: {}", other.choice, other.price);
                write_wrapped(&mut page, &word("or:"), &text);
            }
        }
        page.push_str("\ncommands\n");
        for command in &self.commands {
            let _ = writeln!(page, "  # {}\n  {}", command.purpose, command.line);
        }
        page.push_str("\nnot measured\n");
        for left_out in &self.not_measured {
            write_wrapped(&mut page, "  ", left_out);
        }
        page
    }
}

fn label_of(label: &str) -> String {
    format!("  {label:<width$}", width = INDENT - 2)
}

impl Figures {
    /// Rows of the page: label and value.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let cipher = |rates: Option<Rates>| {
            let rates = rates?;
            Some(format!(
                "{:.0} MB/s a core in sectors of 4096 bytes, {:.0} in 512",
                rates.sectors_4096, rates.sectors_512
            ))
        };
        let disk = self.disk;
        let reads = disk.read_4k.zip(disk.read_4k_p99).map(|(median, slow)| {
            format!("4 KiB in {median:.0} µs by itself, 99 of 100 within {slow:.0} µs")
        });
        let rows = [
            ("AES-256-XTS", cipher(self.aes_256)),
            ("AES-128-XTS", cipher(self.aes_128)),
            ("Adiantum", cipher(self.adiantum)),
            (
                "disk, writes",
                disk.write.map(|rate| format!("{rate:.0} MB/s")),
            ),
            (
                "disk, reads",
                disk.read.map(|rate| format!("{rate:.0} MB/s")),
            ),
            ("disk, one read", reads),
            (
                "network",
                self.network
                    .as_ref()
                    .map(|link| format!("{:.0} MB/s by {}, the kernel says", link.rate, link.name)),
            ),
        ];
        rows.into_iter()
            .filter_map(|(label, value)| Some((label, value?)))
            .collect()
    }
}
