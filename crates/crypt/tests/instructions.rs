//! Number of instructions that each driver takes for its work, beside the number it took when
//! `instructions.txt` was written: a loop that spills registers, or a call that crept into one, is
//! seen on any machine, however busy.
//!
//! The CPU's trap flag counts them, one instruction at a time. Valgrind's callgrind counts the same
//! of AES-NI, but does not know the instructions of the wide drivers. The portable drivers are left
//! out: theirs are the `aes` crate's, which takes other ones on each kind of CPU.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use common::steps::after_each_instruction;
use common::{cipher, drivers, gcm_drivers, is_portable, key, key_sizes, plaintext, sector_size};
use scrim_crypt::stream::{Aead, Opener, Sealer, TAG};
use scrim_crypt::{Geometry, IvSector, SectorCipher};

const SPECS: [&str; 11] = [
    "aes-xts-plain64",
    "aes-cbc-essiv:sha256",
    "aes-ctr-plain64",
    "aes-ecb",
    "serpent-xts-plain64",
    "serpent-cbc-essiv:sha256",
    "serpent-ctr-plain64",
    "serpent-ecb",
    "camellia-xts-plain64",
    "aes-lrw-benbi",
    "xchacha12,aes-adiantum-plain64",
];
/// Part by which a count may differ from the one that was written down.
const TOLERANCE: f64 = 0.02;

#[test]
fn instructions_are_as_many_as_they_were() {
    if cfg!(debug_assertions) {
        println!("skipped: instructions are counted of release builds (cargo test --release)");
        return;
    }
    let now = table();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.txt");
    if std::env::var_os("SCRIM_UPDATE").is_some() {
        fs::write(&file, &now).unwrap();
        return;
    }
    let before = fs::read_to_string(&file).unwrap();
    let (now_head, before_head) = (head(&now), head(&before));
    if now_head != before_head {
        println!("skipped: counts of {before_head} say nothing of {now_head}; those are:\n{now}");
        return;
    }
    let known = rows(&before);
    let differences: Vec<_> = rows(&now)
        .iter()
        .filter_map(|(name, counts)| {
            let (_, expected) = known.iter().find(|(known, _)| known == name)?;
            let like = counts.iter().zip(expected).all(|(a, b)| is_like(*a, *b));
            (!like).then(|| format!("{name}: {counts:?}, but {expected:?} in {}", file.display()))
        })
        .collect();
    assert!(
        differences.is_empty(),
        "if this is meant to be, run the test once more with SCRIM_UPDATE=1:\n{}",
        differences.join("\n")
    );
}

fn is_like(now: f64, before: f64) -> bool {
    (now - before).abs() <= before * TOLERANCE
}

/// The compiler to which the counts belong.
fn head(table: &str) -> &str {
    table.lines().next().unwrap_or_default()
}

/// The rows of a table: the work that is counted, and the counts.
fn rows(table: &str) -> Vec<(String, Vec<f64>)> {
    let lines = table.lines().skip(3);
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name: Vec<_> = words.by_ref().take(3).collect();
        let counts = words.map(|word| word.parse().unwrap()).collect();
        (name.join(" "), counts)
    };
    lines.map(row).collect()
}

/// A line for each driver, specification and sector size.
fn table() -> String {
    let mut table = compiler();
    table += "\n\nspecification         driver                 sector    run: en-, decrypt   lone: en-, decrypt\n";
    for spec in SPECS {
        for driver in of_this_project(spec) {
            for &size in sector_sizes(spec) {
                let key_size = key_sizes(spec).max().unwrap();
                let cipher = cipher(driver, spec, key_size, Geometry::new(sector_size(size)));
                let [encrypt, decrypt] = [true, false].map(|encrypt| count(&cipher, encrypt));
                write!(table, "{spec:<21} {driver:<23}{size:>6}").unwrap();
                for count in [encrypt.run, decrypt.run, encrypt.lone, decrypt.lone] {
                    write!(table, "{count:>10.0}").unwrap();
                }
                table.push('\n');
            }
        }
    }
    let gcm = gcm_drivers().into_iter();
    for (aead, driver) in gcm.filter(|(_, driver)| !is_portable(driver)) {
        for size in [512, 16 << 10] {
            let [seal, open] = [true, false].map(|seal| count_record(aead, driver, size, seal));
            let name = aead.to_string().to_lowercase().replace('_', "-");
            writeln!(
                table,
                "{name:<21} {driver:<23}{size:>6}{seal:>10.0}{open:>10.0}"
            )
            .unwrap();
        }
    }
    table
}

