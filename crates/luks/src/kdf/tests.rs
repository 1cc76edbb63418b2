use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pbkdf2(hash: Hash, iterations: u32, passphrase: &str, salt: &[u8], len: usize) -> String {
    let mut out = vec![0; len];
    Kdf::Pbkdf2 { hash, iterations }
        .derive(passphrase.as_bytes(), salt, &mut out)
        .unwrap();
    hex(&out)
}

/// For each hash, the first 8 bytes of the digest of `abc`, and the last 12 of 72 bytes by PBKDF2
/// with 3 iterations of `correct horse battery staple` and the salt 00 01 … 1f. Made with libgcrypt
/// 1.10, and with OpenSSL 3.0 where that has the hash: they agree.
const BY_OTHERS: &[(&str, &str, &str)] = &[
    ("sha1", "a9993e364706816a", "f9169ce3782a26565c7f40b1"),
    ("sha224", "23097d223405d822", "b4f5be7980fb7a473b57a895"),
    ("sha256", "ba7816bf8f01cfea", "146b4fa93e49c90f9179b1bf"),
    ("sha384", "cb00753f45a35e8b", "b1ad408584473cd4fba35acc"),
    ("sha512", "ddaf35a193617aba", "f5bed9313aeb4e42a752b60c"),
    ("sha512-224", "4634270f707b6a54", "ddf529040605f7c0be9ca670"),
    ("sha512-256", "53048e2681941ef9", "51972ee6b6078c1c67e7f374"),
    ("sha3-224", "e642824c3f8cf24a", "8b2c04102cb6df1f41cd1d14"),
    ("sha3-256", "3a985da74fe225b2", "728ae8100de9e32e7b8fe1a8"),
    ("sha3-384", "ec01498288516fc9", "1c6d83f942fab5ddd5c1722c"),
    ("sha3-512", "b751850b1a57168a", "9e666c12813a552419030c93"),
    ("ripemd160", "8eb208f7e05d987a", "558a09030a3b2f4580eb542a"),
    ("whirlpool", "4e2448a4c6f486bb", "d928985fb68c990e12c1bf02"),
    (
        "blake2b-160",
        "384264f676f39536",
        "73a7e4149ca49323b29382c6",
    ),
    (
        "blake2b-256",
        "bddd813c63423972",
        "c28bf3216ed1307c57636aad",
    ),
    (
        "blake2b-384",
        "6f56a82c8e7ef526",
        "3eb273c3af0221f3dec9ddf9",
    ),
    (
        "blake2b-512",
        "ba80a53f981c4d0d",
        "a79b3f11bbebc76c2f8e705c",
    ),
    (
        "blake2s-128",
        "aa4938119b1dc7b8",
        "208f8a2af775e3069aafa93a",
    ),
    (
        "blake2s-160",
        "5ae3b99be29b0183",
        "59314474c7389278c639ac68",
    ),
    (
        "blake2s-224",
        "0b033fc226df7abd",
        "01ecbe62535ede411357b2a0",
    ),
    (
        "blake2s-256",
        "508c5e8c327c14e2",
        "adf42329aabec800b9259dc2",
    ),
    ("sm3", "66c7f0f462eeedd9", "76cb66ab8e404d197b8b1c13"),
    ("stribog256", "4e2919cf137ed41e", "ea01b478a8accd8ee025a885"),
    ("stribog512", "28156e28317da7c9", "2a8ada474b579cd2bf40a187"),
];

#[test]
fn every_hash_is_the_one_of_that_name() {
    assert_eq!(BY_OTHERS.len(), Hash::ALL.len());
    let salt: Vec<u8> = (0..32).collect();
    for (&(name, digest, derived), &hash) in BY_OTHERS.iter().zip(Hash::ALL) {
        assert_eq!(name.parse(), Ok(hash));
        assert_eq!(hash.to_string(), name);
        let mut out = [0; 8];
        hash.digest(&[b"a", b"", b"bc"], &mut out);
        assert_eq!(hex(&out), digest, "{name}");
        let out = pbkdf2(hash, 3, "correct horse battery staple", &salt, 72);
        assert_eq!(out[out.len() - 24..], *derived, "{name}");
    }
}

#[test]
fn a_digest_has_its_length_and_no_more() {
    for &hash in Hash::ALL {
        let mut out = [0xa5; 65];
        hash.digest(&[b"abc"], &mut out);
        assert_eq!(out[hash.digest_len()..].iter().max(), Some(&0xa5), "{hash}");
        assert_ne!(out[..hash.digest_len()], [0xa5; 65][..hash.digest_len()]);
    }
}

