//! Every operation on a header, in turn by this crate and by `cryptsetup`: each accepts what the
//! other one left, and the right passphrases open.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::fs;
use std::path::PathBuf;

use common::{
    Bench, apply, cheap, have_cryptsetup, new_keyslot, parse_sound, secret, unlock_any, volume_key,
};
use scrim_luks::kdf::Hash;
use scrim_luks::{
    Backup, Edit, Flag, Header, InPlace, KeyslotCipher, LastKey, NewDigest, NewKeyslot, Placement,
    Plan, Priority, RestoreNote, Token, VolumeKey, dump, luks1,
};
use serde_json::{Value, json};

const COST: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const PASSPHRASES: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// An image that `cryptsetup` formatted, with the passphrase `p0` in slot 0. Each passphrase is in
/// a file of its own name.
struct Subject {
    bench: Bench,
    path: PathBuf,
    key: VolumeKey,
}

impl Subject {
    fn new(kind: &str) -> Self {
        let bench = Bench::new();
        for passphrase in PASSPHRASES {
            fs::write(bench.path(passphrase), passphrase).unwrap();
        }
        let path = bench.image("image", 20 << 20);
        let format =
            format!("luksFormat --type {kind} --key-size 512 --sector-size 512 {COST} image p0");
        let format = if kind == "luks1" {
            format.replace("--sector-size 512 ", "")
        } else {
            format
        };
        bench.cryptsetup(&format).unwrap();
        let header = parse_sound(&path);
        let key = unlock_any(&header, &path, "p0").unwrap();
        let key = VolumeKey::new(scrim_sys::memory::SecretBytes::copied_from(&key));
        Self { bench, path, key }
    }

    fn header(&self) -> Header {
        parse_sound(&self.path)
    }

    /// Applies a plan, which both tools then have to accept.
    fn ours(&self, plan: &Plan, opens: &[&str]) {
        apply(plan, &self.path);
        self.both_accept(opens);
    }

    fn theirs(&self, args: &str, opens: &[&str]) {
        self.bench.cryptsetup(args).unwrap();
        self.both_accept(opens);
    }

    fn both_accept(&self, opens: &[&str]) {
        let header = self.header();
        let shown = self.bench.cryptsetup("luksDump image").unwrap();
        assert_eq!(dump::text(&header, "image"), shown);
        assert_eq!(
            dump::json(&header),
            dump::json(&self.header()),
            "they wrote"
        );
        for passphrase in PASSPHRASES {
            let expected = opens.contains(&passphrase);
            let ours = header.keyslots_to_try(None).ok();
            let ours = ours.and_then(|_| unlock_any(&header, &self.path, passphrase));
            assert_eq!(ours.is_some(), expected, "{passphrase}, here");
            let open = format!("open --test-passphrase --key-file {passphrase} image");
            let theirs = self.bench.cryptsetup(&open);
            assert_eq!(theirs.is_ok(), expected, "{passphrase}, there: {theirs:?}");
        }
    }

    fn add(&self, passphrase: &str, slot: Option<u8>) -> Plan {
        let new = self.new_slot(slot);
        let mut header = self.header();
        let added = header.add_keyslot(&self.key, &secret(passphrase), &new);
        added.unwrap().plan
    }

    fn change(&self, from: u8, passphrase: &str, new: &NewKeyslot) -> Plan {
        let mut header = self.header();
        let passphrase = secret(passphrase);
        let changed = header.change_keyslot(from, &self.key, &passphrase, new, InPlace::Refuse);
        changed.unwrap().plan
    }

    fn edit(&self, edits: &[Edit]) -> Plan {
        self.header().edit(edits).unwrap()
    }

    fn new_slot(&self, slot: Option<u8>) -> NewKeyslot {
        let hash = match self.header() {
            Header::Luks1(header) => header.hash_spec().to_owned(),
            Header::Luks2(_) => "sha256".to_owned(),
        };
        NewKeyslot {
            slot,
            ..new_keyslot(&hash, &hash)
        }
    }

    fn bytes(&self, len: u64) -> Vec<u8> {
        let mut bytes = fs::read(&self.path).unwrap();
        bytes.truncate(usize::try_from(len).unwrap());
        bytes
    }
}

