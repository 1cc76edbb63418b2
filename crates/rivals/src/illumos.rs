//! The four stages of the illumos crypto framework, on this machine: each block by itself, chunks,
//! fast paths, and what there is today.
//!
//! The first two are the framework's general path: one block at a time, by the processor's AES, with
//! the vector registers saved and restored around every block or around 32 KiB. A kernel of 2015
//! also set the task-switched bit of CR0 each time, which a process cannot.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use aes::Aes128;
use aes::cipher::{Block, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use scrim_bench::turns;

use crate::expected::Expected;
use crate::foreign::fpu::Registers;
use crate::foreign::openssl::OPENSSL;
use crate::measure::{Buffer, Seat, Timer};
use crate::output::Output;
use crate::rival::{Fault, Library, SetUp, Turns, tagged};
use crate::rustcrypto::{RUSTCRYPTO, blocks};
use crate::scrim;
use crate::work::{BLOCK, Cipher, Direction, NONCE, Work, nonce, plain64};

/// Bytes that one operation turns.
const OPERATION: usize = 128 << 10;
/// Bytes that the framework processed between two saves, so that nothing waited longer than 0.1 ms.
const CHUNK: usize = 32 << 10;

/// The modes: sectors, and for GCM one message.
const MODES: [(&str, Work); 4] = [
    ("ecb", sectors(Cipher::Aes128Ecb)),
    ("ctr", sectors(Cipher::Aes128Ctr)),
    ("cbc", sectors(Cipher::Aes128Cbc)),
    ("gcm", Work::new(Cipher::Aes128Gcm, OPERATION)),
];

const fn sectors(cipher: Cipher) -> Work {
    Work::new(cipher, 4096)
}

const PER_BLOCK: Library = Library {
    name: "per_block",
    version: || Ok("one block at a time, registers saved around each".to_owned()),
    set_up: |work| General::set_up(work, Saves::Block),
};
const CHUNKS: Library = Library {
    name: "chunks",
    version: || Ok("one block at a time, registers saved around 32 KiB".to_owned()),
    set_up: |work| General::set_up(work, Saves::Chunk),
};
const FAST: Library = Library {
    name: "fast",
    version: || Ok("AES-NI, several blocks at once, carry-less multiplication".to_owned()),
    set_up: fast,
};
const TODAY: Library = Library {
    name: "today",
    version: || Ok("Scrim's best code for this processor".to_owned()),
    set_up: scrim::RUNS.set_up,
};

const STAGES: [&Library; 5] = [&PER_BLOCK, &CHUNKS, &FAST, &TODAY, &OPENSSL];

pub(crate) fn run(rounds: usize, sample: Duration) -> Result<Output, Box<dyn Error>> {
    let mut output = Output::default();
    let mut seats = Vec::new();
    for (name, work) in MODES {
        seats.push(seat(name, work, &mut output)?);
    }
    for stage in STAGES {
        match (stage.version)() {
            Ok(version) => output.found(stage.name, version),
            Err(missing) => output.missing(stage.name, missing.0),
        }
    }
    let mut buffer = Buffer::new(OPERATION);
    let mut timer = Timer::new(sample);
    for ((_, work), seats) in MODES.iter().zip(&mut seats) {
        for seat in seats.iter_mut().flatten() {
            seat.calibrate(&timer, buffer.run(*work, OPERATION))?;
        }
    }
    for turn in turns(rounds, MODES.len() * Direction::BOTH.len(), STAGES.len()) {
        if (turn.load, turn.contender) == (0, 0) {
            eprintln!("round {} of {rounds}", turn.round + 1);
        }
        let (mode, way) = (turn.load / 2, turn.load % 2);
        let Some(seat) = &mut seats[mode][turn.contender] else {
            continue;
        };
        let run = buffer.run(MODES[mode].1, OPERATION);
        seat.sample(&mut timer, way, run, &mut output)?;
    }
    timer.warn(&mut output);
    Ok(output)
}

/// Sets up every stage at one mode, each checked; `None` for those that this processor cannot run.
fn seat(name: &str, work: Work, output: &mut Output) -> Result<Vec<Option<Seat>>, Box<dyn Error>> {
    let reference = (RUSTCRYPTO.set_up)(work)?.ok_or("RustCrypto has every cipher")?;
    let expected = Expected::of(reference, work, OPERATION)?;
    let mut seats = Vec::new();
    for stage in STAGES {
        let Some(mut turns) = (stage.set_up)(work)? else {
            seats.push(None);
            continue;
        };
        let differs = |fault| format!("stage {} on {name}: {fault}", stage.name);
        expected.check(&mut *turns).map_err(differs)?;
        seats.push(Some(Seat::new(turns, work, |direction| {
            let way = direction.name();
            output.series(
                format!("illumos_{name}_{way}_{}", stage.name),
                workload(stage, work, direction),
            )
        })));
    }
    Ok(seats)
}

fn workload(stage: &Library, work: Work, direction: Direction) -> String {
    let (unit, by) = match (work.is_tagged(), stage.name) {
        (false, _) => ("sectors of 4096 bytes", ""),
        (true, "fast") => ("one message", ", by RustCrypto"),
        (true, _) => ("one message", ""),
    };
    let (way, cipher) = (direction.name(), work.cipher.describe());
    format!("{way} {cipher}, {unit}, 128 KiB, hot, in place{by}")
}

/// The fast paths by code that needs no more than they had. CBC encryption goes through a sector
/// block by block, as it did through a message.
fn fast(work: Work) -> SetUp {
    let driver = match work.cipher {
        Cipher::Aes128Ecb => "ecb-aes-aesni",
        Cipher::Aes128Ctr => "ctr-aes-aesni",
        Cipher::Aes128Cbc => "cbc-aes-aesni",
        _ => return (RUSTCRYPTO.set_up)(work),
    };
    // Where the driver cannot be used there is no such stage.
    let Ok(Some(cipher)) = scrim::cipher_with_driver(work, driver) else {
        return Ok(None);
    };
    Ok(Some(if work.cipher == Cipher::Aes128Cbc {
        Box::new(scrim::Single { cipher, work })
    } else {
        Box::new(scrim::Runs(cipher))
    }))
}

/// Points at which the vector registers are saved and restored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Saves {
    Block,
    Chunk,
}

