//! The machine that figures come from.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

/// A program that a study needs, or compares with.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The program's name, looked for on `PATH`.
    pub program: &'static str,
    /// Makes it print its version, in most programs on the first line of their output.
    pub version_option: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

impl Peer {
    /// The line that the program prints about its version: the first, unless a later one, of standard error too, begins
    /// with the program's name. `None` where it does not run.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let output = Command::new(self.program)
            .arg(self.version_option)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy);
        let mut lines = text.iter().flat_map(|text| text.lines().map(str::trim));
        let line = lines.clone().find(|line| line.starts_with(self.program));
        let line = line.or_else(|| lines.next())?;
        (output.status.success() && !line.is_empty()).then(|| line.to_owned())
    }
}

/// Properties of the machine that figures depend on, besides the code. `None` stands for what the machine does
/// not tell.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Model name of the processor.
    pub cpu: Option<String>,
    /// Processors that this process may use.
    pub cores: usize,
    pub kernel: Option<String>,
    /// Frequency governor of the first processor; a guest seldom sees one.
    pub governor: Option<String>,
    /// The kernel's mitigation of each vulnerability that concerns this processor.
    pub mitigations: Vec<(String, String)>,
    /// All memory, in bytes.
    pub memory: Option<u64>,
    /// Each peer that was found, with its version.
    pub versions: Vec<(&'static str, String)>,
    missing: Vec<Peer>,
    /// True if the processor says that it is a guest's.
    is_virtual: bool,
}

impl Machine {
    /// Looks at this machine, and for `peers`.
    #[must_use]
    pub fn describe(peers: &[Peer]) -> Self {
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let mut machine = Self {
            cpu: parse_model(&cpuinfo),
            is_virtual: is_virtual(&cpuinfo),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            mitigations: mitigations(),
            memory: parse_memory(&read("/proc/meminfo").unwrap_or_default()),
            ..Self::default()
        };
        for peer in peers {
            match peer.version() {
                Some(version) => machine.versions.push((peer.program, version)),
                None => machine.missing.push(*peer),
            }
        }
        machine
    }

    /// Returns whether `program` was among the peers and found.
    #[must_use]
    pub fn has(&self, program: &str) -> bool {
        self.versions.iter().any(|(name, _)| *name == program)
    }

    /// Reasons to doubt figures from this machine.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let missing = self.missing.iter().map(|peer| {
            format!(
                "a peer is missing: {} (Debian package {}); what is compared with it is left out",
                peer.program, peer.package
            )
        });
        let emulated = self.cpu.iter().filter(|cpu| is_emulated(cpu)).map(|cpu| {
            format!("emulated: every figure here comes from an emulated processor ({cpu})")
        });
        let guest = "virtual machine: its host can slow the processor down, move it and share its \
                     caches without a trace; trust ratios more than rates";
        let shared = self.is_virtual.then(|| guest.to_owned());
        missing.chain(emulated).chain(shared).collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "cpu": self.cpu,
            "cores": self.cores,
            "kernel": self.kernel,
            "governor": self.governor,
            "mitigations": texts(self.mitigations.iter().map(|(name, text)| (name.as_str(), text))),
            "memory": self.memory,
            "versions": texts(self.versions.iter().map(|(name, text)| (*name, text))),
        })
    }
}

fn texts<'a>(pairs: impl Iterator<Item = (&'a str, &'a String)>) -> Map<String, Value> {
    pairs
        .map(|(name, text)| (name.to_owned(), Value::from(text.as_str())))
        .collect()
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn parse_model(cpuinfo: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    })
}

/// x86 processors have a flag for it.
fn is_virtual(cpuinfo: &str) -> bool {
    let mut lines = cpuinfo.lines();
    let flags = lines.find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| {
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "hypervisor")
    })
}

/// QEMU's translator names itself in the processor's model unless it is told to imitate one.
fn is_emulated(cpu: &str) -> bool {
    cpu.contains("TCG") || cpu.contains("QEMU Virtual CPU")
}

fn parse_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

fn mitigations() -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let name = entry.file_name().into_string().ok()?;
            (text.trim() != "Not affected").then(|| (name, text.trim().to_owned()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Peer = Peer {
        program: "scrim-no-such-program",
        version_option: "--version",
        package: "none",
    };

    #[test]
    fn a_missing_peer_is_a_warning() {
        let machine = Machine::describe(&[NOWHERE]);
        assert!(!machine.has(NOWHERE.program));
        let warnings = machine.warnings();
        assert!(
            warnings[0].contains("scrim-no-such-program"),
            "{warnings:?}"
        );
    }

    #[test]
    fn an_emulated_processor_is_a_warning() {
        let cpu = Some("QEMU TCG CPU version 2.5+".to_owned());
        let machine = Machine {
            cpu,
            ..Machine::default()
        };
        assert!(machine.warnings()[0].starts_with("emulated"));
        assert!(!is_emulated("Intel(R) Xeon(R) Processor"));
    }

    #[test]
    fn a_virtual_machine_is_a_warning() {
        assert!(is_virtual("model name: x\nflags\t\t: fpu hypervisor aes\n"));
        assert!(!is_virtual("model name: hypervisor\nflags\t\t: fpu aes\n"));
        assert!(!is_virtual(""));
        let machine = Machine {
            is_virtual: true,
            ..Machine::default()
        };
        assert!(machine.warnings()[0].starts_with("virtual machine"));
    }

    #[test]
    fn the_kernels_texts_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: aes\n";
        assert_eq!(parse_model(cpuinfo).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(parse_model("Hardware: none\n"), None);
        assert_eq!(
            parse_memory("MemTotal:       2048 kB\nMemFree: 1 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(parse_memory(""), None);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let json = Machine::default().to_json();
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        let wanted = [
            "cpu",
            "cores",
            "kernel",
            "governor",
            "mitigations",
            "memory",
            "versions",
        ];
        assert_eq!(keys, wanted);
        assert!(json["governor"].is_null());
    }
}
