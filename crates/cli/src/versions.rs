//! Versions of this program and of what it runs on, as reports of faults want them.

use serde::Serialize;

/// Versions that `scrim --version --verbose` prints.
#[derive(Serialize)]
pub(crate) struct Versions {
    scrim: &'static str,
    /// Processor architecture and system that the program is for.
    target: String,
    /// C library that runs it.
    libc: Option<String>,
    kernel: String,
    cpu: Option<String>,
    /// Installed programs that commands run, as they name themselves.
    programs: Vec<String>,
}

/// Programs that commands run, with the option that has each print its version.
const PROGRAMS: [(&str, &str); 5] = [
    ("cryptsetup", "--version"),
    ("fusermount3", "--version"),
    ("fuse2fs", "-V"),
    ("qemu-nbd", "--version"),
    ("systemctl", "--version"),
];

impl Versions {
    pub(crate) fn of_this_program() -> Self {
        let system = rustix::system::uname();
        let kernel = [system.sysname(), system.release(), system.machine()];
        let kernel: Vec<_> = kernel.iter().map(|word| word.to_string_lossy()).collect();
        Self {
            scrim: env!("CARGO_PKG_VERSION"),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            libc: first_line("getconf", "GNU_LIBC_VERSION"),
            kernel: kernel.join(" "),
            cpu: scrim_bench::Machine::describe(&[]).cpu,
            programs: PROGRAMS
                .iter()
                .filter_map(|(name, option)| first_line(name, option))
                .collect(),
        }
    }

    /// Lines, the program's own version first.
    pub(crate) fn page(&self) -> String {
        let unknown = || "unknown".to_owned();
        let mut lines = vec![
            format!("scrim {}", self.scrim),
            format!("target: {}", self.target),
            format!("libc: {}", self.libc.clone().unwrap_or_else(unknown)),
            format!("kernel: {}", self.kernel),
            format!("processor: {}", self.cpu.clone().unwrap_or_else(unknown)),
        ];
        lines.extend(
            self.programs
                .iter()
                .map(|program| format!("found: {program}")),
        );
        lines.join("\n") + "\n"
    }
}

/// The first line that a program prints, on either output; `None` if it is not there.
fn first_line(program: &str, option: &str) -> Option<String> {
    let path = scrim_sys::program::find(program)?;
    let mut command = std::process::Command::new(path);
    let output = command
        .arg(option)
        .stdin(std::process::Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(scrim_foreign::Foreign::new(line.trim()).to_string())
}
