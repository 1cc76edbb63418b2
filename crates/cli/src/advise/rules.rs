//! Options that follow from what was found and measured. Each has its evidence, and the price of what could be taken
//! instead.

use scrim_figures::Size;
use serde::Serialize;

use super::measure::{Figures, Rates};
use super::place::Place;

/// Time of a read of 4096 bytes in µs from which on queues make no difference: a handover to another thread takes some µs.
const SLOW_READ: f64 = 1000.0;
/// Physical block from which on a larger sector is written as a whole.
const LARGE_BLOCK: u32 = 4096;

/// A recommendation for one option.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub(super) subject: &'static str,
    pub(super) choice: String,
    /// Findings or figures, and the conclusion from them.
    pub(super) evidence: String,
    pub(super) alternatives: Vec<Alternative>,
}

/// Another choice that could be made.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Alternative {
    pub(super) choice: String,
    pub(super) price: String,
}

/// A line that does what is advised.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Command {
    /// Purpose of the line, for a heading.
    pub(super) purpose: &'static str,
    pub(super) line: String,
}

/// Recommendations, the commands that carry them out, and what they do not rest on.
pub(super) struct Advised {
    pub(super) lines: Vec<Line>,
    pub(super) commands: Vec<Command>,
    pub(super) not_measured: Vec<String>,
}

/// Applies the rules, from the cipher to the flags.
pub(super) fn apply(place: &Place, figures: &Figures) -> Advised {
    let cipher = Cipher::choose(figures);
    let sector = sector_size(place, &cipher);
    let flags = Flags::choose(place, figures, &cipher);
    let lines = vec![
        cipher.line(figures),
        cipher.key_line(figures),
        sector.1,
        derivation(figures),
        engine(place),
        flags.line(figures, &cipher),
    ];
    Advised {
        lines,
        commands: commands(place, &cipher, sector.0, flags),
        not_measured: not_measured(place, figures),
    }
}

/// The cipher that is recommended.
struct Cipher {
    spec: &'static str,
    key_bits: u32,
    rates: Option<Rates>,
    is_aes: bool,
}

impl Cipher {
    /// AES is chosen unless Adiantum is known to be faster, as on a processor without instructions for AES.
    fn choose(figures: &Figures) -> Self {
        let slow_aes = |aes: &Rates, other: &Rates| aes.sectors_4096 < other.sectors_4096;
        match (figures.aes_256, figures.adiantum) {
            (Some(aes), Some(adiantum)) if slow_aes(&aes, &adiantum) => Self {
                spec: "xchacha12,aes-adiantum-plain64",
                key_bits: 256,
                rates: Some(adiantum),
                is_aes: false,
            },
            (aes, _) => Self {
                spec: "aes-xts-plain64",
                key_bits: 512,
                rates: aes,
                is_aes: true,
            },
        }
    }

    fn rate(&self) -> Option<f64> {
        Some(self.rates?.sectors_4096)
    }

    fn line(&self, figures: &Figures) -> Line {
        let (other, other_rates) = match self.is_aes {
            true => ("xchacha12,aes-adiantum-plain64", figures.adiantum),
            false => ("aes-xts-plain64", figures.aes_256),
        };
        let evidence = match (self.rate(), figures.disk.rate()) {
            (Some(rate), Some(disk)) => format!(
                "{} on one core, {} the disk's {}",
                mb(rate),
                times(rate / disk),
                mb(disk)
            ),
            (Some(rate), None) => format!("{} on one core", mb(rate)),
            (None, _) => "the usual choice; it was not measured".to_owned(),
        };
        let price = match (self.rate(), other_rates) {
            (Some(rate), Some(other)) => format!(
                "{} here, {}; it would be the choice on a processor {} AES instructions",
                mb(other.sectors_4096),
                slower(rate / other.sectors_4096),
                if self.is_aes { "without" } else { "with" }
            ),
            _ => "not measured".to_owned(),
        };
        Line {
            subject: "cipher",
            choice: self.spec.to_owned(),
            evidence,
            alternatives: vec![Alternative {
                choice: other.to_owned(),
                price,
            }],
        }
    }

