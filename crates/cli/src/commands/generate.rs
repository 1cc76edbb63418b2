//! `scrim generate`: the man page and completions, from the command line's definition.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, GenerateArgs, Generated, cryptsetup_tables};
use crate::error::CliError;
use crate::terminal::print;

pub(crate) fn run(args: &GenerateArgs) -> Result<(), CliError> {
    let mut command = Cli::command();
    let mut text = Vec::new();
    let shell = match args.what {
        Generated::Man => {
            man_page(command, &mut text)
                .map_err(|error| CliError::io("write the man page", &error))?;
            return print(&text);
        }
        Generated::Compatibility => return print(cryptsetup_tables(&command).as_bytes()),
        Generated::Bash => Shell::Bash,
        Generated::Zsh => Shell::Zsh,
        Generated::Fish => Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, "scrim", &mut text);
    print(&text)
}

/// One page for the program and all its commands.
fn man_page(command: clap::Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    let mut command = command;
    command.build();
    let page = clap_mangen::Man::new(command.clone()).section("8");
    page.render_title(text)?;
    page.render_name_section(text)?;
    page.render_synopsis_section(text)?;
    page.render_description_section(text)?;
    for sub in command.get_subcommands() {
        sections(sub, text)?;
    }
    page.render_extra_section(text)?;
    page.render_version_section(text)
}

/// The sections of a command, or of the commands below it where it has some.
fn sections(command: &clap::Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    if command.is_hide_set() {
        return Ok(());
    }
    let below: Vec<_> = command.get_subcommands().collect();
    if !below.is_empty() && command.get_name() != "help" {
        let mut below = below.into_iter().filter(|sub| sub.get_name() != "help");
        return below.try_for_each(|sub| sections(sub, text));
    }
    let name = command.get_bin_name().unwrap_or(command.get_name());
    text.extend_from_slice(format!(".SH \"{}\"\n", name.to_uppercase()).as_bytes());
    let page = clap_mangen::Man::new(command.clone());
    page.render_description_section(text)?;
    page.render_synopsis_section(text)?;
    page.render_options_section(text)
}
