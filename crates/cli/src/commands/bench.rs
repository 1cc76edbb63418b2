//! `scrim bench ciphers`, which is also `scrim benchmark`.

use std::io::stdout;
use std::process::ExitCode;
use std::time::Duration;

use scrim_bench::ciphers::{self, MeasureError, Outcome, Plan, Records, Subject};
use scrim_bench::kdf::{self, KdfPlan, USUAL_HASHES};
use scrim_bench::{Ink, Machine, Report, Study};
use scrim_crypt::{CipherSpec, SectorSize, implementations, implementations_of};
use scrim_luks::kdf::{Argon2Kind, Hash, MachineLimits};

use crate::args::{BenchCiphersArgs, PbkdfType};
use crate::cipher::{options, self_tests};
use crate::error::{CliError, Exit};
use crate::process::interruption::{Interruption, watched};
use crate::terminal::progress::columns;
use crate::terminal::{note, print, print_json_text};

/// Bits of a derived key unless the user asks for another size, as in cryptsetup.
const KEY_BITS: u32 = 256;
/// Most bits of a derived key.
const KEY_BITS_MAX: u32 = 4096;
/// The hash of PBKDF2 where only PBKDF2 is asked for.
const PBKDF2_HASH: Hash = Hash::Sha256;
/// First lines of the output of `cryptsetup benchmark`.
const HEAD: &str = "# Tests are approximate using memory only (no storage IO).\n";
/// Most columns of a chart.
pub(super) const WIDEST: usize = 100;

pub(crate) fn ciphers(args: &BenchCiphersArgs) -> Result<ExitCode, CliError> {
    let limits = MachineLimits::read();
    let kdfs = kdf_plan(args, &limits)?;
    let plan = cipher_plan(args, &limits)?;
    let interruption = Interruption::listen()?;
    let mut study = Study::new(machine(), args.rounds);
    for failure in self_tests::all_failures() {
        study.warn(failure);
    }
    // Nothing is said before there is something to say.
    let mut head = Some(HEAD);
    let mut say = |text: String| match args.json {
        true => Ok(()),
        false => print(format!("{}{text}", head.take().unwrap_or_default()).as_bytes()),
    };
    if let Some(plan) = kdfs {
        let measured = watched("key derivation", &interruption, |watch| {
            kdf::measure(&plan, &mut study, watch)
        })?;
        say(measured.to_string())?;
    }
    let mut outcome = None;
    if let Some((plan, warnings)) = plan.filter(|_| !interruption.came()) {
        for warning in warnings {
            study.warn(warning);
        }
        let measured = watched("ciphers", &interruption, |watch| {
            ciphers::measure(&plan, &mut study, watch)
        })?;
        if !measured.is_empty() {
            say(text(&measured))?;
        }
        outcome = Some(measured);
    }
    let report = study.finish();
    let conclusion = outcome.map(|outcome| outcome.conclusion(&report));
    if let Some(conclusion) = conclusion.filter(|conclusion| !conclusion.is_empty()) {
        say(format!("\n{conclusion}"))?;
    }
    finish(&report, args.json)?;
    Ok(interruption.exit_code())
}