/// The framework's general path.
struct General {
    block: OneBlock,
    around_chunks: Registers,
    saves: Saves,
    work: Work,
    hash: GHash,
}

/// A block of AES by a pointer to a function and in a buffer of its own, as the framework turned them:
/// each is copied in and out.
struct OneBlock {
    aes: Aes128,
    encrypt: fn(&Aes128, &mut AesBlock),
    decrypt: fn(&Aes128, &mut AesBlock),
    last: AesBlock,
    registers: Registers,
    /// True if the registers are saved around each.
    saves: bool,
}

type AesBlock = Block<Aes128>;

impl OneBlock {
    /// Encrypts what is in the buffer.
    fn encrypt(&mut self) {
        let Self { aes, last, .. } = self;
        around(&mut self.registers, self.saves, || {
            (self.encrypt)(aes, last);
        });
    }

    /// Decrypts what is in the buffer.
    fn decrypt(&mut self) {
        let Self { aes, last, .. } = self;
        around(&mut self.registers, self.saves, || {
            (self.decrypt)(aes, last);
        });
    }

    fn hash(&mut self, hash: &mut GHash, block: &AesBlock) {
        let blocks = std::slice::from_ref(block);
        around(&mut self.registers, self.saves, || hash.update(blocks));
    }

    fn ecb(&mut self, direction: Direction, sector: &mut [u8]) {
        for data in blocks(sector) {
            self.last = *data;
            match direction {
                Direction::Encrypt => self.encrypt(),
                Direction::Decrypt => self.decrypt(),
            }
            *data = self.last;
        }
    }

    fn ctr(&mut self, iv: [u8; BLOCK], sector: &mut [u8]) {
        let mut counter = u128::from_be_bytes(iv);
        for data in blocks(sector) {
            self.last = counter.to_be_bytes().into();
            self.encrypt();
            xor(data, &self.last);
            counter = counter.wrapping_add(1);
        }
    }

    fn cbc_encrypt(&mut self, iv: [u8; BLOCK], sector: &mut [u8]) {
        self.last = iv.into();
        for data in blocks(sector) {
            xor(&mut self.last, data);
            self.encrypt();
            *data = self.last;
        }
    }

    fn cbc_decrypt(&mut self, iv: [u8; BLOCK], sector: &mut [u8]) {
        let mut chain = iv.into();
        for data in blocks(sector) {
            self.last = *data;
            self.decrypt();
            xor(&mut self.last, &chain);
            chain = *data;
            *data = self.last;
        }
    }
}

