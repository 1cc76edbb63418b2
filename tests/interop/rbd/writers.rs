//! Two writers of an image, of which at most one may succeed: one that is alive, dead, stopped or cut off from the
//! network, and one that takes over.

use std::path::{Path, PathBuf};
use std::process::{Command as Program, Output, Stdio};
use std::time::Duration;

use super::{Ceph, PAYLOAD};
use crate::killed::{BLOCK, Client, Command};
use crate::support::{
    Background, PYTHON, assert_same, have, is_root, may, noise, scrim, script, succeeded,
    wait_until,
};

/// Number of times that the process of a volume is killed.
const KILLS: usize = 6;
/// Largest number of blocks of one write.
const MOST: usize = 32;

/// Another machine, as far as one machine can be: a network namespace whose only way to the cluster can be cut, and a
/// runtime folder.
struct Elsewhere<'a> {
    ceph: &'a Ceph,
    holder: Background,
    relay: Background,
}

impl<'a> Elsewhere<'a> {
    /// `None` where a network namespace cannot be had.
    fn new(ceph: &'a Ceph) -> Option<Self> {
        if !is_root() || !have(&["unshare", "nsenter", "ip"]) {
            println!("skipped: a network of one's own needs root, util-linux and iproute2");
            return None;
        }
        let mut probe = Program::new("unshare");
        if !may("to make a network namespace", probe.args(["--net", "true"])) {
            return None;
        }
        let mut command = ceph.place.command("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up && echo up && exec sleep 600",
        ]);
        let holder = said(&mut command, "up\n");
        std::fs::create_dir_all(ceph.place.path("elsewhere")).unwrap();
        let conf = std::fs::read_to_string(ceph.folder.join("ceph.conf")).unwrap();
        let monitor = conf
            .lines()
            .find_map(|line| line.strip_prefix("mon_host = "));
        let port = monitor.unwrap().rsplit(':').next().unwrap();
        let mut command = ceph.place.command(PYTHON);
        command
            .arg(script("relay.py"))
            .arg(holder.0.id().to_string());
        // An OSD listens at the first ports that are free from 6800 on.
        let relay = said(command.args([port, "6800-6899"]), "relaying\n");
        Some(Self {
            ceph,
            holder,
            relay,
        })
    }

    /// `scrim` there, with a time limit.
    fn command(&self, words: &str) -> Program {
        let network = format!("--net=/proc/{}/ns/net", self.holder.0.id());
        let mut command = self.ceph.place.command("timeout");
        command.env("XDG_RUNTIME_DIR", self.ceph.place.path("elsewhere"));
        command.args(["240", "nsenter", &network, scrim()]);
        command.args(words.split_whitespace());
        command
    }

    fn try_scrim(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    fn scrim(&self, words: &str) -> String {
        succeeded(words, &self.try_scrim(words))
    }

    fn socket(&self, volume: &str) -> PathBuf {
        self.ceph
            .place
            .path(&format!("elsewhere/scrim/{volume}.nbd"))
    }

    /// Cuts the network, or mends it; no connection ends by that.
    fn cut(&self, signal: &str) {
        self.ceph
            .place
            .run("kill", [signal, &self.relay.0.id().to_string()]);
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.cut("-CONT");
        let Ok(entries) = std::fs::read_dir(self.ceph.place.path("elsewhere/scrim")) else {
            return;
        };
        for entry in entries.flatten() {
            let file = entry.file_name();
            let volume = file.to_str().and_then(|name| name.strip_suffix(".control"));
            if let Some(volume) = volume {
                let _ = self.try_scrim(&format!("close --force {volume}"));
            }
        }
    }
}

/// Starts a program, and waits for its first line.
fn said(command: &mut Program, wanted: &str) -> Background {
    let mut running = Background::start(command.stdout(Stdio::piped()));
    let mut line = vec![0; wanted.len()];
    let stdout = running.0.stdout.as_mut().unwrap();
    std::io::Read::read_exact(stdout, &mut line).unwrap();
    assert_eq!(line, wanted.as_bytes());
    running
}

#[test]
fn the_lock_of_a_dead_writer_is_taken_over_with_what_it_flushed() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    let name = ceph.format("widowed");
    let uri = ceph.scrim(&format!("open --key-file key {name} dead"));
    let bytes = noise(PAYLOAD, 5);
    // nbdcopy flushes at the end.
    ceph.place.copy_in(&bytes, uri.trim());
    ceph.signal("dead", "-KILL");
    let open = format!("open --key-file key {name} heir");
    wait_until("the cluster forgets the dead client", || {
        ceph.try_scrim(&open).status.success()
    });
    let uri = ceph.uri("heir");
    assert_same(&ceph.place.copy_out(&uri), &bytes, "after the takeover");
    assert_eq!(ceph.lock("heir"), "held");
}