/// Sizes of sectors in bytes. To count takes microseconds an instruction, so all but AES in its usual modes and Serpent
/// have one.
fn sector_sizes(spec: &str) -> &'static [usize] {
    let has_one =
        spec.starts_with("camellia") || spec.contains("adiantum") || spec.contains("-lrw-");
    if has_one { &[4096] } else { &[512, 4096] }
}

/// Number of instructions for a record of `size` bytes.
fn count_record(aead: Aead, driver: &str, size: usize, seal: bool) -> f64 {
    let key = key(aead.key_size().try_into().unwrap());
    let (mut data, mut tag) = (plaintext(size), [0; TAG]);
    let mut sealer = Sealer::new_with_driver(aead, driver, &key, &[1; 12], 0).unwrap();
    let mut opener = Opener::new_with_driver(aead, driver, &key, &[1; 12], 0).unwrap();
    sealer.seal_in_place(b"", &mut data, &mut tag).unwrap();
    match seal {
        true => steps(|| sealer.seal_in_place(b"", &mut data, &mut tag).unwrap()),
        false => steps(|| opener.open_in_place(b"", &mut data, &tag).unwrap()),
    }
}

fn of_this_project(spec: &str) -> impl Iterator<Item = &'static str> {
    let all = drivers(spec).into_iter();
    all.filter(|driver| !is_portable(driver))
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let words: Vec<_> = version.split_whitespace().take(2).collect();
    words.join(" ")
}

/// Numbers of instructions for each sector.
struct Counts {
    /// In the middle of a run.
    run: f64,
    /// In a call of its own, which goes on where the last one stopped.
    lone: f64,
}

fn count(cipher: &SectorCipher, encrypt: bool) -> Counts {
    let size = cipher.geometry().sector_size.bytes();
    let step = (size / 512) as u64;
    // Work is done for several sectors at once, and where sectors are turned side by side, for many.
    // Not more than that: to count takes microseconds.
    let sectors = match cipher.implementation().name {
        "cbc(aes)" | "cbc(serpent)" => 16,
        _ => 4,
    };
    // XTS makes the tweaks of four sectors together; in other modes each call takes as many.
    let calls = match cipher.implementation().name.starts_with("xts") {
        true => 8,
        false => 2,
    };
    // Not known to the compiler, which would unroll the calls, and count otherwise.
    let calls = black_box(calls);
    let mut data = plaintext(2 * sectors * size);
    let mut call = |first: u64, sectors: usize| {
        let run = &mut data[..sectors * size];
        steps(|| match encrypt {
            true => cipher.encrypt_in_place(IvSector(first), run),
            false => cipher.decrypt_in_place(IvSector(first), run),
        })
    };
    let run = call(0, 2 * sectors) - call(0, sectors);
    call(0, 1);
    let lone: f64 = (1..=calls).map(|number| call(number * step, 1)).sum();
    Counts {
        run: run / sectors as f64,
        lone: lone / calls as f64,
    }
}

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// Address of the next instruction.
    static NEXT: Cell<i64> = const { Cell::new(0) };
}

/// The instructions of `act`.
fn steps(act: impl FnOnce()) -> f64 {
    STEPS.set(0);
    // SAFETY: the handler touches nothing but cells of this thread, and there is one test here.
    unsafe { after_each_instruction(step, act) };
    STEPS.get() as f64
}

/// Counts an instruction that repeats itself once: libc fills long memory with one, where the processor has a fast one.
extern "C" fn step(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let context = context.cast_const().cast::<libc::ucontext_t>();
    // SAFETY: the kernel gives a handler of this kind the state of the thread.
    let next = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    if NEXT.replace(next) != next {
        STEPS.set(STEPS.get() + 1);
    }
}
