//! `scrim`: LUKS volumes without root.

#![forbid(unsafe_code)]

mod advise;
mod args;
mod blocks;
mod cipher;
mod commands;
mod doctor;
mod error;
mod files;
mod https;
mod kernel;
mod luks;
mod mount;
mod nbd;
mod pack;
mod process;
mod running_volume;
mod signature;
mod storage;
mod terminal;
mod transfer;
mod tune;
mod versions;
mod volume;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Bench, BenchArgs, Cli, Command, Invocation, Manners, without_danger};
use error::{CliError, Exit};
use running_volume::with_holder;

fn main() -> ExitCode {
    match Invocation::of(std::env::args_os(), Cli::command) {
        Invocation::Command { arguments, manners } => {
            let code = carry_out(arguments, manners);
            if let Some(code) = (0..=u8::MAX).find(|known| ExitCode::from(*known) == code) {
                terminal::state_result(code);
            }
            code
        }
        Invocation::Versions => {
            let _ = terminal::print(versions::Versions::of_this_program().page().as_bytes());
            ExitCode::SUCCESS
        }
        Invocation::Answer(text) => {
            let _ = terminal::print(text.as_bytes());
            ExitCode::SUCCESS
        }
        Invocation::Refused(reason) => {
            terminal::note(format_args!("scrim: {reason}"));
            Exit::Usage.into()
        }
    }
}

/// Carries out a command line of Scrim's own.
fn carry_out(arguments: Vec<OsString>, manners: Manners) -> ExitCode {
    if manners.states_result {
        terminal::state_results();
    }
    if let Some(timeout) = manners.passphrase_timeout {
        terminal::passphrase::limit_time(timeout);
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(answer) => {
            let answer = without_danger(answer);
            // Help and version are answers; all else is a wrong parameter.
            let _ = answer.print();
            return if answer.use_stderr() {
                Exit::Usage.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            let error = with_holder(error);
            terminal::note(format_args!("scrim: {error}"));
            error.exit.into()
        }
    }
}

fn run(command: Command) -> Result<ExitCode, CliError> {
    process::daemon::protect()?;
    match command {
        Command::Bench(BenchArgs {
            what: Bench::Ciphers(args),
        })
        | Command::Benchmark(args) => return commands::bench::ciphers(&args),
        Command::Bench(BenchArgs {
            what: Bench::Fileserver(args),
        }) => return commands::bench_fileserver::run(&args),
        Command::Bench(BenchArgs {
            what: Bench::Paths(args),
        }) => return commands::bench_paths::run(&args),
        Command::Bench(BenchArgs {
            what: Bench::Serve(args),
        }) => return commands::bench_serve::run(&args),
        Command::Ciphers(args) => commands::ciphers::run(&args),
        Command::Format(args) => commands::format::run(&args),
        Command::Tune(args) => return commands::tune::run(&args),
        Command::Open(args) => commands::open::run(&args),
        Command::PlainOpen(args) => commands::plain_open::run(&args),
        Command::Mount(args) => commands::mount::run(&args),
        Command::Umount(args) => commands::umount::run(&args),
        Command::Pack(args) => return pack::run(&args),
        Command::Import(args) => return commands::import::run(&args),
        Command::Export(args) => return commands::export::run(&args),
        Command::Encrypt(args) => return commands::encrypt::run(&args),
        Command::Ls(args) => commands::ls::run(&args),
        Command::Cat(args) => commands::cat::run(&args),
        Command::Cp(args) => return commands::cp::run(&args),
        Command::Close(args) => commands::close::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Resize(args) => commands::resize::run(&args),
        Command::Table(args) => commands::table::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Suspend(args) => commands::reload::suspend(&args),
        Command::LuksSuspend(args) => commands::resume::luks_suspend(&args),
        Command::Resume(args) => commands::resume::run(&args),
        Command::LuksResume(args) => commands::resume::luks_resume(&args),
        Command::Snapshot(args) => return commands::snapshot::run(&args),
        Command::Clear(args) => commands::reload::clear(&args),
        Command::Refresh(args) => commands::refresh::run(&args),
        Command::Stats(args) => commands::stats::run(&args),
        Command::Serve(args) => https::server::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Advise(args) => return commands::advise::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Support(args) => commands::support::run(&args),
        Command::Dump(args) => commands::dump::run(&args),
        Command::TestPassphrase(args) => commands::test_passphrase::run(&args),
        Command::IsLuks(args) => return commands::is_luks::run(&args),
        Command::LuksUuid(args) => commands::luks_uuid::run(&args),
        Command::AddKey(args) => commands::add_key::run(&args),
        Command::ChangeKey(args) => commands::change_key::run(&args),
        Command::ConvertKey(args) => commands::change_key::convert(&args),
        Command::RemoveKey(args) => commands::remove_key::run(&args),
        Command::KillSlot(args) => commands::remove_key::kill_slot(&args),
        Command::Erase(args) => commands::remove_key::erase(&args),
        Command::HeaderBackup(args) => commands::header_backup::run(&args),
        Command::HeaderRestore(args) => commands::header_restore::run(&args),
        Command::Repair(args) => commands::repair::run(&args),
        Command::Config(args) => commands::config::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Token(args) => commands::token::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}
