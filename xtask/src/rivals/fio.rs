//! The loads, and the client that runs them: fio with its `nbd` engine.

use std::process::Stdio;
use std::time::Duration;

use scrim_bench::{SeriesId, Study, Turn, turns};
use serde_json::Value;

use super::contender::Target;
use super::options::announce;
use super::programs::FIO;
use super::room::Room;
use super::server::uri_of;
use crate::error::{Doing, Error};

/// A pattern of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Name of the load in names of ratios.
    pub(super) name: &'static str,
    /// Value of fio's option `--rw`.
    pattern: &'static str,
    /// Value of fio's option `--bs`.
    block: &'static str,
    /// Value of fio's option `--iodepth`.
    depth: u32,
    /// Number of connections, each of which has so many requests in flight.
    connections: u32,
}

/// The six loads, those that only read first.
pub(super) const LOADS: [Load; 6] = [
    load("randread4k_qd1", "randread", "4k", 1),
    load("randread4k_qd32", "randread", "4k", 32),
    load("read1m_qd4", "read", "1m", 4),
    load("randwrite4k_qd1", "randwrite", "4k", 1),
    load("randwrite4k_qd32", "randwrite", "4k", 32),
    load("write1m_qd4", "write", "1m", 4),
];

pub(super) const fn load(
    name: &'static str,
    pattern: &'static str,
    block: &'static str,
    depth: u32,
) -> Load {
    Load {
        name,
        pattern,
        block,
        depth,
        connections: 1,
    }
}

/// Loads on two connections, with 32 requests in flight on both together.
pub(super) const ON_TWO_CONNECTIONS: [Load; 2] = [
    on_two_connections(load("randread4k_2x16", "randread", "4k", 16)),
    on_two_connections(load("randwrite4k_2x16", "randwrite", "4k", 16)),
];

const fn on_two_connections(load: Load) -> Load {
    Load {
        connections: 2,
        ..load
    }
}

/// Amount of data that a run moved, and its latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moved {
    /// Sum of bytes read and bytes written.
    pub(super) bytes: f64,
    /// Bytes per second while the load ran.
    pub(super) bytes_per_second: f64,
    /// 99th percentile of the latency, in microseconds.
    pub(super) p99: f64,
}

impl Load {
    /// The load as options of fio, for the report.
    pub(super) fn workload(&self) -> String {
        self.workload_of("nbd")
    }

    /// The same of a file, past the page cache.
    pub(super) fn file_workload(&self) -> String {
        self.workload_of("io_uring --direct=1")
    }

    /// The same of an image of a Ceph cluster.
    pub(super) fn rbd_workload(&self) -> String {
        self.workload_of("rbd")
    }

    fn workload_of(&self, engine: &str) -> String {
        let (pattern, block, depth) = (self.pattern, self.block, self.depth);
        let mut text =
            format!("fio --ioengine={engine} --rw={pattern} --bs={block} --iodepth={depth}");
        if self.has_several_connections() {
            text += &format!(" --numjobs={}", self.connections);
        }
        text
    }

    /// Returns whether the load's requests are long ones, of 1 MiB.
    pub(super) fn is_long(&self) -> bool {
        self.block == "1m"
    }

    /// Returns whether its requests are on several connections.
    pub(super) fn has_several_connections(&self) -> bool {
        self.connections > 1
    }

    /// Returns whether the load writes.
    pub(super) fn writes(&self) -> bool {
        self.pattern.ends_with("write")
    }

