//! Flags in a header that apply to each activation.

/// A flag stored in a LUKS2 header (specification, section 3.6) that applies whenever the volume
/// is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Pass discards on to the device.
    AllowDiscards,
    /// Encrypt on the CPU that submitted the request.
    SameCpuCrypt,
    /// Write from the CPU that encrypted.
    SubmitFromCryptCpus,
    /// Integrity protection without a journal.
    NoJournal,
    /// Decrypt inline, without a queue.
    NoReadWorkqueue,
    /// Encrypt inline, without a queue.
    NoWriteWorkqueue,
}

impl Flag {
    pub const ALL: [Self; 6] = [
        Self::AllowDiscards,
        Self::SameCpuCrypt,
        Self::SubmitFromCryptCpus,
        Self::NoJournal,
        Self::NoReadWorkqueue,
        Self::NoWriteWorkqueue,
    ];

    /// Its name in a header, and in cryptsetup.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllowDiscards => "allow-discards",
            Self::SameCpuCrypt => "same-cpu-crypt",
            Self::SubmitFromCryptCpus => "submit-from-crypt-cpus",
            Self::NoJournal => "no-journal",
            Self::NoReadWorkqueue => "no-read-workqueue",
            Self::NoWriteWorkqueue => "no-write-workqueue",
        }
    }

    /// The flag of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.name() == name)
    }

    /// The optional parameter of a dm-crypt table that it becomes; `None` for
    /// [`Flag::NoJournal`], which is dm-integrity's.
    #[must_use]
    pub fn table_option(self) -> Option<&'static str> {
        match self {
            Self::AllowDiscards => Some("allow_discards"),
            Self::SameCpuCrypt => Some("same_cpu_crypt"),
            Self::SubmitFromCryptCpus => Some("submit_from_crypt_cpus"),
            Self::NoJournal => None,
            Self::NoReadWorkqueue => Some("no_read_workqueue"),
            Self::NoWriteWorkqueue => Some("no_write_workqueue"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_table_options_differ_only_in_the_dash() {
        for flag in Flag::ALL {
            assert_eq!(Flag::from_name(flag.name()), Some(flag));
            if let Some(option) = flag.table_option() {
                assert_eq!(option, flag.name().replace('-', "_"));
            }
        }
        assert_eq!(Flag::from_name("high-priority"), None);
    }
}
