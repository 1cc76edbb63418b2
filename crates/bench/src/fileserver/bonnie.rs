//! The real bonnie++: runs it phase by phase, reads its figures, and compares the generator with it.

use std::fs;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process_group};
use scrim_sys::program::find;

use super::caches::drop_caches;
use super::error::FileserverError;
use super::generator::Work;
use super::meter::Meter;
use super::phase::{Load, Phase};
use crate::process::cpu_time;

/// Name of the program.
pub const BONNIE: &str = "bonnie++";
/// Time between two looks at whether the user ends the measurement.
const LOOK: Duration = Duration::from_millis(100);
/// Phases of bonnie++ in the order of its prompts, which are numbered from zero. Three more follow, on files in
/// random order, which are not compared.
const PROMPTS: [Phase; 9] = Phase::ALL;
/// Places of the phases' rates in a line of comma-separated values (format 1.98).
const COLUMNS: [usize; 9] = [9, 11, 13, 15, 17, 19, 26, 28, 30];
/// Format of the values.
const FORMAT: &str = "1.98";

/// Callback that hears of a phase and the part of it that is done, and can end it.
type Tell<'a> = dyn FnMut(Phase, f64) -> ControlFlow<()> + 'a;

/// Something that bonnie++ prints.
enum Said {
    /// A prompt before the phase with this number.
    Prompt(usize),
    /// Everything after the last prompt, at its end.
    Rest(String),
}

/// A run of bonnie++, which is killed with this.
pub(super) struct Bonnie {
    child: Child,
    said: Receiver<Said>,
}

/// Listener of a run's phases.
pub(super) trait Listener {
    /// A phase is about to begin.
    fn begin(&mut self, phase: Phase);
    /// A phase has ended, with bonnie++'s processor time for it.
    fn end(&mut self, phase: Phase, wall: Duration, cpu: Duration);
}

impl Bonnie {
    /// Starts bonnie++ in a folder. It waits before each phase.
    pub(super) fn start(folder: &Path, load: &Load) -> Result<Self, FileserverError> {
        let program = find(BONNIE).unwrap_or_else(|| BONNIE.into());
        let mut command = Command::new(program);
        command
            .arg("-d")
            .arg(folder)
            .args(["-s", &(load.bytes >> 20).max(1).to_string(), "-r", "0"])
            .args(["-n", &load.files.div_ceil(1024).max(1).to_string()])
            .arg(format!("-f{}", (load.char_bytes >> 20).max(1)))
            .args(["-q", "-y", "p"]);
        if getuid().is_root() {
            command.args(["-u", "root"]);
        }
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, FileserverError> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Its random seeks are made by processes of its own, which end with the group.
            .process_group(0)
            .spawn();
        let doing = format!("start {BONNIE} (package bonnie++)");
        let mut child = child.map_err(FileserverError::system(doing))?;
        let (sender, said) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || listen(output, |said| sender.send(said).is_ok()));
        }
        Ok(Self { child, said })
    }

    /// Runs all phases, and returns the line with the figures. `stopped` is asked often whether to end; it hears of the
    /// phase and of the part that is done. Phases that are not compared count as the end of the last one.
    pub(super) fn run(
        &mut self,
        listener: &mut dyn Listener,
        stopped: &mut dyn FnMut(Phase, f64) -> bool,
    ) -> Result<String, FileserverError> {
        let mut current: Option<(Phase, Instant, Duration)> = None;
        let mut reached = (PROMPTS[0], 0.0);
        loop {
            let said = self.said.recv_timeout(LOOK);
            if stopped(reached.0, reached.1) {
                return Err(FileserverError::Interrupted);
            }
            if matches!(said, Err(RecvTimeoutError::Timeout)) {
                continue;
            }
            if let Some((phase, start, cpu)) = current.take() {
                let cpu = self.cpu().saturating_sub(cpu);
                listener.end(phase, start.elapsed(), cpu);
                reached = (phase, 1.0);
            }
            match said {
                Ok(Said::Prompt(number)) => {
                    if let Some(phase) = PROMPTS.get(number) {
                        listener.begin(*phase);
                        reached = (*phase, 0.5);
                        current = Some((*phase, Instant::now(), self.cpu()));
                    }
                    self.answer();
                }
                Ok(Said::Rest(text)) => return self.finish(&text),
                Err(_) => return self.finish(""),
            }
        }
    }

    fn answer(&mut self) {
        if let Some(input) = &mut self.child.stdin {
            // If it has ended, its output says so.
            let _ = input.write_all(b"\n").and_then(|()| input.flush());
        }
    }

    fn cpu(&self) -> Duration {
        cpu_time(self.child.id()).unwrap_or_default()
    }

    fn finish(&mut self, text: &str) -> Result<String, FileserverError> {
        let success = self.child.wait().is_ok_and(|status| status.success());
        let line = text.lines().rev().find(|line| line.starts_with(FORMAT));
        match line.filter(|_| success) {
            Some(line) => Ok(line.to_owned()),
            None => Err(FileserverError::Program {
                program: BONNIE.to_owned(),
                said: format!(
                    "it printed no figures in format {FORMAT}; is version 2.00 installed?"
                ),
            }),
        }
    }
}

