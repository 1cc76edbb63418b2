//! Hashes of passwords by Argon2id, as PHC strings.

use std::{fmt, io};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use scrim_luks::kdf::{Argon2Cost, Kdf, KdfError, MachineLimits};
use zeroize::Zeroizing;

/// Cost of new hashes: OWASP's choice for servers, some 20 ms of a processor's time.
const COST: Argon2Cost = Argon2Cost {
    time: 2,
    memory_kib: 19 << 10,
    lanes: 1,
};
/// Bytes of salt and of hash in new lines.
const SALT_BYTES: usize = 16;
const TAG_BYTES: usize = 32;

/// Limits on the cost of a hash, since clients cause the work: memory in KiB, and that times passes.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const WORK_KIB_MAX: u64 = 1 << 20;
const LANES_MAX: u32 = 16;

/// A password's hash, with the salt and the cost by which it was made.
pub(super) struct PasswordHash {
    cost: Argon2Cost,
    salt: Vec<u8>,
    tag: Vec<u8>,
}

impl PasswordHash {
    /// Reads `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`.
    ///
    /// # Errors
    /// A sentence about the first part that cannot be used. It repeats nothing of the text, which may be a password.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str = "the text after the name is not $argon2id$v=19$m=…,t=…,p=…$SALT$HASH; make the line by \
                             scrim serve --hash-password NAME";
        let parts: Vec<_> = text.split('$').collect();
        let &["", "argon2id", "v=19", cost, salt, tag] = parts.as_slice() else {
            return Err(SHAPE);
        };
        let cost: Vec<_> = cost.split(',').collect();
        let &[memory, time, lanes] = cost.as_slice() else {
            return Err(SHAPE);
        };
        let number = |text: &str, key: &str| -> Option<u32> {
            let digits = text.strip_prefix(key)?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        let numbers = (
            number(memory, "m="),
            number(time, "t="),
            number(lanes, "p="),
        );
        let (Some(memory_kib), Some(time), Some(lanes)) = numbers else {
            return Err(SHAPE);
        };
        let is_cheap = memory_kib <= MEMORY_KIB_MAX
            && u64::from(memory_kib) * u64::from(time) <= WORK_KIB_MAX
            && (1..=LANES_MAX).contains(&lanes);
        if !is_cheap {
            return Err(
                "the hash costs too much for each login: use m of at most 262144, m times t of at most 1048576, and p \
                 of at most 16",
            );
        }
        if time == 0 || memory_kib < 8 * lanes {
            return Err(
                "the hash has no valid cost: use t of at least 1, and m of at least 8 times p",
            );
        }
        let decode = |text: &str| STANDARD_NO_PAD.decode(text).map_err(|_| SHAPE);
        let (salt, tag) = (decode(salt)?, decode(tag)?);
        if !(8..=64).contains(&salt.len()) || !(16..=64).contains(&tag.len()) {
            return Err("the salt has to have 8 to 64 bytes, and the hash 16 to 64");
        }
        let cost = Argon2Cost {
            time,
            memory_kib,
            lanes,
        };
        Ok(Self { cost, salt, tag })
    }

    /// Hashes a password with a new salt.
    pub(super) fn new(password: &[u8]) -> io::Result<Self> {
        let mut salt = vec![0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        let mut hash = Self {
            cost: COST,
            salt,
            tag: Vec::new(),
        };
        let tag = hash.derive(password, TAG_BYTES).map_err(io::Error::other)?;
        hash.tag = tag.to_vec();
        Ok(hash)
    }

    /// Checks a password, in a time that depends on the cost alone.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn verify(&self, password: &[u8]) -> Result<bool, KdfError> {
        let tag = self.derive(password, self.tag.len())?;
        Ok(verify_slices_are_equal(&tag, &self.tag).is_ok())
    }

    fn derive(&self, password: &[u8], length: usize) -> Result<Zeroizing<Vec<u8>>, KdfError> {
        let mut tag = Zeroizing::new(vec![0; length]);
        // One thread, so that a login takes no more than one processor from the clients who are served.
        let limits = MachineLimits {
            cpus: 1,
            ..MachineLimits::read()
        };
        let kdf = Kdf::Argon2id { cost: self.cost };
        kdf.derive_within(&limits, password, &self.salt, &mut tag)?;
        Ok(tag)
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Argon2Cost {
            time,
            memory_kib,
            lanes,
        } = self.cost;
        let [salt, tag] = [&self.salt, &self.tag].map(|bytes| STANDARD_NO_PAD.encode(bytes));
        write!(
            out,
            "$argon2id$v=19$m={memory_kib},t={time},p={lanes}${salt}${tag}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the reference implementation: `echo -n password | argon2 somesalt -id -t 2 -m 8 -p 1 -l 32 -e`.
    const KNOWN: &str =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    #[test]
    fn a_known_hash_fits_its_password_alone() {
        let hash = PasswordHash::parse(KNOWN).expect("a hash");
        assert_eq!(hash.to_string(), KNOWN);
        assert!(hash.verify(b"password").expect("memory"));
        for other in [&b""[..], b"Password", b"password ", b"password\0"] {
            assert!(!hash.verify(other).expect("memory"));
        }
    }

    #[test]
    fn a_new_hash_has_its_own_salt() {
        let [one, two] = [(); 2].map(|()| PasswordHash::new(b"secret").expect("a hash"));
        assert_ne!(one.to_string(), two.to_string());
        let read = PasswordHash::parse(&one.to_string()).expect("a hash");
        assert!(read.verify(b"secret").expect("memory"));
        assert!(!read.verify(b"Secret").expect("memory"));
    }

    #[test]
    fn other_text_is_refused_and_not_repeated() {
        let cost = |cost: &str| KNOWN.replace("m=256,t=2,p=1", cost);
        for text in [
            "hunter2",
            "$2y$10$abcdefghijklmnopqrstuu",
            &KNOWN.replace("argon2id", "argon2i"),
            &KNOWN.replace("v=19", "v=16"),
            &KNOWN.replace("$c29tZXNhbHQ", "$c29t"),
            &KNOWN.replace("$c29tZXNhbHQ", "$c29tZXNhbHQ="),
            &format!("{KNOWN}$"),
            &KNOWN[..KNOWN.len() - 30],
            &cost("m=256,t=2"),
            &cost("t=2,m=256,p=1"),
            &cost("m=+256,t=2,p=1"),
            &cost("m=256,t=0,p=1"),
            &cost("m=256,t=2,p=0"),
            &cost("m=256,t=2,p=33"),
            &cost("m=8,t=1,p=2"),
            &cost("m=262145,t=1,p=1"),
            &cost("m=262144,t=5,p=1"),
            &cost("m=4294967296,t=1,p=1"),
        ] {
            let error = PasswordHash::parse(text).err().expect(text);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
