//! Data from at rest to in transit: sectors are decrypted and sealed as records, in two passes over everything,
//! and in pieces that stay in the cache between the two. `scrim serve` goes by pieces of one record.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use scrim_bench::turns;

use crate::measure::{Buffer, Timer};
use crate::output::Output;
use crate::rival::{Fault, Turns};
use crate::scrim;
use crate::work::{Cipher, Direction, Work};

/// Bytes of plaintext: more than any cache holds.
const ALL: usize = 256 << 20;
/// Bytes of plaintext in a full record of TLS.
const RECORD: usize = 16 << 10;

const SECTORS: Work = Work::new(Cipher::Aes256Xts, 4096);
const RECORDS: Work = Work::new(Cipher::Aes128Gcm, RECORD);

/// A way to make records of sectors, by the amount of plaintext that is decrypted before it is sealed.
struct Way {
    name: &'static str,
    words: &'static str,
    piece_bytes: usize,
}

const WAYS: [Way; 3] = [
    Way {
        name: "two_pass",
        words: "all of it, then all of it again",
        piece_bytes: ALL,
    },
    Way {
        name: "pieces_1m",
        words: "1 MiB at a time",
        piece_bytes: 1 << 20,
    },
    Way {
        name: "fused",
        words: "a record at a time",
        piece_bytes: RECORD,
    },
];

/// The two halves, with Scrim's best drivers for this processor.
struct Halves {
    sectors: Box<dyn Turns>,
    records: Box<dyn Turns>,
}

pub(crate) fn run(rounds: usize, slice: Duration) -> Result<Output, Box<dyn Error>> {
    let mut output = Output::default();
    let mut halves = Halves::new()?;
    check(&mut halves)?;
    let series = WAYS.map(|way| {
        let workload = format!(
            "decrypt {} in sectors of 4096 bytes and seal them by {} in records of 16 KiB, 256 MiB, cold, {}",
            SECTORS.cipher.describe(),
            RECORDS.cipher.describe(),
            way.words
        );
        output.series(way.name.to_owned(), workload)
    });
    let mut buffer = Buffer::new(ALL / RECORD * RECORDS.unit);
    let all = buffer.run(RECORDS, ALL);
    let mut timer = Timer::new(slice);
    // The first round finds every page in place.
    for turn in turns(rounds + 1, 1, WAYS.len()) {
        if turn.round > 0 && turn.contender == 0 {
            eprintln!("round {} of {rounds}", turn.round);
        }
        let mut done = Ok(());
        let rate = timer.rate(ALL, || {
            done = halves.turn(WAYS[turn.contender].piece_bytes, all);
            black_box(&mut *all);
        });
        done?;
        if turn.round > 0 {
            output.record(series[turn.contender], rate);
        }
    }
    timer.warn(&mut output);
    Ok(output)
}

impl Halves {
    fn new() -> Result<Self, Box<dyn Error>> {
        let set_up = |work| (scrim::RUNS.set_up)(work)?.ok_or(Fault::of("set up"));
        Ok(Self {
            sectors: set_up(SECTORS)?,
            records: set_up(RECORDS)?,
        })
    }

    /// Goes over a run of records whose payloads are sectors.
    fn turn(&mut self, piece: usize, run: &mut [u8]) -> Result<(), Fault> {
        let mut first = RECORDS.first();
        for piece in run.chunks_mut(piece / RECORD * RECORDS.unit) {
            for (number, record) in RECORDS.units(first, piece) {
                // As many sectors as a record holds, counted in units of 512 bytes.
                let sector = SECTORS.first() + number * (RECORD / 512) as u64;
                let payload = &mut record[..RECORD];
                self.sectors.turn(Direction::Decrypt, sector, payload)?;
            }
            self.records.turn(Direction::Encrypt, first, piece)?;
            first += (piece.len() / RECORDS.unit) as u64;
        }
        Ok(())
    }
}

/// Every way must give the same records, and they must open to what was decrypted.
fn check(halves: &mut Halves) -> Result<(), Box<dyn Error>> {
    let some = 4 << 20;
    let mut buffer = Buffer::new(some / RECORD * RECORDS.unit);
    let stored = buffer.run(RECORDS, some).to_vec();
    let mut made = Vec::new();
    for way in WAYS {
        let mut run = stored.clone();
        halves.turn(way.piece_bytes.min(some), &mut run)?;
        made.push(run);
    }
    if made.iter().any(|run| *run != made[0]) {
        return Err("the ways differ in what they make".into());
    }
    let mut opened = made.swap_remove(0);
    let first = RECORDS.first();
    halves
        .records
        .turn(Direction::Decrypt, first, &mut opened)?;
    for (number, record) in RECORDS.units(first, &mut opened) {
        let sector = SECTORS.first() + number * (RECORD / 512) as u64;
        let payload = &mut record[..RECORD];
        halves.sectors.turn(Direction::Encrypt, sector, payload)?;
    }
    let payloads = |run: &[u8]| -> Vec<u8> {
        let records = run.chunks_exact(RECORDS.unit);
        records
            .flat_map(|record| record[..RECORD].to_vec())
            .collect()
    };
    match payloads(&opened) == payloads(&stored) {
        true => Ok(()),
        false => Err("what was sealed is not what was stored".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_makes_the_same_records_of_the_same_sectors() {
        check(&mut Halves::new().unwrap()).unwrap();
    }
}