impl Drop for Bonnie {
    fn drop(&mut self) {
        // Nobody else has its number before it was waited for.
        if matches!(self.child.try_wait(), Ok(None))
            && let Ok(group) = i32::try_from(self.child.id())
            && let Some(group) = Pid::from_raw(group)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Splits what bonnie++ prints into prompts and the rest, until `send` returns false.
fn listen(mut output: impl Read, mut send: impl FnMut(Said) -> bool) {
    let mut text = Vec::new();
    let mut byte = [0];
    while text.len() < 1 << 16 && matches!(output.read(&mut byte), Ok(1)) {
        text.push(byte[0]);
        let number = (byte[0] == b':').then(|| prompt(&text)).flatten();
        if let Some(number) = number {
            text.clear();
            if !send(Said::Prompt(number)) {
                return;
            }
        }
    }
    send(Said::Rest(String::from_utf8_lossy(&text).into_owned()));
}

/// The number of a prompt: a line of it alone.
fn prompt(text: &[u8]) -> Option<usize> {
    let line = text
        .strip_suffix(b":")?
        .rsplit(|byte| *byte == b'\n')
        .next()?;
    let is_number = !line.is_empty() && line.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(line).ok()?.parse().ok())?
}

/// Rates of the phases in a line of bonnie++'s, in MB/s, places or files a second. A phase that was too quick for it to
/// tell, or skipped, is missing.
pub(super) fn parse(line: &str) -> Vec<(Phase, f64)> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let rates = Phase::ALL.into_iter().zip(COLUMNS);
    let rates = rates.filter_map(|(phase, column)| {
        let figure: f64 = fields.get(column)?.parse().ok()?;
        let rate = match phase.moves_bytes() {
            // It counts KiB.
            true => figure * 1024.0 / 1e6,
            false => figure,
        };
        (rate.is_finite() && rate > 0.0).then_some((phase, rate))
    });
    rates.collect()
}

/// Warning about a phase that bonnie++ printed no figure of.
pub(super) fn too_quick(phase: Phase) -> String {
    format!(
        "bonnie++ prints no figure for a phase of less than half a second, such as {}: leave out --quick or \
         give a larger --size",
        phase.name()
    )
}

/// Drops the caches of the files that bonnie++ has in `folder`: several, if they have more than 1 GiB. Returns whether
/// that could be done.
#[must_use]
pub(super) fn drop_its_caches(folder: &Path, below: &[&Path]) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"Bonnie."))
        .map(|entry| entry.path())
        .collect();
    let mut all: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    all.extend(below);
    drop_caches(&all)
}