#[test]
fn key_slots_in_turn() {
    if !have_cryptsetup() {
        return;
    }
    for kind in ["luks1", "luks2"] {
        let subject = Subject::new(kind);
        subject.ours(&subject.add("p1", None), &["p0", "p1"]);
        let add = format!("luksAddKey {COST} --key-file p1 image p2 --key-slot 6");
        subject.theirs(&add, &["p0", "p1", "p2"]);
        // To a slot that is found, to a given one, and in the same one.
        let changed = subject.change(0, "p3", &subject.new_slot(None));
        subject.ours(&changed, &["p1", "p2", "p3"]);
        let changed = subject.change(6, "p0", &subject.new_slot(Some(7)));
        subject.ours(&changed, &["p0", "p1", "p3"]);
        let changed = subject.change(7, "p2", &subject.new_slot(Some(7)));
        subject.ours(&changed, &["p1", "p2", "p3"]);
        subject.theirs(
            &format!("luksChangeKey {COST} --key-file p2 image p0"),
            &["p0", "p1", "p3"],
        );
        let removed = subject.header().remove_keyslots(&[1], LastKey::Keep);
        subject.ours(&removed.unwrap(), &["p0", "p3"]);
        subject.theirs("luksRemoveKey --key-file p0 image", &["p3"]);
        subject.ours(&subject.header().wipe_unused_areas(), &["p3"]);

        let last = subject.header().keyslots()[0].id;
        let removal = subject.header().removal(&[last]);
        assert!(removal.loses_volume() && removal.lost == [last]);
        assert!(
            subject
                .header()
                .remove_keyslots(&[last], LastKey::Keep)
                .is_err()
        );
        subject.ours(&subject.header().erase().unwrap(), &[]);
        let by_key = fs::write(subject.bench.path("volume-key"), subject.key.expose());
        by_key.unwrap();
        subject.ours(&subject.add("p1", Some(3)), &["p1"]);
        subject.theirs(
            &format!("luksAddKey {COST} --volume-key-file volume-key image p2"),
            &["p1", "p2"],
        );
    }
}

#[test]
fn every_slot_of_luks1_is_made_and_removed() {
    if !have_cryptsetup() {
        return;
    }
    let subject = Subject::new("luks1");
    for slot in 1..8 {
        apply(&subject.add("p1", Some(slot)), &subject.path);
    }
    subject.both_accept(&["p0", "p1"]);
    let mut header = subject.header();
    let new = subject.new_slot(None);
    let changed = header
        .change_keyslot(0, &subject.key, &secret("p2"), &new, InPlace::Allow)
        .unwrap();
    assert!(changed.in_place);
    subject.ours(&changed.plan, &["p1", "p2"]);
    let removed = header.remove_keyslots(&[1, 2, 3, 4, 5, 6, 7], LastKey::Keep);
    subject.ours(&removed.unwrap(), &["p2"]);
}

#[test]
fn key_slots_of_other_costs_and_ciphers() {
    if !have_cryptsetup() {
        return;
    }
    let subject = Subject::new("luks2");
    let cipher = |spec: &str, key_size| {
        Some(KeyslotCipher {
            spec: spec.parse().unwrap(),
            key_size,
        })
    };
    for (kdf, cipher) in [
        ("argon2id", cipher("aes-xts-plain64", 32)),
        ("argon2i", cipher("aes-cbc-essiv:sha256", 32)),
        ("sha512", None),
    ] {
        let new = NewKeyslot {
            kdf: cheap(kdf),
            cipher,
            ..subject.new_slot(None)
        };
        subject.ours(&subject.change(0, "p0", &new), &["p0"]);
    }
    let shown = subject.bench.cryptsetup("luksDump image").unwrap();
    assert!(
        shown.contains("Cipher:     aes-cbc-essiv:sha256"),
        "{shown}"
    );
    subject.theirs(
        "luksConvertKey --key-file p0 --key-slot 0 --pbkdf argon2id --pbkdf-force-iterations 4 \
         --pbkdf-memory 32 --pbkdf-parallel 1 image",
        &["p0"],
    );
}

