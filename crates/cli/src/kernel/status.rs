//! State of a volume of the kernel, as `status` and `list` show it.

use std::path::Path;

use scrim_sys::device_mapper::Which;
use serde::Serialize;

use super::table::{CryptArguments, KernelTable, KeyReference};
use super::volume::KernelVolume;
use crate::error::CliError;
use crate::storage::device_names::path_of;

/// State of a volume of the kernel. What it shares with [`Status`](crate::nbd::control::Status) has the same names.
#[derive(Debug, Serialize)]
pub(crate) struct KernelStatus {
    pub(crate) name: String,
    /// `LUKS1`, `LUKS2`, `PLAIN`, `TABLE`, or another of cryptsetup's types.
    pub(crate) r#type: String,
    /// UUID of the header; empty if there is no header.
    pub(crate) uuid: String,
    /// Cipher of the table's only target; empty if it has others.
    pub(crate) cipher: String,
    /// Size of the volume key in bits.
    pub(crate) key_bits: usize,
    /// Place of the key: `keyring`, `dm-crypt` where the table has it, or `none`.
    pub(crate) key_location: &'static str,
    /// Always `kernel`, where Scrim's own status names an I/O engine.
    pub(crate) engine: &'static str,
    /// Device or file with the ciphertext.
    pub(crate) device: String,
    /// Loop device between a file and the volume.
    pub(crate) loop_device: Option<String>,
    /// Encryption sector in bytes.
    pub(crate) sector_size: u32,
    /// Offset of the data on the device, in 512-byte sectors.
    pub(crate) offset_sectors: u64,
    /// Size of the plaintext in 512-byte sectors.
    pub(crate) size_sectors: u64,
    pub(crate) read_only: bool,
    pub(crate) flags: Vec<String>,
    /// True if requests are held.
    pub(crate) suspended: bool,
    /// True if a table is loaded beside the one at work.
    pub(crate) inactive_table: bool,
    /// True if the volume is closed once nobody has its device open.
    pub(crate) closes_when_unused: bool,
    /// Path of the plaintext device.
    pub(crate) address: String,
    /// Number of times that the device is open.
    pub(crate) open_count: u32,
    /// Folders on which its file system is mounted.
    pub(crate) mounts: Vec<String>,
}

impl KernelVolume {
    /// Looks at the volume.
    pub(crate) fn status(&self) -> Result<KernelStatus, CliError> {
        let table = self.table(Which::Active)?;
        let crypt = table.crypt();
        let (device, loop_device) = crypt
            .as_ref()
            .map_or_else(Default::default, |crypt| storage_of(crypt.device));
        Ok(KernelStatus {
            name: self.name.as_str().to_owned(),
            r#type: self.identity.r#type.clone(),
            uuid: self.identity.uuid.clone(),
            cipher: crypt
                .as_ref()
                .map_or_else(String::new, |crypt| crypt.cipher.to_owned()),
            key_bits: crypt.as_ref().map_or(0, CryptArguments::key_len) * 8,
            key_location: key_location(&table),
            engine: "kernel",
            device,
            loop_device,
            sector_size: crypt.as_ref().map_or(512, CryptArguments::sector_size),
            offset_sectors: crypt.as_ref().map_or(0, |crypt| crypt.offset),
            size_sectors: table.sectors(),
            read_only: self.state.read_only,
            flags: crypt
                .as_ref()
                .map_or_else(Vec::new, CryptArguments::flags)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            suspended: self.state.suspended,
            inactive_table: self.state.inactive_table,
            closes_when_unused: self.state.deferred_remove,
            address: self.node().display().to_string(),
            open_count: self.state.open_count,
            mounts: self.mounts(),
        })
    }
}

impl KernelStatus {
    /// Describes the volume as `cryptsetup status` does.
    pub(crate) fn describe(&self) -> String {
        let in_use = match self.open_count {
            0 => "",
            _ => " and is in use",
        };
        let mut text = format!("{} is active{in_use}.\n", self.name);
        for (label, value) in self.rows() {
            text.push_str(&format!("  {:<13} {value}\n", format!("{label}:")));
        }
        text
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let or_none = |text: &str| match text {
            "" => "(none)".to_owned(),
            text => text.to_owned(),
        };
        let mut rows = vec![
            ("type", self.r#type.clone()),
            ("cipher", or_none(&self.cipher)),
            ("keysize", format!("{} bits", self.key_bits)),
            ("key location", self.key_location.to_owned()),
            ("device", self.device.clone()),
        ];
        if let Some(device) = &self.loop_device {
            rows.push(("loop", device.clone()));
        }
        let mode = if self.read_only {
            "readonly"
        } else {
            "read/write"
        };
        let state = match (self.suspended, self.closes_when_unused) {
            (true, _) => "SUSPENDED",
            (_, true) => "ACTIVE, closes when nobody uses it",
            _ => "ACTIVE",
        };
        let tables = match self.inactive_table {
            true => "LIVE & INACTIVE",
            false => "LIVE",
        };
        rows.extend([
            ("engine", "kernel".to_owned()),
            ("sector size", self.sector_size.to_string()),
            ("offset", format!("{} sectors", self.offset_sectors)),
            ("size", format!("{} sectors", self.size_sectors)),
            ("mode", mode.to_owned()),
            ("flags", or_none(&self.flags.join(" "))),
            ("state", state.to_owned()),
            ("tables", tables.to_owned()),
            ("users", self.open_count.to_string()),
            ("address", self.address.clone()),
        ]);
        let mounts = self.mounts.iter();
        rows.extend(mounts.map(|mount| ("mount", mount.clone())));
        rows
    }
}

/// Place of a table's key.
fn key_location(table: &KernelTable) -> &'static str {
    match table.crypt().map(|crypt| crypt.key) {
        None | Some("-") => "none",
        Some(key) if KeyReference::parse(key).is_some() => "keyring",
        Some(_) => "dm-crypt",
    }
}

/// The device or file behind a table's device, and the loop device between, if there is one.
fn storage_of(device: &str) -> (String, Option<String>) {
    let node = path_of(device).display().to_string();
    match backing_file(device) {
        Some(file) => (file, Some(node)),
        None => (node, None),
    }
}

/// The file behind a loop device, by its number.
pub(super) fn backing_file(device: &str) -> Option<String> {
    let record = Path::new("/sys/dev/block")
        .join(device)
        .join("loop/backing_file");
    let file = std::fs::read_to_string(record).ok()?;
    Some(file.trim_end_matches('\n').to_owned())
}
