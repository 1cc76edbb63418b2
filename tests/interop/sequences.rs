//! Random histories of one header, written by Scrim and by `cryptsetup` in turn. A model knows which
//! key opens which slot; both programs must agree with it.
//!
//! 200 histories of 30 operations. `SCRIM_SEQUENCES=N` runs another number of them, with a check after
//! every operation; `SCRIM_SEQUENCE_SEED=S` runs only that one, which is printed when it fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::FileExt;
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering};

use scrim_seeded::Random;

use crate::support::{Place, have, scrim};
use crate::volume::CHEAP;

const SEQUENCES: u64 = 200;
const STEPS: usize = 30;
/// Passphrases, in files `key0` to `key9`.
const KEYS: usize = 10;
/// Slots that are used, so that they are soon all taken.
const SLOTS: u8 = 6;

/// A program that writes headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Scrim,
    Cryptsetup,
}

/// Expected content of a header.
#[derive(Debug, Clone)]
struct Model {
    luks1: bool,
    /// Number of conversions so far: each changes the layout.
    conversions: u32,
    /// The key that opens each slot.
    slots: BTreeMap<u8, usize>,
    /// Slots with a key of their own.
    unbound: BTreeMap<u8, usize>,
    tokens: Vec<u8>,
    /// Slots that are only tried when they are named.
    ignored: Vec<u8>,
    uuid: Option<String>,
}

/// An image in the middle of its history.
struct History {
    place: Place,
    random: Random,
    model: Model,
    backup: Option<Model>,
    /// True if one copy of a LUKS2 header is damaged, so that the other must stay.
    damaged: bool,
    volume_key: Vec<u8>,
    /// True if everything is checked after each step.
    thorough: bool,
    /// The steps that have been done.
    log: String,
}

impl History {
    fn new(seed: u64) -> Self {
        let place = Place::in_memory();
        for key in 0..KEYS {
            place.write(&format!("key{key}"), format!("passphrase {key}"));
        }
        let luks1 = seed.is_multiple_of(3);
        // Small: most of the time goes into starting programs.
        let options = match luks1 {
            true => "--type luks1 --offset 4096",
            false => "--type luks2 --offset 2048 --sector-size 512",
        };
        let cipher = "--cipher aes-cbc-essiv:sha256 --key-size 128";
        let common = format!("{options} {cipher} {CHEAP} --key-file key0 disk.img");
        place.sparse("disk.img", 3 << 20);
        if seed.is_multiple_of(2) {
            place.scrim(format!("format {common}").split(' '));
        } else {
            // Here all slots fill the area.
            let areas = match luks1 {
                true => "",
                false => "--luks2-metadata-size 16k --luks2-keyslots-size 384k",
            };
            place.cryptsetup(&format!("luksFormat {areas} {common}"));
        }
        let model = Model {
            luks1,
            conversions: 0,
            slots: BTreeMap::from([(0, 0)]),
            unbound: BTreeMap::new(),
            tokens: Vec::new(),
            ignored: Vec::new(),
            uuid: None,
        };
        let mut history = Self {
            place,
            random: Random::new(seed),
            model,
            backup: None,
            damaged: false,
            volume_key: Vec::new(),
            thorough: std::env::var_os("SCRIM_SEQUENCES").is_some(),
            log: format!("seed {seed}\n"),
        };
        history.volume_key = history.dump_volume_key();
        history
    }

    fn run(mut self) {
        for step in 0..STEPS {
            let tool = match step % 2 {
                0 => Tool::Scrim,
                _ => Tool::Cryptsetup,
            };
            self.step(tool);
            // Most steps are a check of the one before, as they take a key.
            if step % 5 == 0 || self.thorough {
                self.check_one(match tool {
                    Tool::Scrim => Tool::Cryptsetup,
                    Tool::Cryptsetup => Tool::Scrim,
                });
            }
        }
        self.check_all();
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.index(limit)
    }

    /// One of the slots with the volume key, and its key.
    fn a_slot(&mut self) -> (u8, usize) {
        let nth = self.below(self.model.slots.len());
        let (slot, key) = self.model.slots.iter().nth(nth).unwrap();
        (*slot, *key)
    }

    fn free_slots(&self) -> Vec<u8> {
        let used = |slot: &u8| self.model.is_used(*slot);
        (0..SLOTS).filter(|slot| !used(slot)).collect()
    }