#[test]
fn unbound_keys_and_tokens() {
    if !have_cryptsetup() {
        return;
    }
    let subject = Subject::new("luks2");
    for (slot, len) in [(4, 16), (5, 100)] {
        let key = volume_key(len);
        let digest = NewDigest {
            hash: Hash::Sha512,
            iterations: 1000,
        };
        let new = subject.new_slot(Some(slot));
        let mut header = subject.header();
        let added = header.add_unbound_keyslot(&key, &secret("p1"), &new, digest);
        subject.ours(&added.unwrap().plan, &["p0"]);
        let dump = format!(
            "luksDump --unbound --key-slot {slot} --key-file p1 --volume-key-file unbound{slot} image"
        );
        subject.bench.cryptsetup(&dump).unwrap();
        let theirs = fs::read(subject.bench.path(&format!("unbound{slot}"))).unwrap();
        assert_eq!(theirs, key.expose());
        let material = common::material(&header, slot, &subject.path);
        let ours = header.unlock_keyslot(slot, &material, &secret("p1"));
        assert_eq!(ours.unwrap().expose(), key.expose());
    }
    let foreign =
        json!({"type": "own", "keyslots": ["0", "4"], "big": u64::MAX, "a": {"é": [1.5]}});
    fs::write(subject.bench.path("token"), foreign.to_string()).unwrap();
    subject.theirs("token import --json-file token --token-id 7 image", &["p0"]);
    let token = Token::keyring("a description", &[0, 5]);
    let id = subject.header().free_token().unwrap();
    subject.ours(&subject.edit(&[Edit::AddToken { id, token }]), &["p0"]);
    subject.theirs(
        "token add --key-description theirs --token-id 8 image",
        &["p0"],
    );
    let assigned = [
        Edit::UnassignToken { id: 0, slot: 5 },
        Edit::AssignToken { id: 8, slot: 4 },
    ];
    subject.ours(&subject.edit(&assigned), &["p0"]);
    assert_eq!(subject.header().removal(&[0]).tokens, [0]);
    let removed = subject.header().remove_keyslots(&[4], LastKey::Keep);
    subject.ours(&removed.unwrap(), &["p0"]);
    assert_eq!(subject.header().digests().len(), 2);
    let exported = subject.bench.cryptsetup("token export --token-id 7 image");
    let exported: Value = serde_json::from_str(&exported.unwrap()).unwrap();
    let mut expected = foreign;
    expected["keyslots"] = json!(["0"]);
    assert_eq!(exported, expected);
    subject.theirs("token remove --token-id 7 image", &["p0"]);
    subject.ours(&subject.edit(&[Edit::RemoveToken { id: 8 }]), &["p0"]);
    assert_eq!(subject.header().tokens().len(), 1);
}

#[test]
fn names_flags_and_priorities() {
    if !have_cryptsetup() {
        return;
    }
    let subject = Subject::new("luks2");
    let edits = [
        Edit::Label("été".to_owned()),
        Edit::Subsystem("own".to_owned()),
        Edit::Uuid(Some("a54ad080-5fb3-4fa7-9003-71601896ab02".to_owned())),
        Edit::Flags(Flag::ALL.to_vec()),
        Edit::Priority {
            slot: 0,
            priority: Priority::Prefer,
        },
    ];
    subject.ours(&subject.edit(&edits), &["p0"]);
    // Of both labels, cryptsetup removes the one that it is not given.
    subject.theirs("config --label theirs --subsystem own image", &["p0"]);
    subject.theirs("config --priority normal --key-slot 0 image", &["p0"]);
    let fewer = Edit::Flags(vec![Flag::AllowDiscards]);
    subject.ours(&subject.edit(&[fewer, Edit::Uuid(None)]), &["p0"]);
    subject.ours(&subject.edit(&[Edit::Flags(vec![])]), &["p0"]);
    let header = subject.header();
    assert_eq!(header.label().unwrap(), "theirs");
    assert_eq!(header.subsystem().unwrap(), "own");

    let subject = Subject::new("luks1");
    subject.ours(&subject.edit(&edits[2..3]), &["p0"]);
    assert!(subject.header().edit(&edits).is_err());
}

#[test]
fn backups_are_those_of_cryptsetup_and_go_back() {
    if !have_cryptsetup() {
        return;
    }
    for kind in ["luks1", "luks2"] {
        let subject = Subject::new(kind);
        apply(&subject.add("p1", None), &subject.path);
        let header = subject.header();
        let ours = header.backup(subject.bytes(header.backup_len())).unwrap();
        subject
            .bench
            .cryptsetup("luksHeaderBackup --header-backup-file theirs image")
            .unwrap();
        let theirs = fs::read(subject.bench.path("theirs")).unwrap();
        assert!(ours.bytes() == theirs, "{kind}");
        let backup = Backup::parse(theirs).unwrap();

        // After a change, and when the header is gone.
        let changed = subject.change(0, "p2", &subject.new_slot(None));
        subject.ours(&changed, &["p1", "p2"]);
        let restore = restore(&backup, &subject);
        let lost = RestoreNote::Lost {
            slots: vec![if kind == "luks1" { 2 } else { 0 }],
        };
        assert_eq!(restore.0, [lost, RestoreNote::Revived { slots: vec![0] }]);
        subject.ours(&restore.1, &["p0", "p1"]);
        let mut image = fs::read(&subject.path).unwrap();
        image[..4 << 20].fill(0x41);
        fs::write(&subject.path, image).unwrap();
        let restore = self::restore(&backup, &subject);
        assert_eq!(restore.0, [RestoreNote::NoHeader]);
        subject.ours(&restore.1, &["p0", "p1"]);
        subject.theirs(
            "luksHeaderRestore --header-backup-file theirs image",
            &["p0", "p1"],
        );
        fs::write(subject.bench.path("ours"), backup.bytes()).unwrap();
        subject.theirs(
            "luksHeaderRestore --header-backup-file ours image",
            &["p0", "p1"],
        );
    }
}

