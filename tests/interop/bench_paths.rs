//! `scrim bench paths`: its JSON and page, what an end at any moment leaves, and whose data it touches. No
//! figure is looked at, but counts.

use std::fs;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::benchmark::beyond_the_first_round;
use crate::schema::violations;
use crate::support::{Place, noise, succeeded, wait_until};

fn bench(place: &Place, words: &str) -> Output {
    let words = format!("bench paths --rounds 2 --seconds 0.002 {words}");
    place.run_with_input("scrim", words.split_whitespace(), b"")
}

/// Processes and files that process `pid` has left behind.
fn left_by(pid: u32) -> Vec<String> {
    let mut left = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&format!("--end-with-parent {pid} ")) {
            left.push(line);
        }
    }
    for folder in ["/dev/shm".into(), std::env::temp_dir()] {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        left.extend(names.filter(|name| name.starts_with(&format!("scrim-bench-{pid}-"))));
    }
    left
}

#[test]
fn json_and_page_have_what_was_measured() {
    let place = Place::new();
    let output = bench(&place, "--memory 32M --json --html page.html");
    let text = succeeded("scrim bench paths", &output);
    let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let schema = include_str!("../../docs/benchmark.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &report), [""; 0]);
    for ratio in [
        "served_inline_vs_queued_read",
        "served_inline_vs_queued_write_p50",
        "served_inline_vs_queued_mixed_p99",
        "served_inline_vs_plain_write",
        "served_inline_vs_plain_p99",
        "served_null_no_read_workqueue_vs_queued_read",
        "inline_vs_plain_mixed",
        "null_inline_vs_plain_read",
        "auto_vs_best_geomean",
        "auto_4m_d16_write_vs_best",
        "switch_window_max_cost",
    ] {
        assert!(report["ratios"][ratio].is_number(), "{ratio}");
    }
    let results = report["results"].as_array().unwrap();
    for (name, count) in [("aes_inline_read", 0.0), ("null_queued_write", 3.0)] {
        let name = format!("in_process_{name}_handovers_per_request");
        let result = results
            .iter()
            .find(|result| result["name"] == name.as_str());
        assert_eq!(result.unwrap()["median"], count, "{name}");
    }
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("served_inline_vs_plain_p99"));
}

#[test]
fn an_end_at_any_moment_leaves_no_process_and_no_file() {
    for signal in [Signal::INT, Signal::KILL] {
        let place = Place::new();
        let words = "bench paths --json --only served --rounds 100 --seconds 1";
        let child = beyond_the_first_round(&place, words);
        let pid = child.id();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        if signal == Signal::INT {
            assert_eq!(output.status.code(), Some(130), "{output:?}");
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let warnings = report["warnings"].to_string();
            assert!(warnings.contains("of 100 rounds were run"), "{warnings}");
            assert_eq!(left_by(pid), [""; 0]);
        } else {
            wait_until("the servers end", || {
                left_by(pid).iter().all(|one| !one.contains("open"))
            });
            // A folder cannot remove itself.
            let folders: Vec<_> = left_by(pid).into_iter().map(|name| remove(&name)).collect();
            assert!(folders.len() <= 1, "{folders:?}");
        }
    }
}

/// Removes the folder, which must be empty but for the mark that it is the program's.
fn remove(name: &str) -> String {
    let folder = ["/dev/shm".into(), std::env::temp_dir()]
        .into_iter()
        .find_map(|base| {
            fs::remove_file(base.join(name).join(".scrim-bench")).ok()?;
            fs::remove_dir(base.join(name)).ok()
        });
    assert!(folder.is_some(), "{name}");
    name.to_owned()
}

#[test]
fn a_users_file_is_only_read_and_never_written_unasked() {
    let place = Place::new();
    let data = noise(8 << 20, 7);
    place.write("disk.img", &data);
    let output = bench(&place, "disk.img --json");
    let text = succeeded("scrim bench paths disk.img", &output);
    let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let ratios = report["ratios"].as_object().unwrap();
    assert!(ratios.contains_key("served_inline_vs_plain_read"));
    assert!(
        ratios
            .keys()
            .all(|name| !name.contains("write") || name.contains("null_no_write"))
    );
    let refused = bench(&place, "disk.img --write");
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(fs::read(place.path("disk.img")).unwrap() == data);
}
