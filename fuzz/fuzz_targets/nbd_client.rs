//! The input is all that a server sends: its side of the handshake, and then replies.

#![no_main]

use std::io::{self, Read, Write};

use libfuzzer_sys::fuzz_target;
use scrim_nbd::client::{Reply, handshake};
use scrim_nbd::wire::{SIMPLE_HEADER, SIMPLE_REPLY_MAGIC};

/// Length of the longest message of a client: an option with a name of four bytes.
const LONGEST: usize = 4 + 2 * (16 + 4 + 8);

struct Server<'a> {
    sent: &'a [u8],
    received: usize,
}

impl Read for Server<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.sent.read(buffer)
    }
}

impl Write for Server<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|sent: &[u8]| {
    let mut server = Server { sent, received: 0 };
    let export = handshake::greet(&mut server)
        .and_then(|greeting| handshake::go(&mut server, greeting, "disk"));
    assert!(server.received <= LONGEST);
    let export = match export {
        Ok(export) => export,
        Err(error) => {
            assert!(!error.to_string().contains(char::is_control));
            return;
        }
    };
    assert!(i64::try_from(export.size).is_ok());
    if let Some(blocks) = export.blocks {
        assert!(blocks.minimum.is_power_of_two() && blocks.minimum <= 64 << 10);
        assert!(blocks.maximum >= blocks.minimum);
    }
    for header in server.sent.chunks_exact(SIMPLE_HEADER) {
        let Ok(header) = <&[u8; SIMPLE_HEADER]>::try_from(header) else {
            return;
        };
        let is_reply = header.starts_with(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        match Reply::parse(header) {
            Ok(reply) => {
                assert!(is_reply);
                assert_eq!(reply.cookie.to_be_bytes(), header[8..]);
                assert_eq!(reply.error.is_none(), header[4..8] == [0; 4]);
            }
            Err(_) => assert!(!is_reply),
        }
    }
});
