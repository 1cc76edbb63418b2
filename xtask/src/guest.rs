//! A command in a real kernel.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use scrim_guest::{Cache, Console, Guest, Kernel, Machine, Parts, Stream, Version};

use crate::cargo;
use crate::error::{Doing, Error};

/// Options of `cargo xtask guest`.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    /// Which kernel: 6.1, 6.12 or 7.3
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    kernel: Kernel,
    /// Number of virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    smp: u8,
    /// Memory of the machine
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..))]
    memory: u32,
    /// A folder that the command finds as /share, its working directory, and can write to
    #[arg(long, value_name = "DIR")]
    share: Option<PathBuf>,
    /// End the guest when the command takes longer
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
    /// Afterwards, a shell on the guest's serial console; `exit` ends it
    #[arg(long)]
    keep: bool,
    /// Ask the archive for newer versions first
    #[arg(long)]
    update: bool,
    /// With `scrim` built for release
    #[arg(long)]
    release: bool,
    /// List what is cached
    #[arg(long, conflicts_with = "command")]
    list: bool,
    /// Remove what is cached
    #[arg(long, conflicts_with_all = ["command", "list"])]
    clean: bool,
    /// The command and its arguments; its exit code becomes ours
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["list", "clean", "keep"])]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    if args.list {
        return list();
    }
    if args.clean {
        return clean();
    }
    let (parts, program) = prepare(args)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .doing(|| "wait for signals".to_owned())?;
    }
    let console = if args.keep {
        Console::Terminal
    } else {
        Console::Log
    };
    let machine = Machine {
        cpus: args.smp,
        memory_mib: args.memory,
        program: Some(program),
        share: args.share.clone(),
        console,
        interrupted: Some(interrupted),
    };
    let mut guest = Guest::boot(&parts, &machine)?;
    let limit = Duration::from_secs(args.limit);
    let code = if args.command.is_empty() {
        0
    } else {
        guest.run(&script(&args.command), limit, &mut print)?
    };
    if args.keep {
        eprintln!(
            "a shell in Linux {}: `exit` ends the guest, Ctrl-A X kills it",
            parts.version
        );
        guest.shell()?;
    }
    guest.power_off()?;
    Ok(ExitCode::from(code))
}

/// Prepares the files that the guest boots from, and builds the program that it runs, at the same time;
/// files that are missing are fetched.
fn prepare(args: &Args) -> Result<(Parts, PathBuf), Error> {
    let build = || cargo::build_scrim(args.release);
    let fetch = || {
        install_tools()?;
        let version = if args.update {
            Version::Newest
        } else {
            Version::Cached
        };
        Ok::<_, Error>(Cache::open()?.parts(args.kernel, version, &mut announcer())?)
    };
    std::thread::scope(|scope| {
        let program = scope.spawn(build);
        let parts = fetch();
        let program = program
            .join()
            .map_err(|_| Error::program("cargo build", "ended by a panic"))?;
        Ok((parts?, program?))
    })
}

/// QEMU and what unpacks packages: the only part for which root may be needed.
fn install_tools() -> Result<(), Error> {
    let script = cargo::workspace_root().join("scripts/setup.sh");
    let status = std::process::Command::new(&script)
        .arg("guest")
        .status()
        .doing(|| format!("run {}", script.display()))?;
    if status.success() {
        Ok(())
    } else {
        let said = "it installs QEMU and erofs-utils, and needs root or sudo for that";
        Err(Error::program("scripts/setup.sh guest", said))
    }
}

/// Tells of steps with the time since the first.
fn announcer() -> impl FnMut(&str) {
    let started = Instant::now();
    move |step| eprintln!("guest: {step} ({:.0} s)", started.elapsed().as_secs_f64())
}

fn print(stream: Stream, bytes: &[u8]) {
    // Whoever reads our output may have gone: the command's exit code is still of use.
    let _ = match stream {
        Stream::Output => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Stream::Error => std::io::stderr().lock().write_all(bytes),
    };
}

/// The words as a shell script that runs them as they are.
fn script(words: &[String]) -> String {
    let quoted = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    format!("exec {}\n", quoted.collect::<Vec<_>>().join(" "))
}

fn list() -> Result<ExitCode, Error> {
    for cached in Cache::open()?.list()? {
        let mebibytes = cached.bytes.div_ceil(1 << 20);
        println!(
            "{:<36}{mebibytes:>6} MiB  {}",
            cached.name,
            cached.path.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn clean() -> Result<ExitCode, Error> {
    let mebibytes = Cache::open()?.clean()?.div_ceil(1 << 20);
    if std::io::stderr().is_terminal() {
        eprintln!("{mebibytes} MiB removed");
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_guest_as_they_are() {
        let words = ["printf", "%s\n", "it's $HOME"].map(str::to_owned);
        assert_eq!(script(&words), "exec 'printf' '%s\n' 'it'\\''s $HOME'\n");
    }
}