    /// Runs the load for `time` on the first `size` bytes of `target`; pins fio to `processor`, if one is
    /// given.
    pub(super) fn run(
        &self,
        room: &Room,
        target: &Target,
        size: u64,
        time: Duration,
        processor: Option<usize>,
    ) -> Result<Moved, Error> {
        let mut command = room.command(FIO.program);
        let served = |uri: &str| ["--ioengine=nbd".to_owned(), format!("--uri={uri}")];
        match target {
            Target::Server(server) => command.args(served(&uri_of(server.socket()))),
            Target::Uri(uri) => command.args(served(uri)),
            Target::File(file) => command.args([
                "--ioengine=io_uring".to_owned(),
                "--direct=1".to_owned(),
                format!("--filename={}", file.display()),
            ]),
            Target::Rbd { conf, image } => {
                let (pool, image) = image.split_once('/').unwrap_or(("", image));
                command.env("CEPH_CONF", conf).args([
                    "--ioengine=rbd".to_owned(),
                    "--clientname=admin".to_owned(),
                    format!("--pool={pool}"),
                    format!("--rbdname={image}"),
                ])
            }
        };
        command.args([
            format!("--name={}", self.name),
            format!("--rw={}", self.pattern),
            format!("--bs={}", self.block),
            format!("--iodepth={}", self.depth),
            format!("--numjobs={}", self.connections),
            "--group_reporting".to_owned(),
            format!("--size={size}"),
            format!("--runtime={}ms", time.as_millis()),
            "--time_based".to_owned(),
            // fio's own account of which blocks are done is no part of the load.
            "--norandommap".to_owned(),
            "--thread".to_owned(),
            "--output-format=json".to_owned(),
        ]);
        command.args(processor.map(|processor| format!("--cpus_allowed={processor}")));
        let output = command
            .stdin(Stdio::null())
            .output()
            .doing(|| "run fio".to_owned())?;
        room.check()?;
        let said = || {
            let text = String::from_utf8_lossy(&output.stderr);
            text.lines()
                .last()
                .unwrap_or("ended without a word")
                .to_owned()
        };
        if !output.status.success() {
            return Err(Error::program("fio", said()));
        }
        parse(&output.stdout).ok_or_else(|| Error::program("fio", said()))
    }
}

/// Reads the only job's figures; `None` when they are not there, or tell of an error.
pub(super) fn parse(output: &[u8]) -> Option<Moved> {
    // fio may print notes before the object.
    let start = output.iter().position(|byte| *byte == b'{')?;
    let report: Value = serde_json::from_slice(&output[start..]).ok()?;
    let job = &report["jobs"][0];
    if job["error"].as_i64()? != 0 {
        return None;
    }
    // A load reads or writes, and the other side has no percentiles.
    let both = |key: &str| Some(job["read"][key].as_f64()? + job["write"][key].as_f64()?);
    let slowest = |side: &str| job[side]["clat_ns"]["percentile"]["99.000000"].as_f64();
    let moved = Moved {
        bytes: both("io_bytes")?,
        bytes_per_second: both("bw_bytes")?,
        p99: slowest("read")
            .unwrap_or(0.0)
            .max(slowest("write").unwrap_or(0.0))
            / 1e3,
    };
    (moved.bytes > 0.0).then_some(moved)
}

/// Runs all loads on the first `size` bytes of all targets, in turns: once to warm up, then in each round. Records the
/// rates in MB/s, of each target in its own series, one for each load. `times` are those of a warm-up and of a turn.
pub(super) fn take_turns(
    room: &Room,
    study: &mut Study,
    sides: &[(&Target, &[SeriesId])],
    loads: &[Load],
    size: u64,
    [warm_up, time]: [Duration; 2],
) -> Result<(), Error> {
    let run = |turn: Turn, time| {
        room.check()?;
        let (target, _) = sides[turn.contender];
        loads[turn.load].run(room, target, size, time, None)
    };
    eprintln!("warming up");
    for turn in turns(1, loads.len(), sides.len()) {
        run(turn, warm_up)?;
    }
    for turn in turns(study.rounds(), loads.len(), sides.len()) {
        announce(turn, study.rounds());
        let moved = run(turn, time)?;
        let (_, rates) = sides[turn.contender];
        study.record(rates[turn.load], moved.bytes_per_second / 1e6);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(error: i32, read: (u64, u64), written: (u64, u64)) -> Vec<u8> {
        let side =
            |(bytes, rate): (u64, u64)| serde_json::json!({"io_bytes": bytes, "bw_bytes": rate});
        let mut job =
            serde_json::json!({"error": error, "read": side(read), "write": side(written)});
        job["write"]["clat_ns"] = serde_json::json!({"percentile": {"99.000000": 7000}});
        format!("fio: a note\n{}", serde_json::json!({"jobs": [job]})).into_bytes()
    }

    #[test]
    fn reads_and_writes_are_added() {
        let moved = Moved {
            bytes: 30.0,
            bytes_per_second: 12.0,
            p99: 7.0,
        };
        assert_eq!(parse(&report(0, (10, 4), (20, 8))), Some(moved));
    }

    #[test]
    fn an_error_or_nothing_moved_is_no_measurement() {
        assert_eq!(parse(&report(5, (10, 4), (20, 8))), None);
        assert_eq!(parse(&report(0, (0, 0), (0, 0))), None);
        assert_eq!(parse(b"fio: only notes"), None);
        assert_eq!(parse(b"{\"jobs\": []}"), None);
    }
}
