//! Lines to compare with: the storage itself, the network, a client's disk, the need, and the processor.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use scrim_crypt::probe;

use super::night::{Client, Night};
use crate::stat::median;
use crate::{Better, Stopwatch, Study};

/// Part of a link's bits that arrives as payload of files: Ethernet frames of 1500 bytes with TCP and IPv4 (1460 of
/// 1538 bytes on the wire), and what SMB or NFS add.
const EFFECTIVE: f64 = 0.94;
/// The report's rule of need: the fastest client's disk, times this, for fewer than five clients.
const NEED: f64 = 1.5;
/// Blocks of the AES loop in a turn, and bytes of a copy.
const CHUNK: usize = 64 << 10;
/// Measuring time of each limit of the processor.
const SLICE: Duration = Duration::from_millis(20);
/// Number of slices, of which the median counts.
const SLICES: usize = 5;

/// A network link of this machine that is up.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub name: String,
    /// Speed of the link in Mbit/s.
    pub mbit: f64,
}

/// Rates to compare with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct References {
    /// Links of the network, fastest first.
    pub links: Vec<Link>,
    /// MB/s of the processor's AES units with 256-bit keys; `None` without them.
    pub aes256: Option<f64>,
    /// MB/s of a copy in memory.
    pub memcpy: f64,
}

impl Link {
    /// MB/s of files that the link carries in practice.
    #[must_use]
    pub fn effective(&self) -> f64 {
        self.mbit / 8.0 * EFFECTIVE
    }
}

impl Client {
    /// MB/s that a server for fewer than five clients needs, when clients read and when they write.
    #[must_use]
    pub fn need(self) -> Self {
        Self {
            // A client reads from the server the data that it writes to its disk.
            read: self.write * NEED,
            write: self.read * NEED,
        }
    }
}

impl References {
    /// Finds this machine's network links that tell a speed, the fastest first.
    #[must_use]
    pub fn links() -> Vec<Link> {
        links(Path::new("/sys/class/net"))
    }

    /// Looks at this machine.
    #[must_use]
    pub fn measure() -> Self {
        Self {
            links: Self::links(),
            aes256: aes_limit(),
            memcpy: memcpy(),
        }
    }

    /// Returns the fastest link.
    #[must_use]
    pub fn network(&self) -> Option<&Link> {
        self.links.first()
    }

    pub(super) fn record(&self, study: &mut Study, night: &Night) {
        let mut record = |name: String, workload: &str, samples: &[f64]| {
            if samples.is_empty() {
                return;
            }
            let series = study.series(name, "MB/s", Better::Higher, workload);
            for sample in samples {
                study.record(series, *sample);
            }
        };
        let (write, read) = raw_samples(night);
        let what = "the storage itself, in order by calls of 1 MiB";
        record("raw_disk_write".to_owned(), what, &write);
        record("raw_disk_read".to_owned(), what, &read);
        for link in &self.links {
            let what = format!("{} Mbit/s, less what protocols add", link.mbit);
            record(format!("network_{}", link.name), &what, &[link.effective()]);
        }
        let Client { read, write } = night.plan.client;
        record("client_disk_read".to_owned(), "as it was given", &[read]);
        record("client_disk_write".to_owned(), "as it was given", &[write]);
        let need = night.plan.client.need();
        let what = "a client's disk times 1.5, for fewer than five clients";
        record("need_read".to_owned(), what, &[need.read]);
        record("need_write".to_owned(), what, &[need.write]);
        let aes: Vec<f64> = self.aes256.into_iter().collect();
        record("aes256_limit".to_owned(), "one core's AES units", &aes);
        if self.memcpy > 0.0 {
            record(
                "memcpy".to_owned(),
                "a copy on one core, hot",
                &[self.memcpy],
            );
        }
    }

    pub(super) fn text(&self, night: &Night) -> String {
        let mut text = "# To compare with, in MB/s\n".to_owned();
        let mut line = |label: &str, value: String| {
            let _ = writeln!(text, "{label:<44}{value:>11}");
        };
        if let Some((write, read)) = raw(night) {
            line("the storage itself, writes", format!("{write:.0}"));
            line("the storage itself, reads", format!("{read:.0}"));
        }
        for link in &self.links {
            let label = format!("network {}, {} Mbit/s", link.name, link.mbit);
            line(&label, format!("{:.0}", link.effective()));
        }
        let Client { read, write } = night.plan.client;
        line(
            "disk of a client, reads and writes",
            format!("{read:.0}/{write:.0}"),
        );
        let need = night.plan.client.need();
        line(
            "need of up to four clients, reads and writes",
            format!("{:.0}/{:.0}", need.read, need.write),
        );
        if let Some(aes) = self.aes256 {
            line("AES-256 limit of one core", format!("{aes:.0}"));
        }
        if self.memcpy > 0.0 {
            line("memcpy on one core", format!("{:.0}", self.memcpy));
        }
        text
    }
}

