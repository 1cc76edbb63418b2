//! Advice from the figures: a sentence for each combination, the bottleneck of the machine, and the lines to use.

use super::combination::{Cipher, Combination, MountPath};
use super::night::{Night, PhaseResult};
use super::phase::Phase;
use super::reference::{References, raw};
use crate::figure::Figure;

/// Part of another rate from which on two rates are as good as the same.
const SAME: f64 = 0.95;
/// Part of the storage's own rate from which on the storage is the limit.
const NEAR: f64 = 0.8;
/// Busy processors from which on a core is full.
const FULL: f64 = 0.85;

/// Limit of the whole path from the storage to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bottleneck {
    Network,
    Disk,
    Cipher,
    OneCore,
    Mount,
}

/// Block write and block read of a combination, with what they are compared with.
#[derive(Clone, Copy, Debug)]
struct Rates {
    write: f64,
    read: f64,
}

impl Rates {
    fn of(night: &Night, combination: usize) -> Option<Self> {
        Self::by(night, combination, |figure| figure.value)
    }

    /// The upper ends of their intervals.
    fn highest(night: &Night, combination: usize) -> Option<Self> {
        Self::by(night, combination, |figure| figure.interval.high)
    }

    fn by(night: &Night, combination: usize, value: impl Fn(&Figure) -> f64) -> Option<Self> {
        let rate = |phase| Some(value(&night.rate(combination, phase)?));
        Some(Self {
            write: rate(Phase::BlockWrite)?,
            read: rate(Phase::BlockRead)?,
        })
    }

    fn least(self) -> f64 {
        self.write.min(self.read)
    }

    /// Rate of a file that is written and then read.
    fn both(self) -> f64 {
        2.0 / (1.0 / self.write.max(1e-9) + 1.0 / self.read.max(1e-9))
    }
}

/// The sentence on a combination.
pub(super) fn sentence(night: &Night, references: &References, index: usize) -> String {
    let Some(combination) = night.plan.combinations.get(index) else {
        return String::new();
    };
    if let Some(failure) = night.failure_of(index) {
        return format!("Not measured: {}.", failure.trim_end_matches('.'));
    }
    let Some(rates) = Rates::of(night, index) else {
        return "Not measured in a whole round.".to_owned();
    };
    let speed = speed(night, combination, rates);
    let enough = enough(night, references, rates);
    match combination.cipher.as_ref().and_then(Cipher::weakness) {
        Some(weakness) => format!("Unwise: {weakness}. {speed}; {enough}."),
        None => format!("{speed}; {enough}."),
    }
}

fn speed(night: &Night, combination: &Combination, rates: Rates) -> String {
    let plain = night.plain_of(combination);
    let plain = plain.filter(|_| combination.cipher.is_some());
    let Some(plain) = plain.and_then(|index| Rates::of(night, index)) else {
        return format!("Writes {:.0} and reads {:.0} MB/s", rates.write, rates.read);
    };
    let (write, read) = (rates.write / plain.write, rates.read / plain.read);
    let word = match write.min(read) {
        least if least >= SAME => "Fast",
        least if least >= 0.6 => "Moderate",
        _ => "Slow",
    };
    format!(
        "{word}: writes at {:.0} % and reads at {:.0} % of plain data",
        write * 100.0,
        read * 100.0
    )
}

fn enough(night: &Night, references: &References, rates: Rates) -> String {
    let need = night.plan.client.need();
    if let Some(link) = references.network()
        && rates.least() >= link.effective()
    {
        return format!(
            "faster than the network carries ({:.0} MB/s), so clients notice nothing",
            link.effective()
        );
    }
    match (rates.write >= need.write, rates.read >= need.read) {
        (true, true) => "enough for up to four clients".to_owned(),
        (false, true) => format!(
            "too slow for writes of up to four clients ({:.0} MB/s)",
            need.write
        ),
        (true, false) => format!(
            "too slow for reads of up to four clients ({:.0} MB/s)",
            need.read
        ),
        (false, false) => format!(
            "too slow for up to four clients ({:.0} and {:.0} MB/s)",
            need.write, need.read
        ),
    }
}

/// The combination to use, of those that are not unwise: the first of the plan that is as good as the fastest, or that
/// could be by its intervals. So noise recommends nothing.
pub(super) fn best(night: &Night) -> Option<usize> {
    let sound = night.combinations().filter(|(_, combination)| {
        let cipher = combination.cipher.as_ref();
        cipher.is_some_and(|cipher| cipher.weakness().is_none())
    });
    let rated: Vec<(usize, f64)> = sound
        .filter(|(index, _)| night.failure_of(*index).is_none())
        .filter_map(|(index, _)| Some((index, Rates::of(night, index)?.both())))
        .collect();
    let most = rated.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let may_be_as_good = |index: &usize| {
        let highest = Rates::highest(night, *index);
        highest.is_some_and(|rates| rates.both() >= most * SAME)
    };
    rated.iter().map(|(index, _)| *index).find(may_be_as_good)
}

