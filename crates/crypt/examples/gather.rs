//! Measures the cost of a request that comes in several buffers: `cargo run --release --package scrim-crypt
//! --example gather` (`--json` for the samples).
//!
//! Each layout of 64 KiB is encrypted in place as it lies, beside the same bytes in one buffer
//! (`…_of_contiguous`), and beside the way without scatter-gather: copy all into one buffer,
//! encrypt it there, copy all back (`…_vs_flattened`).

use std::error::Error;
use std::hint::black_box;
use std::io::{self, IoSliceMut, Write};
use std::time::Duration;

use scrim_bench::{Better, Machine, Pinned, ROUNDS, SeriesId, Stopwatch, Study, turns};
use scrim_crypt::vectored::{Gathered, Vectored};
use scrim_crypt::{CipherSpec, Geometry, IvSector, SectorCipher, SectorSize};

/// Length of a request, in bytes.
const REQUEST: usize = 64 << 10;
/// Time that a sample takes.
const SLICE: Duration = Duration::from_millis(10);

/// The number of the first sector of a request.
const FIRST: IvSector = IvSector(7);

/// Cuts of a request: a first piece, and then pieces of one length, all in bytes.
const LAYOUTS: [(&str, usize, usize); 4] = [
    ("pages", 4096, 4096),
    ("shifted_pages", 100, 4096),
    ("shifted_16k", 100, 16 << 10),
    ("1000b", 1000, 1000),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut study = Study::new(Machine::describe(&[]), ROUNDS);
    let pinned = Pinned::here();
    if pinned.is_err() {
        study.warn(Pinned::MISSING);
    }
    let mut stopwatch = Stopwatch::new(SLICE);
    let mut counts = Vec::new();
    for size in [SectorSize::S512, SectorSize::S4096] {
        for text in ["aes-xts-plain64", "aes-cbc-essiv:sha256"] {
            let spec: CipherSpec = text.parse()?;
            let key: Vec<u8> = (0..64).collect();
            let key = &key[..*spec.key_sizes().last().ok_or("a cipher without keys")?];
            let cipher = SectorCipher::new(&spec, key, Geometry::new(size))?;
            for layout in LAYOUTS {
                let gathered = compare(&mut study, &mut stopwatch, (text, &cipher), layout);
                counts.push((name(&cipher, layout.0), gathered));
            }
        }
    }
    for warning in stopwatch.warnings() {
        study.warn(warning);
    }
    let report = study.finish();
    let mut out = io::stdout().lock();
    if std::env::args().any(|argument| argument == "--json") {
        writeln!(out, "{:#}", report.to_json())?;
        return Ok(());
    }
    writeln!(out, "{report}")?;
    for (name, Gathered { sectors, bytes }) in counts {
        writeln!(
            out,
            "{name}: {sectors} sectors gathered, {bytes} bytes copied"
        )?;
    }
    Ok(())
}

fn name(cipher: &SectorCipher, layout: &str) -> String {
    let sector = cipher.geometry().sector_size.bytes();
    let mode = if cipher.implementation().name.starts_with("xts") {
        "aes256xts"
    } else {
        "aes256cbc_essiv"
    };
    format!("{mode}_{sector}b_{layout}")
}

/// Measures one layout; tells what was gathered in one request.
fn compare(
    study: &mut Study,
    stopwatch: &mut Stopwatch,
    (spec, cipher): (&str, &SectorCipher),
    (layout, first, each): (&str, usize, usize),
) -> Gathered {
    let name = name(cipher, layout);
    let workload = format!("{spec} of {REQUEST} bytes, hot, in place");
    let mut series = |way: &str| {
        let name = format!("{name}_{way}_mb_per_second");
        study.series(name, "MB/s", Better::Higher, workload.clone())
    };
    let ways: [SeriesId; 3] = ["vectored", "contiguous", "flattened"].map(&mut series);

    let mut requests = Requests {
        cipher,
        separate: pieces(first, each),
        whole: vec![0; REQUEST],
        flat: vec![0; REQUEST],
        gathered: Gathered::default(),
    };
    let counts = [0, 1, 2].map(|way| stopwatch.turns(|turns| requests.go(way, turns)));
    for turn in turns(study.rounds(), 1, ways.len()) {
        let way = turn.contender;
        let slice = stopwatch.time(counts[way], |turns| requests.go(way, turns));
        study.record(ways[way], slice.rate(REQUEST as f64));
    }
    let [vectored, contiguous, flattened] = ways;
    study.ratio(&format!("{name}_of_contiguous"), vectored, contiguous, None);
    study.ratio(&format!("{name}_vs_flattened"), vectored, flattened, None);
    requests.gathered
}

/// A request for each way of encrypting it.
struct Requests<'a> {
    cipher: &'a SectorCipher,
    separate: Vec<Vec<u8>>,
    whole: Vec<u8>,
    flat: Vec<u8>,
    /// Counts of what was gathered in the last one.
    gathered: Gathered,
}

impl Requests<'_> {
    /// Makes `turns` requests in the way with the index `way`.
    fn go(&mut self, way: usize, turns: u64) {
        for _ in 0..turns {
            match way {
                0 => self.vectored(),
                1 => self.cipher.encrypt_in_place(FIRST, &mut self.whole),
                _ => self.flattened(),
            }
            black_box((&self.whole, &self.separate));
        }
    }

    fn vectored(&mut self) {
        let pieces = self.separate.iter_mut();
        let mut list: Vec<_> = pieces.map(|piece| IoSliceMut::new(piece)).collect();
        self.gathered = Vectored::of(self.cipher).encrypt_in_place(FIRST, &mut list);
    }

    fn flattened(&mut self) {
        let mut rest = &mut self.flat[..];
        for piece in &self.separate {
            let (part, others) = rest.split_at_mut(piece.len());
            part.copy_from_slice(piece);
            rest = others;
        }
        self.cipher.encrypt_in_place(FIRST, &mut self.flat);
        let mut rest = &self.flat[..];
        for piece in &mut self.separate {
            let (part, others) = rest.split_at(piece.len());
            piece.copy_from_slice(part);
            rest = others;
        }
    }
}

/// A request in buffers of its own.
fn pieces(first: usize, each: usize) -> Vec<Vec<u8>> {
    let mut pieces = vec![vec![0; first]];
    let mut left = REQUEST - first;
    while left > 0 {
        let len = each.min(left);
        pieces.push(vec![0; len]);
        left -= len;
    }
    pieces
}