    /// A key that opens nothing yet, so that each key opens at most one slot.
    fn a_new_key(&mut self) -> usize {
        let used = |key: &usize| {
            let mut keys = self.model.slots.values().chain(self.model.unbound.values());
            keys.any(|used| used == key)
        };
        let free: Vec<usize> = (0..KEYS).filter(|key| !used(key)).collect();
        let nth = self.below(free.len());
        free[nth]
    }

    fn step(&mut self, tool: Tool) {
        loop {
            let done = match self.below(16) {
                0..=2 => self.add(tool),
                3 | 4 => self.change(tool),
                5 => self.remove(tool),
                6 => self.kill(tool),
                7 => self.convert_key(tool),
                8 => self.save(tool),
                9 => self.restore(tool),
                10 => self.config(tool),
                11 => self.token(tool),
                12 => self.convert(tool),
                13 => self.set_uuid(tool),
                14 => self.add_unbound(tool),
                _ => self.damage_a_copy(),
            };
            if done {
                return;
            }
        }
    }

    fn add(&mut self, tool: Tool) -> bool {
        let free = self.free_slots();
        if free.is_empty() {
            return false;
        }
        let slot = free[self.below(free.len())];
        let (_, existing) = self.a_tried_slot();
        let key = self.a_new_key();
        self.must(
            tool,
            ["add-key", "luksAddKey"],
            &format!("{CHEAP} --key-file key{existing} --new-key-slot {slot} disk.img key{key}"),
        );
        self.model.slots.insert(slot, key);
        true
    }

    /// Like `a_slot`, but one of the slots that are tried without being named.
    fn a_tried_slot(&mut self) -> (u8, usize) {
        loop {
            let (slot, key) = self.a_slot();
            if !self.model.ignored.contains(&slot) {
                return (slot, key);
            }
        }
    }

    fn change(&mut self, tool: Tool) -> bool {
        let (slot, old) = self.a_tried_slot();
        let key = self.a_new_key();
        let named = self.below(2) == 0;
        let option = match named {
            true => format!("--key-slot {slot}"),
            false => String::new(),
        };
        let verbs = ["change-key", "luksChangeKey"];
        let line = format!("{CHEAP} {option} --key-file key{old} disk.img key{key}");
        self.must(tool, verbs, &line);
        self.model.slots.remove(&slot);
        // A key of LUKS1 moves to a free slot, unless its own was named.
        let moved = (0..8).find(|free| *free != slot && !self.model.is_used(*free));
        let now = match moved {
            Some(free) if self.model.luks1 && !named => free,
            _ => slot,
        };
        self.model.slots.insert(now, key);
        self.refused(tool, old);
        true
    }

    fn remove(&mut self, tool: Tool) -> bool {
        let (slot, key) = self.a_tried_slot();
        if self.model.tried() < 2 {
            return false;
        }
        let line = format!("--key-file key{key} disk.img");
        self.must(tool, ["remove-key", "luksRemoveKey"], &line);
        self.model.slots.remove(&slot);
        self.refused(tool, key);
        true
    }

    fn kill(&mut self, tool: Tool) -> bool {
        let unbound = self.model.unbound.first_key_value();
        let slot = match unbound {
            Some((slot, _)) if self.model.slots.len().is_multiple_of(2) => *slot,
            _ => self.a_slot().0,
        };
        let ignored = self.model.ignored.contains(&slot);
        let bound = self.model.slots.contains_key(&slot);
        if bound && !ignored && self.model.tried() < 2 {
            return false;
        }
        let remaining = self.model.slots.iter().find(|(other, _)| **other != slot);
        let Some((_, key)) = remaining else {
            return false;
        };
        let line = format!("--key-file key{key} disk.img {slot}");
        self.must(tool, ["kill-slot", "luksKillSlot"], &line);
        self.model.unbound.remove(&slot);
        self.model.ignored.retain(|other| *other != slot);
        if let Some(key) = self.model.slots.remove(&slot) {
            self.refused(tool, key);
        }
        true
    }

    fn convert_key(&mut self, tool: Tool) -> bool {
        if self.model.luks1 {
            return false;
        }
        let (slot, key) = self.a_slot();
        let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1001";
        let line = format!("{cost} --key-slot {slot} --key-file key{key} disk.img");
        self.must(tool, ["convert-key", "luksConvertKey"], &line);
        true
    }

