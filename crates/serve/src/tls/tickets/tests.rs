use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, XattrFlags, flock, getxattr, mknodat, removexattr,
    setxattr,
};
use rustix::io::Errno;
use rustls::server::ProducesTickets;

use super::file::rotated;
use super::{TicketKeys, TicketKeysFault, Tickets, rotate_ticket_keys};

/// A time, in seconds since 1970.
const NOW: u64 = 1_800_000_000;
const HOURS: u64 = 60 * 60;
const SESSION: &[u8] = b"the secret of a session";

/// A key in base64, distinct for each `seed`.
fn key(seed: u8) -> String {
    STANDARD.encode([seed; 32])
}

/// Keys of a file with these seeds, oldest first.
fn keys(seeds: &[u8]) -> TicketKeys {
    let lines: Vec<_> = seeds.iter().map(|&seed| key(seed)).collect();
    TicketKeys::parse(lines.join("\n").as_bytes()).expect("keys")
}

fn ticket(keys: &TicketKeys) -> Vec<u8> {
    keys.seal(NOW, SESSION).expect("a ticket")
}

fn opens(keys: &TicketKeys, ticket: &[u8]) -> bool {
    match keys.open(NOW, ticket) {
        Some(session) => session == SESSION,
        None => false,
    }
}

#[test]
fn a_ticket_has_its_session_and_shows_nothing_of_it() {
    for seeds in [&[1][..], &[1, 2], &[1, 2, 3]] {
        let keys = keys(seeds);
        let ticket = ticket(&keys);
        assert!(opens(&keys, &ticket));
        assert_ne!(ticket, self::ticket(&keys));
        let shown = |part: &[u8]| ticket.windows(part.len()).any(|window| window == part);
        assert!(!shown(b"secret") && !shown(&NOW.to_be_bytes()));
        assert_eq!(
            keys.open(NOW, &keys.seal(NOW, b"").expect("a ticket")),
            Some(Vec::new())
        );
    }
}

/// Each server makes tickets that every other one opens while a new file reaches them one after the other.
#[test]
fn the_last_key_only_opens_and_the_one_before_it_makes() {
    let (old, new) = (keys(&[1, 2]), keys(&[1, 2, 3]));
    assert!(opens(&new, &ticket(&old)) && opens(&old, &ticket(&new)));
    let alone = |seed| keys(&[seed]);
    assert!(opens(&alone(1), &ticket(&old)) && !opens(&alone(2), &ticket(&old)));
    assert!(opens(&alone(2), &ticket(&new)) && !opens(&alone(3), &ticket(&new)));
    // Every key opens, the last one too.
    for seed in 1..=3 {
        assert!(opens(&new, &ticket(&alone(seed))));
    }
    assert!(!opens(&new, &ticket(&alone(4))));
}

#[test]
fn a_ticket_of_a_key_that_was_rotated_out_is_not_opened() {
    let first = keys(&[1, 2]);
    let ticket = ticket(&first);
    assert!(opens(&keys(&[1, 2, 3]), &ticket));
    assert!(!opens(&keys(&[2, 3, 4]), &ticket));
}

#[test]
fn an_altered_ticket_is_not_opened() {
    let keys = keys(&[1, 2]);
    let ticket = ticket(&keys);
    for at in 0..ticket.len() {
        for bit in 0..8 {
            let mut altered = ticket.clone();
            altered[at] ^= 1 << bit;
            assert_eq!(keys.open(NOW, &altered), None, "byte {at}, bit {bit}");
        }
        assert_eq!(keys.open(NOW, &ticket[..at]), None, "{at} bytes");
    }
    let longer = [&ticket[..], b"x"].concat();
    assert_eq!(keys.open(NOW, &longer), None);
    // A name of another key of the same file does not make it a ticket of that key.
    let other = keys.seal(NOW, SESSION).expect("a ticket");
    let of_next = self::ticket(&self::keys(&[2]));
    let exchanged = [&of_next[..16], &other[16..]].concat();
    assert_eq!(keys.open(NOW, &exchanged), None);
}