fn restore(backup: &Backup, subject: &Subject) -> (Vec<RestoreNote>, Plan) {
    let device = subject.bytes(backup.restore_len() as u64);
    let restore = backup
        .restore(&device, 20 << 20, Placement::Attached)
        .unwrap();
    (restore.notes, restore.plan)
}

#[test]
fn headers_are_converted_there_and_back() {
    if !have_cryptsetup() {
        return;
    }
    let subject = Subject::new("luks1");
    subject.ours(&subject.add("p1", Some(5)), &["p0", "p1"]);
    let header = subject.header();
    let device = subject.bytes(header.backup_len());
    let to_luks2 = header.convert_to_luks2(&device, 20 << 20).unwrap();
    subject.ours(&to_luks2.plan, &["p0", "p1"]);
    assert_eq!(subject.header().version(), 2);
    subject.ours(&subject.add("p2", None), &["p0", "p1", "p2"]);
    let to_luks1 = subject.header().convert_to_luks1().unwrap();
    subject.ours(&to_luks1.plan, &["p0", "p1", "p2"]);
    assert_eq!(subject.header().version(), 1);
    // Theirs moves every area, and back only if all eight fit behind LUKS2's headers.
    subject.theirs("convert --type luks2 image", &["p0", "p1", "p2"]);
    subject.theirs("convert --type luks1 image", &["p0", "p1", "p2"]);
    subject.theirs("convert --type luks2 image", &["p0", "p1", "p2"]);
    let to_luks1 = subject.header().convert_to_luks1().unwrap();
    subject.ours(&to_luks1.plan, &["p0", "p1", "p2"]);
    subject.ours(&subject.add("p3", None), &PASSPHRASES);
    subject.theirs(
        &format!("luksAddKey {COST} --key-file p1 image p0 --key-slot 7"),
        &PASSPHRASES,
    );

    // Full up to slot 5, there is nowhere to move slot 0 to without risk.
    for slot in [3, 4] {
        apply(&subject.add("p0", Some(slot)), &subject.path);
    }
    let header = subject.header();
    let device = subject.bytes(header.backup_len());
    let refused = header.convert_to_luks2(&device, 20 << 20).unwrap_err();
    assert!(
        refused.to_string().contains("remove one of key slots"),
        "{refused}"
    );

    // A detached header whose file ends before the last block would be too short for LUKS2.
    let spec = common::luks1_spec(common::detached(0));
    let detached = luks1::format(&spec, &volume_key(64), &secret("p0")).unwrap();
    let (header, device) = (detached.header, common::image(&detached.plan));
    let end = header.header_end();
    let converted = header.convert_to_luks2(&device, end).unwrap();
    assert!(converted.header.header_end() <= end);

    // A native LUKS2 header, until something is in the way.
    let subject = Subject::new("luks2");
    let to_luks1 = subject.header().convert_to_luks1().unwrap();
    subject.ours(&to_luks1.plan, &["p0"]);
    let header = subject.header();
    let device = subject.bytes(header.backup_len());
    let to_luks2 = header.convert_to_luks2(&device, 20 << 20).unwrap();
    subject.ours(&to_luks2.plan, &["p0"]);
    for (edit, why) in [
        (Edit::Label("x".to_owned()), "label"),
        (Edit::Flags(vec![Flag::AllowDiscards]), "flags"),
        (
            Edit::AddToken {
                id: 0,
                token: Token::keyring("x", &[]),
            },
            "tokens",
        ),
    ] {
        let mut header = subject.header();
        let _ = header.edit(&[edit]).unwrap();
        let refused = header.convert_to_luks1().unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let argon2 = NewKeyslot {
        kdf: cheap("argon2id"),
        ..subject.new_slot(None)
    };
    subject.ours(&subject.change(0, "p1", &argon2), &["p1"]);
    let refused = subject.header().convert_to_luks1().unwrap_err();
    assert!(refused.to_string().contains("Argon2"), "{refused}");
}

#[test]
fn what_is_no_backup_of_this_volume_is_refused() {
    if !have_cryptsetup() {
        return;
    }
    let (one, other) = (Subject::new("luks1"), Subject::new("luks2"));
    let header = one.header();
    let backup = header.backup(one.bytes(header.backup_len())).unwrap();
    let refuse = |backup: &Backup, subject: &Subject, placement| {
        let device = subject.bytes(backup.restore_len() as u64);
        let refused = backup.restore(&device, 20 << 20, placement).unwrap_err();
        refused.to_string()
    };
    let message = refuse(&backup, &other, Placement::Attached);
    assert!(
        message.contains("not the backup of this volume"),
        "{message}"
    );
    assert!(header.backup(one.bytes(1 << 20)).is_err());
    assert!(header.backup(one.bytes(3 << 20)).is_err());
    assert!(header.backup(other.bytes(header.backup_len())).is_err());
    let small = backup.restore(&[], 1 << 20, Placement::Attached);
    assert!(small.is_err());
}