#[test]
fn a_writer_that_was_taken_for_dead_can_not_write() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    let name = ceph.format("fenced");
    let uri = ceph.scrim(&format!("open --key-file key {name} frozen"));
    let frozen = uri.trim();
    let pid = ceph.status("frozen")["pid"].to_string();
    ceph.signal("frozen", "-STOP");
    let open = format!("open --key-file key {name} heir");
    wait_until("the cluster forgets the stopped client", || {
        ceph.try_scrim(&open).status.success()
    });
    let heir = ceph.uri("heir");
    let bytes = noise(PAYLOAD, 6);
    ceph.place.copy_in(&bytes, &heir);
    ceph.place.run("kill", ["-CONT", &pid]);
    ceph.place.write("late", noise(PAYLOAD, 8));
    let late = ceph.place.run_with_input(
        "timeout",
        ["120", "nbdcopy", "--flush", "late", frozen],
        b"",
    );
    assert!(!late.status.success(), "a blocked client has written");
    assert_eq!(ceph.lock("frozen"), "lost");
    let status = ceph.scrim("status frozen");
    assert!(
        status.contains("EBLOCKLISTED: another client has taken the image over"),
        "{status}"
    );
    ceph.refuses("close frozen", 4, &["what was not flushed is lost"]);
    assert_same(
        &ceph.place.copy_out(&heir),
        &bytes,
        "beside a blocked client",
    );
}

#[test]
fn a_writer_whose_network_was_cut_can_not_write() {
    let Some(ceph) = Ceph::find() else { return };
    if !have(&["nbdcopy"]) {
        return;
    }
    let Some(elsewhere) = Elsewhere::new(&ceph) else {
        return;
    };
    let name = ceph.format("cut");
    elsewhere.scrim(&format!("open --key-file key {name} old"));
    let old = format!("nbd+unix:///?socket={}", elsewhere.socket("old").display());
    ceph.place.copy_in(&noise(PAYLOAD, 1), &old);
    elsewhere.cut("-STOP");
    // From now on its writes wait.
    ceph.place.write("late", noise(PAYLOAD, 2));
    let mut late = ceph.place.command("timeout");
    let late = late.args(["240", "nbdcopy", "--flush", "late", &old]);
    let mut late = Background::start(late.stderr(Stdio::null()));
    let open = format!("open --key-file key {name} heir");
    wait_until("the cluster forgets the client that was cut off", || {
        ceph.try_scrim(&open).status.success()
    });
    let bytes = noise(PAYLOAD, 3);
    ceph.place.copy_in(&bytes, &ceph.uri("heir"));
    assert!(late.0.try_wait().unwrap().is_none(), "nothing answered it");
    elsewhere.cut("-CONT");
    assert!(
        !late.0.wait().unwrap().success(),
        "both writers have succeeded"
    );
    let status = elsewhere.scrim("status old");
    assert!(status.contains("exclusive lock lost"), "{status}");
    assert_same(&ceph.place.copy_out(&ceph.uri("heir")), &bytes, "the heir");
    let output = elsewhere.try_scrim("close old");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("what was not flushed is lost"), "{said}");
    ceph.scrim("close heir");
    ceph.scrim(&open);
    assert_same(&ceph.place.copy_out(&ceph.uri("heir")), &bytes, "reopened");
}

