//! Ciphers, keys and sectors as they are asked for on the command line.

use scrim_crypt::{CipherError, CipherSpec, SectorSize};
use scrim_luks::KeyslotCipher;

use crate::args::KeyslotCipherArgs;
use crate::error::CliError;

/// Most bytes of a volume key that encrypts nothing: as many as the longest of any cipher.
const NULL_KEY_MAX: usize = 64;

/// Parses a cipher that is to be shown or measured. If it names no IV, which does not matter for that, it gets the IV
/// that volumes have, so that cryptsetup's `aes-xts` is understood.
pub(crate) fn parse(text: &str) -> Result<CipherSpec, CipherError> {
    match text.parse() {
        Err(CipherError::MissingIv { mode, .. }) => {
            let iv = match mode {
                "cbc" => "essiv:sha256",
                "lrw" => "benbi",
                _ => "plain64",
            };
            format!("{text}-{iv}").parse()
        }
        result => result,
    }
}

/// Parses a cipher that an option asks for in a header. Headers allow more short forms than dm-crypt, but no drivers:
/// other machines may not have this machine's drivers.
pub(crate) fn for_header(option: &str, text: &str) -> Result<CipherSpec, CliError> {
    let text = match text {
        "null" | "cipher_null" => "cipher_null-ecb",
        other => other,
    };
    let cipher: CipherSpec = text
        .parse()
        .map_err(|error| CliError::usage(format!("{option}: {error}")))?;
    match cipher.driver() {
        None => Ok(cipher),
        Some(driver) => Err(CliError::usage(format!(
            "{option}: {driver} is a driver, which other machines may not have; write the cipher \
             like capi:xts(aes)-plain64"
        ))),
    }
}

/// The size of a volume key in bytes. The null cipher, which has no use for it, takes any.
pub(crate) fn key_bytes(cipher: &CipherSpec, bits: Option<u32>) -> Result<usize, CliError> {
    let Some(bits) = bits else {
        return Ok(cipher.default_key_size());
    };
    if let Some(bytes) = fitting_key_bytes(cipher, bits) {
        return Ok(bytes);
    }
    Err(CliError::usage(format!(
        "--key-size: {bits} bits do not fit {cipher}; give {}",
        key_bits(cipher)
    )))
}

/// The size of a volume key in bytes, if the cipher takes it.
pub(crate) fn fitting_key_bytes(cipher: &CipherSpec, bits: u32) -> Option<usize> {
    let bytes = (bits / 8) as usize;
    let fits = cipher.key_sizes().contains(&bytes)
        || cipher.is_null() && (1..=NULL_KEY_MAX).contains(&bytes);
    (bits.is_multiple_of(8) && fits).then_some(bytes)
}

/// The cipher of a key slot, if one is asked for.
pub(crate) fn keyslot_cipher(args: &KeyslotCipherArgs) -> Result<Option<KeyslotCipher>, CliError> {
    let (Some(cipher), Some(bits)) = (&args.keyslot_cipher, args.keyslot_key_size) else {
        return Ok(None);
    };
    let spec = for_header("--keyslot-cipher", cipher)?;
    let key_size = fitting_key_bytes(&spec, bits).ok_or_else(|| {
        CliError::usage(format!(
            "--keyslot-key-size: {bits} bits do not fit {spec}; give {}",
            key_bits(&spec)
        ))
    })?;
    Ok(Some(KeyslotCipher { spec, key_size }))
}

/// Sizes that a volume key may have, in bits, as text: `a, b or c`.
pub(crate) fn key_bits(cipher: &CipherSpec) -> String {
    if cipher.is_null() {
        format!("a multiple of 8 up to {}", NULL_KEY_MAX * 8)
    } else {
        let sizes: Vec<_> = cipher.key_sizes().iter().map(|bytes| bytes * 8).collect();
        let sizes = alternatives(&sizes);
        match cipher.tweak_key_size() {
            0 => sizes,
            bytes => format!("{sizes} (of which {} are the tweak key)", bytes * 8),
        }
    }
}

/// `a, b or c`.
pub(crate) fn alternatives(numbers: &[usize]) -> String {
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    match numbers.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// Checks the value of `--sector-size`.
pub(crate) fn sector_size(bytes: u32) -> Result<SectorSize, CliError> {
    SectorSize::new(bytes)
        .ok_or_else(|| CliError::usage("--sector-size must be 512, 1024, 2048 or 4096"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_iv_is_the_usual_one() {
        for (given, meant) in [
            ("aes-xts", "aes-xts-plain64"),
            ("aes-cbc", "aes-cbc-essiv:sha256"),
            ("aes-ctr", "aes-ctr-plain64"),
            ("aes-ecb", "aes-ecb"),
            ("capi:cbc(aes)", "capi:cbc(aes)-essiv:sha256"),
            ("aes-xts-plain", "aes-xts-plain"),
            ("serpent-lrw", "serpent-lrw-benbi"),
            ("xchacha12,aes-adiantum", "xchacha12,aes-adiantum-plain64"),
        ] {
            assert_eq!(parse(given).unwrap().to_string(), meant);
        }
        assert!(parse("aes-xts-plain99").is_err());
        assert!(parse("aes-pcbc").is_err());
    }

    #[test]
    fn alternatives_read_like_prose() {
        let prose = [&[][..], &[1], &[1, 2], &[1, 2, 3]].map(alternatives);
        assert_eq!(prose, ["", "1", "1 or 2", "1, 2 or 3"]);
    }

    #[test]
    fn keys_have_the_sizes_of_their_cipher() {
        let xts = parse("aes-xts-plain64").unwrap();
        assert_eq!(key_bytes(&xts, None).unwrap(), 64);
        assert_eq!(key_bytes(&xts, Some(384)).unwrap(), 48);
        for bits in [0, 100, 128, 513, u32::MAX] {
            let error = key_bytes(&xts, Some(bits)).unwrap_err().to_string();
            let wanted =
                format!("--key-size: {bits} bits do not fit aes-xts-plain64; give 256, 384 or 512");
            assert_eq!(error, wanted);
        }
        let null = parse("cipher_null-ecb").unwrap();
        assert_eq!(key_bytes(&null, Some(128)).unwrap(), 16);
        assert!(key_bytes(&null, Some(1024)).is_err());
    }
}
