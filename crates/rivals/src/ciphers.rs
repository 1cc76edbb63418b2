//! Disk sectors and records, by every library, in turn.

use std::error::Error;
use std::time::Duration;

use scrim_bench::turns;

use crate::bound::BOUND;
use crate::expected::Expected;
use crate::foreign::awslc::AWS_LC;
use crate::foreign::gcrypt::GCRYPT;
use crate::foreign::gnutls::GNUTLS;
use crate::foreign::ipsec_mb::IPSEC_MB;
use crate::foreign::isal::ISA_L;
use crate::foreign::nettle::NETTLE;
use crate::foreign::openssl::OPENSSL;
use crate::measure::{Buffer, Seat, Timer};
use crate::output::Output;
use crate::restriction::Restriction;
use crate::rival::{Fault, Library, Turns};
use crate::rustcrypto::RUSTCRYPTO;
use crate::scrim;
use crate::work::{Cipher, Direction, Work};

/// A cipher on a buffer.
struct Load {
    /// Name, as in the names of results.
    name: &'static str,
    work: Work,
    /// True if the buffer is longer than the caches.
    cold: bool,
}

const fn load(name: &'static str, cipher: Cipher, bytes: usize, cold: bool) -> Load {
    Load {
        name,
        work: Work::new(cipher, bytes),
        cold,
    }
}

const LOADS: [Load; 14] = [
    load("aes256xts_512b", Cipher::Aes256Xts, 512, false),
    load("aes256xts_4k", Cipher::Aes256Xts, 4096, false),
    load("aes128xts_4k", Cipher::Aes128Xts, 4096, false),
    load("aes256cbc_essiv_512b", Cipher::Aes256CbcEssiv, 512, false),
    load("aes256cbc_essiv_4k", Cipher::Aes256CbcEssiv, 4096, false),
    load("aes128ctr_4k", Cipher::Aes128Ctr, 4096, false),
    load("aes128ecb_4k", Cipher::Aes128Ecb, 4096, false),
    load("serpent256xts_4k", Cipher::Serpent256Xts, 4096, false),
    load("camellia256xts_4k", Cipher::Camellia256Xts, 4096, false),
    load("adiantum_4k", Cipher::Adiantum12, 4096, false),
    load("aes128gcm_16k", Cipher::Aes128Gcm, 16384, false),
    load("aes256gcm_16k", Cipher::Aes256Gcm, 16384, false),
    load("aes256xts_512b_cold", Cipher::Aes256Xts, 512, true),
    load("aes256xts_4k_cold", Cipher::Aes256Xts, 4096, true),
];

/// Loads that are run again with fewer of the processor's instructions.
const RESTRICTED: [&str; 8] = [
    "aes256xts_512b",
    "aes256xts_4k",
    "aes128ctr_4k",
    "serpent256xts_4k",
    "camellia256xts_4k",
    "adiantum_4k",
    "aes128gcm_16k",
    "aes256gcm_16k",
];

/// Scrim first, then the limit, then the rivals.
const CONTENDERS: [&Library; 11] = [
    &scrim::RUNS,
    &scrim::SINGLE,
    &BOUND,
    &AWS_LC,
    &OPENSSL,
    &RUSTCRYPTO,
    &GCRYPT,
    &GNUTLS,
    &NETTLE,
    &IPSEC_MB,
    &ISA_L,
];

const HOT: usize = 64 << 10;
const COLD: usize = 256 << 20;

/// The names of all loads.
pub(crate) fn load_names() -> clap::builder::PossibleValuesParser {
    LOADS.map(|load| load.name).into()
}

/// Reports which libraries are available, and nothing more.
pub(crate) fn libraries() -> Output {
    let mut output = Output::default();
    look_for_libraries(&mut output);
    output
}

pub(crate) fn run(
    rounds: usize,
    sample: Duration,
    restriction: Restriction,
    chosen: &[String],
) -> Result<Output, Box<dyn Error>> {
    let loads: Vec<&Load> = LOADS
        .iter()
        .filter(|load| chosen.is_empty() || chosen.iter().any(|name| name == load.name))
        .filter(|load| restriction == Restriction::None || RESTRICTED.contains(&load.name))
        .collect();
    let mut output = Output::default();
    let present = look_for_libraries(&mut output);
    let mut seats = Vec::new();
    for load in &loads {
        seats.push(seat(load, &present, restriction, &mut output)?);
    }

    let mut buffers = Buffers::of(&loads);
    let mut timer = Timer::new(sample);
    for (load, seats) in loads.iter().zip(&mut seats) {
        if load.cold {
            // A pass is a slice.
            continue;
        }
        for (library, place) in CONTENDERS.iter().zip(seats) {
            attempt(place, library, load, &mut output, |seat, _| {
                seat.calibrate(&timer, buffers.run(load))
            });
        }
    }
    let lines = loads.len() * Direction::BOTH.len();
    for turn in turns(rounds, lines, CONTENDERS.len()) {
        if (turn.load, turn.contender) == (0, 0) {
            let (round, described) = (turn.round + 1, restriction.describe());
            eprintln!("{described}: round {round} of {rounds}");
        }
        let (line, way) = (turn.load / 2, turn.load % 2);
        let (load, library) = (loads[line], CONTENDERS[turn.contender]);
        let place = &mut seats[line][turn.contender];
        attempt(place, library, load, &mut output, |seat, output| {
            seat.sample(&mut timer, way, buffers.run(load), output)
        });
    }
    timer.warn(&mut output);
    Ok(output)
}