#[test]
fn a_ticket_is_accepted_for_twelve_hours_and_from_a_clock_that_is_slightly_ahead() {
    let keys = keys(&[1, 2]);
    let ticket = ticket(&keys);
    for (now, is_accepted) in [
        (NOW, true),
        (NOW + 12 * HOURS, true),
        (NOW + 12 * HOURS + 1, false),
        (u64::MAX, false),
        (NOW - 5 * 60, true),
        (NOW - 5 * 60 - 1, false),
        (0, false),
    ] {
        assert_eq!(keys.open(now, &ticket).is_some(), is_accepted, "{now}");
    }
    assert_eq!(u64::from(keys.lifetime()), 12 * HOURS);
}

#[test]
fn long_tickets_are_neither_made_nor_opened() {
    let keys = keys(&[1]);
    let overhead = ticket(&keys).len() - SESSION.len();
    let longest = vec![7; 2048 - overhead];
    let ticket = keys.seal(NOW, &longest).expect("a ticket");
    assert_eq!(ticket.len(), 2048);
    assert_eq!(keys.open(NOW, &ticket), Some(longest.clone()));
    assert_eq!(keys.seal(NOW, &[&longest[..], b"x"].concat()), None);
    assert_eq!(
        keys.open(NOW, &[&ticket[..16], &[0; 65_000]].concat()),
        None
    );
}

#[test]
fn faults_name_the_line_and_nothing_of_it() {
    let (one, two) = (key(1), key(2));
    let too_many: Vec<_> = (1..=17).map(key).collect();
    let short = STANDARD.encode([3; 31]);
    let long = STANDARD.encode([3; 33]);
    let unpadded = two.trim_end_matches('=');
    // The last character has bits that stand for nothing.
    let odd = two.replace("I=", "J=");
    assert_ne!(odd, two);
    for (text, line) in [
        (format!("{one}\n\n# next\n{short}\n"), 4),
        (format!("{one}\r\n{long}\r\n"), 2),
        (format!("{unpadded}\n"), 1),
        (format!("{one}\n{odd}\n"), 2),
        (format!("{one} {two}"), 1),
        (format!(" {one}"), 1),
        (format!("{one}\n{two}\n{one}\n"), 3),
        (too_many.join("\n"), 17),
        (format!("{one}\n\0\n"), 2),
    ] {
        let fault = TicketKeys::parse(text.as_bytes()).expect_err(&text);
        let TicketKeysFault::Line { number, reason } = fault else {
            panic!("{text}: {fault:?}");
        };
        assert_eq!(number, line, "{text}");
        assert!(!reason.contains(&one[..8]) && !reason.contains(unpadded));
    }
    for text in ["", "\n\n", "# none\n"] {
        let fault = TicketKeys::parse(text.as_bytes()).expect_err(text);
        assert!(matches!(fault, TicketKeysFault::Empty), "{fault:?}");
    }
    let sixteen = too_many[..16].join("\n");
    assert!(TicketKeys::parse(sixteen.as_bytes()).is_ok());
    assert!(TicketKeys::parse(format!("# ours\n\n{one}\r\n{two}").as_bytes()).is_ok());
}

#[test]
fn keys_are_not_in_what_is_printed_of_them() {
    let keys = keys(&[1, 2]);
    assert_eq!(format!("{keys:?}"), "TicketKeys(2)");
    let tickets = Tickets::new(Some(keys)).expect("tickets");
    assert_eq!(format!("{tickets:?}"), "Tickets(TicketKeys(2))");
}

#[test]
fn shared_keys_are_exchanged_and_the_servers_own_remain() {
    let tickets = Tickets::new(None).expect("tickets");
    let own = tickets.encrypt(SESSION).expect("a ticket");
    assert_eq!(tickets.decrypt(&own).as_deref(), Some(SESSION));
    tickets.exchange(Some(keys(&[1])));
    let shared = tickets.encrypt(SESSION).expect("a ticket");
    assert_eq!(tickets.decrypt(&own), None);
    assert_eq!(tickets.decrypt(&shared).as_deref(), Some(SESSION));
    tickets.exchange(Some(keys(&[1, 2])));
    assert_eq!(tickets.decrypt(&shared).as_deref(), Some(SESSION));
    tickets.exchange(Some(keys(&[2, 3])));
    assert_eq!(tickets.decrypt(&shared), None);
    tickets.exchange(None);
    assert_eq!(tickets.decrypt(&shared), None);
    assert_eq!(tickets.decrypt(&own).as_deref(), Some(SESSION));
}

fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).expect("a file");
    found.permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_file_that_all_users_may_read_or_change_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    fs::write(&path, key(1)).expect("a file");
    for allowed in [0o400, 0o600, 0o440, 0o640, 0o660] {
        set_mode(&path, allowed);
        assert!(TicketKeys::read(&path).is_ok(), "{allowed:o}");
    }
    for refused in [0o644, 0o604, 0o602, 0o444, 0o666] {
        set_mode(&path, refused);
        let error = TicketKeys::read(&path).expect_err("refused");
        assert!(
            matches!(error.fault(), TicketKeysFault::Public),
            "{refused:o}"
        );
        let text = error.to_string();
        assert!(
            text.contains("chmod o-rw") && text.contains("tickets.keys"),
            "{text}"
        );
        assert!(rotate_ticket_keys(&path).is_err());
    }
}

#[test]
fn a_file_that_is_no_file_or_too_long_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    let refused = |words: &str| {
        let error = TicketKeys::read(&path).expect_err(words).to_string();
        assert!(
            error.contains(words) && error.contains("tickets.keys"),
            "{error}"
        );
    };
    refused("No such file");
    let owner = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::Fifo, owner, 0).expect("a pipe");
    refused("not a regular file");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, format!("{}\n#{}", key(1), "x".repeat(1 << 16))).expect("a file");
    set_mode(&path, 0o600);
    refused("longer than 64 KiB");
}

#[test]
fn a_rotation_makes_the_file_and_then_keeps_the_newest_three_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    let lines = || -> Vec<String> {
        let text = fs::read_to_string(&path).expect("a file");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(rotate_ticket_keys(&path).expect("made"), 2);
    assert_eq!(mode(&path), 0o600);
    let first = lines();
    let made = ticket(&TicketKeys::read(&path).expect("keys"));
    set_mode(&path, 0o640);
    assert_eq!(rotate_ticket_keys(&path).expect("rotated"), 3);
    assert_eq!(mode(&path), 0o640);
    let second = lines();
    assert_eq!(second[..2], first[..]);
    assert!(opens(&TicketKeys::read(&path).expect("keys"), &made));
    assert_eq!(rotate_ticket_keys(&path).expect("rotated"), 3);
    assert_eq!(lines()[..2], second[1..]);
    assert!(!opens(&TicketKeys::read(&path).expect("keys"), &made));
    // The file itself and nothing beside it.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn a_rotation_keeps_comments_and_fills_a_file_without_keys() {
    let text = format!("# ours\n{}\n{}\n\n# more\n{}", key(1), key(2), key(3));
    let (text, count) = rotated(text.as_bytes()).expect("rotated");
    let text = str::from_utf8(&text).expect("text");
    let kept = format!("# ours\n{}\n\n# more\n{}\n", key(2), key(3));
    assert!(count == 3 && text.starts_with(&kept), "{text}");
    for text in ["", "# ours\n", "# ours"] {
        let (text, count) = rotated(text.as_bytes()).expect("rotated");
        assert_eq!(count, 2);
        assert!(TicketKeys::parse(&text).is_ok());
    }
    let sixteen: Vec<_> = (1..=16).map(key).collect();
    let (text, count) = rotated(sixteen.join("\n").as_bytes()).expect("rotated");
    assert!(count == 3 && text.starts_with(key(15).as_bytes()));
    assert!(rotated(b"no key\n").is_err());
}

#[test]
fn a_rotation_follows_links_and_leaves_other_drafts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    let link = folder.path().join("link");
    symlink("tickets.keys", &link).expect("a link");
    assert!(rotate_ticket_keys(&link).is_err(), "it leads nowhere");
    let draft = folder.path().join(".tickets.keys.01234567");
    fs::write(&draft, "of another one").expect("a draft");
    assert_eq!(rotate_ticket_keys(&path).expect("made"), 2);
    assert_eq!(rotate_ticket_keys(&link).expect("rotated"), 3);
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    assert_eq!(fs::read(&draft).expect("a draft"), b"of another one");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
}

