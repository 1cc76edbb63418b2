//! A volume on a server whose network is slow and goes away: in a network namespace.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::remote::unformatted;
use crate::support::{Background, assert_same, have, is_root, may, noise, succeeded, wait_until};
use crate::volume::{CHEAP, PAYLOAD};

/// A network of one's own, for as long as it lives.
struct Network {
    holder: Background,
}

impl Network {
    /// `None` where one cannot be had.
    fn new() -> Option<Self> {
        if !is_root() || !have(&["unshare", "nsenter", "ip", "tc"]) {
            println!("skipped: a network of one's own needs root, util-linux and iproute2");
            return None;
        }
        let mut probe = Command::new("unshare");
        if !may("to make a network namespace", probe.args(["--net", "true"])) {
            return None;
        }
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up && echo up && exec sleep 300",
        ]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = Background::start(&mut command);
        let mut up = [0; 3];
        let mut stdout = holder.0.stdout.take().unwrap();
        std::io::Read::read_exact(&mut stdout, &mut up).unwrap();
        Some(Self { holder })
    }

    /// A command that runs there.
    fn words(&self, words: &str) -> String {
        let id = self.holder.0.id();
        format!("nsenter --net=/proc/{id}/ns/net {words}")
    }

    fn run(&self, words: &str) -> bool {
        let words = self.words(words);
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stderr(Stdio::null());
        command.status().unwrap().success()
    }
}

/// Packets take their time, and for some seconds none get through: TCP goes on where it was, or the
/// connection is made again; either way clients only have to wait.
#[test]
fn a_network_that_goes_away_for_a_while_is_waited_for() {
    if !have(&["nbdkit", "nbdinfo", "nbdcopy"]) || !Path::new("/proc/self/ns/net").exists() {
        return;
    }
    let Some(network) = Network::new() else {
        return;
    };
    if !network.run("tc qdisc add dev lo root netem delay 3ms 1ms") {
        println!("without delays: this kernel has no netem");
    }
    let image = unformatted(4 * PAYLOAD);
    let place = &image.place;
    let words = network.words("nbdkit -f -i 127.0.0.1 -p 10809 file disk.img");
    let mut words = words.split(' ');
    let mut command = place.command(words.next().unwrap());
    let _server = Background::start(command.args(words).stderr(Stdio::null()));
    let there = |words: &str| {
        let words = network.words(&format!("scrim {words}"));
        let mut words = words.split_whitespace();
        place.run_with_input(words.next().unwrap(), words, b"")
    };
    let uri = "nbd://127.0.0.1/";
    wait_until("the server answers", || {
        let format = there(&format!("format {CHEAP} --batch-mode --key-file key {uri}"));
        format.status.success()
    });
    let open = there(&format!(
        "open {uri} remote --key-file key --nbd-timeout 30"
    ));
    let plaintext = succeeded("open", &open).trim().to_owned();
    let bytes = noise(4 * PAYLOAD, 9);
    place.write("in", &bytes);
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| place.run("nbdcopy", ["--flush", "in", &plaintext]));
        for _ in 0..2 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(network.run("ip link set lo down"));
            std::thread::sleep(std::time::Duration::from_secs(2));
            assert!(network.run("ip link set lo up"));
        }
        copy.join().unwrap();
    });
    assert_same(&place.copy_out(&plaintext), &bytes, "through the cuts");
    place.close("remote");
}