/// Runs `what` on a library that is still in its place; a library that fails is removed from it.
fn attempt(
    place: &mut Option<Seat>,
    library: &Library,
    load: &Load,
    output: &mut Output,
    what: impl FnOnce(&mut Seat, &mut Output) -> Result<(), Fault>,
) {
    let Some(seat) = place else { return };
    if let Err(fault) = what(seat, output) {
        output.warn(format!("{} failed on {}: {fault}", library.name, load.name));
        *place = None;
    }
}

/// Buffers that the libraries encrypt and decrypt.
struct Buffers {
    hot: Buffer,
    cold: Buffer,
}

impl Buffers {
    /// Makes the long buffer only where a load needs it.
    fn of(loads: &[&Load]) -> Self {
        let cold = loads.iter().any(|load| load.cold);
        Self {
            hot: Buffer::new(HOT),
            cold: Buffer::new(if cold { COLD } else { 0 }),
        }
    }

    fn run(&mut self, load: &Load) -> &mut [u8] {
        if load.cold {
            self.cold.run(load.work, COLD)
        } else {
            self.hot.run(load.work, HOT)
        }
    }
}

/// Checks which of the contenders are available.
fn look_for_libraries(output: &mut Output) -> Vec<bool> {
    let look = |library: &&Library| match (library.version)() {
        Ok(version) => {
            output.found(library.name, version);
            true
        }
        Err(missing) => {
            output.missing(library.name, missing.0);
            false
        }
    };
    CONTENDERS.iter().map(look).collect()
}

/// Sets up every contender of a load, and lets none go on that does not give the same bytes as the
/// others.
fn seat(
    load: &Load,
    present: &[bool],
    restriction: Restriction,
    output: &mut Output,
) -> Result<Vec<Option<Seat>>, Box<dyn Error>> {
    let reference = (RUSTCRYPTO.set_up)(load.work)?.ok_or("RustCrypto has every cipher")?;
    let expected = Expected::of(reference, load.work, HOT)?;
    let mut seats = Vec::new();
    for (library, present) in CONTENDERS.iter().zip(present) {
        let turns = if *present && takes_part(library, load, restriction) {
            set_up(library, load, &expected, output)?
        } else {
            None
        };
        seats.push(turns.map(|turns| {
            Seat::new(turns, load.work, |direction| {
                let (prefix, name) = (restriction.prefix(), library.name);
                output.series(
                    format!("{prefix}{}_{}_{name}", load.name, direction.name()),
                    workload(load, library, direction),
                )
            })
        }));
    }
    Ok(seats)
}

/// Checks whether a library takes part at a load: not every comparison is asked for.
fn takes_part(library: &Library, load: &Load, restriction: Restriction) -> bool {
    match library.name {
        "bound" => !load.cold && !load.work.is_tagged(),
        "scrim_single" => restriction == Restriction::None && load.name == "aes256xts_512b",
        _ => true,
    }
}

/// `None` for a rival that cannot do it. What Scrim cannot do is an error: then nothing is compared.
fn set_up(
    library: &Library,
    load: &Load,
    expected: &Expected,
    output: &mut Output,
) -> Result<Option<Box<dyn Turns>>, Box<dyn Error>> {
    let name = library.name;
    let checked = (library.set_up)(load.work).and_then(|turns| {
        let Some(mut turns) = turns else {
            return Ok(None);
        };
        if name != BOUND.name {
            expected.check(&mut *turns)?;
        }
        Ok(Some(turns))
    });
    match checked {
        Ok(turns) => Ok(turns),
        Err(fault) if name.starts_with(scrim::RUNS.name) => {
            Err(format!("{name} on {}: {fault}", load.name).into())
        }
        Err(fault) => {
            output.warn(format!("{name} is left out of {}: {fault}", load.name));
            Ok(None)
        }
    }
}

fn workload(load: &Load, library: &Library, direction: Direction) -> String {
    let Load { work, cold, .. } = load;
    let unit = if work.is_tagged() {
        "records"
    } else {
        "sectors"
    };
    let buffer = if *cold {
        "256 MiB, cold"
    } else {
        "64 KiB, hot"
    };
    let cipher = work.cipher.describe();
    let (way, bytes) = (direction.name(), work.payload());
    let mut text = format!("{way} {cipher}, {unit} of {bytes} bytes, {buffer}, in place");
    if library.name.starts_with(scrim::RUNS.name) {
        if work.is_tagged() {
            text += ", by AWS-LC behind aws-lc-rs";
        } else if let Some(driver) = scrim::driver(*work) {
            text += &format!(", driver {driver}");
        }
    }
    text
}
