//! Parser of dm-crypt's cipher strings (`crypt_ctr_cipher` of the kernel's dm-crypt).

use std::str::FromStr;

use crate::error::{CipherError, alternatives};
use crate::essiv::EssivHash;
use crate::kernels::kernels;
use crate::spec::{Algorithm, Cipher, CipherSpec, IvMode, Mode};

impl FromStr for CipherSpec {
    type Err = CipherError;

    fn from_str(text: &str) -> Result<Self, CipherError> {
        match text.strip_prefix("capi:") {
            Some(words) => parse_capi(text, words),
            None => parse_plain(text),
        }
    }
}

impl CipherSpec {
    /// Makes a specification from the two strings of a LUKS1 header (on-disk format 1.2.3, "cipher-name"
    /// and "cipher-mode"): `("aes", "xts-plain64")`.
    ///
    /// # Errors
    /// As for parsing the specification `cipher-mode`.
    pub fn from_luks(cipher: &str, mode: &str) -> Result<Self, CipherError> {
        format!("{cipher}-{mode}").parse()
    }
}

/// Parses a specification of the form `cipher-mode-iv:options`.
fn parse_plain(text: &str) -> Result<CipherSpec, CipherError> {
    if text.contains('(') {
        return Err(CipherError::malformed(text));
    }
    let (cipher, rest) = split(text, '-');
    let (mode, iv) = match rest.map(|rest| split(rest, '-')) {
        None | Some(("plain", None)) => ("cbc", Some("plain")),
        Some(parts) => parts,
    };
    let (iv, options) = split(iv.unwrap_or_default(), ':');
    let base = Base {
        algorithm: algorithm(text, cipher, mode)?,
        driver: None,
        essiv: None,
    };
    base.with_iv(text, Some(iv), options)
}

/// Parses the text after `capi:`, that is `api-iv:options`; the last hyphen and the last colon count.
fn parse_capi(text: &str, words: &str) -> Result<CipherSpec, CipherError> {
    let (words, options) = split_last(words, ':');
    let (api, iv) = split_last(words, '-');
    let queued = api
        .strip_prefix("cryptd(")
        .and_then(|inner| inner.strip_suffix(')'));
    let api = queued.unwrap_or(api);
    let wrapped = api
        .strip_prefix("essiv(")
        .and_then(|inner| inner.strip_suffix(')'));
    let base = match wrapped {
        None => Base::parse(text, api)?,
        Some(inner) => {
            let (inner, hash) = inner
                .rsplit_once(',')
                .ok_or_else(|| CipherError::malformed(text))?;
            Base::parse(text, inner)?.wrapped(text, hash)?
        }
    };
    let spec = base.with_iv(text, iv, options)?;
    Ok(spec.asynchronous(queued.is_some()))
}

/// A specification without its IV.
struct Base {
    algorithm: Algorithm,
    driver: Option<&'static str>,
    essiv: Option<EssivHash>,
}

impl Base {
    /// `mode(cipher)`, or a driver.
    fn parse(text: &str, api: &str) -> Result<Self, CipherError> {
        let driver = kernels().find(|kernel| kernel.driver == api);
        let template = api
            .split_once('(')
            .and_then(|(mode, rest)| Some((mode, rest.strip_suffix(')')?)));
        match (driver, template) {
            (Some(kernel), _) => Ok(Self {
                algorithm: kernel.algorithm,
                driver: Some(kernel.driver),
                essiv: None,
            }),
            (None, Some((mode, cipher))) => Ok(Self {
                algorithm: algorithm(text, in_template(mode, cipher), mode)?,
                driver: None,
                essiv: None,
            }),
            (None, None) => {
                let templates = Algorithm::ALL.iter().map(|algorithm| algorithm.name());
                let names = alternatives(templates.chain(["the name of an implementation"]));
                Err(CipherError::unsupported(text, "driver", api, names))
            }
        }
    }

