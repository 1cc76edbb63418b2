//! How near every driver comes to the limit of the CPU's AES units, and what it costs in core cycles
//! per byte:
//!
//! ```text
//! cargo run --release -p scrim-crypt --example cycles [cold] [PART OF A DRIVER'S NAME]
//! ```
//!
//! Everything is measured in turn, round by round, and compared with the limit, the core clock or
//! the copy of the same round; what is printed is the median of the rounds.

use std::hint::black_box;
use std::time::Instant;

use scrim_crypt::{CipherError, CipherSpec, Geometry, IvSector, SectorCipher, SectorSize, State};
use scrim_crypt::{implementations, probe};

fn main() -> Result<(), CipherError> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let is_cold = arguments.first().is_some_and(|first| first == "cold");
    let part = arguments.pop().filter(|part| part != "cold");
    let cases = cases(&part.unwrap_or_default())?;
    if is_cold {
        cold(cases);
    } else {
        hot(cases);
    }
    Ok(())
}

/// Bytes of the buffer, and of a run: it stays in the L2 cache, and a good part of it in L1.
const HOT: usize = 64 << 10;

fn hot(mut cases: Vec<Case>) {
    let mut data = vec![0x5a; 2 * HOT + 64];
    let start = data.as_ptr().align_offset(64);
    let (source, destination) = data[start..start + 2 * HOT].split_at_mut(HOT);
    let mut limits = Vec::new();
    for _ in 0..120 {
        let clock = clock();
        // For each block of the buffer one round.
        let limit = time(|| probe::aes_rounds(16 * HOT / 16)) / 16.0;
        limits.push(limit * clock / HOT as f64 * 64.0);
        for case in &mut cases {
            let time = time(|| case.turn(source, destination));
            case.values.push(time * clock / HOT as f64);
            case.ratios.push(limit * case.rounds() / time);
        }
    }
    println!("a round of 64 bytes: {:.3} cycles", median(&mut limits));
    for case in &mut cases {
        case.print("cycles/byte", "of the limit");
    }
}

/// Bytes of a buffer that no cache holds.
const COLD: usize = 256 << 20;

fn cold(mut cases: Vec<Case>) {
    let mut source = vec![1; COLD];
    let mut destination = vec![2; COLD];
    cases.retain(|case| case.run == HOT && case.key_size == 64);
    let mut copies = Vec::new();
    for _ in 0..9 {
        let copy = once(|| destination.copy_from_slice(black_box(&source)));
        copies.push(COLD as f64 / copy / 1e9);
        for case in &mut cases {
            let time = once(|| case.turn(&source, &mut destination));
            case.values.push(COLD as f64 / time / 1e9);
            case.ratios.push(copy / time);
        }
        source.fill(3);
    }
    println!("a copy: {:.2} GB/s", median(&mut copies));
    for case in &mut cases {
        case.print("GB/s", "of a copy");
    }
}

struct Case {
    cipher: SectorCipher,
    key_size: usize,
    /// Bytes per call.
    run: usize,
    call: Call,
    values: Vec<f64>,
    ratios: Vec<f64>,
}

#[derive(Clone, Copy)]
struct Call(&'static str, fn(&SectorCipher, IvSector, &[u8], &mut [u8]));

const CALLS: [Call; 4] = [
    Call("encrypt in place", |cipher, first, _, run| {
        cipher.encrypt_in_place(first, run);
    }),
    Call("decrypt in place", |cipher, first, _, run| {
        cipher.decrypt_in_place(first, run);
    }),
    Call("encrypt", SectorCipher::encrypt),
    Call("decrypt", SectorCipher::decrypt),
];

fn cases(part: &str) -> Result<Vec<Case>, CipherError> {
    let spec: CipherSpec = "aes-xts-plain64".parse()?;
    let key: Vec<u8> = (0..64).collect();
    let (small, large) = (SectorSize::S512, SectorSize::S4096);
    let runs = [
        (small, HOT),
        (large, HOT),
        (small, 512),
        (small, 4096),
        (large, 4096),
    ];
    let mut cases = Vec::new();
    let ready = |row: &&_| {
        matches!(
            row,
            scrim_crypt::Implementation {
                state: State::Ready,
                ..
            }
        )
    };
    for row in implementations().iter().filter(ready) {
        for key in [&key[..32], &key]
            .into_iter()
            .filter(|_| row.driver.contains(part))
        {
            for (sector, run) in runs {
                for call in CALLS {
                    let geometry = Geometry::new(sector);
                    cases.push(Case {
                        cipher: SectorCipher::new_with_driver(row.driver, &spec, key, geometry)?,
                        key_size: key.len(),
                        run,
                        call,
                        values: Vec::new(),
                        ratios: Vec::new(),
                    });
                }
            }
        }
    }
    Ok(cases)
}

impl Case {
    fn turn(&self, source: &[u8], destination: &mut [u8]) {
        let mut first = 7;
        let runs = source.chunks_exact(self.run);
        for (source, destination) in runs.zip(destination.chunks_exact_mut(self.run)) {
            (self.call.1)(&self.cipher, IvSector(first), source, destination);
            first += (self.run / 512) as u64;
        }
    }

    fn rounds(&self) -> f64 {
        if self.key_size == 32 { 10.0 } else { 14.0 }
    }

    fn print(&mut self, value: &str, ratio: &str) {
        println!(
            "{:16} AES-{} {:4} in runs of {:5}, {:16} {:8.4} {value}  {:.3} {ratio}",
            self.cipher.implementation().driver,
            self.key_size * 4,
            self.cipher.geometry().sector_size.bytes(),
            self.run,
            self.call.0,
            median(&mut self.values),
            median(&mut self.ratios),
        );
    }
}

/// The core clock in Hz: of multiplications that wait for each other each takes three cycles.
fn clock() -> f64 {
    const TURNS: u32 = 5_000;
    let mut x = black_box(3u64);
    let time = time(|| {
        for _ in 0..TURNS {
            x = x.wrapping_mul(x);
        }
        black_box(x);
    });
    3.0 * f64::from(TURNS) / time
}

/// Seconds: the median of five.
fn time<T>(mut turn: impl FnMut() -> T) -> f64 {
    median(&mut [(); 5].map(|()| once(&mut turn)))
}

fn once<T>(turn: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(turn());
    start.elapsed().as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
