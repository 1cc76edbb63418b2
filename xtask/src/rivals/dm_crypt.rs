//! `rivals dm-crypt`: the experiment of the kernel patch that made `no_read_workqueue` and
//! `no_write_workqueue`, on the real dm-crypt in a guest. Emulation is slow in its own ways, so that
//! only ratios within the guest mean anything.

use std::time::Duration;

use scrim_bench::{Better, Report, SeriesId, Study, turns};
use scrim_guest::{Cache, Guest, Kernel, Machine, Stream, Version};

use super::fio::{self, Moved};
use super::options::{Common, announce};
use super::programs::machine;
use crate::error::Error;

/// Options of `cargo xtask rivals dm-crypt`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    /// Which kernel: 6.1, 6.12 or 7.3
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    kernel: Kernel,
    /// Number of virtual CPUs; with several, a hand-over costs one between QEMU's threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    smp: u8,
    /// Time for which each contender runs each load
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = super::options::seconds)]
    seconds: f64,
}

/// dm-crypt with a cipher and some flags, or the RAM disk below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contender {
    /// Name in names of results: cipher and flags.
    cipher: &'static str,
    flags: &'static str,
}

const PLAIN: Contender = Contender {
    cipher: "plain",
    flags: "",
};

/// Each with what a table line says.
const CIPHERS: [(&str, &str); 2] = [
    ("null", "capi:ecb(cipher_null) -"),
    (
        "aes",
        "aes-xts-plain64 \
         000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
         202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
    ),
];

/// Each with what a table line says.
const FLAGS: [(&str, &str); 4] = [
    ("default", ""),
    ("no_read_workqueue", "1 no_read_workqueue"),
    ("no_write_workqueue", "1 no_write_workqueue"),
    ("no_workqueues", "2 no_read_workqueue no_write_workqueue"),
];

/// fio's `--rw`, sequential as in the experiment.
const LOADS: [&str; 2] = ["read", "write"];

/// Size of the RAM disk that all share.
const DISK_MIB: u32 = 128;
/// Time limit of one measurement, beyond its own time.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

impl Contender {
    fn all() -> Vec<Self> {
        let flagged = |cipher| FLAGS.map(|(flags, _)| Self { cipher, flags });
        let ciphers = CIPHERS.iter().flat_map(|(cipher, _)| flagged(*cipher));
        std::iter::once(PLAIN).chain(ciphers).collect()
    }

    fn name(self) -> String {
        if self == PLAIN {
            self.cipher.to_owned()
        } else {
            format!("{}_{}", self.cipher, self.flags)
        }
    }

    fn device(self) -> String {
        if self == PLAIN {
            "/dev/ram0".to_owned()
        } else {
            format!("/dev/mapper/{}", self.name())
        }
    }
}

/// Pairs that are compared: every set of flags with the default; the default and the best set with the
/// plain disk.
fn pairs() -> Vec<(Contender, Contender)> {
    let mut pairs = Vec::new();
    for (cipher, _) in CIPHERS {
        let with = |flags| Contender { cipher, flags };
        for (flags, _) in &FLAGS[1..] {
            pairs.push((with(flags), with("default")));
        }
        pairs.push((with("default"), PLAIN));
        pairs.push((with("no_workqueues"), PLAIN));
    }
    pairs
}

fn ratio_name(pair: (Contender, Contender), load: &str) -> String {
    let (ours, peer) = pair;
    let peer = if peer == PLAIN { "plain" } else { peer.flags };
    format!("emulated_{}_{load}_vs_{peer}", ours.name())
}

/// Each ratio; none has a target, for it is not ours that is measured.
pub(super) fn promises() -> impl Iterator<Item = (String, Option<f64>)> {
    LOADS.iter().flat_map(|load| {
        let names = pairs().into_iter().map(|pair| ratio_name(pair, load));
        names.map(|name| (name, None))
    })
}