/// Medians of the storage's own rates: writes and reads. `None` without a whole round.
pub(super) fn raw(night: &Night) -> Option<(f64, f64)> {
    let (write, read) = raw_samples(night);
    Some((median(&write)?, median(&read)?))
}

/// The storage's own rates in whole rounds: writes and reads.
fn raw_samples(night: &Night) -> (Vec<f64>, Vec<f64>) {
    let whole = night.whole_rounds();
    let whole = night.raw.iter().filter(|raw| raw.round < whole);
    whole.map(|raw| (raw.write, raw.read)).unzip()
}

/// Finds the links in a folder like `/sys/class/net` that tell a speed. Virtual ones seldom do, or tell nonsense.
fn links(folder: &Path) -> Vec<Link> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let mbit: f64 = read("speed")?.trim().parse().ok()?;
        let is_up = read("operstate").is_none_or(|state| state.trim() != "down");
        (mbit > 0.0 && is_up).then(|| Link {
            name: entry.file_name().to_string_lossy().into_owned(),
            mbit,
        })
    });
    let mut links: Vec<Link> = found.collect();
    links.sort_by(|a, b| b.mbit.total_cmp(&a.mbit).then(a.name.cmp(&b.name)));
    links
}

fn aes_limit() -> Option<f64> {
    let blocks = CHUNK / 16;
    if !probe::aes_rounds(blocks) {
        return None;
    }
    let rate = best(CHUNK, |turns| {
        for _ in 0..turns {
            black_box(probe::aes_rounds(blocks));
        }
    });
    // The loop is one round for each block; AES-256 has 14.
    Some(rate / 14.0)
}

fn memcpy() -> f64 {
    let source = vec![0x5a_u8; CHUNK];
    let mut copy = vec![0_u8; CHUNK];
    best(CHUNK, |turns| {
        for _ in 0..turns {
            copy.copy_from_slice(black_box(&source));
            black_box(&mut copy);
        }
    })
}

/// MB/s of the median slice.
fn best(bytes: usize, mut work: impl FnMut(u64)) -> f64 {
    let mut stopwatch = Stopwatch::with_clock(SLICE, || None);
    let turns = stopwatch.turns(&mut work);
    let slices = (0..SLICES).map(|_| stopwatch.time(turns, &mut work).rate(bytes as f64));
    median(&slices.collect::<Vec<_>>()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::night::tests::full;
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn links_that_tell_their_speed_are_found() {
        let folder = Folder::make(&std::env::temp_dir(), "scrim-net").unwrap();
        for (name, speed, state) in [
            ("eth0", "1000\n", "up\n"),
            ("eth1", "10000\n", "unknown\n"),
            ("eth2", "1000\n", "down\n"),
            ("wlan0", "-1\n", "up\n"),
            ("lo", "", "unknown\n"),
        ] {
            let link = folder.path().join(name);
            fs::create_dir(&link).unwrap();
            fs::write(link.join("speed"), speed).unwrap();
            fs::write(link.join("operstate"), state).unwrap();
        }
        let found = links(folder.path());
        let names: Vec<&str> = found.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["eth1", "eth0"]);
        assert_eq!(found[1].effective(), 117.5);
        assert!(links(Path::new("/no/such/folder")).is_empty());
    }

    #[test]
    fn the_need_is_the_reports() {
        let need = Client {
            read: 60.0,
            write: 40.0,
        }
        .need();
        assert_eq!((need.read, need.write), (60.0, 90.0));
    }

    #[test]
    fn the_text_names_each_line() {
        let references = References {
            links: vec![Link {
                name: "eth0".to_owned(),
                mbit: 1000.0,
            }],
            aes256: Some(9999.0),
            memcpy: 0.0,
        };
        let text = references.text(&full());
        for part in [
            "itself, writes                          300",
            "eth0, 1000 Mbit/s",
            "60/40",
            "60/90",
            "9999",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("memcpy"));
    }
}
