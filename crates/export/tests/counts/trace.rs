//! The same loads under strace: it says which system calls there are, whether the meter counts them
//! right, how many bytes the kernel copies, and to and from where.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::process::Command;

use scrim_volume::queue::Engine;

use crate::engines;
use crate::load::{DATA_CHUNK, LAST_CHUNK, LOADS, Load, REQUEST};
use crate::meter::{Cost, cost};
use crate::stage::{Stage, serving_threads};

/// The calls whose arguments are wanted as numbers.
const DATA_CALLS: &str = "recvfrom,sendto,pread64,pwrite64";

/// Run under strace by the test below. Files that are not there begin and end what counts.
#[test]
#[ignore = "is run by the_kernel_sees_what_the_meter_counts"]
fn served_under_strace() {
    for engine in engines() {
        for load in LOADS {
            let mut stage = Stage::set(engine);
            let cost = cost(&mut stage, &load, |mark| {
                let _ = File::open(format!("/{mark}/{engine}/{}", load.name));
            });
            let threads = serving_threads();
            let Cost {
                receives,
                sends,
                storage,
                copied,
                ..
            } = cost;
            println!(
                "\ncounted {engine} {} {receives} {sends} {storage} {copied} {threads:?}",
                load.name
            );
        }
    }
}

#[test]
fn the_kernel_sees_what_the_meter_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let raw = format!("raw={DATA_CALLS}");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "signal=none", "-e", &raw, "-o"])
        .arg(&file)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "trace::served_under_strace",
            "--ignored",
            "--nocapture",
        ])
        .output();
    let traced = match traced {
        Ok(traced) => traced,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "strace: {error}");
            println!("skipped: strace is missing (`make test` installs it)");
            return;
        }
    };
    let forbidden = String::from_utf8_lossy(&traced.stderr).contains("Operation not permitted");
    if forbidden && !traced.status.success() && std::env::var_os("CI").is_none() {
        println!("skipped: nothing may be traced here");
        return;
    }
    let said = String::from_utf8_lossy(&traced.stdout);
    assert!(traced.status.success(), "{traced:?}");
    let calls = parse(&std::fs::read_to_string(&file).unwrap());

    let mut checked = 0;
    for line in said
        .lines()
        .filter_map(|line| line.strip_prefix("counted "))
    {
        let section = Section::cut(line, &calls);
        section.print();
        section.check();
        checked += 1;
    }
    assert_eq!(checked, LOADS.len() * engines().count(), "{said}");
}

#[derive(Debug)]
struct Call {
    thread: u32,
    name: String,
    /// Arguments as strace writes them.
    arguments: String,
    /// Result of the call; `None` if it failed.
    result: Option<u64>,
}

impl Call {
    fn argument(&self, index: usize) -> u64 {
        number(self.arguments.split(", ").nth(index).unwrap())
    }

    /// Memory that the call moved, if it is one that moves data.
    fn memory(&self) -> Range<u64> {
        let start = self.argument(1);
        start..start + self.result.unwrap_or(0)
    }
}

fn number(text: &str) -> u64 {
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap()
}

/// Calls in the order in which they began.
fn parse(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut begun: HashMap<u32, usize> = HashMap::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let (Ok(thread), rest) = (thread.parse(), rest.trim_start()) else {
            continue;
        };
        if let Some(rest) = rest.strip_prefix("<... ") {
            if let Some(call) = begun.remove(&thread) {
                let end = rest.split_once(" resumed>").map_or("", |(_, end)| end);
                calls[call].end(end);
            }
        } else if let Some((name, rest)) = rest.split_once('(') {
            begun.insert(thread, calls.len());
            let mut call = Call {
                thread,
                name: name.to_owned(),
                arguments: String::new(),
                result: None,
            };
            match rest.strip_suffix(" <unfinished ...>") {
                Some(arguments) => call.arguments.push_str(arguments),
                None => call.end(rest),
            }
            calls.push(call);
        }
    }
    calls
}

impl Call {
    /// Takes the end of its line: further arguments, and `) = RESULT`.
    fn end(&mut self, text: &str) {
        let (arguments, result) = text.rsplit_once(" = ").unwrap_or((text, "?"));
        let arguments = arguments.trim_end();
        self.arguments
            .push_str(arguments.strip_suffix(')').unwrap_or(arguments));
        let result = result.strip_prefix("0x");
        self.result = result.and_then(|hexadecimal| u64::from_str_radix(hexadecimal, 16).ok());
    }
}

/// Calls that the serving threads made for one load, and the counts of the meter.
struct Section<'a> {
    engine: Engine,
    load: Load,
    calls: Vec<&'a Call>,
    receives: u64,
    sends: u64,
    storage: u64,
    copied: u64,
}