pub(super) fn run(args: &Args) -> Result<Report, Error> {
    let machine = machine(&[], &[])?;
    let mut guest = boot(args)?;
    let contenders = Contender::all();
    let mut study = Study::new(machine, args.common.rounds);
    study.warn(format!(
        "emulated: a Linux {} under QEMU's emulation; only ratios within it mean anything",
        args.kernel
    ));
    let mut series = Vec::new();
    for load in LOADS {
        for contender in &contenders {
            let name = format!("emulated_{}_{load}", contender.name());
            let workload = format!("fio --ioengine=psync --direct=1 --bs=4k --rw={load}, emulated");
            series.push(study.series(name, "MB/s", Better::Higher, workload));
        }
    }
    for turn in turns(study.rounds(), LOADS.len(), contenders.len()) {
        announce(turn, study.rounds());
        let device = contenders[turn.contender].device();
        let moved = measure(&mut guest, &device, LOADS[turn.load], args.seconds)?;
        let sample = moved.bytes_per_second / 1e6;
        study.record(
            series[turn.load * contenders.len() + turn.contender],
            sample,
        );
    }
    guest.power_off()?;
    for (index, load) in LOADS.iter().enumerate() {
        let find = |wanted: Contender| -> Option<SeriesId> {
            let at = contenders
                .iter()
                .position(|contender| *contender == wanted)?;
            series.get(index * contenders.len() + at).copied()
        };
        for (ours, peer) in pairs() {
            if let (Some(ours_series), Some(peer_series)) = (find(ours), find(peer)) {
                study.ratio(
                    &ratio_name((ours, peer), load),
                    ours_series,
                    peer_series,
                    None,
                );
            }
        }
    }
    Ok(study.finish())
}

fn boot(args: &Args) -> Result<Guest, Error> {
    let mut announce = |step: &str| eprintln!("guest: {step}");
    let parts = Cache::open()?.parts(args.kernel, Version::Cached, &mut announce)?;
    let machine = Machine {
        cpus: args.smp,
        ..Machine::default()
    };
    let mut guest = Guest::boot(&parts, &machine)?;
    succeed(&mut guest, &set_up(), COMMAND_TIMEOUT)?;
    Ok(guest)
}

/// A filled RAM disk, and on it a mapping for each contender.
fn set_up() -> String {
    let mut script = format!(
        "set -e\n\
         modprobe brd rd_nr=1 rd_size={}\n\
         modprobe -a dm-crypt crypto_null\n\
         dd if=/dev/zero of=/dev/ram0 bs=1M count={DISK_MIB} oflag=direct status=none\n",
        DISK_MIB * 1024
    );
    let sectors = u64::from(DISK_MIB) << 11;
    for (cipher, line) in CIPHERS {
        for (flags, options) in FLAGS {
            let name = Contender { cipher, flags }.name();
            script.push_str(&format!(
                "dmsetup create {name} --table '0 {sectors} crypt {line} 0 /dev/ram0 0 {options}'\n\
                 test -b /dev/mapper/{name}\n"
            ));
        }
    }
    script
}

fn measure(guest: &mut Guest, device: &str, load: &str, seconds: f64) -> Result<Moved, Error> {
    let script = format!(
        "exec fio --name=load --filename={device} --rw={load} --bs=4k --direct=1 --ioengine=psync \
         --size={DISK_MIB}m --runtime={}ms --time_based --norandommap --output-format=json\n",
        (seconds * 1000.0).round()
    );
    let output = succeed(
        guest,
        &script,
        COMMAND_TIMEOUT + Duration::from_secs_f64(seconds),
    )?;
    fio::parse(&output).ok_or_else(|| Error::program("fio", String::from_utf8_lossy(&output)))
}

/// Runs a script and demands success; returns its standard output.
fn succeed(guest: &mut Guest, script: &str, limit: Duration) -> Result<Vec<u8>, Error> {
    let (mut output, mut said) = (Vec::new(), Vec::new());
    let code = guest.run(script, limit, &mut |stream, bytes| match stream {
        Stream::Output => output.extend_from_slice(bytes),
        Stream::Error => said.extend_from_slice(bytes),
    })?;
    if code == 0 {
        Ok(output)
    } else {
        Err(Error::program(
            "in the guest",
            String::from_utf8_lossy(&said),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_ratio_has_a_name_of_its_own() {
        let names: Vec<_> = promises().map(|(name, _)| name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.contains(&"emulated_aes_no_workqueues_read_vs_default".to_owned()));
        assert!(names.contains(&"emulated_null_default_write_vs_plain".to_owned()));
    }

    #[test]
    fn everything_compared_is_measured() {
        let measured = Contender::all();
        for (ours, peer) in pairs() {
            assert!(measured.contains(&ours) && measured.contains(&peer));
        }
    }
}