    fn save(&mut self, tool: Tool) -> bool {
        if self.damaged {
            return false;
        }
        let _ = std::fs::remove_file(self.place.path("backup"));
        let line = "disk.img --header-backup-file backup";
        self.must(tool, ["header-backup", "luksHeaderBackup"], line);
        self.backup = Some(self.model.clone());
        true
    }

    fn restore(&mut self, tool: Tool) -> bool {
        let Some(saved) = self.backup.clone() else {
            return false;
        };
        // cryptsetup does not restore over the other version, nor over another layout.
        if tool == Tool::Cryptsetup && saved.conversions != self.model.conversions {
            return false;
        }
        let line = "disk.img --header-backup-file backup";
        self.must(tool, ["header-restore", "luksHeaderRestore"], line);
        self.model = saved;
        true
    }

    fn config(&mut self, tool: Tool) -> bool {
        if self.model.luks1 {
            return false;
        }
        let (slot, _) = self.a_slot();
        let ignored = self.model.ignored.contains(&slot);
        let line = match self.below(3) {
            0 => "--label a-label --subsystem tests".to_owned(),
            1 if self.model.tried() > 1 && !ignored => {
                self.model.ignored.push(slot);
                format!("--priority ignore --key-slot {slot}")
            }
            _ => {
                self.model.ignored.retain(|other| *other != slot);
                format!("--priority prefer --key-slot {slot}")
            }
        };
        self.must(tool, ["config", "config"], &format!("{line} disk.img"));
        true
    }

    fn token(&mut self, tool: Tool) -> bool {
        if self.model.luks1 {
            return false;
        }
        let verb = match self.model.tokens.pop() {
            Some(id) => format!("remove --token-id {id}"),
            None => {
                self.model.tokens.push(3);
                "add --token-id 3 --key-description some:key".to_owned()
            }
        };
        self.must(tool, ["token", "token"], &format!("{verb} disk.img"));
        true
    }

    /// Converts the header. Either program may refuse if the other version cannot represent its content.
    fn convert(&mut self, tool: Tool) -> bool {
        let version = if self.model.luks1 { 2 } else { 1 };
        let line = format!("--type luks{version} disk.img");
        match self.tool(tool, ["convert", "convert"], &line).status.code() {
            Some(0) => {
                self.model.luks1 = version == 1;
                self.model.conversions += 1;
                self.model.ignored.clear();
                self.model.tokens.clear();
            }
            Some(1) => self.log.push_str("  refused\n"),
            other => panic!("{}exit code {other:?}", self.log),
        }
        true
    }