/// Finds the bottleneck of the best combination.
pub(super) fn bottleneck(night: &Night, references: &References) -> Option<Bottleneck> {
    let best = best(night)?;
    let combination = night.plan.combinations.get(best)?;
    let rates = Rates::of(night, best)?;
    let plain = Rates::of(night, night.plain_of(combination)?)?;
    let (raw_write, raw_read) = raw(night)?;
    let link = references.network();
    if link.is_some_and(|link| link.effective() <= rates.least()) {
        return Some(Bottleneck::Network);
    }
    if rates.write >= raw_write * NEAR && rates.read >= raw_read * NEAR {
        return Some(Bottleneck::Disk);
    }
    let cores = |phase| {
        let samples = night.samples(best, phase, PhaseResult::busy_cores);
        crate::stat::median(&samples).unwrap_or(0.0)
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = cores(Phase::BlockWrite).min(cores(Phase::BlockRead));
    if rates.both() >= plain.both() * SAME {
        return Some(Bottleneck::Mount);
    }
    let one = processors > 1 && (FULL..FULL + 0.5).contains(&busy);
    Some(match one {
        true => Bottleneck::OneCore,
        false => Bottleneck::Cipher,
    })
}

impl Bottleneck {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Network => {
                "The network is the bottleneck: the server reads and writes more than its fastest link carries. A faster \
                 cipher changes nothing for clients."
            }
            Self::Disk => {
                "The disk is the bottleneck: encrypted files are nearly as fast as the storage itself. A faster cipher \
                 changes little."
            }
            Self::Cipher => "The cipher is the bottleneck: plain data on the same way is faster.",
            Self::OneCore => {
                "One core is the bottleneck: plain data on the same way is faster, and about one core is busy."
            }
            Self::Mount => {
                "The file system and its mount are the bottleneck: plain data is no faster on the same way, and the \
                 storage itself is."
            }
        }
    }
}

/// Commands and lines of configuration files for the best combination, each with its purpose.
pub(super) fn lines(night: &Night) -> Vec<(&'static str, String)> {
    let best = best(night).and_then(|index| night.plan.combinations.get(index));
    let Some((combination, cipher)) = best.and_then(|one| Some((one, one.cipher.as_ref()?))) else {
        return Vec::new();
    };
    let Cipher { spec, key_bits } = cipher;
    let options = format!("--cipher {spec} --key-size {key_bits}");
    let data_path = match combination.path {
        MountPath::Queued => "queued",
        MountPath::Inline | MountPath::Kernel => "inline",
    };
    let crypttab = match combination.path {
        // The kernel's own encryption is measured with its default flags.
        MountPath::Queued | MountPath::Kernel => "luks",
        MountPath::Inline => "luks,no-read-workqueue,no-write-workqueue",
    };
    vec![
        (
            "a volume in a file",
            format!("scrim format {options} volume.img --size 100G"),
        ),
        (
            "its mount",
            format!("scrim mount volume.img /srv/data --data-path {data_path}"),
        ),
        (
            "a volume on a device",
            format!("cryptsetup luksFormat --type luks2 {options} --sector-size 4096 /dev/DEVICE"),
        ),
        ("/etc/crypttab", format!("data /dev/DEVICE none {crypttab}")),
        (
            "/etc/fstab",
            "/dev/mapper/data /srv/data ext4 noatime 0 2".to_owned(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::night::tests::{full, turn};
    use super::super::reference::Link;
    use super::*;

    fn network(mbit: f64) -> References {
        References {
            links: vec![Link {
                name: "eth0".to_owned(),
                mbit,
            }],
            ..References::default()
        }
    }

    #[test]
    fn a_sentence_says_fast_or_slow_and_enough_or_not() {
        let night = full();
        let none = References::default();
        let said = |index, references: &References| sentence(&night, references, index);
        assert_eq!(
            said(0, &none),
            "Writes 200 and reads 200 MB/s; enough for up to four clients."
        );
        let slow = said(2, &none);
        assert!(
            slow.starts_with("Slow: writes at 33 % and reads at 33 %"),
            "{slow}"
        );
        assert!(
            slow.contains("too slow for writes of up to four clients (90 MB/s)"),
            "{slow}"
        );
        assert!(said(1, &network(100.0)).contains("clients notice nothing"));
    }

    #[test]
    fn a_weak_cipher_is_unwise_and_never_the_best() {
        let mut night = full();
        for combination in &mut night.plan.combinations[1..2] {
            combination.cipher = Some(Cipher::parse("aes-ecb:256").unwrap());
        }
        assert!(sentence(&night, &References::default(), 1).starts_with("Unwise: "));
        assert_eq!(best(&night), Some(2));
        assert!(
            lines(&night)[0]
                .1
                .contains("aes-xts-plain64 --key-size 512")
        );
    }

    #[test]
    fn the_kernels_flags_are_those_that_were_measured() {
        let mut night = full();
        night.plan.combinations[1].path = MountPath::Kernel;
        let crypttab = &lines(&night)[3];
        assert_eq!(crypttab.1, "data /dev/DEVICE none luks");
    }

    #[test]
    fn a_failure_is_not_recommended() {
        let mut night = full();
        night.turns[1].failure = Some("disk full".to_owned());
        assert!(sentence(&night, &References::default(), 1).contains("disk full"));
        assert_eq!(best(&night), Some(2));
    }

    #[test]
    fn the_bottleneck_is_named() {
        let night = full();
        assert_eq!(
            bottleneck(&night, &network(100.0)),
            Some(Bottleneck::Network)
        );
        let found = bottleneck(&night, &network(10_000.0));
        assert!(matches!(
            found,
            Some(Bottleneck::Cipher | Bottleneck::OneCore)
        ));
        let mut quick = full();
        for (round, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            quick
                .turns
                .retain(|one| (one.round, one.combination) != (round, index));
            quick.turns.push(turn(round, index, 390.0));
        }
        assert_eq!(
            bottleneck(&quick, &References::default()),
            Some(Bottleneck::Disk)
        );
        for raw in &mut quick.raw {
            raw.read = 4000.0;
        }
        assert_eq!(
            bottleneck(&quick, &References::default()),
            Some(Bottleneck::Mount)
        );
    }
}