impl General {
    fn set_up(work: Work, saves: Saves) -> SetUp {
        let (Some(around_blocks), Some(around_chunks)) = (Registers::new(), Registers::new())
        else {
            return Ok(None);
        };
        let aes = Aes128::new_from_slice(work.cipher.key()).map_err(|_| Fault::of("new"))?;
        let mut hash_key = AesBlock::default();
        aes.encrypt_block(&mut hash_key);
        let block = OneBlock {
            aes,
            // The compiler is not to know which functions these are.
            encrypt: black_box(Aes128::encrypt_block),
            decrypt: black_box(Aes128::decrypt_block),
            last: AesBlock::default(),
            registers: around_blocks,
            saves: saves == Saves::Block,
        };
        Ok(Some(Box::new(Self {
            block,
            around_chunks,
            saves,
            work,
            hash: GHash::new(&hash_key),
        })))
    }

    fn turn_sectors(&mut self, direction: Direction, first: u64, run: &mut [u8]) {
        let Self { block, work, .. } = self;
        let mut turn_chunk = |first, chunk: &mut [u8]| {
            for (number, sector) in work.units(first, chunk) {
                let iv = plain64(number);
                match (work.cipher, direction) {
                    (Cipher::Aes128Ctr, _) => block.ctr(iv, sector),
                    (Cipher::Aes128Cbc, Direction::Encrypt) => block.cbc_encrypt(iv, sector),
                    (Cipher::Aes128Cbc, Direction::Decrypt) => block.cbc_decrypt(iv, sector),
                    _ => block.ecb(direction, sector),
                }
            }
        };
        let saves = self.saves == Saves::Chunk;
        let sectors = (CHUNK / work.unit) as u64;
        for (index, chunk) in (0..).zip(run.chunks_mut(CHUNK)) {
            let first = work.number(first, index * sectors);
            around(&mut self.around_chunks, saves, || turn_chunk(first, chunk));
        }
    }

    /// One message of GCM with a nonce of 12 bytes (SP 800-38D, 7.1 and 7.2); returns its tag.
    fn turn_message(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> [u8; BLOCK] {
        let mut start = [0; BLOCK];
        start[..NONCE].copy_from_slice(&nonce(first));
        let counted = |counter: u32| {
            let mut block = start;
            block[NONCE..].copy_from_slice(&counter.to_be_bytes());
            AesBlock::from(block)
        };
        let mut counter = 1;
        let mut hash = self.hash.clone();
        let mut lengths = AesBlock::default();
        lengths[8..].copy_from_slice(&(run.len() as u64 * 8).to_be_bytes());
        let block = &mut self.block;
        let mut turn_chunk = |chunk: &mut [u8]| {
            for data in blocks(chunk) {
                if direction == Direction::Decrypt {
                    block.hash(&mut hash, data);
                }
                counter += 1;
                block.last = counted(counter);
                block.encrypt();
                xor(data, &block.last);
                if direction == Direction::Encrypt {
                    block.hash(&mut hash, data);
                }
            }
        };
        let saves = self.saves == Saves::Chunk;
        for chunk in run.chunks_mut(CHUNK) {
            around(&mut self.around_chunks, saves, || turn_chunk(chunk));
        }
        block.hash(&mut hash, &lengths);
        block.last = counted(1);
        block.encrypt();
        xor(&mut block.last, &hash.finalize());
        block.last.into()
    }
}

impl Turns for General {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        if !self.work.is_tagged() {
            self.turn_sectors(direction, first, run);
            return Ok(());
        }
        let (data, tag) = tagged(run)?;
        let computed = self.turn_message(direction, first, data);
        match direction {
            Direction::Encrypt => *tag = computed,
            Direction::Decrypt if *tag != computed => return Err(Fault::of("the tag")),
            Direction::Decrypt => {}
        }
        Ok(())
    }
}

/// Does `work`, with the registers saved around it or not.
fn around(registers: &mut Registers, saves: bool, work: impl FnOnce()) {
    if saves {
        registers.saved(work);
    } else {
        work();
    }
}

fn xor(data: &mut AesBlock, other: &AesBlock) {
    for (byte, other) in data.iter_mut().zip(other) {
        *byte ^= other;
    }
}
