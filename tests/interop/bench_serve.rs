//! `scrim bench serve` on its own server and on nginx, and its table against ministat's. No figure is looked
//! at.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Output};

use rcgen::ExtendedKeyUsagePurpose;
use rustix::process::{Pid, Signal, kill_process};
use scrim_bench::ministat::{self, Set};
use serde_json::Value;

use crate::benchmark::beyond_the_first_round;
use crate::certificates::Authority;
use crate::schema::violations;
use crate::support::{Place, have, noise, succeeded, wait_until};

/// nginx with one file, over TLS and plain, until this is dropped.
struct Nginx {
    child: Child,
    https: String,
    http: String,
}

impl Nginx {
    fn start(place: &Place) -> Self {
        let authority = Authority::new();
        let names = ["localhost", "127.0.0.1"];
        let (certificate, key) = authority.sign(&names, ExtendedKeyUsagePurpose::ServerAuth, 2100);
        place.write("cert.pem", certificate);
        place.write("key.pem", key);
        fs::create_dir(place.path("site")).unwrap();
        place.write("site/file", noise(3 << 20, 5));
        let [https, http] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = [&https, &http].map(|one| one.local_addr().unwrap().port());
        drop((https, http));
        let folder = place.dir().display();
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {folder}/temporary;\n"))
            .concat();
        let text = format!(
            "{user}\ndaemon off;\nmaster_process off;\npid {folder}/nginx.pid;\n\
             error_log {folder}/nginx.err;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
             root {folder}/site;\nserver {{\nlisten 127.0.0.1:{} ssl;\n\
             ssl_certificate {folder}/cert.pem;\nssl_certificate_key {folder}/key.pem;\n\
             ssl_protocols TLSv1.3;\n}}\nserver {{\nlisten 127.0.0.1:{};\n}}\n}}\n",
            ports[0], ports[1]
        );
        let configuration = place.write("nginx.conf", text);
        let child = place
            .command("nginx")
            .arg("-e")
            .arg(place.path("nginx.err"))
            .arg("-c")
            .arg(configuration)
            .spawn()
            .unwrap();
        wait_until("nginx serves", || {
            ports
                .into_iter()
                .all(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
        });
        Self {
            child,
            https: format!("https://127.0.0.1:{}/file", ports[0]),
            http: format!("http://127.0.0.1:{}/file", ports[1]),
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bench(place: &Place, words: &str) -> Output {
    let words = format!("bench serve {words}");
    place.run_with_input("scrim", words.split_whitespace(), b"")
}

#[test]
fn two_urls_are_measured_and_their_json_and_page_have_both() {
    if !have(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let nginx = Nginx::start(&place);
    let urls = format!("--url {} --url {}", nginx.http, nginx.https);
    let suite = "--certificate cert.pem --suite aes-128-gcm";
    let words = format!("{urls} {suite} --rounds 3 --json --html page.html");
    let report = json(&bench(&place, &words));
    let schema = include_str!("../../docs/benchmark.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &report), [""; 0]);
    assert!(report["ratios"]["serve_url2_vs_url1"].is_number());
    let tls = report["results"][1]["workload"].as_str().unwrap();
    assert!(
        tls.contains("3145728 bytes, TLSv1.3 TLS_AES_128_GCM_SHA256"),
        "{tls}"
    );
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Stddev"));
}

#[test]
fn the_table_is_ministats() {
    if !have(&["ministat"]) {
        return;
    }
    let place = Place::new();
    let bytes = noise(4096, 11);
    let mut figures = bytes.chunks_exact(3).map(|three| {
        let whole = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        f64::from(whole) / 16.0
    });
    for (counts, apart) in [
        ([3, 3], 0.0),
        ([10, 10], 2e6),
        ([4, 9], -1e5),
        ([70, 70], 4e7),
    ] {
        let [one, other] = counts.map(|count| figures.by_ref().take(count).collect::<Vec<f64>>());
        let other = other.iter().map(|figure| figure + apart).collect();
        let sets = [("one", one), ("other", other)].map(|(name, samples): (_, Vec<f64>)| {
            let lines: Vec<_> = samples.iter().map(f64::to_string).collect();
            place.write(name, lines.join("\n") + "\n");
            Set {
                name: name.to_owned(),
                samples,
            }
        });
        let said = place.run("ministat", ["one", "other"]);
        // Between the names and the figures it draws a plot, which we do not.
        let drawn = |line: &&str| !line.starts_with(['|', '+']) || line.starts_with("+ ");
        let wanted: Vec<_> = said.lines().filter(drawn).collect();
        let table = ministat::table(&sets);
        assert_eq!(table.lines().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn a_server_with_another_certificate_is_not_believed() {
    if !have(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let nginx = Nginx::start(&place);
    let authority = Authority::new();
    let (other, _) = authority.sign(&["127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth, 2100);
    place.write("other.pem", other);
    let refused = bench(
        &place,
        &format!("--url {} --certificate other.pem", nginx.https),
    );
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let missing = bench(&place, &format!("--url {}s", nginx.http));
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(said.contains("404"), "{said}");
}

fn json(output: &Output) -> Value {
    let text = succeeded("scrim bench serve", output);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn a_file_is_served_plain_and_over_tls() {
    let place = Place::new();
    let report = json(&bench(&place, "--size 1M --rounds 2 --json"));
    for ratio in ["serve_tls_vs_http", "serve_cpu_tls_vs_http"] {
        // So little work may take less than one tick of the clock; then there is no ratio.
        let left_out = report["warnings"].to_string().contains(ratio);
        assert!(report["ratios"][ratio].is_number() || left_out, "{ratio}");
    }
    let data = noise(2 << 20, 7);
    place.write("mine", &data);
    let report = json(&bench(&place, "mine --rounds 2 --suite aes-128-gcm --json"));
    let results = report["results"].as_array().unwrap();
    let tls = results
        .iter()
        .find(|one| one["name"] == "serve_tls")
        .unwrap();
    let workload = tls["workload"].as_str().unwrap();
    assert!(
        workload.starts_with("2097152 bytes, TLSv1.3 TLS_AES_128_GCM_SHA256"),
        "{workload}"
    );
    assert!(fs::read(place.path("mine")).unwrap() == data);
    let files = fs::read_dir(place.dir()).unwrap().flatten();
    let names: Vec<_> = files.map(|file| file.file_name()).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().contains("bench")),
        "{names:?}"
    );
}

/// The names of a report's series or ratios.
fn names(list: &Value) -> Vec<&str> {
    match list {
        Value::Array(all) => all.iter().filter_map(|one| one["name"].as_str()).collect(),
        _ => list
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect(),
    }
}

const QUICK: &str = "--size 20000 --rounds 2 --seconds 0.1 --json --html page.html";

#[test]
fn how_long_responses_take_is_compared_by_where_they_come_from() {
    if !have(&["mke2fs"]) {
        return;
    }
    let place = Place::new();
    let words = format!("--from dir,volume:queued,volume:inline {QUICK}");
    let report = json(&bench(&place, &words));
    let schema = include_str!("../../docs/benchmark.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(violations(&schema, &report), [""; 0]);
    let ways = ["dir", "volume_queued", "volume_inline"];
    let series = ways.iter().flat_map(|way| {
        ["capacity", "p50", "p99", "p999"].map(|kind| format!("serve_{way}_{kind}"))
    });
    assert_eq!(names(&report["results"]), series.collect::<Vec<_>>());
    for result in report["results"].as_array().unwrap() {
        let samples = result["samples"].as_array().unwrap();
        let rounds = match result["unit"].as_str().unwrap() {
            "requests/s" => 3,
            _ => 2,
        };
        assert_eq!(samples.len(), rounds, "{result}");
        assert!(
            samples.iter().all(|one| one.as_f64() > Some(0.0)),
            "{result}"
        );
        let workload = result["workload"].as_str().unwrap();
        assert!(workload.contains("20000 bytes from "), "{workload}");
    }
    let pairs = [
        "volume_queued_vs_dir",
        "volume_inline_vs_dir",
        "inline_vs_queued",
    ];
    let ratios = pairs
        .iter()
        .flat_map(|pair| ["p50", "p99", "p999"].map(|kind| format!("serve_{pair}_{kind}")));
    assert_eq!(names(&report["ratios"]), ratios.collect::<Vec<_>>());
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 1);
    for way in ["dir", "volume:queued", "volume:inline"] {
        assert!(page.contains(&format!(">{way}</text>")), "{way}");
    }
}

#[test]
fn a_folder_alone_has_times_and_nothing_to_compare_with() {
    let place = Place::new();
    let report = json(&bench(&place, &format!("--from dir {QUICK}")));
    assert_eq!(names(&report["ratios"]), [""; 0]);
    assert_eq!(names(&report["results"]).len(), 4);
    for (words, said) in [
        ("--from dir,dir", "each way once"),
        ("--from cellar", "volume:inline"),
        ("--from dir --size 0", "at least 1"),
        ("--from dir --url http://localhost/", "cannot be used with"),
        ("--seconds 2", "--from"),
    ] {
        let refused = bench(&place, words);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words}: {text}");
        assert!(text.contains(said), "{words}: {text}");
    }
}

/// Number of processes and of files that process `pid` has left behind.
fn left_by(pid: u32) -> (usize, usize) {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&format!("--end-with-parent {pid} "))
    });
    let places = ["/dev/shm".into(), std::env::temp_dir()];
    let files = places
        .into_iter()
        .flat_map(|place| fs::read_dir(place).into_iter().flatten());
    let name = format!("scrim-bench-serve-{pid}-");
    let files = files
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with(&name));
    (processes.count(), files.count())
}

#[test]
fn an_end_at_any_moment_leaves_no_server_and_nothing_for_long() {
    for words in [
        "bench serve --json --size 64M --rounds 100",
        "bench serve --json --from dir --seconds 0.2 --rounds 100",
    ] {
        ends(words);
    }
}

fn ends(words: &str) {
    let place = Place::new();
    let killed = beyond_the_first_round(&place, words);
    let pid = killed.id();
    kill_process(Pid::from_child(&killed), Signal::KILL).unwrap();
    killed.wait_with_output().unwrap();
    wait_until("the server ends", || left_by(pid).0 == 0);

    let child = beyond_the_first_round(&place, words);
    assert_eq!(left_by(pid), (0, 0));
    let pid = child.id();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(left_by(pid), (0, 0));
}