impl<'a> Section<'a> {
    fn cut(line: &str, calls: &'a [Call]) -> Self {
        let (line, threads) = line.split_once(" [").unwrap();
        let threads: Vec<u32> = threads
            .trim_end_matches(']')
            .split(", ")
            .map(|thread| thread.parse().unwrap())
            .collect();
        let [engine, name, counts @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let counts: Vec<u64> = counts.iter().map(|count| count.parse().unwrap()).collect();
        let place = |word: &str| {
            let file = format!("\"/{word}/{engine}/{name}\"");
            let marks = |call: &Call| call.arguments.contains(&file);
            // The last: what came before did not count.
            calls.iter().rposition(marks).unwrap()
        };
        let within = &calls[place("begin")..place("end")];
        Self {
            engine: engine.parse().unwrap(),
            load: *LOADS.iter().find(|load| load.name == *name).unwrap(),
            calls: within
                .iter()
                .filter(|call| threads.contains(&call.thread))
                .collect(),
            receives: counts[0],
            sends: counts[1],
            storage: counts[2],
            copied: counts[3],
        }
    }

    /// Calls of `name` that succeeded.
    fn done(&self, name: &str) -> impl Iterator<Item = &&'a Call> {
        let is_meant = move |call: &&&Call| call.name == name && call.result.is_some();
        self.calls.iter().filter(is_meant)
    }

    fn bytes(&self, name: &str) -> u64 {
        self.done(name).filter_map(|call| call.result).sum()
    }

    /// Every name with its number of calls.
    fn names(&self) -> Vec<(&str, usize)> {
        let mut names: Vec<(&str, usize)> = Vec::new();
        for call in &self.calls {
            match names.iter_mut().find(|(name, _)| *name == call.name) {
                Some((_, count)) => *count += 1,
                None => names.push((&call.name, 1)),
            }
        }
        names.sort_unstable();
        names
    }

    fn print(&self) {
        println!(
            "{} {}, {} requests: {:?}",
            self.engine,
            self.load.name,
            self.load.requests,
            self.names()
        );
    }

    fn check(&self) {
        let Load { name, requests, .. } = self.load;
        let bytes = self.load.bytes();
        let told = format!("{} {name}: {:?}", self.engine, self.names());

        // The socket: as the meter says, and each byte once.
        assert_eq!(
            self.done("recvfrom").count() as u64,
            self.receives,
            "{told}"
        );
        assert_eq!(self.done("sendto").count() as u64, self.sends, "{told}");
        let (received, sent) = if self.load.writes {
            (requests * REQUEST + bytes, requests * LAST_CHUNK)
        } else {
            (requests * REQUEST, bytes)
        };
        assert_eq!(self.bytes("recvfrom"), received, "{told}");
        let headers = self.bytes("sendto") - sent;
        let chunks = self.load.len.div_ceil(128 << 10).max(1);
        let most = if self.load.writes {
            0
        } else {
            chunks * DATA_CHUNK + LAST_CHUNK
        };
        assert!(headers <= requests * most, "{told}");

        // The storage, likewise; the ring's transfers are no calls.
        let (used, unused) = match self.load.writes {
            true => ("pwrite64", "pread64"),
            false => ("pread64", "pwrite64"),
        };
        assert_eq!(self.done(used).count() as u64, self.storage, "{told}");
        assert_eq!(self.done(unused).count(), 0, "{told}");
        if self.engine != Engine::IoUring {
            assert_eq!(self.bytes(used), bytes, "{told}");
        }

        // Nothing else: no memory is asked for, no lock waited for, but by a crew for its next job.
        let waiting = ["poll", "ppoll", "sched_yield", "restart_syscall"];
        let own: &[&str] = match self.engine {
            Engine::Plain => &[],
            Engine::IoUring => &["io_uring_enter"],
            Engine::Threads => &["futex", "read", "write"],
        };
        for (call, _) in self.names() {
            let expected = waiting.contains(&call) || own.contains(&call);
            assert!(expected || DATA_CALLS.contains(call), "{told}: {call}");
        }
        self.check_places(used, &told);
    }

    /// On the plain path the storage's memory is the socket's: nothing was moved between. A crew has
    /// slots of its own.
    fn check_places(&self, used: &str, told: &str) {
        let socket_call = if self.load.writes {
            "recvfrom"
        } else {
            "sendto"
        };
        let moved: Vec<_> = self.done(socket_call).map(|call| call.memory()).collect();
        let buffer = moved.iter().map(|m| m.start).min().unwrap()
            ..moved.iter().map(|m| m.end).max().unwrap();
        for call in self.done(used) {
            let memory = call.memory();
            let within = buffer.start <= memory.start && memory.end <= buffer.end;
            assert_eq!(within, self.engine == Engine::Plain, "{told}: {call:?}");
        }
        if self.engine == Engine::Plain && self.load.depth == 1 && self.load.len == 4096 {
            assert_eq!(self.copied, 0, "{told}");
        }
    }
}

#[test]
fn a_trace_is_read_also_where_calls_overlap() {
    let trace = "7 recvfrom(0x3, 0x7f00, 0x64, 0x40, 0, 0 <unfinished ...>\n\
                 8 openat(AT_FDCWD, \"/begin/x = y\", O_RDONLY) = -1 ENOENT (No such file)\n\
                 7 <... recvfrom resumed>) = 0x1c\n\
                 7   recvfrom(0x3, 0x7f00, 0x64, 0x40, 0, 0) = -1 EAGAIN (Resource)\n";
    let calls = parse(trace);
    let told: Vec<_> = calls
        .iter()
        .map(|call| (call.thread, call.name.as_str(), call.result))
        .collect();
    assert_eq!(
        told,
        [
            (7, "recvfrom", Some(28)),
            (8, "openat", None),
            (7, "recvfrom", None)
        ]
    );
    assert_eq!(calls[0].memory(), 0x7f00..0x7f1c);
    assert!(calls[1].arguments.contains("\"/begin/x = y\""));
}
