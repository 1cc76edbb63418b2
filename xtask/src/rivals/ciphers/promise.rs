//! The ratios of `rivals ciphers`: the two sides of each, its load, and its target.

use scrim_bench::stat::{median, paired_ratios};
use scrim_bench::{Better, SeriesId, Study};

use super::libraries::LIBRARIES;
use super::samples::{Recorded, Recording};

/// A ratio that is measured, with its target.
pub(super) struct Promise {
    pub(super) name: &'static str,
    pub(super) load: &'static str,
    ours: &'static str,
    peer: Peer,
    way: Way,
    pub(super) target: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    One(&'static str),
    /// The fastest of all libraries.
    Best,
    /// The fastest library of those that take one sector at a time.
    Serial,
}

#[derive(Clone, Copy)]
enum Way {
    Encrypt,
    Decrypt,
    /// The one of the two that is worse for Scrim.
    Worse,
}

const SERIAL: &[&str] = LIBRARIES.split_at(LIBRARIES.len() - 1).0;

const BOUND: Peer = Peer::One("bound");
const AWS_LC: Peer = Peer::One("awslc");
const RUSTCRYPTO: Peer = Peer::One("rustcrypto");
const IPSEC_MB: Peer = Peer::One("ipsecmb");

const fn promise(
    name: &'static str,
    load: &'static str,
    peer: Peer,
    way: Way,
    target: Option<f64>,
) -> Promise {
    Promise {
        name,
        load,
        ours: "scrim",
        peer,
        way,
        target,
    }
}

/// All ratios; those of one load are next to each other.
#[rustfmt::skip]
pub(super) const PROMISES: [Promise; 41] = {
    use Peer::{Best, One, Serial};
    use Way::{Decrypt, Encrypt, Worse};
    const ESSIV: &str = "aes256cbc_essiv_512b";
    const ESSIV_4K: &str = "aes256cbc_essiv_4k";
    [
        promise("aes256xts_512b_of_bound", "aes256xts_512b", BOUND, Worse, Some(0.93)),
        promise("aes256xts_512b_vs_best", "aes256xts_512b", Best, Worse, Some(1.7)),
        Promise {
            ours: "scrim_single",
            ..promise("aes256xts_512b_single_vs_run", "aes256xts_512b", One("scrim"), Worse, Some(0.95))
        },
        promise("aes256xts_4k_of_bound", "aes256xts_4k", BOUND, Worse, Some(0.93)),
        promise("aes256xts_4k_vs_best", "aes256xts_4k", Best, Worse, Some(1.05)),
        promise("aes128xts_4k_of_bound", "aes128xts_4k", BOUND, Worse, Some(0.90)),
        promise("aes128xts_4k_vs_best", "aes128xts_4k", Best, Worse, None),
        promise("aes256cbc_essiv_encrypt_vs_serial", ESSIV, Serial, Encrypt, Some(7.0)),
        promise("aes256cbc_essiv_encrypt_vs_ipsecmb", ESSIV, IPSEC_MB, Encrypt, Some(1.0)),
        promise("aes256cbc_essiv_decrypt_of_bound", ESSIV, BOUND, Decrypt, Some(0.90)),
        promise("aes256cbc_essiv_4k_encrypt_vs_serial", ESSIV_4K, Serial, Encrypt, None),
        promise("aes256cbc_essiv_4k_encrypt_vs_ipsecmb", ESSIV_4K, IPSEC_MB, Encrypt, None),
        promise("aes256cbc_decrypt_of_bound", ESSIV_4K, BOUND, Decrypt, Some(0.90)),
        promise("aes256cbc_decrypt_vs_best", ESSIV_4K, Best, Decrypt, None),
        promise("aes128ctr_of_bound", "aes128ctr_4k", BOUND, Worse, Some(0.90)),
        promise("aes128ctr_vs_best", "aes128ctr_4k", Best, Worse, None),
        promise("aes128ecb_of_bound", "aes128ecb_4k", BOUND, Worse, Some(0.90)),
        promise("aes128ecb_vs_best", "aes128ecb_4k", Best, Worse, None),
        promise("serpent256xts_4k_vs_best", "serpent256xts_4k", Best, Worse, Some(1.6)),
        promise("camellia256xts_4k_vs_best", "camellia256xts_4k", Best, Worse, Some(1.0)),
        promise("adiantum_4k_vs_rustcrypto", "adiantum_4k", RUSTCRYPTO, Worse, Some(3.0)),
        promise("aes128gcm_16k_vs_awslc", "aes128gcm_16k", AWS_LC, Worse, Some(1.05)),
        promise("aes256gcm_16k_vs_awslc", "aes256gcm_16k", AWS_LC, Worse, Some(1.05)),
        promise("aes256xts_cold_vs_best", "aes256xts_512b_cold", Best, Worse, Some(1.4)),
        promise("aes256xts_4k_cold_vs_best", "aes256xts_4k_cold", Best, Worse, Some(1.4)),
        promise("avx2_aes256xts_512b_of_bound", "avx2_aes256xts_512b", BOUND, Worse, Some(0.85)),
        promise("avx2_aes256xts_512b_vs_best", "avx2_aes256xts_512b", Best, Worse, Some(1.2)),
        promise("avx2_aes256xts_4k_of_bound", "avx2_aes256xts_4k", BOUND, Worse, Some(0.85)),
        promise("avx2_aes256xts_4k_vs_best", "avx2_aes256xts_4k", Best, Worse, Some(1.0)),
        promise("avx2_aes128ctr_of_bound", "avx2_aes128ctr_4k", BOUND, Worse, None),
        promise("avx2_aes128ctr_vs_best", "avx2_aes128ctr_4k", Best, Worse, Some(1.0)),
        promise("avx2_serpent256xts_4k_vs_best", "avx2_serpent256xts_4k", Best, Worse, Some(1.0)),
        promise("avx2_camellia256xts_4k_vs_best", "avx2_camellia256xts_4k", Best, Worse, Some(1.0)),
        promise("avx2_adiantum_4k_vs_rustcrypto", "avx2_adiantum_4k", RUSTCRYPTO, Worse, Some(3.0)),
        promise("avx2_aes128gcm_16k_vs_awslc", "avx2_aes128gcm_16k", AWS_LC, Worse, Some(2.0)),
        promise("avx2_aes256gcm_16k_vs_awslc", "avx2_aes256gcm_16k", AWS_LC, Worse, Some(1.8)),
        promise("aesni_aes256xts_512b_vs_best", "aesni_aes256xts_512b", Best, Worse, Some(1.2)),
        promise("aesni_aes256xts_4k_of_bound", "aesni_aes256xts_4k", BOUND, Worse, None),
        promise("aesni_aes256xts_4k_vs_best", "aesni_aes256xts_4k", Best, Worse, Some(1.0)),
        promise("aesni_aes128gcm_16k_vs_awslc", "aesni_aes128gcm_16k", AWS_LC, Worse, Some(1.0)),
        promise("aesni_aes256gcm_16k_vs_awslc", "aesni_aes256gcm_16k", AWS_LC, Worse, Some(1.0)),
    ]
};

impl Promise {
    /// Adds the ratio of the recorded series to the study, or a warning with the reason why it is missing.
    pub(super) fn compare(&self, study: &mut Study, recorded: &mut Recorded) {
        let mut worst: Option<(f64, SeriesId, SeriesId)> = None;
        for direction in self.way.directions() {
            let stem = format!("{}_{direction}", self.load);
            let ours = recorded.find(&format!("{stem}_{}", self.ours)).cloned();
            let peer = self.peer.find(study, recorded, &stem);
            let (Some(ours), Some(peer)) = (ours, peer) else {
                let name = self.name;
                return study.warn(format!("{name}: left out, a side of it was not measured"));
            };
            let ratios = paired_ratios(&ours.samples, &peer.samples, Better::Higher, false);
            let ratio = median(&ratios).unwrap_or_default();
            if worst.is_none_or(|(worst, ..)| ratio < worst) {
                worst = Some((ratio, ours.id, peer.id));
            }
        }
        if let Some((_, ours, peer)) = worst {
            study.ratio(self.name, ours, peer, self.target);
        }
    }
}

impl Way {
    fn directions(self) -> &'static [&'static str] {
        match self {
            Self::Encrypt => &["encrypt"],
            Self::Decrypt => &["decrypt"],
            Self::Worse => &["encrypt", "decrypt"],
        }
    }
}

