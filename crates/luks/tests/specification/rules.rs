//! The rules, in the order of the specification, and headers that break them.

use serde_json::{Value, json};

use super::Cryptsetup::{self, Loads, Opens, Refuses, RefusesToOpen};
use super::{Break, Case, Stage, Tolerated, Verdict, set};
use crate::common::{COPY, document};

const LABELS: &str = "it copies the bytes up to the end of the field, whatever they are";
const TAIL: &str = "it compares as many bytes as the digest has; in every header that was written the rest is zeros";
const LAST_OF_TWO: &str =
    "its JSON library takes the last of two members; another reader would take the first";
const NAMES: &str = "it asks that each name exists and no more";
const PADDING: &str = "the checksum covers it; what a later version puts there may be ignored, or it would have another number";
const ALIGNED: &str = "areas that do not start or end at a multiple of 4096 bytes are as readable";
const CONVERTS: &str = "it converts what is no number";
const BEHIND: &str = "it reads the key from behind the area's end";
const ANY_KEY: &str = "with a digest that it cannot compute it takes any passphrase";
const ACTIVATION: &str =
    "it tells when it activates the volume, which a tested passphrase does not";

/// Headers that Scrim refuses.
pub(super) fn broken(sound: &[u8]) -> Vec<Case> {
    [
        binary_header(),
        json_area(sound),
        config(),
        keyslots(),
        key_derivation(),
        segments(),
        digests(),
        tokens(),
        together(sound),
        opening(sound),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The binary header (section 2.1).
#[rustfmt::skip]
fn binary_header() -> Vec<Case> {
    vec![
        torn(0, vec![b'X'], "no LUKS header was found: check the name, or name the detached header", Refuses),
        binary(6, &[0, 3], "the LUKS header has version 3, and only 1 and 2 are known: restore the header from a backup if it is damaged", Refuses),
        binary(8, &0x3000u64.to_be_bytes(), "has an impossible size of 12288 bytes", Refuses),
        binary(8, &0x5000u64.to_be_bytes(), "has an impossible size of 20480 bytes", Refuses),
        binary(8, &0x80_0000u64.to_be_bytes(), "has an impossible size of 8388608 bytes", Refuses),
        binary(8, &0x8000u64.to_be_bytes(), "fails its checksum", Refuses),
        binary(24, &[b'x'; 48], "has a label that is no text", Opens(LABELS)),
        binary(24, b"\xff\0", "has a label that is no text", Opens(LABELS)),
        binary(72, b"crc32\0\0", "has a checksum of the unknown kind \"crc32\"", Refuses),
        binary(72, &[0; 32], "has a checksum of the unknown kind \"\"", Refuses),
        binary(72, &[b'x'; 32], "has a checksum algorithm that is no text", Refuses),
        binary(168, &[b'x'; 40], "has a UUID that is no text", Opens(LABELS)),
        binary(208, &[b'x'; 48], "has a subsystem that is no text", Opens(LABELS)),
        binary(256, &512u64.to_be_bytes(), "lies at byte 0, but says it belongs at 512", Refuses),
        torn(16, vec![1], "fails its checksum", Refuses),
        torn(448, vec![0; 32], "fails its checksum", Refuses),
        torn(480, vec![1], "fails its checksum", Opens(TAIL)),
    ]
}

/// The JSON area (section 2.2), and what is said of JSON itself.
#[rustfmt::skip]
fn json_area(sound: &[u8]) -> Vec<Case> {
    let good = document(sound).to_string();
    let unterminated = vec![b' '; COPY - 4096];
    let behind = [good.as_bytes(), b"\0x"].concat();
    let repeated = good.replacen('{', r#"{"config":{},"#, 1);
    let deep = format!(
        "{{\"x\":{}{},{}",
        "[".repeat(40),
        "]".repeat(40),
        &good[1..]
    );
    let two = format!("{good}{{}}");
    let spaced = format!(" {good}");
    let cut = good[..good.len() - 1].to_owned();
    vec![
        text(unterminated, "the JSON area is not ended by a NUL", Refuses),
        text(behind, "the JSON area holds bytes behind its end", Refuses),
        text(repeated.into_bytes(), "the JSON area names config twice in one object", Opens(LAST_OF_TWO)),
        text(deep.into_bytes(), "the JSON area nests deeper than 32 levels", Refuses),
        text(two.into_bytes(), "the JSON area is no valid JSON at line 1, column 796", Refuses),
        text(spaced.into_bytes(), "the JSON area does not hold one object", Refuses),
        text(b"[]".to_vec(), "the JSON area does not hold one object", Refuses),
        text(Vec::new(), "the JSON area does not hold one object", Refuses),
        text(cut.into_bytes(), "the JSON area is no valid JSON at line 1, column 794", Refuses),
        without("/keyslots", "keyslots is missing", Refuses),
        without("/tokens", "tokens is missing", Refuses),
        without("/segments", "segments is missing", Refuses),
        without("/digests", "digests is missing", Refuses),
        without("/config", "config is missing", Refuses),
        one("/keyslots", json!([]), "keyslots is not an object", Refuses),
        one("/tokens", json!([]), "tokens is not an object", Refuses),
        one("/segments", json!("x"), "segments is not an object", Refuses),
        one("/digests", json!(null), "digests is not an object", Refuses),
        one("/config", json!(1), "config is not an object", Refuses),
    ]
}

/// Rules about the object `config`.
#[rustfmt::skip]
fn config() -> Vec<Case> {
    vec![
        without("/config/json_size", "config.json_size is missing", Refuses),
        one("/config/json_size", json!(12288), "config.json_size is not a string of decimal digits, 64 bits", Refuses),
        one("/config/json_size", json!("28672"), "config.json_size is 28672, but must be 12288", Refuses),
        without("/config/keyslots_size", "config.keyslots_size is missing", Refuses),
        one("/config/keyslots_size", json!(1_048_576), "config.keyslots_size is not a string of decimal digits, 64 bits", Refuses),
        one("/config/keyslots_size", json!("-4096"), "config.keyslots_size is not a string of decimal digits, 64 bits", Refuses),
        one("/config/keyslots_size", json!("18446744073709551616"), "config.keyslots_size is not a string of decimal digits, 64 bits", Refuses),
        one("/config/keyslots_size", json!("1048577"), "config.keyslots_size is not a multiple of 4096", Refuses),
        one("/config/keyslots_size", json!("134221824"), "config.keyslots_size is 134221824, outside 0 to 134217728", Refuses),
        one("/config/keyslots_size", json!("4096"), "keyslots.0.area covers bytes 32768 to 290816, outside 32768 to 36864", Refuses),
        one("/config/flags", json!({}), "config.flags is not an array", Refuses),
        one("/config/flags", json!([1]), "config.flags.0 is not a short word", Refuses),
        one("/config/flags", json!(["a b"]), "config.flags.0 is not a short word", Opens("it ignores flags that it does not know, whatever they are")),
        one("/config/flags", json!(vec!["x"; 65]), "config.flags has more than 64 entries", Opens("it sets no bound; there are six flags")),
        one("/config/requirements", json!([]), "config.requirements is not an object", Refuses),
        one("/config/requirements", json!({"mandatory": "x"}), "config.requirements.mandatory is not an array", Refuses),
        one("/config/requirements", json!({"mandatory": [1]}), "config.requirements.mandatory.0 is not a short word", Refuses),
    ]
}

/// The objects in `keyslots`, but for key derivation.
#[rustfmt::skip]
fn keyslots() -> Vec<Case> {
    vec![
        one("/keyslots/32", json!({}), "keyslots.32 is not named by a number in its range", Refuses),
        one("/keyslots/01", json!({}), "keyslots.01 is not named by a number in its range", Refuses),
        one("/keyslots/x", json!({}), "keyslots.x is not named by a number in its range", Refuses),
        one("/keyslots/0", json!([]), "keyslots.0 is not an object", Refuses),
        without("/keyslots/0/type", "keyslots.0.type is missing", Refuses),
        one("/keyslots/0/type", json!(1), "keyslots.0.type is not a short word", Refuses),
        without("/keyslots/0/key_size", "keyslots.0.key_size is missing", Refuses),
        one("/keyslots/0/key_size", json!("64"), "keyslots.0.key_size is not a whole number", Refuses),
        one("/keyslots/0/key_size", json!(0), "keyslots.0.key_size is 0, outside 1 to 33554", RefusesToOpen),
        one("/keyslots/0/key_size", json!(-64), "keyslots.0.key_size is not a whole number", Refuses),
        one("/keyslots/0/key_size", json!(33555), "keyslots.0.key_size is 33555, outside 1 to 33554", RefusesToOpen),
        one("/keyslots/0/key_size", json!(65), "keyslots.0.area.size is smaller than the 260096 bytes of its key", RefusesToOpen),
        one("/keyslots/0/priority", json!(3), "keyslots.0.priority is 3, outside 0 to 2", RefusesToOpen),
        one("/keyslots/0/priority", json!("1"), "keyslots.0.priority is not a whole number", Opens(CONVERTS)),
        without("/keyslots/0/area", "keyslots.0.area is missing", Refuses),
        without("/keyslots/0/area/type", "keyslots.0.area.type is missing", Refuses),
        one("/keyslots/0/area/type", json!("none"), "keyslots.0.area.type is \"none\", which LUKS2 does not have", Refuses),
        without("/keyslots/0/area/offset", "keyslots.0.area.offset is missing", Refuses),
        one("/keyslots/0/area/offset", json!(32768), "keyslots.0.area.offset is not a string of decimal digits, 64 bits", Refuses),
        one("/keyslots/0/area/offset", json!("x"), "keyslots.0.area.offset is not a string of decimal digits, 64 bits", Refuses),
        one("/keyslots/0/area/offset", json!("28672"), "keyslots.0.area covers bytes 28672 to 286720, outside 32768 to 1081344", Refuses),
        one("/keyslots/0/area/offset", json!("18446744073709551615"), "keyslots.0.area.size is not a size that a device can have", Refuses),
        without("/keyslots/0/area/size", "keyslots.0.area.size is missing", Refuses),
        one("/keyslots/0/area/size", json!("1052672"), "keyslots.0.area covers bytes 32768 to 1085440, outside 32768 to 1081344", Refuses),
        one("/keyslots/0/area/size", json!("4096"), "keyslots.0.area.size is smaller than the 256000 bytes of its key", Opens(BEHIND)),
        one("/keyslots/0/area/size", json!("0"), "keyslots.0.area.size is not a size that a device can have", Refuses),
        without("/keyslots/0/area/encryption", "keyslots.0.area.encryption is missing", Refuses),
        one("/keyslots/0/area/encryption", json!(""), "keyslots.0.area.encryption is not a short word", Refuses),
        without("/keyslots/0/area/key_size", "keyslots.0.area.key_size is missing", Refuses),
        one("/keyslots/0/area/key_size", json!("64"), "keyslots.0.area.key_size is not a whole number", Refuses),
        one("/keyslots/0/area/key_size", json!(0), "keyslots.0.area.key_size is 0, outside 1 to 512", RefusesToOpen),
        without("/keyslots/0/af", "keyslots.0.af is missing", Refuses),
        without("/keyslots/0/af/type", "keyslots.0.af.type is missing", Refuses),
        one("/keyslots/0/af/type", json!("x"), "keyslots.0.af.type is \"x\", which LUKS2 does not have", Refuses),
        without("/keyslots/0/af/stripes", "keyslots.0.af.stripes is missing", Refuses),
        one("/keyslots/0/af/stripes", json!(2000), "keyslots.0.af.stripes is 2000, outside 4000 to 4000", Opens("it wants a number and no more; the splitter of LUKS1 makes 4000")),
        one("/keyslots/0/af/stripes", json!("4000"), "keyslots.0.af.stripes is not a whole number", Refuses),
        without("/keyslots/0/af/hash", "keyslots.0.af.hash is missing", Refuses),
    ]
}

/// Rules about the member `kdf` of key slots.
#[rustfmt::skip]
fn key_derivation() -> Vec<Case> {
    let argon2 = |change: (&str, Option<Value>)| {
        let mut kdf = json!({"type": "argon2id", "time": 4, "memory": 32, "cpus": 1, "salt": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="});
        set(&mut kdf, &format!("/{}", change.0), change.1);
        kdf
    };
    vec![
        without("/keyslots/0/kdf", "keyslots.0.kdf is missing", Refuses),
        without("/keyslots/0/kdf/type", "keyslots.0.kdf.type is missing", Refuses),
        without("/keyslots/0/kdf/salt", "keyslots.0.kdf.salt is missing", Refuses),
        one("/keyslots/0/kdf/salt", json!("AAA!"), "keyslots.0.kdf.salt is not a string in Base64", RefusesToOpen),
        one("/keyslots/0/kdf/salt", json!("AAAA"), "keyslots.0.kdf.salt has 3 bytes, outside 8 to 64", RefusesToOpen),
        one("/keyslots/0/kdf/salt", json!("A".repeat(88)), "keyslots.0.kdf.salt has 66 bytes, outside 8 to 64", RefusesToOpen),
        without("/keyslots/0/kdf/hash", "keyslots.0.kdf.hash is missing", Refuses),
        without("/keyslots/0/kdf/iterations", "keyslots.0.kdf.iterations is missing", Refuses),
        one("/keyslots/0/kdf/iterations", json!(0), "keyslots.0.kdf.iterations is 0, outside 1 to 4294967295", RefusesToOpen),
        one("/keyslots/0/kdf/iterations", json!("1000"), "keyslots.0.kdf.iterations is not a whole number", Refuses),
        one("/keyslots/0/kdf/iterations", json!(1.5), "keyslots.0.kdf.iterations is not a whole number", Refuses),
        one("/keyslots/0/kdf/iterations", json!(4_294_967_296_u64), "keyslots.0.kdf.iterations is 4294967296, outside 1 to 4294967295", Loads("it computes for hours")),
        one("/keyslots/0/kdf", argon2(("time", None)), "keyslots.0.kdf.time is missing", Refuses),
        one("/keyslots/0/kdf", argon2(("memory", None)), "keyslots.0.kdf.memory is missing", Refuses),
        one("/keyslots/0/kdf", argon2(("cpus", None)), "keyslots.0.kdf.cpus is missing", Refuses),
        one("/keyslots/0/kdf", argon2(("salt", None)), "keyslots.0.kdf.salt is missing", Refuses),
        one("/keyslots/0/kdf", argon2(("time", Some(json!(0)))), "keyslots.0.kdf.time is 0, outside 1 to 4294967295", RefusesToOpen),
        one("/keyslots/0/kdf", argon2(("memory", Some(json!("32")))), "keyslots.0.kdf.memory is not a whole number", Refuses),
        one("/keyslots/0/kdf", argon2(("memory", Some(json!(4_294_967_296_u64)))), "keyslots.0.kdf.memory is 4294967296, outside 1 to 4294967295", RefusesToOpen),
        one("/keyslots/0/kdf", argon2(("cpus", Some(json!(-1)))), "keyslots.0.kdf.cpus is not a whole number", RefusesToOpen),
    ]
}

/// The objects in `segments`.
#[rustfmt::skip]
fn segments() -> Vec<Case> {
    vec![
        one("/segments/32", json!({}), "segments.32 is not named by a number in its range", Refuses),
        one("/segments/x", json!({}), "segments.x is not named by a number in its range", Refuses),
        one("/segments/0", json!([]), "segments.0 is not an object", Refuses),
        without("/segments/0/type", "segments.0.type is missing", Refuses),
        without("/segments/0/offset", "segments.0.offset is missing", Refuses),
        one("/segments/0/offset", json!(1_081_344), "segments.0.offset is not a string of decimal digits, 64 bits", Refuses),
        one("/segments/0/offset", json!("1081345"), "segments.0.offset is not a multiple of 512", Refuses),
        one("/segments/0/offset", json!("1080832"), "config.keyslots_size covers bytes 32768 to 1081344, outside 32768 to 1080832", Refuses),
        without("/segments/0/size", "segments.0.size is missing", Refuses),
        one("/segments/0/size", json!(512), "segments.0.size is not a string of decimal digits, 64 bits", Refuses),
        one("/segments/0/size", json!("0"), "segments.0.size is not a size that a device can have", Refuses),
        one("/segments/0/size", json!("513"), "segments.0.size is not a multiple of 512", Refuses),
        one("/segments/0/size", json!("static"), "segments.0.size is not a string of decimal digits, 64 bits", Refuses),
        one("/segments/0/flags", json!("x"), "segments.0.flags is not an array", Refuses),
        one("/segments/0/flags", json!([1]), "segments.0.flags.0 is not a short word", Refuses),
        without("/segments/0/iv_tweak", "segments.0.iv_tweak is missing", Refuses),
        one("/segments/0/iv_tweak", json!(0), "segments.0.iv_tweak is not a string of decimal digits, 64 bits", Refuses),
        one("/segments/0/iv_tweak", json!("-1"), "segments.0.iv_tweak is not a string of decimal digits, 64 bits", Refuses),
        without("/segments/0/encryption", "segments.0.encryption is missing", Refuses),
        one("/segments/0/encryption", json!(""), "segments.0.encryption is not a short word", Refuses),
        without("/segments/0/sector_size", "segments.0.sector_size is missing", Refuses),
        one("/segments/0/sector_size", json!("512"), "segments.0.sector_size is not a whole number", Refuses),
        one("/segments/0/sector_size", json!(513), "segments.0.sector_size is not 512, 1024, 2048 or 4096", Refuses),
        one("/segments/0/sector_size", json!(1536), "segments.0.sector_size is not 512, 1024, 2048 or 4096", Opens(ACTIVATION)),
        one("/segments/0/sector_size", json!(256), "segments.0.sector_size is 256, outside 512 to 4096", Refuses),
        one("/segments/0/sector_size", json!(8192), "segments.0.sector_size is 8192, outside 512 to 4096", Opens(ACTIVATION)),
        one("/segments/0/integrity", json!("aead"), "segments.0.integrity is not an object", Refuses),
        one("/segments/0/integrity", json!({}), "segments.0.integrity.type is missing", Refuses),
    ]
}

/// The objects in `digests`.
#[rustfmt::skip]
fn digests() -> Vec<Case> {
    vec![
        one("/digests/8", json!({}), "digests.8 is not named by a number in its range", Refuses),
        one("/digests/00", json!({}), "digests.00 is not named by a number in its range", Refuses),
        one("/digests/0", json!([]), "digests.0 is not an object", Refuses),
        without("/digests/0/type", "digests.0.type is missing", Refuses),
        one("/digests/0/type", json!("argon2id"), "digests.0.type is \"argon2id\", which LUKS2 does not have", RefusesToOpen),
        without("/digests/0/keyslots", "digests.0.keyslots is missing", Refuses),
        one("/digests/0/keyslots", json!("0"), "digests.0.keyslots is not an array", Refuses),
        one("/digests/0/keyslots", json!([0]), "digests.0.keyslots.0 is not a short word", Refuses),
        one("/digests/0/keyslots", json!(["5"]), "digests.0.keyslots names keyslots.5, which does not exist", Refuses),
        one("/digests/0/keyslots", json!(["0", "0"]), "digests.0.keyslots.1 repeats what digests.0.keyslots has", Opens(NAMES)),
        without("/digests/0/segments", "digests.0.segments is missing", Refuses),
        one("/digests/0/segments", json!({}), "digests.0.segments is not an array", Refuses),
        one("/digests/0/segments", json!(["5"]), "digests.0.segments names segments.5, which does not exist", Refuses),
        without("/digests/0/hash", "digests.0.hash is missing", RefusesToOpen),
        without("/digests/0/salt", "digests.0.salt is missing", RefusesToOpen),
        one("/digests/0/salt", json!("?"), "digests.0.salt is not a string in Base64", RefusesToOpen),
        without("/digests/0/digest", "digests.0.digest is missing", Opens(ANY_KEY)),
        one("/digests/0/digest", json!("AAA"), "digests.0.digest is not a string in Base64", RefusesToOpen),
        one("/digests/0/digest", json!("AAAA"), "digests.0.digest has 3 bytes, outside 16 to 64", Opens(ANY_KEY)),
        without("/digests/0/iterations", "digests.0.iterations is missing", RefusesToOpen),
        one("/digests/0/iterations", json!(0), "digests.0.iterations is 0, outside 1 to 4294967295", RefusesToOpen),
        one("/digests/0/iterations", json!("1000"), "digests.0.iterations is not a whole number", Opens(CONVERTS)),
    ]
}

/// The objects in `tokens`.
#[rustfmt::skip]
fn tokens() -> Vec<Case> {
    vec![
        one("/tokens/32", json!({"type": "x", "keyslots": []}), "tokens.32 is not named by a number in its range", RefusesToOpen),
        one("/tokens/x", json!({"type": "x", "keyslots": []}), "tokens.x is not named by a number in its range", Refuses),
        one("/tokens/0", json!([]), "tokens.0 is not an object", Refuses),
        without("/tokens/0/type", "tokens.0.type is missing", Refuses),
        one("/tokens/0/type", json!(1), "tokens.0.type is not a string", Refuses),
        without("/tokens/0/keyslots", "tokens.0.keyslots is missing", Refuses),
        one("/tokens/0/keyslots", json!({}), "tokens.0.keyslots is not an array", Refuses),
        one("/tokens/0/keyslots", json!([0]), "tokens.0.keyslots.0 is not a short word", Refuses),
        one("/tokens/0/keyslots", json!(["0", "0"]), "tokens.0.keyslots.1 repeats what tokens.0.keyslots has", Opens(NAMES)),
        one("/tokens/0/keyslots", json!(["5"]), "tokens.0.keyslots names keyslots.5, which does not exist", Refuses),
    ]
}

/// Rules about members that must agree with each other.
#[rustfmt::skip]
fn together(sound: &[u8]) -> Vec<Case> {
    let good = document(sound);
    let mut slot = good["keyslots"]["0"].clone();
    slot["area"]["offset"] = json!("36864");
    let mut digest = good["digests"]["0"].clone();
    digest["segments"] = json!([]);
    let segment = good["segments"]["0"].clone();
    let mut backup = segment.clone();
    backup["flags"] = json!(["backup-final"]);
    let mut unnamed = slot.clone();
    unnamed["area"]["offset"] = json!("290816");
    vec![
        case(several(&[("/keyslots/1", slot), ("/digests/0/keyslots", json!(["0", "1"]))]), "keyslots.1.area overlaps keyslots.0.area", Refuses),
        one("/digests/1", digest, "digests.1.keyslots repeats what digests.0 has", Refuses),
        one("/segments/1", segment, "segments.1 overlaps segments.0", Refuses),
        one("/segments/2", backup, "segments.2 is not numbered without a gap from 0 on", Refuses),
        one("/keyslots/1", unnamed, "keyslots.1 is not named by a digest", Refuses),
        one("/digests/0/keyslots", json!([]), "keyslots.0 is not named by a digest", Refuses),
    ]
}

/// Rules that a header may break for a good reason, such as a program that is newer: it can be shown and
/// kept, but the volume is not opened.
#[rustfmt::skip]
fn opening(sound: &[u8]) -> Vec<Case> {
    let good = document(sound);
    let mut digest = good["digests"]["0"].clone();
    digest["keyslots"] = json!([]);
    let mut segment = good["segments"]["0"].clone();
    segment["size"] = json!("512");
    segment["offset"] = json!("1081856");
    let mut cases = vec![
        one("/config/requirements", json!({"mandatory": ["x"]}), "the header requires x, which is not supported: open it with the program that set it", Opens(ACTIVATION)),
        case(several(&[("/segments", json!({})), ("/digests/0/segments", json!([]))]), "the header has 0 segments, and only one that holds all data is supported: open it with cryptsetup", Refuses),
        case(several(&[("/segments/0/size", json!("512")), ("/segments/1", segment), ("/digests/0/segments", json!(["0", "1"]))]), "the header has 2 segments, and only one that holds all data is supported: open it with cryptsetup", Opens(ACTIVATION)),
        one("/segments/0/type", json!("x"), "the data segment is of type x, and only crypt is supported: open it with cryptsetup", Opens(ACTIVATION)),
        one("/segments/0/size", json!("1048576"), "the data takes 1048576 bytes from byte 1081344, but the device ends at 2097152: it has been truncated, or is not the device of this header", Opens(ACTIVATION)),
        one("/segments/0/size", json!("18446744073709551104"), "the data takes 18446744073709551104 bytes from byte 1081344, but the device ends at 2097152: it has been truncated, or is not the device of this header", Opens(ACTIVATION)),
        case(several(&[("/segments/0/sector_size", json!(4096)), ("/segments/0/size", json!("512"))]), "the data takes 512 bytes, no whole number of 4096-byte encryption sectors: restore the device's length", Refuses),
        one("/segments/0/iv_tweak", json!("18446744073709551615"), "the segment's iv_tweak is so large that sector numbers would overflow: the header is damaged, restore it from a backup", Opens(ACTIVATION)),
        one("/segments/0/encryption", json!("rot13-xts-plain64"), "the cipher \"rot13\" in the cipher specification \"rot13-xts-plain64\" is not supported; supported: aes, serpent, twofish, camellia, xchacha12,aes, xchacha20,aes or cipher_null", Opens(ACTIVATION)),
        one("/segments/0/integrity", json!({"type": "hmac(sha256)"}), "the volume has integrity protection (hmac(sha256)), which needs the kernel's dm-integrity: open it with cryptsetup", Refuses),
        one("/digests/0/segments", json!([]), "segment 0 has no digest, or several, to check its key with: restore the header from a backup", Refuses),
        one("/digests/1", digest, "segment 0 has no digest, or several, to check its key with: restore the header from a backup", Opens("it takes the first digest that names the segment")),
        one("/digests/0/hash", json!("x"), "hash x is not supported: use a key slot with another hash, or open it with cryptsetup", Opens(ANY_KEY)),
        one("/keyslots/0/type", json!("x"), "no key slot is left that a passphrase could open: name one that is ignored, or restore the header from a backup", RefusesToOpen),
        one("/keyslots/0/key_size", json!(40), "aes-xts-plain64 takes a volume key of 32, 48 or 64 bytes, not of 40: choose another size, or restore a damaged header from a backup", RefusesToOpen),
        one("/keyslots/0/area/encryption", json!("rot13-xts-plain64"), "the cipher \"rot13\" in the cipher specification \"rot13-xts-plain64\" is not supported; supported: aes, serpent, twofish, camellia, xchacha12,aes, xchacha20,aes or cipher_null", RefusesToOpen),
        one("/keyslots/0/area/key_size", json!(33), "aes-xts-plain64 takes a volume key of 32, 48 or 64 bytes, not of 33: choose another size, or restore a damaged header from a backup", RefusesToOpen),
        one("/keyslots/0/af/hash", json!("x"), "hash x is not supported: use a key slot with another hash, or open it with cryptsetup", RefusesToOpen),
        one("/keyslots/0/kdf/hash", json!("x"), "hash x is not supported: use a key slot with another hash, or open it with cryptsetup", RefusesToOpen),
        one("/keyslots/0/kdf/type", json!("scrypt"), "the key derivation scrypt is not supported: open another key slot, or this one with a cryptsetup that has it", RefusesToOpen),
    ];
    for case in &mut cases {
        case.stage = Stage::Opened;
    }
    cases
}

/// Rules that guard nothing: the passphrase opens the data all the same.
#[rustfmt::skip]
pub(super) fn tolerated(sound: &[u8]) -> Vec<Tolerated> {
    let good = document(sound);
    let mut unaligned = good["keyslots"]["0"].clone();
    unaligned["area"]["offset"] = json!("291328");
    let mut scrypt = good["keyslots"]["0"].clone();
    scrypt["area"]["offset"] = json!("290816");
    scrypt["kdf"]["type"] = json!("scrypt");
    let reencrypt = json!({"type": "reencrypt", "key_size": 2, "mode": "x", "area": {"type": "none", "offset": "290816", "size": "4096"}});
    let tolerated = |how, why, cryptsetup| Tolerated { how, why, cryptsetup };
    vec![
        tolerated(Break::Binary(300, vec![1]), PADDING, Verdict::Opens),
        tolerated(Break::Binary(4000, vec![1]), PADDING, Verdict::Opens),
        tolerated(Break::Binary(104, vec![7; 64]), "the salts do no more than make both checksums differ", Verdict::Opens),
        tolerated(Break::Binary(168, b"x\0".to_vec()), "the UUID is a name and no more", Verdict::Opens),
        tolerated(several(&[("/keyslots/0/area/size", json!("256000"))]), ALIGNED, Verdict::Opens),
        tolerated(several(&[("/keyslots/1", unaligned), ("/digests/0/keyslots", json!(["0", "1"]))]), ALIGNED, Verdict::Opens),
        tolerated(several(&[("/keyslots/1", scrypt), ("/digests/0/keyslots", json!(["0", "1"]))]), "a key slot whose key derivation is not known leaves the others", Verdict::Opens),
        tolerated(several(&[("/keyslots/1", reencrypt)]), "a key slot of another type is shown and kept, and not used", Verdict::Refuses),
        tolerated(several(&[("/tokens/0", json!({"type": "luks2-keyring", "keyslots": []}))]), "a token is a matter of those who know its type", Verdict::Opens),
    ]
}

fn one(pointer: &'static str, value: Value, text: &'static str, cryptsetup: Cryptsetup) -> Case {
    case(Break::Json(vec![(pointer, Some(value))]), text, cryptsetup)
}

fn without(pointer: &'static str, text: &'static str, cryptsetup: Cryptsetup) -> Case {
    case(Break::Json(vec![(pointer, None)]), text, cryptsetup)
}

fn text(json: Vec<u8>, text: &'static str, cryptsetup: Cryptsetup) -> Case {
    case(Break::Text(json), text, cryptsetup)
}

fn binary(at: usize, bytes: &[u8], text: &'static str, cryptsetup: Cryptsetup) -> Case {
    case(Break::Binary(at, bytes.to_vec()), text, cryptsetup)
}

fn torn(at: usize, bytes: Vec<u8>, text: &'static str, cryptsetup: Cryptsetup) -> Case {
    case(Break::Torn(at, bytes), text, cryptsetup)
}

fn case(how: Break, text: &'static str, cryptsetup: Cryptsetup) -> Case {
    let stage = Stage::Read;
    Case {
        how,
        stage,
        text,
        cryptsetup,
    }
}

fn several(changes: &[(&'static str, Value)]) -> Break {
    let changes = changes.iter().cloned();
    Break::Json(
        changes
            .map(|(pointer, value)| (pointer, Some(value)))
            .collect(),
    )
}