/// Cryptsetup's table first, then everything.
fn text(measured: &Outcome) -> String {
    let parts = [
        measured.summary(),
        measured.detail(),
        measured.chart(columns(stdout()).min(WIDEST), ink()),
        measured.notes(),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

pub(super) fn finish(report: &Report, json: bool) -> Result<(), CliError> {
    if json {
        return print_json_text(&report.to_json().to_string());
    }
    for warning in &report.warnings {
        note(format_args!("scrim: warning: {warning}"));
    }
    Ok(())
}

pub(super) fn machine() -> Machine {
    let mut machine = Machine::describe(&[]);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    machine.versions.push(("scrim", version));
    machine
}

/// Time for which one figure is measured in one round.
fn slice(args: &BenchCiphersArgs) -> Result<Duration, CliError> {
    let slice = Duration::from_secs_f64(args.seconds / args.rounds as f64);
    if slice < Duration::from_micros(100) {
        return Err(CliError::usage(format!(
            "--seconds {} in {} rounds are less than 0.1 ms a round; give more of the one or fewer \
             of the other",
            args.seconds, args.rounds
        )));
    }
    Ok(slice)
}

/// Returns whether key derivation, and whether ciphers are wanted: both where nothing is asked for.
fn wanted(args: &BenchCiphersArgs) -> (bool, bool) {
    let kdfs = args.hash.is_some() || args.pbkdf.is_some();
    let ciphers =
        !args.cipher.is_empty() || args.driver.is_some() || args.sector_size.is_some() || args.all;
    (kdfs || !ciphers, ciphers || !kdfs)
}

fn kdf_plan(args: &BenchCiphersArgs, limits: &MachineLimits) -> Result<Option<KdfPlan>, CliError> {
    if !wanted(args).0 {
        return Ok(None);
    }
    let hash: Option<Hash> = match &args.hash {
        None => None,
        Some(name) => Some(
            name.parse()
                .map_err(|error| CliError::usage(format!("--hash: {error}")))?,
        ),
    };
    let (hashes, argon2) = match (args.pbkdf, hash) {
        (None, None) => (
            USUAL_HASHES.to_vec(),
            vec![Argon2Kind::Argon2i, Argon2Kind::Argon2id],
        ),
        (None | Some(PbkdfType::Pbkdf2), hash) => (vec![hash.unwrap_or(PBKDF2_HASH)], Vec::new()),
        (Some(_), Some(_)) => {
            return Err(CliError::usage(
                "--hash is for --pbkdf pbkdf2; leave one out",
            ));
        }
        (Some(PbkdfType::Argon2i), None) => (Vec::new(), vec![Argon2Kind::Argon2i]),
        (Some(PbkdfType::Argon2id), None) => (Vec::new(), vec![Argon2Kind::Argon2id]),
    };
    let bits = args.key_size.unwrap_or(KEY_BITS);
    if !bits.is_multiple_of(8) || !(32..=KEY_BITS_MAX).contains(&bits) {
        return Err(CliError::usage(format!(
            "--key-size: no key of {bits} bits is derived; give a multiple of 8 from 32 to \
             {KEY_BITS_MAX}"
        )));
    }
    Ok(Some(KdfPlan {
        hashes,
        slice: slice(args)?,
        argon2,
        key_bytes: (bits / 8) as usize,
        target: Duration::from_millis(u64::from(args.iter_time)),
        memory_kib: args.pbkdf_memory.unwrap_or(limits.argon2_memory_kib()),
        lanes: args.pbkdf_parallel.unwrap_or(limits.argon2_lanes()),
    }))
}

/// The ciphers to measure, and what speaks against their cold figures.
fn cipher_plan(
    args: &BenchCiphersArgs,
    limits: &MachineLimits,
) -> Result<Option<(Plan, Vec<String>)>, CliError> {
    if !wanted(args).1 {
        return Ok(None);
    }
    let sector_sizes = match args.sector_size {
        Some(bytes) => vec![options::sector_size(bytes)?],
        None => vec![SectorSize::S512, SectorSize::S4096],
    };
    let available = limits.available_kib.saturating_mul(1024);
    let (cold_bytes, warnings) = ciphers::cold_bytes(args.memory, available);
    let records = records(args);
    let plan = Plan {
        subjects: subjects(args, !records.is_empty())?,
        sector_sizes,
        records,
        slice: slice(args)?,
        cold_bytes,
    };
    plan.check()?;
    Ok(Some((plan, warnings)))
}

/// Records of AES-GCM to measure, where no cipher and no sector was asked for.
fn records(args: &BenchCiphersArgs) -> Vec<Records> {
    if !args.cipher.is_empty() || args.sector_size.is_some() {
        return Vec::new();
    }
    let mut records = match (args.all, &args.driver) {
        (false, None) => Records::usual(),
        _ => Records::all(),
    };
    let bits = |records: &Records| u32::try_from(records.key_bytes * 8).ok();
    records.retain(|records| {
        args.key_size.is_none_or(|size| bits(records) == Some(size))
            && (args.driver.is_none() || args.driver.as_deref() == records.driver)
    });
    records
}

fn subjects(args: &BenchCiphersArgs, has_records: bool) -> Result<Vec<Subject>, CliError> {
    let named = args.cipher.iter().map(|text| {
        let spec = options::parse(text);
        spec.map_err(|error| CliError::usage(format!("--cipher: {error}")))
    });
    let named: Vec<CipherSpec> = named.collect::<Result<_, _>>()?;
    let mut subjects = match (&named[..], args.all) {
        ([], false) => ciphers::usual(),
        ([], true) => ciphers::all(),
        (specs, all) => {
            let mut subjects = Vec::new();
            for spec in specs {
                subjects.extend(of_one_cipher(spec, args.key_size, all)?);
            }
            subjects
        }
    };
    if let (Some(bits), []) = (args.key_size, &named[..]) {
        subjects = with_key_size(&subjects, bits)?;
    }
    if args.driver.is_some() && has_records {
        return Ok(Vec::new());
    }
    if let Some(driver) = &args.driver {
        subjects = with_driver(subjects, driver, !named.is_empty())?;
    }
    let subjects = distinct(subjects);
    if subjects.is_empty() {
        return Err(CliError::usage(
            "no driver can be used in this process; look at SCRIM_DISABLE and at `scrim ciphers`",
        ));
    }
    Ok(subjects)
}

/// A cipher that was named, with the size of key that was asked for, or the usual one, or all.
fn of_one_cipher(
    spec: &CipherSpec,
    bits: Option<u32>,
    all: bool,
) -> Result<Vec<Subject>, CliError> {
    let key_bytes = options::key_bytes(spec, bits)?;
    let subject = Subject {
        spec: spec.clone(),
        // It has no use for the key that it takes.
        key_bytes: if spec.is_null() { 0 } else { key_bytes },
        driver: None,
    };
    if !all {
        return Ok(vec![subject]);
    }
    let mut every = subject.every();
    every.retain(|one| bits.is_none() || one.key_bytes == subject.key_bytes);
    Ok(every)
}

/// The ciphers among `subjects` that take such a key.
fn with_key_size(subjects: &[Subject], bits: u32) -> Result<Vec<Subject>, CliError> {
    let fitting = subjects.iter().filter_map(|subject| {
        Some(Subject {
            key_bytes: options::fitting_key_bytes(&subject.spec, bits)?,
            ..subject.clone()
        })
    });
    let fitting: Vec<Subject> = fitting.collect();
    if fitting.is_empty() {
        let mut sizes: Vec<String> = Vec::new();
        for Subject { spec, .. } in subjects {
            let size = format!("{spec} takes {}", options::key_bits(spec));
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        return Err(CliError::usage(format!(
            "--key-size: {bits} bits fit no cipher here: {}",
            sizes.join(", ")
        )));
    }
    Ok(fitting)
}

/// The ciphers among `subjects`, which were `named` or not, that have this driver, on it.
fn with_driver(subjects: Vec<Subject>, name: &str, named: bool) -> Result<Vec<Subject>, CliError> {
    let known = implementations().iter().find(|row| row.driver == name);
    let Some(known) = known else {
        let drivers: Vec<_> = implementations().iter().map(|row| row.driver).collect();
        return Err(CliError::usage(format!(
            "--driver: {name:?} is not a driver; use one of {}",
            drivers.join(", ")
        )));
    };
    let has = |subject: &Subject| implementations_of(&subject.spec).any(|row| row.driver == name);
    let driven = subjects.into_iter().filter(has).map(|subject| Subject {
        driver: Some(known.driver),
        ..subject
    });
    let driven: Vec<Subject> = driven.collect();
    if driven.is_empty() {
        let why = match (known.name, named) {
            ("gcm(aes)", _) => "which seals records; leave --cipher and --sector-size out",
            (_, true) => "and no cipher that was asked for",
            (_, false) => "which is not measured by default; name such a cipher with --cipher",
        };
        return Err(CliError::usage(format!(
            "--driver: {name} computes {}, {why}",
            known.name
        )));
    }
    Ok(driven)
}

/// Removes repeated subjects; the order stays.
fn distinct(subjects: Vec<Subject>) -> Vec<Subject> {
    let mut distinct: Vec<Subject> = Vec::with_capacity(subjects.len());
    for subject in subjects {
        if !distinct.contains(&subject) {
            distinct.push(subject);
        }
    }
    distinct
}

/// Characters that fill the bars of a chart, by the locale.
pub(super) fn ink() -> Ink {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let mut set = locale.filter_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let utf8 = |value: String| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    };
    if set.next().is_some_and(utf8) {
        Ink::Blocks
    } else {
        Ink::Ascii
    }
}

impl From<MeasureError> for CliError {
    fn from(error: MeasureError) -> Self {
        let exit = match error {
            MeasureError::Memory { .. } => Exit::OutOfMemory,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}