#[test]
fn names_are_read_as_cryptsetup_reads_them() {
    assert_eq!("SHA256".parse(), Ok(Hash::Sha256));
    assert_eq!("rmd160".parse(), Ok(Hash::Ripemd160));
    assert_eq!("blake2s256".parse(), Ok(Hash::Blake2s256));
    for name in ["", "md5", "sha", "sha256 ", "crc32", "sha512/256"] {
        assert_eq!(name.parse::<Hash>(), Err(UnknownHash));
    }
    assert!(UnknownHash.to_string().ends_with(
        ": choose one of sha1, sha224, sha256, sha384, \
        sha512, sha512-224, sha512-256, sha3-224, sha3-256, sha3-384, sha3-512, ripemd160, \
        whirlpool, blake2b-160, blake2b-256, blake2b-384, blake2b-512, blake2s-128, blake2s-160, \
        blake2s-224, blake2s-256, sm3, stribog256, stribog512"
    ));
}

/// RFC 6070, without the vector of 2²⁴ iterations.
#[test]
fn pbkdf2_with_sha1() {
    let vectors = [
        (
            "password",
            "salt",
            1,
            "0c60c80f961f0e71f3a9b524af6012062fe037a6",
        ),
        (
            "password",
            "salt",
            2,
            "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957",
        ),
        (
            "password",
            "salt",
            4096,
            "4b007901b765489abead49d926f721d065a429c1",
        ),
        (
            "passwordPASSWORDpassword",
            "saltSALTsaltSALTsaltSALTsaltSALTsalt",
            4096,
            "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038",
        ),
        (
            "pass\0word",
            "sa\0lt",
            4096,
            "56fa6aa75548099dcc37d7f03425e0c3",
        ),
    ];
    for (passphrase, salt, iterations, expected) in vectors {
        let out = pbkdf2(
            Hash::Sha1,
            iterations,
            passphrase,
            salt.as_bytes(),
            expected.len() / 2,
        );
        assert_eq!(out, expected);
    }
}

/// RFC 7914, section 11.
#[test]
fn pbkdf2_with_sha256() {
    assert_eq!(
        pbkdf2(Hash::Sha256, 1, "passwd", b"salt", 64),
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
         49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
    );
    assert_eq!(
        pbkdf2(Hash::Sha256, 80_000, "Password", b"NaCl", 64),
        "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56\
         a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d"
    );
}

#[test]
fn pbkdf2_needs_iterations_but_not_too_many() {
    for iterations in [0, (1 << 30) + 1, u32::MAX] {
        let hash = Hash::Sha256;
        let error = Kdf::Pbkdf2 { hash, iterations }
            .derive(b"x", &[0; 32], &mut [0; 64])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "key derivation with {iterations} iterations is refused, 1 to 1073741824 are \
                 possible: choose others, or use another key slot if a header asks for them"
            )
        );
    }
}

#[test]
fn a_header_that_wants_4_tib_is_refused() {
    let cost = Argon2Cost {
        time: 4,
        memory_kib: u32::MAX,
        lanes: 4,
    };
    let mut out = [0; 64];
    let error = Kdf::Argon2id { cost }
        .derive(b"x", &[0; 32], &mut out)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "key derivation with 4294967295 KiB of memory is refused, 32 to 4194304 are \
         possible: choose others, or use another key slot if a header asks for them"
    );
    let limits = MachineLimits {
        memory_kib: 1 << 20,
        available_kib: 300_000,
        cpus: 1,
    };
    let cost = Argon2Cost {
        memory_kib: 1 << 20,
        ..cost
    };
    let error = Kdf::Argon2i { cost }
        .derive_within(&limits, b"x", &[0; 32], &mut out)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "key derivation needs 1024 MiB of memory, and 292 MiB are free: free some, raise the limit \
         of the container, or use a key slot or machine that it fits"
    );
    assert_eq!(out, [0; 64]);
}

/// Says no when it has been asked a few times.
struct Impatient(AtomicU32);

impl KdfGuard for Impatient {
    fn begin(&self, _: Option<u8>, _: &Kdf) -> Result<(), KdfError> {
        Ok(())
    }

    fn go_on(&self) -> Result<(), KdfError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0..5 => Ok(()),
            _ => Err(KdfError::TimeLimit { seconds: 7 }),
        }
    }
}

/// Each of these would take half an hour.
#[test]
fn a_guard_ends_what_would_take_for_ever() {
    let argon2 = |memory_kib, lanes| Kdf::Argon2id {
        cost: Argon2Cost {
            time: (1 << 31) / memory_kib,
            memory_kib,
            lanes,
        },
    };
    let hash = Hash::Sha512;
    let iterations = 1 << 30;
    for kdf in [
        argon2(1 << 16, 4),
        argon2(1 << 16, 1),
        argon2(64, 1),
        Kdf::Pbkdf2 { hash, iterations },
    ] {
        let guard = Impatient(AtomicU32::new(0));
        let mut out = [0; 200];
        let ended = kdf.derive_guarded(&guard, b"x", &[7; 32], &mut out);
        assert_eq!(ended, Err(KdfError::TimeLimit { seconds: 7 }), "{kdf:?}");
        assert_eq!(out, [0; 200], "half a key is none");
        // Each thread asks once more at most.
        assert!(guard.0.into_inner() < 500);
    }
}
