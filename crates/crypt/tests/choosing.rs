//! `SCRIM_DISABLE`, which a process reads once: each case runs this program again, in a process of its
//! own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use std::fs;
use std::process::Command;

use common::{cipher, sector_size};
use scrim_crypt::stream::{Aead, NONCE, Sealer, TAG, code_for};
use scrim_crypt::{CipherSpec, Geometry, SectorCipher, implementations};

/// Prints which driver this process would use for each mode, and what it reports of its drivers.
#[test]
#[ignore = "run by the others, in a process of its own"]
fn choice() {
    for mode in MODES {
        let spec: CipherSpec = format!("aes-{mode}-plain64").parse().unwrap();
        let key = vec![1; *spec.key_sizes().last().unwrap()];
        let geometry = Geometry::new(sector_size(512));
        match SectorCipher::new(&spec, &key, geometry) {
            Ok(cipher) => println!("<{}>", cipher.implementation().driver),
            Err(error) => println!("<{error}>"),
        }
        let name = format!("{mode}(aes)");
        for row in implementations().iter().filter(|row| row.name == name) {
            println!("<{}: {}>", row.driver, row.state());
            if let Err(error) = SectorCipher::new_with_driver(row.driver, &spec, &key, geometry) {
                println!("<{error}>");
            }
        }
    }
}

const MODES: [&str; 4] = ["xts", "cbc", "ctr", "ecb"];

/// Prints the code that is chosen for records, and the tag of an empty one, or the reason why there is none.
#[test]
#[ignore = "run by the others, in a process of its own"]
fn record() {
    println!("<{}>", code_for(Aead::Aes128Gcm).unwrap_or("none"));
    let mut tag = [0; TAG];
    match Sealer::new(Aead::Aes128Gcm, &[0; 16], &[0; NONCE], 0) {
        Ok(mut sealer) => {
            sealer.seal_in_place(b"", &mut [], &mut tag).unwrap();
            println!("<{:032x}>", u128::from_be_bytes(tag));
        }
        Err(error) => println!("<{error}>"),
    }
}

fn choice_with(disabled: &str) -> Vec<String> {
    printed("choice", disabled)
}

/// Output of one of the tests above in a process of its own.
fn printed(test: &str, disabled: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("SCRIM_DISABLE", disabled)
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines = output
        .lines()
        .filter_map(|line| line.split_once('<')?.1.strip_suffix('>'));
    lines.map(str::to_owned).collect()
}

/// Checks that every mode uses a driver of `family` if `disabled` is disabled.
#[track_caller]
fn check(disabled: &str, family: &str) {
    let lines = choice_with(disabled);
    let used = lines.iter().filter(|line| !line.contains(' '));
    let expected = MODES.map(|mode| {
        let scalar = mode == "xts" && family == "vaes512" && is_of_amd_family_19h();
        let tweaks = if scalar { "-scalar" } else { "" };
        format!("{mode}-aes-{family}{tweaks}")
    });
    assert!(used.eq(&expected), "{disabled}: {lines:?}");
}

/// Zen 3 and Zen 4, by what Linux says of the first processor.
fn is_of_amd_family_19h() -> bool {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap();
    let says = |name: &str, value: &str| {
        let words = info.lines().filter_map(|line| line.split_once(':'));
        let mut values = words.filter(|(key, _)| key.trim() == name);
        values.next().is_some_and(|(_, had)| had.trim() == value)
    };
    says("vendor_id", "AuthenticAMD") && says("cpu family", "25")
}

#[test]
fn a_disabled_driver_is_not_used_even_when_asked_for() {
    let lines = choice_with("portable");
    assert!(
        lines.contains(&"xts-aes-portable: disabled by SCRIM_DISABLE".to_owned()),
        "{lines:?}"
    );
    let refusal = "the driver xts-aes-portable cannot be used: disabled by SCRIM_DISABLE";
    assert!(lines.contains(&refusal.to_owned()), "{lines:?}");
}

#[test]
fn the_portable_driver_is_what_remains() {
    for disabled in [
        "aes",
        "vaes,aesni,armv8",
        "vaes512,vaes2,xts-aes-aesni,cbc-aes-aesni,ctr-aes-aesni,ecb-aes-aesni,neon",
        "aesni,avx512,avx2,xts-aes-armv8,cbc-aes-armv8,ctr-aes-armv8,ecb-aes-armv8",
    ] {
        check(disabled, "portable");
    }
}

#[test]
fn without_any_driver_there_is_no_cipher() {
    assert_eq!(
        choice_with("aes,portable")[0],
        "no driver for aes-xts-plain64 can be used in this process; look at SCRIM_DISABLE and at \
         the self-tests of the drivers"
    );
}

/// The tag is that of test case 1 of the paper that describes GCM.
#[test]
fn records_are_sealed_until_all_code_is_disabled() {
    for disabled in ["", "portable", "aes", "aes,awslc", "aes,portable"] {
        let tag = "58e2fccefa7e3061367f1d57a4e7455a";
        let lines = printed("record", disabled);
        assert_eq!(lines[1..], [tag], "{disabled}");
        let left = match disabled {
            "aes" | "aes,portable" => "awslc",
            "aes,awslc" => "gcm-aes-portable",
            _ => continue,
        };
        assert_eq!(lines[0], left, "{disabled}");
    }
    let refusal =
        "SCRIM_DISABLE names all code for AES_128_GCM; take `awslc` or `portable` out of it";
    assert_eq!(printed("record", "portable, awslc ,aes"), ["none", refusal]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_widest_aes_instructions_that_the_cpu_has_are_used() {
    let aes = is_x86_feature_detected!("aes");
    let vaes = aes && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq");
    let families = [
        (
            "vaes512",
            vaes && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"),
        ),
        ("vaes2", vaes && is_x86_feature_detected!("avx2")),
        ("aesni", aes && is_x86_feature_detected!("pclmulqdq")),
        ("portable", true),
    ];
    let mut disabled = String::new();
    for (family, _) in families.iter().filter(|(_, runs_here)| *runs_here) {
        check(&disabled, family);
        disabled += &format!("{family},");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn features_can_be_disabled() {
    if !is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("vaes") {
        println!("skipped: this CPU has no AVX-512");
        return;
    }
    for disabled in ["avx512", "avx512f", "vaes512"] {
        check(disabled, "vaes2");
    }
    for disabled in ["vaes", "vpclmulqdq", "avx512,avx2"] {
        check(disabled, "aesni");
    }
}

#[test]
#[cfg(target_arch = "aarch64")]
fn aes_instructions_are_used_where_the_cpu_has_them() {
    let family = if std::arch::is_aarch64_feature_detected!("aes") {
        "armv8"
    } else {
        "portable"
    };
    // The sector kernels multiply no polynomials.
    for disabled in ["", "gcm-aes-armv8", "pmull", "aesni,avx512"] {
        check(disabled, family);
    }
}

#[test]
fn each_driver_can_be_had_by_name() {
    for spec in MODES.map(|mode| format!("aes-{mode}-plain")) {
        for driver in common::drivers(&spec) {
            let cipher = cipher(driver, &spec, 32, Geometry::new(sector_size(1024)));
            assert_eq!(cipher.implementation().driver, driver);
        }
    }
}
