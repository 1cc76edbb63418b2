//! Limits on the instructions that every library here may use, so that processors with fewer can be
//! compared.
//!
//! Most libraries look at the processor before `main`, and take their orders from the environment:
//! so a process has one restriction, and starts itself again with the environment for it.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use crate::rival::Missing;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Restriction {
    /// All that the processor has.
    #[default]
    None,
    /// Neither AVX-512 nor GFNI; VAES on 256 bits, as on Zen 3.
    Avx2,
    /// AES-NI alone: neither AVX-512, GFNI nor VAES.
    Aesni,
}

static CURRENT: OnceLock<Restriction> = OnceLock::new();

impl Restriction {
    /// The restriction of this process.
    pub(crate) fn current() -> Self {
        CURRENT.get().copied().unwrap_or_default()
    }

    /// Refuses, under a restriction, a library that nothing keeps from what the processor has: it
    /// takes part only where all may use everything.
    pub(crate) fn must_be_none() -> Result<(), Missing> {
        if Self::current() == Self::None {
            return Ok(());
        }
        let why = "nothing keeps it from what the processor has";
        Err(Missing(why.to_owned()))
    }

    /// Makes this the restriction of the process: returns in a process whose environment was right
    /// from its start, and starts it again where it was not.
    pub(crate) fn enforce(self) -> io::Result<()> {
        let environment = self.environment();
        let right = environment
            .iter()
            .all(|(name, value)| std::env::var_os(name).as_deref() == value.map(OsStr::new));
        if right {
            let _ = CURRENT.set(self);
            return Ok(());
        }
        let mut again = Command::new(std::env::current_exe()?);
        again.args(std::env::args_os().skip(1));
        for (name, value) in environment {
            match value {
                Some(value) => again.env(name, value),
                None => again.env_remove(name),
            };
        }
        Err(again.exec())
    }

    /// Prefix of the names of results.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Avx2 => "avx2_",
            Self::Aesni => "aesni_",
        }
    }

    /// Description of the restriction for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::None => "all features",
            Self::Avx2 => "without AVX-512 and GFNI",
            Self::Aesni => "without AVX-512, GFNI and VAES",
        }
    }

    /// `OPENSSL_ia32cap` is OpenSSL's and aws-lc's: what is to be cleared of leaf 1 and of leaf 7,
    /// `EBX` below `ECX`. Of leaf 7 these are the AVX-512 extensions, GFNI and, for the second, VAES and
    /// VPCLMULQDQ. GnuTLS 3.7 and Nettle have nothing beyond AES-NI.
    fn environment(self) -> [(&'static str, Option<&'static str>); 2] {
        let (scrim, openssl) = match self {
            Self::None => (None, None),
            Self::Avx2 => (Some("avx512f,gfni"), Some("~0x0:~0x5942d0230000")),
            Self::Aesni => (Some("avx512f,gfni,vaes"), Some("~0x0:~0x5f42d0230000")),
        };
        [("SCRIM_DISABLE", scrim), ("OPENSSL_ia32cap", openssl)]
    }

    /// libgcrypt's names of what it is not to use.
    pub(crate) fn gcrypt_features(self) -> &'static [&'static CStr] {
        match self {
            Self::None => &[],
            Self::Avx2 => &[c"intel-avx512", c"intel-gfni"],
            Self::Aesni => &[c"intel-avx512", c"intel-gfni", c"intel-vaes-vpclmul"],
        }
    }
}