    fn key_line(&self, figures: &Figures) -> Line {
        if !self.is_aes {
            return Line {
                subject: "key size",
                choice: format!("{} bits", self.key_bits),
                evidence: "Adiantum has one size of key".to_owned(),
                alternatives: Vec::new(),
            };
        }
        let disk = figures.disk.rate();
        let core = |rates: Option<Rates>| Some(disk? / rates?.sectors_4096 * 100.0);
        let evidence = match core(figures.aes_256) {
            Some(core) => format!(
                "AES-256 (XTS takes two keys); at the disk's rate it occupies {core:.0} % of a core"
            ),
            None => "AES-256 (XTS takes two keys)".to_owned(),
        };
        let price = match (figures.aes_128, figures.aes_256, core(figures.aes_128)) {
            (Some(short), Some(long), Some(core)) => format!(
                "AES-128, {}, {core:.0} % of a core at the disk's rate; a shorter key",
                faster(short.sectors_4096 / long.sectors_4096)
            ),
            (Some(short), Some(long), None) => format!(
                "AES-128, {}; a shorter key",
                faster(short.sectors_4096 / long.sectors_4096)
            ),
            _ => "AES-128; not measured".to_owned(),
        };
        Line {
            subject: "key size",
            choice: format!("{} bits", self.key_bits),
            evidence,
            alternatives: vec![Alternative {
                choice: "256 bits".to_owned(),
                price,
            }],
        }
    }
}

/// The encryption sector, in bytes. Larger ones than the disk writes as a whole could be torn by a power cut.
fn sector_size(place: &Place, cipher: &Cipher) -> (u32, Line) {
    let blocks = place
        .disk
        .as_ref()
        .and_then(|disk| Some((disk.logical_block?, disk.physical_block?)));
    let (bytes, evidence) = match (place.is_device, blocks) {
        (true, Some((logical, _))) if logical >= LARGE_BLOCK => {
            (4096, format!("the disk takes blocks of {logical} bytes"))
        }
        (true, Some((_, physical))) if physical >= LARGE_BLOCK => (
            4096,
            format!("the disk writes blocks of {physical} bytes as a whole"),
        ),
        (true, Some((_, physical))) => (
            512,
            format!("the disk only promises to write {physical} bytes as a whole"),
        ),
        (true, None) => (
            512,
            "the disk does not tell how much it writes as a whole".to_owned(),
        ),
        (false, _) => (
            4096,
            "file systems read and write in such blocks, and a file's data lies in them".to_owned(),
        ),
    };
    let gain = cipher
        .rates
        .map(|rates| rates.sectors_4096 / rates.sectors_512);
    let gain = gain.map_or("not measured".to_owned(), |gain| match bytes {
        4096 => format!("the cipher is {}", slower(gain)),
        _ => format!("the cipher is {}", faster(gain)),
    });
    let alternative = match bytes {
        4096 => Alternative {
            choice: "512 bytes".to_owned(),
            price: format!(
                "{gain}; for content whose blocks are smaller, such as an old boot disk"
            ),
        },
        _ => Alternative {
            choice: "4096 bytes".to_owned(),
            price: format!("{gain}; after a power cut, part of a sector may be noise"),
        },
    };
    let line = Line {
        subject: "sector size",
        choice: format!("{bytes} bytes"),
        evidence,
        alternatives: vec![alternative],
    };
    (bytes, line)
}