    /// Wraps the specification in `essiv(…,hash)`.
    fn wrapped(self, text: &str, hash: &str) -> Result<Self, CipherError> {
        if !self.algorithm.takes_essiv() {
            let block_cipher = Algorithm::ALL.iter().filter(|a| a.cipher() == Cipher::Aes);
            let modes = block_cipher.filter(|a| a.takes_essiv());
            let modes = alternatives(modes.map(|a| a.mode().name()));
            let mode = self.algorithm.mode().name();
            return Err(CipherError::unsupported(text, "mode", mode, modes));
        }
        Ok(Self {
            essiv: Some(essiv_hash(text, hash)?),
            ..self
        })
    }

    fn with_iv(
        self,
        text: &str,
        iv: Option<&str>,
        options: Option<&str>,
    ) -> Result<CipherSpec, CipherError> {
        // A hyphen with nothing after it names no IV.
        let iv = iv.filter(|iv| !iv.is_empty());
        let names = self.ivs();
        let unsupported = |name: &str| {
            let names = alternatives(names.iter().map(|(name, _)| *name));
            CipherError::unsupported(text, "IV", name, names)
        };
        let (iv, essiv) = match (iv, options) {
            (None, _) if self.algorithm.mode().takes_iv() => {
                return Err(CipherError::missing_iv(text, self.algorithm.mode().name()));
            }
            (None, None) => (IvMode::Null, None),
            (Some("essiv"), Some(hash)) if self.takes_essiv() => {
                (IvMode::Plain64, Some(essiv_hash(text, hash)?))
            }
            (Some(name), None) => {
                let known = names.iter().find(|(known, _)| *known == name);
                (known.ok_or_else(|| unsupported(name))?.1, self.essiv)
            }
            (name, Some(options)) => {
                let name = name.unwrap_or_default();
                return Err(unsupported(&format!("{name}:{options}")));
            }
        };
        Ok(CipherSpec::from_parts(
            text,
            self.algorithm,
            iv,
            essiv,
            self.driver,
        ))
    }

    /// The IVs that may follow, by name.
    fn ivs(&self) -> Vec<(&'static str, IvMode)> {
        let benbi = match self.algorithm.mode() {
            Mode::Ctr => IvMode::BenbiOfBytes,
            _ => IvMode::Benbi,
        };
        let mut ivs = vec![
            ("null", IvMode::Null),
            ("plain", IvMode::Plain),
            ("plain64", IvMode::Plain64),
            ("plain64be", IvMode::Plain64be),
            ("benbi", benbi),
        ];
        let eboiv = !matches!(self.algorithm.mode(), Mode::Ctr | Mode::Adiantum);
        if eboiv && self.essiv.is_none() {
            ivs.push(("eboiv", IvMode::Eboiv));
        }
        if self.takes_essiv() {
            ivs.push(("essiv:sha256", IvMode::Plain64));
        }
        ivs
    }

    fn takes_essiv(&self) -> bool {
        self.algorithm.takes_essiv() && self.essiv.is_none()
    }
}

fn algorithm(text: &str, cipher: &str, mode: &str) -> Result<Algorithm, CipherError> {
    let of_cipher = Algorithm::ALL
        .iter()
        .filter(|a| a.cipher().name() == cipher);
    if of_cipher.clone().next().is_none() {
        let mut ciphers: Vec<_> = Algorithm::ALL.iter().map(|a| a.cipher().name()).collect();
        ciphers.dedup();
        let ciphers = alternatives(ciphers);
        return Err(CipherError::unsupported(text, "cipher", cipher, ciphers));
    }
    let known = of_cipher.clone().find(|a| a.mode().name() == mode);
    known.copied().ok_or_else(|| {
        let modes = alternatives(of_cipher.map(|a| a.mode().name()));
        CipherError::unsupported(text, "mode", mode, modes)
    })
}

/// The cipher in the kernel's template of a mode: `xts` and `lrw` are templates of `ecb(cipher)` or of `cipher`, and an
/// implementation stands for its cipher (`cra_driver_name` in the kernel's `crypto/` and `arch/x86/crypto/`).
fn in_template<'a>(mode: &str, inner: &'a str) -> &'a str {
    const IMPLEMENTATIONS: [&str; 5] = ["-generic", "-fixed-time", "-lib", "-aesni", "-asm"];
    let inner = match mode {
        "xts" | "lrw" => inner
            .strip_prefix("ecb(")
            .and_then(|cipher| cipher.strip_suffix(')'))
            .unwrap_or(inner),
        _ => inner,
    };
    let cipher = |ending: &&str| inner.strip_suffix(*ending);
    IMPLEMENTATIONS.iter().find_map(cipher).unwrap_or(inner)
}

