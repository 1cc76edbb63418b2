//! `scrim generate`: the man pages and completions, from the command line's definition.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, GenerateArgs, Generated, cryptsetup_tables};
use crate::error::CliError;
use crate::terminal::print;

/// Section of the manual for programs of administrators, which is cryptsetup's too.
const SECTION: &str = "8";

pub(crate) fn run(args: &GenerateArgs) -> Result<(), CliError> {
    let mut command = Cli::command();
    let shell = match &args.what {
        Generated::Man { directory } => return man_pages(command, directory),
        Generated::Compatibility => return print(cryptsetup_tables(&command).as_bytes()),
        Generated::Bash => Shell::Bash,
        Generated::Zsh => Shell::Zsh,
        Generated::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "scrim", &mut text);
    print(&text)
}

/// Writes a page for the program, which lists its commands, and one for each of them.
fn man_pages(command: clap::Command, directory: &Path) -> Result<(), CliError> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(directory)
        .and_then(|()| write_pages(&command, directory))
        .map_err(|error| {
            CliError::io(
                format!("write the man pages into {}", directory.display()),
                &error,
            )
        })
}

/// Writes the page of a command and those of the commands below it.
fn write_pages(command: &clap::Command, directory: &Path) -> std::io::Result<()> {
    if command.is_hide_set() {
        return Ok(());
    }
    let page = clap_mangen::Man::new(command.clone()).section(SECTION);
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(directory.join(page.get_filename()), text)?;
    let mut below = command.get_subcommands();
    below.try_for_each(|sub| write_pages(sub, directory))
}
