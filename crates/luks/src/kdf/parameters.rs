//! Parameters of a key derivation.

use super::hash::Hash;

/// A key derivation function with its cost. The salt is stored beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 (RFC 8018, section 5.2) with HMAC.
    Pbkdf2 {
        /// The hash of HMAC.
        hash: Hash,
        /// Iterations: 1 to 2³⁰, which takes minutes to half an hour.
        iterations: u32,
    },
    /// Argon2i (RFC 9106), version 1.3: reads its memory in an order that tells nothing about the
    /// passphrase.
    Argon2i {
        /// Passes, memory and lanes.
        cost: Argon2Cost,
    },
    /// Argon2id (RFC 9106), version 1.3: as Argon2i for half a pass, then in an order that depends
    /// on the passphrase, which costs an attacker more.
    Argon2id {
        /// Passes, memory and lanes.
        cost: Argon2Cost,
    },
}

/// Cost of one derivation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Passes over the memory.
    pub time: u32,
    /// Memory in KiB: at least 8 for each lane, at most 4 GiB.
    pub memory_kib: u32,
    /// Lanes, of which each can have a thread. They are part of what is computed: the result
    /// depends on how many they are, not on the number of threads.
    pub lanes: u32,
}

/// The variants of Argon2 that LUKS2 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argon2Kind {
    /// Reads its memory in an order that does not depend on the passphrase.
    Argon2i,
    /// Reads its memory as Argon2i in the first half of the first pass, and then in an order that depends on the
    /// passphrase.
    Argon2id,
}
