use super::*;
use crate::kdf::Unguarded;

const LIMITS: MachineLimits = MachineLimits {
    memory_kib: 1 << 20,
    available_kib: 1 << 20,
    cpus: 3,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cost(time: u32, memory_kib: u32, lanes: u32) -> Argon2Cost {
    Argon2Cost {
        time,
        memory_kib,
        lanes,
    }
}

fn run(
    kind: Argon2Kind,
    cost: Argon2Cost,
    limits: &MachineLimits,
    passphrase: &[u8],
    salt: &[u8],
    out: &mut [u8],
) -> Result<(), KdfError> {
    let input = Input { passphrase, salt };
    derive(kind, cost, limits, &Watch::new(&Unguarded), input, out)
}

fn derived(kind: Argon2Kind, cost: Argon2Cost, salt: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    run(kind, cost, &LIMITS, b"correct horse", salt, &mut out).unwrap();
    out
}

/// RFC 9106, sections 5.2 and 5.3. They use a secret value and associated data, which LUKS2 has
/// not.
#[test]
fn the_vectors_of_the_rfc() {
    let vectors = [
        (
            Argon2Kind::Argon2i,
            "c814d9d1dc7f37aa13f0d77f2494bda1c8de6b016dd388d29952a4c4672b6ce8",
        ),
        (
            Argon2Kind::Argon2id,
            "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659",
        ),
    ];
    for (kind, expected) in vectors {
        let words = [4, 32, 32, 3, 0x13, kind.number()].map(u32::to_le_bytes);
        let fields = [&[1; 32][..], &[2; 16], &[3; 8], &[4; 12]];
        let mut input = words.concat();
        for field in fields {
            input.extend(length(field));
            input.extend(field);
        }
        let mut seed = [0; 64];
        blake2b(&[&input], &mut seed).unwrap();
        let mut out = [0; 32];
        tag(
            &Matrix::new(kind, cost(3, 32, 4)),
            &seed,
            2,
            &Watch::new(&Unguarded),
            &mut out,
        )
        .unwrap();
        assert_eq!(hex(&out), expected);
    }
}

/// Made with the reference implementation's program:
/// `printf 'correct horse' | argon2 'salt of 16 bytes' -id -v 13 -r -t … -k … -p … -l …`.
#[test]
fn the_reference_implementation_agrees() {
    let vectors = [
        (
            Argon2Kind::Argon2i,
            cost(1, 32, 4),
            "b16e5ea647ba37bd9303340d61e4492dfcdbe0dd6ce75c7c2a8bd9c124ad162e",
        ),
        (
            Argon2Kind::Argon2i,
            cost(3, 2048, 2),
            "82f68a1645c2d53242e9d3c38237f880fed2cc5f",
        ),
        (
            Argon2Kind::Argon2id,
            cost(4, 32, 1),
            "cd6e04ac73f835b077e82f235931a59851563171ac49928582d353511a4cea4c3b5b74c00cf4637877beb148cc82bbbdccc1e78a9a42386ca141954246a81166",
        ),
        (
            Argon2Kind::Argon2id,
            cost(3, 100, 3),
            "d6f62cfa37fefa5530f909eb1ff8083d",
        ),
        (
            Argon2Kind::Argon2id,
            cost(1, 4096, 4),
            "3c67d6450006ad114c0ade2e7b162d3922702f35bfada4e079935dc93d77eb23af951ea937604024539dc5b64a50d18c49282e4f2b244555c5a428abadbb4cd2",
        ),
        (
            Argon2Kind::Argon2id,
            cost(2, 4099, 4),
            "245fe3c55cc20345d88d9a258ad062441c375c47dfc4e1e2046c3c4664c6495222c00b06776a0db8378731ecede42adff39cf66894fbef5299db636531ef9d1433ce237bfe52b08058e67b58a9b25ea77afa5def3a9d2baa2ce85b7640fac2ec317f5135250e93b19c5a649ba87b30d4b0d9e9589ac16873f897818c37f0954c",
        ),
        (
            Argon2Kind::Argon2id,
            cost(4, 1024, 8),
            "67738769198a2a9df54568773838fe1cd416ee5b14bf5b232195b1d7921f4d62de85a857ade961e6c6e410313cdc283deb84db64a924e4999a5d33706880dada2f",
        ),
    ];
    for (kind, cost, expected) in vectors {
        let out = derived(kind, cost, b"salt of 16 bytes", expected.len() / 2);
        assert_eq!(hex(&out), expected, "{kind:?} {cost:?}");
    }
}

#[test]
fn another_implementation_agrees_on_every_shape() {
    for kind in [Argon2Kind::Argon2i, Argon2Kind::Argon2id] {
        for lanes in [1, 2, 3, 4, 7] {
            for time in 1..=3 {
                for memory_kib in [8 * lanes, 8 * lanes + 5, 521 * lanes] {
                    let cost = cost(time, memory_kib, lanes);
                    let len = (memory_kib % 97 + 4) as usize;
                    let salt = [u8::try_from(lanes).unwrap(); 32];
                    let ours = derived(kind, cost, &salt, len);
                    assert_eq!(ours, by_crate(kind, cost, &salt, len), "{kind:?} {cost:?}");
                }
            }
        }
    }
}

fn by_crate(kind: Argon2Kind, cost: Argon2Cost, salt: &[u8], len: usize) -> Vec<u8> {
    let algorithm = match kind {
        Argon2Kind::Argon2i => ::argon2::Algorithm::Argon2i,
        Argon2Kind::Argon2id => ::argon2::Algorithm::Argon2id,
    };
    let version = ::argon2::Version::V0x13;
    let params = ::argon2::Params::new(cost.memory_kib, cost.time, cost.lanes, Some(len)).unwrap();
    let mut out = vec![0; len];
    ::argon2::Argon2::new(algorithm, version, params)
        .hash_password_into(b"correct horse", salt, &mut out)
        .unwrap();
    out
}

#[test]
fn threads_do_not_change_the_result() {
    let cost = cost(2, 4 * 4 * 300, 4);
    let derived = [0, 1, 2, 3, 4, 9].map(|cpus| {
        let limits = MachineLimits { cpus, ..LIMITS };
        let mut out = [0; 32];
        run(
            Argon2Kind::Argon2id,
            cost,
            &limits,
            b"x",
            &[7; 32],
            &mut out,
        )
        .unwrap();
        out
    });
    assert!(derived.iter().all(|out| out == &derived[0]));
}

#[test]
fn what_is_impossible_is_refused_by_name() {
    let refused = |cost: Argon2Cost| match cost.check(&LIMITS) {
        Err(KdfError::OutOfRange { parameter, .. }) => parameter,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(cost(0, 1024, 1)), "passes");
    assert_eq!(refused(cost(u32::MAX, 1024, 1)), "passes");
    assert_eq!(refused(cost(1, 1024, 0)), "lanes");
    assert_eq!(refused(cost(1, u32::MAX, 257)), "lanes");
    assert_eq!(refused(cost(1, 31, 4)), "KiB of memory");
    assert_eq!(refused(cost(1, 0, 1)), "KiB of memory");
    assert_eq!(refused(cost(1, u32::MAX, 4)), "KiB of memory");

    let refused = |salt: &[u8], len: usize| {
        let mut out = vec![0; len];
        match run(
            Argon2Kind::Argon2id,
            cost(1, 8, 1),
            &LIMITS,
            b"",
            salt,
            &mut out,
        ) {
            Err(KdfError::OutOfRange { parameter, .. }) => parameter,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&[0; 7], 32), "bytes of salt");
    assert_eq!(refused(&[0; 8], 3), "bytes of key");
}

#[test]
fn more_memory_than_there_is_is_refused_before_it_is_taken() {
    let error = KdfError::Memory {
        need_kib: (1 << 20) + 1,
        have_kib: 1 << 20,
    };
    assert_eq!(cost(4, (1 << 20) + 1, 4).check(&LIMITS), Err(error));
    assert_eq!(cost(4, 1 << 20, 4).check(&LIMITS), Ok(()));
}
