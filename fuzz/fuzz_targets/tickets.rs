//! The input is a change of a ticket, with the place of the change; the time of the ticket's making, its age, and the
//! session in it.
//!
//! The server itself takes the time from the clock, so the modules that make and open tickets are taken in.

#![no_main]

#[path = "../../crates/serve/src/tls/tickets/error.rs"]
#[allow(dead_code, reason = "the target has no files")]
mod error;
#[path = "../../crates/serve/src/tls/tickets/key.rs"]
mod key;
#[path = "../../crates/serve/src/tls/tickets/keys.rs"]
#[allow(dead_code, reason = "the target has no files")]
mod keys;

use std::sync::LazyLock;

use keys::TicketKeys;
use libfuzzer_sys::fuzz_target;

/// Keys of a server: one that only opens tickets, the one that makes them, and the next.
static KEYS: LazyLock<TicketKeys> = LazyLock::new(|| keys_of("ABC"));
/// Keys of a server that has missed a rotation, and the other way round.
static LATE: LazyLock<TicketKeys> = LazyLock::new(|| keys_of("AB"));
static AHEAD: LazyLock<TicketKeys> = LazyLock::new(|| keys_of("BCD"));
/// Keys of a server that has missed two rotations: it makes tickets by one that was rotated out.
static FOREIGN: LazyLock<TicketKeys> = LazyLock::new(|| keys_of("Z"));

const NAME: usize = 16;
/// Bytes of a ticket before its sealed part.
const HEAD: usize = NAME + 12;
/// Bytes that a ticket has more than its session: the head, a time and a tag.
const OVERHEAD: usize = HEAD + 8 + 16;
const TICKET_MAX: usize = 2048;

/// A file with a key of one letter's base64 for each letter.
fn keys_of(letters: &str) -> TicketKeys {
    let lines = letters.chars().map(|letter| {
        let characters = letter.to_string().repeat(42);
        format!("{characters}A=\n")
    });
    TicketKeys::parse(lines.collect::<String>().as_bytes()).expect("keys")
}

/// Returns whether a ticket of this time is accepted at another one: for twelve hours, and from a clock that is up to five
/// minutes ahead.
fn is_accepted(made: u64, now: u64) -> bool {
    match now.checked_sub(made) {
        Some(age) => age <= 12 * 60 * 60,
        None => made - now <= 5 * 60,
    }
}

/// A change of a ticket, after which it must not be opened.
fn changed(ticket: &[u8], change: u8, at: usize, session: &[u8]) -> Vec<u8> {
    let (made, place) = (0, at % ticket.len());
    let mut changed = ticket.to_vec();
    let other = |keys: &TicketKeys| keys.seal(made, b"").expect("a ticket");
    match change {
        0 => changed[place] ^= 1 << (at % 8),
        1 => changed.truncate(place),
        2 => changed.extend_from_slice(&ticket[place..]),
        // The name of another key of the same file.
        3 => changed[..NAME].copy_from_slice(&other(&LATE)[..NAME]),
        // The nonce of another ticket.
        4 => changed[NAME..HEAD].copy_from_slice(&other(&KEYS)[NAME..HEAD]),
        // Any bytes, and any bytes behind the name of a key.
        5 => changed = session.to_vec(),
        6 => changed
            .splice(NAME.., session.iter().copied())
            .for_each(drop),
        _ => changed = FOREIGN.seal(made, session).expect("a ticket"),
    }
    changed
}

fuzz_target!(|input: &[u8]| {
    let Some((&[change, low, high], rest)) = input.split_first_chunk() else {
        return;
    };
    let Some((made, rest)) = rest.split_first_chunk() else {
        return;
    };
    let Some((age, session)) = rest.split_first_chunk() else {
        return;
    };
    let at = u16::from_le_bytes([low, high]).into();
    let made = u64::from_le_bytes(*made);
    let now = made.saturating_add_signed(i32::from_le_bytes(*age).into());

    let Some(ticket) = KEYS.seal(made, session) else {
        assert!(session.len() + OVERHEAD > TICKET_MAX);
        return;
    };
    assert!(ticket.len() == session.len() + OVERHEAD && ticket.len() <= TICKET_MAX);
    let shows = |part: &[u8]| ticket[HEAD..].windows(part.len()).any(|some| some == part);
    assert!(session.len() < 8 || !shows(session));
    let expected = is_accepted(made, now).then_some(session);
    for keys in [&KEYS, &LATE, &AHEAD] {
        assert_eq!(keys.open(now, &ticket).as_deref(), expected);
    }
    assert_eq!(FOREIGN.open(made, &ticket), None);
    let changed = changed(&ticket, change % 8, at, session);
    assert_eq!(KEYS.open(made, &changed), None);
});
