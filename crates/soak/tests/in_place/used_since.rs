//! Images that a user has written to after the power was cut, and before the same command is given
//! again.

use std::ops::Range;
use std::sync::Arc;

use scrim_backend::sim::SimBackend;
use scrim_backend::{Backend, Durability};
use scrim_volume::{InPlaceError, Keep, LuksDevice, Room, is_half_overwritten, undo};

use super::{
    SHIFT, begin_or_go_on, clear, data, disk, encrypt, encrypt_until, grown, half_begun, in_device,
    plaintext,
};

/// A disk that a user has written to after the power was cut, and before the same command is given
/// again.
struct Between {
    /// The data as it was at first.
    data: Vec<u8>,
    room: Room,
    disk: Arc<SimBackend>,
    /// Contents of the disk before that, and now.
    before: Vec<u8>,
    used: Vec<u8>,
    /// Range that was written to, in bytes.
    written: Range<usize>,
}

/// Result of the command given again.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Encrypted,
    Grown,
    Used,
}

impl Between {
    fn new(data: &[u8], room: Room, survivor: &SimBackend, at: usize, written: &[u8]) -> Self {
        let disk = Arc::new(survivor.settled());
        let before = disk.contents();
        disk.write_at(at as u64, written, Durability::Durable)
            .unwrap();
        let used = disk.contents();
        Self {
            data: data.to_vec(),
            room,
            disk,
            before,
            used,
            written: at..at + written.len(),
        }
    }

    /// The data, with what was written in between.
    fn expected(&self) -> Vec<u8> {
        let mut expected = self.data.clone();
        expected[self.written.clone()].copy_from_slice(&self.used[self.written.clone()]);
        expected
    }

    /// Returns whether a user could use the start of the disk: nothing of a header is there.
    fn is_usable(&self) -> bool {
        self.before.starts_with(&self.data)
    }

    /// Gives the command again; where it refuses, does what its message says, each way.
    fn check(self) -> Outcome {
        let (disk, room) = (Arc::clone(&self.disk), self.room);
        let error = match encrypt(&disk, room) {
            Ok(disk) => {
                assert!(plaintext(disk, self.data.len()) == self.expected());
                return Outcome::Encrypted;
            }
            Err(error) => error,
        };
        let len = self.data.len();
        match error {
            InPlaceError::Grown { original, record } => {
                assert_eq!(original, len as u64);
                // What was filled is put back, and what the header's writing left behind it is cleared.
                let now = disk.contents();
                let rest = usize::try_from(SHIFT).unwrap().max(len);
                assert!(now[..len] == self.expected() && now[rest..] == self.used[rest..]);
                let mut cleared = now[len..rest].iter().zip(&self.used[len..rest]);
                assert!(cleared.all(|(now, used)| now == used || *now == 0));
                let cut = encrypt(&grown(&now[..len], room), room).unwrap();
                assert!(plaintext(cut, len) == self.expected());
                clear(&disk, record.unwrap());
                assert_eq!(undo(&*disk).unwrap(), None);
                let begun = begin_or_go_on(&disk, room).unwrap().unwrap();
                begun.clean().unwrap().finish().unwrap();
                assert!(plaintext(disk, len) == self.expected());
                Outcome::Grown
            }
            InPlaceError::Used {
                saved, len, keep, ..
            } => {
                assert!(disk.contents() == self.used, "{error}: something changed");
                assert!(!self.is_usable(), "nothing of a header was there");
                self.put_back(saved, len);
                self.keep(keep);
                Outcome::Used
            }
            error => panic!("{error}"),
        }
    }

    fn put_back(&self, saved: u64, len: u64) {
        let disk = Arc::new(SimBackend::holding(&self.used, 1));
        let mut start = vec![0; usize::try_from(len).unwrap()];
        disk.read_at(saved, &mut start).unwrap();
        disk.write_at(0, &start, Durability::Durable).unwrap();
        let mut expected = self.expected();
        let len = start.len().min(expected.len());
        expected[..len].copy_from_slice(&self.data[..len]);
        // Where the header was written behind the data it is for the user to say that the file is so long.
        let disk = match encrypt(&disk, self.room) {
            Err(InPlaceError::Grown { .. }) => {
                grown(&disk.contents()[..self.data.len()], self.room)
            }
            done => done.unwrap(),
        };
        let disk = encrypt(&disk, self.room).unwrap();
        assert!(plaintext(disk, expected.len()) == expected);
    }

