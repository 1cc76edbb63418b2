//! The libraries that are not Rust: the thinnest shim over each. Beside them stand the instructions
//! that save vector registers: with these it is the only unsafe code of this crate.
//!
//! aws-lc and OpenSSL are linked in. The others are looked for at run time, where the system's
//! loader finds them; what stands here about their types and numbers is what their headers say, for
//! the versions that each module names.

pub(crate) mod awslc;
mod evp;
pub(crate) mod fpu;
pub(crate) mod gcrypt;
pub(crate) mod gnutls;
pub(crate) mod ipsec_mb;
pub(crate) mod isal;
mod library;
pub(crate) mod nettle;
pub(crate) mod openssl;