#[test]
fn of_many_that_open_an_image_at_once_one_succeeds() {
    let Some(ceph) = Ceph::find() else { return };
    let name = ceph.format("wanted");
    let elsewhere = Elsewhere::new(&ceph);
    for turn in 0..3 {
        let here = |number| {
            let mut command = ceph.place.command("timeout");
            let words = format!("open --key-file key {name} here-{number}");
            command.args(["240", scrim()]).args(words.split(' '));
            command
        };
        let mut commands: Vec<_> = (0..3).map(here).collect();
        if let Some(elsewhere) = &elsewhere {
            let there = |number| format!("open --key-file key {name} there-{number}");
            commands.extend((0..2).map(|number| elsewhere.command(&there(number))));
        }
        let outputs: Vec<_> = std::thread::scope(|scope| {
            let run = |command: &mut Program| command.output().unwrap();
            let running = commands
                .iter_mut()
                .map(|command| scope.spawn(move || run(command)));
            let running: Vec<_> = running.collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let (opened, refused): (Vec<_>, Vec<_>) =
            outputs.iter().partition(|output| output.status.success());
        assert_eq!(opened.len(), 1, "turn {turn}: {outputs:?}");
        for output in refused {
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(5), "{said}");
            assert!(said.contains("exclusive lock"), "{said}");
        }
        let uri = String::from_utf8_lossy(&opened[0].stdout);
        let volume = uri
            .rsplit('/')
            .next()
            .unwrap()
            .trim()
            .trim_end_matches(".nbd");
        let close = format!("close {volume}");
        match &elsewhere {
            Some(elsewhere) if volume.starts_with("there") => elsewhere.scrim(&close),
            _ => ceph.scrim(&close),
        };
    }
}

/// Content of each block of a volume: a number that fills it.
struct Model {
    /// Numbers that a flush has covered.
    flushed: Vec<u64>,
    /// Numbers that were written since, whether or not they were acknowledged.
    later: Vec<Vec<u64>>,
    /// Number of the last write.
    last: u64,
    flushes: usize,
}

impl Model {
    /// Compares with a volume, and goes on with what it has.
    fn check(&mut self, bytes: &[u8], turn: usize) {
        for (at, block) in bytes.chunks_exact(BLOCK).enumerate() {
            let found = u64::from_le_bytes(block[..8].try_into().unwrap());
            let whole = found.to_le_bytes().repeat(BLOCK / 8);
            assert!(block == whole, "block {at} is torn after {turn} kills");
            let (flushed, later) = (self.flushed[at], &mut self.later[at]);
            assert!(
                found == flushed || later.contains(&found),
                "block {at} after {turn} kills: {found}, flushed: {flushed}, later: {later:?}"
            );
            self.flushed[at] = found;
            later.clear();
        }
    }

    /// Writes at random places, with a flush now and then, until there is no answer.
    fn write_until_killed(&mut self, client: &mut Client, seed: u64) {
        let blocks = PAYLOAD / BLOCK;
        for choice in noise(1 << 20, seed).chunks_exact(4) {
            let start = usize::from(u16::from_le_bytes([choice[0], choice[1]])) % blocks;
            let end = (start + 1 + usize::from(choice[2]) % MOST).min(blocks);
            self.last += 1;
            for block in &mut self.later[start..end] {
                block.push(self.last);
            }
            let data = self.last.to_le_bytes().repeat((end - start) * BLOCK / 8);
            let offset = (start * BLOCK) as u64;
            let written = client.ask(Command::Write, offset, data.len(), &data);
            if written.is_err() {
                return;
            }
            if choice[3] < 32 {
                if client.ask(Command::Flush, 0, 0, &[]).is_err() {
                    return;
                }
                self.flushes += 1;
                for (flushed, later) in self.flushed.iter_mut().zip(&mut self.later) {
                    *flushed = later.last().copied().unwrap_or(*flushed);
                    later.clear();
                }
            }
        }
        panic!("never killed");
    }
}

#[test]
fn kills_at_many_moments_lose_nothing_that_was_flushed() {
    let Some(ceph) = Ceph::find() else { return };
    let name = ceph.format("moved");
    let elsewhere = Elsewhere::new(&ceph);
    let mut model = Model {
        flushed: vec![0; PAYLOAD / BLOCK],
        later: vec![Vec::new(); PAYLOAD / BLOCK],
        last: 0,
        flushes: 0,
    };
    for (turn, delay) in noise(KILLS + 1, 11).into_iter().enumerate() {
        let there = elsewhere.as_ref().filter(|_| turn % 2 == 1);
        let words = format!("open --key-file key {name} moved-{turn}");
        let open = || match there {
            Some(there) => there.try_scrim(&words).status.success(),
            None => ceph.try_scrim(&words).status.success(),
        };
        wait_until("the cluster forgets the dead client", open);
        let volume = format!("moved-{turn}");
        let (socket, pid) = match there {
            Some(there) => (
                there.socket(&volume),
                pid(&there.scrim(&format!("status {volume} --json"))),
            ),
            None => (
                ceph.place.path(&format!("run/scrim/{volume}.nbd")),
                pid(&ceph.scrim(&format!("status {volume} --json"))),
            ),
        };
        let mut client = Client::connect_to(&socket, PAYLOAD);
        match turn {
            // A new volume has what its image had.
            0 => client
                .ask(Command::Write, 0, PAYLOAD, &vec![0; PAYLOAD])
                .unwrap(),
            _ => model.check(&client.read(0, PAYLOAD), turn),
        }
        if turn == KILLS {
            break;
        }
        client.ask(Command::Flush, 0, 0, &[]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100 + 8 * u64::from(delay)));
                ceph.place.run("kill", ["-KILL", &pid]);
            });
            model.write_until_killed(&mut client, turn as u64);
        });
        let gone = Path::new("/proc").join(&pid);
        wait_until("it is dead", || !gone.exists());
    }
    assert!(model.flushes > KILLS, "only {} flushes", model.flushes);
}

fn pid(status: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(status).unwrap();
    status["pid"].to_string()
}
