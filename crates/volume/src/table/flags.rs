//! Copies of a table that serve it in another way, or with another key.

use scrim_luks::VolumeKey;
use scrim_sys::memory::SecretBytes;

use super::{CryptOptions, CryptSpec, CryptTable, Line, TargetSpec};
use crate::open_flags::OpenFlags;

impl CryptOptions {
    /// Returns the options with these flags in place of its own.
    #[must_use]
    pub fn with_flags(self, flags: OpenFlags) -> Self {
        Self {
            allow_discards: flags.allow_discards,
            same_cpu_crypt: flags.same_cpu_crypt,
            submit_from_crypt_cpus: flags.submit_from_crypt_cpus,
            no_read_workqueue: flags.no_read_workqueue,
            no_write_workqueue: flags.no_write_workqueue,
            high_priority: flags.high_priority,
            sector_size: self.sector_size,
            iv_large_sectors: self.iv_large_sectors,
        }
    }
}

impl CryptSpec {
    fn with_key(&self, key: VolumeKey) -> Self {
        Self {
            cipher: self.cipher.clone(),
            key,
            iv_offset: self.iv_offset,
            device: self.device.clone(),
            offset: self.offset,
            options: self.options,
        }
    }
}

impl CryptTable {
    /// Returns this table up to `end`, in 512-byte units, with a copy of `key` in each crypt target, or with zeros
    /// as long as the target's present key.
    #[must_use]
    pub(crate) fn with_key_until(&self, end: u64, key: Option<&VolumeKey>) -> Self {
        let last = self.lines.len().saturating_sub(1);
        let lines = self.lines.iter().enumerate().map(|(index, line)| Line {
            start: line.start,
            len: match index == last {
                true => end.saturating_sub(line.start),
                false => line.len,
            },
            target: match &line.target {
                TargetSpec::Crypt(crypt) => {
                    let key = match key {
                        Some(key) => SecretBytes::copied_from(key.expose()),
                        None => SecretBytes::zeroed(crypt.key.len()),
                    };
                    TargetSpec::Crypt(Box::new(crypt.with_key(VolumeKey::new(key))))
                }
                TargetSpec::Linear(linear) => TargetSpec::Linear(linear.clone()),
                TargetSpec::Zero => TargetSpec::Zero,
                TargetSpec::Error => TargetSpec::Error,
            },
        });
        Self {
            lines: lines.collect(),
        }
    }

    /// Returns the table with these flags in each crypt line, in place of those that it has.
    #[must_use]
    pub fn with_flags(mut self, flags: OpenFlags) -> Self {
        for line in &mut self.lines {
            if let TargetSpec::Crypt(crypt) = &mut line.target {
                crypt.options = crypt.options.with_flags(flags);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keys;

    #[test]
    fn other_flags_change_nothing_else() {
        let key = "0123456789abcdef".repeat(8);
        let line = |options: &str| {
            format!(
                "0 8 zero\n8 16 crypt aes-xts-plain64 {key} 8 /a 16 {options} sector_size:4096\n"
            )
        };
        let table = CryptTable::parse(&line("2 same_cpu_crypt")).unwrap();
        let flags = OpenFlags {
            no_write_workqueue: true,
            allow_discards: true,
            ..OpenFlags::default()
        };
        let text = table.with_flags(flags).to_text(Keys::Shown);
        let expected = line("3 allow_discards no_write_workqueue");
        assert_eq!(text.expose(), expected.as_bytes());
    }
}