fn derivation(figures: &Figures) -> Line {
    let evidence = figures.argon2id.map_or(
        "the usual choice; it was not measured".to_owned(),
        |cost| {
            format!(
                "2 s here for {} passes over {} on {} threads, which a guesser needs for each guess too",
                cost.passes,
                Size::of_kib(cost.memory_kib),
                cost.lanes
            )
        },
    );
    let iterations = figures.pbkdf2_iterations;
    let price = iterations.map_or(String::new(), |iterations| {
        format!("{:.1} million iterations in 2 s; ", iterations / 1e6)
    });
    let mut alternatives = vec![Alternative {
        choice: "pbkdf2".to_owned(),
        price: format!("{price}it needs no memory, so graphics cards try passphrases much faster"),
    }];
    if let Some(cost) = figures.argon2id {
        alternatives.push(Alternative {
            choice: format!("--pbkdf-memory {}", cost.memory_kib / 4),
            price: "for machines with less memory that open the volume too; guesses need a quarter of the memory"
                .to_owned(),
        });
    }
    Line {
        subject: "key derivation",
        choice: "argon2id".to_owned(),
        evidence,
        alternatives,
    }
}

fn engine(place: &Place) -> Line {
    let (choice, evidence, other) = match (place.is_root, place.has_device_mapper) {
        (true, true) if place.is_device => (
            "dm-crypt, by cryptsetup",
            "root may use it, and it gives a block device that boots and mounts like any other",
            (
                "scrim",
                "no block device of its own, but a mount or NBD; without root",
            ),
        ),
        (true, true) => (
            "scrim",
            "an image file needs no loop device with it, and users need no root",
            ("dm-crypt, by cryptsetup", "root and a loop device"),
        ),
        (true, false) => (
            "scrim",
            "this kernel has no device mapper loaded",
            (
                "dm-crypt, by cryptsetup",
                "a kernel with dm-crypt: `modprobe dm-crypt`",
            ),
        ),
        (false, _) => (
            "scrim",
            "without root there is no other",
            ("dm-crypt, by cryptsetup", "root"),
        ),
    };
    Line {
        subject: "engine",
        choice: choice.to_owned(),
        evidence: evidence.to_owned(),
        alternatives: vec![Alternative {
            choice: other.0.to_owned(),
            price: other.1.to_owned(),
        }],
    }
}

/// Flags of dm-crypt, with the reason for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flags {
    /// dm-crypt's flags `no_read_workqueue` and `no_write_workqueue`.
    NoQueues,
    /// None: the disk takes so long that queues make no difference.
    SlowDisk,
    /// None: one core encrypts less than the disk writes, so that queues, which use others, help long requests.
    SlowCipher,
    /// None: there is no evidence.
    Unknown,
}

impl Flags {
    fn choose(place: &Place, figures: &Figures, cipher: &Cipher) -> Self {
        let moves = place.disk.as_ref().and_then(|disk| disk.is_rotational);
        match (figures.disk.read_4k, figures.disk.rate(), cipher.rate()) {
            (Some(read), ..) if read >= SLOW_READ => Self::SlowDisk,
            (Some(_), Some(disk), Some(rate)) if rate < disk => Self::SlowCipher,
            (Some(_), _, Some(_)) => Self::NoQueues,
            _ if moves == Some(true) => Self::SlowDisk,
            _ => Self::Unknown,
        }
    }

    fn line(self, figures: &Figures, cipher: &Cipher) -> Line {
        let read = figures.disk.read_4k.unwrap_or_default();
        let rate = cipher.rate().unwrap_or_default();
        let us = 4096.0 / rate.max(1e-9);
        let none = "none in dm-crypt; --data-path auto in Scrim";
        let both =
            "no-read-workqueue and no-write-workqueue in dm-crypt; --data-path auto in Scrim";
        let (choice, evidence, alternative) = match self {
            Self::NoQueues => (
                both,
                format!(
                    "the disk answers 4 KiB in {read:.0} µs and the cipher takes {us:.1} µs for it, so a handover to \
                     another thread is a cost; one core encrypts more than the disk takes"
                ),
                ("none", "each request waits for another thread twice"),
            ),
            Self::SlowCipher => (
                none,
                "one core encrypts less than the disk takes, so long requests gain from several cores".to_owned(),
                (
                    "no-read-workqueue and no-write-workqueue",
                    "short requests by themselves are answered sooner, long ones use one core each",
                ),
            ),
            Self::SlowDisk => (
                none,
                match figures.disk.read_4k {
                    Some(read) => format!(
                        "the disk answers 4 KiB in {:.1} ms, beside which a queue's some µs make no difference",
                        read / 1000.0
                    ),
                    None => "the disk has moving parts, by the kernel's word; beside them a queue makes no difference"
                        .to_owned(),
                },
                (
                    "no-read-workqueue and no-write-workqueue",
                    "nothing, and nothing gained",
                ),
            ),
            Self::Unknown => (
                none,
                "the disk was not measured".to_owned(),
                (
                    "no-read-workqueue and no-write-workqueue",
                    "on fast disks they help short requests; on slow ones they change nothing",
                ),
            ),
        };
        Line {
            subject: "flags",
            choice: choice.to_owned(),
            evidence,
            alternatives: vec![Alternative {
                choice: alternative.0.to_owned(),
                price: alternative.1.to_owned(),
            }],
        }
    }

