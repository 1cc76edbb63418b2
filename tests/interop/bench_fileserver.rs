//! `scrim bench fileserver`: its JSON and page, an end in any phase with `--resume` after it, and bonnie++. No figure is
//! looked at, but counts.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::schema::violations;
use crate::support::{Place, have, may, succeeded, wait_until};

const QUICK: &str = "--quick --size 8M --method program -c aes-xts-plain64:512";

/// A directory on a disk or in memory, with a time limit for each command.
struct Server(Place);

impl Server {
    /// Returns `None` where a mount cannot be made.
    fn new() -> Option<Self> {
        let fuse = ["-w", "/dev/fuse"];
        if !have(&["mkfs.ext4", "fuse2fs", "fusermount3"])
            || !may("to mount by FUSE", Command::new("test").args(fuse))
        {
            return None;
        }
        let place = Place::new();
        fs::create_dir(place.path("srv")).unwrap();
        Some(Self(place))
    }

    fn command(&self, words: &str) -> Command {
        let words = format!("300 scrim bench fileserver {words}");
        let mut command = self.0.command("timeout");
        command.args(words.split_whitespace());
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    fn json(&self, words: &str) -> Value {
        let text = succeeded(words, &self.run(&format!("{words} --json")));
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    /// Names in the directory.
    fn left(&self) -> Vec<String> {
        let files = fs::read_dir(self.0.path("srv")).unwrap().flatten();
        files
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .collect()
    }

    fn mounted(&self, file: &str) -> PathBuf {
        self.0.path("srv/scrim-fileserver/mount").join(file)
    }

    fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let directory = self.0.path("srv").canonicalize().unwrap();
        table.contains(directory.to_str().unwrap())
    }

    fn turns(&self) -> usize {
        let state = fs::read(self.0.path("srv/scrim-fileserver.json")).unwrap();
        let state: Value = serde_json::from_slice(&state).unwrap();
        state["turns"].as_array().unwrap().len()
    }
}

fn samples(report: &Value, name: &str) -> usize {
    let mut results = report["results"].as_array().unwrap().iter();
    let result = results.find(|result| result["name"] == name);
    let result = result.unwrap_or_else(|| panic!("{name}: {report}"));
    result["samples"].as_array().unwrap().len()
}

fn warnings(report: &Value) -> String {
    report["warnings"].to_string()
}

#[test]
fn results_are_json_by_the_schema_and_a_page() {
    let Some(server) = Server::new() else { return };
    let report = server.json(&format!("srv --rounds 2 {QUICK} --html page.html"));
    let schema = include_str!("../../docs/benchmark.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &report), [""; 0]);
    for name in [
        "plain_scrim_block_write",
        "aes-xts-plain64_512b_inline_block_read",
        "aes-xts-plain64_512b_queued_seeks",
        "aes-xts-plain64_512b_queued_delete",
        "aes-xts-plain64_512b_inline_block_write_fuse2fs_cpu",
        "raw_disk_read",
    ] {
        assert_eq!(samples(&report, name), 2, "{name}");
    }
    assert!(report["ratios"]["aes-xts-plain64_512b_inline_rewrite_vs_plain"].is_number());
    assert!(
        !warnings(&report).contains("failed"),
        "{}",
        warnings(&report)
    );
    let page = fs::read_to_string(server.0.path("page.html")).unwrap();
    assert!(page.contains("cryptsetup luksFormat") && page.contains("<svg"));
    // Only the state file stays, and it has everything.
    assert_eq!(server.left(), ["scrim-fileserver.json"]);
    assert!(!server.is_mounted());
    server.0.write("old.json", report.to_string());
    let again = succeeded("--resume", &server.run("srv --resume --against old.json"));
    assert!(
        again.contains("aes-xts-plain64 512b, Scrim queued"),
        "{again}"
    );
    assert!(again.contains("+0 %"), "{again}");
    let refused = server.run(&format!("srv {QUICK}"));
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
}

/// Starts a run, or continues it, and kills it once `is_time`.
fn killed_when(server: &Server, words: &str, signal: Signal, is_time: impl Fn() -> bool) {
    let mut child = server
        .command(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the phase", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        is_time()
    });
    let scrim = child_of(&child);
    kill_process(scrim, signal).unwrap();
    child.wait().unwrap();
}

/// The process below `timeout`.
fn child_of(child: &Child) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(children).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

#[test]
fn an_end_in_any_phase_loses_nothing_and_counts_nothing_twice() {
    let Some(server) = Server::new() else { return };
    let full = 8 << 20;
    let exists = |file: &str| server.mounted(file).exists();
    let is_full = || fs::metadata(server.mounted("file")).is_ok_and(|file| file.len() == full);
    let volume = server.0.path("srv/scrim-fileserver/volume");
    let mut words = format!("srv --rounds 2 {QUICK}");
    let mut done = 0;
    let ends: [(Signal, &dyn Fn() -> bool); 6] = [
        (Signal::KILL, &|| volume.exists()),
        (Signal::KILL, &|| exists("characters")),
        (Signal::KILL, &|| exists("file")),
        (Signal::TERM, &is_full),
        (Signal::KILL, &|| server.turns() > 0 && exists("file")),
        (Signal::INT, &|| server.turns() > 1 && exists("bystander")),
    ];
    for (signal, is_time) in ends {
        killed_when(&server, &words, signal, is_time);
        words = "srv --resume".to_owned();
        assert!(server.turns() >= done);
        done = server.turns();
        if signal != Signal::KILL {
            assert_eq!(server.left(), ["scrim-fileserver.json"]);
        }
    }
    let report = server.json("srv --resume");
    for name in [
        "plain_scrim_block_write",
        "aes-xts-plain64_512b_inline_create",
        "aes-xts-plain64_512b_queued_block_read",
        "raw_disk_write",
    ] {
        assert_eq!(samples(&report, name), 2, "{name}");
    }
    assert!(
        !warnings(&report).contains("failed"),
        "{}",
        warnings(&report)
    );
    assert_eq!(server.left(), ["scrim-fileserver.json"]);
    assert!(!server.is_mounted());
}

#[test]
fn an_interruption_keeps_whole_rounds() {
    let Some(server) = Server::new() else { return };
    let words = format!("srv --rounds 3 --json {QUICK}");
    let child = server
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let state = server.0.path("srv/scrim-fileserver.json");
    // Three combinations a round.
    wait_until("the second round", || state.exists() && server.turns() >= 4);
    kill_process(child_of(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The second round may end before the signal comes.
    let rounds = samples(&report, "plain_scrim_block_read");
    assert!((1..3).contains(&rounds), "{rounds}");
    assert!(warnings(&report).contains(&format!("{rounds} of 3 rounds were run")));
    assert_eq!(server.left(), ["scrim-fileserver.json"]);
}

#[test]
fn a_disk_that_is_too_small_is_refused_before_anything_is_written() {
    let Some(server) = Server::new() else { return };
    let refused = server.run("srv --quick --size 8T -c aes-xts-plain64:512");
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("choose a smaller --size"), "{said}");
    assert_eq!(server.left(), [""; 0]);
}

#[test]
fn bonnie_makes_the_load_and_is_compared() {
    let Some(server) = Server::new() else { return };
    // By fuse2fs its phases of single bytes take minutes.
    if !have(&["bonnie++"]) || !may("to use loop devices", Command::new("losetup").arg("-f")) {
        return;
    }
    let words = QUICK.replace("--method program", "");
    let report = server.json(&format!("srv --rounds 1 --bonnie {words}"));
    // On a quick machine bonnie++ prints no figure, and a warning says so.
    if !warnings(&report).contains("half a second, such as char_write") {
        assert_eq!(
            samples(&report, "aes-xts-plain64_512b_inline_char_write"),
            1
        );
    }
    assert!(
        !warnings(&report).contains("failed"),
        "{}",
        warnings(&report)
    );
    let checked = server.json("srv --check-bonnie --rounds 1 --quick --size 8M");
    assert_eq!(samples(&checked, "generator_block_write"), 1);
    assert_eq!(server.left(), ["scrim-fileserver.json"]);
}