    fn set_uuid(&mut self, tool: Tool) -> bool {
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.below(1_000_000));
        self.must(
            tool,
            ["luksUUID", "luksUUID"],
            &format!("--uuid {uuid} disk.img"),
        );
        self.model.uuid = Some(uuid);
        true
    }

    fn add_unbound(&mut self, tool: Tool) -> bool {
        let free = self.free_slots();
        if self.model.luks1 || free.is_empty() || !self.model.unbound.is_empty() {
            return false;
        }
        let slot = free[self.below(free.len())];
        let key = self.a_new_key();
        // With --unbound, cryptsetup takes only this option for the new slot, and the file here.
        let line = format!("{CHEAP} --unbound --key-size 128 --key-slot {slot} disk.img key{key}");
        self.must(tool, ["add-key", "luksAddKey"], &line);
        self.model.unbound.insert(slot, key);
        true
    }

    /// Damages one copy of the header. The next step has to find the other copy, and mends this one.
    fn damage_a_copy(&mut self) -> bool {
        if self.model.luks1 || self.damaged {
            return false;
        }
        self.damaged = true;
        let copy = self.below(2) as u64;
        let _ = writeln!(self.log, "damage copy {copy}");
        let disk = self.place.path("disk.img");
        let disk = std::fs::File::options().write(true).open(disk).unwrap();
        disk.write_all_at(b"damage", copy * 0x4000 + 0x1100)
            .unwrap();
        true
    }

    fn dump_volume_key(&self) -> Vec<u8> {
        let _ = std::fs::remove_file(self.place.path("volume-key"));
        let ignored = |slot: &u8| self.model.ignored.contains(slot);
        let mut slots = self.model.slots.iter();
        let (_, key) = slots.find(|(slot, _)| !ignored(slot)).unwrap();
        self.place.cryptsetup(&format!(
            "luksDump --dump-volume-key --key-file key{key} --volume-key-file volume-key disk.img"
        ));
        std::fs::read(self.place.path("volume-key")).unwrap()
    }

    /// The other program opens a slot that the model knows.
    fn check_one(&mut self, tool: Tool) {
        let (slot, key) = self.a_slot();
        let line = format!("--key-slot {slot} --key-file key{key} disk.img");
        self.must(tool, ["test-passphrase", "open --test-passphrase"], &line);
    }

    /// Both programs open what the model knows and nothing else, and the volume key is the same.
    fn check_all(&mut self) {
        for tool in [Tool::Scrim, Tool::Cryptsetup] {
            for (slot, key) in self.model.slots.clone() {
                let line = format!("--key-slot {slot} --key-file key{key} disk.img");
                self.must(tool, ["test-passphrase", "open --test-passphrase"], &line);
            }
            let opening: Vec<usize> = self.model.slots.values().copied().collect();
            let others = (0..KEYS).filter(|key| !opening.contains(key));
            let checked = if self.thorough { KEYS } else { 2 };
            for key in others.take(checked) {
                self.refused(tool, key);
            }
        }
        assert_eq!(self.dump_volume_key(), self.volume_key, "{}", self.log);
        let ours = self.place.scrim(["dump", "disk.img"]);
        let theirs = self.place.cryptsetup("luksDump disk.img");
        assert_eq!(ours, theirs, "{}", self.log);
        if let Some(uuid) = &self.model.uuid {
            assert!(ours.contains(uuid), "{}{ours}", self.log);
        }
        let shown = ours.matches(": luks2\n").count() + ours.matches(": ENABLED\n").count();
        let unbound = ours.matches("luks2 (unbound)\n").count();
        let known = (self.model.slots.len(), self.model.unbound.len());
        assert_eq!((shown, unbound), known, "{}{ours}", self.log);
    }

    /// A key that opens nothing any more. The model has only one slot for each key.
    fn refused(&mut self, tool: Tool, key: usize) {
        let line = format!("--key-file key{key} disk.img");
        let output = self.tool(tool, ["test-passphrase", "open --test-passphrase"], &line);
        // cryptsetup says 1 where there are unbound slots.
        let refused = match tool {
            Tool::Cryptsetup if !self.model.unbound.is_empty() => 1,
            _ => 2,
        };
        let code = output.status.code();
        assert!(
            code == Some(refused) || code == Some(2),
            "{}{output:?}",
            self.log
        );
    }

    fn must(&mut self, tool: Tool, verbs: [&str; 2], line: &str) {
        let output = self.tool(tool, verbs, line);
        assert!(output.status.success(), "{}{output:?}", self.log);
    }

    /// Runs either program; the verbs are Scrim's and cryptsetup's.
    fn tool(&mut self, tool: Tool, verbs: [&str; 2], line: &str) -> Output {
        let (program, verb) = match tool {
            Tool::Scrim => (scrim(), verbs[0]),
            Tool::Cryptsetup => ("cryptsetup", verbs[1]),
        };
        let _ = writeln!(self.log, "{tool:?} {verb} {line}");
        let asks = !matches!(verb, "test-passphrase" | "open --test-passphrase");
        let mut command = self.place.command(program);
        // The verb of a token's action stands before the options.
        let (action, line) = match verb {
            "token" => line.split_once(' ').unwrap(),
            _ => ("", line),
        };
        command
            .args(verb.split(' '))
            .args(action.split_whitespace());
        command.args(asks.then_some("--batch-mode"));
        let output = command.args(line.split_whitespace()).output().unwrap();
        let mends = tool == Tool::Cryptsetup || asks && verb != "header-backup";
        self.damaged &= !(mends && output.status.success());
        output
    }
}

impl Model {
    fn is_used(&self, slot: u8) -> bool {
        self.slots.contains_key(&slot) || self.unbound.contains_key(&slot)
    }

    /// Number of slots that are tried without being named.
    fn tried(&self) -> usize {
        let slots = self.slots.keys();
        slots.filter(|slot| !self.ignored.contains(slot)).count()
    }
}

#[test]
fn both_programs_agree_on_random_histories() {
    if !have(&["cryptsetup"]) {
        return;
    }
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    if let Some(seed) = number("SCRIM_SEQUENCE_SEED") {
        return History::new(seed).run();
    }
    let count = number("SCRIM_SEQUENCES").unwrap_or(SEQUENCES);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    History::new(seed).run();
                }
            });
        }
    });
}
