//! Rules of this repository that neither rustc nor clippy checks. Each rule has a module, which prints
//! `path:line: what is wrong, and what to do`.

mod dependencies;
mod documented;
mod foreign;
mod layers;
mod length;
mod links;
mod manifests;
mod modules;
mod prose;
mod repository;
mod secrets;
mod unsafety;
mod wording;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cargo::workspace_root;
use crate::error::{Doing, Error};
use repository::{Repository, Violation};

/// Options of `cargo xtask check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check another workspace than this one
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Store the counts of habits of writing that have fallen
    #[arg(long)]
    lower: bool,
}

type Rule = fn(&Repository) -> Vec<Violation>;

const RULES: [Rule; 12] = [
    dependencies::check,
    documented::check,
    foreign::check,
    layers::check,
    length::check,
    links::check,
    manifests::check,
    modules::check,
    prose::check,
    secrets::check,
    unsafety::check,
    wording::check,
];

/// Prints every violation; the exit code is 1 when there is one.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let root = args.root.clone().unwrap_or_else(workspace_root);
    let mut repository = Repository::load(&root)?;
    if args.lower {
        let counts = prose::lowered(&repository);
        std::fs::write(root.join(prose::STORED), counts)
            .doing(|| format!("write {}", prose::STORED))?;
        repository = Repository::load(&root)?;
    }
    let mut violations: Vec<_> = RULES.iter().flat_map(|rule| rule(&repository)).collect();
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    eprintln!(
        "{} rules, {} files: {}",
        RULES.len(),
        repository.file_count(),
        match violations.len() {
            0 => "all kept".to_owned(),
            1 => "one violation".to_owned(),
            count => format!("{count} violations"),
        }
    );
    Ok(ExitCode::from(u8::from(!violations.is_empty())))
}
