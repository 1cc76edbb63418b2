//! Other tables and other flags for a volume that is in use: no request is lost, and none sees another
//! table's data.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Background, Place, assert_same, have, noise, scrim, wait_until};
use crate::volume::{Image, PAYLOAD, USUAL};

/// The ways to the storage, each with its options of `open`.
const ENGINES: [&str; 3] = [
    "--io-engine plain",
    "--io-engine threads",
    "--direct-io on --io-engine io_uring",
];

/// Switches of the data path: flags of a table that is reloaded, or options of a refresh.
const SWITCHES: [&str; 10] = [
    "refresh --data-path queued",
    "reload 1 same_cpu_crypt",
    "reload 2 submit_from_crypt_cpus high_priority",
    "reload 1 no_read_workqueue",
    "refresh --perf-no_write_workqueue --allow-discards",
    "refresh --data-path inline",
    "reload 1 force_inline",
    "refresh --data-path auto --perf-no_read_workqueue",
    "refresh",
    "reload 0",
];

impl Place {
    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.scrim(args)).unwrap()
    }

    fn in_flight(&self, direction: &str) -> u64 {
        let stats = self.json(&["stats", "secret", "--json"]);
        stats[direction]["in_flight"].as_u64().unwrap()
    }

    fn switch(&self, to: &str, number: usize) {
        let (verb, options) = to.split_once(' ').unwrap_or((to, ""));
        if verb == "refresh" {
            let options = options.split_whitespace();
            self.scrim(["refresh", "secret"].into_iter().chain(options));
            return;
        }
        let table = self.scrim(["table", "secret", "--showkeys"]);
        // Without the flags that it has: they come last but for the sector's size.
        let words: Vec<&str> = table.split_whitespace().take(8).collect();
        let line = format!("{} 1 sector_size:4096 {options}\n", words.join(" "));
        let loaded = self.run_with_input(scrim(), ["reload", "secret"], line.as_bytes());
        assert!(loaded.status.success(), "{to}: {loaded:?}");
        if number.is_multiple_of(2) {
            self.scrim(["suspend", "secret"]);
        }
        self.scrim(["resume", "secret"]);
    }
}

/// fio writes, and reads what it wrote, again and again until the hundredth switch.
#[test]
fn a_hundred_switches_under_fio_lose_nothing() {
    if !have(&["cryptsetup", "fio"]) {
        return;
    }
    for engine in ENGINES {
        let image = Image::made_by_cryptsetup(USUAL);
        let place = &image.place;
        let options: Vec<&str> = engine.split(' ').collect();
        let uri = image.open_with("key", "secret", &options);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| verify_until(place, &uri, &ended));
            wait_until("fio writes, and reads what it wrote", || {
                let stats = place.json(&["stats", "secret", "--json"]);
                ["read", "write"]
                    .iter()
                    .all(|&way| stats[way]["requests"].as_u64() > Some(64))
            });
            for number in 0..100 {
                place.switch(SWITCHES[number % SWITCHES.len()], number);
                if number == 0 {
                    wait_until("both directions have been through the queues", || {
                        let stats = place.json(&["stats", "secret", "--json"]);
                        ["read", "write"]
                            .iter()
                            .all(|&way| stats[way]["handovers"].as_u64() > Some(0))
                    });
                }
            }
            ended.store(true, Ordering::Relaxed);
            assert!(load.join().unwrap() > 0, "{engine}");
        });
        let stats = place.json(&["stats", "secret", "--json"]);
        assert_eq!(stats["exchanges"], 100, "{engine}");
        for direction in ["read", "write"] {
            assert_eq!(stats[direction]["failed"], 0, "{engine}");
            assert!(stats[direction]["handovers"].as_u64() > Some(0), "{engine}");
        }
        let status = place.scrim(["status", "secret"]);
        assert!(!status.contains("error:"), "{engine}: {status}");
        let bytes = noise(PAYLOAD, 5);
        place.copy_in(&bytes, &uri);
        place.close("secret");
        let expected = image.decrypt_independently();
        assert_same(&expected, &bytes, "by another program");
    }
}

/// Runs fio with verification until `ended` is set; returns the number of runs.
fn verify_until(place: &Place, uri: &str, ended: &AtomicBool) -> usize {
    let mut times = 0;
    while !ended.load(Ordering::Relaxed) {
        let line = format!(
            "--name=verify --ioengine=nbd --uri={uri} --rw=randwrite --bsrange=4k-256k \
             --blockalign=4k --size={PAYLOAD} --io_size={} --iodepth=16 --numjobs=1 --verify=crc32c \
             --verify_fatal=1 --verify_state_save=0 --do_verify=1 --verify_backlog=64 --fsync=50",
            4 * PAYLOAD
        );
        let mut fio = place.command("fio");
        let output = fio.args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        times += 1;
    }
    times
}

/// One request of qemu-io's, in the background.
fn request(place: &Place, uri: &str, request: &str) -> Background {
    let mut command = place.command("qemu-io");
    command.args(["-f", "raw", "-c", request, uri]);
    Background::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Waits for its end; it must succeed and print what was expected.
fn assert_done(mut request: Background) {
    let mut said = String::new();
    let mut stdout = request.0.stdout.take().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    assert!(request.0.wait().unwrap().success(), "{said}");
    assert!(
        said.contains("bytes at offset") && !said.contains("failed"),
        "{said}"
    );
}

#[test]
fn what_is_held_is_carried_out_on_the_table_that_comes() {
    if !have(&["cryptsetup", "qemu-io"]) {
        return;
    }
    // Each waits for most of its time.
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || held_until_a_table_comes(engine));
        }
    });
}

