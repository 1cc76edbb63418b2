//! The input is all that a client sends to the HTTPS server before the handshake is over. Its first byte is
//! the length of the pieces in which the rest arrives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::tls;
use scrim_serve::tls::{HANDSHAKE_MAX, Handshake};

/// More bytes than any answer of the server has: its certificates and two HelloRetryRequests.
const ANSWER_MAX: usize = 16 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((&piece, sent)) = input.split_first() else {
        return;
    };
    let mut server = Handshake::new(tls::server()).unwrap();
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    let mut total = 0;
    for piece in sent.chunks(1 + usize::from(piece) * 8) {
        incoming.extend_from_slice(piece);
        total += piece.len();
        match server.advance(&mut incoming, &mut outgoing) {
            Ok(progress) => {
                // No input can finish a handshake by guessing.
                assert!(!progress.done && progress.taken <= incoming.len());
                incoming.drain(..progress.taken);
            }
            Err(error) => {
                assert!(!error.to_string().contains(char::is_control));
                assert!(server.advance(&mut incoming, &mut outgoing).is_err());
                break;
            }
        }
        assert!(outgoing.len() <= ANSWER_MAX && total <= 2 * HANDSHAKE_MAX);
    }
    assert!(server.finish().is_err());
});