    fn crypttab(self) -> &'static str {
        match self {
            Self::NoQueues => "luks,no-read-workqueue,no-write-workqueue",
            Self::SlowDisk | Self::SlowCipher | Self::Unknown => "luks",
        }
    }
}

fn commands(place: &Place, cipher: &Cipher, sector: u32, flags: Flags) -> Vec<Command> {
    let options = format!(
        "--cipher {} --key-size {} --sector-size {sector}",
        cipher.spec, cipher.key_bits
    );
    let path = place.path.display().to_string();
    let command = |purpose, line| Command { purpose, line };
    if place.is_device {
        let device = quoted(&path);
        return vec![
            command(
                "make the volume",
                format!("scrim format {options} {device}"),
            ),
            command(
                "the same with cryptsetup",
                format!("cryptsetup luksFormat --type luks2 --pbkdf argon2id {options} {device}"),
            ),
            command("mount it", format!("scrim mount {device} DIR")),
            command(
                "or have it opened at boot, in /etc/crypttab",
                format!("data {path} none {}", flags.crypttab()),
            ),
        ];
    }
    let image = quoted(&place.path.join("disk.img").display().to_string());
    vec![
        command(
            "make the volume, with a folder's files in it",
            format!("scrim pack {options} FOLDER {image}"),
        ),
        command(
            "or an empty one",
            format!("scrim format {options} --size 10G {image}"),
        ),
        command("mount it", format!("scrim mount {image} DIR")),
    ]
}

/// A word of a shell's command.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn not_measured(place: &Place, figures: &Figures) -> Vec<String> {
    let mut left_out = Vec::new();
    if let Some(reason) = &figures.disk_left_out {
        left_out.push(format!("the disk, or a part of it: {reason}"));
    }
    let path = quoted(&place.path.display().to_string());
    left_out.push(format!(
        "file systems in volumes of each cipher: `scrim bench fileserver {path}` takes a night, with --quick minutes"
    ));
    left_out
        .push("data paths and flags: `scrim bench paths` measures them on a RAM disk".to_owned());
    if figures.aes_256.is_none() || figures.argon2id.is_none() {
        left_out.push("ciphers or key derivations: the measurement was ended".to_owned());
    }
    left_out
}

fn mb(rate: f64) -> String {
    match rate {
        ..10_000.0 => format!("{rate:.0} MB/s"),
        _ => format!("{:.1} GB/s", rate / 1000.0),
    }
}

/// Multiple of something, as in "twice the disk's".
fn times(ratio: f64) -> String {
    match ratio {
        ..10.0 => format!("{ratio:.1} times"),
        _ => format!("{ratio:.0} times"),
    }
}

fn slower(ratio: f64) -> String {
    match ratio {
        ..1.03 => "as fast".to_owned(),
        1.03..2.0 => format!("{:.0} % slower", (1.0 - 1.0 / ratio) * 100.0),
        _ => format!("{ratio:.1} times slower"),
    }
}

