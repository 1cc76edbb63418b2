//! A table as `dmsetup table` prints it.

use std::fmt::Write as _;

use super::{CryptOptions, CryptSpec, CryptTable, Line, TargetSpec};
use scrim_crypt::SectorSize;
use scrim_sys::memory::SecretBytes;

/// Choice between showing and hiding the keys of a printed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Zeros in place of the key, as `dmsetup table`.
    Masked,
    /// The key in hexadecimal, as `dmsetup table --showkeys`.
    Shown,
}

impl CryptTable {
    /// Returns the table as text, one line per target, each ended by a newline. With [`Keys::Shown`] it
    /// is as secret as the keys, so it is kept in the same kind of memory.
    #[must_use]
    pub fn to_text(&self, keys: Keys) -> SecretBytes {
        self.to_text_until(self.len(), keys)
    }

    /// Prints the table with a last line that ends at `end`, in 512-byte units.
    pub(crate) fn to_text_until(&self, end: u64, keys: Keys) -> SecretBytes {
        let mut text = SecretText::default();
        for (number, line) in (1..).zip(&self.lines) {
            let last = number == self.lines.len();
            let len = if last { end - line.start } else { line.len };
            line.print(&mut text, len, keys);
            text.push("\n");
        }
        text.into_secret()
    }
}

impl Line {
    fn print(&self, text: &mut SecretText, len: u64, keys: Keys) {
        text.push(&format!("{} {len} ", self.start));
        match &self.target {
            TargetSpec::Zero => text.push("zero"),
            TargetSpec::Error => text.push("error"),
            TargetSpec::Linear(linear) => {
                text.push(&format!(
                    "linear {} {}",
                    escape(&linear.device),
                    linear.offset
                ));
            }
            TargetSpec::Crypt(crypt) => crypt.print(text, keys),
        }
    }
}

impl CryptSpec {
    fn print(&self, text: &mut SecretText, keys: Keys) {
        text.push(&format!("crypt {} ", self.cipher));
        text.push_key(self.key.expose(), keys);
        let device = escape(&self.device);
        text.push(&format!(" {} {device} {}", self.iv_offset, self.offset));
        let options = self.options.words();
        if !options.is_empty() {
            text.push(&format!(" {} {}", options.len(), options.join(" ")));
        }
    }
}

impl CryptOptions {
    /// Returns the flags that are set, in the order in which the kernel prints them.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let flags = [
            (self.allow_discards, "allow_discards"),
            (self.same_cpu_crypt, "same_cpu_crypt"),
            (self.high_priority, "high_priority"),
            (self.submit_from_crypt_cpus, "submit_from_crypt_cpus"),
            (self.no_read_workqueue, "no_read_workqueue"),
            (self.no_write_workqueue, "no_write_workqueue"),
        ];
        let set = flags.into_iter().filter(|(set, _)| *set);
        set.map(|(_, word)| word).collect()
    }

    /// Returns the flags, and the values of the geometry that are not the default.
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.flags().into_iter().map(str::to_owned).collect();
        if self.sector_size != SectorSize::S512 {
            words.push(format!("sector_size:{}", self.sector_size.bytes()));
        }
        if self.iv_large_sectors {
            words.push("iv_large_sectors".to_owned());
        }
        words
    }
}

/// A word as device mapper splits it: a backslash before white space and before itself.
fn escape(word: &str) -> String {
    let mut escaped = String::with_capacity(word.len());
    for letter in word.chars() {
        if letter == '\\' || letter.is_ascii_whitespace() {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Text that grows in secret memory.
struct SecretText {
    buffer: SecretBytes,
    used: usize,
}

impl Default for SecretText {
    fn default() -> Self {
        Self {
            buffer: SecretBytes::zeroed(4096),
            used: 0,
        }
    }
}

impl SecretText {
    fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    fn push_key(&mut self, key: &[u8], keys: Keys) {
        if key.is_empty() {
            self.push("-");
        }
        let mut digits = String::with_capacity(2);
        for byte in key {
            let shown = if keys == Keys::Shown { *byte } else { 0 };
            digits.clear();
            // Writing to a String cannot fail.
            let _ = write!(digits, "{shown:02x}");
            self.push(&digits);
        }
        zeroize::Zeroize::zeroize(&mut digits);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if end > self.buffer.len() {
            let mut larger = SecretBytes::zeroed(end.next_power_of_two());
            larger.expose_mut()[..self.used].copy_from_slice(&self.buffer.expose()[..self.used]);
            self.buffer = larger;
        }
        self.buffer.expose_mut()[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }

    fn into_secret(mut self) -> SecretBytes {
        self.buffer.truncate(self.used);
        self.buffer
    }
}
