//! Images made by the real `cryptsetup`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use scrim_seeded::Random;
use serde_json::Value;

use super::programs::CRYPTSETUP;
use super::room::Room;
use crate::error::{Doing, Error};

/// Protects nothing; it has no line end, which peers treat differently.
pub(super) const PASSPHRASE: &str = "rivals";

/// Options of `cryptsetup luksFormat` for a volume that is quick to unlock.
pub(super) const LUKS1: [&str; 5] = [
    "--type=luks1",
    "--cipher=aes-xts-plain64",
    "--key-size=512",
    "--hash=sha256",
    "--pbkdf-force-iterations=1000",
];

/// Room for a LUKS1 header, which takes 2 MiB.
pub(super) const LUKS1_ROOM: u64 = 4 << 20;

/// Images from which each server gets its copy, both with the same number of bytes, and the key of the volume.
pub(super) struct Originals {
    pub(super) plain: PathBuf,
    pub(super) luks: PathBuf,
    pub(super) key_file: PathBuf,
}

/// Makes images with `payload` bytes: `format` are the options for the volume, whose header takes `header` bytes at most.
pub(super) fn originals(
    room: &Room,
    payload: u64,
    header: u64,
    format: &[&str],
) -> Result<Originals, Error> {
    let key_file = room.write("key", PASSPHRASE)?;
    let plain = noise(room, "plain", payload)?;
    let luks = noise(room, "luks", payload + header)?;
    let format: Vec<String> = format.iter().map(|&option| option.to_owned()).collect();
    luks_format(room, &luks, &key_file, &format)?;
    Ok(Originals {
        plain,
        luks,
        key_file,
    })
}

/// Makes the file `name` of `size` bytes that no program can compress or skip as zeros.
///
/// Behind a LUKS header they are some ciphertext, in a plain image some data. Every page of the file
/// is there before anything is measured.
pub(super) fn noise(room: &Room, name: &str, size: u64) -> Result<PathBuf, Error> {
    let path = room.path(name);
    write_noise(&path, size).doing(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn write_noise(path: &Path, size: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random::new(1);
    for _ in 0..size / 8 {
        file.write_all(&random.next().to_le_bytes())?;
    }
    file.flush()
}

/// A copy of `image` as the file `name`.
pub(super) fn copy(room: &Room, image: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = room.path(name);
    // On a disk, nothing of it is still to be written when something else is measured.
    let made = fs::copy(image, &path).and_then(|_| File::open(&path)?.sync_all());
    made.doing(|| format!("copy {} to {}", image.display(), path.display()))?;
    Ok(path)
}

/// Runs `cryptsetup luksFormat` with these options on `image`.
pub(super) fn luks_format(
    room: &Room,
    image: &Path,
    key_file: &Path,
    options: &[String],
) -> Result<(), Error> {
    let mut command = room.command(CRYPTSETUP.program);
    command.args(["luksFormat", "--batch-mode", "--key-file"]);
    command.arg(key_file).args(options).arg(image);
    let output = command
        .stdin(Stdio::null())
        .output()
        .doing(|| "run cryptsetup luksFormat".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::program("cryptsetup luksFormat", said));
    }
    Ok(())
}

/// Reads the parameters of the key derivation from the header of a LUKS2 image: cryptsetup lowers those
/// that it is given to the resources of the machine.
pub(super) fn luks2_kdf(room: &Room, image: &Path) -> Result<Value, Error> {
    let output = room
        .command(CRYPTSETUP.program)
        .args(["luksDump", "--dump-json-metadata"])
        .arg(image)
        .output()
        .doing(|| "run cryptsetup luksDump".to_owned())?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::program("cryptsetup luksDump", error.to_string()))?;
    Ok(metadata["keyslots"]["0"]["kdf"].clone())
}