fn faster(ratio: f64) -> String {
    match ratio {
        ..1.03 => "as fast".to_owned(),
        1.03..2.0 => format!("{:.0} % faster", (ratio - 1.0) * 100.0),
        _ => format!("{ratio:.1} times faster"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Argon2id, Disk as DiskFigures};
    use super::super::place::Disk;
    use super::*;

    fn place(is_device: bool, physical: u32) -> Place {
        Place {
            path: if is_device {
                "/dev/sda1"
            } else {
                "/srv/my files"
            }
            .into(),
            is_device,
            file_system: None,
            bytes: 1 << 40,
            disk: Some(Disk {
                name: "sda".to_owned(),
                model: None,
                is_rotational: Some(false),
                logical_block: Some(512),
                physical_block: Some(physical),
                takes_discards: true,
            }),
            is_in_memory: false,
            is_root: false,
            has_device_mapper: true,
        }
    }

    fn rates(rate: f64) -> Option<Rates> {
        Some(Rates {
            sectors_512: rate * 0.8,
            sectors_4096: rate,
        })
    }

    fn figures(aes: f64, disk: f64, read_4k: f64) -> Figures {
        Figures {
            aes_256: rates(aes),
            aes_128: rates(aes * 1.3),
            adiantum: rates(400.0),
            disk: DiskFigures {
                write: Some(disk),
                read: Some(disk * 2.0),
                read_4k: Some(read_4k),
                read_4k_p99: Some(read_4k * 4.0),
            },
            argon2id: Some(Argon2id {
                passes: 6,
                memory_kib: 1 << 20,
                lanes: 2,
            }),
            ..Figures::default()
        }
    }

    fn choice(advised: &Advised, subject: &str) -> String {
        let line = advised.lines.iter().find(|line| line.subject == subject);
        line.unwrap().choice.clone()
    }

    #[test]
    fn a_processor_without_aes_gets_adiantum() {
        let fast = apply(&place(true, 512), &figures(9000.0, 500.0, 90.0));
        assert_eq!(choice(&fast, "cipher"), "aes-xts-plain64");
        assert_eq!(choice(&fast, "key size"), "512 bits");
        let slow = apply(&place(true, 512), &figures(80.0, 500.0, 90.0));
        assert_eq!(choice(&slow, "cipher"), "xchacha12,aes-adiantum-plain64");
        assert_eq!(choice(&slow, "key size"), "256 bits");
        let unknown = apply(&place(true, 512), &Figures::default());
        assert_eq!(choice(&unknown, "cipher"), "aes-xts-plain64");
    }

    #[test]
    fn sectors_are_what_the_disk_writes_as_a_whole() {
        let figures = figures(9000.0, 500.0, 90.0);
        let sector = |is_device, physical| {
            choice(&apply(&place(is_device, physical), &figures), "sector size")
        };
        assert_eq!(sector(true, 512), "512 bytes");
        assert_eq!(sector(true, 4096), "4096 bytes");
        assert_eq!(sector(false, 512), "4096 bytes");
    }

    #[test]
    fn flags_follow_from_the_disk_and_one_core() {
        let flags = |aes, disk, read| {
            let advised = apply(&place(true, 512), &figures(aes, disk, read));
            choice(&advised, "flags").starts_with("no-read-workqueue")
        };
        assert!(flags(9000.0, 500.0, 90.0));
        assert!(!flags(9000.0, 500.0, 9000.0), "a slow disk");
        assert!(!flags(900.0, 5000.0, 90.0), "a slow cipher");
    }

    #[test]
    fn lines_can_be_pasted() {
        let advised = apply(&place(false, 512), &figures(9000.0, 500.0, 90.0));
        assert_eq!(
            advised.commands[2].line,
            "scrim mount '/srv/my files/disk.img' DIR"
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
        let advised = apply(&place(true, 512), &figures(9000.0, 500.0, 90.0));
        assert_eq!(
            advised.commands[3].line,
            "data /dev/sda1 none luks,no-read-workqueue,no-write-workqueue"
        );
    }
}
