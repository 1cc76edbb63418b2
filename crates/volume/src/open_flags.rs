//! Flags of a crypt target: those of its user, with those that a LUKS header keeps.

use scrim_luks::{Flag, Header};

/// Flags that a user may set beyond those in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "dm-crypt's flags are independent of each other"
)]
pub struct OpenFlags {
    /// Pass discards on to the device.
    pub allow_discards: bool,
    /// Encrypt on the CPU that asked.
    pub same_cpu_crypt: bool,
    /// Write from the threads that encrypt.
    pub submit_from_crypt_cpus: bool,
    /// Decrypt without the work queue.
    pub no_read_workqueue: bool,
    /// Encrypt without the work queue.
    pub no_write_workqueue: bool,
    /// Run the queues at high priority.
    pub high_priority: bool,
}

impl OpenFlags {
    /// Adds the header's persistent flags to the user's.
    #[must_use]
    pub fn and_those_of(self, header: &Header) -> Self {
        let stored = |flag| header.flags().contains(&flag);
        Self {
            allow_discards: self.allow_discards || stored(Flag::AllowDiscards),
            same_cpu_crypt: self.same_cpu_crypt || stored(Flag::SameCpuCrypt),
            submit_from_crypt_cpus: self.submit_from_crypt_cpus
                || stored(Flag::SubmitFromCryptCpus),
            no_read_workqueue: self.no_read_workqueue || stored(Flag::NoReadWorkqueue),
            no_write_workqueue: self.no_write_workqueue || stored(Flag::NoWriteWorkqueue),
            high_priority: self.high_priority,
        }
    }
}
