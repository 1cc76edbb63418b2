//! Work of a volume of the kernel, by the statistics of its block device
//! (`Documentation/ABI/stable/sysfs-block` and `admin-guide/iostats.rst`).

use serde::Serialize;

use super::volume::KernelVolume;
use crate::error::CliError;

/// Figures that `stats` shows of volumes of Scrim's own engine, and that the kernel does not count.
const NOT_KNOWN: [&str; 5] = [
    "requests that failed",
    "percentiles of latency",
    "time in queues, in the cipher and on the storage apart",
    "hand-overs between threads",
    "bytes copied",
];

/// Work of a volume since it was opened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct KernelFigures {
    pub(crate) name: String,
    /// Always `kernel`, to tell it from figures of Scrim's own engine.
    pub(crate) engine: &'static str,
    pub(crate) suspended: bool,
    pub(crate) read: KernelTraffic,
    pub(crate) write: KernelTraffic,
    pub(crate) discard: KernelTraffic,
    pub(crate) flush: KernelTraffic,
    /// Requests that are being carried out now.
    pub(crate) in_flight: u64,
    /// Time in which at least one request was being carried out, in milliseconds.
    pub(crate) busy_ms: u64,
    /// Names of figures that the kernel does not count.
    pub(crate) not_known: [&'static str; 5],
}

/// Requests of one kind that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct KernelTraffic {
    pub(crate) requests: u64,
    /// Bytes that were moved; 0 for flushes.
    pub(crate) bytes: u64,
    /// Sum of the times from the beginning of each request to its end, in milliseconds.
    pub(crate) sum_ms: u64,
}

impl KernelVolume {
    /// Reads the statistics of its block device.
    pub(crate) fn figures(&self) -> Result<KernelFigures, CliError> {
        let path = self.sysfs().join("stat");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| self.failed("read the statistics of the device", &error))?;
        let numbers: Vec<u64> = text
            .split_ascii_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        Ok(figures(self.name.as_str(), self.state.suspended, &numbers))
    }
}

/// Figures of the numbers in `stat`. Kernels before 5.5 have fewer.
fn figures(name: &str, suspended: bool, numbers: &[u64]) -> KernelFigures {
    let number = |place: usize| numbers.get(place).copied().unwrap_or(0);
    // Each has its requests, merges, sectors and milliseconds.
    let traffic = |first: usize| KernelTraffic {
        requests: number(first),
        bytes: number(first + 2).saturating_mul(512),
        sum_ms: number(first + 3),
    };
    KernelFigures {
        name: name.to_owned(),
        engine: "kernel",
        suspended,
        read: traffic(0),
        write: traffic(4),
        in_flight: number(8),
        busy_ms: number(9),
        discard: traffic(11),
        flush: KernelTraffic {
            requests: number(15),
            bytes: 0,
            sum_ms: number(16),
        },
        not_known: NOT_KNOWN,
    }
}

impl KernelFigures {
    /// Each kind of request by its name.
    pub(crate) fn kinds(&self) -> [(&'static str, &KernelTraffic); 4] {
        [
            ("reads", &self.read),
            ("writes", &self.write),
            ("discards", &self.discard),
            ("flushes", &self.flush),
        ]
    }
}

impl KernelTraffic {
    /// Mean time of a request, in milliseconds; `None` without requests.
    #[allow(clippy::cast_precision_loss, reason = "shown with few digits")]
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.sum_ms as f64 / self.requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_the_kernels_line_are_known() {
        // Linux 6.12, a dm-crypt device.
        let line = [
            120, 3, 4096, 30, 64, 1, 2048, 96, 2, 55, 126, 5, 0, 80, 7, 9, 1,
        ];
        let figures = figures("secret", false, &line);
        let traffic = |requests, bytes, sum_ms| KernelTraffic {
            requests,
            bytes,
            sum_ms,
        };
        assert_eq!(figures.read, traffic(120, 4096 * 512, 30));
        assert_eq!(figures.write, traffic(64, 2048 * 512, 96));
        assert_eq!(figures.discard, traffic(5, 80 * 512, 7));
        assert_eq!(figures.flush, traffic(9, 0, 1));
        assert_eq!((figures.in_flight, figures.busy_ms), (2, 55));
        assert_eq!(figures.write.mean_ms(), Some(1.5));
    }

    #[test]
    fn a_shorter_line_of_an_older_kernel_is_enough() {
        let figures = figures("secret", true, &[1, 0, 8, 2]);
        assert_eq!(figures.read.requests, 1);
        assert_eq!(figures.flush, KernelTraffic::default());
        assert_eq!(figures.flush.mean_ms(), None);
    }
}