fn held_until_a_table_comes(engine: &str) {
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let options: Vec<&str> = engine.split(' ').collect();
    let uri = image.open_with("key", "secret", &options);
    assert_done(request(place, &uri, "write -P 7 0 64k"));
    place.scrim(["suspend", "secret"]);
    let mut reader = request(place, &uri, "read -P 7 0 64k");
    wait_until("it is held", || place.in_flight("read") > 0);
    assert!(reader.0.try_wait().unwrap().is_none(), "{engine}");
    let status = place.json(&["status", "secret", "--json"]);
    assert_eq!(status["suspended"], true);
    place.scrim(["resume", "secret"]);
    assert_done(reader);
    assert_eq!(place.in_flight("read"), 0);

    place.scrim(["suspend", "secret"]);
    let reader = request(place, &uri, "read -P 0 0 64k");
    wait_until("it is held", || place.in_flight("read") > 0);
    let zeros = format!("0 {} zero", PAYLOAD / 512);
    place.scrim(["reload", "secret", "--force", "--table", &zeros]);
    place.scrim(["resume", "secret"]);
    assert_done(reader);
    place.close("secret");
}

/// Ends a suspended volume by a signal and by `close`; a table that was only loaded is not used.
#[test]
fn a_suspended_volume_carries_out_what_it_holds_before_it_is_closed() {
    if !have(&["cryptsetup", "qemu-io", "kill"]) {
        return;
    }
    // Each waits for most of its time.
    std::thread::scope(|scope| {
        for by_signal in [true, false] {
            for engine in ENGINES {
                scope.spawn(move || closes_while_suspended(engine, by_signal));
            }
        }
    });
}

fn closes_while_suspended(engine: &str, by_signal: bool) {
    let image = Image::made_by_cryptsetup(USUAL);
    let place = &image.place;
    let options: Vec<&str> = engine.split(' ').collect();
    let uri = image.open_with("key", "secret", &options);
    let zeros = format!("0 {} zero", PAYLOAD / 512);
    place.scrim(["reload", "secret", "--force", "--table", &zeros]);
    place.scrim(["suspend", "secret"]);
    let writer = request(place, &uri, "write -P 9 64k 64k");
    wait_until("it is held", || place.in_flight("write") > 0);
    let control = place.path("run/scrim/secret.control");
    if by_signal {
        let status = place.json(&["status", "secret", "--json"]);
        place.run("kill", ["-TERM", &status["pid"].to_string()]);
        wait_until("it has ended", || !control.exists());
    } else {
        place.scrim(["close", "secret", "--force"]);
    }
    assert_done(writer);
    let plain = image.decrypt_independently();
    assert_same(&plain[64 << 10..128 << 10], &[9; 64 << 10], engine);
}

/// A request with a body that does not come, or is another one than was said.
#[test]
fn nonsense_on_the_control_socket_harms_nobody() {
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    image.open_with("key", "secret", &[]);
    let long = [b'x'; 300];
    let cases: [&[u8]; 8] = [
        b"",
        b"\n",
        &long,
        b"scrim 1 reload 100\n0 8 zero\n",
        b"scrim 1 reload 1048577\n0 8 zero\n",
        b"scrim 1 reload 4\n0 8 zero\n",
        b"scrim 1 reload 3\n\xff\xff\xff",
        b"scrim 1 refresh fast 000000\n",
    ];
    for sent in cases {
        let mut stream = UnixStream::connect(place.path("run/scrim/secret.control")).unwrap();
        // It may hang up before all is sent.
        let _ = stream.write_all(sent);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"ok"), "{answer:?}");
    }
    let status = place.json(&["status", "secret", "--json"]);
    assert_eq!(status["inactive_table"], false);
    // A long table is taken whole.
    let line = |number: usize| format!("{} 8 zero\n", number * 8);
    let long: String = (0..60_000).map(line).collect();
    let args = ["reload", "secret", "--force"];
    let loaded = place.run_with_input(scrim(), args, long.as_bytes());
    assert!(loaded.status.success(), "{loaded:?}");
    place.scrim(["resume", "secret"]);
    assert_eq!(place.scrim(["table", "secret"]), long);
    place.close("secret");
}

/// Table lines with a key and some fault are refused, and no message repeats the key.
#[test]
fn no_message_repeats_a_key() {
    let image = Image::made_by_scrim(USUAL);
    let place = &image.place;
    image.open_with("key", "secret", &[]);
    let table = place.scrim(["table", "secret", "--showkeys"]);
    let key = table.split(' ').nth(4).unwrap();
    let mut wrong = vec![
        table.replace(" crypt ", " striped "),
        table.replace("plain64", "plain65"),
        table.replace("plain64", "plain"),
        table.replace(key, &key[2..]),
        table.replace(key, &format!("{key} {key}")),
        table.replace(key, &format!("{key}zz")),
        table.replace(" 1 sector_size:4096", &format!(" 1 {key}")),
        table.replace(" 1 sector_size:4096", &format!(" {key}")),
        format!("{key}\n{table}"),
        format!("{table}{table}"),
    ];
    let words: Vec<&str> = table.split_whitespace().collect();
    wrong.extend((0..words.len()).map(|cut| words[..cut].join(" ")));
    for text in wrong {
        let refused = place.run_with_input(scrim(), ["reload", "secret"], text.as_bytes());
        assert!(!refused.status.success(), "it was taken");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.starts_with("scrim: ") && !said.contains(&key[2..34]));
        assert!(refused.stdout.is_empty());
    }
    let status = place.json(&["status", "secret", "--json"]);
    assert_eq!(status["inactive_table"], false);
    place.close("secret");
}