#[test]
fn a_rotation_waits_for_nobody_and_only_who_may_read_the_keys_can_lock_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    // Every user may lock the folder.
    let shared = File::open(folder.path()).expect("a folder");
    flock(&shared, FlockOperation::LockShared).expect("a lock");
    assert_eq!(rotate_ticket_keys(&path).expect("made"), 2);

    let locked = File::open(&path).expect("a file");
    flock(&locked, FlockOperation::LockExclusive).expect("a lock");
    let before = fs::read(&path).expect("a file");
    let error = rotate_ticket_keys(&path).expect_err("locked");
    assert!(matches!(error.fault(), TicketKeysFault::Busy), "{error}");
    assert_eq!(fs::read(&path).expect("a file"), before);
    drop(locked);
    assert_eq!(rotate_ticket_keys(&path).expect("rotated"), 3);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn of_rotations_at_a_time_each_adds_its_key_or_is_told_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    let first = thread::scope(|scope| {
        let started: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| rotate_ticket_keys(&path)))
            .collect();
        let ended = started
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ended.collect::<Vec<_>>()
    });
    // One has made the file, and the others have rotated it or done nothing.
    let made = first.iter().filter(|count| matches!(count, Ok(2)));
    assert_eq!(made.count(), 1, "{first:?}");
    for error in first.iter().filter_map(|count| count.as_ref().err()) {
        assert!(matches!(error.fault(), TicketKeysFault::Busy), "{error}");
    }
    assert!(TicketKeys::read(&path).is_ok());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn a_rotation_makes_no_file_that_servers_refuse() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    let comment = "#".repeat((1 << 16) - 46);
    let text = format!("{}\n{comment}\n", key(1));
    assert_eq!(text.len(), 1 << 16);
    fs::write(&path, &text).expect("a file");
    set_mode(&path, 0o600);
    assert!(TicketKeys::read(&path).is_ok());
    let error = rotate_ticket_keys(&path).expect_err("too long");
    assert!(matches!(error.fault(), TicketKeysFault::TooLong), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("a file"), text);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let text = format!("{}\n{}\n", key(1), &comment[45..]);
    let (rotated, count) = rotated(text.as_bytes()).expect("rotated");
    assert_eq!((rotated.len(), count), (1 << 16, 2));
}

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// An ACL by which one other user may read, and the group may not. Its mask is `mask`.
fn acl(mask: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries = [
        (0x01, 6, nobody), // the owner
        (0x02, 4, 1234),   // this user
        (0x04, 0, nobody), // the group
        (0x10, mask, nobody),
        (0x20, 0, nobody), // all others
    ];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, allowed, id) in entries {
        acl.extend(u16::to_le_bytes(tag));
        acl.extend(u16::to_le_bytes(allowed));
        acl.extend(u32::to_le_bytes(id));
    }
    acl
}

fn acl_of(path: &Path) -> Option<Vec<u8>> {
    let mut acl = vec![0; 1 << 16];
    match getxattr(path, ACL, &mut acl[..]) {
        Ok(length) => Some(acl[..length].to_vec()),
        Err(Errno::NODATA) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_rotation_keeps_an_acl_and_adds_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tickets.keys");
    rotate_ticket_keys(&path).expect("made");
    if let Err(error) = setxattr(&path, ACL, &acl(4), XattrFlags::empty()) {
        println!("skipped: no ACLs here: {error}");
        return;
    }
    for (mask, expected) in [(4, 0o640), (0, 0o600)] {
        setxattr(&path, ACL, &acl(mask), XattrFlags::empty()).expect("an ACL");
        assert_eq!(mode(&path), expected);
        rotate_ticket_keys(&path).expect("rotated");
        assert_eq!(mode(&path), expected);
        assert_eq!(acl_of(&path), Some(acl(mask)));
    }
    // New files of this folder get an ACL. The file that had none stays without, and a new one is for its owner only.
    removexattr(&path, ACL).expect("no ACL");
    set_mode(&path, 0o640);
    setxattr(folder.path(), DEFAULT_ACL, &acl(4), XattrFlags::empty()).expect("an ACL");
    rotate_ticket_keys(&path).expect("rotated");
    assert_eq!((mode(&path), acl_of(&path)), (0o640, None));
    fs::remove_file(&path).expect("removed");
    rotate_ticket_keys(&path).expect("made");
    assert_eq!((mode(&path), acl_of(&path)), (0o600, Some(acl(0))));
}
