//! What it costs that a request comes in several buffers: `cargo run --release --package scrim-crypt
//! --example gather` (`--json` for the samples).
//!
//! Each layout of 64 KiB is encrypted in place as it lies, beside the same bytes in one buffer
//! (`…_of_contiguous`), and beside what one does without scatter-gather: copy all into one buffer,
//! encrypt it there, copy all back (`…_vs_flattened`).

use std::error::Error;
use std::hint::black_box;
use std::io::{self, IoSliceMut, Write};
use std::time::Instant;

use scrim_bench::{Better, Machine, ROUNDS, SeriesId, Study, turns};
use scrim_crypt::{CipherSpec, Gathered, Geometry, IvSector, SectorCipher, SectorSize};

/// Length of a request, in bytes.
const REQUEST: usize = 64 << 10;
/// Requests in a sample.
const REPEATS: u32 = 200;

/// How a request is cut: a first piece, and then pieces of one length, all in bytes.
const LAYOUTS: [(&str, usize, usize); 4] = [
    ("pages", 4096, 4096),
    ("shifted_pages", 100, 4096),
    ("shifted_16k", 100, 16 << 10),
    ("1000b", 1000, 1000),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut study = Study::new(Machine::describe(&[]), ROUNDS);
    let mut counts = Vec::new();
    for size in [SectorSize::S512, SectorSize::S4096] {
        for spec in ["aes-xts-plain64", "aes-cbc-essiv:sha256"] {
            let spec: CipherSpec = spec.parse()?;
            let key: Vec<u8> = (0..64).collect();
            let key = &key[..*spec.key_sizes().last().ok_or("a cipher without keys")?];
            let cipher = SectorCipher::new(&spec, key, Geometry::new(size))?;
            for layout in LAYOUTS {
                let gathered = compare(&mut study, &cipher, layout);
                counts.push((name(&cipher, layout.0), gathered));
            }
        }
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
    cipher: &SectorCipher,
    (layout, first, each): (&str, usize, usize),
) -> Gathered {
    let name = name(cipher, layout);
    let workload = format!("{} of {REQUEST} bytes, hot, in place", cipher.spec());
    let mut series = |way: &str| {
        let name = format!("{name}_{way}_mb_per_second");
        study.series(name, "MB/s", Better::Higher, workload.clone())
    };
    let ways: [SeriesId; 3] = ["vectored", "contiguous", "flattened"].map(&mut series);

    let mut whole = vec![0; REQUEST];
    let mut flat = vec![0; REQUEST];
    let mut separate = pieces(first, each);
    let mut gathered = Gathered::default();
    for turn in turns(study.rounds(), 1, ways.len()) {
        let start = Instant::now();
        for _ in 0..REPEATS {
            match turn.contender {
                0 => {
                    let mut list: Vec<_> = separate
                        .iter_mut()
                        .map(|piece| IoSliceMut::new(piece))
                        .collect();
                    gathered = cipher.encrypt_vectored_in_place(IvSector(7), &mut list);
                }
                1 => cipher.encrypt_in_place(IvSector(7), &mut whole),
                _ => flatten(cipher, &mut separate, &mut flat),
            }
            black_box((&whole, &separate));
        }
        let bytes = f64::from(REPEATS) * REQUEST as f64;
        let rate = bytes / start.elapsed().as_secs_f64() / 1e6;
        study.record(ways[turn.contender], rate);
    }
    let [vectored, contiguous, flattened] = ways;
    study.ratio(&format!("{name}_of_contiguous"), vectored, contiguous, None);
    study.ratio(&format!("{name}_vs_flattened"), vectored, flattened, None);
    gathered
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

fn flatten(cipher: &SectorCipher, pieces: &mut [Vec<u8>], flat: &mut [u8]) {
    let mut rest = &mut *flat;
    for piece in &*pieces {
        let (part, others) = rest.split_at_mut(piece.len());
        part.copy_from_slice(piece);
        rest = others;
    }
    cipher.encrypt_in_place(IvSector(7), flat);
    let mut rest = &*flat;
    for piece in pieces {
        let (part, others) = rest.split_at(piece.len());
        piece.copy_from_slice(part);
        rest = others;
    }
}