    /// Keeps what was written since, and all that can be told of the rest.
    fn keep(&self, keep: Keep) {
        let (disk, len) = (Arc::clone(&self.disk), self.data.len());
        match keep {
            Keep::Cleared(at) => {
                clear(&disk, at);
                assert_eq!(undo(&*disk).unwrap(), None);
                let begun = begin_or_go_on(&disk, self.room).unwrap().unwrap();
                begun.clean().unwrap().finish().unwrap();
                assert!(plaintext(disk, len) == self.used[..len]);
            }
            Keep::Marked(at) => {
                disk.write_at(at, b"keep", Durability::Durable).unwrap();
                let kept = match encrypt(&disk, self.room) {
                    Err(InPlaceError::Grown { original, .. }) => {
                        assert_eq!(original, len as u64);
                        assert!(!is_half_overwritten(&*disk).unwrap());
                        encrypt(&grown(&disk.contents()[..len], self.room), self.room).unwrap()
                    }
                    done => done.unwrap(),
                };
                let kept = plaintext(kept, len);
                let expected = self.expected();
                assert!(kept[self.written.clone()] == expected[self.written.clone()]);
                let torn = self.written.start / 512 * 512..self.written.end.next_multiple_of(512);
                for (at, (kept, expected)) in kept.chunks(512).zip(expected.chunks(512)).enumerate()
                {
                    let is_known = !torn.contains(&(at * 512)) && !self.is_ambiguous(at * 512);
                    assert!(!is_known || kept == expected, "sector {at}");
                }
            }
        }
    }

    /// Zeros may be the header's or the user's.
    fn is_ambiguous(&self, at: usize) -> bool {
        self.used[at..].iter().take(512).all(|byte| *byte == 0)
    }
}

/// Writes of a user: offset in bytes, and what is written there.
type Uses = Vec<(usize, Vec<u8>)>;

/// Two sets of data, one that begins with zeros as ext4 does, and what a user writes to them.
fn data_and_uses(len: usize) -> [(Vec<u8>, Uses); 2] {
    let noise = data(len);
    let mut zeros = noise.clone();
    zeros[..1024].fill(0);
    let newer = b"what was written since".to_vec();
    let uses = vec![
        (0, newer.clone()),
        (0, vec![0; 512]),
        (0, vec![0; 4096]),
        (512, vec![7; 512]),
        (1024, newer.clone()),
        (len - newer.len(), newer),
    ];
    [(noise, uses.clone()), (zeros, uses)]
}

/// Data that was written between a power cut and the same command is in the volume, or the command
/// refuses and changes nothing; also if the original data starts with zeros.
#[test]
fn what_is_written_between_a_cut_and_the_next_attempt_is_never_rolled_back() {
    let mut outcomes = Vec::new();
    for (len, sector) in [(4608, 512), (SHIFT + 4096, 4096)] {
        for (data, uses) in data_and_uses(usize::try_from(len).unwrap()) {
            let room = Room::in_file(len, SHIFT, sector).unwrap();
            let whole = encrypt(&disk(&data, room), room).unwrap();
            for cut in 1..=whole.changes() {
                let (broken, done) = encrypt_until(&disk(&data, room), room, Some(cut));
                assert!(done.is_err());
                let survivor = broken.after_cut(cut);
                if LuksDevice::read(&survivor).is_ok() {
                    continue;
                }
                for (at, written) in &uses {
                    println!("{len} bytes, cut {cut}, {} bytes at {at}", written.len());
                    let between = Between::new(&data, room, &survivor, *at, written);
                    outcomes.push(between.check());
                }
            }
        }
    }
    outcomes.sort();
    outcomes.dedup();
    let all = [Outcome::Encrypted, Outcome::Grown, Outcome::Used];
    assert_eq!(outcomes, all, "the test meets every case");
}

/// A device keeps its length, so that the user does not have to say what belongs to it.
#[test]
fn a_device_that_was_used_before_its_header_was_begun_is_encrypted_as_it_is() {
    let (data, uses) = data_and_uses(usize::try_from(2 * SHIFT).unwrap())[1].clone();
    let size = Room::in_file(2 * SHIFT, SHIFT, 4096)
        .unwrap()
        .device()
        .unwrap();
    let room = Room::in_device(size, size - 2 * SHIFT, SHIFT, 4096).unwrap();
    let mut found = Vec::new();
    for (cut, survivor) in half_begun(|| disk(&data, room), room).iter().enumerate() {
        for (at, written) in &uses {
            let between = Between::new(&data, room, survivor, *at, written);
            let usable = between.is_usable();
            let outcome = between.check();
            assert!(
                !usable || outcome == Outcome::Encrypted,
                "cut {cut}: {outcome:?}"
            );
            found.push(outcome);
        }
    }
    assert!(
        found.contains(&Outcome::Used),
        "cut in the midst of the header"
    );
}

/// Each sector that shows what the header's writing leaves is put back, beside sectors that the user
/// has written.
#[test]
fn whole_sectors_that_were_written_since_are_kept_without_a_question() {
    let data = data(usize::try_from(2 * SHIFT).unwrap());
    let room = in_device(0);
    let mut put_back = 0;
    for survivor in half_begun(|| disk(&data, room), room) {
        let was_filled = is_half_overwritten(&*survivor).unwrap();
        let between = Between::new(&data, room, &survivor, 1024, &[7; 1024]);
        if between.check() == Outcome::Encrypted && was_filled {
            put_back += 1;
        }
    }
    assert!(put_back > 0);
}