impl Peer {
    /// Series of this peer at a load and a direction.
    fn find<'a>(
        self,
        study: &mut Study,
        recorded: &'a mut Recorded,
        stem: &str,
    ) -> Option<&'a Recording> {
        match self {
            Self::One(name) => recorded.find(&format!("{stem}_{name}")),
            Self::Best => recorded.fastest(study, stem, "best", &LIBRARIES),
            Self::Serial => recorded.fastest(study, stem, "serial", SERIAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_the_one_that_is_promised() {
        let targets: Vec<_> = PROMISES
            .iter()
            .filter_map(|promise| Some((promise.name, promise.target?)))
            .collect();
        let wanted = [
            ("aes256xts_512b_of_bound", 0.93),
            ("aes256xts_512b_vs_best", 1.7),
            ("aes256xts_512b_single_vs_run", 0.95),
            ("aes256xts_4k_of_bound", 0.93),
            ("aes256xts_4k_vs_best", 1.05),
            ("aes128xts_4k_of_bound", 0.90),
            ("aes256cbc_essiv_encrypt_vs_serial", 7.0),
            ("aes256cbc_essiv_encrypt_vs_ipsecmb", 1.0),
            ("aes256cbc_essiv_decrypt_of_bound", 0.90),
            ("aes256cbc_decrypt_of_bound", 0.90),
            ("aes128ctr_of_bound", 0.90),
            ("aes128ecb_of_bound", 0.90),
            ("serpent256xts_4k_vs_best", 1.6),
            ("camellia256xts_4k_vs_best", 1.0),
            ("adiantum_4k_vs_rustcrypto", 3.0),
            ("aes128gcm_16k_vs_awslc", 1.05),
            ("aes256gcm_16k_vs_awslc", 1.05),
            ("aes256xts_cold_vs_best", 1.4),
            ("aes256xts_4k_cold_vs_best", 1.4),
            ("avx2_aes256xts_512b_of_bound", 0.85),
            ("avx2_aes256xts_512b_vs_best", 1.2),
            ("avx2_aes256xts_4k_of_bound", 0.85),
            ("avx2_aes256xts_4k_vs_best", 1.0),
            ("avx2_aes128ctr_vs_best", 1.0),
            ("avx2_serpent256xts_4k_vs_best", 1.0),
            ("avx2_camellia256xts_4k_vs_best", 1.0),
            ("avx2_adiantum_4k_vs_rustcrypto", 3.0),
            ("avx2_aes128gcm_16k_vs_awslc", 2.0),
            ("avx2_aes256gcm_16k_vs_awslc", 1.8),
            ("aesni_aes256xts_512b_vs_best", 1.2),
            ("aesni_aes256xts_4k_vs_best", 1.0),
            ("aesni_aes128gcm_16k_vs_awslc", 1.0),
            ("aesni_aes256gcm_16k_vs_awslc", 1.0),
        ];
        assert_eq!(targets, wanted);
    }
}