/// Runs bonnie++ on a mounted volume, and keeps its figures.
pub(super) fn run(
    folder: &Path,
    load: &Load,
    below: &[&Path],
    tell: &mut Tell<'_>,
    meter: &mut Meter<'_>,
) -> Result<(), FileserverError> {
    struct Metered<'a, 'b> {
        meter: &'a mut Meter<'b>,
        load: &'a Load,
        folder: &'a Path,
        below: &'a [&'a Path],
    }
    impl Listener for Metered<'_, '_> {
        fn begin(&mut self, phase: Phase) {
            if phase.starts_cold() {
                let dropped = drop_its_caches(self.folder, self.below);
                self.meter.note_caches(dropped);
            }
            self.meter.begin();
        }
        fn end(&mut self, phase: Phase, wall: Duration, cpu: Duration) {
            let amount = match phase {
                Phase::BlockWrite | Phase::Rewrite | Phase::BlockRead => self.load.bytes,
                Phase::CharWrite | Phase::CharRead => self.load.char_bytes.max(1 << 20),
                Phase::Seeks => self.load.seeks,
                Phase::Create | Phase::Stat | Phase::Delete => self.load.files.max(1024),
            };
            self.meter.end(phase, Work { amount, wall, cpu });
        }
    }
    let mut bonnie = Bonnie::start(folder, load)?;
    let mut metered = Metered {
        meter,
        load,
        folder,
        below,
    };
    let line = bonnie.run(&mut metered, &mut |phase, part| {
        tell(phase, part).is_break()
    })?;
    metered.meter.replace_rates(&parse(&line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "1.98,2.00a,vm,1,1795635308,64M,,8192,5,1996,99,500000,12,250000,+++,+++++,+++,1000000,9,\
                        812.5,3,1,,,,,+++++,+++,40000,77,1234,5,1,1,1,1,1,1,4114us,51us";

    #[test]
    fn rates_are_read_from_their_columns() {
        let rates = parse(LINE);
        let wanted = [
            (Phase::CharWrite, 1996.0 * 1.024e-3),
            (Phase::BlockWrite, 512.0),
            (Phase::Rewrite, 256.0),
            (Phase::BlockRead, 1024.0),
            (Phase::Seeks, 812.5),
            (Phase::Stat, 40000.0),
            (Phase::Delete, 1234.0),
        ];
        assert_eq!(rates.len(), wanted.len());
        for ((phase, rate), (wanted, figure)) in rates.into_iter().zip(wanted) {
            assert!(
                phase == wanted && (rate - figure).abs() < 1e-9,
                "{phase:?} {rate}"
            );
        }
        for nonsense in ["", "1.98", "1.98,,,,,,,,,NaN,,-5,,inf"] {
            assert!(parse(nonsense).is_empty(), "{nonsense}");
        }
    }

    /// A listener that does nothing.
    struct Nothing;

    impl Listener for Nothing {
        fn begin(&mut self, _: Phase) {}
        fn end(&mut self, _: Phase, _: Duration, _: Duration) {}
    }

    #[test]
    fn an_end_in_a_phase_that_is_not_compared_is_heard() {
        let mut command = Command::new("sh");
        // Ten prompts, and a last phase that never ends, with a process of its own.
        let script =
            "for i in 0 1 2 3 4 5 6 7 8 9; do echo; echo $i:; read x; done; sleep 600 & sleep 600";
        command.args(["-c", script]);
        let mut bonnie = Bonnie::spawn(command).unwrap();
        let group = bonnie.child.id();
        let mut heard = Vec::new();
        let mut looks = 0;
        let result = bonnie.run(&mut Nothing, &mut |phase, part| {
            if heard.last() != Some(&(phase, part)) {
                heard.push((phase, part));
            }
            looks += usize::from((phase, part) == (Phase::Delete, 1.0));
            looks > 3
        });
        assert!(matches!(result, Err(FileserverError::Interrupted)));
        assert_eq!(heard[0], (Phase::CharWrite, 0.0));
        drop(bonnie);
        while is_alive(&group.to_string()) {
            thread::sleep(LOOK);
        }
    }

    /// Returns whether a process group has a process that is no zombie.
    fn is_alive(group: &str) -> bool {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut stats =
            processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
        stats.any(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
            fields[3] == group && fields[1] != "Z"
        })
    }

    #[test]
    fn prompts_are_lines_of_a_number() {
        let mut heard = Vec::new();
        let text = b"\n0:\n\n1:\n\n11:\n1.98,a:b\nend";
        listen(&text[..], |said| {
            heard.push(match said {
                Said::Prompt(number) => number.to_string(),
                Said::Rest(text) => text,
            });
            true
        });
        assert_eq!(heard, ["0", "1", "11", "\n1.98,a:b\nend"]);
        assert_eq!(prompt(b"99999999999999999999999:"), None);
        assert_eq!(prompt(b":"), None);
    }
}
