//! Libraries that the ciphers are compared with.

/// Every library; the last takes many sectors at a time.
pub(super) const LIBRARIES: [&str; 8] = [
    "awslc",
    "openssl",
    "rustcrypto",
    "gcrypt",
    "gnutls",
    "nettle",
    "isal",
    "ipsecmb",
];