fn essiv_hash(text: &str, name: &str) -> Result<EssivHash, CipherError> {
    let known = EssivHash::ALL.iter().find(|hash| hash.name() == name);
    known.copied().ok_or_else(|| {
        let names = alternatives(EssivHash::ALL.iter().map(|hash| hash.name()));
        CipherError::essiv_hash(text, name, names)
    })
}

/// Splits `text` at the first `separator`.
fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator)
        .map_or((text, None), |(before, after)| (before, Some(after)))
}

/// Splits `text` at the last `separator`.
fn split_last(text: &str, separator: char) -> (&str, Option<&str>) {
    text.rsplit_once(separator)
        .map_or((text, None), |(before, after)| (before, Some(after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_prints_as_it_was_read() {
        let ivs = "null plain plain64 plain64be benbi essiv:sha256 essiv:sha3-256 essiv:sm3";
        for mode in ["xts", "cbc", "ctr"] {
            for iv in ivs.split(' ') {
                let text = format!("aes-{mode}-{iv}");
                let spec: CipherSpec = text.parse().unwrap();
                assert_eq!(spec.to_string(), text);
                let rest = format!("{mode}-{iv}");
                assert_eq!(spec.to_luks(), ("aes", rest.as_str()));
                assert_eq!(CipherSpec::from_luks("aes", &rest), Ok(spec));
            }
        }
        for text in [
            "aes-xts-eboiv",
            "aes-cbc-eboiv",
            "aes-ecb",
            "aes-ecb-null",
            "aes-ecb-eboiv",
            "cipher_null-ecb",
            "cipher_null-ecb-null",
            "capi:xts(aes)-plain64",
            "capi:xts(ecb(aes-generic))-plain64",
            "capi:cbc(aes-fixed-time)-essiv:sha256",
            "capi:lrw(ecb(serpent))-plain64",
            "capi:cbc(aes)-essiv:sha256",
            "capi:ctr(aes)-essiv:blake2b-256",
            "capi:essiv(cbc(aes),sha256)-plain64",
            "capi:essiv(xts-aes-portable,sha3-256)-plain",
            "capi:cryptd(xts(aes))-plain64",
            "capi:cryptd(xts-aes-portable)-plain64",
            "capi:cryptd(essiv(cbc(aes),sha256))-plain64",
            "capi:ecb(aes)",
            "capi:ecb(cipher_null)-",
            "capi:ecb(cipher_null)-null",
            "capi:ecb-cipher_null-plain64",
            "capi:cbc-aes-portable-essiv:streebog256",
            "aes-lrw-benbi",
            "serpent-xts-plain64",
            "twofish-cbc-essiv:sha256",
            "camellia-ctr-plain64",
            "twofish-lrw-eboiv",
            "xchacha12,aes-adiantum-plain64",
            "xchacha20,aes-adiantum-benbi",
            "capi:xts(serpent)-plain64",
            "capi:essiv(lrw(camellia),sha256)-plain64",
            "capi:adiantum(xchacha12,aes)-plain64",
            "capi:cryptd(adiantum(xchacha20,aes))-plain64",
            "capi:adiantum-xchacha12-aes-portable-plain64",
        ] {
            assert_eq!(text.parse::<CipherSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_template_means_the_same_with_an_implementation_of_its_cipher() {
        for (text, plain) in [
            ("capi:xts(ecb(aes-generic))-plain64", "aes-xts-plain64"),
            ("capi:cbc(aes-fixed-time)-plain64", "aes-cbc-plain64"),
            ("capi:lrw(ecb(serpent))-plain64", "serpent-lrw-plain64"),
        ] {
            let spec = |text: &str| text.parse::<CipherSpec>().unwrap();
            assert!(spec(text).is_equivalent_to(&spec(plain)), "{text}");
        }
        for text in [
            "capi:cbc(ecb(aes))-plain64",
            "capi:xts(ecb(aes)-plain64",
            "capi:xts(aes-)-plain64",
        ] {
            assert!(text.parse::<CipherSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_words_mean() {
        let parse = |text: &str| -> CipherSpec { text.parse().unwrap() };
        let cbc = parse("aes-cbc-plain");
        for text in ["aes", "aes-plain", "capi:cbc(aes)-plain"] {
            let spec = parse(text);
            assert_eq!((spec.algorithm, spec.iv), (cbc.algorithm, cbc.iv), "{text}");
        }
        let essiv = parse("aes-cbc-essiv:sha256");
        for text in [
            "capi:cbc(aes)-essiv:sha256",
            "capi:essiv(cbc(aes),sha256)-plain64",
        ] {
            let spec = parse(text);
            assert_eq!((spec.essiv, spec.iv), (essiv.essiv, essiv.iv), "{text}");
        }
        let driver = parse("capi:essiv(cbc-aes-portable,sha256)-plain64be");
        assert_eq!(driver.driver(), Some("cbc-aes-portable"));
        assert_eq!((driver.essiv, driver.iv), (essiv.essiv, IvMode::Plain64be));
        assert_eq!(parse("aes-ctr-benbi").iv, IvMode::BenbiOfBytes);
        assert_eq!(parse("aes-cbc-benbi").iv, IvMode::Benbi);
        assert!(parse("capi:ecb(cipher_null)-null").is_null());
    }

    #[test]
    fn a_header_gets_the_long_form() {
        for (text, cipher, mode) in [
            ("aes", "aes", "cbc-plain"),
            ("aes-plain", "aes", "cbc-plain"),
            ("aes-ecb", "aes", "ecb"),
            ("aes-cbc-essiv:sha3-256", "aes", "cbc-essiv:sha3-256"),
            ("cipher_null-ecb", "cipher_null", "ecb"),
            ("serpent", "serpent", "cbc-plain"),
            (
                "xchacha12,aes-adiantum-plain64",
                "xchacha12,aes",
                "adiantum-plain64",
            ),
            ("capi:xts(aes)-plain64", "capi:xts(aes)", "plain64"),
            ("capi:ecb(aes)", "capi:ecb(aes)", ""),
        ] {
            let spec: CipherSpec = text.parse().unwrap();
            assert_eq!(spec.to_luks(), (cipher, mode));
        }
    }

    #[test]
    fn what_is_unwise_is_said() {
        let unwise = "aes aes-ecb aes-ctr-plain64 aes-cbc-plain64 aes-cbc-benbi aes-cbc-null \
            aes-xts-null cipher_null-ecb capi:essiv(cbc(aes),sha256)-null serpent-ecb \
            twofish-cbc-plain camellia-ctr-plain64 aes-lrw-benbi serpent-lrw-plain64be \
            xchacha12,aes-adiantum-null";
        for text in unwise.split_whitespace() {
            assert!(
                text.parse::<CipherSpec>().unwrap().weakness().is_some(),
                "{text}"
            );
        }
        let wise = "aes-xts-plain64 aes-xts-plain aes-cbc-essiv:sha256 aes-cbc-eboiv aes-xts-benbi \
            serpent-xts-plain64 twofish-cbc-essiv:sha256 xchacha12,aes-adiantum-plain64";
        for text in wise.split_whitespace() {
            assert!(
                text.parse::<CipherSpec>().unwrap().weakness().is_none(),
                "{text}"
            );
        }
    }

    /// A part that is not supported: the specification, which part, and what may stand there.
    #[test]
    fn what_is_not_supported_is_named_with_what_is() {
        const BLOCK_IVS: &str = "null, plain, plain64, plain64be, benbi, eboiv or essiv:sha256";
        const NUMBERS: &str = "null, plain, plain64, plain64be or benbi";
        const MODES: &str = "xts, cbc, ctr, ecb or lrw";
        const CIPHERS: &str =
            "aes, serpent, twofish, camellia, xchacha12,aes, xchacha20,aes or cipher_null";
        for (spec, part, name, supported) in [
            ("aes-xts-plain99", "IV", "plain99", BLOCK_IVS),
            ("aes-cbc-essiv", "IV", "essiv", BLOCK_IVS),
            ("aes-xts-plain64:sha256", "IV", "plain64:sha256", BLOCK_IVS),
            ("aes-xts-plain64 ", "IV", "plain64 ", BLOCK_IVS),
            ("aes-xts-plain64-x", "IV", "plain64-x", BLOCK_IVS),
            ("aes-xts-lmk", "IV", "lmk", BLOCK_IVS),
            (
                "aes-ctr-eboiv",
                "IV",
                "eboiv",
                "null, plain, plain64, plain64be, benbi or essiv:sha256",
            ),
            (
                "aes-ecb-essiv:sha256",
                "IV",
                "essiv:sha256",
                "null, plain, plain64, plain64be, benbi or eboiv",
            ),
            ("capi:essiv(cbc(aes),sha256)-eboiv", "IV", "eboiv", NUMBERS),
            (
                "capi:essiv(ecb(aes),sha256)",
                "mode",
                "ecb",
                "xts, cbc, ctr or lrw",
            ),
            (
                "capi:essiv(adiantum(xchacha12,aes),sha256)-plain64",
                "mode",
                "adiantum",
                "xts, cbc, ctr or lrw",
            ),
            (
                "xchacha12,aes-adiantum-essiv:sha256",
                "IV",
                "essiv:sha256",
                NUMBERS,
            ),
            ("xchacha12,aes-adiantum-eboiv", "IV", "eboiv", NUMBERS),
            ("xchacha20,aes-xts-plain64", "mode", "xts", "adiantum"),
            ("xchacha20,aes", "mode", "cbc", "adiantum"),
            ("serpent-pcbc-plain64", "mode", "pcbc", MODES),
            ("capi:adiantum(serpent)-plain64", "mode", "adiantum", MODES),
            ("cipher_null-cbc-plain", "mode", "cbc", "ecb"),
            ("cast6-xts-plain64", "cipher", "cast6", CIPHERS),
            ("capi:xts(cast6)-plain64", "cipher", "cast6", CIPHERS),
            ("aes:2-xts-plain64", "cipher", "aes:2", CIPHERS),
            ("AES-xts-plain64", "cipher", "AES", CIPHERS),
            ("", "cipher", "", CIPHERS),
        ] {
            let error = spec.parse::<CipherSpec>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the {part} {name:?} in the cipher specification {spec:?} is not supported; \
                     supported: {supported}"
                )
            );
        }
    }

    #[test]
    fn other_mistakes_are_explained() {
        for (spec, message) in [
            ("aes-cbc", "names no IV, which cbc needs"),
            ("aes-xts", "names no IV, which xts needs"),
            ("capi:ctr(aes)", "names no IV, which ctr needs"),
            ("xts(aes)-plain64", "neither of the form cipher-mode-iv nor"),
            (
                "capi:essiv(cbc(aes))-plain64",
                "neither of the form cipher-mode-iv nor",
            ),
            ("capi:xts-aes-ce-plain64", "the driver \"xts-aes-ce\""),
            ("capi:", "the driver \"\""),
            (
                "aes-cbc-essiv:sha512",
                "their digests are keys of the cipher: sha256, sha3-256,",
            ),
            ("aes-cbc-essiv:sha1", "the hash \"sha1\""),
            ("aes-cbc-essiv:", "the hash \"\""),
            ("capi:essiv(cbc(aes),sha512)-plain64", "the hash \"sha512\""),
        ] {
            let error = spec.parse::<CipherSpec>().unwrap_err().to_string();
            assert!(error.contains(message), "{spec}: {error}");
        }
        assert!(CipherSpec::from_luks("", "").is_err());
    }

    #[test]
    fn hostile_text_is_cut_short_and_escaped() {
        for form in [
            "\u{1b}[2J{}-xts-plain64",
            "capi:{}",
            "aes-{}",
            "aes-cbc-essiv:{}",
            "capi:{}()",
        ] {
            let spec = form.replace("{}", &"é\u{1b}".repeat(1 << 18));
            let message = spec.parse::<CipherSpec>().unwrap_err().to_string();
            assert!(message.len() < 2000, "{}", message.len());
            assert!(!message.contains('\u{1b}'));
        }
    }
}
